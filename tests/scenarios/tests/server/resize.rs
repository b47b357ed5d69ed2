//! A running pod gets other amounts of CPU and memory.

use scenarios::Scenario;
use scenarios::request::PatchType::{Merge, Strategic};
use scenarios::request::{Request, get, patch, post, put};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/{ns}/pods";
const POD: &str = "/api/v1/namespaces/{ns}/pods/a";
const RESIZE: &str = "/api/v1/namespaces/{ns}/pods/a/resize";

fn pod(resources: Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"automountServiceAccountToken": false,
        "initContainers": [{"name": "i", "image": "i"}, {"name": "s", "image": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "main", "image": "main", "resources": resources}]}})
}

fn amounts(resources: Value) -> Request {
    patch(
        RESIZE,
        Strategic,
        json!({"spec": {"containers": [{"name": "main", "resources": resources}]}}),
    )
}

#[tokio::test]
async fn cpu_and_memory_change_in_place() {
    Scenario::new("cpu_and_memory_change_in_place")
        .step(
            post(PODS, pod(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}))).expect(201),
        )
        .step(get(RESIZE).expect(200))
        .step(
            amounts(json!({"requests": {"cpu": "1500m"}}))
                .expect(200)
                .with("/metadata/generation", 2),
        )
        .step(
            amounts(json!({"requests": {"cpu": "1500m"}}))
                .expect(200)
                .with("/metadata/generation", 2),
        )
        .step(amounts(json!({"requests": {"memory": "1Gi"}, "limits": {"cpu": "3"}})).expect(200))
        .step(
            patch(
                RESIZE,
                Strategic,
                json!({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "n",
                    "containers": [{"name": "main", "image": "other",
                        "resources": {"requests": {"cpu": "1800m"}}}]}}),
            )
            .expect(200),
        )
        .step(
            put(
                RESIZE,
                pod(json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}})),
            )
            .expect(200),
        )
        .step(get(POD).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_wrong_resize_is_refused() {
    let init = json!({"spec": {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}]}});
    let sidecar = json!({"spec": {"initContainers": [{"name": "s", "resources": {"requests": {"example.com/a": "1"}, "limits": {"example.com/a": "1"}}}]}});
    Scenario::new("a_wrong_resize_is_refused")
        .step(post(PODS, pod(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}))).expect(201))
        .step(amounts(json!({"requests": {"cpu": "3"}})).refused(422, "Invalid"))
        .step(amounts(json!({"requests": {"cpu": "-1"}})).refused(422, "Invalid"))
        .step(amounts(json!({"requests": {"ephemeral-storage": "1"}})).refused(422, "Invalid"))
        .step(amounts(json!({"requests": {"cpu": null}, "limits": {"cpu": null}})).refused(422, "Invalid"))
        .step(amounts(json!({"limits": null})).refused(422, "Invalid"))
        .step(patch(RESIZE, Strategic, init).refused(422, "Invalid"))
        .step(patch(RESIZE, Strategic, sidecar).refused(422, "Invalid"))
        .step(patch(RESIZE, Strategic, json!({"spec": {"containers": [{"name": "b", "image": "b"}]}})).refused(422, "Invalid"))
        .step(patch(RESIZE, Merge, json!({"spec": {"containers": [{"name": "b", "image": "b"}]}})).refused(422, "Invalid"))
        .step(patch(RESIZE, Strategic, json!({"spec": {"containers": [{"name": "main", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}]}})).refused(422, "Invalid"))
        .step(get(POD).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn the_class_of_a_pod_is_not_resized() {
    let both = json!({"cpu": "1", "memory": "1Gi"});
    let more = json!({"cpu": "2", "memory": "1Gi"});
    Scenario::new("the_class_of_a_pod_is_not_resized")
        .step(post(PODS, json!({"metadata": {"name": "a"}, "spec": {"automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "main", "resources": {"requests": both, "limits": both}}]}})).expect(201))
        .step(amounts(json!({"limits": more})).refused(422, "Invalid"))
        .step(amounts(json!({"limits": more, "requests": more})).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_node_must_be_able_to_resize() {
    let running = |resources: Value| {
        patch(
            &format!("{POD}/status"),
            Merge,
            json!({"status": {"containerStatuses": [{"name": "main", "image": "", "imageID": "",
            "ready": true, "restartCount": 0, "state": {"running": {}}, "resources": resources}]}}),
        )
    };
    Scenario::new("a_node_must_be_able_to_resize")
        .step(post(PODS, pod(json!({"requests": {"cpu": "1"}}))).expect(201))
        .step(running(Value::Null).expect(200))
        .step(amounts(json!({"requests": {"cpu": "2"}})).refused(422, "Invalid"))
        .step(running(json!({"requests": {"cpu": "1"}})).expect(200))
        .step(amounts(json!({"requests": {"cpu": "2"}})).expect(200))
        .run()
        .await;
}
