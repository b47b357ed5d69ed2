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

#[derive(Default)]
struct Shared {
    step: usize,
    lines: Vec<(usize, Duration, String)>,
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
        let now = self.clock.monotonic();
        self.with(|shared| shared.lines.push((shared.step, now, what.to_owned())));
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
            let last =
                |line: &&(usize, Duration, String)| line.0 + STEPS_SHOWN > *step && line.0 <= *step;
            shared.lines.iter().filter(last).map(shown).collect()
        });
        let tail = &tail[tail.len().saturating_sub(LINES_SHOWN_MAX)..];
        format!(
            "{}\nseed {seed} failed in step {step}: {what}\nreplay: cargo xtask faults --seeds 1 \
             --first-seed {seed}",
            tail.join("\n")
        )
    }
}

fn shown((step, at, what): &(usize, Duration, String)) -> String {
    format!("{step:4} {:9.3} {what}", at.as_secs_f64())
}
