//! Differences from kube-apiserver that no comparison of answers shows: each test fails when its
//! difference is gone.

use scenarios::Client;
use scenarios::embedded::Embedded;
use scenarios::request::{get, post};
use serde_json::{Value, json};

async fn listed(client: &Client, path: &str) -> usize {
    let answer = client.send(&get(path)).await.unwrap();
    assert_eq!(answer.code, 200, "{path}: {:?}", answer.body);
    answer.body["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_quota_is_stored_and_not_obeyed() {
    let server = Embedded::start().await.unwrap();
    let client = Client::new(&server.server).unwrap();
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"count/configmaps": "0"}}});
    let path = "/api/v1/namespaces/default/resourcequotas";
    assert_eq!(client.send(&post(path, quota)).await.unwrap().code, 201);
    let map = json!({"metadata": {"name": "a"}});
    let path = "/api/v1/namespaces/default/configmaps";
    assert_eq!(client.send(&post(path, map)).await.unwrap().code, 201);
}

#[tokio::test]
async fn a_new_server_has_no_roles_and_no_flow_schemas() {
    let server = Embedded::start().await.unwrap();
    let client = Client::new(&server.server).unwrap();
    for path in [
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
        "/apis/networking.k8s.io/v1/servicecidrs",
    ] {
        assert_eq!(listed(&client, path).await, 0, "{path}");
    }
    assert!(listed(&client, "/api/v1/namespaces").await > 0);
}

#[tokio::test]
async fn the_fields_of_built_in_kinds_have_no_descriptions() {
    let server = Embedded::start().await.unwrap();
    let client = Client::new(&server.server).unwrap();
    let answer = client.send(&get("/openapi/v3/api/v1")).await.unwrap();
    let pod = &answer.body["components"]["schemas"]["io.k8s.api.core.v1.Pod"];
    assert!(pod["properties"]["spec"].is_object(), "{pod}");
    assert_eq!(pod["properties"]["spec"]["description"], Value::Null);
}
