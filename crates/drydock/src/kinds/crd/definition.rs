//! What is special about CustomResourceDefinitions themselves.

use jiff::Timestamp;
use object::field::{Error, Errors, Path};
use serde_json::{Value, json};

use crate::kinds::Strategy;
use crate::store::Store;

/// The finalizer that holds a definition until its objects are gone.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The strategy of CustomResourceDefinitions.
pub struct Definition;

impl Strategy for Definition {
    fn default(&self, object: &mut Value) {
        let names = &mut object["spec"]["names"];
        if let Some(kind) = names["kind"].as_str().map(str::to_owned) {
            if names["singular"].as_str().unwrap_or_default().is_empty() {
                names["singular"] = kind.to_lowercase().into();
            }
            if names["listKind"].as_str().unwrap_or_default().is_empty() {
                names["listKind"] = format!("{kind}List").into();
            }
        }
        if object["spec"]["conversion"].is_null() {
            object["spec"]["conversion"] = json!({"strategy": "None"});
        }
    }

    fn prepare_create(&self, object: &mut Value, _now: Timestamp) {
        let stored = storage_version(&object["spec"]);
        object["status"] = json!({
            "conditions": null,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored,
        });
        let finalizers = &mut object["metadata"]["finalizers"];
        if !finalizers.is_array() {
            *finalizers = json!([]);
        }
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value, _now: Timestamp) {
        let stored = storage_version(&object["spec"]);
        let versions = &mut object["status"]["storedVersions"];
        let known = versions.as_array().is_some_and(|list| list.contains(&stored[0]));
        if let (false, Some(list)) = (known, versions.as_array_mut()) {
            list.push(stored[0].clone());
        }
    }

    fn validate(&self, object: &Value) -> Errors {
        validate(object)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = validate(object);
        errors.extend(immutable(object, old));
        errors
    }
}

/// A list of the one version that objects are stored in.
fn storage_version(spec: &Value) -> Value {
    let versions = spec["versions"].as_array().into_iter().flatten();
    let stored = versions.filter(|version| version["storage"] == true);
    stored.take(1).map(|version| version["name"].clone()).collect::<Vec<_>>().into()
}

fn validate(object: &Value) -> Errors {
    let spec = &object["spec"];
    let mut errors = Errors::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let expected = format!("{plural}.{group}");
    let name = text(&object["metadata"]["name"]);
    if name != expected {
        let at = Path::new("metadata").child("name");
        errors.push(Error::invalid(&at, name, "must be spec.names.plural+\".\"+spec.group"));
    }
    let at = Path::new("spec");
    errors.extend(validate_versions(spec, &at));
    errors.extend(validate_conversion(spec, &at));
    if errors.is_empty()
        && let Err(more) = super::build::kind(object, &Store::new(1))
    {
        errors.extend(more);
    }
    errors
}

fn validate_versions(spec: &Value, at: &Path) -> Errors {
    let mut errors = Errors::new();
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let at = at.child("versions");
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(Error::invalid(&at, spec["versions"].clone(), why));
    }
    for (index, version) in versions.iter().enumerate() {
        let schema = &version["schema"]["openAPIV3Schema"];
        if !schema.is_object() {
            let at = at.index(index).child("schema").child("openAPIV3Schema");
            errors.push(Error::required(&at, "schemas are required"));
        }
    }
    errors
}

fn validate_conversion(spec: &Value, at: &Path) -> Errors {
    let at = at.child("conversion").child("strategy");
    match spec["conversion"]["strategy"].as_str().unwrap_or_default() {
        "None" => Errors::new(),
        "Webhook" => vec![Error::invalid(
            &at,
            "Webhook",
            "conversion by webhook is not served here: use None, or a kube-apiserver",
        )],
        other => vec![Error::not_supported(&at, other, &["None", "Webhook"])],
    }
}

fn immutable(object: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let fields =
        [("group", &["group"][..]), ("scope", &["scope"]), ("plural", &["names", "plural"])];
    for (_, path) in fields {
        let mut at = Path::new("spec");
        let (mut now, mut before) = (&object["spec"], &old["spec"]);
        for part in path {
            at = at.child(part);
            (now, before) = (&now[part], &before[part]);
        }
        if now != before {
            errors.push(Error::invalid(&at, now.clone(), "field is immutable"));
        }
    }
    errors
}
