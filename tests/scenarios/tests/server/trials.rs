//! Many small bodies of one kind: each is created, and what comes of it compared.

use scenarios::Scenario;
use scenarios::request::{PatchType, Request, patch, post};
use serde_json::{Value, json};

/// Creates each body under a name of its own, unless it brings one.
pub async fn creations(scenario: &str, path: &str, bodies: Vec<Value>) {
    let steps = bodies.into_iter().enumerate().map(|(index, mut body)| {
        if body["metadata"]["name"].is_null() {
            let prefix = if path.contains("{ns}") { "" } else { "{ns}." };
            body["metadata"]["name"] = format!("{prefix}n{index}").into();
        }
        post(path, body)
    });
    Scenario::new(scenario).steps(steps).run().await;
}

/// Creates one object and applies merge patches to it, one after the other. A patch whose
/// only member is `status` goes to the status.
pub async fn changes(scenario: &str, path: &str, mut body: Value, patches: Vec<Value>) {
    let name = if path.contains("{ns}") { "a" } else { "{ns}.a" };
    body["metadata"]["name"] = name.into();
    let steps = patches.into_iter().map(|change| changed(&format!("{path}/{name}"), change));
    Scenario::new(scenario).step(post(path, body).expect(201)).steps(steps).run().await;
}

fn changed(object: &str, change: Value) -> Request {
    let is_status =
        change.as_object().is_some_and(|all| all.len() == 1 && all.contains_key("status"));
    let path = if is_status { format!("{object}/status") } else { object.to_owned() };
    patch(&path, PatchType::Merge, change)
}

/// A template of pods with one container and the label `app: a`.
pub fn template(restart_policy: &str) -> Value {
    let mut template = json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "busybox:1"}]},
    });
    if !restart_policy.is_empty() {
        template["spec"]["restartPolicy"] = restart_policy.into();
    }
    template
}

/// The selector of such pods.
pub fn selector() -> Value {
    json!({"matchLabels": {"app": "a"}})
}

/// The object with the members of `change` in place of its own.
pub fn with(mut object: Value, change: Value) -> Value {
    for (key, value) in change.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}
