//! Pods that wait, with those that would be answered alike.
//!
//! What becomes of a pod that is tried follows from what it asks, its priority and its kind. So of
//! pods that are equal in those, one speaks for all: when a change may help, the first of them is
//! woken as a *probe*. Where it gets a node, the next one is; where it is refused, the others would
//! be as well, and they wait on, for what it was refused for. One that room is made for cannot speak
//! for those that none is made for: where it is refused, the first of those is tried as well.

use std::cmp::Reverse;
use std::collections::hash_map;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Change, Entry, Pending, Place, Queue, Rejection, Turn, Wake, Waking, Woken, arrivals};
use crate::fact::Uid;
use crate::ledger::{Ask, Ledger};
use crate::moment::Moment;
use crate::plugin::{Plugin, Plugins};

/// How many groups are roused at once.
const ROUSED_MAX: usize = 256;
/// How many pods that wait for too long are woken at once.
const LEFTOVERS_MAX: usize = 256;

/// Those who care about a node for what is elsewhere; the others look at one node at a time.
const WIDE: [Plugin; 8] = [
    Plugin::VolumeRestrictions,
    Plugin::NodeVolumeLimits,
    Plugin::VolumeBinding,
    Plugin::VolumeZone,
    Plugin::PodTopologySpread,
    Plugin::InterPodAffinity,
    Plugin::Extender,
    Plugin::Other,
];

/// What pods of a group have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// What they ask, without whose it is.
    pub(super) ask: Ask,
    pub(super) priority: i32,
    /// What else there is: what of whose it is counts, and what the queue knows nothing of.
    pub(super) kind: u64,
    /// Who refused them, where each pod wakes for what it was refused for itself.
    pub(super) own: Option<Rejection>,
}

/// Pods that wait and would be answered alike.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    /// Who refused them, or the one that spoke for them last.
    rejection: Rejection,
    /// When that was.
    pub(super) judged: Moment,
    /// The one that was woken for all, until it is tried.
    pub(super) probe: Option<Uid>,
    by_turn: BTreeSet<Turn>,
    /// By the end of their back-off.
    by_end: BTreeSet<(Moment, Turn)>,
}

impl Group {
    /// Who refused them, or the one that spoke for them last.
    pub(super) fn rejection(&self) -> Rejection {
        self.rejection
    }

    /// A pod waits here that was not judged with the others.
    fn join(&mut self, entry: &Entry, turn: Turn) {
        let is_first = self.by_turn.is_empty();
        self.judged = if is_first { entry.queued } else { self.judged.min(entry.queued) };
        self.rejection = self.rejection.and(entry.rejection);
        self.by_end.insert((entry.until, turn.clone()));
        self.by_turn.insert(turn);
    }

