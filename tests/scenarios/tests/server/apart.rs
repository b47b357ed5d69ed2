//! Differences from kube-apiserver that no comparison of answers shows: each test fails when its
//! difference is gone.

use scenarios::embedded::Embedded;
use scenarios::request::{Request, User, delete, get, post};
use scenarios::{Answer, Client};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// A new server, which ends when this is dropped, and a client of it.
struct Alone {
    client: Client,
    _server: Embedded,
}

impl Alone {
    async fn start() -> Self {
        let server = Embedded::start().await.unwrap();
        Self { client: Client::new(&server.server).unwrap(), _server: server }
    }

    async fn send(&self, request: Request) -> Answer {
        self.client.send(&request).await.unwrap()
    }

    /// What was made at `path` of this.
    async fn made(&self, path: &str, body: Value) -> Answer {
        let answer = self.send(post(path, body)).await;
        assert_eq!(answer.code, 201, "{path}: {:?}", answer.body);
        answer
    }

    /// A pod as it was made, with this spec besides one container.
    async fn pod(&self, spec: Value) -> Answer {
        let account = json!({"metadata": {"name": "default"}});
        self.made("/api/v1/namespaces/default/serviceaccounts", account).await;
        let mut pod = json!({"metadata": {"name": "a"}, "spec": spec});
        pod["spec"]["automountServiceAccountToken"] = false.into();
        if pod["spec"]["containers"].is_null() {
            pod["spec"]["containers"] =
                json!([{"name": "main", "image": "registry.example/main:1"}]);
        }
        self.made(PODS, pod).await
    }

    /// Checks that a config map can be made.
    async fn takes_a_map(&self) {
        self.made(MAPS, json!({"metadata": {"name": "a"}})).await;
    }

    async fn listed(&self, path: &str) -> usize {
        let answer = self.send(get(path)).await;
        assert_eq!(answer.code, 200, "{path}: {:?}", answer.body);
        answer.body["items"].as_array().unwrap().len()
    }
}

#[tokio::test]
async fn a_quota_is_stored_and_not_obeyed() {
    let server = Alone::start().await;
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"count/configmaps": "0"}}});
    server.made("/api/v1/namespaces/default/resourcequotas", quota).await;
    server.takes_a_map().await;
}

#[tokio::test]
async fn a_pod_security_standard_is_stored_and_not_obeyed() {
    let server = Alone::start().await;
    let labels = json!({"metadata": {"labels": {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }}});
    let dialect = scenarios::request::PatchType::Merge;
    let labelled = scenarios::request::patch("/api/v1/namespaces/default", dialect, labels);
    assert_eq!(server.send(labelled).await.code, 200);
    let pod = server.pod(json!({"hostNetwork": true, "containers": [{
        "name": "main", "image": "registry.example/main:1", "securityContext": {"privileged": true}}]}));
    let pod = pod.await;
    assert_eq!(pod.headers.get("warning"), None);
}

#[tokio::test]
async fn a_runtime_class_is_stored_and_not_obeyed() {
    let server = Alone::start().await;
    let class = json!({"metadata": {"name": "known"}, "handler": "h",
        "overhead": {"podFixed": {"cpu": "1"}}, "scheduling": {"nodeSelector": {"a": "b"}}});
    server.made("/apis/node.k8s.io/v1/runtimeclasses", class).await;
    let pod = server.pod(json!({"runtimeClassName": "known"})).await;
    assert_eq!(pod.body["spec"]["overhead"], Value::Null);
    assert_eq!(pod.body["spec"]["nodeSelector"], Value::Null);
    let mut unknown = json!({"metadata": {"name": "b"}, "spec": pod.body["spec"]});
    unknown["spec"]["runtimeClassName"] = "unknown".into();
    server.made(PODS, unknown).await;
}

#[tokio::test]
async fn an_admission_policy_is_stored_and_not_obeyed() {
    let server = Alone::start().await;
    let every = json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
        "operations": ["CREATE"], "resources": ["configmaps"]}]});
    let policy = json!({"metadata": {"name": "never"}, "spec": {
        "failurePolicy": "Fail", "matchConstraints": every, "validations": [{"expression": "false"}]}});
    server.made(&format!("{ADMISSION}/validatingadmissionpolicies"), policy).await;
    let binding = json!({"metadata": {"name": "never"},
        "spec": {"policyName": "never", "validationActions": ["Deny"]}});
    server.made(&format!("{ADMISSION}/validatingadmissionpolicybindings"), binding).await;
    server.takes_a_map().await;
}

#[tokio::test]
async fn webhooks_are_stored_and_not_called() {
    for resource in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        let server = Alone::start().await;
        let configuration = json!({"metadata": {"name": "deaf"}, "webhooks": [{
            "name": "deaf.gantry.test", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"]}],
        }]});
        server.made(&format!("{ADMISSION}/{resource}"), configuration).await;
        server.takes_a_map().await;
    }
}

#[tokio::test]
async fn a_default_ingress_class_is_stored_and_not_obeyed() {
    let server = Alone::start().await;
    let annotations = json!({"ingressclass.kubernetes.io/is-default-class": "true"});
    let class = json!({"metadata": {"name": "usual", "annotations": annotations},
        "spec": {"controller": "gantry.test/none"}});
    server.made("/apis/networking.k8s.io/v1/ingressclasses", class).await;
    let backend = json!({"service": {"name": "a", "port": {"number": 80}}});
    let ingress = json!({"metadata": {"name": "a"}, "spec": {"defaultBackend": backend}});
    let made =
        server.made("/apis/networking.k8s.io/v1/namespaces/default/ingresses", ingress).await;
    assert_eq!(made.body["spec"]["ingressClassName"], Value::Null);
}

