//! The life of a CustomResourceDefinition and of its objects.

use scenarios::Scenario;
use scenarios::backend::{Backend, Lease, Scope};
use scenarios::client::Client;
use scenarios::request::{PatchType, Request, delete, get, patch, post, put};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition whose spec is changed by `change`.
fn definition(name: &str, change: impl Fn(&mut Value)) -> Value {
    let (plural, group) = name.split_once('.').unwrap_or_default();
    let kind = format!("K{}", plural.trim_end_matches('s'));
    let mut spec = json!({
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": plural, "kind": kind},
        "versions": [version("v1", true)],
    });
    change(&mut spec);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": spec,
    })
}

fn version(name: &str, is_stored: bool) -> Value {
    json!({"name": name, "served": true, "storage": is_stored, "schema": {"openAPIV3Schema": {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer"}, "replicas": {"type": "integer"},
                "note": {"type": "string", "default": "none"},
                "parts": {"type": "array", "items": {"type": "object",
                    "properties": {"name": {"type": "string"}}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }},
            "status": {"type": "object", "properties": {
                "replicas": {"type": "integer"}, "selector": {"type": "string"},
            }},
        },
    }}})
}

fn object_of(name: &str) -> String {
    format!("{DEFINITIONS}/{name}")
}

/// The definition, its conditions by type: controllers set them in no order.
fn shown(name: &str) -> Request {
    get(&object_of(name)).keyed("conditions", "/type")
}

/// A dry run of a definition that is refused.
fn refused(definition: Value) -> Request {
    post(DEFINITIONS, definition).query("dryRun", "All").refused(422, "Invalid")
}

#[tokio::test]
async fn a_definition_is_defaulted() {
    let name = "things.defaulted.gantry.test";
    Scenario::new("a_definition_is_defaulted")
        .step(post(DEFINITIONS, definition(name, |_| {})).query("dryRun", "All").expect(201))
        .run()
        .await;
}

