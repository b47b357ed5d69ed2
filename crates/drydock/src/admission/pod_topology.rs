//! A pod shows the zone and the region of its node.

use serde_json::{Map, Value};

use super::{Attributes, Operation};
use crate::server::Server;
use crate::write::Part;

/// The labels of a node that its pods show.
const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Copies the labels of the node onto a pod that is created with one.
pub(super) fn mutate(attributes: &Attributes<'_>, pod: &mut Value) {
    if attributes.part != Part::Object || attributes.operation != Operation::Create {
        return;
    }
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    copy(attributes.server, &node, pod);
}

/// Copies the labels of a node onto the Binding that names it, from where they reach the pod.
pub(crate) fn label_binding(server: &Server, binding: &mut Value) {
    // A Binding that leaves the kind of its target out means a node, too, but upstream looks
    // away then.
    if binding["target"]["kind"] == "Node" {
        let node = binding["target"]["name"].as_str().unwrap_or_default().to_owned();
        copy(server, &node, binding);
    }
}

/// What the node says holds; a node that is not there says nothing.
fn copy(server: &Server, node: &str, object: &mut Value) {
    let Some(stored) = server.native("", "nodes").table.get(node) else { return };
    let told = LABELS.into_iter().filter_map(|key| Some((key, stored.label(key)?)));
    let told: Vec<(&str, &str)> = told.collect();
    if told.is_empty() {
        return;
    }
    let labels = &mut object["metadata"]["labels"];
    if !labels.is_object() {
        *labels = Value::Object(Map::new());
    }
    for (key, value) in told {
        labels[key] = value.into();
    }
}
