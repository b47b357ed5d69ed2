//! What the server keeps true of every object's metadata.

use object::field::{Errors, Path};
use object::names::meta::{self, Scope};
use object::names::{self};
use object::time::Time;
use serde_json::{Map, Value};

use crate::kinds::{Kind, NameRule};
use crate::server::Server;

/// Fields of the metadata that only the server sets.
const SYSTEM_FIELDS: [&str; 8] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
    "managedFields",
];

/// Those of them that a new object keeps as given: only kinds that count generations set the
/// first, and the store refuses the second.
const KEPT_AT_CREATION: [&str; 2] = ["generation", "resourceVersion"];

/// Sets what every new object gets.
pub fn begin(server: &Server, kind: &Kind, namespace: Option<&str>, object: &mut Value) {
    let now = Time::from(server.env().now());
    let uid = server.env().uid();
    let metadata = metadata_mut(object);
    for field in SYSTEM_FIELDS.iter().filter(|field| !KEPT_AT_CREATION.contains(field)) {
        metadata.remove(*field);
    }
    metadata.insert("uid".to_owned(), uid.into());
    metadata.insert("creationTimestamp".to_owned(), now.to_string().into());
    if kind.habits.generation {
        metadata.insert("generation".to_owned(), 1.into());
    }
    match namespace {
        Some(namespace) => metadata.insert("namespace".to_owned(), namespace.into()),
        None => metadata.remove("namespace"),
    };
    let named = metadata.get("name").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    let base = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
    if !named && !base.is_empty() {
        let name = names::generated_name(base, &server.env().suffix());
        metadata.insert("name".to_owned(), name.into());
    } else if !named && kind.strategy.gives_names() {
        metadata.insert("name".to_owned(), server.env().uid().into());
    }
}

/// Carries over what an update cannot change.
pub fn carry_over(object: &mut Value, old: &Value) {
    let empty = Map::new();
    let old = old.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let metadata = metadata_mut(object);
    // Another uid is refused later, as another object.
    let uid = metadata.get("uid").filter(|uid| uid.as_str().is_some_and(|uid| !uid.is_empty()));
    let uid = uid.cloned();
    for field in SYSTEM_FIELDS.into_iter().chain(["name", "namespace"]) {
        match old.get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
    if let Some(uid) = uid {
        metadata.insert("uid".to_owned(), uid);
    }
}

/// The metadata, made where there is none.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("it was made an object just now")
}

/// What is wrong with the metadata of a new object.
pub fn validate(kind: &Kind, object: &Value) -> Errors {
    let rule: names::NameRule = match kind.habits.name_rule {
        NameRule::Subdomain => names::name_is_dns_subdomain,
        NameRule::Label => names::name_is_dns_label,
        NameRule::Label1035 => names::name_is_dns1035_label,
        NameRule::PathSegment => names::name_is_path_segment,
    };
    let (metadata, at) = (metadata(object), Path::new("metadata"));
    let mut errors = meta::validate_object_meta(&metadata, scope(kind), rule, &at);
    if kind.habits.known_finalizers {
        errors.extend(kube_finalizers(&metadata, &at));
    }
    errors
}

/// What the server finds wrong with the metadata of a changed object of any kind.
pub fn validate_change_of_any(kind: &Kind, object: &Value, old: &Value) -> Errors {
    let (metadata, old, at) = (metadata(object), metadata(old), Path::new("metadata"));
    let rule = names::name_is_path_segment;
    let mut errors = meta::validate_object_meta(&metadata, scope(kind), rule, &at);
    errors.extend(meta::validate_object_meta_update(&metadata, &old, &at));
    errors
}

/// What the kind itself finds wrong with the metadata of a changed object. It looks at what has
/// been looked at for any kind, and kube-apiserver tells what both find.
pub fn validate_change(kind: &Kind, object: &Value, old: &Value) -> Errors {
    let (new, old, at) = (metadata(object), metadata(old), Path::new("metadata"));
    let mut errors = meta::validate_object_meta_update(&new, &old, &at);
    if kind.habits.known_finalizers {
        errors.extend(kube_finalizers(&new, &at));
    }
    if kind.habits.metadata_checked_anew {
        errors.extend(validate(kind, object));
    }
    errors
}

fn scope(kind: &Kind) -> Scope {
    if kind.namespaced { Scope::Namespaced } else { Scope::Cluster }
}

fn metadata(object: &Value) -> Map<String, Value> {
    object.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Native kinds take no finalizer without a domain but those of Kubernetes itself.
fn kube_finalizers(metadata: &Map<String, Value>, at: &Path) -> Errors {
    let finalizers = metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten();
    let named = finalizers.enumerate().filter_map(|(index, name)| Some((index, name.as_str()?)));
    named
        .flat_map(|(index, name)| {
            meta::validate_kube_finalizer(name, &at.child("finalizers").index(index))
        })
        .collect()
}

/// Whether something still has to happen before the object may go.
pub fn has_finalizers(object: &Value) -> bool {
    let finalizers = object.get("metadata").and_then(|metadata| metadata.get("finalizers"));
    finalizers.and_then(Value::as_array).is_some_and(|list| !list.is_empty())
}

/// Whether the object is marked as deleted.
pub fn is_deleting(object: &Value) -> bool {
    object.get("metadata").is_some_and(|metadata| {
        metadata.get("deletionTimestamp").is_some_and(|value| !value.is_null())
    })
}

/// Counts a change of the spec.
pub fn bump_generation(object: &mut Value) {
    let metadata = metadata_mut(object);
    let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
    metadata.insert("generation".to_owned(), (generation + 1).into());
}