#[tokio::test]
async fn a_definition_is_established() {
    let name = "things.established.gantry.test";
    Scenario::new("a_definition_is_established")
        .definition(definition(name, |spec| {
            spec["names"]["shortNames"] = json!(["est"]);
            spec["names"]["categories"] = json!(["all"]);
        }))
        .step(shown(name).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_definition_in_a_protected_group_tells_its_approval() {
    let approved = |name: &str, value: &str| {
        let mut definition = definition(name, |_| {});
        definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": value});
        definition
    };
    let name = "things.approved.gantry.test.k8s.io";
    // Three controllers write one condition each, in whatever order.
    let told = (0..3).fold(shown(name), |told, index| {
        told.with(&format!("/status/conditions/{index}/status"), "True")
    });
    let scenario = Scenario::new("a_definition_in_a_protected_group_tells_its_approval")
        .definition(approved(name, "https://example.test/1"))
        .step(told.awaited().keyed("conditions", "/type").expect(200));
    let name = "things.wrong.k8s.io";
    scenario.step(refused(approved(name, "because"))).step(refused(approved(name, ""))).run().await;
}

#[tokio::test]
async fn a_name_that_is_taken_is_not_accepted() {
    let first = definition("firsts.taken.gantry.test", |spec| {
        spec["names"]["shortNames"] = json!(["fi"]);
    });
    let kind = definition("seconds.taken.gantry.test", |spec| {
        spec["names"]["kind"] = json!("Kfirst");
    });
    let short = definition("thirds.taken.gantry.test", |spec| {
        spec["names"]["shortNames"] = json!(["th", "fi"]);
    });
    let decided = |name: &str| {
        shown(name).with("/status/conditions/0/type", "NamesAccepted").awaited().expect(200)
    };
    Scenario::new("a_name_that_is_taken_is_not_accepted")
        .fresh()
        .definition(first)
        .step(post(DEFINITIONS, kind).preparation())
        .step(post(DEFINITIONS, short).preparation())
        .step(decided("seconds.taken.gantry.test"))
        .step(decided("thirds.taken.gantry.test"))
        .step(get("/apis/taken.gantry.test/v1/seconds").expect(404))
        .run()
        .await;
}

#[tokio::test]
async fn a_wrong_definition_is_refused() {
    let name = "things.wrong.gantry.test";
    let wrong = |change: &dyn Fn(&mut Value)| refused(definition(name, change));
    let first = |change: &dyn Fn(&mut Value)| wrong(&|spec| change(&mut spec["versions"][0]));
    let mut elsewhere = definition(name, |_| {});
    elsewhere["metadata"]["name"] = json!("other.wrong.gantry.test");
    Scenario::new("a_wrong_definition_is_refused")
        .step(first(&|version| version["schema"] = Value::Null))
        .step(wrong(&|spec| spec["versions"] = json!([])))
        .step(first(&|version| version["name"] = json!("V 1")))
        .step(wrong(&|spec| {
            spec["names"] = json!({"plural": "Things", "kind": "thing-Kind-", "singular": "Bad Name",
                "shortNames": ["UP"], "listKind": "bad-list-", "categories": ["Not One"]});
        }))
        .step(wrong(&|spec| spec["names"] = json!({"plural": "things"})))
        .step(wrong(&|spec| spec["names"] = json!({"kind": "Thing"})))
        .step(wrong(&|spec| spec["names"]["listKind"] = json!("Kthing")))
        .step(refused(elsewhere))
        .step(wrong(&|spec| spec["scope"] = json!("Everywhere")))
        .step(wrong(&|spec| spec["conversion"] = json!({"strategy": "Magic"})))
        .step(wrong(&|spec| {
            spec["preserveUnknownFields"] = json!(true);
            spec["versions"][0]["schema"] = json!({"openAPIV3Schema": {"type": "object"}});
        }))
        .step(refused(definition("things.", |_| {})))
        .step(refused(definition("things.nodot", |_| {})))
        .run()
        .await;
}

/// The message shows the versions in kube-apiserver's own form; see `quoted-versions`.
#[tokio::test]
async fn a_definition_needs_one_storage_version() {
    let wrong = |versions: Value| {
        let name = "things.storage.gantry.test";
        refused(definition(name, |spec| spec["versions"] = versions.clone()))
    };
    Scenario::new("a_definition_needs_one_storage_version")
        .step(wrong(json!([version("v1", true), version("v2", true)])))
        .step(wrong(json!([version("v1", true), version("v1", false)])))
        .step(wrong(json!([version("v1", false)])))
        .run()
        .await;
}

#[tokio::test]
async fn a_definition_with_a_wrong_version_is_refused() {
    let name = "things.versions.gantry.test";
    let first = |change: &dyn Fn(&mut Value)| {
        refused(definition(name, |spec| change(&mut spec["versions"][0])))
    };
    let second = |change: &dyn Fn(&mut Value)| {
        refused(definition(name, |spec| {
            let mut other = version("v2", false);
            change(&mut other);
            spec["versions"] = json!([version("v1", true), other]);
        }))
    };
    let untyped = json!({"type": "object", "properties": {"a": {"properties": {"b": {}}}}});
    let column = json!([{"name": "", "type": "text", "format": "odd", "jsonPath": "spec.a"}]);
    let scale = json!({"scale": {"specReplicasPath": "spec.x", "statusReplicasPath": ".spec.y",
        "labelSelectorPath": ".metadata.z"}});
    Scenario::new("a_definition_with_a_wrong_version_is_refused")
        .step(first(&|version| version["schema"]["openAPIV3Schema"] = untyped.clone()))
        .step(first(&|version| version["schema"]["openAPIV3Schema"] = json!({"type": "string"})))
        .step(first(&|version| version["additionalPrinterColumns"] = column.clone()))
        .step(first(&|version| version["subresources"] = scale.clone()))
        .step(first(&|version| version["subresources"] = json!({"scale": {}})))
        .step(second(&|version| version["schema"]["openAPIV3Schema"] = untyped.clone()))
        .step(second(&|version| version["additionalPrinterColumns"] = column.clone()))
        .step(second(&|version| version["subresources"] = scale.clone()))
        .run()
        .await;
}

/// See `conversion-webhooks` in `docs/COMPATIBILITY.md`.
#[tokio::test]
async fn conversion_by_webhook_is_refused_with_a_message() {
    let lease = Lease::take(Backend::Drydock, Scope::Namespaced, "webhook").await.unwrap();
    let client = Client::new(&lease.server).unwrap();
    let webhook = definition("things.webhook.gantry.test", |spec| {
        spec["conversion"] = json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://example.test/convert"},
        }});
    });
    let answer = client.send(&post(DEFINITIONS, webhook)).await.unwrap();
    assert_eq!(
        answer.body["message"],
        "CustomResourceDefinition.apiextensions.k8s.io \"things.webhook.gantry.test\" is invalid: \
         spec.conversion.strategy: Invalid value: \"Webhook\": conversion by webhook is not served \
         here: use None, or a kube-apiserver"
    );
    lease.give_back().await.unwrap();
}

