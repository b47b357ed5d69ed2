//! Which notes become events, and which only raise the count of one.
//!
//! The rules and numbers are those of client-go's recorder, which users' eyes and dashboards
//! are used to. The time is that of the notes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{NAME_MAX, Note};
use crate::random::seed_for;

/// How many objects, reasons and messages are remembered; the least recent go.
const MEMORY_MAX: usize = 4096;
/// From so many different messages of one reason on, they are told as one.
const DIFFERENT_MAX: usize = 10;
/// After so long without one of them, they are told singly again.
const DIFFERENT_SINCE: SignedDuration = SignedDuration::from_mins(10);
/// What the event of many begins with.
const COMBINED: &str = "(combined from similar events): ";
/// How many events one object gets at once.
const BURST: u32 = 25;
/// The names of a component's events are off by less than this from the time.
const SALT_NANOS_MAX: u64 = 1_000_000;
/// How long it takes until it gets one more.
const REFILL: SignedDuration = SignedDuration::from_mins(5);

/// An event as it is told now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Its name.
    pub name: String,
    /// What it says.
    pub message: String,
    /// How often it was told, with this time.
    pub count: u32,
    /// When it was told first.
    pub first: Timestamp,
}

/// What to do with a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Write a new event.
    Create(Told),
    /// Raise the count of one that is there.
    Repeat(Told),
    /// Nothing: its object has had its share.
    Drop,
}

/// Remembers what was told.
#[derive(Debug, Default)]
pub struct Correlator {
    told: Memory<(String, u32, Timestamp)>,
    similar: Memory<(BTreeSet<String>, Timestamp)>,
    shares: Memory<(u32, Timestamp)>,
    last_nanos: i128,
    salt_nanos: i128,
}

impl Correlator {
    /// Remembers nothing yet. Components that tell of one object at the same moment, as they
    /// do where the clock moves in steps, give their events different names by their salt.
    #[must_use]
    pub fn new(component: &str) -> Self {
        let salt = seed_for(0, &["event names", component]) % SALT_NANOS_MAX;
        Self { salt_nanos: salt.into(), ..Self::default() }
    }

    /// Decides what becomes of a note.
    pub fn take(&mut self, note: &Note) -> Step {
        let subject = &note.subject;
        let whom = [
            note.component,
            subject.kind,
            subject.key.as_str(),
            &*subject.uid,
            &subject.api_version,
            if note.tone == super::Tone::Normal { "Normal" } else { "Warning" },
        ]
        .join("\0");
        let why = format!("{whom}\0{}", note.reason);
        let is_one_of_many = self.is_one_of_many(&why, note);
        let (key, message) = if is_one_of_many {
            (why, format!("{COMBINED}{}", note.message))
        } else {
            (format!("{why}\0{}", note.message), note.message.clone())
        };
        let known = self.told.get(&key).cloned();
        let is_new = known.is_none();
        let (name, count, first) = match known {
            Some((name, count, first)) => (name, count.saturating_add(1), first),
            None => (self.name(note), 1, note.at),
        };
        self.told.put(&key, (name.clone(), count, first));
        if !self.takes_share(&whom, note.at) {
            // What was never written cannot be raised later.
            if is_new {
                self.told.forget(&key);
            }
            return Step::Drop;
        }
        let told = Told { name, message, count, first };
        if is_new { Step::Create(told) } else { Step::Repeat(told) }
    }

    /// Whether so many notes of this reason had different words lately that they are told
    /// as one.
    fn is_one_of_many(&mut self, why: &str, note: &Note) -> bool {
        let known = self
            .similar
            .get(why)
            .filter(|(_, last)| note.at.duration_since(*last) <= DIFFERENT_SINCE);
        let mut messages = known.map(|(messages, _)| messages.clone()).unwrap_or_default();
        messages.insert(note.message.clone());
        let is_many = messages.len() >= DIFFERENT_MAX;
        if is_many {
            messages.pop_first();
        }
        self.similar.put(why, (messages, note.at));
        is_many
    }

    /// Takes one event of an object's share, if there is one left.
    fn takes_share(&mut self, whom: &str, now: Timestamp) -> bool {
        let (mut left, mut since) = self.shares.get(whom).copied().unwrap_or((BURST, now));
        let passed = now.duration_since(since).as_secs().max(0) / REFILL.as_secs();
        let regained = u32::try_from(passed).unwrap_or(u32::MAX);
        if left.saturating_add(regained) >= BURST {
            (left, since) = (BURST, now);
        } else {
            left += regained;
            let spent = REFILL.checked_mul(i32::try_from(regained).unwrap_or(i32::MAX));
            since = since.saturating_add(spent.unwrap_or(REFILL)).unwrap_or(now);
        }
        let is_left = left > 0;
        self.shares.put(whom, (left.saturating_sub(1), since));
        is_left
    }

    /// A name that no other event has: that of the object, and the time to the nanosecond.
    fn name(&mut self, note: &Note) -> String {
        self.last_nanos = note.at.as_nanosecond().max(self.last_nanos + 1);
        let suffix = format!(".{:x}", self.last_nanos.saturating_add(self.salt_nanos));
        let name = note.subject.key.name();
        let room = NAME_MAX - suffix.len();
        let end = (0..=room.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
        // What a cut leaves at the end must be one that a name may have before a dot.
        let cut = name[..end.unwrap_or(0)].trim_end_matches(['.', '-']);
        format!("{cut}{suffix}")
    }
}

/// A bounded map that forgets what was put longest ago.
#[derive(Debug)]
struct Memory<V> {
    values: BTreeMap<String, (u64, V)>,
    order: BTreeMap<u64, String>,
    turn: u64,
}

impl<V> Default for Memory<V> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), order: BTreeMap::new(), turn: 0 }
    }
}

