//! Which gangs there are, and which pods are theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use api::pod_group::{GangId, GangTerms, MatchPolicy};

use super::{Departure, Ledger, PodRow, Way};
use crate::fact::Uid;
use crate::gangs::{Membership, Settings};
use crate::moment::Moment;

/// How far members of a gang have come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// How many wait for a node and may be tried.
    pub(crate) waiting: usize,
    /// How many have one, and do not go.
    pub(crate) placed: usize,
}

#[derive(Debug, Clone, Default)]
struct Gang {
    /// What its object says.
    object: Option<Box<GangTerms>>,
    /// What its pods say, by when they were made.
    told: BTreeMap<(Moment, Uid), Box<GangTerms>>,
    members: BTreeSet<Uid>,
    /// Members that wait for a node and may be tried.
    waiting: BTreeSet<Uid>,
    /// Members that have a node, in thought as well, and do not go.
    placed: BTreeSet<Uid>,
    /// Members that are bound and do not go.
    staying: BTreeSet<Uid>,
    /// Members that have to go for others, and are not seen to go yet.
    leaving: BTreeSet<Uid>,
    /// How many members were bound in this start and have ended, since as many stayed as there must be.
    ended: usize,
    /// Whether any stayed when this was last settled.
    stayed: bool,
    /// Whether any member was ever bound, for as long as its object is there or a member stays, and until all are
    /// deleted that were.
    has_started: bool,
    /// Whether all were deleted that were bound, and nobody was bound since.
    starts_anew: bool,
    /// Whether as many members were bound in this start as there must be, those that have ended among them.
    was_whole: bool,
}

impl Gang {
    fn is_empty(&self) -> bool {
        self.object.is_none() && self.members.is_empty()
    }

    /// A member may have a node by now, or none any longer.
    fn follow(&mut self, uid: &Uid, row: &PodRow) {
        keep(&mut self.leaving, uid, row.departure == Departure::SeenOff);
        keep(&mut self.waiting, uid, row.may_be_tried());
        keep(&mut self.placed, uid, row.is_placed() && !row.goes());
    }

    /// It is told what becomes of a member.
    fn see(&mut self, uid: &Uid, row: &PodRow) {
        self.follow(uid, row);
        if row.goes() {
            self.staying.remove(uid);
        } else if row.is_bound() {
            self.staying.insert(uid.clone());
        }
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
        // All were deleted that were bound. Where members have ended, fewer may come after them than there must be to
        // start.
        let is_over = self.stayed && !stays && self.ended == 0;
        self.starts_anew = !stays && (self.starts_anew || is_over);
        self.has_started = stays || self.has_started && self.object.is_some() && !is_over;
        self.stayed = stays;
        // Those who are to go may stay after all.
        if !self.has_started && self.leaving.is_empty() {
            (self.ended, self.was_whole) = (0, false);
        }
    }

    /// What counts: what its object says, or else the first pod that says how many there must be.
    fn terms(&self) -> Option<&GangTerms> {
        let object = self.object.as_deref();
        let readable = || self.told.values().find(|terms| terms.min_available.is_some());
        let any = || readable().or_else(|| self.told.values().next()).map(|terms| &**terms);
        object.or_else(any)
    }
}

static NOBODY: BTreeSet<Uid> = BTreeSet::new();

/// Whether a pod that has a node has to go for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// It is asked to.
    Soon,
    /// It stays.
    Not,
}

