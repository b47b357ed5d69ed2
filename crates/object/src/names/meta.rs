//! The metadata that every object has: what is valid on creation and on update.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{NameRule, NameUse, name_is_dns_label, qualified_name};
use super::{validate_annotations, validate_labels};
use crate::field::{Error, Errors, Path};

/// The finalizer of orphaning deletion.
pub const FINALIZER_ORPHAN: &str = "orphan";
/// The finalizer of foreground deletion.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of namespaces.
pub const FINALIZER_KUBERNETES: &str = "kubernetes";
/// The longest name of a field manager.
pub const FIELD_MANAGER_MAX: usize = 128;
const SUBRESOURCE_MAX: usize = 256;

/// Whether the objects of a resource live in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// In none.
    Cluster,
}

/// Checks the metadata of a new object, after its name has been generated.
#[must_use]
pub fn validate_object_meta(
    meta: &Map<String, Value>,
    scope: Scope,
    rule: NameRule,
    path: &Path,
) -> Errors {
    let mut errors = Errors::new();
    let prefix = text(meta, "generateName");
    if !prefix.is_empty() {
        let at = path.child("generateName");
        errors.extend(invalid_each(&at, prefix, rule(prefix, NameUse::Prefix)));
    }
    let name = text(meta, "name");
    let at = path.child("name");
    if name.is_empty() {
        errors.push(Error::required(&at, "name or generateName is required"));
    } else {
        errors.extend(invalid_each(&at, name, rule(name, NameUse::Whole)));
    }
    errors.extend(validate_namespace(text(meta, "namespace"), scope, &path.child("namespace")));
    let generation = integer(meta, "generation");
    if generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(&path.child("generation"), generation, detail));
    }
    errors.extend(validate_maps_and_owners(meta, path));
    let finalizers = list(meta, "finalizers");
    errors.extend(validate_finalizers(finalizers, &path.child("finalizers")));
    errors
        .extend(validate_managed_fields(list(meta, "managedFields"), &path.child("managedFields")));
    errors
}

/// Checks how the metadata of an object changes.
#[must_use]
pub fn validate_object_meta_update(
    new: &Map<String, Value>,
    old: &Map<String, Value>,
    path: &Path,
) -> Errors {
    let mut errors = Errors::new();
    if old.get("deletionTimestamp").is_some_and(|time| !time.is_null()) {
        let (added, had) = (list(new, "finalizers"), list(old, "finalizers"));
        errors.extend(validate_no_new_finalizers(added, had, &path.child("finalizers")));
    }
    if text(new, "resourceVersion").is_empty() {
        let detail = "must be specified for an update";
        errors.push(Error::invalid(&path.child("resourceVersion"), "", detail));
    }
    let generation = integer(new, "generation");
    if generation < integer(old, "generation") {
        let detail = "must not be decremented";
        errors.push(Error::invalid(&path.child("generation"), generation, detail));
    }
    for field in ["name", "namespace", "uid"] {
        if text(new, field) != text(old, field) {
            errors.push(immutable(&path.child(field), text(new, field).into()));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (is, was) = (new.get(field), old.get(field));
        if is.unwrap_or(&Value::Null) != was.unwrap_or(&Value::Null) {
            errors.push(immutable(&path.child(field), is.cloned().unwrap_or(Value::Null)));
        }
    }
    errors.extend(validate_maps_and_owners(new, path));
    errors
        .extend(validate_managed_fields(list(new, "managedFields"), &path.child("managedFields")));
    errors
}

fn validate_maps_and_owners(meta: &Map<String, Value>, path: &Path) -> Errors {
    let mut errors = Errors::new();
    if let Some(labels) = meta.get("labels").and_then(Value::as_object) {
        errors.extend(validate_labels(labels, &path.child("labels")));
    }
    if let Some(annotations) = meta.get("annotations").and_then(Value::as_object) {
        errors.extend(validate_annotations(annotations, &path.child("annotations")));
    }
    let owners = list(meta, "ownerReferences");
    errors.extend(validate_owner_references(owners, &path.child("ownerReferences")));
    errors
}

fn validate_namespace(namespace: &str, scope: Scope, path: &Path) -> Errors {
    match (scope, namespace.is_empty()) {
        (Scope::Namespaced, true) => vec![Error::required(path, "")],
        (Scope::Namespaced, false) => {
            invalid_each(path, namespace, name_is_dns_label(namespace, NameUse::Whole))
        }
        (Scope::Cluster, true) => Errors::new(),
        (Scope::Cluster, false) => vec![Error::forbidden(path, "not allowed on this type")],
    }
}

/// How many owner references all errors together show: each controller too many shows the
/// whole list.
const OWNERS_SHOWN_MAX: usize = 10_000;

/// Checks owner references, each and together.
#[must_use]
pub fn validate_owner_references(owners: &[Value], path: &Path) -> Errors {
    let mut errors = Errors::new();
    let mut first_controller: Option<String> = None;
    let mut shown = 0;
    for owner in owners {
        errors.extend(validate_owner_reference(owner, path));
        if owner.get("controller").and_then(Value::as_bool) != Some(true) {
            continue;
        }
        let (kind, name) = (member(owner, "kind"), member(owner, "name"));
        let Some(first) = &first_controller else {
            first_controller = Some(format!("{kind}/{name}"));
            continue;
        };
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {kind}/{name}"
        );
        errors.push(Error::invalid(path, owners.to_vec(), detail));
        shown += owners.len();
        if shown > OWNERS_SHOWN_MAX {
            break;
        }
    }
    errors
}

