//! The objects that a new cluster has.

use scenarios::Scenario;
use scenarios::request::{delete, get, post};
use serde_json::json;

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

#[tokio::test]
async fn the_server_has_a_service() {
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    Scenario::new("the_server_has_a_service")
        .fresh()
        .step(get("/api/v1/namespaces/default/services/kubernetes").expect(200).awaited())
        .step(get("/api/v1/namespaces/default/endpoints/kubernetes").expect(200).awaited())
        .step(get(&format!("{slices}/kubernetes")).expect(200).awaited())
        .run()
        .await;
}

#[tokio::test]
async fn what_is_served_has_an_api_service() {
    let group = "registered.gantry.test";
    let definition = |plural: &str, versions: &[&str]| {
        let version = |name: &&str| {
            json!({"name": name, "served": true, "storage": *name == "v1",
                "schema": {"openAPIV3Schema": {"type": "object"}}})
        };
        let versions: Vec<_> = versions.iter().map(version).collect();
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": "Cluster", "versions": versions,
                "names": {"plural": plural, "kind": format!("K{plural}")}}})
    };
    let of = |version: &str| get(&format!("{API_SERVICES}/{version}.{group}"));
    let available = |version: &str| {
        of(version).with("/status/conditions/0/status", "True").awaited().expect(200)
    };
    let removed = |plural: &str| delete(&format!("{DEFINITIONS}/{plural}.{group}")).preparation();
    Scenario::new("what_is_served_has_an_api_service")
        .fresh()
        .step(get(&format!("{API_SERVICES}/v1.")).expect(200))
        .step(get(API_SERVICES).expect(200))
        .step(get(API_SERVICES).header("Accept", TABLE).expect(200))
        .step(post(DEFINITIONS, definition("ones", &["v1"])).preparation())
        .step(post(DEFINITIONS, definition("twos", &["v1", "v2"])).preparation())
        .step(available("v1"))
        .step(available("v2"))
        .step(removed("twos"))
        .step(of("v2").expect(404).awaited())
        .step(of("v1").expect(200))
        .step(removed("ones"))
        .step(of("v1").expect(404).awaited())
        .run()
        .await;
}
