//! Templates of pods as objects of their own.

use scenarios::Scenario;
use scenarios::request::PatchType::Merge;
use scenarios::request::{get, patch, post};
use serde_json::{Value, json};

const TEMPLATES: &str = "/api/v1/namespaces/{ns}/podtemplates";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn template(name: &str, spec: Value) -> Value {
    let mut template = json!({"metadata": {"name": name}, "template": {
        "metadata": {"labels": {"b": "c", "a": "b"}},
        "spec": {"containers": [{"name": "main", "image": "main"}]}}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        template["template"]["spec"][key] = value.clone();
    }
    template
}

#[tokio::test]
async fn a_template_is_completed_less_than_a_pod() {
    let limited = json!({"containers": [{"name": "main", "image": "main:1",
        "resources": {"limits": {"cpu": 1}}, "ports": [{"containerPort": 80}]}],
        "hostNetwork": true, "terminationGracePeriodSeconds": -1});
    Scenario::new("a_template_is_completed_less_than_a_pod")
        .step(post(TEMPLATES, template("a", json!({}))).expect(201))
        .step(post(TEMPLATES, template("b", limited)).expect(201))
        .step(get(TEMPLATES).header("Accept", TABLE).expect(200))
        .step(
            patch(
                &format!("{TEMPLATES}/a"),
                Merge,
                json!({"template": {"spec": {"nodeSelector": {"a": "b"}}}}),
            )
            .expect(200),
        )
        .run()
        .await;
}

#[tokio::test]
async fn a_wrong_template_is_refused() {
    let mut labelled = template("a", json!({}));
    labelled["template"]["metadata"] =
        json!({"labels": {"a b": "c"}, "annotations": {"kubernetes.io/config.mirror": "x"}});
    let refused = |body: Value| post(TEMPLATES, body).refused(422, "Invalid");
    Scenario::new("a_wrong_template_is_refused")
        .step(refused(template("a", json!({"containers": []}))))
        .step(refused(template("a", json!({"restartPolicy": "x", "volumes": [{"name": "A"}]}))))
        .step(refused(template("a", json!({"ephemeralContainers": [{"name": "e", "image": "e"}]}))))
        .step(refused(labelled))
        .step(post(TEMPLATES, template("b", json!({"containers": [{"name": "m", "image": " m"}]}))))
        .run()
        .await;
}
