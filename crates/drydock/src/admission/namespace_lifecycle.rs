//! Nothing is created in a namespace that is not there or is ending.

use serde_json::{Value, json};

use super::{Attributes, Operation};
use crate::answer::Failure;
use crate::answer::failure::GroupResource;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Checks the namespace of a create or an update.
pub(super) fn admit(attributes: &Attributes<'_>) -> Result<(), Failure> {
    let Some(name) = attributes.namespace else { return Ok(()) };
    let Some(namespace) = attributes.lookup("", "namespaces", name) else {
        let what = GroupResource { group: "", resource: "namespaces" };
        return Err(Failure::not_found(&what, name));
    };
    let ending = namespace["status"]["phase"] == "Terminating";
    if attributes.operation != Operation::Create || !ending {
        return Ok(());
    }
    let cause: Value = json!([{
        "reason": "NamespaceTerminating",
        "message": format!("namespace {name} is being terminated"),
        "field": "metadata.namespace",
    }]);
    let why =
        format!("unable to create new content in namespace {name} because it is being terminated");
    Err(attributes.forbid(why).with_causes(cause))
}

/// Refuses to delete what a cluster cannot do without.
pub(super) fn protect(attributes: &Attributes<'_>) -> Result<(), Failure> {
    if attributes.operation == Operation::Delete && IMMORTAL.contains(&attributes.name) {
        return Err(attributes.forbid("this namespace may not be deleted"));
    }
    Ok(())
}
