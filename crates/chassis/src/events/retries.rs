//! Events that were not answered: when each is tried again, and beside how many others.
//!
//! They have a share of what is written side by side. Where nothing is answered in a namespace any more,
//! it has no more than a part of that share, and its other events wait here as well, until something
//! is: others are written as if it were not there.
//!
//! What counts here are tries in a row, since nothing hangs on one event; a scheduler, which must know
//! of each write what became of it, counts writes without a clear answer instead.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Lane, Try};

/// After so many tries in a row without an answer, a namespace is in trouble.
const TROUBLE: u32 = 8;
/// Of so many that are tried side by side, one may be of one namespace in trouble.
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
    /// How many are tried side by side in a namespace in trouble.
    share: usize,
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
    fn is_in_trouble(&self) -> bool {
        self.silences >= TROUBLE
    }

    /// When something here may be tried, where so many may be in trouble.
    fn due(&self, share: usize) -> Option<Duration> {
        let ((due, _), _) = self.waiting.first_key_value()?;
        (self.under_way < share || !self.is_in_trouble()).then_some(*due)
    }
}

impl Retries {
    /// None yet; at most so many are tried side by side.
    pub(super) fn new(under_way_max: usize) -> Self {
        let share = (under_way_max / SHARE).max(1);
        let namespaces = BTreeMap::new();
        Self { namespaces, waiting: 0, under_way: 0, under_way_max, share, count: 0 }
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
        let Some(own) = self.namespaces.get_mut(namespace) else { return };
        own.under_way -= usize::from(is_apart);
        own.silences = if is_clear { 0 } else { own.silences.saturating_add(1) };
        // One of which nothing is left to be tried is forgotten, whatever it did.
        if own.waiting.is_empty() && own.under_way == 0 {
            self.namespaces.remove(namespace);
        }
    }

    /// When the next one may be tried.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let has_room = self.under_way < self.under_way_max;
        let due = |own: &Trouble| own.due(self.share);
        self.namespaces.values().filter(|_| has_room).filter_map(due).min()
    }

    /// One that is due by now.
    pub(super) fn pop(&mut self, now: Duration) -> Option<Try> {
        if self.under_way >= self.under_way_max {
            return None;
        }
        let share = self.share;
        let first = |own: &Trouble| own.due(share).filter(|due| *due <= now);
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::tests::scheduled;
    use super::super::{Event, Form, Note, Reporter, Subject, Write};
    use super::*;
    use crate::client::Identity;

    fn first(namespace: &str) -> Try {
        let who = Identity { namespace, name: "p", uid: "u", resource_version: "" };
        let note = Note { subject: Subject::of::<api::Pod>(who), ..scheduled("p") };
        let reporter = Reporter::new(Form::Series, "test", "host");
        let (first, last) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        Try::first(Write::create(Event { note, reporter, stamp: 0, count: 1, first, last }))
    }

    /// A writer's retries after so many tries in namespace `a` had no answer, and then one in `b`.
    fn after(silences: u32, under_way_max: usize) -> Retries {
        let mut retries = Retries::new(under_way_max);
        for number in 0..=silences {
            let next = first(if number < silences { "a" } else { "b" });
            let due = Duration::from_secs(number.into());
            assert!(retries.tried(Tried::Unclear { next, due }).is_none());
        }
        retries
    }

    const LATER: Duration = Duration::from_mins(1);

    #[test]
    fn a_namespace_in_trouble_leaves_places_to_others() {
        let check = |under_way_max: usize, silences: u32, expected: &str| {
            let mut retries = after(silences, under_way_max);
            assert_eq!(retries.next_due(), Some(Duration::ZERO));
            let popped = std::iter::from_fn(|| retries.pop(LATER));
            let popped: Vec<String> = popped.map(|next| next.namespace().to_owned()).collect();
            assert_eq!(popped.concat(), expected, "{silences} of {under_way_max}");
            assert_eq!(retries.next_due(), None, "{silences} of {under_way_max}");
            assert_eq!(retries.len(), silences as usize + 1 - popped.len());
        };
        check(4, TROUBLE - 1, "aaaa");
        check(4, TROUBLE, "ab");
        check(16, TROUBLE - 1, "aaaaaaab");
        check(16, TROUBLE, "aaaab");
        // There is nothing to share.
        check(1, TROUBLE, "a");
    }

    #[test]
    fn what_was_never_tried_waits_where_nothing_is_answered_until_something_is() {
        let mut retries = after(TROUBLE, 4);
        assert!(retries.admit(first("b"), LATER).is_some());
        assert!(retries.admit(first("c"), LATER).is_some());
        assert!(retries.admit(first("a"), LATER).is_none());
        assert_eq!(retries.len(), TROUBLE as usize + 2);
        let answer = |retries: &mut Retries| {
            let Try { write, is_apart, .. } = retries.pop(LATER)?;
            retries.tried(Tried::End { lane: write.lane(), is_clear: true, is_apart })
        };
        assert!(answer(&mut retries).is_some());
        assert!(retries.admit(first("a"), LATER).is_some());
        while answer(&mut retries).is_some() {}
        assert!(retries.is_empty() && retries.namespaces.is_empty(), "{retries:?}");
    }
}