fn validate_owner_reference(owner: &Value, path: &Path) -> Errors {
    let mut errors = Errors::new();
    let api_version = member(owner, "apiVersion");
    let (group, version) = match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, rest)) if rest.contains('/') => ("", ""),
        Some((group, version)) => (group, version),
    };
    if version.is_empty() {
        let detail = "version must not be empty";
        errors.push(Error::invalid(&path.child("apiVersion"), api_version, detail));
    }
    for field in ["kind", "name", "uid"] {
        if member(owner, field).is_empty() {
            errors.push(Error::invalid(&path.child(field), "", "must not be empty"));
        }
    }
    if (group, version, member(owner, "kind")) == ("", "v1", "Event") {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(Error::invalid(path, owner.clone(), detail));
    }
    errors
}

/// Checks the names of finalizers, and that no two contradict each other.
#[must_use]
pub fn validate_finalizers(finalizers: &[Value], path: &Path) -> Errors {
    let mut errors = Errors::new();
    let names: Vec<&str> = finalizers.iter().map(|name| name.as_str().unwrap_or("")).collect();
    for name in &names {
        errors.extend(invalid_each(path, name, qualified_name(name)));
    }
    if names.contains(&FINALIZER_ORPHAN) && names.contains(&FINALIZER_FOREGROUND) {
        let detail =
            format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set");
        errors.push(Error::invalid(path, finalizers.to_vec(), detail));
    }
    errors
}

/// The further rule that Kubernetes' own kinds have for a finalizer: qualified, or one
/// of three old names.
#[must_use]
pub fn validate_kube_finalizer(name: &str, path: &Path) -> Errors {
    let old = [FINALIZER_KUBERNETES, FINALIZER_ORPHAN, FINALIZER_FOREGROUND];
    if name.contains('/') || old.contains(&name) {
        return Errors::new();
    }
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    vec![Error::invalid(path, name, detail)]
}

/// Checks that an object under deletion gets no further finalizers.
#[must_use]
pub fn validate_no_new_finalizers(new: &[Value], old: &[Value], path: &Path) -> Errors {
    let names = |list: &[Value]| -> BTreeSet<String> {
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra: Vec<String> =
        names(new).difference(&names(old)).map(|name| format!("{name:?}")).collect();
    if extra.is_empty() {
        return Errors::new();
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        extra.join(", ")
    );
    vec![Error::forbidden(path, detail)]
}

/// Checks the name of a field manager.
#[must_use]
pub fn validate_field_manager(manager: &str, path: &Path) -> Errors {
    let mut errors = Errors::new();
    if manager.len() > FIELD_MANAGER_MAX {
        errors.push(Error::too_long(path, FIELD_MANAGER_MAX));
    }
    for (position, letter) in manager.char_indices() {
        if !is_printable(letter) {
            let code = u32::from(letter);
            let detail = format!("invalid character U+{code:04X} (at position {position})");
            errors.push(Error::invalid(path, manager, detail));
        }
    }
    errors
}

/// Letters, marks, numbers, punctuation, symbols and the space; Rust's debug form
/// writes all else as an escape.
fn is_printable(letter: char) -> bool {
    let shown = format!("{:?}", format!("a{letter}"));
    !letter.is_ascii_control() && !shown.contains("\\u{")
}

fn validate_managed_fields(entries: &[Value], path: &Path) -> Errors {
    let mut errors = Errors::new();
    for (index, entry) in entries.iter().enumerate() {
        let at = path.index(index);
        let operation = member(entry, "operation");
        if operation != "Apply" && operation != "Update" {
            let detail = "must be `Apply` or `Update`";
            errors.push(Error::invalid(&at.child("operation"), operation, detail));
        }
        let fields_type = member(entry, "fieldsType");
        if !fields_type.is_empty() && fields_type != "FieldsV1" {
            let detail = "must be `FieldsV1`";
            errors.push(Error::invalid(&at.child("fieldsType"), fields_type, detail));
        }
        errors.extend(validate_field_manager(member(entry, "manager"), &at.child("manager")));
        if member(entry, "subresource").len() > SUBRESOURCE_MAX {
            errors.push(Error::too_long(&at.child("subresource"), SUBRESOURCE_MAX));
        }
    }
    errors
}

fn immutable(path: &Path, value: Value) -> Error {
    Error::invalid(path, value, "field is immutable")
}

fn invalid_each(path: &Path, value: &str, messages: Vec<String>) -> Errors {
    messages.into_iter().map(|message| Error::invalid(path, value, message)).collect()
}

fn text<'a>(meta: &'a Map<String, Value>, field: &str) -> &'a str {
    meta.get(field).and_then(Value::as_str).unwrap_or("")
}

fn member<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}

fn integer(meta: &Map<String, Value>, field: &str) -> i64 {
    meta.get(field).and_then(Value::as_i64).unwrap_or(0)
}

fn list<'a>(meta: &'a Map<String, Value>, field: &str) -> &'a [Value] {
    meta.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
