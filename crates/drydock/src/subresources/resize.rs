//! A running pod gets other amounts of CPU and memory.

use crate::answer::{Answer, Failure};
use crate::verbs::{self, Ask};

/// Changes the resources of a pod's containers; its strategy refuses any other change.
///
/// # Errors
/// When the change is refused.
pub(super) fn resize(ask: &Ask<'_>, verb: &str) -> Result<Answer, Failure> {
    match verb {
        "patch" => verbs::patch::patch(ask),
        _ => verbs::update::update(ask),
    }
}
