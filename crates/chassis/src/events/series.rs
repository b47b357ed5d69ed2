//! Which notes become events of `events.k8s.io/v1`, and which only raise a series.
//!
//! The numbers are those of client-go's recorder: the second note of a kind makes a series of
//! the event, further ones are counted here and written when half an hour has passed or the
//! series has ended, six minutes after its last note. Two things differ. A note in other words
//! than the event's is told anew, though not more often than once a minute: an event cannot
//! change its words, and old ones would mislead. And the version of the object does not make
//! another event, since most of what is told of an object changes it. The time is that of the
//! notes.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::name::Names;
use super::{Event, Note, Reporter, Step, Subject, Tone};
use crate::key::Key;
use crate::memory::Memory;

/// How many events are remembered; the least recent go.
const OPEN_MAX: usize = 16_384;
/// After so long without a note an event is over, and the next one is new.
const FINISH_AFTER: SignedDuration = SignedDuration::from_mins(6);
/// How often the count of a series that goes on is written, so that it does not expire.
const REFRESH_AFTER: SignedDuration = SignedDuration::from_mins(30);
/// How soon other words make a new event.
const REWORD_AFTER: SignedDuration = SignedDuration::from_mins(1);

type Who = (&'static str, Key, Arc<str>);

/// What makes two notes the same event, but for their words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    subject: Who,
    reason: std::borrow::Cow<'static, str>,
    action: &'static str,
    tone: Tone,
    reporter: Arc<Reporter>,
    related: Option<Who>,
}

impl Kind {
    fn of(Event { note, reporter, .. }: &Event) -> Self {
        let who = |it: &Subject| (it.kind, it.key.clone(), it.uid.clone());
        let Note { subject, related, tone, reason, action, .. } = note;
        let (subject, related) = (who(subject), related.as_ref().map(who));
        let (reason, reporter) = (reason.clone(), reporter.clone());
        Self { subject, reason, action, tone: *tone, reporter, related }
    }
}

/// An event that may be told again.
#[derive(Debug)]
struct Open {
    event: Event,
    count_written: u32,
    written: Timestamp,
}

impl Open {
    /// The event with a count that was not written yet, if there is one.
    fn into_unwritten(self) -> Option<Event> {
        (self.event.count > self.count_written).then_some(self.event)
    }
}

/// Remembers what was told.
#[derive(Debug)]
pub struct Series(Memory<Kind, Open>);

impl Default for Series {
    fn default() -> Self {
        Self(Memory::new(OPEN_MAX))
    }
}

impl Series {
    /// Decides what becomes of an event, and which other one has ended by it and has a count
    /// to write.
    pub fn take(&mut self, mut event: Event, names: &Names) -> (Step, Option<Event>) {
        let kind = Kind::of(&event);
        let now = event.last;
        let mut ended = None;
        match self.0.take(&kind) {
            Some(mut open) if goes_on(&open.event, &event) => {
                open.event.count = open.event.count.saturating_add(1);
                open.event.last = now;
                let step = match open.event.count {
                    2 => {
                        (open.count_written, open.written) = (2, now);
                        Step::Repeat(open.event.clone())
                    }
                    _ => Step::Spare,
                };
                // There was room for it a moment ago.
                self.0.put(kind, open);
                return (step, None);
            }
            Some(open) => ended = open.into_unwritten(),
            None => {}
        }
        event.stamp = names.draw(now);
        let open = Open { event: event.clone(), count_written: 1, written: now };
        // What was there before made room: there is never both.
        let forgotten = self.0.put(kind, open).and_then(Open::into_unwritten);
        (Step::Create(event), ended.or(forgotten))
    }

    /// Forgets what is over, and returns what is to be written now.
    pub fn sweep(&mut self, now: Timestamp) -> Vec<Event> {
        let mut due = Vec::new();
        self.0.retain(|open| {
            let is_over = now.duration_since(open.event.last) >= FINISH_AFTER;
            let is_unwritten = open.event.count > open.count_written;
            let is_old = open.event.count > 1 && now.duration_since(open.written) >= REFRESH_AFTER;
            if is_over && is_unwritten || !is_over && is_old {
                due.push(open.event.clone());
                (open.count_written, open.written) = (open.event.count, now);
            }
            !is_over
        });
        due
    }

    /// Forgets everything, and returns what is not written yet.
    pub fn finish(&mut self) -> Vec<Event> {
        let mut due = Vec::new();
        self.0.retain(|open| {
            if open.event.count > open.count_written {
                due.push(open.event.clone());
            }
            false
        });
        due
    }
}

