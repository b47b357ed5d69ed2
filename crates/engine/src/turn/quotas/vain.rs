//! Pods for which it was found out that nobody can go, so that each of a lot need not find it out anew.
//!
//! One pod stands for all that ask the same, for as long as it waits itself: what it asks is kept by numbers,
//! which mean something else once it is gone. It stands for nobody any longer when others have got a node who
//! may go for it, or when it is looked again for it.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::clearing::Fruitless;
use crate::fact::Uid;
use crate::ledger::Charged;
use crate::turn::{Engine, Question};

/// For how many questions that is kept.
const KEPT_MAX: usize = 256;

/// Who can go for others is looked for on behalf of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::turn) enum Among {
    /// Only pods of the same quota may go.
    OwnQuota,
    /// So may those of others that use what was lent to them.
    AllQuotas,
}

#[derive(Debug)]
struct Answer {
    /// The pod for which nobody could go.
    uid: Uid,
    lot: Charged,
    among: Among,
    why: Fruitless,
}

/// What was found out, by what was asked.
#[derive(Debug, Default)]
pub(super) struct Vain(FxHashMap<Question, Answer>);

impl Engine {
    /// Nobody could go for a pod of a lot.
    pub(in crate::turn) fn note_vain(
        &mut self,
        (question, uid): (Question, &Uid),
        (lot, among): (Charged, Among),
        why: Fruitless,
    ) {
        let all = &mut self.lots.vain.0;
        if all.len() >= KEPT_MAX {
            all.clear();
        }
        all.insert(question, Answer { uid: uid.clone(), lot, among, why });
    }

    /// Why nobody can go for pods that ask this, where one that does waits and it is known of that.
    pub(in crate::turn) fn known_vain(&mut self, question: Question) -> Option<Fruitless> {
        let Answer { uid, lot, why, .. } = self.lots.vain.0.get(&question)?;
        let waits = self.queue.lot(uid) == Some(*lot);
        if waits && self.question(uid).1 == question {
            return Some(why.clone());
        }
        self.lots.vain.0.remove(&question);
        None
    }

    /// It is looked again for a pod who can go for it.
    pub(super) fn forget_vain(&mut self, uid: &Uid) {
        if self.queue.lot(uid).is_some() && self.unbound.get(uid).is_some() {
            let (_, question) = self.question(uid);
            self.lots.vain.0.remove(&question);
        }
    }

    /// Pods of some quotas have got a node: those that were refused by any of these may have others go.
    pub(super) fn forget_vain_of(&mut self, quotas: &BTreeSet<Box<str>>) {
        let refused = |lot| self.queue.refusing(lot).is_some_and(|quota| quotas.contains(quota));
        self.lots.vain.0.retain(|_, own| own.among == Among::OwnQuota && !refused(own.lot));
    }
}
