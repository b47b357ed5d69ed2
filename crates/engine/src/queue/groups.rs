//! Pods that wait, with those that would be answered alike.
//!
//! What becomes of a pod that is tried follows from what it asks, its priority and its kind. So of
//! pods that are equal in those, one speaks for all: when a change may help, the first of them is
//! woken as a *probe*. Where it gets a node, the next one is; where it is refused, the others would
//! be as well, and they wait on, for what it was refused for. One that room is made for cannot speak
//! for those that none is made for: where it is refused, the first of those is tried as well.

use std::cmp::Reverse;
use std::collections::hash_map;
use std::collections::{BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use super::{Change, Entry, Moment, Place, Queue, Rejection, Turn, Wake, Woken, arrivals};
use crate::fact::Uid;
use crate::ledger::{Ask, Ledger};
use crate::plugin::Plugin;

/// How many groups are roused at once.
const ROUSED_MAX: usize = 256;
/// How many pods that wait for too long are woken at once.
const LEFTOVERS_MAX: usize = 256;

/// What pods of a group have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) ask: Ask,
    pub(super) priority: i32,
    pub(super) kind: u64,
    /// Who refused them, where each pod wakes for what it was refused for itself.
    pub(super) own: Option<Rejection>,
}

/// Pods that wait and would be answered alike.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    /// Who refused them, or the one that spoke for them last.
    pub(super) rejection: Rejection,
    /// When that was.
    pub(super) judged: Moment,
    /// The one that was woken for all, until it is tried.
    pub(super) probe: Option<Uid>,
    by_turn: BTreeSet<Turn>,
    /// By the end of their back-off.
    by_end: BTreeSet<(Moment, Turn)>,
}

impl Group {
    /// A pod waits here that was not judged with the others.
    pub(super) fn join(&mut self, entry: &Entry, turn: Turn) {
        let is_first = self.by_turn.is_empty();
        self.judged = if is_first { entry.queued } else { self.judged.min(entry.queued) };
        self.rejection = self.rejection.and(entry.rejection);
        self.by_end.insert((entry.until, turn.clone()));
        self.by_turn.insert(turn);
    }

    /// A pod waits here no longer.
    pub(super) fn leave(&mut self, entry: &Entry, turn: Turn) {
        self.by_turn.remove(&turn);
        self.by_end.remove(&(entry.until, turn));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_turn.is_empty()
    }

    /// The pods, the next one first.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Uid> {
        self.by_turn.iter().map(|(_, _, uid)| uid)
    }

    /// Who is to be woken first, and when its back-off ends: the first whose back-off is over, or
    /// else the one whose back-off is over first.
    pub(super) fn first(&self, pods: &FxHashMap<Uid, Entry>, now: Moment) -> Option<(Uid, Moment)> {
        let (soonest, (_, _, uid)) = self.by_end.first()?;
        if *soonest >= now.window() {
            return Some((uid.clone(), *soonest));
        }
        let until = |uid: &Uid| pods.get(uid).map(|entry| entry.until);
        let over = |uid: &&Uid| until(uid).is_some_and(|until| until < now.window());
        let first = self.pods().find(over)?;
        Some((first.clone(), until(first)?))
    }
}

/// Groups of which one is still to be woken: a change may concern more of them than a turn has time
/// for.
#[derive(Debug, Clone, Default)]
pub(super) struct Rousing {
    /// The first is the next.
    line: VecDeque<Key>,
    how: FxHashMap<Key, Woken>,
}

impl Rousing {
    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    fn add(&mut self, key: Key, woken: Woken) {
        match self.how.entry(key) {
            hash_map::Entry::Vacant(place) => {
                place.insert(woken);
                self.line.push_back(key);
            }
            hash_map::Entry::Occupied(mut place) if woken.wake == Wake::AtOnce => {
                place.insert(woken);
            }
            hash_map::Entry::Occupied(_) => {}
        }
    }

    fn next(&mut self) -> Option<(Key, Woken)> {
        let key = self.line.pop_front()?;
        Some((key, self.how.remove(&key)?))
    }
}

impl Queue {
    /// Whether one of a group is about to be tried, whatever changes before.
    pub(super) fn has_probe_ready(&self, group: &Group) -> bool {
        let woken = group.probe.as_ref().and_then(|uid| self.pods.get(uid));
        woken.is_some_and(|woken| woken.place == Place::Active)
    }

    /// Wakes one of each of these groups, those of the highest priority first and no more at once than
    /// a turn has time for.
    pub(super) fn rouse(&mut self, mut woken: Vec<(Key, Woken)>) {
        woken.sort_by_key(|(key, _)| Reverse(key.priority));
        for (key, woken) in woken {
            self.rousing.add(key, woken);
        }
        self.rouse_on();
    }

    /// Wakes more of those that are still to be woken.
    pub(super) fn rouse_on(&mut self) {
        for _ in 0..ROUSED_MAX {
            let Some((key, woken)) = self.rousing.next() else { return };
            self.wake_first(&key, woken);
        }
    }