/// Whether an event that is open is told once more by another one of its kind.
fn goes_on(open: &Event, next: &Event) -> bool {
    let since = |time| next.last.duration_since(time);
    since(open.last) < FINISH_AFTER
        && (open.note.message == next.note.message || since(open.first) < REWORD_AFTER)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::{Form, Repeats};
    use super::*;

    fn event(pod: &str, message: &str, seconds: i64) -> Event {
        let at = Timestamp::from_second(1_700_000_000 + seconds).unwrap();
        let note = Note {
            subject: Subject::named::<api::Pod>(Key::namespaced("shop", pod), "u".into()),
            related: None,
            tone: Tone::Warning,
            reason: "FailedScheduling".into(),
            action: "Scheduling",
            message: message.to_owned(),
            repeats: Repeats::Perhaps,
        };
        let reporter = Reporter::new(Form::Series, "default-scheduler", "host");
        Event { note, reporter, stamp: 0, count: 1, first: at, last: at }
    }

    /// `new MESSAGE`, `COUNT MESSAGE` or nothing, and what has ended.
    fn shown((step, ended): (Step, Option<Event>)) -> String {
        let step = match step {
            Step::Create(event) => format!("new {}", event.note.message),
            Step::Repeat(event) => format!("{} {}", event.count, event.note.message),
            Step::Spare => String::new(),
        };
        ended.map_or(step.clone(), |event| {
            format!("{step} after {} {}", event.count, event.note.message)
        })
    }

    fn due(events: &[Event]) -> Vec<String> {
        let shown = |event: &Event| format!("{} {}", event.count, event.note.subject.key.name());
        events.iter().map(shown).collect()
    }

    #[test]
    fn the_second_note_makes_a_series_and_further_ones_are_counted_in_silence() {
        let (mut series, names) = (Series::default(), Names::default());
        let mut check = |pod: &str, message: &str, seconds, want: &str| {
            let told = shown(series.take(event(pod, message, seconds), &names));
            assert_eq!(told, want, "{pod} {message} {seconds}");
        };
        check("a", "no", 0, "new no");
        check("b", "no", 0, "new no");
        check("a", "no", 359, "2 no");
        check("a", "no", 400, "");
        check("a", "no", 500, "");
        // Six minutes of silence end it, and its count is written.
        check("a", "no", 860, "new no after 4 no");
        check("b", "no", 360, "new no");
    }

    #[test]
    fn other_words_are_told_anew_and_not_more_than_once_a_minute() {
        let (mut series, names) = (Series::default(), Names::default());
        let mut check = |message: &str, seconds, want: &str| {
            assert_eq!(shown(series.take(event("a", message, seconds), &names)), want, "{seconds}");
        };
        check("0/1 nodes", 0, "new 0/1 nodes");
        check("0/2 nodes", 10, "2 0/1 nodes");
        check("0/3 nodes", 59, "");
        check("0/3 nodes", 60, "new 0/3 nodes after 3 0/1 nodes");
        check("0/3 nodes", 130, "2 0/3 nodes");
        check("0/4 nodes", 131, "new 0/4 nodes");
    }

    #[test]
    fn a_series_is_refreshed_while_it_goes_on_and_finished_when_it_is_over() {
        let (mut series, names) = (Series::default(), Names::default());
        let at = |seconds| event("", "", seconds).last;
        series.take(event("once", "no", 0), &names);
        for minute in 0..=40 {
            series.take(event("often", "no", minute * 60), &names);
            let want: &[&str] = if minute == 31 { &["32 often"] } else { &[] };
            assert_eq!(due(&series.sweep(at(minute * 60 + 1))), want, "{minute}");
        }
        assert_eq!(series.0.len(), 1);
        assert_eq!(due(&series.sweep(at(40 * 60 + 359))), [""; 0]);
        assert_eq!(due(&series.sweep(at(40 * 60 + 360))), ["41 often"]);
        assert_eq!(series.0.len(), 0);
    }

    #[test]
    fn what_is_forgotten_for_want_of_room_leaves_its_count() {
        let (mut series, names) = (Series(Memory::new(2)), Names::default());
        for _ in 0..3 {
            series.take(event("a", "no", 0), &names);
        }
        series.take(event("b", "no", 0), &names);
        assert_eq!(shown(series.take(event("c", "no", 0), &names)), "new no after 3 no");
        assert_eq!(shown(series.take(event("d", "no", 0), &names)), "new no");
        assert_eq!(due(&series.finish()), [""; 0]);
    }

    proptest! {
        /// Every note is in the count of some event by the end, and the counts of one event
        /// are written in order.
        #[test]
        fn no_note_is_lost(
            steps in prop::collection::vec((0..3u8, 0..3u8, 0..400i64, any::<bool>()), 0..80),
        ) {
            let (mut series, names) = (Series(Memory::new(2)), Names::default());
            let mut written = BTreeMap::<u64, u32>::new();
            let mut now = 0;
            let notes = steps.len();
            let mut write = |event: &Event| {
                let before = written.insert(event.stamp, event.count).unwrap_or(0);
                assert!(before <= event.count, "{before} then {}", event.count);
            };
            for (pod, words, passed, sweeps) in steps {
                now += passed;
                let (step, ended) = series.take(event(&pod.to_string(), &words.to_string(), now), &names);
                ended.iter().for_each(&mut write);
                if let Step::Create(event) | Step::Repeat(event) = step {
                    write(&event);
                }
                if sweeps {
                    series.sweep(event("", "", now).last).iter().for_each(&mut write);
                }
            }
            series.finish().iter().for_each(&mut write);
            prop_assert_eq!(written.values().sum::<u32>() as usize, notes);
        }
    }
}