/// Keeps a pod among others, or not.
fn keep(all: &mut BTreeSet<Uid>, uid: &Uid, is_one: bool) {
    match is_one {
        true if !all.contains(uid) => drop(all.insert(uid.clone())),
        true => {}
        false => drop(all.remove(uid)),
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
        self.gangs.get(gang).map_or(&NOBODY, |gang| &gang.members).iter()
    }

    /// Those of them that wait for a node and may be tried, in the same order.
    pub(crate) fn waiting(&self, gang: &GangId) -> impl ExactSizeIterator<Item = &Uid> {
        self.gangs.get(gang).map_or(&NOBODY, |gang| &gang.waiting).iter()
    }

    /// Those of them that have a node, in thought as well, and do not go.
    pub(crate) fn placed(&self, gang: &GangId) -> &BTreeSet<Uid> {
        self.gangs.get(gang).map_or(&NOBODY, |gang| &gang.placed)
    }

    /// Those of them that have to go for others, and are not seen to go yet.
    #[cfg(test)]
    pub(crate) fn leaving(&self, gang: &GangId) -> &BTreeSet<Uid> {
        self.gangs.get(gang).map_or(&NOBODY, |gang| &gang.leaving)
    }

    /// How far they have come.
    pub(crate) fn counts(&self, gang: &GangId) -> Counts {
        let counts = |own: &Gang| Counts { waiting: own.waiting.len(), placed: own.placed.len() };
        self.gangs.get(gang).map(counts).unwrap_or_default()
    }

    /// A member may have a node by now, or none any longer.
    pub(crate) fn follow(&mut self, uid: &Uid, row: &PodRow) {
        let Some(own) = row.gang.as_deref() else { return };
        if let Some(gang) = self.gangs.get_mut(&own.gang) {
            gang.follow(uid, row);
        }
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
    /// all are deleted that were bound, of whom none has ended, it starts anew.
    #[must_use]
    pub fn has_started(&self, gang: &GangId) -> bool {
        self.gangs.get(gang).is_some_and(|gang| gang.has_started)
    }

    /// Whether all were deleted that were bound, so that it starts whole once more, also beside others of its group
    /// that run.
    pub(crate) fn starts_anew(&self, gang: &GangId) -> bool {
        self.gangs.get(gang).is_some_and(|gang| gang.starts_anew)
    }

    /// Whether as many members were bound since it has started as there must be; those that have ended count.
    #[must_use]
    pub fn was_whole(&self, gang: &GangId) -> bool {
        self.gangs.get(gang).is_some_and(|gang| gang.was_whole)
    }

    /// Members of a gang that are bound and do not go, in the order of their uids.
    pub fn staying(&self, gang: &GangId) -> impl ExactSizeIterator<Item = &Uid> {
        self.gangs.get(gang).map_or(&NOBODY, |gang| &gang.staying).iter()
    }

    /// A member was bound, which its object may not say yet.
    pub(crate) fn note_started(&mut self, gang: &GangId, member: &Uid) {
        let gang = self.gangs.get_mut(gang).filter(|gang| !gang.leaving.contains(member));
        if let Some(gang) = gang {
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

    /// Whether a gang says that another starts with it, or is that one.
    pub(crate) fn names(&self, gang: &GangId, other: &GangId) -> bool {
        gang == other || self.terms(gang).is_some_and(|terms| terms.groups.contains(other))
    }

    /// How many gangs one says start with it, or a few more.
    pub(crate) fn names_count(&self, gang: &GangId) -> usize {
        1 + self.terms(gang).map_or(0, |terms| terms.groups.len())
    }

    /// Whether a gang says that these start with it, itself among them, and no others.
    pub(crate) fn names_all(&self, gang: &GangId, these: &BTreeSet<GangId>) -> bool {
        let Some(terms) = self.terms(gang) else { return these.len() == 1 && these.contains(gang) };
        let named = terms.groups.len() + usize::from(!terms.groups.contains(gang));
        named == these.len() && these.contains(gang) && terms.groups.is_subset(these)
    }

    /// Whether anything is known of a gang.
    #[must_use]
    pub fn is_known(&self, gang: &GangId) -> bool {
        self.gangs.contains_key(gang)
    }

    /// How many gangs name one, itself among them.
    pub(crate) fn naming_count(&self, gang: &GangId) -> usize {
        self.named_by.get(gang).map_or(0, BTreeSet::len)
    }

    /// The gangs that name one, in their order, which come after this one.
    pub(crate) fn naming<'a>(
        &'a self,
        gang: &GangId,
        after: Option<&GangId>,
    ) -> impl Iterator<Item = &'a GangId> + use<'a> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let all = self.named_by.get(gang);
        all.map(|all| all.range((after, Bound::Unbounded))).into_iter().flatten()
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

    /// A pod is a member, and may have been one of the same gang before.
    fn join(&mut self, uid: &Uid, (own, row): (&Membership, &PodRow), before: Option<&Membership>) {
        self.change(&own.gang, |gang| {
            gang.members.insert(uid.clone());
            if let Some(before) = before {
                gang.told.remove(&(before.created, uid.clone()));
            }
            gang.see(uid, row);
            if let Some(terms) = &own.terms {
                gang.told.insert((own.created, uid.clone()), terms.clone());
            }
        });
    }

    fn leave(&mut self, uid: &Uid, own: &Membership, is_gone: bool) {
        self.change(&own.gang, |gang| {
            gang.members.remove(uid);
            gang.waiting.remove(uid);
            gang.placed.remove(uid);
            gang.leaving.remove(uid);
            // Who goes without being deleted, and has not failed, has ended: who is deleted says so before he is gone,
            // also where he is given no time.
            gang.ended += usize::from(gang.staying.remove(uid) && is_gone);
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

    pub(super) fn put_gang(
        &mut self,
        gang: &GangId,
        terms: Option<Box<GangTerms>>,
        has_started: bool,
    ) {
        if self.gangs.are_kept() {
            self.gangs.change(gang, |own| {
                // Later on it is known here first.
                own.has_started |= has_started && own.object.is_none() && terms.is_some();
                own.object = terms;
            });
        }
    }

    /// A pod is to be this, or to be gone, where it is what the ledger still says: its gang follows.
    pub(super) fn settle_gang(&mut self, uid: &Uid, new: Option<&PodRow>) {
        if !self.gangs.are_kept() {
            return;
        }
        let old = self.pods.get(uid).and_then(|row| row.gang.clone());
        let own = new.and_then(|row| Some((row.gang.as_deref()?, row)));
        // Whoever says something else than before is no other member.
        let stays = |old: &Arc<Membership>| own.is_some_and(|(own, _)| own.gang == old.gang);
        let (same, left) = match old {
            Some(old) if stays(&old) => (Some(old), None),
            old => (None, old),
        };
        if let Some(old) = left {
            self.gangs.leave(uid, &old, new.is_none());
        }
        if let Some(own) = own {
            self.gangs.join(uid, own, same.as_deref());
        }
    }

    /// A member has failed: it has not ended as those have that did what they were there for.
    pub(super) fn lose_member(&mut self, uid: &Uid) {
        let own = self.pods.get(uid).and_then(|row| row.gang.as_deref());
        if let Some(gang) = own.and_then(|own| self.gangs.gangs.get_mut(&own.gang)) {
            gang.staying.remove(uid);
        }
    }

    /// A pod that has a node has to go for others, or need not after all: until it is seen to go, it counts as one that
    /// goes. Says which gang goes on without it, or with it again.
    pub(crate) fn see_off(&mut self, uid: &Uid, leaves: Leaves) -> Option<GangId> {
        let row = self.pods.get_mut(uid)?;
        let departure = match leaves {
            Leaves::Soon if row.is_placed() => Departure::SeenOff,
            _ => Departure::No,
        };
        if row.is_deleting() || row.departure == departure {
            return None;
        }
        row.departure = departure;
        if row.is_placed() && self.quotas.are_kept() {
            let way = if row.goes() { Way::In } else { Way::Out };
            self.quotas.shift_leaving(row.charged(), &self.asks.requests, way);
        }
        let id = &row.gang.as_deref()?.gang;
        let gang = self.gangs.gangs.get_mut(id)?;
        gang.see(uid, row);
        gang.settle();
        Some(id.clone())
    }
}
