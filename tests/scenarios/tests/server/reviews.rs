//! Questions that are asked by creating an object: who somebody is, and what they may do.

use scenarios::Scenario;
use scenarios::request::{Request, post};
use serde_json::{Value, json};

fn access(resource: &str, spec: Value) -> Request {
    post(&format!("/apis/authorization.k8s.io/v1/{resource}"), json!({"spec": spec}))
}

fn pods(verb: &str) -> Value {
    json!({"namespace": "{ns}", "verb": verb, "resource": "pods"})
}

#[tokio::test]
async fn an_administrator_may_do_everything() {
    let local = "/apis/authorization.k8s.io/v1/namespaces/{ns}/localsubjectaccessreviews";
    let administrator = |attributes: Value| json!({"user": "admin", "groups": ["system:masters"], "resourceAttributes": attributes});
    Scenario::new("an_administrator_may_do_everything")
        .step(
            access("selfsubjectaccessreviews", json!({"resourceAttributes": pods("create")}))
                .expect(201)
                .with("/status/allowed", true),
        )
        .step(
            access(
                "selfsubjectaccessreviews",
                json!({"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}),
            )
            .expect(201)
            .with("/status/allowed", true),
        )
        .step(
            access("subjectaccessreviews", administrator(pods("delete")))
                .expect(201)
                .with("/status/allowed", true),
        )
        .step(
            post(
                local,
                json!({"metadata": {"namespace": "{ns}"}, "spec": administrator(pods("list"))}),
            )
            .expect(201)
            .with("/status/allowed", true),
        )
        .run()
        .await;
}

#[tokio::test]
async fn who_has_no_credentials_may_do_nothing() {
    let stranger = |attributes: &str, value: Value| json!({"user": "system:anonymous", "groups": ["system:unauthenticated"], attributes: value});
    let path = |path: &str| stranger("nonResourceAttributes", json!({"path": path, "verb": "get"}));
    let asked = |spec: Value| {
        access("subjectaccessreviews", spec).expect(201).with("/status/allowed", false)
    };
    Scenario::new("who_has_no_credentials_may_do_nothing")
        .step(asked(stranger("resourceAttributes", pods("list"))))
        .step(asked(path("/metrics")))
        .step(asked(path("/debug/queue")))
        .step(asked(path("/livez/ping")))
        .step(asked(stranger("nonResourceAttributes", json!({"path": "/version", "verb": "post"}))))
        .run()
        .await;
}

#[tokio::test]
async fn a_question_must_be_whole() {
    let both = json!({"resourceAttributes": pods("get"),
        "nonResourceAttributes": {"path": "/", "verb": "get"}});
    Scenario::new("a_question_must_be_whole")
        .step(access("selfsubjectaccessreviews", json!({})))
        .step(access("selfsubjectaccessreviews", both))
        .step(access("subjectaccessreviews", json!({"resourceAttributes": pods("get")})))
        .step(post("/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": {}})))
        .run()
        .await;
}

#[tokio::test]
async fn a_token_nobody_knows_is_nobodys() {
    let review = json!({"spec": {"token": "made-up"}});
    Scenario::new("a_token_nobody_knows_is_nobodys")
        .step(
            post("/apis/authentication.k8s.io/v1/tokenreviews", review)
                .expect(201)
                .with("/status/user", json!({})),
        )
        .run()
        .await;
}

#[tokio::test]
async fn whoever_asks_is_told_who_they_are() {
    Scenario::new("whoever_asks_is_told_who_they_are")
        .step(
            post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({}))
                .expect(201)
                .with("/status/userInfo/username", "admin"),
        )
        .run()
        .await;
}
