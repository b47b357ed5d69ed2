//! Which notes become core `v1` Events, and which only raise the count of one.
//!
//! The rules and numbers are those of client-go's recorder, which users' eyes and dashboards
//! are used to. The time is that of the notes.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::name::Names;
use super::{Event, Step, Tone};
use crate::memory::Memory;

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
/// How long it takes until it gets one more.
const REFILL: SignedDuration = SignedDuration::from_mins(5);

/// What is remembered of an event: the number in its name, its count, and when it was new.
type Known = (u64, u32, Timestamp);

/// Remembers what was told.
#[derive(Debug)]
pub struct Correlator {
    told: Memory<String, Known>,
    similar: Memory<String, (BTreeSet<String>, Timestamp)>,
    shares: Memory<String, (u32, Timestamp)>,
}

impl Default for Correlator {
    fn default() -> Self {
        Self {
            told: Memory::new(MEMORY_MAX),
            similar: Memory::new(MEMORY_MAX),
            shares: Memory::new(MEMORY_MAX),
        }
    }
}

impl Correlator {
    /// Decides what becomes of an event.
    pub fn take(&mut self, mut event: Event, names: &Names) -> Step {
        let (note, now) = (&event.note, event.last);
        let subject = &note.subject;
        let whom = [
            event.reporter.component.as_str(),
            subject.kind,
            subject.key.as_str(),
            &*subject.uid,
            &subject.api_version,
            if note.tone == Tone::Normal { "Normal" } else { "Warning" },
        ]
        .join("\0");
        let mut key = format!("{whom}\0{}", note.reason);
        if self.is_one_of_many(&key, &note.message, now) {
            event.note.message.insert_str(0, COMBINED);
        } else {
            key.push('\0');
            key.push_str(&note.message);
        }
        let known = self.told.take(&key);
        if let Some((stamp, count, first)) = known {
            (event.stamp, event.count, event.first) = (stamp, count.saturating_add(1), first);
        } else {
            event.stamp = names.draw(now);
        }
        let has_share = self.takes_share(whom, now);
        // What was never written cannot be raised later.
        if has_share || known.is_some() {
            self.told.put(key, (event.stamp, event.count, event.first));
        }
        match known {
            _ if !has_share => Step::Spare,
            None => Step::Create(event),
            Some(_) => Step::Repeat(event),
        }
    }

    /// Whether so many notes of this reason had different words lately that they are told
    /// as one.
    fn is_one_of_many(&mut self, why: &str, message: &str, now: Timestamp) -> bool {
        let known = self.similar.take(why);
        let known = known.filter(|(_, last)| now.duration_since(*last) <= DIFFERENT_SINCE);
        let mut messages = known.map(|(messages, _)| messages).unwrap_or_default();
        messages.insert(message.to_owned());
        let is_many = messages.len() >= DIFFERENT_MAX;
        if is_many {
            messages.pop_first();
        }
        self.similar.put(why.to_owned(), (messages, now));
        is_many
    }

    /// Takes one event of an object's share, if there is one left.
    fn takes_share(&mut self, whom: String, now: Timestamp) -> bool {
        let (mut left, mut since) = self.shares.get(&whom).copied().unwrap_or((BURST, now));
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
}

#[cfg(test)]
mod tests {
    use super::super::{Form, Note, Repeats, Reporter, Subject};
    use super::*;
    use crate::key::Key;

    fn event(name: &str, reason: &'static str, message: &str, seconds: i64) -> Event {
        let at = Timestamp::from_second(1_700_000_000 + seconds).unwrap();
        let note = Note {
            subject: Subject::named::<api::Pod>(Key::namespaced("shop", name), "u".into()),
            related: None,
            tone: Tone::Normal,
            reason: reason.into(),
            action: "",
            message: message.to_owned(),
            repeats: Repeats::Perhaps,
        };
        let reporter = Reporter::new(Form::Counted, "test", "");
        Event { note, reporter, stamp: 0, count: 1, first: at, last: at }
    }

    fn take(correlator: &mut Correlator, event: Event) -> String {
        told(correlator.take(event, &Names::default()))
    }

    /// `new MESSAGE`, `COUNT MESSAGE` or nothing.
    fn told(step: Step) -> String {
        match step {
            Step::Create(event) => format!("new {}", event.note.message),
            Step::Repeat(event) => format!("{} {}", event.count, event.note.message),
            Step::Spare => String::new(),
        }
    }

    #[test]
    fn what_repeats_raises_a_count() {
        let mut correlator = Correlator::default();
        let mut check = |name: &str, reason: &'static str, message: &str, want: &str| {
            assert_eq!(take(&mut correlator, event(name, reason, message, 0)), want);
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
                take(&mut correlator, event("a", "Made", &n.to_string(), n)),
                format!("new {n}")
            );
        }
        let mut check = |message: &str, seconds, want: &str| {
            assert_eq!(take(&mut correlator, event("a", "Made", message, seconds)), want);
        };
        check("9", 9, "new (combined from similar events): 9");
        check("10", 10, "2 (combined from similar events): 10");
        check("11", 611, "new 11");
    }

    #[test]
    fn an_object_has_a_share_that_grows_back_slowly() {
        let mut correlator = Correlator::default();
        let steps: Vec<String> =
            (0..30).map(|_| take(&mut correlator, event("a", "Failed", "no", 0))).collect();
        assert_eq!(steps.iter().filter(|step| !step.is_empty()).count(), 25);
        assert_eq!(take(&mut correlator, event("b", "Failed", "no", 0)), "new no");
        let mut check = |seconds, want: &str| {
            assert_eq!(take(&mut correlator, event("a", "Failed", "no", seconds)), want);
        };
        check(299, "");
        check(300, "32 no");
        check(301, "");
        check(600, "34 no");
        // What the object was refused when it was new is new later.
        let other = take(&mut correlator, event("a", "Odd", "no", 601));
        assert_eq!(other, "");
        assert_eq!(take(&mut correlator, event("a", "Odd", "no", 900)), "new no");
    }
}