fn thing(group: &str, version: &str, kind: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": {"name": "a"},
        "spec": spec})
}

#[tokio::test]
async fn an_object_is_pruned_and_defaulted() {
    let group = "pruned.gantry.test";
    let path = format!("/apis/{group}/v1/namespaces/{{ns}}/things");
    let spec = json!({"size": 1, "bogus": 1, "parts": [{"name": "x", "nom": "y"}],
        "free": {"any": {"thing": [1]}}});
    let object = thing(group, "v1", "Kthing", spec);
    Scenario::new("an_object_is_pruned_and_defaulted")
        .definition(definition(&format!("things.{group}"), |_| {}))
        .step(post(&path, object.clone()).expect(201).warned(2))
        .step(get(&format!("{path}/a")).expect(200))
        .step(post(&path, object).query("fieldValidation", "Strict").refused(400, "BadRequest"))
        .run()
        .await;
}

#[tokio::test]
async fn an_object_is_served_in_each_version() {
    let group = "several.gantry.test";
    let path = |version: &str| format!("/apis/{group}/{version}/namespaces/{{ns}}/things");
    let mut old = version("v1beta1", false);
    old["deprecated"] = json!(true);
    let mut hidden = version("v1alpha1", false);
    hidden["served"] = json!(false);
    Scenario::new("an_object_is_served_in_each_version")
        .definition(definition(&format!("things.{group}"), |spec| {
            spec["versions"] = json!([version("v1", true), old, hidden]);
        }))
        .step(post(&path("v1"), thing(group, "v1", "Kthing", json!({"size": 1}))).expect(201))
        .step(get(&format!("{}/a", path("v1beta1"))).expect(200))
        .step(get(&path("v1beta1")).expect(200))
        .step(
            patch(
                &format!("{}/a", path("v1beta1")),
                PatchType::Merge,
                json!({"spec": {"size": 2}}),
            )
            .expect(200),
        )
        .step(get(&format!("{}/a", path("v1"))).expect(200))
        .step(get(&path("v1alpha1")).expect(404))
        .run()
        .await;
}

#[tokio::test]
async fn status_and_scale_are_parts_of_their_own() {
    let group = "parts.gantry.test";
    let path = format!("/apis/{group}/v1/namespaces/{{ns}}/things");
    let a = format!("{path}/a");
    let status = format!("{a}/status");
    let scale = format!("{a}/scale");
    let mut object = thing(group, "v1", "Kthing", json!({"replicas": 2}));
    object["status"] = json!({"replicas": 9});
    Scenario::new("status_and_scale_are_parts_of_their_own")
        .definition(definition(&format!("things.{group}"), |spec| {
            spec["versions"][0]["subresources"] = json!({"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector"}});
        }))
        .step(post(&path, object).expect(201))
        .step(
            patch(
                &status,
                PatchType::Merge,
                json!({"spec": {"replicas": 5}, "metadata": {"labels": {"a": "b"}},
                    "status": {"replicas": 3, "selector": "app=a", "bogus": 1}}),
            )
            .expect(200),
        )
        .step(get(&status).expect(200))
        .step(patch(&a, PatchType::Merge, json!({"status": {"replicas": 7}})).expect(200))
        .step(get(&scale).expect(200))
        .step(patch(&scale, PatchType::Merge, json!({"spec": {"replicas": 4}})).expect(200))
        .step(get(&a).expect(200))
        .step(
            put(
                &scale,
                json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
                "metadata": {"name": "a", "namespace": "{ns}"}, "spec": {"replicas": 6}}),
            )
            .expect(200),
        )
        .step(
            patch(&scale, PatchType::Merge, json!({"spec": {"replicas": -1}}))
                .refused(422, "Invalid"),
        )
        .run()
        .await;
}

