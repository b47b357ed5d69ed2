//! Questions that are asked by creating an object. Only the named fields are compared: what else
//! an answer says (reasons, extra attributes of a user) differs with the authorizer.

use scenarios::Scenario;
use scenarios::request::post;
use serde_json::json;

#[tokio::test]
async fn an_administrator_may_do_everything() {
    let attributes = json!({"namespace": "default", "verb": "create", "resource": "pods"});
    let review = json!({"spec": {"resourceAttributes": attributes}});
    Scenario::new("an_administrator_may_do_everything")
        .step(
            post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
                .expect(201)
                .with("/status/allowed", true)
                .preparation(),
        )
        .run()
        .await;
}

#[tokio::test]
async fn a_token_nobody_knows_is_nobodys() {
    Scenario::new("a_token_nobody_knows_is_nobodys")
        .step(
            post(
                "/apis/authentication.k8s.io/v1/tokenreviews",
                json!({"spec": {"token": "made-up"}}),
            )
            .expect(201)
            .with("/status/user", json!({}))
            .preparation(),
        )
        .step(
            post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({}))
                .expect(201)
                .with("/status/userInfo/username", "admin")
                .preparation(),
        )
        .run()
        .await;
}
