//! One object.

use http::StatusCode;

use super::Ask;
use crate::answer::{Answer, Failure, represent};

/// Answers with the object the path names.
///
/// # Errors
/// When it is not there.
pub fn get(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let kind = &ask.found.kind;
    let stored = kind.table.get(&ask.target.key());
    let stored = stored.ok_or_else(|| Failure::not_found(&kind.resource(), ask.name()))?;
    Ok(represent::stored(ask.server, &ask.found, &ask.form, StatusCode::OK, &stored))
}
