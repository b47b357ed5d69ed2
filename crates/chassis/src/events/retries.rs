//! Events that were not answered: when each is tried again, and beside how many others.
//!
//! They have a share of what is written side by side, of which one namespace has no more than a part.
//! Where nothing is answered in a namespace any more, its other events wait here as well, until
//! something is: others are written as if it were not there.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Lane, Try};

/// After so many tries in a row without an answer, a namespace is in trouble.
const TROUBLE: u32 = 8;
/// How many are tried side by side in a namespace in trouble.
const SHARE: usize = 4;

/// What came of a try.
#[derive(Debug)]
pub(super) enum Tried {
    /// It is over with this event.
    End {
        lane: Lane,
        /// Whether there was an answer.
        is_clear: bool,
        /// Whether it had a place of those that are here.
        is_apart: bool,
    },
    /// There was no answer; it is to be tried again.
    Unclear { next: Try, due: Duration },
}

/// Events that wait to be tried, by namespace.
#[derive(Debug)]
pub(super) struct Retries {
    namespaces: BTreeMap<Box<str>, Trouble>,
    waiting: usize,
    under_way: usize,
    under_way_max: usize,
    /// How many ever came, to tell apart those that are due at once.
    count: u64,
}

#[derive(Debug, Default)]
struct Trouble {
    waiting: BTreeMap<(Duration, u64), Try>,
    under_way: usize,
    /// Tries without an answer since the last one with.
    silences: u32,
}

impl Trouble {
    fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.under_way == 0 && self.silences == 0
    }

    fn is_in_trouble(&self) -> bool {
        self.silences >= TROUBLE
    }

    /// When something here may be tried.
    fn due(&self) -> Option<Duration> {
        let ((due, _), _) = self.waiting.first_key_value()?;
        (self.under_way < SHARE || !self.is_in_trouble()).then_some(*due)
    }
}

impl Retries {
    /// None yet; at most so many are tried side by side.
    pub(super) fn new(under_way_max: usize) -> Self {
        Self { namespaces: BTreeMap::new(), waiting: 0, under_way: 0, under_way_max, count: 0 }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// An event that was never tried: returned where it can be now, and otherwise kept.
    pub(super) fn admit(&mut self, first: Try, now: Duration) -> Option<Try> {
        if self.namespaces.is_empty() {
            return Some(first);
        }
        match self.namespaces.get(first.namespace()) {
            Some(own) if own.is_in_trouble() => {
                self.keep(first, now);
                None
            }
            _ => Some(first),
        }
    }

    fn keep(&mut self, next: Try, due: Duration) {
        self.count += 1;
        self.waiting += 1;
        let own = self.namespaces.entry(next.namespace().into()).or_default();
        own.waiting.insert((due, self.count), next);
    }

    /// Takes in what came of a try. Where it is over with the event, its lane is free.
    pub(super) fn tried(&mut self, tried: Tried) -> Option<Lane> {
        match tried {
            Tried::End { lane, is_clear, is_apart } => {
                self.arrived(lane.1.namespace(), is_clear, is_apart);
                Some(lane)
            }
            Tried::Unclear { next, due } => {
                let namespace: Box<str> = next.namespace().into();
                let is_apart = next.is_apart;
                self.keep(next, due);
                self.arrived(&namespace, false, is_apart);
                None
            }
        }
    }

    fn arrived(&mut self, namespace: &str, is_clear: bool, is_apart: bool) {
        self.under_way -= usize::from(is_apart);
        if is_clear && self.namespaces.is_empty() {
            return;
        }
        let Some(own) = self.namespaces.get_mut(namespace) else { return };
        own.under_way -= usize::from(is_apart);
        own.silences = if is_clear { 0 } else { own.silences.saturating_add(1) };
        // One of which nothing is left to be tried is forgotten, whatever it did.
        if own.is_over() || (own.waiting.is_empty() && own.under_way == 0) {
            self.namespaces.remove(namespace);
        }
    }

    /// When the next one may be tried.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let has_room = self.under_way < self.under_way_max;
        self.namespaces.values().filter(|_| has_room).filter_map(Trouble::due).min()
    }

    /// One that is due by now.
    pub(super) fn pop(&mut self, now: Duration) -> Option<Try> {
        if self.under_way >= self.under_way_max {
            return None;
        }
        let first = |own: &Trouble| own.due().filter(|due| *due <= now);
        let (_, own) = self
            .namespaces
            .iter_mut()
            .filter_map(|(_, own)| Some((first(own)?, own)))
            .min_by_key(|(due, _)| *due)?;
        let (_, next) = own.waiting.pop_first()?;
        own.under_way += 1;
        self.waiting -= 1;
        self.under_way += 1;
        Some(Try { is_apart: true, ..next })
    }
}