#[tokio::test]
async fn the_columns_of_a_definition_are_those_of_its_table() {
    let group = "columns.gantry.test";
    let path = format!("/apis/{group}/v1/namespaces/{{ns}}/things");
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    Scenario::new("the_columns_of_a_definition_are_those_of_its_table")
        .definition(definition(&format!("things.{group}"), |spec| {
            spec["versions"][0]["additionalPrinterColumns"] = json!([
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                {"name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1},
                {"name": "Parts", "type": "string", "jsonPath": ".spec.parts[*].name"},
                {"name": "Absent", "type": "string", "jsonPath": ".spec.absent"},
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            ]);
        }))
        .step(
            post(
                &path,
                thing(
                    group,
                    "v1",
                    "Kthing",
                    json!({"size": 1, "parts": [{"name": "x"}, {"name": "y"}]}),
                ),
            )
            .preparation(),
        )
        .step(get(&path).header("Accept", table).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_deleted_definition_takes_its_objects_along() {
    let group = "ending.gantry.test";
    let name = format!("things.{group}");
    let path = format!("/apis/{group}/v1/namespaces/{{ns}}/things");
    let mut held = thing(group, "v1", "Kthing", json!({"size": 1}));
    held["metadata"]["finalizers"] = json!(["gantry.test/hold"]);
    let mut free = thing(group, "v1", "Kthing", json!({"size": 1}));
    free["metadata"]["name"] = json!("b");
    Scenario::new("a_deleted_definition_takes_its_objects_along")
        .fresh()
        .definition(definition(&name, |_| {}))
        .step(post(&path, held.clone()).preparation())
        .step(post(&path, free.clone()).preparation())
        .step(delete(&object_of(&name)).expect(200).keyed("conditions", "/type"))
        .step(get(&format!("{path}/b")).expect(404).awaited())
        .step(get(&format!("{path}/a")).expect(200))
        .step(shown(&name).expect(200))
        .step(post(&path, free).refused(403, "Forbidden"))
        .step(
            patch(
                &format!("{path}/a"),
                PatchType::Merge,
                json!({"metadata": {"finalizers": null}}),
            )
            .expect(200),
        )
        .step(get(&object_of(&name)).expect(404).awaited())
        .step(get(&path).expect(404).awaited())
        .run()
        .await;
}

#[tokio::test]
async fn what_defines_the_resource_may_not_change() {
    let name = "things.immutable.gantry.test";
    let change = |patched: Value| {
        patch(&object_of(name), PatchType::Merge, json!({"spec": patched})).query("dryRun", "All")
    };
    Scenario::new("what_defines_the_resource_may_not_change")
        .definition(definition(name, |_| {}))
        .step(change(json!({"scope": "Cluster"})).refused(422, "Invalid"))
        .step(change(json!({"group": "other.gantry.test"})).refused(422, "Invalid"))
        .step(change(json!({"names": {"kind": "Other"}})).refused(422, "Invalid"))
        .step(change(json!({"versions": [version("v2", true)]})).refused(422, "Invalid"))
        .step(
            change(json!({"names": {"shortNames": ["im"]}}))
                .expect(200)
                .keyed("conditions", "/type"),
        )
        .run()
        .await;
}

#[tokio::test]
async fn a_rule_pays_for_the_list_it_goes_over_and_not_for_another() {
    let name = "things.ruled.gantry.test";
    let numbers =
        |max: usize| json!({"type": "array", "maxItems": max, "items": {"type": "integer"}});
    let ruled = definition(name, |spec| {
        spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({
            "type": "object",
            "properties": {"few": numbers(100), "many": numbers(5_000)},
            "x-kubernetes-validations": [
                {"rule": "self.few.all(x, self.few.exists_one(y, x == y))"},
                {"rule": "type(self.many) == list"},
            ],
        });
    });
    let create = |name: &str, few: Value| {
        let spec = json!({"few": few, "many": vec![1; 5_000]});
        post(
            "/apis/ruled.gantry.test/v1/namespaces/{ns}/things",
            json!({"apiVersion": "ruled.gantry.test/v1", "kind": "Kthing",
                "metadata": {"name": name}, "spec": spec}),
        )
    };
    Scenario::new("a_rule_pays_for_the_list_it_goes_over_and_not_for_another")
        .definition(ruled)
        .step(create("a", json!([1, 2, 3])).expect(201))
        .step(create("b", json!([1, 2, 1])).refused(422, "Invalid"))
        .run()
        .await;
}
