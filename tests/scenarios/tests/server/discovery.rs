//! How clients find out what is served: discovery in both forms, versions, health, OpenAPI.

use scenarios::Scenario;
use scenarios::backend::{BACKENDS, Backend, Lease, Scope};
use scenarios::client::{Answer, Client};
use scenarios::request::{Request, get};
use serde_json::{Value, json};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json";

/// Every built-in group with its versions.
const GROUPS: &[&str] = &[
    "admissionregistration.k8s.io/v1",
    "apiextensions.k8s.io/v1",
    "apiregistration.k8s.io/v1",
    "apps/v1",
    "authentication.k8s.io/v1",
    "authorization.k8s.io/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "certificates.k8s.io/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "events.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1",
    "networking.k8s.io/v1",
    "node.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "resource.k8s.io/v1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1",
];

/// Parts that drydock does not serve are missing, so elements are compared by name.
fn aggregated(path: &str) -> Request {
    get(path)
        .header("Accept", AGGREGATED)
        .keyed("items", "/metadata/name")
        .keyed("resources", "/resource")
        .keyed("subresources", "/subresource")
        .expect(200)
}

fn resources(path: &str) -> Request {
    get(path).keyed("resources", "/name").expect(200)
}

fn gadgets() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object",
        "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": schema,
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas"}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.discovery.gantry.test"},
        "spec": {
            "group": "discovery.gantry.test",
            "scope": "Cluster",
            "names": {"plural": "gadgets", "kind": "Gadget", "shortNames": ["gd"]},
            "versions": [version("v1beta1", false), version("v1", true), version("v2alpha1", false)],
        },
    })
}

#[tokio::test]
async fn the_groups_are_listed() {
    Scenario::new("the_groups_are_listed")
        .fresh()
        .definition(gadgets())
        .step(get("/api").expect(200))
        .step(get("/apis").expect(200))
        .step(aggregated("/api"))
        .step(aggregated("/apis"))
        .run()
        .await;
}

#[tokio::test]
async fn each_native_group_tells_its_versions_and_resources() {
    let groups = GROUPS.iter().map(|version| {
        let (group, _) = version.split_once('/').unwrap_or_default();
        get(&format!("/apis/{group}")).expect(200)
    });
    let versions = GROUPS.iter().map(|version| resources(&format!("/apis/{version}")));
    Scenario::new("each_native_group_tells_its_versions_and_resources")
        .step(resources("/api/v1"))
        .steps(groups)
        .steps(versions)
        .run()
        .await;
}

#[tokio::test]
async fn a_custom_group_tells_its_versions_and_resources() {
    Scenario::new("a_custom_group_tells_its_versions_and_resources")
        .definition(gadgets())
        .step(get("/apis/discovery.gantry.test").expect(200))
        .step(get("/apis/discovery.gantry.test/v1").expect(200))
        .step(get("/apis/discovery.gantry.test/v1beta1").expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn what_is_not_served_is_not_found() {
    let paths = [
        "/nothing",
        "/apis/nothing.test",
        "/apis/nothing.test/v1",
        "/apis/nothing.test/v1/things",
        "/apis/apps/v7",
        "/apis/apps/v7/deployments",
        "/apis/apps/v1/things",
        "/apis/apps/v1/deployments/a",
        "/api/v7",
        "/api/v7/pods",
        "/api/v1/things",
        "/api/v1/namespaces/{ns}/configmaps/a/b/c",
        "/apis/discovery.gantry.test/v7",
        "/apis/discovery.gantry.test/v1/things",
        "/apis/discovery.gantry.test/v7/gadgets",
        "/apis/discovery.gantry.test/v1/namespaces/{ns}/gadgets",
        "/apis/discovery.gantry.test/v1/gadgets/a/nothing",
        "/healthz/nothing",
    ];
    Scenario::new("what_is_not_served_is_not_found")
        .definition(gadgets())
        .steps(paths.map(|path| get(path).expect(404)))
        .run()
        .await;
}

#[tokio::test]
async fn version_and_health_are_told() {
    Scenario::new("version_and_health_are_told")
        .step(get("/version").expect(200))
        .steps(
            ["/healthz", "/livez", "/readyz", "/healthz/ping", "/livez/etcd", "/readyz/log"]
                .map(|path| get(path).expect(200)),
        )
        .steps(["/livez/nothing", "/readyz/ping/pong"].map(|path| get(path).expect(404)))
        .run()
        .await;
}

/// Which metrics there are is a matter of the server; how they are written is not.
#[tokio::test]
async fn metrics_are_text_that_prometheus_reads() {
    for backend in BACKENDS {
        let lease = Lease::take(*backend, Scope::Namespaced, "metrics").await.unwrap();
        let client = Client::new(&lease.server).unwrap();
        let answer = client.send(&get("/metrics")).await.unwrap();
        assert_eq!(answer.code, 200, "{}", backend.name());
        let media_type = answer.headers["content-type"][0].as_str();
        assert!(
            media_type.starts_with("text/plain; version=0.0.4; charset=utf-8"),
            "{}: {media_type}",
            backend.name()
        );
        let text = answer.body.as_str().unwrap();
        assert!(text.starts_with("# HELP "), "{}", backend.name());
        let is_sample = |line: &str| {
            let value = line.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok());
            line.starts_with('#') || value.is_some()
        };
        assert!(text.lines().all(is_sample), "{}", backend.name());
        lease.give_back().await.unwrap();
    }
}

/// What drydock answers to the administrator.
async fn drydock_says(request: Request) -> Answer {
    let lease = Lease::take(Backend::Drydock, Scope::Namespaced, "drydock").await.unwrap();
    let answer = Client::new(&lease.server).unwrap().send(&request).await.unwrap();
    lease.give_back().await.unwrap();
    answer
}

/// See `openapi-v2` in `docs/COMPATIBILITY.md`.
#[tokio::test]
async fn the_older_openapi_knows_no_kinds() {
    let answer = drydock_says(get("/openapi/v2")).await;
    let info = json!({"title": "Kubernetes", "version": "1.35"});
    let empty = json!({"swagger": "2.0", "info": info, "paths": {}});
    assert_eq!((answer.code, answer.body), (200, empty));
}

/// See `health-details` in `docs/COMPATIBILITY.md`.
#[tokio::test]
async fn health_tells_of_few_parts() {
    let answer = drydock_says(get("/readyz").query("verbose", "")).await;
    let parts = "[+]ping ok\n[+]log ok\n[+]etcd ok\nreadyz check passed\n";
    assert_eq!((answer.code, answer.body), (200, json!(parts)));
}
