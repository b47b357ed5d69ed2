//! What decides who makes room for whom: priorities, budgets, nominations, and pods on their way
//! out.

use serde_json::{Value, json};

use super::{NAMESPACES, Step, name_of, namespace_of, pod, selector};
use crate::draw::Draw;

const BUDGETS: usize = 2;
const WAITING: usize = 5;

/// What there is at first.
pub fn objects(draw: &mut Draw, nodes: usize) -> Vec<Value> {
    let mut objects = Vec::new();
    for namespace in NAMESPACES {
        for index in 0..BUDGETS {
            objects.extend(draw.maybe(35, |draw| budget(draw, namespace, index)));
        }
    }
    for index in 0..WAITING {
        objects.extend(draw.maybe(20, |draw| waiting(draw, index, nodes)));
    }
    objects
}

/// What changes then.
pub fn change(draw: &mut Draw, nodes: usize) -> Step {
    let object = if draw.percent(50) {
        let (namespace, index) = (*draw.one(&NAMESPACES), draw.below(BUDGETS));
        budget(draw, namespace, index)
    } else {
        let index = draw.below(WAITING);
        waiting(draw, index, nodes)
    };
    if draw.percent(60) {
        return Step::Put(object);
    }
    let (kind, namespace, name) = name_of(&object);
    Step::Delete { kind, namespace, name }
}

fn budget(draw: &mut Draw, namespace: &str, index: usize) -> Value {
    let mut spec = json!({"minAvailable": 1});
    if let Some(selector) = selector(draw) {
        spec["selector"] = selector;
    }
    let mut status = json!({
        "disruptionsAllowed": draw.below(3),
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    });
    if draw.percent(30) {
        let name = format!("bound-{}", draw.below(40));
        status["disruptedPods"] = json!({name: "2026-01-01T00:00:00Z"});
    }
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": format!("budget-{index}"), "namespace": namespace},
        "spec": spec,
        "status": status,
    })
}

/// A pod that waits for room on a node.
fn waiting(draw: &mut Draw, index: usize, nodes: usize) -> Value {
    let mut pod = pod(draw, &format!("waiting-{index}"));
    pod["metadata"]["namespace"] = json!(namespace_of(index));
    pod["spec"]["priority"] = json!(draw.below(6));
    // A node that is not there can be named, too.
    pod["status"] = json!({"nominatedNodeName": format!("node-{}", draw.below(nodes + 1))});
    if draw.percent(12) {
        pod["spec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
    }
    pod
}

/// Gives a pod that is asked about a priority, and perhaps a nomination.
pub fn make_rival(draw: &mut Draw, pod: &mut Value, nodes: usize) {
    pod["spec"]["priority"] = json!(draw.below(5));
    if draw.percent(10) {
        pod["spec"]["preemptionPolicy"] = json!("Never");
    }
    if draw.percent(25) {
        pod["status"] = json!({"nominatedNodeName": format!("node-{}", draw.below(nodes + 1))});
    }
    if draw.percent(2) {
        pod["spec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
    }
}

/// Says why a pod that is being deleted is.
pub fn give_way(draw: &mut Draw, pod: &mut Value) {
    let reason = match draw.below(4) {
        0 => return,
        1 => "EvictionByEvictionAPI",
        _ => "PreemptionByScheduler",
    };
    let status = if draw.percent(85) { "True" } else { "False" };
    pod["status"]["conditions"] =
        json!([{"type": "DisruptionTarget", "status": status, "reason": reason}]);
}

/// Leaves of nodes and pods little that keeps them apart, so that room decides; and pods that leave
/// or wait for others to leave are many.
pub fn only(draw: &mut Draw, mut object: Value) -> Value {
    match object["kind"].as_str() {
        Some("Node") => {
            object["spec"] = json!({});
            let room = json!({
                "cpu": draw.one(&["1", "2", "4"]),
                "memory": draw.one(&["2Gi", "4Gi"]),
                "pods": draw.one(&["3", "6", "20"]),
                "ephemeral-storage": "20Gi",
                "example.com/gpu": "2",
            });
            object["status"] = json!({"allocatable": room, "capacity": room});
        }
        Some("Pod") => {
            if let Some(spec) = object["spec"].as_object_mut() {
                spec.remove("nodeSelector");
                if let Some(affinity) = spec.get_mut("affinity").and_then(Value::as_object_mut) {
                    affinity.remove("nodeAffinity");
                }
            }
            if object["spec"]["nodeName"].is_string() && draw.percent(15) {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                object["metadata"]["deletionGracePeriodSeconds"] = json!(30);
                give_way(draw, &mut object);
            }
            if object["spec"]["nodeName"].is_null() && draw.percent(50) {
                let node = format!("node-{}", draw.below(3));
                object["status"] = json!({"nominatedNodeName": node});
            }
        }
        _ => {}
    }
    object
}

/// A pod that is on its way out stays after all.
pub fn stay(object: &mut Value) {
    if object["kind"] == "Pod"
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        metadata.remove("deletionTimestamp");
        metadata.remove("deletionGracePeriodSeconds");
    }
}

/// A pod that runs with other amounts than its spec asks for.
pub fn resize(draw: &mut Draw, pod: &mut Value) {
    let status = |draw: &mut Draw, container: &Value| {
        let mut amounts = || json!({"cpu": draw.one(&["50m", "300m", "2"]), "memory": "128Mi"});
        let (allocated, actual) = (amounts(), amounts());
        json!({
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": true,
            "restartCount": 0,
            "allocatedResources": allocated,
            "resources": {"requests": actual},
        })
    };
    for (list, told) in
        [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")]
    {
        let containers = pod["spec"][list].as_array().cloned().unwrap_or_default();
        let statuses: Vec<Value> = containers.iter().map(|one| status(draw, one)).collect();
        pod["status"][told] = json!(statuses);
    }
    if draw.percent(30) {
        let reason = draw.one(&["Infeasible", "Deferred"]);
        let pending = json!({"type": "PodResizePending", "status": "True", "reason": reason});
        match pod["status"]["conditions"].as_array_mut() {
            Some(conditions) => conditions.push(pending),
            None => pod["status"]["conditions"] = json!([pending]),
        }
    }
}
