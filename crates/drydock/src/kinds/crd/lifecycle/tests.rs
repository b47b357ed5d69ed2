use std::sync::Mutex;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};

use super::*;
use crate::env::{Env, ManualEnv};
use crate::{Config, Drydock};

const NAME: &str = "crews.yard.example.com";

fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": NAME},
        "spec": {
            "group": "yard.example.com",
            "scope": "Namespaced",
            "names": {"plural": "crews", "singular": "crew", "kind": "Crew"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn server() -> Server {
    let env = ManualEnv::new(Timestamp::UNIX_EPOCH, 1);
    Server::new(Config::default(), Box::new(env))
}

/// The kind that is served after the definition was created.
fn created(server: &Server) -> Arc<Kind> {
    let found = definitions(server);
    let identity = Identity::apiserver();
    let writer = Writer { identity: &identity, dry_run: false };
    let written = write::create(server, &found, None, writer, &definition()).unwrap();
    after_write(server, &found.kind, &written);
    served(server, NAME).unwrap()
}

/// The kind that is served after `edit` was made to the definition.
fn edited(server: &Server, edit: impl Fn(&mut Value)) -> Arc<Kind> {
    let found = definitions(server);
    let identity = Identity::apiserver();
    let writer = Writer { identity: &identity, dry_run: false };
    let attempt =
        Attempt { found: &found, namespace: None, name: NAME, part: Part::Object, writer };
    let written = write::update(server, &attempt, |old| {
        let mut definition = old.clone();
        edit(&mut definition);
        Ok(definition)
    });
    after_write(server, &found.kind, &written.unwrap());
    served(server, NAME).unwrap()
}

#[test]
fn a_definition_inherits_nothing_from_one_of_its_name_that_has_gone() {
    let server = server();
    let old = created(&server);
    // The old one is gone, but whoever removed it has not come to withdraw its kind.
    let found = definitions(&server);
    let identity = Identity::apiserver();
    let writer = Writer { identity: &identity, dry_run: false };
    let options = DeleteOptions::default();
    write::remove(&server, &found, None, NAME, &options, writer).unwrap();
    old.table.end();
    change(&server, &found, NAME, Part::Object, |definition| {
        definition["metadata"]["finalizers"] = json!([]);
    });
    assert!(found.kind.table.get(NAME).is_none());

    let new = created(&server);
    assert_eq!((old.table.gate(), new.table.gate()), (Gate::Closed, Gate::Open));
    // Nor does a clean-up that comes late mean the new one.
    clean_up(&server, NAME);
    finish_cleanup(&server, NAME);
    assert!(Arc::ptr_eq(&served(&server, NAME).unwrap(), &new));
    assert_eq!(new.table.gate(), Gate::Open);
}

#[test]
fn a_kind_is_made_anew_only_when_its_definition_says_something_new() {
    let server = server();
    let first = created(&server);

    let same = edited(&server, |one| one["metadata"]["labels"] = json!({"a": "b"}));
    assert!(Arc::ptr_eq(&same, &first), "a label says nothing about the kind");
    let columns = json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]);
    let other = edited(&server, |one| {
        one["spec"]["versions"][0]["additionalPrinterColumns"] = columns.clone();
    });
    assert!(!Arc::ptr_eq(&other, &first));
    assert_eq!(other.versions[0].columns.len(), 2);
}

/// Something that happens in the middle of a request.
type Act = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// An environment in which something happens once a request has got as far as its second look at
/// the clock: the first is before its kind is found, the second when the body has been read.
struct Interrupting {
    env: ManualEnv,
    looks: Mutex<usize>,
    act: Act,
}

impl Env for Interrupting {
    fn now(&self) -> Timestamp {
        let mut looks = self.looks.lock().unwrap();
        *looks += usize::from(self.act.lock().unwrap().is_some());
        let act = if *looks == 2 { self.act.lock().unwrap().take() } else { None };
        if act.is_some() {
            *looks = 0;
        }
        drop(looks);
        if let Some(act) = act {
            act();
        }
        self.env.now()
    }

    fn random(&self) -> u64 {
        self.env.random()
    }
}

fn schema(fields: &[&str]) -> Value {
    let fields: serde_json::Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": fields})
}

