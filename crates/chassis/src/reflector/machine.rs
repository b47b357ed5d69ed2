//! List, then watch, as a state machine: inputs and the time in, effects out.
//!
//! The machine never waits and never asks. Whoever drives it carries out the one request
//! or wait that a step asks for, and feeds the outcome back. It keeps, for each object it
//! has delivered, the uid and the version and nothing else; that is enough to tell what a
//! new list changes.
//!
//! What it holds to, whatever the server and the network do:
//!
//! - deltas of one object come in the order of its versions, none twice;
//! - an object that vanished while nobody watched is delivered as deleted, with the uid
//!   that was delivered before;
//! - an object that was replaced by one of the same name is first delivered as deleted;
//! - [`Delta::Synced`] means that all that was delivered adds up to a state which the
//!   server has had.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::client::{Event, Identity, Nameplate, Object, Page, Refusal};
use crate::key::Key;

/// How many objects are asked for in one answer of a list.
pub const PAGE_LIMIT: u32 = 500;
/// The first wait after a failure.
const DELAY_MIN: Duration = Duration::from_millis(500);
/// The longest wait between tries, even where the server asks for more.
const DELAY_MAX: Duration = Duration::from_secs(30);
/// How long a watch is asked to last, before up to as much again of spread.
const WATCH_MIN: Duration = Duration::from_mins(5);
/// A watch of which nothing comes for so long is given up: an API server sends a bookmark about every
/// minute, once anything has happened to the kind. Whoever is in between may keep a connection open
/// that leads nowhere.
pub const SILENCE_MAX: Duration = Duration::from_mins(3);
/// A watch that ended sooner, and told nothing new, counts as a failure.
const WATCH_USEFUL: Duration = Duration::from_secs(1);
/// How often it is looked whether a kind is there that need not be.
const ABSENT_LOOK: Duration = Duration::from_secs(10);
/// After so many lists whose pages expired half-way, the whole is asked for at once.
const EXPIRED_LISTS_MAX: u32 = 2;

/// A change of what the server holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta<T> {
    /// The object is there, in this state.
    Upserted(T),
    /// The object is gone.
    Deleted {
        /// Which.
        key: Key,
        /// The uid it was delivered with.
        uid: Box<str>,
    },
    /// The object is there, in a state that is not a `T`. What was delivered of it before
    /// is out of date. Its deletion is delivered as usual.
    Malformed {
        /// Which.
        key: Key,
        /// The uid of the owner that manages it.
        controller: Option<Box<str>>,
        /// What is wrong with it.
        error: String,
    },
    /// Everything that a list held has been delivered; once at the start, and again after
    /// each new list.
    Synced,
}

/// What happened.
#[derive(Debug)]
pub enum Input<T> {
    /// The machine is started.
    Start,
    /// The list was answered.
    Page(Page<T>),
    /// An event of the watch.
    Event(Event<T>),
    /// The server ended the watch, at its time limit or when it pleased.
    WatchEnded,
    /// The request failed, or the watch broke.
    Failed(Failure),
    /// Nothing came of the watch for [`SILENCE_MAX`].
    Silent,
    /// The wait is over.
    Woke,
    /// What the watch shows may be too old: a list shows what there is.
    Relist,
}

/// How a request failed.
#[derive(Debug)]
pub enum Failure {
    /// The server refused it.
    Refused(Box<Refusal>),
    /// No answer, a broken connection, or an answer that cannot be read.
    Lost(String),
}

