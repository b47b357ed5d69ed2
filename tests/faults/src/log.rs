//! What happened in a run, in order, and the first thing that must not happen.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chassis::clock::Clock;

/// How many steps are shown of a run that failed.
const STEPS_SHOWN: usize = 30;
/// How many lines of them at most.
const LINES_SHOWN_MAX: usize = 250;

/// The log of a run; clones share it.
#[derive(Clone)]
pub struct Log {
    clock: Clock,
    shared: Arc<Mutex<Shared>>,
}

/// A line of the log.
struct Line {
    step: usize,
    at: Duration,
    what: String,
    /// Only in the whole log, and not among the last lines of a run that failed.
    is_detail: bool,
}

#[derive(Default)]
struct Shared {
    step: usize,
    lines: Vec<Line>,
    failure: Option<(usize, String)>,
}

impl Log {
    pub fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), shared: Arc::default() }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Shared) -> T) -> T {
        act(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The next step begins.
    pub fn step(&self, what: &str) {
        self.with(|shared| shared.step += 1);
        self.note(&format!("# {what}"));
    }

    pub fn note(&self, what: &str) {
        self.put(what, false);
    }

    /// Something that only shows whether two runs are one.
    pub fn detail(&self, what: &str) {
        self.put(what, true);
    }

    fn put(&self, what: &str, is_detail: bool) {
        let at = self.clock.monotonic();
        self.with(|shared| {
            let line = Line { step: shared.step, at, what: what.to_owned(), is_detail };
            shared.lines.push(line);
        });
    }

    /// Something happened that must not. Only the first is kept.
    pub fn violated(&self, what: &str) {
        self.note(&format!("VIOLATED: {what}"));
        self.with(|shared| {
            let step = shared.step;
            shared.failure.get_or_insert_with(|| (step, what.to_owned()));
        });
    }

    /// The first thing that happened and must not, and its step.
    pub fn failed(&self) -> Option<(usize, String)> {
        self.with(|shared| shared.failure.clone())
    }

    pub fn text(&self) -> String {
        self.with(|shared| {
            let lines: Vec<String> = shared.lines.iter().map(shown).collect();
            lines.join("\n")
        })
    }

    /// What a run that failed shows.
    pub fn failure(&self, seed: u64, (step, what): &(usize, String)) -> String {
        let tail: Vec<String> = self.with(|shared| {
            let is_shown = |line: &&Line| {
                !line.is_detail && line.step + STEPS_SHOWN > *step && line.step <= *step
            };
            shared.lines.iter().filter(is_shown).map(shown).collect()
        });
        let tail = &tail[tail.len().saturating_sub(LINES_SHOWN_MAX)..];
        format!(
            "{}\nseed {seed} failed in step {step}: {what}\nreplay: cargo xtask faults --seeds 1 \
             --first-seed {seed}",
            tail.join("\n")
        )
    }
}

fn shown(Line { step, at, what, .. }: &Line) -> String {
    format!("{step:4} {:9.3} {what}", at.as_secs_f64())
}
