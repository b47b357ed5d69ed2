//! How far a long step is: one line that changes on a terminal, plain lines elsewhere.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::output;

/// How often a plain line is written at most.
const PLAIN_EVERY: Duration = Duration::from_secs(2);

/// The line that tells how far a step is. It goes to standard error: standard output is for
/// results.
pub(crate) struct Line {
    is_terminal: bool,
    last: Cell<Option<(Instant, &'static str)>>,
}

impl Line {
    /// A line with nothing on it.
    pub(crate) fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), last: Cell::new(None) }
    }

    /// Tells how far a step is. One step is told of every now and then, another one at once.
    pub(crate) fn say(&self, step: &'static str, far: &str) {
        let text = format!("{step} {far}");
        let mut stderr = std::io::stderr().lock();
        let now = Instant::now();
        if self.is_terminal {
            // A closed terminal is no reason to stop working.
            let _ = write!(stderr, "\r\x1b[K{text}");
            let _ = stderr.flush();
        } else if self.last.get().is_none_or(|(last, of)| of != step || now - last >= PLAIN_EVERY) {
            let _ = writeln!(stderr, "{text}");
            self.last.set(Some((now, step)));
        }
    }

    /// Takes the line away and prints what came of the step.
    ///
    /// # Errors
    /// When the result cannot be written.
    pub(crate) fn end(&self, result: &str) -> Result<()> {
        if self.is_terminal {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
        output::say(result)
    }
}