fn set_schema(server: &Server, schema: &Value) {
    edited(server, |one| {
        one["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema.clone();
    });
}

const CREWS: &str = "/apis/yard.example.com/v1/namespaces/default/crews";

/// The body of the answer, whose code is as expected.
async fn ask(drydock: &Drydock, method: Method, path: &str, body: &Value, code: u16) -> Value {
    let kind = if method == Method::PATCH { "merge-patch+json" } else { "json" };
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", format!("application/{kind}"));
    let request = request.extension(Identity { user: "test".to_owned(), groups: Vec::new() });
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let (parts, body) = drydock.answer(request).await.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    assert_eq!(parts.status.as_u16(), code, "{body:?}");
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test]
async fn a_write_that_meets_a_replaced_kind_obeys_the_new_one() {
    let act = Act::default();
    let env = ManualEnv::new(Timestamp::UNIX_EPOCH, 1);
    let env = Interrupting { env, looks: Mutex::new(0), act: Arc::clone(&act) };
    let drydock = Drydock::new(Config::default(), env);
    let server = &drydock.server;
    created(server);
    let meanwhile = |act_of: Box<dyn FnOnce() + Send>| *act.lock().unwrap() = Some(act_of);
    let change_to = |fields: &'static [&str]| {
        let server = Arc::clone(server);
        Box::new(move || set_schema(&server, &schema(fields)))
    };
    let stored = |name: &str| {
        let stored = served(server, NAME).unwrap().table.get(&format!("default/{name}")).unwrap();
        serde_json::from_slice::<Value>(&stored.body).unwrap()
    };
    let crew = |name: &str, b: &str| {
        json!({"apiVersion": "yard.example.com/v1", "kind": "Crew",
            "metadata": {"name": name}, "a": "1", "b": b})
    };

    // What is no longer known when it is stored is not stored, whoever reads it later.
    set_schema(server, &schema(&["a", "b"]));
    meanwhile(change_to(&["a"]));
    let made = ask(&drydock, Method::POST, CREWS, &crew("one", "2"), 201).await;
    assert!(act.lock().unwrap().is_none(), "the definition was changed meanwhile");
    assert_eq!((&made["a"], &made["b"]), (&json!("1"), &Value::Null));
    assert_eq!(stored("one").get("b"), None);

    // What is wrong by then is refused.
    meanwhile(Box::new({
        let server = Arc::clone(server);
        move || {
            let mut schema = schema(&["a", "b"]);
            schema["properties"]["b"]["maxLength"] = 1.into();
            set_schema(&server, &schema);
        }
    }));
    let refused = ask(&drydock, Method::POST, CREWS, &crew("two", "22"), 422).await;
    assert_eq!(refused["details"]["causes"][0]["field"], "b");

    // What became known, and was written by somebody else, stays.
    set_schema(server, &schema(&["a"]));
    let path = format!("{CREWS}/one");
    meanwhile(Box::new({
        let server = Arc::clone(server);
        move || {
            set_schema(&server, &schema(&["a", "b"]));
            let found = server.registry().find("yard.example.com", "v1", "crews").unwrap();
            let identity = Identity::apiserver();
            let writer = Writer { identity: &identity, dry_run: false };
            let (namespace, name, part) = (Some("default"), "one", Part::Object);
            let attempt = Attempt { found: &found, namespace, name, part, writer };
            let written = write::update(&server, &attempt, |old| {
                let mut object = old.clone();
                object["b"] = "theirs".into();
                Ok(object)
            });
            assert!(written.is_ok());
        }
    }));
    let patched = ask(&drydock, Method::PATCH, &path, &json!({"a": "ours"}), 200).await;
    assert_eq!((&patched["a"], &patched["b"]), (&json!("ours"), &json!("theirs")));
    assert_eq!(stored("one")["b"], "theirs");

    // A whole object goes by the new form, too.
    let mut whole = crew("one", "2");
    whole["metadata"]["resourceVersion"] = patched["metadata"]["resourceVersion"].clone();
    meanwhile(change_to(&["a"]));
    ask(&drydock, Method::PUT, &path, &whole, 200).await;
    assert_eq!(stored("one").get("b"), None);
}
