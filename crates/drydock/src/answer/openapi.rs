//! OpenAPI v3: the structure of every kind, one document per group and version. Of OpenAPI v2 there is
//! as much as clients need that ask for it.
//!
//! `kubectl explain` walks the schemas; `kubectl apply` and `diff` read merge keys
//! and look whether `PATCH` takes `fieldValidation`. Native kinds come without
//! prose; custom ones with the descriptions of their definitions.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{Answer, Failure, body};
use crate::kinds::{Kind, Registry, Version, group_version, native};

const REFERENCE: &str = "#/components/schemas/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The older form as clients of Go read it.
const OLDER_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The same as they ask for it, by a name that is no media type.
const OLDER_PROTOBUF_ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// `/openapi/v2`: a document of the older form that says nothing of any kind. kubectl reads it before it
/// creates or applies a `List`, and checks by it what it finds there; the rest is the server's to check.
#[must_use]
pub fn older(headers: &HeaderMap) -> Answer {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut accepted = accepted.flat_map(|value| value.split(',')).map(str::trim);
    let (major, minor) = super::discovery::release();
    let (title, version) = ("Kubernetes", format!("{major}.{minor}"));
    let is_protobuf =
        |one: &str| one.starts_with(OLDER_PROTOBUF_ASKED) || one.starts_with(OLDER_PROTOBUF);
    match accepted.any(is_protobuf) {
        true => {
            let info = [field(1, title.as_bytes()), field(2, version.as_bytes())].concat();
            let document = [field(1, b"2.0"), field(2, &info), field(8, &[])].concat();
            let content_type = HeaderValue::from_static(OLDER_PROTOBUF);
            body::typed(StatusCode::OK, content_type, Bytes::from(document).into())
        }
        false => {
            let info = json!({"title": title, "version": version});
            body::value(StatusCode::OK, &json!({"swagger": "2.0", "info": info, "paths": {}}))
        }
    }
}

/// A field of a protobuf message with these bytes, of which there are fewer than 128.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    const OF_BYTES: u8 = 2;
    let length = u8::try_from(bytes.len()).unwrap_or_default();
    let mut field = vec![(number << 3) | OF_BYTES, length];
    field.extend_from_slice(bytes);
    field
}

/// `/openapi/v3`: where each document is. The hash lets clients keep a document.
#[must_use]
pub fn index(registry: &Registry) -> Answer {
    let mut paths = Map::new();
    let native = native::openapi_definitions();
    for (group, versions) in registry.groups() {
        for version in versions {
            let name = match group.as_str() {
                "" => format!("api/{version}"),
                group => format!("apis/{group}/{version}"),
            };
            let hash =
                Sha256::digest(object::json::encode(&build(registry, &native, group, version)));
            let hash: String = hash.iter().map(|byte| format!("{byte:02X}")).collect();
            let url = format!("/openapi/v3/{name}?hash={hash}");
            paths.insert(name, json!({"serverRelativeURL": url}));
        }
    }
    body::value(StatusCode::OK, &json!({"paths": paths}))
}

/// One document.
///
/// # Errors
/// When there is no such group and version.
pub fn document(registry: &Registry, group: &str, version: &str) -> Result<Answer, Failure> {
    let mut groups = registry.groups().iter();
    if !groups
        .any(|(name, versions)| name == group && versions.iter().any(|known| known == version))
    {
        return Err(Failure::no_such_path());
    }
    let native = native::openapi_definitions();
    Ok(body::value(StatusCode::OK, &build(registry, &native, group, version)))
}

fn build(registry: &Registry, native: &Map<String, Value>, group: &str, version: &str) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let mut wanted = BTreeSet::new();
    let kinds = registry.kinds().filter(|kind| kind.group == group);
    for kind in kinds {
        let Some(offered) = kind.versions.iter().find(|offered| offered.name == version) else {
            continue;
        };
        let schema = match &offered.openapi {
            Some(raw) => custom_schemas(kind, offered, raw, &mut schemas, &mut wanted),
            None => native_name(native, group, version, &kind.names.kind),
        };
        wanted.insert(schema.clone());
        add_paths(kind, offered, &schema, &mut paths);
    }
    add_reachable(native, &mut schemas, wanted);
    let (major, minor) = super::discovery::release();
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": format!("{major}.{minor}")},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// The name under which the native definitions keep a kind.
fn native_name(native: &Map<String, Value>, group: &str, version: &str, kind: &str) -> String {
    let wanted = json!({"group": group, "kind": kind, "version": version});
    let found = native.iter().find(|(_, definition)| {
        let kinds = definition["x-kubernetes-group-version-kind"].as_array();
        kinds.is_some_and(|kinds| kinds.contains(&wanted) && kinds.len() == 1)
    });
    found.map(|(name, _)| name.clone()).unwrap_or_default()
}

