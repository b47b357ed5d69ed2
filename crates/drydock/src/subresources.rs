//! Parts of objects that have a path and a meaning of their own.

mod binding;
mod eviction;
mod finalize;
mod scale;

use http::StatusCode;
use serde_json::{Value, json};

use crate::answer::{Answer, Failure, body};
use crate::request::Verb;
use crate::verbs::{self, Ask};

/// The subresources that are served. Discovery lists no others, so that a client finds out
/// before it tries.
pub const SERVED: [&str; 6] = ["status", "scale", "binding", "eviction", "resize", "finalize"];

/// Answers a request for a part other than the status.
///
/// # Errors
/// When the part is not there or refuses.
pub fn answer(ask: &Ask<'_>, verb: Verb) -> Result<Answer, Failure> {
    match (ask.target.subresource.as_deref().unwrap_or_default(), verb) {
        ("binding", Verb::Create) => binding::bind(ask),
        ("eviction", Verb::Create) => eviction::evict(ask),
        ("finalize", Verb::Update) => finalize::finalize(ask),
        // A running pod gets other amounts; its strategy refuses any other change.
        ("resize", Verb::Get) => verbs::get::get(ask),
        ("resize", Verb::Update) => verbs::update::update(ask),
        ("resize", Verb::Patch) => verbs::patch::patch(ask),
        ("scale", Verb::Get) => scale::get(ask),
        ("scale", Verb::Update) => scale::update(ask),
        ("scale", Verb::Patch) => scale::patch(ask),
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
fn done(code: StatusCode, warnings: &[String]) -> Answer {
    let status: Value = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code.as_u16()});
    let mut answer = body::value(code, &status);
    crate::verbs::warn(&mut answer, warnings);
    answer
}
