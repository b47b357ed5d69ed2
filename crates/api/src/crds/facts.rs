//! Reads the fact tables of upstream and brings a CRD into the same form: one
//! entry for each field path, `[]` for the items of a list, `{}` for the values
//! of a map.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Crd;

/// The facts of one kind, as `tests/facts/crds` has them.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Facts {
    pub group: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub scope: String,
    pub versions: Vec<VersionFacts>,
}

/// The facts of one version.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct VersionFacts {
    pub name: String,
    pub served: bool,
    pub storage: bool,
    pub deprecated: bool,
    pub subresources: Map<String, Value>,
    pub printer_columns: Vec<Value>,
    pub root_required: BTreeSet<String>,
    pub fields: BTreeMap<String, Value>,
}

impl Facts {
    pub fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The samples of a kind: file name, text and value.
pub(crate) fn samples(plural: &str) -> Vec<(String, String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(plural);
    let mut samples = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("a folder of samples") {
        let path = entry.expect("a readable folder").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a readable sample");
        let value = serde_saphyr::from_str(&text).expect(&name);
        samples.push((name, text, value));
    }
    samples
}

/// The fact tables of every kind that this crate has a CRD for.
pub(crate) fn tables() -> Vec<Facts> {
    let mut tables = Vec::new();
    for family in ["koordinator", "koord-queue"] {
        let folder = repository().join("tests/facts/crds").join(family);
        for entry in std::fs::read_dir(&folder).expect("the fact tables are in the repository") {
            let path = entry.expect("a readable folder").path();
            let text = std::fs::read_to_string(&path).expect("a readable fact table");
            let mut facts: Facts = serde_json::from_str(&text).expect("a fact table");
            for version in &mut facts.versions {
                for fact in version.fields.values_mut() {
                    // A field without constraints is written as its type alone.
                    if fact.is_string() {
                        *fact = json!({ "type": fact.clone() });
                    }
                }
            }
            tables.push(facts);
        }
    }
    add_ours(&mut tables);
    tables.sort_by_key(Facts::name);
    tables
}

/// Kinds whose status has conditions here and none upstream: those of every other kind, as one of
/// upstream's has them, but for the message, which may be left out.
const WITH_CONDITIONS: [&str; 2] = ["ElasticQuota", "PodGroup"];
/// A kind of upstream that has them.
const CONDITIONS_OF: &str = "AdmissionCheck";

/// How the same kinds are named for short, and which columns kubectl shows of them.
const SHOWN: [(&str, &str, &[&str]); 2] = [
    ("ElasticQuota", "eq", &["Ready", "Why", "Used", "Min", "Max", "Age"]),
    ("PodGroup", "pg", &["Phase", "Min", "Scheduled", "Running", "Why", "Age"]),
];

/// What is shown of kinds of which upstream shows nothing but names is taken out of ours, where it is this.
pub(crate) fn without_shown(mut ours: Facts) -> Facts {
    if let Some((_, short, columns)) = SHOWN.iter().find(|(kind, ..)| *kind == ours.kind) {
        let own = std::mem::take(&mut ours.versions[0].printer_columns);
        let names: Vec<&str> = own.iter().filter_map(|own| own["name"].as_str()).collect();
        assert_eq!(
            (std::mem::take(&mut ours.short_names), &*names),
            (vec![(*short).to_owned()], *columns)
        );
    }
    ours
}

/// All that is added to upstream's tables.
fn add_ours(tables: &mut [Facts]) {
    let source = tables.iter().find(|own| own.kind == CONDITIONS_OF).expect("a kind of upstream");
    let all = source.versions[0].fields.iter();
    let own = all.filter(|(path, _)| path.starts_with("status.conditions"));
    let mut own: BTreeMap<String, Value> =
        own.map(|(path, fact)| (path.clone(), fact.clone())).collect();
    let message = own.get_mut("status.conditions[].message").and_then(Value::as_object_mut);
    message.expect("a message").remove("required");
    for facts in tables.iter_mut().filter(|own| WITH_CONDITIONS.contains(&own.kind.as_str())) {
        for (path, fact) in &own {
            let theirs = facts.versions[0].fields.insert(path.clone(), fact.clone());
            assert_eq!(theirs, None, "upstream has {path} of {} by now", facts.kind);
        }
    }
}

pub(crate) fn parse(crd: &Crd) -> Value {
    serde_saphyr::from_str(crd.yaml).expect(crd.name)
}

/// The same facts, read off a CRD of ours. Panics on anything that has no place in
/// a fact table, so that nothing in the YAML goes unchecked.
pub(crate) fn of_crd(crd: &Value) -> Facts {
    let spec = &crd["spec"];
    let names = &spec["names"];
    only(spec, &["group", "names", "scope", "versions"]);
    only(names, &["kind", "listKind", "plural", "singular", "shortNames", "categories"]);
    Facts {
        group: text(&spec["group"]),
        kind: text(&names["kind"]),
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        list_kind: text(&names["listKind"]),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        scope: text(&spec["scope"]),
        versions: spec["versions"].as_array().expect("versions").iter().map(of_version).collect(),
    }
}

fn of_version(version: &Value) -> VersionFacts {
    let known = ["name", "served", "storage", "deprecated", "subresources", "schema"];
    only(version, &[&known[..], &["additionalPrinterColumns"]].concat());
    let root = &version["schema"]["openAPIV3Schema"];
    only(root, &["description", "type", "properties", "required"]);
    let mut fields = BTreeMap::new();
    for (name, child) in root["properties"].as_object().expect("properties") {
        match name.as_str() {
            "apiVersion" | "kind" => assert_eq!(child, &json!({ "type": "string" })),
            "metadata" => assert_eq!(child, &json!({ "type": "object" })),
            _ => flatten(child, name, required(root, name), &mut fields),
        }
    }
    VersionFacts {
        name: text(&version["name"]),
        served: version["served"] == true,
        storage: version["storage"] == true,
        deprecated: version["deprecated"] == true,
        subresources: version["subresources"].as_object().cloned().unwrap_or_default(),
        printer_columns: version["additionalPrinterColumns"]
            .as_array()
            .cloned()
            .unwrap_or_default(),
        root_required: texts(&root["required"]).into_iter().collect(),
        fields,
    }
}

/// Every keyword but `description` and the ones that are spelled as paths becomes
/// part of the fact.
fn flatten(schema: &Value, path: &str, required_here: bool, into: &mut BTreeMap<String, Value>) {
    let mut fact = Map::new();
    for (keyword, value) in schema.as_object().expect("a schema") {
        match keyword.as_str() {
            "description" => assert!(value.is_string()),
            "properties" => {
                for (name, child) in value.as_object().expect("properties") {
                    flatten(child, &format!("{path}.{name}"), required(schema, name), into);
                }
            }
            "items" => flatten(value, &format!("{path}[]"), false, into),
            "additionalProperties" => flatten(value, &format!("{path}{{}}"), false, into),
            "required" => assert!(texts(value).iter().all(|n| schema["properties"][n].is_object())),
            "x-kubernetes-int-or-string" => {
                drop(fact.insert("type".into(), "int-or-string".into()))
            }
            "x-kubernetes-validations" => {
                let rules = value.as_array().expect("rules");
                assert!(rules.iter().all(|rule| rule["message"].is_string()), "{path}");
                let rules = rules.iter().map(|rule| rule["rule"].clone()).collect();
                fact.insert("cel".into(), Value::Array(rules));
            }
            _ => drop(fact.insert(keyword.clone(), value.clone())),
        }
    }
    fact.entry("type").or_insert_with(|| "any".into());
    if required_here {
        fact.insert("required".into(), true.into());
    }
    into.insert(path.to_owned(), Value::Object(fact));
}

fn required(schema: &Value, name: &str) -> bool {
    texts(&schema["required"]).iter().any(|required| required == name)
}

fn only(value: &Value, known: &[&str]) {
    for key in value.as_object().expect("an object").keys() {
        assert!(known.contains(&key.as_str()), "{key} is not part of the fact tables");
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().map(|list| list.iter().map(text).collect()).unwrap_or_default()
}
