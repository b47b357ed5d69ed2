//! The queue: which pod is decided next, and when.
//!
//! A pod is **active** (by priority, then by how long it waits), in **back-off** (refused lately),
//! **waiting** (refused, until a change may cure that), **gated**, **in flight** (popped and not
//! answered for), set **aside** (popped while another was asked about), or **parked** (its quota has no
//! room, see `parked`). Waiting pods are kept by what they ask: a change is held against what is asked,
//! not against pods, and of those that ask the same it wakes one, which speaks for all (see `groups`).
//!
//! The queue is a state machine. The time is an argument, and what is due by then happens before
//! anything else; it holds no clock, and nothing in it waits. It holds no pods either: what a pod
//! asks is known by the numbers of the ledger, so the queue must hear of a pod (by
//! [`Queue::put`] or [`Queue::remove`]) right after the ledger did.

mod arrivals;
mod aside;
mod backoff;
mod change;
mod groups;
#[cfg(test)]
mod laws;
mod log;
mod moves;
mod parked;
mod rejection;
mod rests;
mod wake;

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use rustc_hash::FxHashMap;

pub use arrivals::{Arrivals, Cause, Line};
pub use change::{Change, Outside, PodView};
use groups::{Groups, Key, Rousing};
pub use moves::{MOVES_KEPT, Move, Moves};
pub(crate) use parked::{Cure, InTurn};
pub use rejection::Rejection;
pub use wake::{Arguments, Hint, Missed, hint, hint_by};

use crate::fact::Uid;
use crate::ledger::{Ask, Charged, Ledger};
use crate::moment::Moment;
pub use crate::plugin::{Plugin, Plugins};

/// Which changes wake pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Waking {
    /// Those that may cure what the pod was refused for. Of pods that ask the same, no more wake than
    /// get a node, and one.
    #[default]
    Needed,
    /// Those for which kube-scheduler wakes pods, and all pods, for comparison with it.
    AsKubernetes,
}

/// How the queue keeps time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long a pod is left alone after the first refusal.
    pub backoff_initial: Duration,
    /// How long it is left alone at most; nothing turns back-off off.
    pub backoff_max: Duration,
    /// How long a pod may wait before it is tried without a reason.
    pub wait_max: Duration,
    /// Which changes wake pods.
    pub waking: Waking,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            backoff_initial: Duration::from_secs(1),
            backoff_max: Duration::from_secs(10),
            wait_max: Duration::from_secs(300),
            waking: Waking::Needed,
        }
    }
}

/// How often pods are looked for that wait for too long.
const LEFTOVER_INTERVAL: Duration = Duration::from_secs(30);

/// A pod that wants a node.
#[derive(Debug, Clone)]
pub struct Pending {
    /// Which pod.
    pub uid: Uid,
    /// Higher goes first.
    pub priority: i32,
    /// What it asks, as the ledger knows it.
    pub ask: Ask,
    /// Pods of different kinds may be answered differently though they ask the same. Whose an ask is
    /// counts as far as it is told here.
    pub kind: u64,
    /// Whether something keeps it from being tried at all.
    pub gated: bool,
}

/// Where a pod stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It can be popped, now or when another one is answered for.
    Active,
    /// It was refused lately. It is active in the window after this moment, and before that it is
    /// popped where nothing is active.
    Backoff(Moment),
    /// Its attempt failed. It is active in the window after this moment, and not before.
    ErrorBackoff(Moment),
    /// It was refused and waits for a change.
    Waiting,
    /// It may not be tried.
    Gated,
    /// It was popped.
    InFlight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Active,
    Backoff,
    ErrorBackoff,
    Waiting,
    /// Its quota has no room for it and its like.
    Parked(Charged),
    Gated,
    /// Popped too early.
    Aside,
    /// Popped when the log of changes was this long.
    InFlight(u64),
}

#[derive(Debug, Clone)]
struct Entry {
    priority: i32,
    ask: Ask,
    /// What it asks besides, where it stands for several pods.
    others: Box<[Ask]>,
    kind: u64,
    /// When it came or was last refused.
    queued: Moment,
    attempts: u32,
    refusals: u32,
    /// Attempts that failed, since the last that did not.
    errors: u32,
    until: Moment,
    rejection: Rejection,
    /// Whether it was tried because it waited for too long.
    leftover: bool,
    /// How it was woken, where it speaks for others that wait.
    probe: Option<Woken>,
    place: Place,
}

