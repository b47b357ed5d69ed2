//! Which gangs there are, and which pods are theirs.

use std::collections::{BTreeMap, BTreeSet};

use api::pod_group::{GangId, GangTerms, IncompleteStart, MatchPolicy};

use super::{Ledger, PodRow, Way};
use crate::fact::Uid;
use crate::gangs::{Membership, Settings};
use crate::moment::Moment;

#[derive(Debug, Clone, Default)]
struct Gang {
    /// What its object says.
    object: Option<Box<GangTerms>>,
    /// What its pods say, by when they were made.
    told: BTreeMap<(Moment, Uid), Box<GangTerms>>,
    members: BTreeSet<Uid>,
    /// Members that have a node, in thought as well, and are not being deleted.
    placed: BTreeSet<Uid>,
    /// Members that are bound and do not go.
    staying: BTreeSet<Uid>,
    /// How many members were bound in this start and have ended, since as many stayed as there must be.
    ended: usize,
    /// Whether any member was ever bound, for as long as its object is there or a member stays, and until its start
    /// is taken back.
    has_started: bool,
    /// Whether as many members were bound in this start as there must be, those that have ended among them.
    was_whole: bool,
}

impl Gang {
    fn is_empty(&self) -> bool {
        self.object.is_none() && self.members.is_empty()
    }

    /// Follows what has happened to its members, or to what is said of it.
    fn settle(&mut self) {
        let min = self.terms().and_then(|terms| terms.min_available).filter(|min| *min > 0);
        let min = min.map_or(usize::MAX, |min| min as usize);
        if self.staying.len() >= min {
            self.ended = 0;
        }
        self.was_whole |= self.staying.len() + self.ended >= min;
        let stays = !self.staying.is_empty();
        self.has_started = stays || self.has_started && self.object.is_some() && !self.is_over();
        if !self.has_started {
            (self.ended, self.was_whole) = (0, false);
        }
    }

    /// Whether all were deleted that it had started with, so that it starts anew: after it was whole, or where its
    /// object wants nobody who is there alone. Where members have ended, fewer may come after them than there must
    /// be to start.
    fn is_over(&self) -> bool {
        let is_undone = || {
            let terms = self.terms();
            terms.is_some_and(|terms| terms.incomplete_start == IncompleteStart::Delete)
        };
        self.staying.is_empty() && self.ended == 0 && (self.was_whole || is_undone())
    }

    /// What counts: what its object says, or else the first pod that says how many there must be.
    fn terms(&self) -> Option<&GangTerms> {
        let object = self.object.as_deref();
        let readable = || self.told.values().find(|terms| terms.min_available.is_some());
        let any = || readable().or_else(|| self.told.values().next()).map(|terms| &**terms);
        object.or_else(any)
    }
}

/// All gangs.
#[derive(Debug, Clone, Default)]
pub struct Gangs {
    settings: Option<Settings>,
    gangs: BTreeMap<GangId, Gang>,
    /// By gang, those that name it among those that start with them.
    named_by: BTreeMap<GangId, BTreeSet<GangId>>,
}

