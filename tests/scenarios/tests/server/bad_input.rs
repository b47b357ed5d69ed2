//! Hostile clients: each gets one clear answer, and the server goes on.

use scenarios::embedded::Embedded;
use scenarios::request::{Request, User, delete, get, patch, post};
use scenarios::{Answer, Client};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server that must still answer after `request`, and what it answered.
async fn answer(request: Request) -> Answer {
    let server = Embedded::start().await.unwrap();
    let client = Client::new(&server.server).unwrap();
    let map = json!({"metadata": {"name": "there"}});
    assert_eq!(client.send(&post(MAPS, map)).await.unwrap().code, 201);
    let answer = client.send(&request).await.unwrap();
    assert_eq!(client.send(&get(MAPS)).await.unwrap().code, 200, "the server goes on");
    answer
}

async fn check(request: Request, code: u16, part: &str) {
    let answer = answer(request).await;
    let message = answer.body["message"].as_str().unwrap_or_default().to_owned();
    assert_eq!(answer.code, code, "{message}");
    assert!(message.contains(part), "{message:?} does not say {part:?}");
}

#[tokio::test]
async fn a_client_without_credentials_is_refused() {
    check(get(MAPS).by(User::Anonymous), 401, "Unauthorized").await;
    check(get("/healthz").by(User::Anonymous), 401, "Unauthorized").await;
}

#[tokio::test]
async fn a_body_of_100_mib_is_refused() {
    let body = vec![b' '; 100 * 1024 * 1024];
    check(post(MAPS, json!(null)).raw("application/json", body), 413, "limit is 3145728").await;
}

#[tokio::test]
async fn a_patch_that_nests_a_million_deep_is_refused() {
    let deep = [r#"{"a":"#.repeat(1_000_000), "1".to_owned(), "}".repeat(1_000_000)].concat();
    for media_type in ["merge-patch", "strategic-merge-patch", "json-patch"] {
        let request =
            patch(&format!("{MAPS}/there"), scenarios::request::PatchType::Merge, json!(null));
        let media_type = format!("application/{media_type}+json");
        // Three million bytes fit, so it is the depth that is refused.
        let shallow = deep[..2_500_000].to_owned();
        check(request.raw(&media_type, shallow), 400, "at most 100 deep").await;
    }
}

#[tokio::test]
async fn malformed_bodies_are_refused() {
    let raw = |media_type: &str, body: &'static str| post(MAPS, json!(null)).raw(media_type, body);
    check(raw("application/yaml", "a: [1, 2"), 400, "YAML").await;
    check(raw("application/yaml", "a: &a [*a]"), 400, "").await;
    check(raw("application/json", "{\"metadata\": {\"name\": \"\\ud800\"}}"), 422, "metadata.name")
        .await;
    check(raw("application/vnd.kubernetes.protobuf", "k8s"), 400, "protobuf").await;
}

#[tokio::test]
async fn who_wants_to_be_somebody_else_is_refused() {
    check(get(MAPS).header("Impersonate-User", "nobody"), 403, "impersonate-user").await;
}

const LOOSE: &str = "/apis/test.gantry.dev/v1/loose";

/// A server with a kind that takes anything.
async fn loose() -> (Embedded, Client) {
    let server = Embedded::start().await.unwrap();
    let client = Client::new(&server.server).unwrap();
    let definition = json!({
        "metadata": {"name": "loose.test.gantry.dev"},
        "spec": {
            "group": "test.gantry.dev", "scope": "Cluster",
            "names": {"plural": "loose", "kind": "Loose"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.send(&post(path, definition)).await.unwrap().code, 201);
    (server, client)
}

fn nested(levels: usize) -> Value {
    let deep = (0..levels).fold(json!("here"), |inner, _| json!({"a": inner}));
    json!({"apiVersion": "test.gantry.dev/v1", "kind": "Loose", "metadata": {"name": "deep"}, "b": deep})
}

#[tokio::test]
async fn what_is_stored_can_be_read_however_deep_it_nests() {
    let (_server, client) = loose().await;
    let refused = client.send(&post(LOOSE, nested(100))).await.unwrap();
    assert_eq!(refused.code, 400, "{:?}", refused.body);
    assert_eq!(client.send(&post(LOOSE, nested(98))).await.unwrap().code, 201);
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let one = format!("{LOOSE}/deep");
    for request in [
        get(LOOSE),
        get(LOOSE).header("Accept", table),
        get(&one),
        patch(&one, scenarios::request::PatchType::Merge, json!({"c": 1})),
        delete(&one),
    ] {
        let answer = client.send(&request).await.unwrap();
        assert_eq!(answer.code, 200, "{:?}", answer.body);
    }
}

#[tokio::test]
async fn an_object_that_grew_too_large_is_refused() {
    let (_server, client) = loose().await;
    let text = "x".repeat(1_000_000);
    let mut object = nested(1);
    object["one"] = text.clone().into();
    assert_eq!(client.send(&post(LOOSE, object)).await.unwrap().code, 201);
    let more =
        patch(&format!("{LOOSE}/deep"), scenarios::request::PatchType::Merge, json!({"two": text}));
    let refused = client.send(&more).await.unwrap();
    assert_eq!(refused.code, 413);
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains("at most 1572864 are stored"), "{message}");
}

#[tokio::test]
async fn server_side_apply_is_refused_as_what_it_is() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "there"}});
    for path in
        [format!("{MAPS}/there"), "/apis/apps/v1/namespaces/default/deployments/a/scale".into()]
    {
        let request = patch(&path, scenarios::request::PatchType::Merge, json!(null))
            .raw("application/apply-patch+yaml", map.to_string())
            .query("fieldManager", "kubectl")
            .query("force", "false");
        check(request, 415, "apply without --server-side").await;
    }
}