/// The order of pods: higher priority, then the longer wait.
pub(crate) type Turn = (Reverse<i32>, Moment, Uid);

impl Entry {
    /// A pod that was not tried yet.
    fn new(pod: &Pending, now: Moment) -> Self {
        Self {
            priority: pod.priority,
            ask: pod.ask,
            others: Box::default(),
            kind: pod.kind,
            queued: now,
            attempts: 0,
            refusals: 0,
            errors: 0,
            until: Moment::default(),
            rejection: Rejection::default(),
            leftover: false,
            probe: None,
            place: if pod.gated { Place::Gated } else { Place::Active },
        }
    }

    /// All that it asks.
    fn asks(&self) -> impl Iterator<Item = Ask> {
        std::iter::once(self.ask).chain(self.others.iter().copied())
    }

    fn turn(&self, uid: &Uid) -> Turn {
        (Reverse(self.priority), self.queued, uid.clone())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    AfterBackoff,
    AtOnce,
}

/// How a pod is woken, and by what.
#[derive(Debug, Clone, Copy)]
struct Woken {
    wake: Wake,
    cause: Cause,
}

/// How often a pod was tried, and what came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct History {
    attempts: u32,
    refusals: u32,
    errors: u32,
}

/// A pod to be decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Popped {
    /// Which pod.
    pub uid: Uid,
    /// How often it has been tried, this time included.
    pub attempts: u32,
}

/// Pods that want a node.
#[derive(Debug, Clone)]
pub struct Queue {
    settings: Settings,
    /// What each profile tells its plugins. A plugin that is in several hopes as any of them does.
    arguments: Vec<Arguments>,
    started: Moment,
    leftovers_seen: Moment,
    pods: FxHashMap<Uid, Entry>,
    active: BTreeSet<Turn>,
    backoff: BTreeSet<(Moment, Turn)>,
    error_backoff: BTreeSet<(Moment, Turn)>,
    waiting: Groups,
    /// Groups of which one is still to be woken.
    rousing: Rousing,
    aside: BTreeSet<Turn>,
    /// Those that wait for their quotas.
    parked: parked::Parked,
    /// Pods that have come to rest or have been roused since somebody asked; none where nobody asks.
    turned: Option<rests::Turned>,
    /// When the pods in flight were popped, by the length of the log then.
    flights: BTreeSet<(u64, Uid)>,
    /// What changed since the first of the pods in flight was popped.
    log: VecDeque<Change>,
    log_start: u64,
    changes_weighed: u64,
    missed_wakes: u64,
    arrivals: Arrivals,
    moves: Moves,
    /// Everything that was due by then has happened.
    settled: Moment,
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new(settings: Settings, now: Moment) -> Self {
        Self {
            settings,
            arguments: vec![Arguments::default()],
            started: now,
            leftovers_seen: now,
            pods: FxHashMap::default(),
            active: BTreeSet::new(),
            backoff: BTreeSet::new(),
            error_backoff: BTreeSet::new(),
            waiting: Groups::default(),
            rousing: Rousing::default(),
            aside: BTreeSet::new(),
            parked: parked::Parked::default(),
            turned: None,
            flights: BTreeSet::new(),
            log: VecDeque::new(),
            log_start: 0,
            changes_weighed: 0,
            missed_wakes: 0,
            arrivals: Arrivals::default(),
            moves: Moves::default(),
            settled: now,
        }
    }

    /// For pods of these profiles, by what they tell their plugins.
    #[must_use]
    pub fn heeding(mut self, arguments: Vec<Arguments>) -> Self {
        self.arguments.clear();
        for own in arguments {
            if !self.arguments.iter().any(|other| other.are_like(&own)) {
                self.arguments.push(own);
            }
        }
        self
    }

    /// A pod is there, or is now this. What of it changed is told by [`Queue::notice`].
    pub fn put(&mut self, pod: Pending, now: Moment) {
        if let Some(entry) = self.pods.get(&pod.uid) {
            let freed = (entry.place == Place::Gated && !pod.gated).then(|| pod.uid.clone());
            self.regroup([pod], now);
            if let Some(uid) = freed {
                self.move_to(&uid, Place::Active, arrivals::UNGATED);
            }
            return;
        }
        self.settle(now);
        let entry = Entry::new(&pod, now);
        self.arrived(&pod.uid, entry.place, arrivals::ADDED);
        self.enter(pod.uid, entry);
    }

