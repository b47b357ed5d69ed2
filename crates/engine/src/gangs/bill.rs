//! What members of a group ask of a quota together.

use std::collections::{BTreeMap, BTreeSet};

use api::pod_group::GangId;

use crate::fact::Uid;
use crate::ledger::{Charged, Ledger};
use crate::needs::Amounts;
use crate::quota::Preemptible;

impl Ledger {
    /// The least that so many members of each gang ask of a quota in all, whichever these are, and of each resource
    /// by itself: while the quota has less than that, no plan can come out well. Those count that are held against it
    /// with one that is charged like this.
    pub(crate) fn gang_floor<'a>(
        &self,
        members: impl IntoIterator<Item = (&'a GangId, &'a Uid)>,
        least: &BTreeMap<GangId, usize>,
        like: Charged,
    ) -> Amounts {
        let nothing = Amounts::NOTHING;
        let mut asked: BTreeMap<&GangId, Vec<&Amounts>> = BTreeMap::new();
        for (gang, uid) in members {
            let amounts = self.amounts_beside(uid, like).unwrap_or(&nothing);
            asked.entry(gang).or_default().push(amounts);
        }
        let mut floor = Amounts::default();
        for (gang, asked) in asked {
            let needed = least.get(gang).copied().unwrap_or(0);
            floor.add(&smallest(&asked, needed), 1);
        }
        floor
    }

    /// What these ask of a quota in all, of those that are held against it with one that is charged like this.
    pub(crate) fn sum_beside<'a>(
        &self,
        members: impl IntoIterator<Item = &'a Uid>,
        like: Charged,
    ) -> Amounts {
        let mut sum = Amounts::default();
        let amounts = members.into_iter().filter_map(|uid| self.amounts_beside(uid, like));
        amounts.for_each(|amounts| sum.add(amounts, 1));
        sum
    }

    /// What one asks of the quota of another. Whoever may not have to make room is held against what the others of
    /// that sort use, too.
    fn amounts_beside(&self, uid: &Uid, like: Charged) -> Option<&Amounts> {
        let own = self.pod(uid)?.charged()?;
        let is_held = like.preemptible == Preemptible::Yes || own.preemptible == like.preemptible;
        let quota = |charged: Charged| self.quotas.quota(charged.belonging);
        let counts = is_held && quota(own) == quota(like);
        counts.then(|| &self.asks.requests.get(own.amounts).charged)
    }
}

/// The smallest amounts of each resource that so many of these ask for.
fn smallest(asked: &[&Amounts], needed: usize) -> Amounts {
    let mut sum = Amounts::default();
    let names: BTreeSet<&str> = asked.iter().flat_map(|own| own.names()).collect();
    for name in names {
        let mut amounts: Vec<i64> = asked.iter().map(|own| own.of(name)).collect();
        amounts.sort_unstable();
        let least = amounts.into_iter().take(needed).fold(0, i64::saturating_add);
        if least > 0 {
            sum.put(name, least);
        }
    }
    sum
}
