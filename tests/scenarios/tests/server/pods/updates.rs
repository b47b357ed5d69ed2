//! What may change of a pod once it is there.

use scenarios::Scenario;
use scenarios::request::PatchType::{Json, Merge, Strategic};
use scenarios::request::{Request, get, patch, post, put};
use serde_json::{Value, json};

use super::{PODS, pod};

const POD: &str = "/api/v1/namespaces/{ns}/pods/a";

fn change(spec: Value) -> Request {
    patch(POD, Strategic, json!({"spec": spec}))
}

#[tokio::test]
async fn some_fields_of_a_pod_may_change() {
    let tolerations = json!([{"key": "x", "operator": "Exists"}]);
    Scenario::new("some_fields_of_a_pod_may_change")
        .step(
            post(PODS, pod("a", json!({"initContainers": [{"name": "i", "image": "i:1"}]})))
                .expect(201),
        )
        .step(
            change(json!({"containers": [{"name": "main", "image": "other:2"}]}))
                .expect(200)
                .with("/metadata/generation", 2),
        )
        .step(change(json!({"initContainers": [{"name": "i", "image": "i:2"}]})).expect(200))
        .step(change(json!({"activeDeadlineSeconds": 10})).expect(200))
        .step(change(json!({"activeDeadlineSeconds": 5})).expect(200))
        .step(change(json!({"activeDeadlineSeconds": 6})).refused(422, "Invalid"))
        .step(change(json!({"activeDeadlineSeconds": null})).refused(422, "Invalid"))
        .step(
            patch(
                POD,
                Json,
                json!([{"op": "add", "path": "/spec/tolerations/-", "value": tolerations[0]}]),
            )
            .expect(200),
        )
        .step(
            patch(
                POD,
                Json,
                json!([{"op": "add", "path": "/spec/tolerations/0/tolerationSeconds", "value": 7}]),
            )
            .expect(200),
        )
        .step(
            patch(POD, Json, json!([{"op": "remove", "path": "/spec/tolerations/2"}]))
                .refused(422, "Invalid"),
        )
        .step(
            patch(
                POD,
                Merge,
                json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}),
            )
            .expect(200)
            .with("/metadata/generation", 7),
        )
        .step(
            patch(POD, Merge, json!({"metadata": {"labels": {"a b": "b"}}}))
                .refused(422, "Invalid"),
        )
        .step(
            patch(
                POD,
                Merge,
                json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "d"}}}),
            )
            .refused(422, "Invalid"),
        )
        .step(
            patch(POD, Merge, json!({"status": {"phase": "Running"}}))
                .expect(200)
                .with("/status/phase", "Pending"),
        )
        .step(get(POD).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn an_update_may_leave_out_what_the_server_completed() {
    Scenario::new("an_update_may_leave_out_what_the_server_completed")
        .step(post(PODS, pod("a", json!({}))).expect(201))
        .step(
            put(POD, pod("a", json!({"serviceAccountName": "default"})))
                .expect(200)
                .with("/metadata/generation", 1),
        )
        .step(put(POD, pod("a", json!({"containers": []}))).refused(422, "Invalid"))
        .step(put(POD, pod("b", json!({}))).refused(400, "BadRequest"))
        .step(put(&format!("{PODS}/b"), pod("b", json!({}))).refused(404, "NotFound"))
        .run()
        .await;
}

#[tokio::test]
async fn the_rest_of_a_pod_may_not_change() {
    Scenario::new("the_rest_of_a_pod_may_not_change")
        .step(post(PODS, pod("a", json!({}))).expect(201))
        .step(change(json!({"nodeName": "n"})).refused(422, "Invalid"))
        .step(change(json!({"terminationGracePeriodSeconds": 5})).refused(422, "Invalid"))
        .step(
            change(json!({"containers": [{"name": "main", "command": ["x"]}]}))
                .refused(422, "Invalid"),
        )
        .step(
            change(
                json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": 1}}}]}),
            )
            .refused(422, "Invalid"),
        )
        .step(change(json!({"nodeSelector": {"a": "b"}})).refused(422, "Invalid"))
        .run()
        .await;
}

#[tokio::test]
async fn containers_of_a_pod_do_not_come_or_go() {
    Scenario::new("containers_of_a_pod_do_not_come_or_go")
        .step(post(PODS, pod("a", json!({}))).expect(201))
        .step(change(json!({"containers": [{"name": "b", "image": "b"}]})).refused(422, "Invalid"))
        .step(
            change(json!({"initContainers": [{"name": "b", "image": "b"}]}))
                .refused(422, "Invalid"),
        )
        .step(
            change(json!({"containers": [{"name": "main", "image": ""}]})).refused(422, "Invalid"),
        )
        .step(change(json!({"schedulingGates": [{"name": "x"}]})).refused(422, "Invalid"))
        .run()
        .await;
}

#[tokio::test]
async fn a_gated_pod_may_be_narrowed() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = |expressions: Value| json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}});
    let (a, b) =
        (json!({"key": "a", "operator": "Exists"}), json!({"key": "b", "operator": "Exists"}));
    Scenario::new("a_gated_pod_may_be_narrowed")
        .step(
            post(PODS, pod("a", json!({"schedulingGates": [{"name": "x"}, {"name": "y"}]})))
                .expect(201),
        )
        .step(change(json!({"nodeSelector": {"a": "b"}})).expect(200))
        .step(change(json!({"nodeSelector": {"a": "c"}})).refused(422, "Invalid"))
        .step(patch(POD, Merge, json!({"spec": {"nodeSelector": null}})).refused(422, "Invalid"))
        .step(patch(POD, Merge, json!({"spec": terms(json!([a]))})).expect(200))
        .step(patch(POD, Merge, json!({"spec": terms(json!([a, b]))})).expect(200))
        .step(patch(POD, Merge, json!({"spec": terms(json!([b]))})).refused(422, "Invalid"))
        .step(patch(POD, Merge, json!({"spec": {"affinity": null}})).refused(422, "Invalid"))
        .step(
            patch(POD, Merge, json!({"spec": {"schedulingGates": [{"name": "x"}, {"name": "z"}]}}))
                .refused(422, "Invalid"),
        )
        .step(patch(POD, Merge, json!({"spec": {"schedulingGates": [{"name": "y"}]}})).expect(200))
        .step(patch(POD, Merge, json!({"spec": {"schedulingGates": null}})).expect(200))
        .step(get(POD).expect(200))
        .run()
        .await;
}