/// What is to be done. A step asks for at most one request or wait, as its last effect.
#[derive(Debug, PartialEq)]
pub enum Effect<T> {
    /// Hand this on.
    Deliver(Delta<T>),
    /// Say this in the log.
    Report(String),
    /// Ask for a list, or the next part of it.
    List {
        /// At most so many objects; zero for all.
        limit: u32,
        /// Where to go on; `None` from the start.
        continue_token: Option<String>,
    },
    /// Ask for the events after a version, with bookmarks.
    Watch {
        /// The version.
        resource_version: String,
        /// How long the server shall keep it open.
        timeout: Duration,
    },
    /// Come back after this long.
    WakeAfter(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Listing,
    Watching { since: Duration },
    WaitingToList,
    WaitingToWatch,
}

/// What is remembered of a delivered object.
#[derive(Debug)]
struct Known {
    uid: Box<str>,
    version: Box<str>,
    /// The list that held it last.
    list: u32,
}

/// The state machine of one reflector.
#[derive(Debug)]
pub struct Machine {
    phase: Phase,
    known: BTreeMap<Key, Known>,
    /// How far the watch has come.
    position: String,
    /// The number of the list under way, or of the last one.
    list: u32,
    expired_lists: u32,
    /// Whether the version that the last list gave was already gone when watched.
    expired_at_once: bool,
    /// Whether the watch under way has told anything new.
    progressed: bool,
    /// Whether it has shown a bookmark.
    bookmarked: bool,
    backoff: Backoff,
    /// Failures since a watch last told something, or lasted.
    failures: u32,
    /// Whether the server may not know the kind.
    may_be_absent: bool,
    /// Whether the last list showed that it does not.
    is_absent: bool,
    /// Whether that was told.
    is_absence_told: bool,
}

impl Machine {
    /// A machine that has delivered nothing; `seed` spreads its waits.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            phase: Phase::Idle,
            known: BTreeMap::new(),
            position: String::new(),
            list: 0,
            expired_lists: 0,
            expired_at_once: false,
            progressed: false,
            bookmarked: false,
            backoff: Backoff::new(DELAY_MIN, DELAY_MAX, seed),
            failures: 0,
            may_be_absent: false,
            is_absent: false,
            is_absence_told: false,
        }
    }

    /// The same for a kind that the server may not know: then there is nothing of it, and it is looked
    /// for now and then.
    #[must_use]
    pub fn of_what_may_be_absent(self) -> Self {
        Self { may_be_absent: true, ..self }
    }

    /// How many objects are delivered and not deleted.
    #[must_use]
    pub fn known(&self) -> usize {
        self.known.len()
    }

    /// How many lists were begun.
    #[must_use]
    pub fn lists(&self) -> u32 {
        self.list
    }

    /// Whether everything that its last list held was delivered, and it watches since.
    #[must_use]
    pub fn is_watching(&self) -> bool {
        matches!(self.phase, Phase::Watching { .. })
    }

    /// Whether there is nothing to be done for now but to watch, or to look whether the kind is there.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_watching() || (self.is_absent && self.phase == Phase::WaitingToList)
    }

    /// Whether all changes up to this revision of the store that its kind is kept in were
    /// delivered, as far as versions tell.
    #[must_use]
    pub fn has_passed(&self, revision: u64) -> bool {
        self.list > 0 && self.position.parse::<u64>().is_ok_and(|own| own >= revision)
    }

    /// Takes what happened at `now` (any clock that does not go back) and returns what to
    /// do. An input that does not belong to the phase is ignored.
    pub fn step<T: Object>(&mut self, now: Duration, input: Input<T>) -> Vec<Effect<T>> {
        let mut effects = Vec::new();
        match (self.phase, input) {
            (Phase::Idle, Input::Start)
            | (Phase::WaitingToList, Input::Woke)
            | (Phase::Watching { .. }, Input::Relist) => {
                self.begin_list(&mut effects);
            }
            (Phase::WaitingToList, Input::Relist) if self.is_absent => {
                self.begin_list(&mut effects);
            }
            (Phase::WaitingToWatch, Input::Woke) => self.begin_watch(now, &mut effects),
            (Phase::Listing, Input::Page(page)) => self.take_page(now, page, &mut effects),
            (Phase::Listing, Input::Failed(failure)) => self.fail_list(&failure, &mut effects),
            (Phase::Watching { .. }, Input::Event(event)) => self.take_event(event, &mut effects),
            (Phase::Watching { since }, Input::WatchEnded) => {
                self.forgive_if_useful(since, now);
                if self.progressed || now.saturating_sub(since) >= WATCH_USEFUL {
                    self.begin_watch(now, &mut effects);
                } else {
                    self.wait(Phase::WaitingToWatch, None, &mut effects);
                }
            }
            (Phase::Watching { since }, Input::Silent) => {
                self.forgive_if_useful(since, now);
                // Where bookmarks came before, it is not that there is nothing to tell.
                if self.bookmarked {
                    let silence = SILENCE_MAX.as_secs();
                    let what = format!("watch lost: silent for {silence} s, without a bookmark");
                    effects.push(Effect::Report(what));
                }
                self.begin_watch(now, &mut effects);
            }
            (Phase::Watching { since }, Input::Failed(failure)) => {
                self.forgive_if_useful(since, now);
                self.fail_watch(failure, &mut effects);
            }
            _ => {}
        }
        effects
    }

    /// A watch that lasted shows that the server is well. A list shows nothing of the kind:
    /// one that is followed by a refused watch, again and again, has to become rarer.
    fn forgive_if_useful(&mut self, since: Duration, now: Duration) {
        if now.saturating_sub(since) >= WATCH_USEFUL {
            self.failures = 0;
            self.expired_at_once = false;
        }
    }

    fn begin_list<T>(&mut self, effects: &mut Vec<Effect<T>>) {
        self.list = self.list.wrapping_add(1);
        self.is_absent = false;
        self.phase = Phase::Listing;
        let limit = if self.expired_lists >= EXPIRED_LISTS_MAX { 0 } else { PAGE_LIMIT };
        effects.push(Effect::List { limit, continue_token: None });
    }

    fn begin_watch<T>(&mut self, now: Duration, effects: &mut Vec<Effect<T>>) {
        self.phase = Phase::Watching { since: now };
        (self.progressed, self.bookmarked) = (false, false);
        let timeout = WATCH_MIN + self.backoff.spread(WATCH_MIN);
        effects.push(Effect::Watch { resource_version: self.position.clone(), timeout });
    }

    fn wait<T>(&mut self, then: Phase, asked: Option<Duration>, effects: &mut Vec<Effect<T>>) {
        self.phase = then;
        let wait = self.backoff.wait(self.failures);
        self.failures = self.failures.saturating_add(1);
        effects.push(Effect::WakeAfter(wait.max(asked.unwrap_or_default().min(DELAY_MAX))));
    }

    fn take_page<T: Object>(&mut self, now: Duration, page: Page<T>, effects: &mut Vec<Effect<T>>) {
        for item in page.items {
            self.list_one(item, effects);
        }
        for (nameplate, error) in page.malformed {
            self.list_malformed(nameplate, error, effects);
        }
        if let Some(token) = page.next {
            effects.push(Effect::List { limit: PAGE_LIMIT, continue_token: Some(token) });
            return;
        }
        self.sweep(effects);
        self.expired_lists = 0;
        self.is_absence_told = false;
        self.position = page.resource_version;
        effects.push(Effect::Deliver(Delta::Synced));
        self.begin_watch(now, effects);
    }

    fn list_one<T: Object>(&mut self, item: T, effects: &mut Vec<Effect<T>>) {
        let identity = item.identity();
        if identity.name.is_empty() {
            effects.push(Effect::Report("an object without a name was left out".to_owned()));
            return;
        }
        if self.remember(identity, effects) {
            effects.push(Effect::Deliver(Delta::Upserted(item)));
        }
    }

    fn list_malformed<T>(
        &mut self,
        nameplate: Nameplate,
        error: String,
        effects: &mut Vec<Effect<T>>,
    ) {
        if nameplate.metadata.name.is_empty() {
            effects.push(Effect::Report(format!("an object was left out: {error}")));
            return;
        }
        let identity = nameplate.identity();
        let key = identity.key();
        if self.remember(identity, effects) {
            let controller = nameplate.metadata.controller;
            effects.push(Effect::Deliver(Delta::Malformed { key, controller, error }));
        }
    }

    /// Notes the state of an object and says whether it is news. The end of a former
    /// object of the same name is delivered on the way.
    fn remember<T>(&mut self, identity: Identity<'_>, effects: &mut Vec<Effect<T>>) -> bool {
        let (key, list) = (identity.key(), self.list);
        let fresh =
            || Known { uid: identity.uid.into(), version: identity.resource_version.into(), list };
        let Some(known) = self.known.get_mut(&key) else {
            self.known.insert(key, fresh());
            return true;
        };
        if *known.uid == *identity.uid {
            known.list = list;
            if *known.version == *identity.resource_version {
                return false;
            }
            known.version = identity.resource_version.into();
            return true;
        }
        let former = std::mem::replace(known, fresh());
        effects.push(Effect::Deliver(Delta::Deleted { key, uid: former.uid }));
        true
    }

    /// Delivers the deletion of what a complete list did not hold.
    fn sweep<T>(&mut self, effects: &mut Vec<Effect<T>>) {
        let list = self.list;
        let gone = self.known.extract_if(.., |_, known| known.list != list);
        effects.extend(
            gone.map(|(key, known)| Effect::Deliver(Delta::Deleted { key, uid: known.uid })),
        );
    }

    /// There is nothing of the kind, whatever was listed before.
    fn be_absent<T>(&mut self, effects: &mut Vec<Effect<T>>) {
        self.is_absent = true;
        let is_news = !std::mem::replace(&mut self.is_absence_told, true);
        if is_news {
            let look = ABSENT_LOOK.as_secs();
            let what =
                format!("the server does not know the kind; it is looked for every {look} s");
            effects.push(Effect::Report(what));
        }
        let gone = std::mem::take(&mut self.known);
        if is_news || !gone.is_empty() {
            let gone = gone.into_iter();
            effects.extend(
                gone.map(|(key, known)| Effect::Deliver(Delta::Deleted { key, uid: known.uid })),
            );
            effects.push(Effect::Deliver(Delta::Synced));
        }
        self.phase = Phase::WaitingToList;
        effects.push(Effect::WakeAfter(ABSENT_LOOK));
    }

    fn fail_list<T>(&mut self, failure: &Failure, effects: &mut Vec<Effect<T>>) {
        match failure {
            Failure::Refused(refusal) if refusal.code == 404 && self.may_be_absent => {
                self.be_absent(effects);
            }
            Failure::Refused(refusal) if refusal.asks_for_relist() => {
                // The pages took longer than the server keeps a version.
                self.expired_lists = self.expired_lists.saturating_add(1);
                if self.expired_lists <= EXPIRED_LISTS_MAX {
                    self.begin_list(effects);
                    return;
                }
                self.wait(Phase::WaitingToList, refusal.retry_after, effects);
            }
            Failure::Refused(refusal) => {
                effects.push(Effect::Report(format!("cannot list: {refusal}")));
                self.wait(Phase::WaitingToList, refusal.retry_after, effects);
            }
            Failure::Lost(error) => {
                effects.push(Effect::Report(format!("cannot list: {error}")));
                self.wait(Phase::WaitingToList, None, effects);
            }
        }
    }

    fn take_event<T: Object>(&mut self, event: Event<T>, effects: &mut Vec<Effect<T>>) {
        match event {
            Event::Applied(object) => {
                if self.applied(object.identity(), effects) {
                    effects.push(Effect::Deliver(Delta::Upserted(object)));
                }
            }
            Event::Malformed { nameplate, error } => {
                let identity = nameplate.identity();
                if self.applied(identity, effects) {
                    let (key, controller) = (identity.key(), nameplate.metadata.controller);
                    effects.push(Effect::Deliver(Delta::Malformed { key, controller, error }));
                }
            }
            Event::Deleted(object) => self.deleted(object.identity(), effects),
            Event::MalformedDeleted { nameplate } => self.deleted(nameplate.identity(), effects),
            Event::Bookmark { resource_version } => {
                self.bookmarked = true;
                if !resource_version.is_empty() && !is_older(&resource_version, &self.position) {
                    self.advance(&resource_version);
                }
            }
            Event::Nameless { error } => {
                effects.push(Effect::Report(format!("an event was left out: {error}")));
            }
            Event::Refused(refusal) => {
                self.fail_watch(Failure::Refused(Box::new(refusal)), effects);
            }
        }
    }

    fn applied<T>(&mut self, identity: Identity<'_>, effects: &mut Vec<Effect<T>>) -> bool {
        // The server repeats nothing by itself, but a resumed watch, or one behind another
        // server's cache, may begin too early.
        if identity.name.is_empty() || is_older(identity.resource_version, &self.position) {
            return false;
        }
        self.advance(identity.resource_version);
        self.remember(identity, effects)
    }

    fn deleted<T>(&mut self, identity: Identity<'_>, effects: &mut Vec<Effect<T>>) {
        if is_older(identity.resource_version, &self.position) {
            return;
        }
        self.advance(identity.resource_version);
        let key = identity.key();
        if let Some(known) = self.known.remove(&key) {
            effects.push(Effect::Deliver(Delta::Deleted { key, uid: known.uid }));
        }
    }

    fn advance(&mut self, version: &str) {
        self.failures = 0;
        self.expired_at_once = false;
        if !version.is_empty() && self.position != version {
            self.progressed = true;
            version.clone_into(&mut self.position);
        }
    }

    fn fail_watch<T>(&mut self, failure: Failure, effects: &mut Vec<Effect<T>>) {
        match failure {
            Failure::Refused(refusal) if refusal.asks_for_relist() => {
                // A first time is in the nature of things; a second one without progress in
                // between is a server in trouble.
                if std::mem::replace(&mut self.expired_at_once, true) {
                    self.wait(Phase::WaitingToList, refusal.retry_after, effects);
                } else {
                    self.begin_list(effects);
                }
            }
            Failure::Refused(refusal) => {
                effects.push(Effect::Report(format!("cannot watch: {refusal}")));
                // A server that is busy still has our place; any other refusal (the resource
                // was removed, access was taken away) may mean that events were missed.
                let busy = refusal.code == 429 || refusal.code >= 500;
                let then = if busy { Phase::WaitingToWatch } else { Phase::WaitingToList };
                self.wait(then, refusal.retry_after, effects);
            }
            Failure::Lost(error) => {
                effects.push(Effect::Report(format!("watch lost: {error}")));
                self.wait(Phase::WaitingToWatch, None, effects);
            }
        }
    }
}

/// Whether one version comes before another. Versions are decimal numbers that grow; of
/// one that is not, nothing is known, and nothing may be dropped.
fn is_older(version: &str, position: &str) -> bool {
    match (version.parse::<u128>(), position.parse::<u128>()) {
        (Ok(version), Ok(position)) => version < position,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
