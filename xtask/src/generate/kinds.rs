//! What a real kube-apiserver serves: its discovery and the structure of its schemas.
//!
//! Facts are taken, sentences are not: every description is left out, and a schema keyword not
//! named here is an error, so that nothing is lost or taken unseen.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};
use progress::Progress;
use serde_json::{Map, Value, json};
use truth::{Binaries, ControlPlane, Proxy};

use crate::repository;

const FOLDER: &str = "crates/drydock/src/kinds/generated";

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Keywords whose value is taken as it is.
const PLAIN_KEYWORDS: [&str; 6] = ["$ref", "default", "enum", "format", "required", "type"];

/// Keywords whose value is a list of schemas.
const LIST_KEYWORDS: [&str; 2] = ["allOf", "oneOf"];

/// Keywords whose value is one schema.
const SCHEMA_KEYWORDS: [&str; 2] = ["additionalProperties", "items"];

/// Starts a real server, asks it and writes the files.
pub fn run() -> Result<()> {
    let progress = Progress::new();
    let report = |line: &str| progress.say(line);
    let binaries = Binaries::locate(&report);
    report("starting etcd and kube-apiserver");
    let plane = ControlPlane::start(&binaries, 1)?;
    let proxy = Proxy::start(&binaries, plane.servers()[0].kubeconfig())?;
    let get = |path: &str, accept: &str| -> Result<Value> {
        let body = proxy.get(path, accept)?;
        serde_json::from_slice(&body).with_context(|| format!("{path} does not answer JSON"))
    };

    report("reading discovery");
    let core = get("/api", AGGREGATED)?;
    let named = get("/apis", AGGREGATED)?;
    repository::write(&format!("{FOLDER}/discovery.json"), &discovery(&[core, named])?)?;

    let index = get("/openapi/v3", "application/json")?;
    let paths = index["paths"].as_object().context("the index of /openapi/v3 has paths")?;
    let mut definitions = BTreeMap::new();
    for (path, entry) in paths {
        report(&format!("reading the schemas of {path}"));
        let url = entry["serverRelativeURL"].as_str();
        let url = url.with_context(|| format!("{path} has no address in the index"))?;
        let document = get(url, "application/json")?;
        merge(&mut definitions, &document).with_context(|| format!("in the document of {path}"))?;
    }
    repository::write(&format!("{FOLDER}/definitions.json"), &one_per_line(&definitions))?;
    report("asking the Go structs how their empty fields look");
    repository::write(&format!("{FOLDER}/fields.txt"), &truth::go_run("./fields")?)?;
    progress.clear();
    println!("wrote {} definitions to {FOLDER}", definitions.len());
    Ok(())
}

/// The groups of aggregated discovery documents as JSON with one resource per line. The order
/// of groups and of versions is the server's order of preference and is kept.
fn discovery(documents: &[Value]) -> Result<String> {
    let mut groups = Vec::new();
    for document in documents {
        let items = document["items"].as_array().context("a discovery document has items")?;
        groups.extend(items.iter().map(group).collect::<Result<Vec<_>>>()?);
    }
    Ok(format!("{{\"groups\": [\n{}\n]}}\n", groups.join(",\n")))
}

fn group(item: &Value) -> Result<String> {
    let name = item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let versions = item["versions"].as_array().context("a group has versions")?;
    let versions = versions.iter().map(version).collect::<Result<Vec<_>>>()?;
    Ok(format!("{{\"name\": {}, \"versions\": [\n{}\n]}}", json!(name), versions.join(",\n")))
}

fn version(item: &Value) -> Result<String> {
    let name = item["version"].as_str().context("a version has a name")?;
    let resources = item["resources"].as_array().context("a version has resources")?;
    let resources: Vec<String> = resources.iter().map(|one| format!("  {one}")).collect();
    Ok(format!(
        " {{\"version\": {}, \"resources\": [\n{}\n ]}}",
        json!(name),
        resources.join(",\n")
    ))
}

/// Adds the schemas of an OpenAPI document. Documents share schemas; the same name must mean
/// the same schema.
fn merge(definitions: &mut BTreeMap<String, Value>, document: &Value) -> Result<()> {
    let Some(schemas) = document.pointer("/components/schemas").and_then(Value::as_object) else {
        return Ok(());
    };
    for (name, schema) in schemas {
        let stripped = structure(schema).with_context(|| format!("in the schema {name}"))?;
        let known = definitions.entry(name.clone()).or_insert_with(|| stripped.clone());
        ensure!(*known == stripped, "the schema {name} differs from that of an earlier document");
    }
    Ok(())
}

