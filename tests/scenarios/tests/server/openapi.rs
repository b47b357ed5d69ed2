//! OpenAPI v3, as clients use it: `kubectl explain` walks the schemas, `apply` and `diff` read
//! merge keys and which parameters a patch takes.
//!
//! Documents of two servers are not equal whole. Compared are the schemas of every kind that is
//! served and of all they are made of, but for prose, and for each operation that drydock
//! describes its kind, its action and its parameters. What kube-apiserver describes besides
//! (operations of subresources, types of requests, security) no client here reads.

use std::collections::BTreeMap;

use scenarios::backend::{BACKENDS, Lease, Scope};
use scenarios::client::Client;
use scenarios::compare::mismatches;
use scenarios::request::get;
use serde_json::{Map, Value, json};

/// The documents of a server: by path, those of built-in groups.
async fn documents(client: &Client) -> BTreeMap<String, Value> {
    let index = client.send(&get("/openapi/v3")).await.unwrap();
    assert_eq!(index.code, 200, "{}", index.body);
    let mut documents = BTreeMap::new();
    for (path, place) in index.body["paths"].as_object().unwrap() {
        let url = place["serverRelativeURL"].as_str().unwrap();
        let (address, hash) = url.split_once("?hash=").unwrap();
        assert_eq!(address, format!("/openapi/v3/{path}"));
        assert!(!hash.is_empty(), "{path} has no hash");
        let answer = client.send(&get(address).query("hash", hash)).await.unwrap();
        assert_eq!(answer.code, 200, "{path}: {}", answer.body);
        assert_eq!(answer.headers["content-type"], ["application/json"], "{path}");
        documents.insert(path.clone(), answer.body);
    }
    documents
}

/// A schema without what is meant for people.
fn without_prose(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let is_prose = |name: &str, member: &Value| name == "description" && member.is_string();
            let kept = members.iter().filter(|(name, member)| !is_prose(name, member));
            kept.map(|(name, member)| (name.clone(), without_prose(member))).collect()
        }
        Value::Array(items) => items.iter().map(without_prose).collect(),
        other => other.clone(),
    }
}

/// What is compared of an operation on a path, with the parameters of all operations on it.
fn operation(path: &Value, verb: &str) -> Value {
    let described = &path[verb];
    let lists = [&path["parameters"], &described["parameters"]];
    let parameters = lists.into_iter().filter_map(Value::as_array).flatten();
    let parameters: Map<String, Value> = parameters
        .map(|one| (one["name"].as_str().unwrap().to_owned(), without_prose(one)))
        .collect();
    json!({
        "action": described["x-kubernetes-action"],
        "kind": described["x-kubernetes-group-version-kind"],
        "parameters": parameters,
    })
}

/// What is wrong with a document of ours, given the real one.
fn faults(path: &str, ours: &Value, truth: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut compare = |place: String, ours: &Value, truth: &Value| {
        faults.extend(mismatches(ours, truth).iter().map(|one| format!("{place} {one}")));
    };
    for member in ["openapi", "info"] {
        compare(format!("{path} {member}"), &ours[member], &truth[member]);
    }
    for (name, schema) in ours["components"]["schemas"].as_object().unwrap() {
        let real = without_prose(&truth["components"]["schemas"][name]);
        compare(format!("{path} {name}"), &without_prose(schema), &real);
    }
    for (address, described) in ours["paths"].as_object().unwrap() {
        let members = described.as_object().unwrap().keys();
        for verb in members.filter(|member| *member != "parameters") {
            let ours = operation(described, verb);
            let mut real = operation(&truth["paths"][address], verb);
            // A parameter that we do not describe is none that a client here asks for.
            if let Some(parameters) = real["parameters"].as_object_mut() {
                parameters.retain(|name, _| !ours["parameters"][name].is_null());
            }
            compare(format!("{path} {verb} {address}"), &ours, &real);
        }
    }
    faults
}

#[tokio::test]
async fn schemas_and_operations_are_described_alike() {
    let mut described = Vec::new();
    for backend in BACKENDS {
        let lease = Lease::take(*backend, Scope::Fresh, "openapi").await.unwrap();
        let client = Client::new(&lease.server).unwrap();
        described.push(documents(&client).await);
        lease.give_back().await.unwrap();
    }
    let [truth, ours] = described.as_slice() else { panic!("there are two backends") };
    let versions = |documents: &BTreeMap<String, Value>| {
        let is_version = |path: &&String| {
            *path == "api/v1" || (path.starts_with("apis/") && path.split('/').count() == 3)
        };
        let paths = documents.keys().filter(is_version);
        paths.cloned().collect::<Vec<_>>()
    };
    assert_eq!(versions(ours), versions(truth), "a document for each group and version");
    let faults: Vec<String> =
        ours.iter().flat_map(|(path, document)| faults(path, document, &truth[path])).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[tokio::test]
async fn every_kind_that_is_served_has_a_schema() {
    for backend in BACKENDS {
        let lease = Lease::take(*backend, Scope::Fresh, "openapi").await.unwrap();
        let client = Client::new(&lease.server).unwrap();
        for (path, document) in documents(&client).await {
            let Some(version) = path.strip_prefix("apis/").filter(|path| path.contains('/')) else {
                continue;
            };
            let schemas = document["components"]["schemas"].as_object().unwrap();
            let is_of = |schema: &Value, kind: &Value| {
                let kinds = schema["x-kubernetes-group-version-kind"].as_array();
                let (group, version) = version.split_once('/').unwrap();
                let wanted = json!({"group": group, "version": version, "kind": kind});
                kinds.is_some_and(|kinds| kinds.contains(&wanted))
            };
            let listed = client.send(&get(&format!("/apis/{version}"))).await.unwrap();
            for resource in listed.body["resources"].as_array().unwrap() {
                let kind = &resource["kind"];
                let is_elsewhere = resource["group"].is_string();
                let has_schema = schemas.values().any(|schema| is_of(schema, kind));
                assert!(has_schema || is_elsewhere, "{}: {version} {kind}", backend.name());
            }
        }
        lease.give_back().await.unwrap();
    }
}
