//! Pods that wait for their quota.
//!
//! A pod that its quota has no room for costs nothing until a quota has more room than before. Pods that
//! are charged alike are in one *lot*: what a quota says of one of them it says of all. A lot is kept by
//! the quota that refused it, its own or one above, for only where that one has more room can any of the
//! lot be let in.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::{Place, Plugin, Plugins, Queue, Rejection, Turn, arrivals};
use crate::fact::Uid;
use crate::ledger::Charged;
use crate::moment::Moment;

/// What has to become otherwise before a quota lets in a lot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Cure {
    /// It may use more than now.
    #[default]
    Runtime,
    /// Something else, however much it may use: nothing need be divided for the lot meanwhile.
    Else,
}

#[derive(Debug, Clone, Default)]
struct Lot {
    /// The quota that has no room.
    refused_by: Box<str>,
    cure: Cure,
    by_turn: BTreeSet<Turn>,
}

/// A lot by the turn of its first pod.
pub(crate) type InTurn = (Turn, Charged);

/// All lots.
#[derive(Debug, Clone, Default)]
pub(super) struct Parked {
    lots: BTreeMap<Charged, Lot>,
    by_quota: BTreeMap<Box<str>, BTreeSet<InTurn>>,
    /// Lots that await something else than that a quota may use more.
    beyond: BTreeSet<Charged>,
}

impl Parked {
    /// A pod waits whose lot this quota has refused last.
    pub(super) fn join(&mut self, lot: Charged, turn: Turn) {
        self.change(lot, |own| _ = own.by_turn.insert(turn));
    }

    /// A pod waits no longer.
    pub(super) fn leave(&mut self, lot: Charged, turn: &Turn) {
        self.change(lot, |own| _ = own.by_turn.remove(turn));
    }

    /// A lot becomes another one, or is there no longer where nobody is in it.
    fn change(&mut self, lot: Charged, change: impl FnOnce(&mut Lot)) {
        let own = self.lots.entry(lot).or_default();
        let (quota, first) = (own.refused_by.clone(), own.by_turn.first().cloned());
        change(own);
        let new = own.by_turn.first().cloned();
        if own.refused_by != quota || new != first {
            let refused_by = own.refused_by.clone();
            if let Some(first) = first {
                self.forget(&quota, (first, lot));
            }
            if let Some(new) = new.clone() {
                self.by_quota.entry(refused_by).or_default().insert((new, lot));
            }
        }
        if new.is_none() {
            self.lots.remove(&lot);
            self.beyond.remove(&lot);
        }
    }

    fn forget(&mut self, quota: &str, lot: InTurn) {
        if let Some(lots) = self.by_quota.get_mut(quota) {
            lots.remove(&lot);
            if lots.is_empty() {
                self.by_quota.remove(quota);
            }
        }
    }

    /// The turns of the pods of a lot from here on.
    pub(super) fn turns(&self, lot: Charged, from: Bound<Turn>) -> impl Iterator<Item = &Turn> {
        let own = self.lots.get(&lot).into_iter();
        own.flat_map(move |own| own.by_turn.range((from.clone(), Bound::Unbounded)))
    }

    /// The quota that refused a lot last, where a pod waits there.
    pub(super) fn refused(&self, place: Place) -> Option<(Charged, Box<str>)> {
        let Place::Parked(lot) = place else { return None };
        self.lots.get(&lot).map(|own| (lot, own.refused_by.clone()))
    }

    /// What has to become otherwise for a lot.
    pub(super) fn cure(&self, lot: Charged) -> Cure {
        self.lots.get(&lot).map_or(Cure::Runtime, |own| own.cure)
    }

    pub(super) fn refuse(&mut self, lot: Charged, by: &str) {
        if self.lots.get(&lot).is_some_and(|own| *own.refused_by != *by) {
            self.change(lot, |own| own.refused_by = by.into());
        }
    }
}

impl Queue {
    /// A popped pod waits until this quota, its own or one above, has more room. It keeps its turn, and is
    /// not left alone for a while: it did nothing wrong.
    pub fn park(&mut self, uid: &Uid, lot: Charged, refused_by: &str, now: Moment) {
        self.settle(now);
        let Some(mut entry) = self.take(uid) else { return };
        self.pass_on(&entry);
        entry.rejection = Rejection {
            unschedulable: Plugins::from_iter([Plugin::ElasticQuota]),
            ..Rejection::default()
        };
        (entry.place, entry.leftover, entry.probe) = (Place::Parked(lot), false, None);
        self.arrived(uid, entry.place, arrivals::FAILED);
        self.enter(uid.clone(), entry);
        self.parked.refuse(lot, refused_by);
        self.forget_changes();
    }