impl<V> Memory<V> {
    fn get(&self, key: &str) -> Option<&V> {
        self.values.get(key).map(|(_, value)| value)
    }

    fn put(&mut self, key: &str, value: V) {
        self.forget(key);
        self.turn += 1;
        self.values.insert(key.to_owned(), (self.turn, value));
        self.order.insert(self.turn, key.to_owned());
        if self.values.len() > MEMORY_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.values.remove(&oldest);
        }
    }

    fn forget(&mut self, key: &str) {
        if let Some((turn, _)) = self.values.remove(key) {
            self.order.remove(&turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Subject, Tone};
    use super::*;
    use crate::key::Key;

    fn note(name: &str, reason: &str, message: &str, seconds: i64) -> Note {
        Note {
            component: "test",
            subject: Subject {
                api_version: "v1".to_owned(),
                kind: "Pod",
                key: Key::namespaced("shop", name),
                uid: "u".into(),
                resource_version: "1".into(),
            },
            tone: Tone::Normal,
            reason: reason.to_owned(),
            message: message.to_owned(),
            at: Timestamp::from_second(1_700_000_000 + seconds).unwrap(),
        }
    }

    /// `new MESSAGE`, `COUNT MESSAGE` or nothing.
    fn told(step: Step) -> String {
        match step {
            Step::Create(told) => format!("new {}", told.message),
            Step::Repeat(told) => format!("{} {}", told.count, told.message),
            Step::Drop => String::new(),
        }
    }

    #[test]
    fn what_repeats_raises_a_count() {
        let mut correlator = Correlator::default();
        let mut check = |name: &str, reason: &str, message: &str, want: &str| {
            assert_eq!(told(correlator.take(&note(name, reason, message, 0))), want);
        };
        check("a", "Failed", "no", "new no");
        check("a", "Failed", "no", "2 no");
        check("a", "Failed", "never", "new never");
        check("a", "Other", "no", "new no");
        check("b", "Failed", "no", "new no");
        check("a", "Failed", "no", "3 no");
    }

    #[test]
    fn many_that_differ_in_words_become_one_until_it_is_quiet() {
        let mut correlator = Correlator::default();
        for n in 0..9 {
            assert_eq!(
                told(correlator.take(&note("a", "Made", &n.to_string(), n))),
                format!("new {n}")
            );
        }
        let mut check = |message: &str, seconds, want: &str| {
            assert_eq!(told(correlator.take(&note("a", "Made", message, seconds))), want);
        };
        check("9", 9, "new (combined from similar events): 9");
        check("10", 10, "2 (combined from similar events): 10");
        check("11", 611, "new 11");
    }

    #[test]
    fn an_object_has_a_share_that_grows_back_slowly() {
        let mut correlator = Correlator::default();
        let steps: Vec<String> =
            (0..30).map(|_| told(correlator.take(&note("a", "Failed", "no", 0)))).collect();
        assert_eq!(steps.iter().filter(|step| !step.is_empty()).count(), 25);
        assert_eq!(told(correlator.take(&note("b", "Failed", "no", 0))), "new no");
        let mut check = |seconds, want: &str| {
            assert_eq!(told(correlator.take(&note("a", "Failed", "no", seconds))), want);
        };
        check(299, "");
        check(300, "32 no");
        check(301, "");
        check(600, "34 no");
        // What the object was refused when it was new is new later.
        let other = told(correlator.take(&note("a", "Odd", "no", 601)));
        assert_eq!(other, "");
        assert_eq!(told(correlator.take(&note("a", "Odd", "no", 900))), "new no");
    }

    #[test]
    fn components_that_tell_at_the_same_moment_choose_different_names() {
        let components = ["node-controller", "kubelet", "taint-eviction-controller", "scheduler"];
        let names: BTreeSet<String> = components
            .into_iter()
            .filter_map(|component| {
                match Correlator::new(component).take(&note("a", "Made", "it is", 0)) {
                    Step::Create(told) => Some(told.name),
                    _ => None,
                }
            })
            .collect();
        assert_eq!(names.len(), components.len(), "{names:?}");
    }

    #[test]
    fn memory_is_bounded_and_keeps_what_was_put_last() {
        let mut memory = Memory::default();
        for n in 0..MEMORY_MAX + 50 {
            memory.put(&n.to_string(), n);
            memory.put("often", n);
        }
        assert_eq!((memory.values.len(), memory.order.len()), (MEMORY_MAX, MEMORY_MAX));
        assert_eq!(memory.get("often"), Some(&(MEMORY_MAX + 49)));
        assert_eq!((memory.get("0"), memory.get("99")), (None, Some(&99)));
    }

    proptest! {
        /// Names are unique and valid whatever the object is called and whenever it is told.
        #[test]
        fn no_two_events_share_a_name(
            notes in prop::collection::vec(("[a-z]([a-z0-9.-]{0,300}[a-z0-9])?", 0..3i64), 1..40),
        ) {
            let mut correlator = Correlator::default();
            let mut names = BTreeSet::new();
            for (turn, (name, seconds)) in notes.iter().enumerate() {
                let step = correlator.take(&note(name, "Made", &turn.to_string(), *seconds));
                if let Step::Create(told) = step {
                    prop_assert!(told.name.len() <= NAME_MAX);
                    prop_assert!(!told.name.contains("..") || name.contains(".."));
                    prop_assert!(names.insert(told.name.clone()), "{} twice", told.name);
                }
            }
        }
    }
}
