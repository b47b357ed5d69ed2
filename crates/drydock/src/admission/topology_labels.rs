//! A pod tells in which zone and region it runs: its node's labels become its own.

use serde_json::{Map, Value};

use super::{Attributes, Operation};
use crate::server::Server;
use crate::write::Part;

/// What is copied from the node.
const COPIED: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Labels a pod that is created with its node.
pub(super) fn mutate(attributes: &Attributes<'_>, pod: &mut Value) {
    if attributes.operation != Operation::Create || attributes.part != Part::Object {
        return;
    }
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    apply(attributes.server, &node, pod);
}

/// Labels a pod with what the node of that name says; a node that is not there says nothing.
pub(crate) fn apply(server: &Server, node: &str, pod: &mut Value) {
    let copied = of(server, node).unwrap_or_default();
    if copied.is_empty() {
        return;
    }
    let labels = &mut pod["metadata"]["labels"];
    match labels.as_object_mut() {
        Some(labels) => labels.extend(copied),
        None => *labels = copied.into(),
    }
}

fn of(server: &Server, node: &str) -> Option<Map<String, Value>> {
    let stored = server.registry().resource("", "nodes")?.table.get(node)?;
    let node: Value = serde_json::from_slice(&stored.body).ok()?;
    let labels = node["metadata"]["labels"].as_object()?;
    let copied = COPIED.iter().filter_map(|key| labels.get_key_value(*key));
    Some(copied.map(|(key, value)| (key.clone(), value.clone())).collect())
}