    /// A pod is gone, or has a node. Where that is because we found it one, [`Queue::placed`] is
    /// the one to call.
    pub fn remove(&mut self, uid: &Uid) {
        if let Some(entry) = self.take(uid) {
            self.pass_on(&entry);
        }
        self.forget_changes();
    }

    /// A popped pod got a node. What it went through is needed where it loses that again.
    pub fn placed(&mut self, uid: &Uid) -> Option<History> {
        let entry = self.take(uid)?;
        if entry.leftover {
            self.missed_wakes += 1;
        }
        self.pass_on(&entry);
        self.forget_changes();
        let Entry { attempts, refusals, errors, .. } = entry;
        Some(History { attempts, refusals, errors })
    }

    /// A pod that had got a node is back without it: to bind it there failed for sure.
    pub fn put_back(&mut self, pod: Pending, history: History, now: Moment) {
        self.settle(now);
        if let Some(there) = self.take(&pod.uid) {
            self.pass_on(&there);
        }
        let History { attempts, refusals, errors } = history;
        let mut entry = Entry { attempts, refusals, errors, ..Entry::new(&pod, now) };
        self.fail(&mut entry, now);
        entry.place = self.place(&entry, Wake::AfterBackoff, now);
        self.arrived(&pod.uid, entry.place, arrivals::FAILED);
        self.enter(pod.uid, entry);
    }

    /// Counts an attempt that failed, and says how long the pod is left alone.
    fn fail(&self, entry: &mut Entry, now: Moment) {
        if entry.rejection.is_error() {
            entry.errors += 1;
        } else {
            entry.refusals += 1;
            entry.errors = 0;
        }
        entry.queued = now;
        entry.leftover = false;
        let failures = if entry.errors > 0 { entry.errors } else { entry.refusals };
        let Settings { backoff_initial, backoff_max, .. } = self.settings;
        let duration = backoff::backoff(backoff_initial, backoff_max, failures);
        entry.until = now.after(duration).window();
    }

    /// Whether a pod is active: one that need not be taken early.
    pub fn has_active(&mut self, now: Moment) -> bool {
        self.settle(now);
        self.rouse_on();
        !self.active.is_empty()
    }

    /// The next pod to be decided. Where none is active, one in back-off is taken early: there is
    /// time for it.
    pub fn pop(&mut self, now: Moment) -> Option<Popped> {
        self.settle(now);
        self.rouse_on();
        let first = self.active.first().map(|(_, _, uid)| uid.clone());
        let early = || self.backoff.first().map(|(_, (_, _, uid))| uid.clone());
        let uid = first.or_else(early)?;
        let mut entry = self.take(&uid)?;
        if entry.place == Place::Backoff {
            self.arrived(&uid, Place::Active, arrivals::EARLY);
        }
        entry.attempts += 1;
        if entry.probe.is_some()
            && let Some(group) = self.waiting.get_mut(&self.key(&entry))
            && group.probe.as_ref() == Some(&uid)
        {
            group.probe = None;
        }
        entry.rejection = Rejection::default();
        entry.place = Place::InFlight(self.log_end());
        let popped = Popped { uid: uid.clone(), attempts: entry.attempts };
        self.enter(uid, entry);
        Some(popped)
    }

    /// A popped pod got no node, but room is made for it: where it speaks for others, the next of them
    /// that no room is made for is to be tried as well.
    pub fn room_made(&mut self, uid: &Uid, ledger: &Ledger) {
        let Some(woken) = self.pods.get_mut(uid).and_then(|entry| entry.probe.take()) else {
            return;
        };
        let key = self.key(&self.pods[uid]);
        self.wake_unawaited(&key, woken, ledger);
    }

