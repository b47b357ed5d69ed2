//! What a change of a CustomResourceDefinition, or its end, means for what is there.

use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, DynamicObject, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use scenarios::Scenario;
use scenarios::backend::{BACKENDS, Backend, Lease, Scope};
use scenarios::client::Client;
use scenarios::request::{PatchType, Request, delete, get, patch, post, put, watch};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// How long the end of a watch is waited for: kube-apiserver lets requests finish first.
const END_MAX: Duration = Duration::from_secs(30);

/// A definition of `things` in a group, with these versions.
fn definition(group: &str, versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": versions,
        },
    })
}

/// A version whose spec has these fields.
fn version(name: &str, is_stored: bool, fields: Value) -> Value {
    json!({"name": name, "served": true, "storage": is_stored, "schema": {"openAPIV3Schema": {
        "type": "object",
        "properties": {"spec": {"type": "object", "default": {}, "properties": fields}},
    }}})
}

fn text(default: &str) -> Value {
    json!({"type": "string", "default": default})
}

fn thing(group: &str, version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{group}/{version}"), "kind": "Thing",
        "metadata": {"name": name}, "spec": spec})
}

fn things(group: &str, version: &str) -> String {
    format!("/apis/{group}/{version}/namespaces/{{ns}}/things")
}

/// Gives the definition these versions.
fn redefined(group: &str, versions: Value) -> Request {
    let path = format!("{DEFINITIONS}/things.{group}");
    patch(&path, PatchType::Merge, json!({"spec": {"versions": versions}})).preparation()
}

