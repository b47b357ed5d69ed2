//! A pod gets its node.

use scenarios::Scenario;
use scenarios::request::PatchType::Merge;
use scenarios::request::{Request, delete, get, patch, post};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/{ns}/pods";
const POD: &str = "/api/v1/namespaces/{ns}/pods/a";

fn pod(spec: Value) -> Request {
    let mut pod = json!({"metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {
        "automountServiceAccountToken": false, "containers": [{"name": "a", "image": "a"}]}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    post(PODS, pod).expect(201)
}

fn bind(metadata: Value, target: Value) -> Request {
    let mut binding = json!({"metadata": {"name": "a"}, "target": target});
    for (key, value) in metadata.as_object().into_iter().flatten() {
        binding["metadata"][key] = value.clone();
    }
    post(&format!("{POD}/binding"), binding)
}

fn node() -> Value {
    json!({"kind": "Node", "name": "n"})
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    Scenario::new("a_pod_is_bound_once")
        .step(pod(json!({})))
        .step(bind(json!({}), node()).query("dryRun", "All").expect(201))
        .step(get(POD).expect(200))
        .step(
            patch(&format!("{POD}/status"), Merge, json!({"status": {"nominatedNodeName": "m"}}))
                .expect(200),
        )
        .step(
            bind(json!({"labels": {"a": "c", "d": "e"}, "annotations": {"f": "g"}}), node())
                .expect(201),
        )
        .step(get(POD).expect(200).with("/spec/nodeName", "n"))
        .step(bind(json!({}), node()).refused(409, "Conflict"))
        .step(bind(json!({}), json!({"name": "m"})).refused(409, "Conflict"))
        .run()
        .await;
}

#[tokio::test]
async fn a_binding_can_mean_one_pod_only() {
    Scenario::new("a_binding_can_mean_one_pod_only")
        .step(
            pod(json!({}))
                .capture("uid", "/metadata/uid")
                .capture("rv", "/metadata/resourceVersion"),
        )
        .step(
            bind(json!({"uid": "8b6a1c52-9d2a-4b44-8d0b-1f6c6a2c7e11"}), node())
                .refused(409, "Conflict"),
        )
        .step(bind(json!({"resourceVersion": "1"}), node()).refused(409, "Conflict"))
        .step(bind(json!({"uid": "{uid}", "resourceVersion": "{rv}"}), node()).expect(201))
        .step(get(POD).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_wrong_binding_is_refused() {
    Scenario::new("a_wrong_binding_is_refused")
        .step(pod(json!({})))
        .step(bind(json!({}), json!({})))
        .step(bind(json!({}), json!({"kind": "Pod", "name": "n"})))
        .step(bind(json!({}), json!({"kind": "Pod"})))
        .step(bind(json!({"name": "b"}), node()))
        .step(bind(json!({"name": ""}), node()))
        .step(bind(json!({"namespace": "other"}), node()))
        .step(
            post(
                &format!("{PODS}/b/binding"),
                json!({"metadata": {"name": "b"}, "target": node()}),
            )
            .refused(404, "NotFound"),
        )
        .step(
            post(
                "/api/v1/namespaces/{ns}/bindings",
                json!({"metadata": {"name": "a"}, "target": node()}),
            )
            .expect(201),
        )
        .step(get(POD).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_gated_pod_is_not_bound() {
    Scenario::new("a_gated_pod_is_not_bound")
        .step(pod(json!({"schedulingGates": [{"name": "x"}]})))
        .step(bind(json!({}), node()).refused(409, "Conflict"))
        .step(patch(POD, Merge, json!({"spec": {"schedulingGates": null}})).expect(200))
        .step(bind(json!({}), node()).expect(201))
        .step(get(POD).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_pod_that_is_going_is_not_bound() {
    Scenario::new("a_pod_that_is_going_is_not_bound")
        .step(pod(json!({})))
        .step(patch(POD, Merge, json!({"metadata": {"finalizers": ["example.com/x"]}})).expect(200))
        .step(delete(POD).expect(200))
        .step(bind(json!({}), node()).refused(409, "Conflict"))
        .run()
        .await;
}

#[tokio::test]
async fn a_binding_is_read_by_its_type() {
    Scenario::new("a_binding_is_read_by_its_type")
        .step(pod(json!({})))
        .step(bind(json!({"annotations": []}), node()).refused(400, "BadRequest"))
        .step(bind(json!({"annotations": {"a": 1}}), node()).refused(400, "BadRequest"))
        .step(bind(json!({}), json!("n")).refused(400, "BadRequest"))
        .step(bind(json!({}), json!({"name": 1})).refused(400, "BadRequest"))
        .step(get(POD).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_pod_shows_where_its_node_is() {
    let zone = "topology.kubernetes.io/zone";
    let labels = json!({zone: "z", "topology.kubernetes.io/region": "r",
        "topology.kubernetes.io/rack": "k", "kubernetes.io/hostname": "h"});
    let node = json!({"metadata": {"name": "{ns}", "labels": labels}});
    let placed = |name: &str| {
        json!({"metadata": {"name": name, "labels": {zone: "elsewhere"}}, "spec": {
            "nodeName": "{ns}", "automountServiceAccountToken": false,
            "containers": [{"name": "a", "image": "a"}]}})
    };
    // kube-apiserver's admission looks at nodes through a watch, which lags.
    let noticed = post(PODS, placed("probe")).query("dryRun", "All").expect(201);
    let noticed = noticed.with("/metadata/labels/topology.kubernetes.io~1zone", "z").awaited();
    let pods = "/api/v1/namespaces/{ns}/bindings";
    let named = |name: &str| json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "{ns}"}});
    Scenario::new("a_pod_shows_where_its_node_is")
        .step(post("/api/v1/nodes", node).preparation())
        .step(noticed.preparation())
        .step(post(PODS, placed("placed")).expect(201))
        .step(pod(json!({})))
        .step(bind(json!({"labels": {zone: "said"}}), json!({"kind": "Node", "name": "{ns}"})))
        .step(get(POD).expect(200).with("/metadata/labels/topology.kubernetes.io~1zone", "z"))
        .step(delete(POD).query("gracePeriodSeconds", "0").preparation())
        // Neither without a kind nor by the other path.
        .step(pod(json!({})))
        .step(bind(json!({}), json!({"name": "{ns}"})).expect(201))
        .step(get(POD).expect(200))
        .step(delete(POD).query("gracePeriodSeconds", "0").preparation())
        .step(pod(json!({})))
        .step(post(pods, named("a")).expect(201))
        .step(get(POD).expect(200))
        .step(delete("/api/v1/nodes/{ns}").preparation())
        .run()
        .await;
}
