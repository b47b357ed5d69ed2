//! Which notes become events of `events.k8s.io/v1`, and which only raise a series.
//!
//! The numbers are those of client-go's recorder: the second note of a kind makes a series of
//! the event, further ones are counted here and written when half an hour has passed or the
//! series has ended, six minutes after its last note. Two things differ. A note in other words
//! than the event's is told anew, though not more often than once a minute: an event cannot
//! change its words, and old ones would mislead. What comes sooner is held back, and the last of it
//! is told when the minute is over. And the version of the object does not make
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
    /// The last note, where it was in other words that could not be told yet.
    held_back: Option<Event>,
}

impl Open {
    fn new(event: Event) -> Self {
        let written = event.last;
        Self { event, count_written: 1, written, held_back: None }
    }

    /// What is not written yet of the count.
    fn into_count(self) -> Option<Step> {
        (self.event.count > self.count_written).then_some(Step::Repeat(self.event))
    }

    /// What is not written yet, where nobody can tell it any later.
    fn into_rest(mut self, now: Timestamp, names: &Names) -> Vec<Step> {
        let held_back = self.held_back.take();
        let held_back = held_back.map(|event| Event { stamp: names.draw(now), ..event });
        self.into_count().into_iter().chain(held_back.map(Step::Create)).collect()
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
    /// Decides what becomes of an event, and what is to be written before it of another one that has
    /// ended by it.
    pub fn take(&mut self, mut event: Event, names: &Names) -> (Step, Vec<Step>) {
        let kind = Kind::of(&event);
        let now = event.last;
        let mut ended = Vec::new();
        match self.0.take(&kind) {
            Some(mut open) if goes_on(&open.event, &event) => {
                open.event.count = open.event.count.saturating_add(1);
                open.event.last = now;
                open.held_back = (open.event.note.message != event.note.message).then_some(event);
                let step = match open.event.count {
                    2 => {
                        (open.count_written, open.written) = (2, now);
                        Step::Repeat(open.event.clone())
                    }
                    _ => Step::Spare,
                };
                // There was room for it a moment ago.
                self.0.put(kind, open);
                return (step, ended);
            }
            Some(open) => ended.extend(open.into_count()),
            None => {}
        }
        event.stamp = names.draw(now);
        let open = Open::new(event.clone());
        if let Some(forgotten) = self.0.put(kind, open) {
            ended.extend(forgotten.into_rest(now, names));
        }
        (Step::Create(event), ended)
    }

    /// Forgets what is over, and returns what is to be written now.
    pub fn sweep(&mut self, now: Timestamp, names: &Names) -> Vec<Step> {
        let mut due = Vec::new();
        self.0.retain(|open| {
            if now.duration_since(open.event.first) >= REWORD_AFTER
                && let Some(event) = open.held_back.take()
            {
                let event = Event { stamp: names.draw(now), first: now, last: now, ..event };
                let old = std::mem::replace(open, Open::new(event.clone()));
                due.extend(old.into_count());
                due.push(Step::Create(event));
                return true;
            }
            let is_over = now.duration_since(open.event.last) >= FINISH_AFTER;
            let is_unwritten = open.event.count > open.count_written;
            let is_old = open.event.count > 1 && now.duration_since(open.written) >= REFRESH_AFTER;
            if is_over && is_unwritten || !is_over && is_old {
                due.push(Step::Repeat(open.event.clone()));
                (open.count_written, open.written) = (open.event.count, now);
            }
            !is_over
        });
        due
    }

    /// Forgets everything, and returns what is not written yet.
    pub fn finish(&mut self, now: Timestamp, names: &Names) -> Vec<Step> {
        self.0.drain().flat_map(|open| open.into_rest(now, names)).collect()
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
    fn shown((step, ended): (Step, Vec<Step>)) -> String {
        let step = match step {
            Step::Create(event) => format!("new {}", event.note.message),
            Step::Repeat(event) => format!("{} {}", event.count, event.note.message),
            Step::Spare => String::new(),
        };
        let ended = ended.iter().filter_map(|step| match step {
            Step::Repeat(event) => Some(format!(" after {} {}", event.count, event.note.message)),
            _ => None,
        });
        ended.fold(step, |shown, ended| shown + &ended)
    }

    fn due(steps: &[Step]) -> Vec<String> {
        let shown = |step: &Step| match step {
            Step::Create(event) => format!("new {}", event.note.message),
            Step::Repeat(event) => format!("{} {}", event.count, event.note.subject.key.name()),
            Step::Spare => String::new(),
        };
        steps.iter().map(shown).collect()
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
    fn words_that_came_too_soon_are_told_when_the_minute_is_over() {
        let (mut series, names) = (Series::default(), Names::default());
        let at = |seconds| event("", "", seconds).last;
        for (message, seconds) in [("early", 0), ("later", 1), ("last", 2)] {
            series.take(event("a", message, seconds), &names);
        }
        assert_eq!(due(&series.sweep(at(30), &names)), [""; 0]);
        assert_eq!(due(&series.sweep(at(60), &names)), ["3 a", "new last"]);
        assert_eq!(due(&series.sweep(at(90), &names)), [""; 0]);
        // What is told again in the words that are there is in no other words any longer.
        series.take(event("a", "other", 91), &names);
        series.take(event("a", "last", 92), &names);
        assert_eq!(due(&series.sweep(at(150), &names)), [""; 0]);
        series.take(event("a", "end", 151), &names);
        series.take(event("a", "the end", 152), &names);
        assert_eq!(due(&series.finish(at(153), &names)), ["new the end"]);
    }

    #[test]
    fn a_series_is_refreshed_while_it_goes_on_and_finished_when_it_is_over() {
        let (mut series, names) = (Series::default(), Names::default());
        let at = |seconds| event("", "", seconds).last;
        series.take(event("once", "no", 0), &names);
        for minute in 0..=40 {
            series.take(event("often", "no", minute * 60), &names);
            let want: &[&str] = if minute == 31 { &["32 often"] } else { &[] };
            assert_eq!(due(&series.sweep(at(minute * 60 + 1), &names)), want, "{minute}");
        }
        assert_eq!(series.0.len(), 1);
        assert_eq!(due(&series.sweep(at(40 * 60 + 359), &names)), [""; 0]);
        assert_eq!(due(&series.sweep(at(40 * 60 + 360), &names)), ["41 often"]);
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
        assert_eq!(due(&series.finish(event("", "", 0).last, &names)), [""; 0]);
    }

    proptest! {
        /// Every note is in the count of some event by the end, the counts of one event are written in
        /// order, and the last words told of a pod are those of its last note.
        #[test]
        fn no_note_is_lost(
            steps in prop::collection::vec((0..3u8, 0..3u8, 0..400i64, any::<bool>()), 0..80),
        ) {
            let (mut series, names) = (Series(Memory::new(2)), Names::default());
            let mut written = BTreeMap::<u64, u32>::new();
            let mut words = BTreeMap::<String, [String; 2]>::new();
            let (mut now, mut notes) = (0, steps.len());
            let mut write = |step: &Step, words: &mut BTreeMap<String, [String; 2]>| {
                let (Step::Create(event) | Step::Repeat(event)) = step else { return };
                let before = written.insert(event.stamp, event.count).unwrap_or(0);
                assert!(before <= event.count, "{before} then {}", event.count);
                if matches!(step, Step::Create(_)) {
                    let own = words.entry(event.note.subject.key.name().to_owned()).or_default();
                    own[1].clone_from(&event.note.message);
                }
            };
            // What was held back is told once more than it was noted.
            let creates = |due: &[Step]| {
                due.iter().filter(|step| matches!(step, Step::Create(_))).count()
            };
            for (pod, said, passed, sweeps) in steps {
                now += passed;
                let next = event(&pod.to_string(), &said.to_string(), now);
                words.entry(pod.to_string()).or_default()[0] = said.to_string();
                let (step, ended) = series.take(next, &names);
                notes += creates(&ended);
                ended.iter().for_each(|step| write(step, &mut words));
                write(&step, &mut words);
                if sweeps {
                    let due = series.sweep(event("", "", now).last, &names);
                    notes += creates(&due);
                    due.iter().for_each(|step| write(step, &mut words));
                }
            }
            let due = series.finish(event("", "", now).last, &names);
            notes += creates(&due);
            due.iter().for_each(|step| write(step, &mut words));
            prop_assert_eq!(written.values().sum::<u32>() as usize, notes);
            for [noted, told] in words.values() {
                prop_assert_eq!(noted, told);
            }
        }
    }
}
