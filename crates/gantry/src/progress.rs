//! How far a command is, up to its result.

use ::progress::Progress;
use anyhow::Result;

use crate::output;

/// The line that tells how far a step is.
pub(crate) struct Line(Progress);

impl Line {
    /// A line with nothing on it.
    pub(crate) fn new() -> Self {
        Self(Progress::new())
    }

    /// Tells how far a step is.
    pub(crate) fn say(&self, step: &'static str, far: &str) {
        self.0.count(step, far);
    }

    /// Takes the line away and prints what came of the step.
    ///
    /// # Errors
    /// When the result cannot be written.
    pub(crate) fn end(&self, result: &str) -> Result<()> {
        self.0.clear();
        output::say(result)
    }
}
