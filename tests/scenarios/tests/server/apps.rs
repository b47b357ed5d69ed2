//! Workloads that keep pods running.

use scenarios::Scenario;
use scenarios::request::{PatchType, get, patch, post, put};
use serde_json::{Value, json};

use crate::trials::{changes, creations, selector, template, with};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/{ns}/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/{ns}/replicasets";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/{ns}/statefulsets";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/{ns}/daemonsets";
const CONTROLLERS: &str = "/api/v1/namespaces/{ns}/replicationcontrollers";

fn workload(change: Value) -> Value {
    let spec = json!({"selector": selector(), "template": template("")});
    json!({"spec": with(spec, change)})
}

/// What is wrong with any workload.
fn wrong() -> Vec<Value> {
    vec![
        workload(json!({"selector": null})),
        workload(json!({"selector": {}})),
        workload(json!({"selector": {"matchLabels": {"app": "b"}}})),
        workload(json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}})),
        workload(json!({"replicas": -1, "minReadySeconds": -1})),
        workload(json!({"template": template("Never")})),
        workload(json!({"template": {"metadata": {"labels": {"app": "a"}}}})),
    ]
}

#[tokio::test]
async fn a_deployment_is_completed_and_checked() {
    let mut bodies = wrong();
    bodies.extend([
        json!({}),
        workload(json!({"strategy": {"type": "Recreate"}, "replicas": 0, "paused": true})),
        workload(json!({"strategy": {"type": "Odd"}})),
        workload(json!({"strategy": {"type": "Recreate", "rollingUpdate": {}}})),
        workload(json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}})),
        workload(
            json!({"strategy": {"rollingUpdate": {"maxSurge": "x", "maxUnavailable": "101%"}}}),
        ),
        workload(json!({"strategy": {"rollingUpdate": {"maxSurge": 3}}})),
        workload(json!({"progressDeadlineSeconds": 5, "minReadySeconds": 5,
            "revisionHistoryLimit": -1})),
        json!({"metadata": {"name": "a.b"}, "spec": workload(json!({}))["spec"]}),
    ]);
    creations("a_deployment_is_completed_and_checked", DEPLOYMENTS, bodies).await;
}

#[tokio::test]
async fn a_deployment_counts_its_changes() {
    let patches = vec![
        json!({"spec": {"replicas": 3}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"spec": {"selector": {"matchLabels": {"x": "y"}}}}),
        json!({"spec": {"replicas": null}}),
        json!({"status": {"replicas": 2, "readyReplicas": 1, "availableReplicas": 1,
            "updatedReplicas": 2, "observedGeneration": 2, "collisionCount": 1,
            "conditions": [{"type": "Available", "status": "True", "reason": "r"}]}}),
        json!({"status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": -1,
            "collisionCount": 0}}),
    ];
    changes("a_deployment_counts_its_changes", DEPLOYMENTS, workload(json!({})), patches).await;
}

#[tokio::test]
async fn workloads_are_scaled() {
    let steps = [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS].into_iter().flat_map(|path| {
        let mut body = workload(json!({}));
        body["metadata"]["name"] = "a".into();
        let scale = format!("{path}/a/scale");
        [
            post(path, body).expect(201),
            get(&scale),
            patch(&scale, PatchType::Merge, json!({"spec": {"replicas": 4}})),
            get(&format!("{path}/a")),
            patch(&scale, PatchType::Merge, json!({"spec": {"replicas": -4}})),
        ]
    });
    Scenario::new("workloads_are_scaled").steps(steps).run().await;
}

#[tokio::test]
async fn a_field_that_repeats_in_the_body_of_a_subresource_is_told() {
    let mut body = workload(json!({}));
    body["metadata"]["name"] = "a".into();
    let pod = json!({"metadata": {"name": "a"}, "spec": {"automountServiceAccountToken": false,
        "containers": [{"name": "a", "image": "a"}]}});
    let pods = "/api/v1/namespaces/{ns}/pods";
    let bodies = [
        (
            put(&format!("{DEPLOYMENTS}/a/scale"), json!(null)),
            r#"{"metadata":{"name":"a"},"spec":{"replicas":1,"none":1,"replicas":2}}"#,
        ),
        (
            post(&format!("{pods}/a/binding"), json!(null)),
            r#"{"metadata":{"name":"a"},"target":{"name":"m","name":"n","none":1}}"#,
        ),
        (
            post(&format!("{pods}/a/eviction"), json!(null)),
            r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a","name":"a"}}"#,
        ),
    ];
    let asked = |validation: &str| {
        let bodies = bodies.clone().into_iter();
        let validation = validation.to_owned();
        bodies.map(move |(request, body)| {
            request.query("fieldValidation", &validation).raw("application/json", body)
        })
    };
    Scenario::new("a_field_that_repeats_in_the_body_of_a_subresource_is_told")
        .step(post(DEPLOYMENTS, body).preparation())
        .step(post(pods, pod).preparation())
        .steps(asked("Strict").map(|request| request.refused(400, "BadRequest")))
        .steps(asked("Warn"))
        .run()
        .await;
}

