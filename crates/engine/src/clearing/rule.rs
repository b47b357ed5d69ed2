//! Who may have to go.

use std::collections::BTreeMap;

use super::unit::{Extent, Unit};
use crate::fact::Uid;
use crate::ledger::{Borrower, Ledger, NodeIndex, PodRow};
use crate::needs::Amounts;
use crate::quota::{Claim, Part, Preemptible, QuotaRef, RefusalReason, Wants};
use crate::speculate::Speculation;

/// Who may have to go for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Pods of a lower priority, unless they say that they never have to.
    Lower {
        /// The priority of the pod.
        priority: i32,
        /// What it would use that its quota borrows: who is guaranteed what he uses stays.
        borrower: Option<Borrower>,
    },
    /// Pods of a lower priority that are charged to the same quota; and those of any priority that use what
    /// their quotas have borrowed, where the pod is within what its own is guaranteed.
    Quota {
        /// The priority of the pod.
        priority: i32,
        /// Its quota.
        quota: QuotaRef,
        /// What is asked for, where its quota is guaranteed any of it: what others borrowed of that is taken back.
        wants: Option<Wants>,
    },
}

impl Rule {
    /// Whether a pod may have to go.
    pub(super) fn may_go(&self, ledger: &mut Ledger, uid: &Uid) -> bool {
        let Some(row) = ledger.pod(uid) else { return false };
        // What is held is not for others, and a reservation is no pod that could be deleted.
        if row.is_reservation() || row.preemptible == Preemptible::No {
            return false;
        }
        let is_lower = |priority: i32| row.priority < priority && !row.is_spared;
        match self {
            Self::Lower { priority, borrower } => {
                let owes = |own: &Borrower| ledger.owes(own, row);
                is_lower(*priority) && !borrower.as_ref().is_some_and(owes)
            }
            // Of whom nothing is heard, what he uses would be waited for in vain.
            Self::Quota { .. } if !ledger.can_be_seen_to_go(uid) => false,
            Self::Quota { priority, quota, wants } => match (quota_of(ledger, row), wants) {
                (Some(own), _) if own == *quota => {
                    is_lower(*priority) && !ledger.quotas.spares(&own)
                }
                // What was lent comes back, whoever has it: none of it was let in as that which stays.
                (Some(own), Some(wants)) => is_borrowed(ledger, uid, &own, (quota, &wants.due)),
                _ => false,
            },
        }
    }

    /// Whether pods may have to go together: each of them may, and all of what they use was only lent.
    pub(super) fn may_all_go(&self, ledger: &mut Ledger, pods: &[&Uid]) -> bool {
        if !pods.iter().all(|uid| self.may_go(ledger, uid)) {
            return false;
        }
        let Self::Quota { quota, wants: Some(wants), .. } = self else { return true };
        let mut lent: BTreeMap<QuotaRef, Amounts> = BTreeMap::new();
        for uid in pods {
            let charged = ledger.pod(uid).and_then(PodRow::charged);
            let Some(charged) = charged else { return false };
            match ledger.quotas.quota(charged.belonging) {
                Some(own) if own != quota => {
                    let amounts = &ledger.asks.requests.get(charged.amounts).charged;
                    lent.entry(own.clone()).or_default().add(amounts, 1);
                }
                _ => {}
            }
        }
        lent.iter().all(|(own, amounts)| is_lent(ledger, (own, amounts), (quota, &wants.due)))
    }

    /// Whether a gang is no reason for a pod to stay that may go: what it uses was lent, and some of the gang may
    /// not go at all. Else whoever has one pod that stays would keep all that is lent to the others.
    pub(super) fn parts(&self, ledger: &mut Ledger, uid: &Uid, gang: &[Uid]) -> bool {
        let Self::Quota { quota, wants: Some(_), .. } = self else { return false };
        let own = ledger.pod(uid).and_then(|row| quota_of(ledger, row));
        own.is_some_and(|own| own != *quota) && !gang.iter().all(|uid| self.may_go(ledger, uid))
    }

    /// Whether it says the same of a unit whoever else has gone.
    pub(super) fn is_lasting(&self, unit: &Unit) -> bool {
        matches!(self, Self::Lower { borrower: None, .. }) && unit.extent == Extent::Pod
    }