    /// A popped entry that quotas refused is left alone for a while, and then tried again: nobody knows
    /// which of them has to have more room. It is left alone for twice as long each time, up to the longest
    /// back-off.
    pub(crate) fn rest(&mut self, uid: &Uid, now: Moment) {
        self.settle(now);
        let Some(mut entry) = self.take(uid) else { return };
        entry.rejection = Rejection {
            unschedulable: Plugins::from_iter([Plugin::ElasticQuota]),
            ..Rejection::default()
        };
        self.fail(&mut entry, now);
        entry.place = Place::ErrorBackoff;
        self.arrived(uid, entry.place, arrivals::FAILED);
        self.enter(uid.clone(), entry);
        self.forget_changes();
    }

    /// The lot that a pod waits in, where it waits for its quota.
    #[must_use]
    pub fn lot(&self, uid: &Uid) -> Option<Charged> {
        match self.pods.get(uid)?.place {
            Place::Parked(lot) => Some(lot),
            _ => None,
        }
    }

    /// The turn of a pod, wherever it stands.
    pub(crate) fn turn_of(&self, uid: &Uid) -> Option<Turn> {
        self.pods.get(uid).map(|entry| entry.turn(uid))
    }

    /// Has a pod tried that waits for its quota.
    pub fn unpark(&mut self, uid: &Uid) {
        if self.lot(uid).is_some() {
            self.move_to(uid, Place::Active, arrivals::QUOTA);
        }
    }

    /// Pods of a lot, in their order.
    pub(crate) fn pods_of_lot(&self, lot: Charged) -> impl Iterator<Item = &Uid> {
        self.parked.turns(lot, Bound::Unbounded).map(|(_, _, uid)| uid)
    }

    /// The first pod of a lot, and its turn.
    pub(crate) fn first_of_lot(&self, lot: Charged) -> Option<&Turn> {
        self.parked.lots.get(&lot)?.by_turn.first()
    }

    /// A lot was refused again, by this quota.
    pub(crate) fn refuse_lot(&mut self, lot: Charged, by: &str) {
        self.parked.refuse(lot, by);
    }

    /// This has to become otherwise before a lot is let in: all of it come to rest by that, or are roused.
    pub(crate) fn await_cure(&mut self, lot: Charged, cure: Cure) {
        let Some(own) = self.parked.lots.get_mut(&lot).filter(|own| own.cure != cure) else {
            return;
        };
        own.cure = cure;
        match cure {
            Cure::Runtime => self.parked.beyond.remove(&lot),
            Cure::Else => self.parked.beyond.insert(lot),
        };
        if let Some(turned) = &mut self.turned {
            turned.put_lot(lot);
        }
    }

    /// The next lot from here on that awaits something else than that a quota may use more.
    pub(crate) fn lot_beyond_runtime(&self, from: Bound<Charged>) -> Option<Charged> {
        self.parked.beyond.range((from, Bound::Unbounded)).next().copied()
    }

    /// The first lot that a quota refused, or the next one after another.
    pub(crate) fn lot_refused_by(&self, quota: &str, after: Option<&InTurn>) -> Option<&InTurn> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.parked.by_quota.get(quota)?.range((from, Bound::Unbounded)).next()
    }

    /// The quota that refused a lot last.
    pub(crate) fn refusing(&self, lot: Charged) -> Option<&str> {
        self.parked.lots.get(&lot).map(|own| &*own.refused_by)
    }

    /// All quotas that refused a lot.
    pub(crate) fn quotas_refusing(&self) -> impl Iterator<Item = &str> {
        self.parked.by_quota.keys().map(|quota| &**quota)
    }

    /// Whether nobody waits for a quota.
    #[must_use]
    pub fn is_nobody_parked(&self) -> bool {
        self.parked.lots.is_empty()
    }

    /// How many pods wait for their quotas.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.parked.lots.values().map(|lot| lot.by_turn.len()).sum()
    }

    /// Whether the first pod of a lot waits for too long.
    pub(crate) fn is_overdue(&self, lot: Charged, now: Moment) -> bool {
        let first = self.first_of_lot(lot);
        first.is_some_and(|(_, since, _)| now.since(*since) > self.settings.wait_max)
    }

    /// A pod that waited for its quota for too long may be let in, and nothing had woken it.
    pub(crate) fn note_overdue(&mut self, uid: &Uid) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.leftover = true;
        }
    }
}
