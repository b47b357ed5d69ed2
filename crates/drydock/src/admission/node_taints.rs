//! A new node takes no pod before someone has seen it ready.

use serde_json::{Value, json};

use super::{Attributes, Operation};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Adds the taint that the node lifecycle controller removes once the node is ready.
pub(super) fn mutate(attributes: &Attributes<'_>, node: &mut Value) {
    if attributes.operation != Operation::Create {
        return;
    }
    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let there =
        taints.iter().any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule");
    if there {
        return;
    }
    taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    node["spec"]["taints"] = taints.into();
}