    /// Whether it is of any use that a pod goes which may: of what is taken back it uses something that is
    /// lacking where it is, and whoever takes it back is guaranteed all that is.
    pub(super) fn helps(&self, ledger: &mut Ledger, uid: &Uid) -> bool {
        let Self::Quota { quota, wants: Some(wants), .. } = self else { return true };
        let Some(row) = ledger.pod(uid) else { return false };
        let Some((own, node)) = quota_of(ledger, row).zip(row.node()) else { return false };
        if own == *quota {
            return true;
        }
        let lacking = lacking(ledger, node, quota, &wants.all);
        !lacking.names().any(|name| wants.undue.iter().any(|own| **own == *name))
            && is_borrowed(ledger, uid, &own, (quota, &lacking))
    }

    /// Whether units may go, one after the other, by the ledger as it is now; they do, in thought.
    pub(super) fn sends(&self, thought: &mut Speculation<'_>, units: &[Unit]) -> bool {
        self.is_due(thought.ledger_mut())
            && units.iter().all(|unit| {
                let ledger = thought.ledger_mut();
                let is_there = |uid: &&Uid| ledger.pod(uid).is_some_and(PodRow::is_placed);
                let there: Vec<&Uid> = unit.pods.iter().filter(is_there).collect();
                let may_go = self.may_all_go(ledger, &there);
                unit.leave(thought);
                may_go
            })
    }

    /// Whether what is taken back is still within what the quota is guaranteed.
    fn is_due(&self, ledger: &mut Ledger) -> bool {
        let Self::Quota { quota, wants: Some(wants), .. } = self else { return true };
        let view = ledger.quotas.forest_mut().view(&quota.tree);
        let part = Part { quota: &quota.name, amounts: &wants.all };
        let now = view.and_then(|view| view.wants(part));
        now.is_some_and(|now| wants.due.names().all(|name| now.due.of(name) > 0))
    }
}

fn quota_of(ledger: &Ledger, row: &PodRow) -> Option<QuotaRef> {
    ledger.quotas.quota(row.charged()?.belonging).cloned()
}

/// Whether what a pod uses of something that is wanted its quota has only borrowed.
fn is_borrowed(
    ledger: &mut Ledger,
    uid: &Uid,
    own: &QuotaRef,
    other: (&QuotaRef, &Amounts),
) -> bool {
    let Some(row) = ledger.pod(uid) else { return false };
    let Some(charged) = row.charged() else { return false };
    if row.goes() {
        // It costs nobody anything.
        return true;
    }
    let amounts = ledger.asks.requests.get(charged.amounts).charged.clone();
    is_lent(ledger, (own, &amounts), other)
}

/// The same of so much that a quota uses.
fn is_lent(
    ledger: &mut Ledger,
    (own, amounts): (&QuotaRef, &Amounts),
    (of, wants): (&QuotaRef, &Amounts),
) -> bool {
    if own.tree != of.tree {
        return false;
    }
    let own_part = Part { quota: &own.name, amounts };
    let wanted = Claim::Due(Part { quota: &of.name, amounts: wants });
    let view = ledger.quotas.forest_mut().view(&own.tree);
    view.is_some_and(|view| view.is_borrowed(own_part, wanted))
}

/// What of this a node has too little of, or a quota has no room for.
fn lacking(ledger: &mut Ledger, node: NodeIndex, quota: &QuotaRef, wants: &Amounts) -> Amounts {
    let refusal = ledger.quotas.forest_mut().admit(quota, wants, Preemptible::Yes).err();
    let refused: Vec<Box<str>> = match refusal.map(|own| own.reason) {
        Some(RefusalReason::Exceeded { excesses, .. }) => {
            excesses.into_iter().map(|own| own.resource).collect()
        }
        _ => Vec::new(),
    };
    let (resources, mut lacking) = (&ledger.nodes.resources, Amounts::default());
    let allowed = resources.allowed(node);
    for name in wants.names() {
        let free = allowed.of(name).saturating_sub(resources.requested(node, name));
        if free < wants.of(name) || refused.iter().any(|own| **own == *name) {
            lacking.put(name, wants.of(name));
        }
    }
    lacking
}
