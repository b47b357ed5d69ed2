//! Nodes.

use scenarios::Scenario;
use scenarios::request::PatchType::Merge;
use scenarios::request::{delete, get, patch, post, put};
use serde_json::{Value, json};

const NODES: &str = "/api/v1/nodes";
const NODE: &str = "/api/v1/nodes/a";
const STATUS: &str = "/api/v1/nodes/a/status";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn node(body: Value) -> Value {
    let mut node = json!({"metadata": {"name": "a"}});
    for (key, value) in body.as_object().into_iter().flatten() {
        node[key] = value.clone();
    }
    node
}

#[tokio::test]
async fn a_node_is_completed() {
    let capacity = json!({"cpu": "32", "memory": "128Gi", "pods": 110, "example.com/gpu": "8"});
    Scenario::new("a_node_is_completed")
        .exclusive()
        .step(post(NODES, node(json!({}))).expect(201))
        .step(get(NODE).expect(200))
        .step(delete(NODE).expect(200))
        .step(post(NODES, node(json!({"status": {"capacity": capacity}}))).expect(201))
        .step(patch(STATUS, Merge, json!({"status": {"capacity": {"cpu": "0.0001"}, "conditions": [{"type": "Ready", "status": "True"}]}})).expect(200))
        .step(delete(NODE).expect(200))
        .step(post(NODES, node(json!({"spec": {"podCIDR": "10.0.0.0/24", "unschedulable": true, "providerID": "x://y",
            "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}}))).expect(201))
        .step(put(NODE, node(json!({"spec": {"podCIDR": "10.0.0.0/24", "providerID": "x://y"}}))).expect(200))
        .step(patch(NODE, Merge, json!({"status": {"capacity": {"cpu": 1}}})).expect(200))
        .step(patch(STATUS, Merge, json!({"spec": {"unschedulable": true}, "metadata": {"labels": {"x": "y"}}})).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_wrong_node_is_refused() {
    let bodies = [
        json!({"metadata": {"name": "A"}}),
        json!({"spec": {"taints": [{"key": "a b", "value": "c d", "effect": "x"}]}}),
        json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "value": "b", "effect": "NoSchedule"}]}}),
        json!({"spec": {"taints": [{"key": "a"}]}}),
        json!({"spec": {"podCIDR": "x"}}),
        json!({"spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}}),
        json!({"status": {"capacity": {"cpu": "-1"}, "allocatable": {"cpu": "1"}}}),
        json!({"status": {"capacity": {"pods": "1500m"}, "allocatable": {"cpu": "1"}}}),
    ];
    let mut scenario = Scenario::new("a_wrong_node_is_refused").exclusive();
    for body in bodies {
        scenario = scenario.step(post(NODES, node(body)).refused(422, "Invalid"));
    }
    scenario.run().await;
}

#[tokio::test]
async fn some_fields_of_a_node_do_not_change() {
    Scenario::new("some_fields_of_a_node_do_not_change")
        .exclusive()
        .step(post(NODES, node(json!({"spec": {"podCIDR": "10.0.0.0/24", "providerID": "x://y"}}))).expect(201))
        .step(patch(NODE, Merge, json!({"spec": {"podCIDR": "10.0.1.0/24"}})).refused(422, "Invalid"))
        .step(patch(NODE, Merge, json!({"spec": {"podCIDR": null, "podCIDRs": null}})).refused(422, "Invalid"))
        .step(patch(NODE, Merge, json!({"spec": {"providerID": "z"}})).refused(422, "Invalid"))
        .step(patch(NODE, Merge, json!({"spec": {"taints": [{"key": "a"}]}})).refused(422, "Invalid"))
        .step(patch(NODE, Merge, json!({"spec": {"taints": null, "unschedulable": true}})).expect(200))
        .step(patch(NODE, Merge, json!({"spec": {"externalID": "x"}})).refused(422, "Invalid"))
        .step(patch(STATUS, Merge, json!({"status": {"addresses": [{"type": "a", "address": "b"}, {"type": "a", "address": "b"}]}})).refused(422, "Invalid"))
        .step(patch(STATUS, Merge, json!({"status": {"capacity": {"cpu": "-1"}}})).refused(422, "Invalid"))
        .step(get(NODES).query("fieldSelector", "spec.unschedulable=true").expect(200))
        .step(get(NODES).query("fieldSelector", "spec.unschedulable=false").expect(200))
        .step(get(NODES).query("fieldSelector", "metadata.name=a").expect(200))
        .step(get(NODES).query("fieldSelector", "spec.x=a"))
        .run()
        .await;
}

#[tokio::test]
async fn a_row_says_how_a_node_is() {
    let info = json!({"kubeletVersion": "v1.35.0", "osImage": "linux", "kernelVersion": "6", "containerRuntimeVersion": "x://1",
        "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "", "operatingSystem": "", "architecture": ""});
    Scenario::new("a_row_says_how_a_node_is")
        .exclusive()
        .step(post(NODES, node(json!({}))).preparation())
        .step(post(NODES, json!({"metadata": {"name": "b", "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "x"}}, "spec": {"unschedulable": true},
            "status": {"nodeInfo": info, "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}, {"type": "ExternalIP", "address": "1.2.3.5"}]}})).preparation())
        .step(post(NODES, json!({"metadata": {"name": "c"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})).preparation())
        .step(get(NODES).header("Accept", TABLE).expect(200))
        .run()
        .await;
}