#[tokio::test]
async fn what_is_stored_is_shown_as_the_schema_of_today_wants() {
    let group = "today.gantry.test";
    let (path, a) = (things(group, "v1"), format!("{}/a", things(group, "v1")));
    let first = json!([version("v1", true, json!({"size": {"type": "integer"}}))]);
    let mut second = json!([version("v1", true, json!({"colour": text("red")}))]);
    second[0]["additionalPrinterColumns"] =
        json!([{"name": "Colour", "type": "string", "jsonPath": ".spec.colour"}]);
    second[0]["selectableFields"] = json!([{"jsonPath": ".spec.colour"}]);
    Scenario::new("what_is_stored_is_shown_as_the_schema_of_today_wants")
        .fresh()
        .definition(definition(group, first.clone()))
        .step(post(&path, thing(group, "v1", "a", json!({"size": 1}))).expect(201))
        .step(redefined(group, second))
        .step(get(&a).with("/spec/colour", "red").awaited())
        .step(get(&path).expect(200))
        .step(
            get(&path)
                .query("fieldSelector", "spec.colour=red")
                .with("/items/0/spec/colour", "red"),
        )
        .step(get(&path).query("fieldSelector", "spec.colour=blue").with("/items", json!([])))
        .step(get(&path).header("Accept", TABLE).expect(200))
        .step(get(&path).header("Accept", METADATA).expect(200))
        .step(watch(&path, 1).expect(200).with("/0/object/spec/colour", "red"))
        // Nothing was lost.
        .step(redefined(group, first))
        .step(get(&a).with("/spec", json!({"size": 1})).awaited())
        .step(redefined(group, json!([version("v1", true, json!({"colour": text("blue")}))])))
        .step(get(&a).with("/spec/colour", "blue").awaited())
        .step(patch(&a, PatchType::Merge, json!({"metadata": {"labels": {"a": "b"}}})).expect(200))
        .step(redefined(
            group,
            json!([version(
                "v1",
                true,
                json!({"colour": text("green"), "size": {"type": "integer"}})
            )]),
        ))
        // What was written since is kept as it was written.
        .step(
            post(&path, thing(group, "v1", "b", json!({})))
                .query("dryRun", "All")
                .with("/spec/colour", "green")
                .awaited()
                .preparation(),
        )
        .step(get(&a).with("/spec", json!({"colour": "blue"})))
        .step(delete(&a).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_version_shows_what_its_schema_knows() {
    let group = "known.gantry.test";
    let (one, two) = (things(group, "v1"), things(group, "v2"));
    let at = |path: &str, name: &str| get(&format!("{path}/{name}")).expect(200);
    let (a, b) = (
        json!({"a": text("x"), "both": {"type": "integer"}}),
        json!({"b": text("y"), "both": {"type": "integer"}}),
    );
    let versions = |stored: &str| {
        json!([version("v1", stored == "v1", a.clone()), version("v2", stored == "v2", b.clone())])
    };
    let mut swapped = versions("v2");
    swapped.as_array_mut().unwrap().push(version("v3", false, a.clone()));
    let mut update = thing(group, "v2", "n", json!({"b": "put"}));
    update["metadata"]["resourceVersion"] = "{rv}".into();
    Scenario::new("a_version_shows_what_its_schema_knows")
        .fresh()
        .definition(definition(group, versions("v1")))
        .step(post(&one, thing(group, "v1", "m", json!({"a": "said", "both": 1}))).expect(201))
        .step(at(&one, "m"))
        .step(at(&two, "m"))
        // The version it is stored in does not know this field.
        .step(post(&two, thing(group, "v2", "n", json!({"b": "said", "both": 2}))).expect(201))
        .step(at(&one, "n"))
        .step(at(&two, "n"))
        .step(
            patch(&format!("{two}/n"), PatchType::Merge, json!({"spec": {"both": 3}}))
                .capture("rv", "/metadata/resourceVersion"),
        )
        .step(put(&format!("{two}/n"), update).expect(200))
        .step(
            post(&two, thing(group, "v2", "o", json!({"b": "dry"})))
                .query("dryRun", "All")
                .expect(201),
        )
        .step(get(&one).expect(200))
        .step(get(&two).expect(200))
        .step(get(&two).header("Accept", TABLE).expect(200))
        .step(watch(&one, 2).expect(200))
        .step(watch(&two, 2).expect(200))
        .step(redefined(group, swapped))
        .step(get(&things(group, "v3")).expect(200).awaited())
        .step(get(&one).expect(200))
        .step(get(&two).expect(200))
        .step(
            patch(&format!("{one}/m"), PatchType::Merge, json!({"spec": {"both": 5}})).expect(200),
        )
        .step(get(&one).expect(200))
        .step(get(&two).expect(200))
        .step(delete(&format!("{two}/m")).expect(200))
        .run()
        .await;
}

/// A definition with one version under these names.
fn named(group: &str, plural: &str, names: Value) -> Value {
    let versions = json!([version("v1", true, json!({"size": {"type": "integer"}}))]);
    let mut definition = definition(group, versions);
    definition["metadata"]["name"] = format!("{plural}.{group}").into();
    definition["spec"]["names"] = names;
    definition["spec"]["names"]["plural"] = plural.into();
    definition
}

#[tokio::test]
async fn a_name_that_is_free_again_is_given() {
    let group = "freed.gantry.test";
    let named = |plural: &str, names: Value| named(group, plural, names);
    let path = |plural: &str| format!("{DEFINITIONS}/{plural}.{group}");
    let shown = |plural: &str, pointer: &str, value: &str| {
        get(&path(plural)).with(pointer, value).awaited().keyed("conditions", "/type").expect(200)
    };
    let refused = |plural: &str, reason: &str| shown(plural, "/status/conditions/0/reason", reason);
    let accepted = |plural: &str| {
        shown(plural, "/status/conditions/0/reason", "NoConflicts")
            .with("/status/conditions/1/status", "True")
    };
    let second = named("seconds", json!({"kind": "First", "shortNames": ["s"]}));
    Scenario::new("a_name_that_is_free_again_is_given")
        .fresh()
        .definition(named("firsts", json!({"kind": "First"})))
        .step(post(DEFINITIONS, second).preparation())
        .step(refused("seconds", "ListKindConflict"))
        // Who is refused one name holds the others.
        .step(
            post(DEFINITIONS, named("thirds", json!({"kind": "Third", "shortNames": ["s"]})))
                .preparation(),
        )
        .step(refused("thirds", "ShortNamesConflict"))
        .step(delete(&path("firsts")).preparation())
        .step(accepted("seconds"))
        .step(get(&format!("/apis/{group}/v1/seconds")).expect(200).awaited())
        .step(refused("thirds", "ShortNamesConflict"))
        // A name that is given up is free as well.
        .step(
            patch(
                &path("seconds"),
                PatchType::Merge,
                json!({"spec": {"names": {"shortNames": ["other"]}}}),
            )
            .preparation(),
        )
        .step(accepted("thirds"))
        .step(get(&format!("/apis/{group}/v1/thirds")).expect(200).awaited())
        .run()
        .await;
}

#[tokio::test]
async fn a_definition_that_asks_for_a_taken_name_is_served_under_those_it_has() {
    let group = "kept.gantry.test";
    let named = |plural: &str, names: Value| named(group, plural, names);
    let path = |plural: &str| format!("{DEFINITIONS}/{plural}.{group}");
    let seconds = format!("/apis/{group}/v1/namespaces/{{ns}}/seconds");
    let second = json!({"apiVersion": format!("{group}/v1"), "kind": "Second",
        "metadata": {"name": "a"}, "spec": {"size": 1, "colour": "blue"}});
    let wider =
        json!([version("v1", true, json!({"size": {"type": "integer"}, "colour": text("red")}))]);
    let wanted =
        json!({"singular": "other", "listKind": "OtherList", "shortNames": ["f", "g", "mine"]});
    let told = get(&path("seconds")).keyed("conditions", "/type").expect(200);
    let given_up = json!({"singular": "second", "listKind": "SecondList", "shortNames": null});
    Scenario::new("a_definition_that_asks_for_a_taken_name_is_served_under_those_it_has")
        .fresh()
        .definition(named("firsts", json!({"kind": "First", "shortNames": ["f", "g"]})))
        .definition(named("seconds", json!({"kind": "Second", "shortNames": ["s"]})))
        .step(
            patch(
                &path("seconds"),
                PatchType::Merge,
                json!({"spec": {"names": wanted, "versions": wider}}),
            )
            .preparation(),
        )
        .step(
            told.clone()
                .with("/status/conditions/0/reason", "ShortNamesConflict")
                .with("/status/acceptedNames/singular", "other")
                .awaited(),
        )
        // Its new schema is served, and so are the names that were free.
        .step(
            post(&seconds, second.clone())
                .query("dryRun", "All")
                .with("/spec/colour", "blue")
                .awaited()
                .preparation(),
        )
        .step(post(&seconds, second).with("/spec/colour", "blue").expect(201))
        .step(get(&seconds).expect(200).with("/kind", "OtherList"))
        // Who wants none of them any more has none.
        .step(
            patch(&path("seconds"), PatchType::Merge, json!({"spec": {"names": given_up}}))
                .preparation(),
        )
        .step(
            told.with("/status/conditions/0/reason", "NoConflicts")
                .with("/status/acceptedNames/singular", "second")
                .awaited(),
        )
        .step(get(&seconds).expect(200).with("/kind", "SecondList").awaited())
        .run()
        .await;
}

#[tokio::test]
async fn a_definition_tells_when_its_objects_are_gone() {
    let group = "gone.gantry.test";
    let held = |plural: &str, names: Value| {
        let versions = json!([version("v1", true, json!({"size": {"type": "integer"}}))]);
        let mut definition = definition(group, versions);
        definition["metadata"]["name"] = format!("{plural}.{group}").into();
        definition["metadata"]["finalizers"] = json!(["gantry.test/hold"]);
        definition["spec"]["names"] = names;
        definition["spec"]["names"]["plural"] = plural.into();
        definition
    };
    let path = |plural: &str| format!("{DEFINITIONS}/{plural}.{group}");
    let told = |plural: &str, reason: &str| {
        let request = get(&path(plural)).keyed("conditions", "/type").expect(200);
        request.with("/status/conditions/2/reason", reason).awaited()
    };
    let let_go = |plural: &str| {
        let change = json!({"metadata": {"finalizers": null}});
        patch(&path(plural), PatchType::Merge, change).preparation()
    };
    let things = things(group, "v1");
    let thing = |name: &str| thing(group, "v1", name, json!({"size": 1}));
    Scenario::new("a_definition_tells_when_its_objects_are_gone")
        .fresh()
        .definition(held("things", json!({"kind": "Thing"})))
        .step(post(&things, thing("a")).preparation())
        .step(post(DEFINITIONS, held("others", json!({"kind": "Thing"}))).preparation())
        .step(
            get(&path("others"))
                .with("/status/conditions/0/reason", "ListKindConflict")
                .awaited()
                .preparation(),
        )
        .step(delete(&path("others")).preparation())
        .step(told("others", "NeverEstablished"))
        .step(delete(&path("things")).preparation())
        .step(told("things", "InstanceDeletionCompleted"))
        .step(get(&format!("{things}/a")).expect(404))
        // What something else still holds takes objects again, and keeps them when it is deleted
        // once more.
        .step(post(&things, thing("b")).expect(201).awaited())
        .step(delete(&path("things")).preparation())
        .step(told("things", "InstanceDeletionCompleted"))
        .step(get(&format!("{things}/b")).expect(200))
        .step(post(&things, thing("c")).expect(201))
        .step(delete(&things).expect(200))
        .step(let_go("others"))
        .step(let_go("things"))
        .step(get(&path("others")).expect(404).awaited())
        .step(get(&path("things")).expect(404).awaited())
        .step(get(&things).expect(404).awaited())
        .run()
        .await;
}

/// A definition on a server of its own, and a client that watches its things.
struct Stage {
    lease: Lease,
    client: Client,
    things: Api<DynamicObject>,
}

impl Stage {
    async fn new(backend: Backend, group: &str) -> Self {
        let lease = Lease::take(backend, Scope::Fresh, group).await.unwrap();
        let client = Client::new(&lease.server).unwrap();
        let kubeconfig = Kubeconfig::read_from(&lease.kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let kind = GroupVersionKind::gvk(group, "v1", "Thing");
        let resource = ApiResource::from_gvk_with_plural(&kind, "things");
        let client_of_watch = kube::Client::try_from(config).unwrap();
        let things = Api::namespaced_with(client_of_watch, "default", &resource);
        let stage = Self { lease, client, things };
        stage.define(group).await;
        stage
    }

    /// Installs the definition and waits until its things are served.
    async fn define(&self, group: &str) {
        let versions = json!([version("v1", true, json!({"size": {"type": "integer"}}))]);
        let answer = self.client.send(&post(DEFINITIONS, definition(group, versions))).await;
        assert_eq!(answer.unwrap().code, 201);
        self.wait(&get(&format!("/apis/{group}/v1/things")), 200).await;
        let one = thing(group, "v1", "a", json!({"size": 1}));
        let path = things(group, "v1").replace("{ns}", "default");
        self.wait(&post(&path, one), 201).await;
    }

    async fn wait(&self, request: &Request, code: u16) {
        let deadline = tokio::time::Instant::now() + END_MAX;
        while self.client.send(request).await.unwrap().code != code {
            assert!(tokio::time::Instant::now() < deadline, "{} is never {code}", request.path);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The types of the events that a watch tells while `act` happens, up to its end.
    async fn told_during(&self, act: impl Future<Output = ()>) -> Vec<&'static str> {
        let params = WatchParams::default().timeout(200);
        let mut events = self.things.watch(&params, "0").await.unwrap().boxed();
        let mut told = Vec::new();
        let name = |event: &WatchEvent<DynamicObject>| match event {
            WatchEvent::Added(_) => "ADDED",
            WatchEvent::Modified(_) => "MODIFIED",
            WatchEvent::Deleted(_) => "DELETED",
            WatchEvent::Bookmark(_) => "BOOKMARK",
            WatchEvent::Error(_) => "ERROR",
        };
        // The watch is on once it tells what there is.
        let first = events.next().await.unwrap().unwrap();
        told.push(name(&first));
        act.await;
        let rest = async {
            while let Some(event) = events.next().await {
                told.push(name(&event.unwrap()));
            }
        };
        tokio::time::timeout(END_MAX, rest).await.expect("the watch outlives its definition");
        told.retain(|name| *name != "BOOKMARK");
        told
    }
}

#[tokio::test]
async fn a_watch_ends_with_its_definition() {
    let group = "watched.gantry.test";
    for backend in BACKENDS {
        let stage = Stage::new(*backend, group).await;
        let path = format!("{DEFINITIONS}/things.{group}");
        let told = stage.told_during(async {
            let answer = stage.client.send(&delete(&path)).await.unwrap();
            assert_eq!(answer.code, 200);
        });
        assert_eq!(told.await, ["ADDED", "DELETED"], "{}", backend.name());
        // What comes after it under the same name begins anew.
        stage.wait(&get(&path), 404).await;
        stage.define(group).await;
        let told = stage.told_during(async {
            let answer = stage.client.send(&delete(&path)).await.unwrap();
            assert_eq!(answer.code, 200);
        });
        assert_eq!(told.await, ["ADDED", "DELETED"], "{}", backend.name());
        stage.lease.give_back().await.unwrap();
    }
}

#[tokio::test]
async fn a_watch_ends_when_the_schema_changes() {
    let group = "rewatched.gantry.test";
    for backend in BACKENDS {
        let stage = Stage::new(*backend, group).await;
        let versions = json!([version("v1", true, json!({"colour": text("red")}))]);
        let told = stage.told_during(async {
            let answer = stage.client.send(&redefined(group, versions)).await.unwrap();
            assert_eq!(answer.code, 200);
        });
        assert_eq!(told.await, ["ADDED"], "{}", backend.name());
        stage.lease.give_back().await.unwrap();
    }
}