fn custom_schemas(
    kind: &Kind,
    version: &Version,
    raw: &[u8],
    schemas: &mut Map<String, Value>,
    wanted: &mut BTreeSet<String>,
) -> String {
    let mut parts: Vec<&str> = kind.group.split('.').collect();
    parts.reverse();
    let name = format!("{}.{}.{}", parts.join("."), version.name, kind.names.kind);
    let list = format!("{}.{}.{}", parts.join("."), version.name, kind.names.list_kind);
    let identity =
        |name: &str| json!([{"group": kind.group, "kind": name, "version": version.name}]);
    let mut schema: Value = serde_json::from_slice(raw).expect("a schema was encoded by us");
    schema["properties"]["apiVersion"] = json!({"type": "string"});
    schema["properties"]["kind"] = json!({"type": "string"});
    schema["properties"]["metadata"] = reference(OBJECT_META);
    schema["x-kubernetes-group-version-kind"] = identity(&kind.names.kind);
    schemas.insert(name.clone(), schema);
    schemas.insert(
        list,
        json!({
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": reference(LIST_META),
                "items": {"type": "array", "items": reference(&name)},
            },
            "x-kubernetes-group-version-kind": identity(&kind.names.list_kind),
        }),
    );
    wanted.extend([OBJECT_META.to_owned(), LIST_META.to_owned()]);
    name
}

fn reference(name: &str) -> Value {
    json!({"allOf": [{"$ref": format!("{REFERENCE}{name}")}]})
}

fn add_paths(kind: &Kind, version: &Version, schema: &str, paths: &mut Map<String, Value>) {
    let root = match kind.group.as_str() {
        "" => format!("/api/{}", version.name),
        _ => format!("/apis/{}", group_version(&kind.group, &version.name)),
    };
    let place =
        if kind.namespaced { format!("{root}/namespaces/{{namespace}}") } else { root.clone() };
    let collection = format!("{place}/{}", kind.names.plural);
    let operations = [
        (collection.clone(), "get", "list", "list"),
        (collection.clone(), "post", "create", "post"),
        (collection.clone(), "delete", "deletecollection", "deletecollection"),
        (format!("{collection}/{{name}}"), "get", "get", "get"),
        (format!("{collection}/{{name}}"), "put", "update", "put"),
        (format!("{collection}/{{name}}"), "patch", "patch", "patch"),
        (format!("{collection}/{{name}}"), "delete", "delete", "delete"),
    ];
    for (path, method, verb, action) in operations {
        if version.verbs.iter().any(|offered| offered == verb) {
            let entry = paths.entry(path).or_insert_with(|| json!({}));
            entry[method] = operation(kind, version, schema, method, action);
        }
    }
    if kind.namespaced && version.verbs.iter().any(|offered| offered == "list") {
        let everywhere = format!("{root}/{}", kind.names.plural);
        paths.insert(everywhere, json!({"get": operation(kind, version, schema, "get", "list")}));
    }
}

fn operation(kind: &Kind, version: &Version, schema: &str, method: &str, action: &str) -> Value {
    let mut operation = json!({
        "operationId": format!("{action}{}{}", version.name, kind.names.kind),
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": kind.group, "kind": kind.names.kind, "version": version.name,
        },
        "responses": {"200": {
            "description": "OK",
            "content": {"application/json": {"schema": {"$ref": format!("{REFERENCE}{schema}")}}},
        }},
    });
    if matches!(method, "post" | "put" | "patch") {
        let parameters = ["dryRun", "fieldManager", "fieldValidation"].map(|name| {
            json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}})
        });
        operation["parameters"] = parameters.to_vec().into();
    }
    operation
}

/// Adds the native definitions in `wanted` and all they refer to.
fn add_reachable(
    native: &Map<String, Value>,
    schemas: &mut Map<String, Value>,
    wanted: BTreeSet<String>,
) {
    let mut open: Vec<String> = wanted.into_iter().collect();
    while let Some(name) = open.pop() {
        if schemas.contains_key(&name) {
            continue;
        }
        let Some(definition) = native.get(&name) else { continue };
        references(definition, &mut open);
        schemas.insert(name, definition.clone());
    }
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, entry) in map {
                match entry.as_str().and_then(|text| text.strip_prefix(REFERENCE)) {
                    Some(name) if key == "$ref" => found.push(name.to_owned()),
                    _ => references(entry, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|entry| references(entry, found)),
        _ => {}
    }
}