    /// A popped pod got no node. What changed since it was popped may wake it at once. A pod that
    /// is not in flight, because it is gone by now, is left alone.
    pub fn reject(&mut self, uid: &Uid, rejection: Rejection, ledger: &Ledger, now: Moment) {
        self.settle(now);
        let Some(Place::InFlight(since)) = self.pods.get(uid).map(|entry| entry.place) else {
            return;
        };
        let Some(mut entry) = self.take(uid) else { return };
        entry.rejection = rejection;
        self.fail(&mut entry, now);
        let woken = match rejection.is_error() {
            true => {
                // Of the others, nothing is known.
                self.pass_on(&entry);
                Some(Woken { wake: Wake::AfterBackoff, cause: arrivals::FAILED })
            }
            false => self.woken_since(since, uid, &entry, ledger),
        };
        let spoke = entry.probe.take().filter(|_| !rejection.is_error());
        entry.place = match woken {
            Some(woken) => self.place(&entry, woken.wake, now),
            None => Place::Waiting,
        };
        self.arrived(uid, entry.place, arrivals::FAILED);
        let key = self.key(&entry);
        // It speaks for the others, unless it has what they have not.
        let speaks = ledger.nominated(uid).is_none();
        if !rejection.is_error() && speaks && self.settings.waking == Waking::Needed {
            entry.probe = woken.filter(|_| self.waiting.contains(&key));
        }
        let is_probe = entry.probe.is_some();
        self.enter(uid.clone(), entry);
        if !rejection.is_error()
            && let Some(group) = self.waiting.get_mut(&key)
        {
            if is_probe {
                group.probe = Some(uid.clone());
            }
            let theirs = group.rejection();
            let all = if speaks { rejection } else { theirs.and(rejection) };
            self.waiting.judge(&key, all, now);
        }
        if let Some(spoke) = spoke.filter(|_| !speaks) {
            self.wake_unawaited(&key, spoke, ledger);
        }
        self.forget_changes();
    }

    /// Has a pod tried at once, back-off or not. A gated pod stays gated.
    pub fn activate(&mut self, uid: &Uid, now: Moment) {
        self.settle(now);
        let Some(place) = self.pods.get(uid).map(|entry| entry.place) else { return };
        match place {
            Place::Active | Place::Gated | Place::Aside => {}
            Place::InFlight(_) => self.keep_change(Change::Asked(uid.clone())),
            Place::Backoff | Place::ErrorBackoff | Place::Waiting | Place::Parked(_) => {
                self.move_to(uid, Place::Active, arrivals::ASKED);
            }
        }
    }

    /// Has a pod that waits tried again after its back-off: what was to be done for it meanwhile
    /// could not be done.
    pub fn again(&mut self, uid: &Uid, now: Moment) {
        self.settle(now);
        let waits = |entry: &Entry| matches!(entry.place, Place::Waiting | Place::Parked(_));
        if self.pods.get(uid).is_some_and(waits) {
            self.move_to(uid, Place::ErrorBackoff, arrivals::FAILED);
        }
    }

