//! One object.

use http::StatusCode;

use super::Ask;
use super::list::{check_reached, revision};
use crate::answer::{Answer, Failure, represent};

/// Answers with the object the path names.
///
/// # Errors
/// When it is not there, or the revision asked for is no number or has not happened.
pub fn get(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let kind = &ask.found.kind;
    let wanted = revision(ask.query.text("resourceVersion").unwrap_or_default());
    check_reached(ask, wanted.map_err(Failure::unclassified)?)?;
    let stored = kind.table.get(&ask.target.key());
    let stored = stored.ok_or_else(|| Failure::not_found(&kind.resource(), ask.name()))?;
    Ok(represent::stored(ask.server, &ask.found, &ask.form, StatusCode::OK, &stored))
}