    /// A pod waits here no longer.
    fn leave(&mut self, entry: &Entry, turn: Turn) {
        self.by_turn.remove(&turn);
        self.by_end.remove(&(entry.until, turn));
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

/// All groups, also by who refused them, so that a change costs nothing that cures no refusal.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    groups: FxHashMap<Key, Group>,
    refused_by: BTreeMap<Plugin, FxHashSet<Key>>,
    /// How many pods each plugin refused, whoever spoke for them since.
    pods_refused_by: BTreeMap<Plugin, usize>,
}

impl Groups {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.groups.contains_key(key)
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Group> {
        self.groups.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Group> {
        self.groups.get_mut(key)
    }

    fn iter(&self) -> impl Iterator<Item = (&Key, &Group)> {
        self.groups.iter()
    }

    /// The groups that any of these refused, each once.
    pub(super) fn refused_by(&self, plugins: Plugins) -> impl Iterator<Item = (&Key, &Group)> {
        plugins.iter().flat_map(move |plugin| {
            let keys = self.refused_by.get(&plugin).into_iter().flatten();
            let groups = keys.filter_map(|key| self.groups.get_key_value(key));
            let is_first = move |group: &Group| {
                group.rejection.plugins().among(plugins).iter().next() == Some(plugin)
            };
            groups.filter(move |(_, group)| is_first(group))
        })
    }

    /// Whether any of these refused any pod.
    fn is_any_refused_by(&self, plugins: Plugins) -> bool {
        let mut all = self.refused_by.keys().chain(self.pods_refused_by.keys());
        all.any(|plugin| plugins.contains(*plugin))
    }

    /// A pod waits that was not judged with the others of its group.
    pub(super) fn join(&mut self, key: Key, entry: &Entry, turn: Turn) {
        for plugin in entry.rejection.plugins().iter() {
            *self.pods_refused_by.entry(plugin).or_default() += 1;
        }
        let group = self.groups.entry(key).or_default();
        let old = group.rejection;
        group.join(entry, turn);
        let new = group.rejection;
        self.refile(key, old, new);
    }

    /// A pod waits no longer.
    pub(super) fn leave(&mut self, key: &Key, entry: &Entry, turn: Turn) {
        for plugin in entry.rejection.plugins().iter() {
            if let Some(count) = self.pods_refused_by.get_mut(&plugin) {
                *count -= 1;
                if *count == 0 {
                    self.pods_refused_by.remove(&plugin);
                }
            }
        }
        let Some(group) = self.groups.get_mut(key) else { return };
        group.leave(entry, turn);
        if group.by_turn.is_empty() {
            let old = group.rejection;
            self.groups.remove(key);
            self.refile(*key, old, Rejection::default());
        }
    }

    /// One that spoke for a group was refused.
    pub(super) fn judge(&mut self, key: &Key, rejection: Rejection, now: Moment) {
        let Some(group) = self.groups.get_mut(key) else { return };
        let old = std::mem::replace(&mut group.rejection, rejection);
        group.judged = now;
        self.refile(*key, old, rejection);
    }

    /// Pods that joined a group hear what those heard whom they left, too, and were judged with them.
    fn widen(&mut self, key: &Key, rejection: Rejection, judged: Moment) {
        let Some(group) = self.groups.get_mut(key) else { return };
        let (old, new) = (group.rejection, group.rejection.and(rejection));
        group.rejection = new;
        group.judged = group.judged.max(judged);
        self.refile(*key, old, new);
    }

    fn refile(&mut self, key: Key, old: Rejection, new: Rejection) {
        let (old, new) = (old.plugins(), new.plugins());
        if old == new {
            return;
        }
        for plugin in old.iter().filter(|plugin| !new.contains(*plugin)) {
            if let Some(keys) = self.refused_by.get_mut(&plugin) {
                keys.remove(&key);
                if keys.is_empty() {
                    self.refused_by.remove(&plugin);
                }
            }
        }
        for plugin in new.iter().filter(|plugin| !old.contains(*plugin)) {
            self.refused_by.entry(plugin).or_default().insert(key);
        }
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

    /// Pods are alike to others than before. Whoever stays behind where one left that spoke for them has
    /// another one speak; and of each group that they joined one is tried, since what they were owed by
    /// those whom they left nobody knows.
    pub fn regroup(&mut self, pods: impl IntoIterator<Item = Pending>, now: Moment) {
        self.settle(now);
        let (mut left, mut joined) = (Vec::new(), Vec::new());
        for Pending { uid, priority, ask, kind, .. } in pods {
            let Some(entry) = self.pods.get(&uid) else { continue };
            let old = self.key(entry);
            let theirs = self.waiting.get(&old).map(|group| (group.rejection(), group.judged));
            let refused = self.parked.refused(entry.place);
            let Some(mut entry) = self.take(&uid) else { continue };
            (entry.priority, entry.ask, entry.kind) = (priority, ask, kind);
            let key = self.key(&entry);
            let (is_moved, waits) = (key != old, entry.place == Place::Waiting);
            left.extend(entry.probe.take_if(|_| is_moved).map(|woken| (old, woken)));
            self.enter(uid, entry);
            // Its lot may have been there for it alone.
            if let Some((lot, by)) = refused {
                self.parked.refuse(lot, &by);
            }
            if is_moved
                && waits
                && let Some((rejection, judged)) = theirs
            {
                self.waiting.widen(&key, rejection, judged);
                joined.push(key);
            }
        }
        for (key, woken) in left {
            self.wake_next(&key, woken);
        }
        if self.settings.waking == Waking::Needed {
            let woken = Woken { wake: Wake::AfterBackoff, cause: arrivals::REGROUPED };
            self.rouse(joined.into_iter().map(|key| (key, woken)).collect());
        }
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

    /// Something changed that may concern any pod that waits.
    pub(super) fn notice_for_all(&mut self, ledger: &Ledger, change: &Change, now: Moment) {
        let (concerned, cause) = (change.concerns(), change.cause());
        let groups = self.waiting.refused_by(concerned);
        let sleeping = groups.filter(|(_, group)| !self.has_probe_ready(group));
        let woken = sleeping.filter_map(|(key, group)| {
            let first = self.pods.get(group.pods().next()?)?;
            let wake = self.wake_any(first, group.rejection, ledger, change)?;
            Some((*key, Woken { wake, cause }))
        });
        let woken: Vec<(Key, Woken)> = woken.collect();
        match self.settings.waking {
            Waking::Needed => {
                self.rouse(woken);
                self.notice_for_awaited(ledger, change, now);
            }
            Waking::AsKubernetes => {
                for (key, woken) in woken {
                    self.wake_all(&key, woken);
                }
            }
        }
    }

    /// Room may be kept for pods that is kept from others who ask the same: on that node they are
    /// answered otherwise.
    fn notice_for_awaited(&mut self, ledger: &Ledger, change: &Change, now: Moment) {
        let concerned = change.concerns();
        if ledger.nominations.is_empty() || !self.waiting.is_any_refused_by(concerned) {
            return;
        }
        let elsewhere = concerned.among(WIDE.iter().copied().collect());
        match change.node().filter(|_| !self.waiting.is_any_refused_by(elsewhere)) {
            Some(node) => {
                for uid in ledger.awaited(node) {
                    self.notice_for(uid, ledger, change, now);
                }
            }
            None => {
                for uid in ledger.nominations.pods() {
                    self.notice_for(uid, ledger, change, now);
                }
            }
        }
    }

    /// Something changed for this pod.
    pub(super) fn notice_for(&mut self, uid: &Uid, ledger: &Ledger, change: &Change, now: Moment) {
        let waits = |entry: &&Entry| entry.place == Place::Waiting;
        let Some(entry) = self.pods.get(uid).filter(waits) else { return };
        let group = self.waiting.get(&self.key(entry));
        let theirs = group.map(Group::rejection).unwrap_or_default();
        let rejection = entry.rejection.and(theirs);
        if let Some(wake) = self.wake_any(entry, rejection, ledger, change) {
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
        self.arrived(uid, entry.place, woken.cause);
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
        let mut late: Vec<(Moment, Key)> = late.map(|(key, own)| (own.judged, *key)).collect();
        if late.len() < LEFTOVERS_MAX {
            self.leftovers_seen = beat;
        }
        // Those that waited longest come first.
        late.sort_unstable_by_key(|(judged, _)| *judged);
        for (_, key) in late.into_iter().take(LEFTOVERS_MAX) {
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