#[tokio::test]
async fn a_scale_is_read_by_its_type() {
    let path = DEPLOYMENTS;
    let scale = format!("{path}/a/scale");
    let mut body = workload(json!({}));
    body["metadata"]["name"] = "a".into();
    let whole = |spec: Value| {
        put(&scale, json!({"metadata": {"name": "a"}, "spec": spec})).refused(400, "BadRequest")
    };
    let merged = |spec: Value| {
        let patch = patch(&scale, PatchType::Merge, json!({"spec": spec}));
        patch.refused(422, "Invalid")
    };
    Scenario::new("a_scale_is_read_by_its_type")
        .step(post(path, body).preparation())
        .step(whole(json!({"replicas": "5"})))
        .step(whole(json!({"replicas": 3.7})))
        .step(whole(json!({"replicas": 99_999_999_999_i64})))
        .step(whole(json!([])))
        .step(merged(json!({"replicas": "5"})))
        .step(merged(json!({"replicas": 3.7})))
        .step(merged(json!({"replicas": 99_999_999_999_i64})))
        .step(put(&scale, json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}})))
        .step(put(&scale, json!({"metadata": {"name": "a", "labels": []}})))
        .step(put(&scale, json!({"metadata": {"name": "a"}, "spec": {"replicas": 2, "other": 1}})))
        .step(get(&scale).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_replica_set_is_completed_and_checked() {
    let mut bodies = wrong();
    bodies.extend([json!({}), workload(json!({"replicas": 0}))]);
    creations("a_replica_set_is_completed_and_checked", REPLICA_SETS, bodies).await;
    let patches = vec![
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"spec": {"replicas": 5}}),
        json!({"spec": {"selector": {"matchLabels": {"x": "y"}}}}),
        json!({"status": {"replicas": 1, "fullyLabeledReplicas": 2}}),
        json!({"status": {"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 1}}),
    ];
    changes("a_replica_set_changes", REPLICA_SETS, workload(json!({})), patches).await;
}

#[tokio::test]
async fn a_stateful_set_is_completed_and_checked() {
    let mut bodies = wrong();
    bodies.extend([
        workload(json!({})),
        workload(json!({"serviceName": "A_"})),
        workload(json!({"podManagementPolicy": "Odd"})),
        workload(json!({"updateStrategy": {"type": "OnDelete"}})),
        workload(
            json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}}),
        ),
        workload(json!({"updateStrategy": {"type": "Odd"}})),
        workload(json!({"updateStrategy": {"rollingUpdate": {"partition": -1}}})),
        workload(json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Odd"}})),
        workload(json!({"ordinals": {"start": -1}})),
        workload(json!({"volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]})),
        workload(json!({"volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {}}]})),
    ]);
    creations("a_stateful_set_is_completed_and_checked", STATEFUL_SETS, bodies).await;
    let patches = vec![
        json!({"spec": {"replicas": 2, "minReadySeconds": 3}}),
        json!({"spec": {"serviceName": "other"}}),
        json!({"spec": {"podManagementPolicy": "Parallel"}}),
        json!({"status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}}),
        json!({"status": {"replicas": 2, "readyReplicas": 2, "currentRevision": "r"}}),
    ];
    changes(
        "a_stateful_set_changes",
        STATEFUL_SETS,
        workload(json!({"serviceName": "s"})),
        patches,
    )
    .await;
}

#[tokio::test]
async fn a_daemon_set_is_completed_and_checked() {
    let mut bodies = wrong();
    bodies.extend([
        workload(json!({})),
        workload(json!({"updateStrategy": {"type": "OnDelete"}})),
        workload(json!({"updateStrategy": {"type": "Odd"}})),
        workload(json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}})),
        workload(json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}})),
    ]);
    creations("a_daemon_set_is_completed_and_checked", DAEMON_SETS, bodies).await;
    let patches = vec![
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"spec": {"template": {"spec": {"hostNetwork": true}}}}),
        json!({"spec": {"minReadySeconds": 3}}),
        json!({"spec": {"selector": {"matchLabels": {"x": "y"}}}}),
        json!({"status": {"numberReady": 1, "desiredNumberScheduled": 2}}),
        json!({"status": {"numberReady": -1}}),
    ];
    changes("a_daemon_set_changes", DAEMON_SETS, workload(json!({})), patches).await;
}

#[tokio::test]
async fn a_replication_controller_is_completed_and_checked() {
    let bodies = vec![
        json!({}),
        json!({"spec": {"template": template("")}}),
        json!({"metadata": {"labels": {"own": "l"}}, "spec": {"replicas": 0, "template": template("")}}),
        json!({"spec": {"selector": {"app": "b"}, "template": template("")}}),
        json!({"spec": {"replicas": -1, "minReadySeconds": -1, "template": template("Never")}}),
    ];
    creations("a_replication_controller_is_completed_and_checked", CONTROLLERS, bodies).await;
}

#[tokio::test]
async fn a_controller_revision_keeps_its_data() {
    let path = "/apis/apps/v1/namespaces/{ns}/controllerrevisions";
    let bodies = vec![
        json!({"revision": 1}),
        json!({"data": [1], "revision": 1}),
        json!({"data": {"a": 1}, "revision": -1}),
    ];
    creations("a_controller_revision_is_checked", path, bodies).await;
    let patches = vec![json!({"revision": 2}), json!({"data": {"b": 1}})];
    changes(
        "a_controller_revision_keeps_its_data",
        path,
        json!({"data": {"a": 1}, "revision": 1}),
        patches,
    )
    .await;
}