    /// An entry stands for several pods, which ask this besides.
    pub(crate) fn also_asks(&mut self, uid: &Uid, others: &[Ask]) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.others = others.into();
        }
    }

    /// A popped entry is to be tried again at once: things have changed while it was thought about.
    pub(crate) fn again_at_once(&mut self, uid: &Uid, now: Moment) {
        self.settle(now);
        self.move_to(uid, Place::Active, arrivals::ASKED);
        self.forget_changes();
    }

    /// Whether anybody may care about a change: nothing needs to be noticed while nobody waits.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        !self.waiting.is_empty() || !self.flights.is_empty()
    }

    /// Something changed: pods that it may help wake. The ledger knows of it already.
    pub fn notice(&mut self, ledger: &Ledger, change: Change, now: Moment) {
        self.settle(now);
        if let Some(uid) = change.pod() {
            self.notice_for(uid, ledger, &change, now);
        } else {
            self.notice_for_all(ledger, &change, now);
        }
        if !self.flights.is_empty() {
            self.keep_change(change);
        }
    }

    /// Does what is due by now: back-offs end, and pods that waited for too long are tried.
    pub fn settle(&mut self, now: Moment) {
        self.settled = now;
        let over =
            |(until, (_, _, uid)): &(Moment, Turn)| (*until < now.window()).then(|| uid.clone());
        while let Some(uid) = self.backoff.first().and_then(over) {
            self.move_to(&uid, Place::Active, arrivals::RESTED);
        }
        while let Some(uid) = self.error_backoff.first().and_then(over) {
            self.move_to(&uid, Place::Active, arrivals::RESTED);
        }
        let beat = now.last_beat(self.started, LEFTOVER_INTERVAL);
        if beat <= self.leftovers_seen {
            return;
        }
        match self.settings.waking {
            Waking::Needed => self.wake_leftovers(beat),
            Waking::AsKubernetes => self.wake_leftovers_as_kubernetes(beat, now),
        }
    }

    /// When something is due next, if no fact comes before: a pod can be popped, or pods that
    /// waited for too long are to be looked for.
    #[must_use]
    pub fn next_due(&self, now: Moment) -> Option<Moment> {
        if !self.active.is_empty() || !self.backoff.is_empty() || !self.rousing.is_empty() {
            return Some(now);
        }
        let ends = self.error_backoff.first().map(|(until, _)| until.next_window());
        let leftovers = self.leftovers_seen.after(LEFTOVER_INTERVAL);
        let leftovers = (!self.waiting.is_empty()).then_some(leftovers);
        ends.into_iter().chain(leftovers).min()
    }

    /// Where a pod stands; none where it is not here.
    #[must_use]
    pub fn standing(&self, uid: &Uid) -> Option<Standing> {
        self.pods.get(uid).map(standing)
    }

    /// Where every pod stands, in no order.
    pub fn standings(&self) -> impl Iterator<Item = (&Uid, Standing)> {
        self.pods.iter().map(|(uid, entry)| (uid, standing(entry)))
    }

    /// The active pods, the next one first.
    pub fn active(&self) -> impl Iterator<Item = &Uid> {
        self.active.iter().map(|(_, _, uid)| uid)
    }

    /// Who refused a pod last.
    #[must_use]
    pub fn rejection(&self, uid: &Uid) -> Option<Rejection> {
        self.pods.get(uid).map(|entry| entry.rejection)
    }

    /// Whose change of mind a pod that waits hears of: those like it hear the same.
    #[cfg(test)]
    pub(crate) fn hears(&self, uid: &Uid) -> Option<Rejection> {
        let key = self.key(self.pods.get(uid)?);
        self.waiting.get(&key).map(|group| group.rejection())
    }

    /// Who keeps each pod that is not in flight from a node, as far as anybody does, in no order.
    pub fn refusals(&self) -> impl Iterator<Item = (&Uid, Plugins)> {
        let who = |entry: &Entry| match entry.place {
            Place::Gated => Plugins::from_iter([Plugin::SchedulingGates]),
            _ => entry.rejection.plugins(),
        };
        self.pods.iter().map(move |(uid, entry)| (uid, who(entry)))
    }

    /// How many groups of pods wait that are alike: what a change is held against.
    #[must_use]
    pub fn waiting_groups(&self) -> usize {
        self.waiting.len()
    }

    /// How many changes are kept for pods in flight.
    #[must_use]
    pub fn changes_kept(&self) -> usize {
        self.log.len()
    }

    /// How often a change that was kept was held against a pod that came back refused.
    #[must_use]
    pub fn changes_weighed(&self) -> u64 {
        self.changes_weighed
    }

    /// How many pods are here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether no pod is here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// How many pods got a node that nothing but the passing of time had woken: a change that
    /// should have woken them was overlooked.
    #[must_use]
    pub fn missed_wakes(&self) -> u64 {
        self.missed_wakes
    }

    /// How often pods came to which part of the queue, and what brought them.
    #[must_use]
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// The last moves of pods, and what brought them.
    #[must_use]
    pub fn moves(&self) -> &Moves {
        &self.moves
    }

    /// A pod comes to a place.
    fn arrived(&mut self, uid: &Uid, place: Place, cause: Cause) {
        self.arrivals.count(place, cause);
        self.moves.note(uid, place, cause, self.settled);
    }

    fn key(&self, entry: &Entry) -> Key {
        let Entry { ask, priority, kind, rejection, .. } = *entry;
        let as_kubernetes = self.settings.waking == Waking::AsKubernetes;
        let own = as_kubernetes.then_some(rejection);
        Key { ask: ask.anonymous(), priority, kind, own }
    }

    /// How a change wakes an entry that was refused so; none where it sleeps on.
    fn wake_any(
        &self,
        entry: &Entry,
        rejection: Rejection,
        ledger: &Ledger,
        change: &Change,
    ) -> Option<Wake> {
        entry.asks().find_map(|ask| self.wake(ask, rejection, ledger, change))
    }

    /// How a change wakes pods that ask this and were refused so; none where they sleep on.
    fn wake(
        &self,
        ask: Ask,
        rejection: Rejection,
        ledger: &Ledger,
        change: &Change,
    ) -> Option<Wake> {
        match change {
            Change::Asked(_) | Change::PassedOver(_) | Change::Invited(_) => {
                return Some(Wake::AfterBackoff);
            }
            Change::Overdue => {
                let as_kubernetes = self.settings.waking == Waking::AsKubernetes;
                return as_kubernetes.then_some(Wake::AfterBackoff);
            }
            _ => {}
        }
        let is_hope = |hint: Hint| match hint {
            Hint::No => false,
            Hint::Yes => true,
            Hint::Vain => self.settings.waking == Waking::AsKubernetes,
            Hint::Missed(_) => self.settings.waking == Waking::Needed,
        };
        let wakes = |plugin: Plugin| {
            let hints = self.arguments.iter().map(|own| hint_by(own, plugin, ledger, ask, change));
            hints.into_iter().any(is_hope)
        };
        let concerned = change.concerns();
        if rejection.pending.among(concerned).iter().any(wakes) {
            return Some(Wake::AtOnce);
        }
        let refused = rejection.unschedulable.among(concerned);
        refused.iter().any(wakes).then_some(Wake::AfterBackoff)
    }

    fn place(&self, entry: &Entry, wake: Wake, now: Moment) -> Place {
        let turned_off = self.settings.backoff_max.is_zero();
        let over = turned_off || entry.until < now.window();
        match wake {
            Wake::AtOnce => Place::Active,
            Wake::AfterBackoff if over => Place::Active,
            Wake::AfterBackoff if entry.rejection.is_error() => Place::ErrorBackoff,
            Wake::AfterBackoff => Place::Backoff,
        }
    }

    fn move_to(&mut self, uid: &Uid, place: Place, cause: Cause) {
        if let Some(mut entry) = self.take(uid) {
            self.arrived(uid, place, cause);
            entry.place = place;
            self.enter(uid.clone(), entry);
        }
    }

    fn take(&mut self, uid: &Uid) -> Option<Entry> {
        let entry = self.pods.remove(uid)?;
        self.turn(uid, entry.place);
        let turn = entry.turn(uid);
        match entry.place {
            Place::Active => {
                self.active.remove(&turn);
            }
            Place::Backoff => {
                self.backoff.remove(&(entry.until, turn));
            }
            Place::ErrorBackoff => {
                self.error_backoff.remove(&(entry.until, turn));
            }
            Place::Waiting => {
                let key = self.key(&entry);
                self.waiting.leave(&key, &entry, turn);
            }
            Place::Parked(lot) => self.parked.leave(lot, &turn),
            Place::Gated => {}
            Place::Aside => {
                self.aside.remove(&turn);
            }
            Place::InFlight(since) => {
                self.flights.remove(&(since, uid.clone()));
            }
        }
        Some(entry)
    }

    fn enter(&mut self, uid: Uid, entry: Entry) {
        self.turn(&uid, entry.place);
        let turn = entry.turn(&uid);
        match entry.place {
            Place::Active => {
                self.active.insert(turn);
            }
            Place::Backoff => {
                self.backoff.insert((entry.until, turn));
            }
            Place::ErrorBackoff => {
                self.error_backoff.insert((entry.until, turn));
            }
            Place::Waiting => {
                self.waiting.join(self.key(&entry), &entry, turn);
            }
            Place::Parked(lot) => self.parked.join(lot, turn),
            Place::Gated => {}
            Place::Aside => {
                self.aside.insert(turn);
            }
            Place::InFlight(since) => {
                self.flights.insert((since, uid.clone()));
            }
        }
        self.pods.insert(uid, entry);
    }
}

fn standing(entry: &Entry) -> Standing {
    match entry.place {
        Place::Active | Place::Aside => Standing::Active,
        Place::Backoff => Standing::Backoff(entry.until),
        Place::ErrorBackoff => Standing::ErrorBackoff(entry.until),
        Place::Waiting | Place::Parked(_) => Standing::Waiting,
        Place::Gated => Standing::Gated,
        Place::InFlight(_) => Standing::InFlight,
    }
}
