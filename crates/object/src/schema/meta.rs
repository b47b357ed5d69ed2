//! The metadata of every object, for resources that are embedded in others: their
//! schema says nothing of it, but it is checked all the same.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::decode::decode_check;
use super::definitions::Definitions;
use super::node::{Arena, Id, Schema};
use super::trail::Trail;
use crate::field::{Error, Errors, Gathered, Path};

/// The schema of `metadata`.
#[must_use]
pub fn object_meta() -> Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
        let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        Definitions::from_openapi([&document()])
            .ok()
            .and_then(|definitions| definitions.schema(name))
            .expect("the document below defines it")
    });
    SCHEMA.clone()
}

fn document() -> Value {
    let meta = |name: &str| format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}");
    let refer = |name: &str| json!({"$ref": format!("#/components/schemas/{}", meta(name))});
    let text = json!({"type": "string"});
    let flag = json!({"type": "boolean"});
    let whole = json!({"type": "integer", "format": "int64"});
    let texts = json!({"type": "object", "additionalProperties": text});
    json!({"components": {"schemas": {
        meta("Time"): {"type": "string", "format": "date-time"},
        meta("FieldsV1"): {"type": "object"},
        meta("OwnerReference"): {
            "type": "object",
            "properties": {
                "apiVersion": text, "blockOwnerDeletion": flag, "controller": flag,
                "kind": text, "name": text, "uid": text,
            },
        },
        meta("ManagedFieldsEntry"): {
            "type": "object",
            "properties": {
                "apiVersion": text, "fieldsType": text, "fieldsV1": refer("FieldsV1"),
                "manager": text, "operation": text, "subresource": text, "time": refer("Time"),
            },
        },
        meta("ObjectMeta"): {
            "type": "object",
            "properties": {
                "annotations": texts,
                "creationTimestamp": refer("Time"),
                "deletionGracePeriodSeconds": whole,
                "deletionTimestamp": refer("Time"),
                "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set",
                    "x-kubernetes-patch-strategy": "merge"},
                "generateName": text,
                "generation": whole,
                "labels": texts,
                "managedFields": {"type": "array", "items": refer("ManagedFieldsEntry")},
                "name": text,
                "namespace": text,
                "ownerReferences": {"type": "array", "items": refer("OwnerReference"),
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
                    "x-kubernetes-patch-merge-key": "uid",
                    "x-kubernetes-patch-strategy": "merge"},
                "resourceVersion": text,
                "selfLink": text,
                "uid": text,
            },
        },
    }}})
}

/// What is wrong with the type and metadata of embedded resources; `root` says
/// whether the value itself is looked at.
pub(super) fn errors(schema: &Schema, value: &Value, base: &Path, root: bool) -> Errors {
    let mut walk = Walk { arena: &schema.arena, base, errors: Gathered::default() };
    let embedded = root && schema.data().embedded;
    walk.node(schema.root, value, embedded, &Trail::ROOT);
    walk.errors.into_list()
}

/// The first resource, the value itself or one embedded in it, whose type is no text
/// or whose metadata does not decode: what an API server answers with 400 before it
/// looks at anything else.
#[must_use]
pub fn metadata_fault(schema: &Schema, value: &Value) -> Option<Error> {
    let errors = errors(schema, value, &Path::root(), true);
    errors.into_iter().find(|error| {
        error.detail == "must be a string"
            || error.detail.starts_with("json: ")
            || error.detail.starts_with("parsing time")
    })
}

struct Walk<'a> {
    arena: &'a Arena,
    base: &'a Path,
    errors: Gathered,
}

impl Walk<'_> {
    fn node(&mut self, id: Id, value: &Value, embedded: bool, trail: &Trail<'_>) {
        let data = self.arena.at(id);
        if !data.below.embedded || trail.too_deep() || self.errors.is_full() {
            return;
        }
        let below = |id: Id| self.arena.at(id).embedded;
        match value {
            Value::Object(map) => {
                if embedded {
                    resource(map, |field| trail.path(self.base).child(field), &mut self.errors);
                }
                for (key, value) in map {
                    if let Some(id) = data.field(key) {
                        let embedded = below(id);
                        self.node(id, value, embedded, &trail.field(key));
                    } else if let Some(id) = data.value_id() {
                        let embedded = self.arena.at(id).embedded;
                        self.node(id, value, embedded, &trail.key(key));
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = data.items else { return };
                let embedded = below(items);
                for (index, value) in list.iter().enumerate() {
                    self.node(items, value, embedded, &trail.index(index));
                }
            }
            _ => {}
        }
    }
}

/// The faults of one resource. Where a field of it is, is worked out only when it is wrong.
fn resource(map: &Map<String, Value>, at: impl Fn(&str) -> Path, errors: &mut Gathered) {
    for key in ["apiVersion", "kind"] {
        match map.get(key) {
            None => errors.push(Error::required(&at(key), "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(Error::invalid(&at(key), "", "must not be empty"));
            }
            Some(Value::String(text)) => {
                let fault = if key == "kind" { kind_fault(text) } else { version_fault(text) };
                if let Some(why) = fault {
                    errors.push(Error::invalid(&at(key), text.as_str(), why));
                }
            }
            Some(other) => {
                errors.push(Error::invalid(&at(key), other.clone(), "must be a string"));
            }
        }
    }
    if let Some(metadata) = map.get("metadata")
        && let Err(error) = decode_check(&object_meta(), metadata)
    {
        errors.push(Error::invalid(&at("metadata"), metadata.clone(), error.to_string()));
    }
}

fn version_fault(version: &str) -> Option<String> {
    (version.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {version}"))
}

fn kind_fault(kind: &str) -> Option<String> {
    let lower = kind.to_lowercase();
    let bytes = lower.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let well_formed = bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(plain)
        && bytes.iter().all(|byte| plain(byte) || *byte == b'-');
    let mut faults = Vec::new();
    if lower.len() > 63 {
        faults.push("must be no more than 63 bytes".to_owned());
    }
    if !well_formed {
        faults.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character (e.g. \
             'my-name',  or 'abc-123', regex used for validation is \
             '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    let all = faults.join(",");
    (!faults.is_empty()).then(|| format!("may have mixed case, but should otherwise match: {all}"))
}