impl Gangs {
    /// Whether pods start together with others.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        self.settings.is_some()
    }

    /// What counts for gangs that do not say.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.settings.unwrap_or_default()
    }

    /// All gangs, by name.
    pub fn ids(&self) -> impl Iterator<Item = &GangId> {
        self.gangs.keys()
    }

    /// Pods of a gang, in the order of their uids.
    pub fn members(&self, gang: &GangId) -> impl ExactSizeIterator<Item = &Uid> {
        static NOBODY: BTreeSet<Uid> = BTreeSet::new();
        self.gangs.get(gang).map_or(&NOBODY, |gang| &gang.members).iter()
    }

    /// Those of them that have a node, in thought as well, and are not being deleted.
    pub(crate) fn placed(&self, gang: &GangId) -> &BTreeSet<Uid> {
        static NOBODY: BTreeSet<Uid> = BTreeSet::new();
        self.gangs.get(gang).map_or(&NOBODY, |gang| &gang.placed)
    }

    /// What is said of a gang; none where nothing is.
    #[must_use]
    pub fn terms(&self, gang: &GangId) -> Option<&GangTerms> {
        self.gangs.get(gang)?.terms()
    }

    /// How many members there must be of each of these gangs, as far as that is said.
    pub(crate) fn mins(&self, gangs: &[GangId]) -> BTreeMap<GangId, Option<u32>> {
        let min = |gang| self.terms(gang).and_then(|terms| terms.min_available);
        gangs.iter().map(|gang| (gang.clone(), min(gang))).collect()
    }

    /// When the first pod was made that describes a gang.
    #[must_use]
    pub fn first_told(&self, gang: &GangId) -> Option<Moment> {
        self.gangs.get(gang)?.told.keys().next().map(|(made, _)| *made)
    }

    /// Whether an object describes a gang.
    #[must_use]
    pub fn is_object(&self, gang: &GangId) -> bool {
        self.gangs.get(gang).is_some_and(|gang| gang.object.is_some())
    }

    /// Whether any member was ever bound, for as long as its object is there, or a member that does not go. Once
    /// all are deleted that were there when it was whole, it starts anew; so does one that never was, where its object
    /// wants nobody who is there alone.
    #[must_use]
    pub fn has_started(&self, gang: &GangId) -> bool {
        self.gangs.get(gang).is_some_and(|gang| gang.has_started)
    }

    /// Whether as many members were bound since it has started as there must be; those that have ended count.
    #[must_use]
    pub fn was_whole(&self, gang: &GangId) -> bool {
        self.gangs.get(gang).is_some_and(|gang| gang.was_whole)
    }

    /// Members of a gang that are bound and do not go, in the order of their uids.
    pub fn staying(&self, gang: &GangId) -> impl ExactSizeIterator<Item = &Uid> {
        static NOBODY: BTreeSet<Uid> = BTreeSet::new();
        self.gangs.get(gang).map_or(&NOBODY, |gang| &gang.staying).iter()
    }

    /// A member was bound, which its object may not say yet.
    pub(crate) fn note_started(&mut self, gang: &GangId, member: &Uid) {
        if let Some(gang) = self.gangs.get_mut(gang) {
            gang.staying.insert(member.clone());
            gang.settle();
        }
    }

    /// Which members count towards those that there must be.
    #[must_use]
    pub fn policy(&self, terms: &GangTerms) -> MatchPolicy {
        terms.match_policy.unwrap_or(self.settings().policy)
    }

    /// The gangs that one says start with it, itself among them.
    #[must_use]
    pub fn named(&self, gang: &GangId) -> BTreeSet<GangId> {
        let mut named = self.terms(gang).map(|terms| terms.groups.clone()).unwrap_or_default();
        named.insert(gang.clone());
        named
    }

    /// Whether a gang says that these start with it, itself among them, and no others.
    pub(crate) fn names_all(&self, gang: &GangId, these: &BTreeSet<GangId>) -> bool {
        let Some(terms) = self.terms(gang) else { return these.len() == 1 && these.contains(gang) };
        let named = terms.groups.len() + usize::from(!terms.groups.contains(gang));
        named == these.len() && these.contains(gang) && terms.groups.is_subset(these)
    }

    /// The gangs whose start depends on one: itself, and those that name it.
    #[must_use]
    pub fn concerned(&self, gang: &GangId) -> BTreeSet<GangId> {
        let mut concerned = self.named_by.get(gang).cloned().unwrap_or_default();
        concerned.extend(self.named(gang).into_iter().filter(|own| self.gangs.contains_key(own)));
        concerned.insert(gang.clone());
        concerned
    }

    /// Changes what is known of a gang, and who names whom with it.
    fn change(&mut self, gang: &GangId, change: impl FnOnce(&mut Gang)) {
        let before = self.named(gang);
        let own = self.gangs.entry(gang.clone()).or_default();
        change(own);
        own.settle();
        if own.is_empty() {
            self.gangs.remove(gang);
        }
        let after = if self.gangs.contains_key(gang) { self.named(gang) } else { BTreeSet::new() };
        for other in before.difference(&after) {
            if let Some(by) = self.named_by.get_mut(other) {
                by.remove(gang);
                if by.is_empty() {
                    self.named_by.remove(other);
                }
            }
        }
        for other in &after {
            self.named_by.entry(other.clone()).or_default().insert(gang.clone());
        }
    }

    fn join(&mut self, uid: &Uid, own: &Membership, row: &PodRow) {
        self.change(&own.gang, |gang| {
            gang.members.insert(uid.clone());
            match row.is_placed() && !row.deleting {
                true => gang.placed.insert(uid.clone()),
                false => gang.placed.remove(uid),
            };
            if row.deleting {
                gang.staying.remove(uid);
            } else if row.is_bound() {
                gang.staying.insert(uid.clone());
            }
            if let Some(terms) = &own.terms {
                gang.told.insert((own.created, uid.clone()), terms.clone());
            }
        });
    }

    fn leave(&mut self, uid: &Uid, own: &Membership) {
        self.change(&own.gang, |gang| {
            gang.members.remove(uid);
            gang.placed.remove(uid);
            // Who goes without being deleted has ended.
            gang.ended += usize::from(gang.staying.remove(uid));
            gang.told.remove(&(own.created, uid.clone()));
        });
    }

    /// Whether nothing is known.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.gangs.is_empty() && self.named_by.is_empty()
    }
}

impl Ledger {
    /// Pods start together with others from now on.
    pub fn keep_gangs(&mut self, settings: Settings) {
        self.gangs.settings = Some(settings);
    }

    pub(super) fn put_gang(&mut self, gang: &GangId, terms: Option<Box<GangTerms>>) {
        if self.gangs.are_kept() {
            self.gangs.change(gang, |own| own.object = terms);
        }
    }

    /// A member has a node, or has none any longer, maybe in thought.
    pub(crate) fn shift_gang(&mut self, uid: &Uid, way: Way) {
        if !self.gangs.are_kept() {
            return;
        }
        let Some(row) = self.pods.get(uid) else { return };
        let own = row.gang.as_ref().filter(|_| !row.deleting);
        let Some(gang) = own.and_then(|own| self.gangs.gangs.get_mut(&own.gang)) else { return };
        match way {
            Way::In => gang.placed.insert(uid.clone()),
            Way::Out => gang.placed.remove(uid),
        };
    }

    /// A pod is to be this, or to be gone, where it is what the ledger still says: its gang follows.
    pub(super) fn settle_gang(&mut self, uid: &Uid, new: Option<&PodRow>) {
        if !self.gangs.are_kept() {
            return;
        }
        let old = self.pods.get(uid).and_then(|row| row.gang.clone());
        let own = new.and_then(|row| Some((row.gang.as_ref()?, row)));
        if let Some(old) = old.filter(|old| own.is_none_or(|(own, _)| own != old)) {
            self.gangs.leave(uid, &old);
        }
        if let Some((own, row)) = own {
            self.gangs.join(uid, own, row);
        }
    }
}