/// A schema without its texts.
fn structure(schema: &Value) -> Result<Value> {
    let Some(members) = schema.as_object() else {
        // `additionalProperties: true` is a schema too.
        ensure!(schema.is_boolean(), "a schema is an object or a boolean, not {schema}");
        return Ok(schema.clone());
    };
    let mut kept = Map::new();
    for (keyword, value) in members {
        let value = match keyword.as_str() {
            "description" => continue,
            "properties" => properties(value)?,
            word if LIST_KEYWORDS.contains(&word) => {
                let schemas = value.as_array().with_context(|| format!("{word} is a list"))?;
                schemas.iter().map(structure).collect::<Result<Value>>()?
            }
            word if SCHEMA_KEYWORDS.contains(&word) => structure(value)?,
            word if PLAIN_KEYWORDS.contains(&word) => value.clone(),
            word if word.starts_with("x-kubernetes-") => value.clone(),
            word => bail!("the keyword {word} is not known: keep it or leave it out in kinds.rs"),
        };
        kept.insert(keyword.clone(), value);
    }
    Ok(Value::Object(kept))
}

/// The schemas of named properties; a property may be called `description`.
fn properties(value: &Value) -> Result<Value> {
    let members = value.as_object().context("properties are an object")?;
    let mut kept = Map::new();
    for (name, schema) in members {
        let schema = structure(schema).with_context(|| format!("in the property {name}"))?;
        kept.insert(name.clone(), schema);
    }
    Ok(Value::Object(kept))
}

fn one_per_line(definitions: &BTreeMap<String, Value>) -> String {
    let mut text = String::from("{");
    for (index, (name, schema)) in definitions.iter().enumerate() {
        let separator = if index == 0 { "\n" } else { ",\n" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{}: {schema}", json!(name));
    }
    text.push_str("\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_keeps_its_structure_and_loses_its_texts() {
        let check = |schema: Value, expected: Option<Value>| {
            assert_eq!(structure(&schema).ok(), expected, "{schema}");
        };
        check(
            json!({"type": "object", "description": "words", "properties": {
                "description": {"type": "string", "description": "words"}}}),
            Some(json!({"type": "object", "properties": {"description": {"type": "string"}}})),
        );
        check(
            json!({"type": "array", "items": {"$ref": "#/a", "description": "words"},
                "x-kubernetes-list-type": "map"}),
            Some(json!({"type": "array", "items": {"$ref": "#/a"},
                "x-kubernetes-list-type": "map"})),
        );
        check(
            json!({"allOf": [{"$ref": "#/a", "description": "words"}], "default": {}}),
            Some(json!({"allOf": [{"$ref": "#/a"}], "default": {}})),
        );
        check(json!({"additionalProperties": true}), Some(json!({"additionalProperties": true})));
        check(json!({"mystery": 1}), None);
        check(json!("text"), None);
    }

    #[test]
    fn one_name_means_one_schema() {
        let document = |kind: &str| json!({"components": {"schemas": {"A": {"type": kind}}}});
        let mut definitions = BTreeMap::new();
        merge(&mut definitions, &document("string")).unwrap();
        merge(&mut definitions, &document("string")).unwrap();
        assert!(merge(&mut definitions, &document("integer")).is_err());
        merge(&mut definitions, &json!({})).unwrap();
        assert_eq!(one_per_line(&definitions), "{\n\"A\": {\"type\":\"string\"}\n}\n");
    }

    #[test]
    fn discovery_is_json_that_keeps_the_order_of_groups() {
        let item = |name: &str| {
            json!({"metadata": {"name": name}, "versions": [{"version": "v1",
                "freshness": "Current", "resources": [{"resource": "pods"}]}]})
        };
        let text = discovery(&[
            json!({"items": [{"versions": []}]}),
            json!({"items": [item("z"), item("a")]}),
        ])
        .unwrap();
        let parsed: Value = serde_json::from_str(&text).unwrap();
        let version = json!([{"version": "v1", "resources": [{"resource": "pods"}]}]);
        let expected = json!({"groups": [{"name": "", "versions": []},
            {"name": "z", "versions": version}, {"name": "a", "versions": version}]});
        assert_eq!(parsed, expected);
    }
}