    /// Something changed for this pod.
    pub(super) fn notice_for(&mut self, uid: &Uid, ledger: &Ledger, change: &Change, now: Moment) {
        let waits = |entry: &&Entry| entry.place == Place::Waiting;
        let Some(entry) = self.pods.get(uid).filter(waits) else { return };
        let group = self.waiting.get(&self.key(entry));
        let theirs = group.map(|group| group.rejection).unwrap_or_default();
        let rejection = entry.rejection.and(theirs);
        if let Some(wake) = self.wake(entry.ask, rejection, ledger, change) {
            let place = self.place(entry, wake, now);
            self.move_to(uid, place, change.cause());
        }
    }

    /// Wakes all pods of a group.
    pub(super) fn wake_all(&mut self, key: &Key, woken: Woken) {
        let pods = self.waiting.get(key).into_iter().flat_map(Group::pods);
        for uid in pods.cloned().collect::<Vec<Uid>>() {
            if let Some(entry) = self.pods.get(&uid) {
                let place = self.place(entry, woken.wake, self.settled);
                self.move_to(&uid, place, woken.cause);
            }
        }
    }

    /// Wakes the first pod of a group, unless one is woken that is tried as soon.
    pub(super) fn wake_first(&mut self, key: &Key, woken: Woken) {
        let Some(group) = self.waiting.get(key) else { return };
        let probe = group.probe.as_ref().and_then(|uid| self.pods.get(uid));
        let first = group.first(&self.pods, self.settled).map(|(_, until)| until);
        if let Some(probe) = probe {
            let is_soon = match probe.place {
                Place::Active => true,
                Place::Backoff => {
                    woken.wake == Wake::AfterBackoff
                        && first.is_none_or(|first| first >= probe.until)
                }
                _ => false,
            };
            if is_soon {
                return;
            }
        }
        self.wake_next(key, woken);
    }

    /// Wakes the first pod of a group.
    pub(super) fn wake_next(&mut self, key: &Key, woken: Woken) -> Option<Uid> {
        let group = self.waiting.get(key)?;
        let (uid, _) = group.first(&self.pods, self.settled)?;
        self.wake_as_probe(key, &uid, woken);
        Some(uid)
    }

    /// Wakes the first pod of a group that no room is made for: those that room is made for may be
    /// refused where the others are not.
    pub(super) fn wake_unawaited(&mut self, key: &Key, woken: Woken, ledger: &Ledger) {
        let next = self.waiting.get(key).and_then(|group| {
            group.pods().find(|other| ledger.nominated(other).is_none()).cloned()
        });
        if let Some(next) = next {
            self.wake_as_probe(key, &next, woken);
        }
    }

    /// Wakes a pod of a group: it speaks for all of them.
    pub(super) fn wake_as_probe(&mut self, key: &Key, uid: &Uid, woken: Woken) {
        let Some(mut entry) = self.take(uid) else { return };
        entry.place = self.place(&entry, woken.wake, self.settled);
        entry.probe = Some(woken);
        self.arrivals.count(entry.place, woken.cause);
        self.enter(uid.clone(), entry);
        if let Some(group) = self.waiting.get_mut(key) {
            group.probe = Some(uid.clone());
        }
    }

    /// A pod leaves: where it spoke for others, the next of them does.
    pub(super) fn pass_on(&mut self, entry: &Entry) {
        if let Some(woken) = entry.probe {
            self.wake_next(&self.key(entry), woken);
        }
    }

    /// Has one of each group tried that was not judged for too long. Where they are many, the rest
    /// is still due.
    pub(super) fn wake_leftovers(&mut self, beat: Moment) {
        let is_late = |group: &Group| beat.since(group.judged) > self.settings.wait_max;
        let late = self.waiting.iter().filter(|(_, group)| is_late(group) && group.probe.is_none());
        let late: Vec<Key> = late.map(|(key, _)| *key).take(LEFTOVERS_MAX).collect();
        if late.len() < LEFTOVERS_MAX {
            self.leftovers_seen = beat;
        }
        for key in late {
            let woken = Woken { wake: Wake::AfterBackoff, cause: arrivals::OVERDUE };
            if let Some(uid) = self.wake_next(&key, woken)
                && let Some(entry) = self.pods.get_mut(&uid)
            {
                // Nobody here hears of it when somebody outside changes their mind.
                entry.leftover = !entry.rejection.unschedulable.contains(Plugin::Extender);
            }
        }
    }

    pub(super) fn wake_leftovers_as_kubernetes(&mut self, beat: Moment, now: Moment) {
        self.leftovers_seen = beat;
        let too_long = |entry: &Entry| beat.since(entry.queued) > self.settings.wait_max;
        let waits = |entry: &Entry| matches!(entry.place, Place::Waiting | Place::Gated);
        let late = self.pods.iter().filter(|(_, entry)| waits(entry) && too_long(entry));
        let late: Vec<(Uid, Place)> = late.map(|(uid, entry)| (uid.clone(), entry.place)).collect();
        if !late.is_empty() && !self.flights.is_empty() {
            self.log.push_back(Change::Overdue);
        }
        let waiting = late.into_iter().filter(|(_, place)| *place == Place::Waiting);
        for (uid, _) in waiting {
            let Some(entry) = self.pods.get_mut(&uid) else { continue };
            entry.leftover = true;
            let entry = entry.clone();
            let place = self.place(&entry, Wake::AfterBackoff, now);
            self.move_to(&uid, place, arrivals::OVERDUE);
        }
    }
}
