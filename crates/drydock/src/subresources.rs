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

/// Parts that a real server asks the kubelet of the node for, and why there is nothing behind
/// them here.
const OF_KUBELETS: [(&str, &str); 5] = [
    ("log", "pods on hollow nodes have no logs: nothing runs in their containers"),
    ("exec", "no command can be run in a pod on a hollow node: nothing runs in its containers"),
    ("attach", "nobody can attach to a pod on a hollow node: nothing runs in its containers"),
    ("portforward", "no port leads into a pod on a hollow node: nothing listens in its containers"),
    ("proxy", "no proxy leads to hollow nodes or their pods: nothing listens there"),
];

/// Why a part that kube-apiserver has is not to be had here.
pub fn unserved(resource: &str, part: &str) -> Failure {
    let why = OF_KUBELETS.iter().find(|(name, _)| *name == part).map(|(_, why)| *why);
    match why {
        Some(why) => Failure::not_implemented(format!("{resource}/{part} is not served: {why}")),
        None => Failure::no_such_path(),
    }
}

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
