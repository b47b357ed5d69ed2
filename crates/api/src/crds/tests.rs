//! What holds of all CRDs and their samples.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::facts::{Facts, VersionFacts, of_crd, parse, samples, tables, without_shown};
use super::{CRDS, to_yaml_stream};

#[test]
fn the_fact_table_of_upstream_holds() {
    let tables = tables();
    let names: Vec<String> = tables.iter().map(Facts::name).collect();
    assert_eq!(names, CRDS.iter().map(|crd| crd.name).collect::<Vec<_>>());
    for (facts, crd) in tables.iter().zip(CRDS) {
        let ours = without_shown(of_crd(&parse(crd)));
        for (theirs, ours) in facts.versions.iter().zip(&ours.versions) {
            compare_fields(crd.name, &theirs.fields, &ours.fields);
        }
        assert_eq!(&ours, facts, "{}", crd.name);
    }
}

/// Names the first field that differs: the whole tables are too long to read.
fn compare_fields(crd: &str, theirs: &BTreeMap<String, Value>, ours: &BTreeMap<String, Value>) {
    for path in theirs.keys().chain(ours.keys()) {
        assert_eq!(ours.get(path), theirs.get(path), "{crd}: {path}");
    }
}

#[test]
fn the_header_of_a_crd_names_it_and_nothing_else() {
    for crd in CRDS {
        let value = parse(crd);
        assert_eq!(value["apiVersion"], "apiextensions.k8s.io/v1", "{}", crd.name);
        assert_eq!(value["kind"], "CustomResourceDefinition", "{}", crd.name);
        assert_eq!(value["metadata"]["name"], crd.name);
        // kube-apiserver refuses a CRD of a protected group that does not say who approved it.
        let group = value["spec"]["group"].as_str().expect("a group");
        let approval = &value["metadata"]["annotations"]["api-approved.kubernetes.io"];
        let protected = group.ends_with(".k8s.io") || group.ends_with(".kubernetes.io");
        assert_eq!(approval.is_string(), protected, "{}", crd.name);
        assert_eq!(value.as_object().map(serde_json::Map::len), Some(4), "{}", crd.name);
    }
}

#[test]
fn every_kind_and_field_is_described() {
    for crd in CRDS {
        let value = parse(crd);
        for version in value["spec"]["versions"].as_array().expect("versions") {
            let root = &version["schema"]["openAPIV3Schema"];
            assert!(root["description"].is_string(), "{}", crd.name);
            for (name, child) in root["properties"].as_object().expect("properties") {
                if !["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                    described(crd.name, name, child);
                }
            }
        }
    }
}

/// The items of a list and the values of a map are described by their field, the
/// pod template of a queue unit as a whole.
fn described(crd: &str, path: &str, schema: &Value) {
    if !path.ends_with("[]") && !path.ends_with("{}") {
        let sentence = schema["description"].as_str().unwrap_or_default();
        assert!(sentence.ends_with('.'), "{crd}: {path} has no description");
    }
    if path == "spec.podSet[].template" {
        return;
    }
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        described(crd, &format!("{path}.{name}"), child);
    }
    for (keyword, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[keyword].is_object() {
            described(crd, &format!("{path}{suffix}"), &schema[keyword]);
        }
    }
}

#[test]
fn the_stream_holds_every_definition_once() {
    let stream = to_yaml_stream();
    assert_eq!(stream.lines().filter(|line| *line == "---").count(), CRDS.len());
    let documents: Vec<Value> = serde_saphyr::from_multiple(&stream).expect("a YAML stream");
    let names: Vec<&Value> = documents.iter().map(|crd| &crd["metadata"]["name"]).collect();
    assert_eq!(names, CRDS.iter().map(|crd| crd.name).collect::<Vec<_>>());
}

#[test]
fn every_kind_has_samples_that_say_what_they_show() {
    for facts in tables() {
        let samples = samples(&facts.plural);
        let count = |start| samples.iter().filter(|(name, ..)| name.starts_with(start)).count();
        assert_eq!(count("minimal"), facts.versions.len(), "{}", facts.plural);
        assert_eq!(count("maximal"), facts.versions.len(), "{}", facts.plural);
        assert!(count("wrong-") >= 3, "{}", facts.plural);
        assert_eq!(count("m") + count("wrong-"), samples.len(), "{}", facts.plural);
        for (name, text, value) in &samples {
            assert_eq!(value["kind"], facts.kind, "{name}");
            assert_eq!(text.starts_with("# Wrong: "), name.starts_with("wrong-"), "{name}");
            let namespaced = value["metadata"]["namespace"].is_string();
            assert_eq!(namespaced, facts.scope == "Namespaced", "{name}");
        }
    }
}

#[test]
fn a_maximal_sample_names_every_field_and_no_other() {
    for facts in tables() {
        let samples = samples(&facts.plural);
        for version in &facts.versions {
            let api_version = format!("{}/{}", facts.group, version.name);
            let (_, _, sample) = samples
                .iter()
                .find(|(name, _, value)| {
                    name.starts_with("maximal") && value["apiVersion"] == api_version
                })
                .expect("a maximal sample of each version");
            let mut named = BTreeSet::new();
            for (name, value) in sample.as_object().expect("an object") {
                if !["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                    name_fields(version, name, value, &mut named);
                }
            }
            let all: BTreeSet<String> = version.fields.keys().cloned().collect();
            assert_eq!(named, all, "{api_version} {}", facts.kind);
        }
    }
}

fn name_fields(version: &VersionFacts, path: &str, value: &Value, named: &mut BTreeSet<String>) {
    named.insert(path.to_owned());
    if version.fields.get(path).is_some_and(|f| f["x-kubernetes-preserve-unknown-fields"] == true) {
        return;
    }
    let map = version.fields.contains_key(&format!("{path}{{}}"));
    match value {
        Value::Array(items) => {
            for item in items {
                name_fields(version, &format!("{path}[]"), item, named);
            }
        }
        Value::Object(entries) => {
            for (name, child) in entries {
                let child_path = if map { format!("{path}{{}}") } else { format!("{path}.{name}") };
                name_fields(version, &child_path, child, named);
            }
        }
        _ => {}
    }
}
