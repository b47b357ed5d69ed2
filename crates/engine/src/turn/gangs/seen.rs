//! What of a pod its group sees: where that stays the same, nothing follows for the group, and nobody
//! looks at all of its members.

use std::sync::Arc;

use super::super::Engine;
use crate::fact::Uid;
use crate::gangs::Membership;
use crate::ledger::{Ask, Charged, NodeIndex};
use crate::moment::Moment;

/// What groups see of a member.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::turn) struct Seen {
    gang: Arc<Membership>,
    ask: Ask,
    charged: Option<Charged>,
    priority: i32,
    may_preempt: bool,
    deleting: bool,
    gated: bool,
    is_anothers: bool,
    started: Option<Moment>,
    nominated: Option<Box<str>>,
    bound: Option<NodeIndex>,
    astray: Option<Box<str>>,
    claim: Option<NodeIndex>,
    /// By which profile it gets a node, and whether somebody outside is asked about it; none where that is
    /// not our business.
    ours: Option<(usize, bool)>,
    /// Whether it looks for a node by itself.
    is_alone: bool,
}

impl Engine {
    /// What groups see of a pod; none where it is of no gang.
    pub(in crate::turn) fn seen_by_group(&self, uid: &Uid) -> Option<Seen> {
        let row = self.ledger.pod(uid).filter(|_| self.ledger.gangs.are_kept())?;
        let gang = row.gang.clone()?;
        Some(Seen {
            gang,
            ask: row.ask,
            charged: row.charged(),
            priority: row.priority,
            may_preempt: row.may_preempt,
            deleting: row.is_deleting(),
            gated: row.gated,
            is_anothers: row.is_anothers,
            started: row.started,
            nominated: row.nominated().map(Box::from),
            bound: row.bound,
            astray: row.astray.clone(),
            claim: row.claim,
            ours: self.unbound.get(uid).map(|own| (own.profile, own.consulted)),
            is_alone: self.queue.standing(uid).is_some(),
        })
    }
}
