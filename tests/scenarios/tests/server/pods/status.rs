//! What the node and the scheduler say of a pod.

use scenarios::Scenario;
use scenarios::request::PatchType::{Merge, Strategic};
use scenarios::request::{Request, get, patch, post, put};
use serde_json::{Value, json};

use super::{PODS, pod};

const STATUS: &str = "/api/v1/namespaces/{ns}/pods/a/status";

fn say(status: Value) -> Request {
    patch(STATUS, Merge, json!({"status": status}))
}

#[tokio::test]
async fn a_status_is_written_apart_from_the_rest() {
    let running = json!({"phase": "Running", "podIP": "10.0.0.1", "hostIP": "1.2.3.4", "hostIPs": [{"ip": "1.2.3.4"}],
        "startTime": "2020-01-01T00:00:00Z",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z", "observedGeneration": 1}],
        "containerStatuses": [{"name": "main", "image": "a", "imageID": "b", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2020-01-01T00:00:00Z"}}, "started": true,
            "allocatedResources": {"cpu": "0.0001"}}]});
    let mut whole = pod("a", json!({"nodeName": "ignored", "containers": []}));
    whole["status"] = json!({"phase": "Failed"});
    whole["metadata"]["labels"] = json!({"a": "b"});
    Scenario::new("a_status_is_written_apart_from_the_rest")
        .step(post(PODS, pod("a", json!({}))).expect(201))
        .step(say(running).expect(200).with("/status/podIPs/0/ip", "10.0.0.1"))
        .step(say(json!({"conditions": [{"type": "Ready", "status": "False"}, {"type": "x/y", "status": "True"}]})).expect(200))
        .step(patch(STATUS, Strategic, json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})).expect(200))
        .step(say(json!({"podIP": "10.0.0.2"})).expect(200))
        .step(say(json!({"podIPs": [{"ip": "10.0.0.2"}, {"ip": "::1"}]})).expect(200))
        .step(say(json!({"podIP": null, "podIPs": null})).expect(200))
        .step(put(STATUS, whole).expect(200).with("/status/phase", "Failed"))
        .step(get(STATUS).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_wrong_status_is_refused() {
    Scenario::new("a_wrong_status_is_refused")
        .step(post(PODS, pod("a", json!({}))).expect(201))
        .step(say(json!({"qosClass": "Guaranteed"})).refused(422, "Invalid"))
        .step(say(json!({"podIPs": [{"ip": "x"}]})).refused(422, "Invalid"))
        .step(
            say(json!({"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}]})).refused(422, "Invalid"),
        )
        .step(
            say(json!({"hostIP": "1.2.3.4", "hostIPs": [{"ip": "1.2.3.5"}]}))
                .refused(422, "Invalid"),
        )
        .step(
            say(json!({"conditions": [{"type": "a b", "status": "True"}]})).refused(422, "Invalid"),
        )
        .step(say(json!({"nominatedNodeName": "A"})).refused(422, "Invalid"))
        .step(say(json!({"resourceClaimStatuses": [{"name": "a"}]})).refused(422, "Invalid"))
        .step(say(json!({"observedGeneration": -1})).refused(422, "Invalid"))
        .run()
        .await;
}

#[tokio::test]
async fn a_container_that_ended_for_good_stays_so() {
    let ended = json!({"containerStatuses": [{"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 1}}}]});
    let runs = json!({"containerStatuses": [{"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"running": {}}}]});
    let mut scenario = Scenario::new("a_container_that_ended_for_good_stays_so");
    for (policy, code) in [("Never", 422), ("OnFailure", 200), ("Always", 200)] {
        let name = policy.to_lowercase();
        let status = format!("{PODS}/{name}/status");
        scenario = scenario
            .step(post(PODS, pod(&name, json!({"restartPolicy": policy}))).expect(201))
            .step(patch(&status, Merge, json!({"status": ended})).expect(200))
            .step(patch(&status, Merge, json!({"status": runs})).expect(code));
    }
    scenario.run().await;
}

#[tokio::test]
async fn a_bound_pod_is_not_nominated() {
    Scenario::new("a_bound_pod_is_not_nominated")
        .step(post(PODS, pod("a", json!({"nodeName": "n"}))).expect(201))
        .step(say(json!({"nominatedNodeName": "m"})).refused(422, "Invalid"))
        .run()
        .await;
}
