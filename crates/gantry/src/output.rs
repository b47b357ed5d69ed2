//! What a command says, where the one who listens may be gone or the disk full.

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};

/// Writes a result and a line end to standard output. Somebody who has seen enough, as `head`
/// has, is no reason to end.
///
/// # Errors
/// When it cannot be written for another reason.
pub(crate) fn say(text: &str) -> Result<()> {
    write(&format!("{text}\n"))
}

/// Writes text as it is; otherwise like [`say`].
///
/// # Errors
/// As for [`say`].
pub(crate) fn write(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Writes a line to standard error; where that cannot be done there is nobody left to tell.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
