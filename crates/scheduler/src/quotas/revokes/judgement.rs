//! Who has to go of the quotas of a tree that use more than they may.

use std::collections::{BTreeMap, BTreeSet};

use api::pod_group::GangId;
use chassis::key::Key;
use engine::fact::{PodRef, Uid};
use engine::ledger::{Ledger, PodRow};
use engine::needs::Amounts;
use engine::quota::{Holder, Preemptible, Tenure, View, revoke};

use super::turns::{Candidate, Members, turns};
use super::{Over, Revokes};
use crate::dismissals::{Cause, DismissOrder, Dismissal, Dismissals};
use crate::quotas::status::Overuse;

/// A pod that uses a quota, and how much.
type User<'a> = (&'a Uid, &'a PodRow, &'a Amounts);

/// Who has to go of the quotas of a tree. What a quota uses is what its own pods do and those of the quotas below:
/// these are judged first, and those of them who go, or are going, go for it as well.
pub(super) struct Judgement<'a> {
    ledger: &'a Ledger,
    view: View<'a>,
    /// Quotas of the tree that use more than they may.
    names: &'a BTreeSet<Box<str>>,
    over: &'a BTreeMap<Box<str>, Over>,
    line: &'a Dismissals,
    judged: BTreeMap<&'a str, Judged<'a>>,
    /// How many members of each gang have to go of the quotas that are judged.
    torn: BTreeMap<&'a GangId, usize>,
}

/// Who has to go of a quota.
#[derive(Default)]
struct Judged<'a> {
    /// Of its own pods, in this order.
    victims: Vec<(&'a Uid, &'a PodRow)>,
    /// What comes back from whoever goes of it and of the quotas below.
    leaving: Vec<&'a Amounts>,
}

impl<'a> Judgement<'a> {
    pub(super) fn of(
        ledger: &'a Ledger,
        (tree, names): (&str, &'a BTreeSet<Box<str>>),
        revokes: &'a Revokes,
    ) -> Option<Self> {
        let view = ledger.quotas.forest().last_view(tree)?;
        let Revokes { over, line, .. } = revokes;
        let (judged, torn) = (BTreeMap::new(), BTreeMap::new());
        Some(Self { ledger, view, names, over, line, judged, torn })
    }

    /// The pods of a quota that have to go. Objects of quotas have these uids.
    pub(super) fn orders(
        &mut self,
        quota: &'a str,
        uid: impl Fn(&Key) -> Option<Box<str>>,
    ) -> Vec<DismissOrder> {
        // Those below come before those above.
        let mut all = vec![quota];
        let mut place = 0;
        while let Some(own) = all.get(place) {
            all.extend(self.view.below(own));
            place += 1;
        }
        for own in all.into_iter().rev() {
            if !self.judged.contains_key(own) {
                let judged = self.judge(own);
                self.judged.insert(own, judged);
            }
        }
        let fact = self.view.register().get(quota);
        let key = Key::new(fact.map_or("", |own| &own.namespace), quota);
        let object = (key.clone(), uid(&key).unwrap_or_default());
        let standing = self.view.standing(quota).unwrap_or_default();
        let max = fact.map(|own| own.max.clone()).unwrap_or_default();
        let over = Overuse::of(&standing.used, &standing.runtime, &max);
        let words: Box<str> = over.map(|over| over.to_string()).unwrap_or_default().into();
        let victims = self.judged.get(quota).into_iter().flat_map(|own| own.victims.iter());
        let order = |(uid, row): &(&Uid, &PodRow)| DismissOrder {
            pod: PodRef::of(uid, row),
            cause: Cause::Quota,
            object: object.clone(),
            words: words.clone(),
        };
        victims.map(order).collect()
    }

    /// Who has to go of a quota, where the quotas right below it are judged.
    fn judge(&mut self, quota: &'a str) -> Judged<'a> {
        let mut leaving = Vec::new();
        for below in self.view.below(quota) {
            leaving.extend(
                self.judged.get_mut(below).into_iter().flat_map(|own| own.leaving.drain(..)),
            );
        }
        let over = self.over.get(quota);
        let mut movable = Vec::new();
        for user in self.ledger.quota_users(quota) {
            match self.tenure(over, user) {
                Tenure::Leaving => leaving.push(user.2),
                Tenure::Movable => movable.push(user),
                Tenure::Fixed => {}
            }
        }
        if !self.names.contains(quota) {
            return Judged { victims: Vec::new(), leaving };
        }
        let movable = self.in_turn(over, &movable);
        let stays = movable.iter().map(|user| (user.2, Tenure::Movable));
        let goes = leaving.iter().map(|amounts| (*amounts, Tenure::Leaving));
        let holders = stays.chain(goes).map(|(amounts, tenure)| Holder { amounts, tenure });
        let holders: Vec<Holder<'_>> = holders.collect();
        let standing = self.view.standing(quota).unwrap_or_default();
        let places = revoke(&standing.used, &standing.runtime, &holders).into_iter();
        let gone: Vec<User<'a>> = places.map(|place| movable[place]).collect();
        for gang in gone.iter().filter_map(|(_, row, _)| gang_of(row)) {
            *self.torn.entry(gang).or_default() += 1;
        }
        leaving.extend(gone.iter().map(|(_, _, amounts)| *amounts));
        Judged { victims: gone.into_iter().map(|(uid, row, _)| (uid, row)).collect(), leaving }
    }

    /// Whether a pod of a quota can go.
    fn tenure(&self, over: Option<&Over>, (uid, row, _): User<'a>) -> Tenure {
        let answer = over.and_then(|own| own.answers.get(uid));
        let may_go = row.is_bound() && row.preemptible == Preemptible::Yes;
        match answer {
            _ if row.goes() || self.line.is_asked(uid) => Tenure::Leaving,
            // It is not seen to go yet.
            Some(Dismissal::Goes) => Tenure::Leaving,
            // It is asked once in a round.
            Some(Dismissal::Stays) => Tenure::Fixed,
            None if may_go => Tenure::Movable,
            None => Tenure::Fixed,
        }
    }

    /// These pods of a quota, given from the least to the most important, in the order in which they go.
    fn in_turn(&self, over: Option<&Over>, movable: &[User<'a>]) -> Vec<User<'a>> {
        let mut gangs: BTreeMap<&GangId, Members> = BTreeMap::new();
        for gang in movable.iter().filter_map(|(_, row, _)| gang_of(row)) {
            if !gangs.contains_key(gang)
                && let Some(members) = self.members(gang)
            {
                gangs.insert(gang, members);
            }
        }
        let candidate = |(uid, row, _): &User<'a>| Candidate {
            stayed: over.is_some_and(|own| own.stayed.contains(*uid)),
            priority: row.priority,
            gang: gang_of(row),
        };
        let candidates: Vec<Candidate<'_>> = movable.iter().map(candidate).collect();
        turns(&candidates, &gangs).into_iter().map(|place| movable[place]).collect()
    }

    /// How many members of a gang stay, without those that have to go for quotas already; none where it does not say
    /// how many there must be.
    fn members(&self, gang: &GangId) -> Option<Members> {
        let gangs = &self.ledger.gangs;
        let min = gangs.terms(gang)?.min_available.filter(|min| *min > 0)?;
        let staying = gangs.staying(gang).filter(|uid| !self.line.is_asked(uid)).count();
        let torn = self.torn.get(gang).copied().unwrap_or_default();
        Some(Members { staying: staying.saturating_sub(torn), min: min as usize })
    }
}

/// The gang that a pod is of.
fn gang_of(row: &PodRow) -> Option<&GangId> {
    row.gang.as_deref().map(|own| &own.gang)
}
