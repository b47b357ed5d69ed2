//! How pods end.

use scenarios::Scenario;
use scenarios::request::PatchType::Merge;
use scenarios::request::{delete, get, patch, post, watch};
use serde_json::json;

use super::{PODS, pod};

const POD: &str = "/api/v1/namespaces/{ns}/pods/a";

#[tokio::test]
async fn a_pod_without_a_node_goes_at_once() {
    Scenario::new("a_pod_without_a_node_goes_at_once")
        .step(
            post(PODS, pod("a", json!({}))).expect(201).capture("rv", "/metadata/resourceVersion"),
        )
        .step(delete(POD).expect(200))
        .step(get(POD).refused(404, "NotFound"))
        .step(
            watch(PODS, 2).query("resourceVersion", "{rv}").expect(200).with("/1/type", "DELETED"),
        )
        .run()
        .await;
}

#[tokio::test]
async fn a_pod_on_a_node_gets_its_time() {
    Scenario::new("a_pod_on_a_node_gets_its_time")
        .step(
            post(PODS, pod("a", json!({"nodeName": "n"})))
                .expect(201)
                .capture("rv", "/metadata/resourceVersion"),
        )
        .step(
            delete(POD)
                .json(json!({"gracePeriodSeconds": 60}))
                .expect(200)
                .with("/metadata/deletionGracePeriodSeconds", 60),
        )
        .step(delete(POD).expect(200).with("/metadata/deletionGracePeriodSeconds", 60))
        .step(
            delete(POD)
                .json(json!({"gracePeriodSeconds": 40}))
                .expect(200)
                .with("/metadata/deletionGracePeriodSeconds", 40),
        )
        .step(patch(POD, Merge, json!({"metadata": {"labels": {"a": "b"}}})).expect(200))
        .step(delete(POD).json(json!({"gracePeriodSeconds": 0, "dryRun": ["All"]})).expect(200))
        .step(delete(POD).json(json!({"gracePeriodSeconds": 0})).expect(200))
        .step(get(POD).refused(404, "NotFound"))
        .step(watch(PODS, 5).query("resourceVersion", "{rv}").expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_pod_that_is_over_goes_at_once() {
    Scenario::new("a_pod_that_is_over_goes_at_once")
        .step(post(PODS, pod("a", json!({"nodeName": "n"}))).expect(201))
        .step(
            patch(&format!("{POD}/status"), Merge, json!({"status": {"phase": "Succeeded"}}))
                .expect(200),
        )
        .step(delete(POD).expect(200))
        .step(get(POD).refused(404, "NotFound"))
        .run()
        .await;
}

#[tokio::test]
async fn a_finalizer_holds_a_pod() {
    let mut held = pod("a", json!({"terminationGracePeriodSeconds": -5, "nodeName": "n"}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let mut free = pod("b", json!({}));
    free["metadata"]["finalizers"] = json!(["example.com/hold"]);
    Scenario::new("a_finalizer_holds_a_pod")
        .step(post(PODS, held).expect(201))
        .step(delete(POD).expect(200))
        .step(delete(POD).json(json!({"gracePeriodSeconds": 0})).expect(200))
        .step(patch(POD, Merge, json!({"metadata": {"finalizers": null}})).expect(200))
        .step(get(POD).refused(404, "NotFound"))
        .step(post(PODS, free).expect(201))
        .step(delete(&format!("{PODS}/b")).expect(200))
        .step(
            patch(&format!("{PODS}/b"), Merge, json!({"metadata": {"finalizers": []}})).expect(200),
        )
        .step(get(&format!("{PODS}/b")).refused(404, "NotFound"))
        .run()
        .await;
}

#[tokio::test]
async fn pods_end_together() {
    Scenario::new("pods_end_together")
        .step(post(PODS, pod("a", json!({}))).expect(201))
        .step(post(PODS, pod("b", json!({"nodeName": "n"}))).expect(201))
        .step(delete(PODS).query("fieldSelector", "spec.nodeName=").expect(200))
        .step(delete(PODS).expect(200))
        .step(get(PODS).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn pods_are_found_by_their_fields() {
    let mut scenario = Scenario::new("pods_are_found_by_their_fields")
        .step(post(PODS, pod("a", json!({"nodeName": "n", "hostNetwork": true, "restartPolicy": "Never"}))).preparation())
        .step(post(PODS, pod("b", json!({"schedulerName": "s"}))).preparation())
        .step(patch(&format!("{PODS}/b/status"), Merge, json!({"status": {"phase": "Running", "podIP": "1.2.3.4", "nominatedNodeName": "m"}})).preparation());
    for selector in [
        "metadata.name=a",
        "spec.nodeName=n",
        "spec.nodeName=",
        "spec.nodeName!=n",
        "spec.restartPolicy=Never",
        "spec.schedulerName=s",
        "spec.serviceAccountName=default",
        "spec.hostNetwork=true",
        "status.phase=Running",
        "status.podIP=1.2.3.4",
        "status.podIPs=1.2.3.4",
        "status.nominatedNodeName=m",
        "spec.host=n",
        "spec.x=y",
    ] {
        scenario = scenario.step(get(PODS).query("fieldSelector", selector));
    }
    scenario.run().await;
}
