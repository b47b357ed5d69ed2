//! Why pods wait, as people are told it and as the queue goes by it.

use std::fmt;
use std::sync::Arc;

use super::rejection;
use crate::decide::Decider;
use crate::examination::Examination;
use crate::fact::Uid;
use crate::gangs::GangRefusal;
use crate::ledger::{ClaimError, Ledger};
use crate::moment::Moment;
use crate::preemption::{LastResorts, Outcome, Room};
use crate::queue::Rejection;
use crate::reason::Reason;

/// Why a pod waits, and what is to be done for it meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Why no node can take it.
    pub examination: Arc<Examination>,
    /// What came of what is tried then.
    pub last_resorts: LastResorts,
    /// Who refused it.
    pub rejection: Rejection,
    /// Of which gang no member has a node because of it, where it is of one.
    pub gang: Option<GangRefusal>,
}

impl fmt::Display for Waiting {
    /// As kube-scheduler tells it in the event and in the condition of the pod, or Koordinator where it is
    /// of a gang.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(GangRefusal { group, pod, placed }) = &self.gang {
            let examination = &self.examination;
            write!(
                f,
                "GangGroup \"{group}\" gets rejected due to member Pod \"{pod}\" is unschedulable with \
                 reason \"{examination}\", alreadyWaitForBound: {placed}"
            )?;
        } else {
            self.examination.fmt(f)?;
        }
        match &*self.last_resorts.text {
            "" => Ok(()),
            _ if self.examination.nodes == 0 => Ok(()),
            text => write!(f, " {text}"),
        }
    }
}

impl Waiting {
    /// Of a pod that is of no gang.
    pub(crate) fn new(
        examination: Examination,
        last_resorts: LastResorts,
        rejection: Rejection,
    ) -> Self {
        Self { examination: Arc::new(examination), last_resorts, rejection, gang: None }
    }

    /// Why the pod waits, where that is nothing that nodes can help with.
    #[must_use]
    pub fn beyond_nodes(&self) -> Option<&Reason> {
        let everywhere = self.examination.everywhere.iter();
        let mut reasons = everywhere.flat_map(|(_, refusal)| &refusal.reasons);
        reasons.find(|reason| match reason {
            Reason::ResourceClaims | Reason::TooManyTerms { .. } | Reason::Malformed(_) => true,
            Reason::Cpus(reason) => reason.is_beyond_nodes(),
            _ => false,
        })
    }

    /// Why a pod waits that no node can take, as things are. Nothing changes.
    ///
    /// # Errors
    /// When the pod is gone.
    pub fn of(
        ledger: &mut Ledger,
        decider: &Decider,
        uid: &Uid,
        tie: u64,
        now: Moment,
    ) -> Result<Self, ClaimError> {
        let examination = decider.examine(ledger, uid)?;
        Self::after(examination, ledger, decider, uid, tie, now)
    }

    /// The same for a pod of which every node has said this.
    pub(super) fn after(
        examination: Examination,
        ledger: &mut Ledger,
        decider: &Decider,
        uid: &Uid,
        tie: u64,
        now: Moment,
    ) -> Result<Self, ClaimError> {
        let last_resorts = decider.last_resorts(ledger, uid, &examination, tie, now)?;
        let rejection = rejection(&examination);
        Ok(Self::new(examination, last_resorts, rejection))
    }

    /// The pods that are to be deleted to make room, and the node.
    #[must_use]
    pub fn room(&self) -> Option<&Room> {
        match &self.last_resorts.preemption {
            Some(Outcome::Room(room)) => Some(room),
            _ => None,
        }
    }
}