#[tokio::test]
async fn a_request_for_a_certificate_is_stored_and_not_judged() {
    let server = Alone::start().await;
    // It asks for nothing that could be read, and kube-apiserver would say so.
    let request = json!({"metadata": {"name": "a"}, "spec": {
        "request": "AAAA", "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"]}});
    server.made("/apis/certificates.k8s.io/v1/certificatesigningrequests", request).await;
}

#[tokio::test]
async fn a_flow_schema_is_stored_and_not_obeyed() {
    let server = Alone::start().await;
    let flows = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let level = json!({"metadata": {"name": "none"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
        "limitResponse": {"type": "Reject"}}}});
    server.made(&format!("{flows}/prioritylevelconfigurations"), level).await;
    let subjects = json!([{"kind": "User", "user": {"name": "outsider"}}]);
    let rules = json!([{"subjects": subjects, "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"],
        "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}]}]);
    let schema = json!({"metadata": {"name": "none"}, "spec": {"matchingPrecedence": 1,
        "priorityLevelConfiguration": {"name": "none"}, "rules": rules}});
    server.made(&format!("{flows}/flowschemas"), schema).await;
    assert_eq!(server.send(get(MAPS).by(User::Outsider)).await.code, 200);
}

#[tokio::test]
async fn an_api_service_of_another_server_is_stored_and_not_called() {
    let server = Alone::start().await;
    let service = json!({"metadata": {"name": "v1.other.gantry.test"}, "spec": {
        "group": "other.gantry.test", "version": "v1", "groupPriorityMinimum": 100,
        "versionPriority": 100, "insecureSkipTLSVerify": true,
        "service": {"namespace": "default", "name": "other"}}});
    server.made("/apis/apiregistration.k8s.io/v1/apiservices", service).await;
    let answer = server.send(get("/apis/other.gantry.test/v1")).await;
    assert_eq!(answer.code, 404, "kube-apiserver says 503: it cannot reach the other");
}

#[tokio::test]
async fn addresses_of_services_are_no_objects() {
    let server = Alone::start().await;
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    let made = server.made("/api/v1/namespaces/default/services", service).await;
    assert!(made.body["spec"]["clusterIP"].is_string(), "{:?}", made.body);
    assert_eq!(server.listed("/apis/networking.k8s.io/v1/ipaddresses").await, 0);
    let range = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.250.0.0/24"]}});
    let made = server.made("/apis/networking.k8s.io/v1/servicecidrs", range).await;
    assert_eq!(made.body["status"]["conditions"], Value::Null, "it is not taken into use");
}

#[tokio::test]
async fn a_definition_is_not_refused_for_what_its_rules_may_cost() {
    let server = Alone::start().await;
    let rule = "self.all(a, self.all(b, self.all(c, a != b || b != c)))";
    let definition = json!({
        "metadata": {"name": "costly.test.gantry.dev"},
        "spec": {
            "group": "test.gantry.dev", "scope": "Cluster",
            "names": {"plural": "costly", "kind": "Costly"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "array", "items": {"type": "string"},
                    "x-kubernetes-validations": [{"rule": rule}]}}}}}],
        },
    });
    server.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
}

#[tokio::test]
async fn a_new_server_has_no_roles_and_no_flow_schemas() {
    let server = Alone::start().await;
    for path in [
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/rbac.authorization.k8s.io/v1/roles",
        "/apis/rbac.authorization.k8s.io/v1/rolebindings",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
        "/apis/networking.k8s.io/v1/servicecidrs",
        "/apis/networking.k8s.io/v1/ipaddresses",
        "/apis/coordination.k8s.io/v1/leases",
        "/api/v1/configmaps",
    ] {
        assert_eq!(server.listed(path).await, 0, "{path}");
    }
    assert!(server.listed("/api/v1/namespaces").await > 0);
}

#[tokio::test]
async fn a_first_object_that_is_deleted_stays_away() {
    let server = Alone::start().await;
    for path in [
        "/api/v1/namespaces/default/services/kubernetes",
        "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
    ] {
        let gone = server.send(delete(path)).await;
        assert_eq!(gone.code, 200, "{path}: {:?}", gone.body);
        assert_eq!(server.send(get(path)).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn the_fields_of_built_in_kinds_have_no_descriptions() {
    let server = Alone::start().await;
    let index = server.send(get("/openapi/v3")).await;
    let groups: Vec<&String> = index.body["paths"].as_object().unwrap().keys().collect();
    let mut fields = 0;
    for group in groups.into_iter().filter(|group| group.starts_with("api")) {
        let answer = server.send(get(&format!("/openapi/v3/{group}"))).await;
        let Some(schemas) = answer.body["components"]["schemas"].as_object() else { continue };
        for (name, schema) in schemas {
            let properties = schema["properties"].as_object().into_iter().flatten();
            for (field, property) in properties {
                assert_eq!(property["description"], Value::Null, "{name}.{field}");
                fields += 1;
            }
        }
    }
    assert!(fields > 1_000, "{fields} fields were looked at");
}
