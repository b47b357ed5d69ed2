//! What the plugins of the server add to a pod and refuse of it.

use scenarios::Scenario;
use scenarios::request::post;
use serde_json::{Value, json};

use super::{PODS, merge};

const ACCOUNTS: &str = "/api/v1/namespaces/{ns}/serviceaccounts";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [
        {"name": "main", "image": "main"}]}});
    merge(&mut pod["spec"], spec);
    pod
}

#[tokio::test]
async fn a_pod_gets_the_token_of_its_service_account() {
    let path = "/var/run/secrets/kubernetes.io/serviceaccount";
    let mounted = json!({"volumes": [{"name": "v"}], "containers": [
        {"name": "main", "image": "main", "volumeMounts": [{"name": "v", "mountPath": path}]},
        {"name": "other", "image": "main"}], "initContainers": [{"name": "i", "image": "i"}]});
    let mut mirror = pod("mirror", json!({"nodeName": "n"}));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let mut naming = mirror.clone();
    naming["spec"]["serviceAccountName"] = "default".into();
    Scenario::new("a_pod_gets_the_token_of_its_service_account")
        .step(post(PODS, pod("a", json!({}))).expect(201))
        .step(post(PODS, pod("b", mounted)).expect(201))
        .step(post(PODS, pod("c", json!({"automountServiceAccountToken": false}))).expect(201))
        .step(
            post(PODS, pod("d", json!({"serviceAccountName": "other"}))).refused(403, "Forbidden"),
        )
        .step(
            post(
                ACCOUNTS,
                json!({"metadata": {"name": "other"}, "automountServiceAccountToken": false,
            "imagePullSecrets": [{"name": "s"}]}),
            )
            .preparation(),
        )
        .step(post(PODS, pod("d", json!({"serviceAccountName": "other"}))).expect(201))
        .step(
            post(
                PODS,
                pod(
                    "e",
                    json!({"serviceAccount": "other", "automountServiceAccountToken": true,
            "imagePullSecrets": [{"name": "own"}]}),
                ),
            )
            .expect(201),
        )
        .step(post(PODS, mirror).expect(201))
        .step(post(PODS, naming).refused(403, "Forbidden"))
        .run()
        .await;
}

#[tokio::test]
async fn a_pod_gets_the_number_of_its_priority_class() {
    let class = |name: &str, body: Value| {
        let mut class = json!({"metadata": {"name": name}, "value": 7});
        merge(&mut class, body);
        post(CLASSES, class)
    };
    // kube-apiserver's admission looks at classes through a watch, which lags.
    let noticed = |spec: Value, priority: i64| {
        let probe = post(PODS, pod("probe", spec)).query("dryRun", "All");
        probe.expect(201).with("/spec/priority", priority).awaited().preparation()
    };
    Scenario::new("a_pod_gets_the_number_of_its_priority_class")
        .exclusive()
        .step(post(PODS, pod("none", json!({}))).expect(201))
        .step(class("high", json!({"value": 1000, "preemptionPolicy": "Never"})).preparation())
        .step(noticed(json!({"priorityClassName": "high"}), 1000))
        .step(post(PODS, pod("a", json!({"priorityClassName": "high"}))).expect(201))
        .step(post(PODS, pod("b", json!({"priorityClassName": "x"}))).refused(403, "Forbidden"))
        .step(post(PODS, pod("b", json!({"priority": 5}))).refused(403, "Forbidden"))
        .step(post(PODS, pod("b", json!({"priorityClassName": "high", "priority": 1000}))).expect(201))
        .step(post(PODS, pod("c", json!({"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"}))).refused(403, "Forbidden"))
        .step(post(PODS, pod("c", json!({"preemptionPolicy": "Never"}))).refused(403, "Forbidden"))
        .step(post(PODS, pod("c", json!({"priorityClassName": "system-node-critical"}))).expect(201))
        .step(class("default", json!({"globalDefault": true})).preparation())
        .step(noticed(json!({}), 7))
        .step(post(PODS, pod("d", json!({}))).expect(201))
        .run()
        .await;
}

#[tokio::test]
async fn a_pod_in_a_namespace_without_its_account_is_refused() {
    Scenario::new("a_pod_in_a_namespace_without_its_account")
        .step(post("/api/v1/namespaces", json!({"metadata": {"name": "{ns}-x"}})).preparation())
        .step(post("/api/v1/namespaces/{ns}-x/pods", pod("a", json!({}))).refused(403, "Forbidden"))
        .run()
        .await;
}

/// Names are drawn when the plugins have had their say.
#[tokio::test]
async fn a_refusal_names_what_a_drawn_name_begins_with() {
    let nobodys = json!({"serviceAccountName": "nobody"});
    let mut drawn = pod("", nobodys.clone());
    drawn["metadata"] = json!({"generateName": "drawn-"});
    let mut nameless = pod("", nobodys);
    nameless["metadata"] = json!({});
    Scenario::new("a_refusal_names_what_a_drawn_name_begins_with")
        .step(post(PODS, drawn).refused(403, "Forbidden").with("/details/name", "drawn-"))
        .step(post(PODS, nameless).refused(403, "Forbidden").with("/details/name", "Unknown"))
        .run()
        .await;
}
