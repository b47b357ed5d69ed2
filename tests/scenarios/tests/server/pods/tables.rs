//! Pods as tables.

use scenarios::Scenario;
use scenarios::request::PatchType::Merge;
use scenarios::request::{delete, get, patch, post};
use serde_json::{Value, json};

use super::{PODS, pod};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

#[tokio::test]
async fn a_row_says_how_a_pod_is() {
    let container = |state: Value| json!([{"name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state}]);
    let restarted = json!([{"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2020-01-01T00:00:00Z"}}}]);
    let init = |state: Value| json!([{"name": "i", "image": "", "imageID": "", "ready": false, "restartCount": 1, "state": state}]);
    let statuses = [
        json!({"phase": "Running", "containerStatuses": container(json!({"running": {}}))}),
        json!({"phase": "Running", "containerStatuses": restarted}),
        json!({"phase": "Succeeded", "containerStatuses": container(json!({"terminated": {"exitCode": 0, "reason": "Completed"}}))}),
        json!({"phase": "Failed", "containerStatuses": container(json!({"terminated": {"exitCode": 3}}))}),
        json!({"phase": "Failed", "containerStatuses": container(json!({"terminated": {"exitCode": 137, "signal": 9}}))}),
        json!({"phase": "Failed", "reason": "Evicted"}),
        json!({"phase": "Pending", "initContainerStatuses": init(json!({"running": {}}))}),
        json!({"phase": "Pending", "initContainerStatuses": init(json!({"terminated": {"exitCode": 1}}))}),
        json!({"phase": "Pending", "initContainerStatuses": init(json!({"waiting": {"reason": "ImagePullBackOff"}}))}),
        json!({"phase": "Running", "initContainerStatuses": init(json!({"terminated": {"exitCode": 0}})),
            "containerStatuses": container(json!({"running": {}}))}),
        json!({"phase": "Running", "podIP": "10.0.0.1", "nominatedNodeName": "m",
            "conditions": [{"type": "example.com/ready", "status": "True"}]}),
    ];
    let mut scenario = Scenario::new("a_row_says_how_a_pod_is");
    for (index, status) in statuses.into_iter().enumerate() {
        let name = format!("p{index:02}");
        let spec = json!({"initContainers": [{"name": "i", "image": "i"}],
            "readinessGates": [{"conditionType": "example.com/ready"}, {"conditionType": "b"}]});
        scenario = scenario.step(post(PODS, pod(&name, spec)).preparation()).step(
            patch(&format!("{PODS}/{name}/status"), Merge, json!({"status": status})).preparation(),
        );
    }
    scenario
        .step(post(PODS, pod("gated", json!({"schedulingGates": [{"name": "x"}]}))).preparation())
        .step(post(PODS, pod("going", json!({"nodeName": "n"}))).preparation())
        .step(delete(&format!("{PODS}/going")).preparation())
        .step(get(PODS).header("Accept", TABLE).expect(200))
        .step(get(&format!("{PODS}/gated")).header("Accept", TABLE).expect(200))
        .step(
            get(PODS)
                .header("Accept", TABLE)
                .query("includeObject", "Object")
                .query("fieldSelector", "metadata.name=p00")
                .expect(200),
        )
        .run()
        .await;
}

#[tokio::test]
async fn a_sidecar_counts_as_a_container() {
    let status = json!({"phase": "Running",
        "initContainerStatuses": [{"name": "s", "image": "", "imageID": "", "ready": true, "started": true, "restartCount": 2, "state": {"running": {}}}],
        "containerStatuses": [{"name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 1, "state": {"running": {}}}]});
    Scenario::new("a_sidecar_counts_as_a_container")
        .step(post(PODS, pod("a", json!({"initContainers": [{"name": "s", "image": "s", "restartPolicy": "Always"}]}))).preparation())
        .step(patch(&format!("{PODS}/a/status"), Merge, json!({"status": status})).preparation())
        .step(get(PODS).header("Accept", TABLE).expect(200))
        .run()
        .await;
}
