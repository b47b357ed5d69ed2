//! Parts of objects that have a path and a meaning of their own.

mod binding;
mod eviction;
mod finalize;
mod resize;
mod scale;

use http::StatusCode;
use serde_json::{Value, json};

use crate::answer::{Answer, Failure, body};
use crate::verbs::{self, Ask};

/// The subresources that are served. Discovery lists no others, so that a client finds out
/// before it tries.
pub const SERVED: [&str; 6] = ["status", "scale", "binding", "eviction", "resize", "finalize"];

/// Answers a request for a part other than the status.
///
/// # Errors
/// When the part is not there or refuses.
pub fn answer(ask: &Ask<'_>, verb: &str) -> Result<Answer, Failure> {
    match (ask.target.subresource.as_deref().unwrap_or_default(), verb) {
        ("binding", "create") => binding::bind(ask),
        ("eviction", "create") => eviction::evict(ask),
        ("finalize", "update") => finalize::finalize(ask),
        ("resize", "get") => verbs::get::get(ask),
        ("resize", "update" | "patch") => resize::resize(ask, verb),
        ("scale", "get") => scale::get(ask),
        ("scale", "update" | "patch") => scale::write(ask, verb),
        _ => Err(Failure::no_such_path()),
    }
}

/// Creates through a resource that stores nothing itself.
///
/// # Errors
/// When what it stands for refuses.
pub fn create_unstored(ask: &Ask<'_>) -> Result<Answer, Failure> {
    binding::bind(ask)
}

/// The answer of a part that has nothing to show.
fn done(code: StatusCode) -> Answer {
    let status: Value = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code.as_u16()});
    body::value(code, &status)
}
