//! Pods: what may be left out, what must be in, what may change and how they end.

mod admission;
mod creation;
mod ending;
mod refusals;
mod status;
mod tables;
mod updates;

use serde_json::{Value, json};

/// Where pods are.
const PODS: &str = "/api/v1/namespaces/{ns}/pods";

/// A pod with this spec besides one container.
fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {
        "automountServiceAccountToken": false,
        "containers": [{"name": "main", "image": "registry.example/main:1"}],
    }});
    merge(&mut pod["spec"], spec);
    pod
}

/// A pod whose only container is this.
fn pod_of(container: Value) -> Value {
    let mut whole = json!({"name": "main", "image": "registry.example/main:1"});
    merge(&mut whole, container);
    pod("a", json!({"containers": [whole]}))
}

fn merge(object: &mut Value, other: Value) {
    let Value::Object(other) = other else { return };
    for (key, value) in other {
        object[key] = value;
    }
}
