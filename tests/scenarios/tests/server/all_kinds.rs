//! The life of an object of each native kind, from one table of small bodies.
//!
//! Pods, nodes and namespaces have scenarios of their own, and kinds that act on the server
//! itself (such as API services and admission policies) are left alone.

use scenarios::Scenario;
use scenarios::request::{PatchType, Request, delete, get, patch, post, put};
use serde::Deserialize;
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

#[derive(Deserialize, Clone)]
struct Sample {
    path: String,
    body: Value,
}

impl Sample {
    /// What the kind is called in the name of its scenario.
    fn name(&self) -> String {
        let parts: Vec<&str> = self.path.split('/').filter(|part| *part != "{ns}").collect();
        parts[2..].join("_").replace('.', "_")
    }

    fn plural(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    fn is_namespaced(&self) -> bool {
        self.path.contains("{ns}")
    }

    /// The name of an object: cluster-scoped ones are among those of other scenarios.
    fn object_name(&self, stem: &str) -> String {
        if self.is_namespaced() { stem.to_owned() } else { format!("{{ns}}.{stem}") }
    }

    fn object(&self, stem: &str, metadata: Value) -> Value {
        let mut object = self.body.clone();
        object["metadata"] = metadata;
        object["metadata"]["name"] = self.object_name(stem).into();
        object
    }

    fn at(&self, stem: &str) -> String {
        format!("{}/{}", self.path, self.object_name(stem))
    }

    /// The objects of this scenario alone.
    fn collection(&self, request: Request, stem: &str) -> Request {
        let name = self.object_name(stem);
        request.query("fieldSelector", &format!("metadata.name={name}"))
    }
}

fn samples() -> Vec<Sample> {
    serde_json::from_str(include_str!("all_kinds/bodies.json")).expect("the table is JSON")
}

/// Kinds whose objects may be replaced only by somebody who says which revision.
const NEEDS_REVISION: [&str; 9] = [
    "csidrivers",
    "csinodes",
    "csistoragecapacities",
    "leases",
    "mutatingwebhookconfigurations",
    "poddisruptionbudgets",
    "runtimeclasses",
    "validatingwebhookconfigurations",
    "volumeattachments",
];

/// Kinds whose objects the server completes with what must not change afterwards, so that they
/// cannot be replaced by what they were made from.
const COMPLETED: [&str; 1] = ["jobs"];

/// The request, as one that must succeed but for kinds on this list.
fn refused_for(kinds: &[&str], sample: &Sample, request: Request) -> Request {
    match kinds.contains(&sample.plural()) {
        true => request.refused(422, "Invalid"),
        false => request.expect(200),
    }
}

/// Plays a scenario for each sample and reports all failures.
async fn for_each(what: &str, steps: fn(&Sample) -> Vec<Request>) {
    let mut failures = Vec::new();
    for sample in samples() {
        let name = format!("{what}_{}", sample.name());
        let scenario = Scenario::new(&name).steps(steps(&sample));
        if let Err(error) = tokio::spawn(async move { scenario.run().await }).await {
            let panic = error.into_panic();
            failures.push(panic.downcast_ref::<String>().cloned().unwrap_or_default());
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[tokio::test]
async fn an_object_is_created_changed_and_deleted() {
    for_each("life", |sample| {
        let labelled = json!({"labels": {"a": "b"}});
        let versioned =
            json!({"labels": {"a": "c"}, "annotations": {"x": "y"}, "resourceVersion": "{rv}"});
        let unversioned = [&NEEDS_REVISION[..], &COMPLETED].concat();
        vec![
            post(&sample.path, sample.object("a", json!({}))).expect(201),
            post(&sample.path, sample.object("a", json!({}))).refused(409, "AlreadyExists"),
            get(&sample.at("a")).expect(200).capture("rv", "/metadata/resourceVersion"),
            refused_for(&COMPLETED, sample, put(&sample.at("a"), sample.object("a", versioned))),
            refused_for(&unversioned, sample, put(&sample.at("a"), sample.object("a", labelled))),
            patch(
                &sample.at("a"),
                PatchType::Merge,
                json!({"metadata": {"annotations": {"p": "q"}}}),
            )
            .expect(200),
            patch(
                &sample.at("a"),
                PatchType::Strategic,
                json!({"metadata": {"labels": {"s": "t"}}}),
            )
            .expect(200),
            get(&sample.at("a")).expect(200),
            delete(&sample.at("a")).expect(200),
            // What a finalizer holds is let go.
            patch(&sample.at("a"), PatchType::Merge, json!({"metadata": {"finalizers": null}})),
            get(&sample.at("a")).refused(404, "NotFound"),
        ]
    })
    .await;
}

#[tokio::test]
async fn an_object_is_shown_as_a_table() {
    for_each("table", |sample| {
        vec![
            post(&sample.path, sample.object("a", json!({}))).preparation(),
            get(&sample.at("a")).header("Accept", TABLE).expect(200),
            sample.collection(get(&sample.path), "a").header("Accept", TABLE).expect(200),
            delete(&sample.at("a")).query("propagationPolicy", "Background").preparation(),
            patch(&sample.at("a"), PatchType::Merge, json!({"metadata": {"finalizers": null}})),
        ]
    })
    .await;
}

#[tokio::test]
async fn only_some_kinds_are_created_by_an_update() {
    for_each("put", |sample| {
        vec![
            put(&sample.at("new"), sample.object("new", json!({}))),
            sample.collection(delete(&sample.path), "new"),
            sample.collection(get(&sample.path), "new"),
        ]
    })
    .await;
}

#[tokio::test]
async fn a_collection_is_deleted() {
    for_each("collection", |sample| {
        vec![
            post(&sample.path, sample.object("a", json!({}))).preparation(),
            sample.collection(delete(&sample.path), "a").query("dryRun", "All").expect(200),
            sample.collection(delete(&sample.path), "a").expect(200),
            patch(&sample.at("a"), PatchType::Merge, json!({"metadata": {"finalizers": null}})),
            sample.collection(get(&sample.path), "a").expect(200),
        ]
    })
    .await;
}

#[tokio::test]
async fn dependents_are_told_by_finalizers() {
    for_each("propagation", |sample| {
        vec![
            post(&sample.path, sample.object("a", json!({}))).preparation(),
            delete(&sample.at("a")).query("propagationPolicy", "Foreground"),
            patch(&sample.at("a"), PatchType::Merge, json!({"metadata": {"finalizers": null}})),
            post(&sample.path, sample.object("b", json!({}))).preparation(),
            delete(&sample.at("b")).query("propagationPolicy", "Orphan"),
            patch(&sample.at("b"), PatchType::Merge, json!({"metadata": {"finalizers": null}})),
        ]
    })
    .await;
}

#[tokio::test]
async fn a_name_must_follow_the_rule_of_its_kind() {
    for_each("name", |sample| {
        let named = |name: &str| {
            let mut object = sample.object("a", json!({}));
            object["metadata"]["name"] = name.into();
            post(&sample.path, object).query("dryRun", "All")
        };
        vec![named("A_b"), named("a.b"), named("1a"), named("a/b"), named(&"x".repeat(64))]
    })
    .await;
}
