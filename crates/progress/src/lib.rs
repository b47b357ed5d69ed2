//! How far a long step is: one moving line on a terminal, plain lines elsewhere.
//!
//! The program and the chores of its repository tell it alike, so it stands apart from both. It
//! goes to standard error, since standard output is for results, and nothing fails because
//! nobody reads it. What the steps are is none of its business.
//!
//! ```
//! let progress = progress::Progress::new();
//! progress.say("starting the server");
//! for node in 1..=3 {
//!     progress.count("registering nodes:", &format!("{node} of 3"));
//! }
//! progress.clear();
//! println!("3 nodes are registered");
//! ```

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

/// How often a plain line tells of the same step at most.
const PLAIN_EVERY: Duration = Duration::from_secs(2);
/// How often the moving line moves.
const TICK: Duration = Duration::from_millis(100);

/// The line that tells how far a program is. It goes when this is dropped.
#[derive(Debug)]
pub struct Progress {
    /// The moving line, where there is a terminal.
    bar: Option<ProgressBar>,
    begun: Instant,
    pace: Mutex<Pace>,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// A line with nothing on it.
    #[must_use]
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(TICK);
            bar
        });
        Self { bar, begun: Instant::now(), pace: Mutex::new(Pace::default()) }
    }

    /// Says which step begins.
    pub fn say(&self, step: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(step.to_owned()),
            // Somebody who has stopped reading is no reason to stop working.
            None => drop(writeln!(std::io::stderr().lock(), "{step}")),
        }
    }

    /// Tells how far a step is. Plain lines tell of one step every now and then, of another one
    /// at once.
    pub fn count(&self, step: &'static str, far: &str) {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        if self.bar.is_some() || pace.is_due(step, self.begun.elapsed()) {
            self.say(&format!("{step} {far}"));
        }
    }

    /// Takes the moving line away, for a result or for a program that writes to the terminal
    /// itself.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Which step was told last, and when.
#[derive(Debug, Default)]
struct Pace {
    last: Option<(&'static str, Duration)>,
}

impl Pace {
    /// Whether a step is to be told again; then it counts as told.
    fn is_due(&mut self, step: &'static str, now: Duration) -> bool {
        let is_due = self
            .last
            .is_none_or(|(last, at)| last != step || now.saturating_sub(at) >= PLAIN_EVERY);
        if is_due {
            self.last = Some((step, now));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_step_is_told_now_and_then_and_another_one_at_once() {
        let mut pace = Pace::default();
        let mut check = |step, millis, want| {
            assert_eq!(pace.is_due(step, Duration::from_millis(millis)), want, "{step} {millis}");
        };
        check("nodes", 0, true);
        check("nodes", 1, false);
        check("nodes", 1999, false);
        check("nodes", 2000, true);
        check("nodes", 3999, false);
        check("pods", 3999, true);
        check("nodes", 3999, true);
        check("nodes", 6000, true);
    }
}
