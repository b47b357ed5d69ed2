//! Namespaces.

use scenarios::Scenario;
use scenarios::request::PatchType::Merge;
use scenarios::request::{delete, get, patch, post, put};
use serde_json::json;

const ALL: &str = "/api/v1/namespaces";
/// A name no other scenario has: that of the scenario's own namespace, and more.
const OTHER: &str = "{ns}-x";
const PATH: &str = "/api/v1/namespaces/{ns}-x";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

#[tokio::test]
async fn a_namespace_is_completed() {
    Scenario::new("ns_completed")
        .step(post(ALL, json!({"metadata": {"name": OTHER}})).expect(201))
        .step(get(PATH).expect(200))
        .step(get(PATH).header("Accept", TABLE).expect(200))
        .step(
            patch(
                PATH,
                Merge,
                json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "x", "a": "b"}}}),
            )
            .expect(200),
        )
        .step(
            patch(PATH, Merge, json!({"metadata": {"labels": null}, "spec": {"finalizers": []}}))
                .expect(200),
        )
        .step(put(PATH, json!({"metadata": {"name": OTHER}})).expect(200))
        .step(
            get(ALL).query("fieldSelector", "metadata.name={ns}-x,status.phase=Active").expect(200),
        )
        .step(get(ALL).query("fieldSelector", "name={ns}-x").refused(400, "BadRequest"))
        .run()
        .await;
}

#[tokio::test]
async fn a_wrong_namespace_is_refused() {
    Scenario::new("ns_refused")
        .step(post(ALL, json!({"metadata": {"name": "A"}})).refused(422, "Invalid"))
        .step(post(ALL, json!({"metadata": {"name": "a.b"}})).refused(422, "Invalid"))
        .step(
            post(ALL, json!({"metadata": {"name": OTHER}, "spec": {"finalizers": ["x"]}}))
                .refused(422, "Invalid"),
        )
        .step(post(ALL, json!({"metadata": {"name": "{ns}"}})).refused(409, "AlreadyExists"))
        .step(
            patch(
                "/api/v1/namespaces/{ns}/status",
                Merge,
                json!({"status": {"phase": "Terminating"}}),
            )
            .refused(422, "Invalid"),
        )
        .step(delete("/api/v1/namespaces/default").refused(403, "Forbidden"))
        .step(delete("/api/v1/namespaces/kube-system").refused(403, "Forbidden"))
        .step(delete("/api/v1/namespaces/no-such-namespace").refused(404, "NotFound"))
        .step(get("/api/v1/namespaces/{ns}/pods").expect(200))
        .step(
            post(
                "/api/v1/namespaces/no-such-namespace/configmaps",
                json!({"metadata": {"name": "a"}}),
            )
            .refused(404, "NotFound"),
        )
        .run()
        .await;
}

#[tokio::test]
async fn a_namespace_ends_when_its_finalizers_are_gone() {
    let maps = "/api/v1/namespaces/{ns}-x/configmaps";
    Scenario::new("ns_ends")
        .step(post(ALL, json!({"metadata": {"name": OTHER}})).expect(201))
        .step(post(maps, json!({"metadata": {"name": "a"}})).expect(201))
        .step(delete(PATH).expect(200).with("/status/phase", "Terminating"))
        .step(delete(PATH).expect(200))
        .step(get(PATH).expect(200))
        .step(post(maps, json!({"metadata": {"name": "b"}})).refused(403, "Forbidden"))
        .step(patch(&format!("{maps}/a"), Merge, json!({"data": {"a": "b"}})).expect(200))
        .step(patch(&format!("{PATH}/status"), Merge, json!({"status": {"phase": "Active"}})).refused(422, "Invalid"))
        .step(patch(&format!("{PATH}/status"), Merge, json!({"status": {"conditions": [{"type": "NamespaceContentRemaining", "status": "True"}]}})).expect(200))
        .step(put(&format!("{PATH}/finalize"), json!({"metadata": {"name": OTHER}, "spec": {"finalizers": ["kubernetes", "example.com/x"]}})).expect(200))
        .step(put(&format!("{PATH}/finalize"), json!({"metadata": {"name": OTHER}, "spec": {"finalizers": ["x"]}})).refused(422, "Invalid"))
        .step(put(&format!("{PATH}/finalize"), json!({"metadata": {"name": OTHER}, "spec": {}})).expect(200))
        .step(get(PATH))
        .run()
        .await;
}

#[tokio::test]
async fn a_namespace_without_finalizers_goes_at_once() {
    Scenario::new("ns_goes")
        .step(post(ALL, json!({"metadata": {"name": OTHER}})).expect(201))
        .step(put(&format!("{PATH}/finalize"), json!({"metadata": {"name": OTHER}})).expect(200))
        .step(get(PATH).expect(200))
        .step(delete(PATH).expect(200))
        .step(get(PATH))
        .run()
        .await;
}
