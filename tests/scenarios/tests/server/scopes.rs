//! The three scopes a scenario can have, and that each keeps its promise.

use scenarios::Scenario;
use scenarios::backend::{Backend, Lease, Scope};
use scenarios::client::Client;
use scenarios::request::{delete, get, post, watch};
use serde_json::json;

#[tokio::test]
async fn a_namespaced_scenario_sees_only_its_own_objects() {
    let path = "/api/v1/namespaces/{ns}/configmaps";
    Scenario::new("a_namespaced_scenario_sees_only_its_own_objects")
        .step(get(path).expect(200).with("/items", json!([])))
        .step(
            post(path, json!({"metadata": {"name": "a"}}))
                .expect(201)
                .capture("rv", "/metadata/resourceVersion"),
        )
        .step(delete(&format!("{path}/a")).expect(200))
        .step(
            watch(path, 1).query("resourceVersion", "{rv}").expect(200).with("/0/type", "DELETED"),
        )
        .run()
        .await;
}

#[tokio::test]
async fn an_exclusive_scenario_leaves_no_node_behind() {
    Scenario::new("an_exclusive_scenario_leaves_no_node_behind")
        .exclusive()
        .step(get("/api/v1/nodes").expect(200).with("/items", json!([])))
        .step(post("/api/v1/nodes", json!({"metadata": {"name": "left-behind"}})).expect(201))
        .run()
        .await;
    let lease = Lease::take(Backend::KubeApiServer, Scope::Exclusive, "looks").await.unwrap();
    let client = Client::new(&lease.server).unwrap();
    let nodes = client.send(&get("/api/v1/nodes")).await.unwrap();
    assert_eq!(nodes.body["items"], json!([]));
    lease.give_back().await.unwrap();
}

#[tokio::test]
async fn a_fresh_server_has_only_the_namespaces_every_cluster_has() {
    let lease = Lease::take(Backend::KubeApiServer, Scope::Fresh, "").await.unwrap();
    let client = Client::new(&lease.server).unwrap();
    let answer = client.send(&get("/api/v1/namespaces")).await.unwrap();
    let items = answer.body["items"].as_array().unwrap();
    let names: Vec<_> =
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
}
