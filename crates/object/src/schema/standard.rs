//! The rules that kube-apiserver holds every part of a CRD's schema to beside being
//! structural: keywords that are not supported, what list and map types need, and
//! the form of validation rules.

use serde_json::{Value, json};

use super::rules;
use super::structural::Raw;
use super::validation::unsupported;
use crate::field::{Error, Errors, Gathered, Path};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// What the way down to a schema forbids in it.
#[derive(Debug, Clone, Default)]
struct Context {
    /// Why a default is not allowed here.
    no_default: Option<String>,
    in_metadata: bool,
    /// The nearest list or map whose elements have no identity over time.
    uncorrelated: Option<Path>,
}

/// The faults of a schema, those of rules apart: rules are looked at only where the
/// schema around them is sound.
#[derive(Debug, Default)]
struct Found {
    schema: Gathered,
    rules: Gathered,
}

impl Found {
    fn add(&mut self, other: Self) {
        self.schema.extend(other.schema.into_list());
        self.rules.extend(other.rules.into_list());
    }
}

/// All faults of `schema`. Rules are compiled only where the schema is structural.
pub(super) fn check(schema: Raw<'_>, path: &Path, structural: bool) -> Errors {
    let mut found = visit(schema, path, &Context::default(), true, structural);
    found.schema.extend(found.rules.into_list());
    found.schema.into_list()
}

fn visit(schema: Raw<'_>, path: &Path, context: &Context, root: bool, rules: bool) -> Found {
    let mut found = Found::default();
    keywords(schema, path, context, &mut found.schema);
    children(schema, path, context, root, rules, &mut found);
    if schema.stated("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = path.child("x-kubernetes-preserve-unknown-fields");
        found.schema.push(Error::invalid(&at, false, "must be true or undefined"));
    }
    map_type(schema, path, &mut found.schema);
    list_type(schema, path, &mut found.schema);
    list_map_keys(schema, path, &mut found.schema);
    keyed_items(schema, path, &mut found.schema);
    rules::check_form(schema, path, &mut found.schema);
    if rules && found.schema.is_empty() {
        let uncorrelated = context.uncorrelated.as_ref();
        rules::check_source(schema, path, root, uncorrelated, &mut found.rules);
    }
    found
}

fn keywords(schema: Raw<'_>, path: &Path, context: &Context, errors: &mut Gathered) {
    let kind = schema.kind();
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(Error::not_supported(&path.child("type"), kind, &TYPES));
    }
    if schema.stated("default").is_some()
        && let Some(reason) = &context.no_default
    {
        let why = format!("must not be set {reason}");
        errors.push(Error::forbidden(&path.child("default"), why));
    }
    if !schema.text("id").is_empty() {
        errors.push(Error::forbidden(&path.child("id"), "id is not supported"));
    }
    for key in ["additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        let stated = match schema.stated(key) {
            Some(Value::Object(map)) => {
                !map.is_empty() || matches!(key, "additionalItems" | "dependencies")
            }
            other => other.is_some(),
        };
        if stated {
            errors.push(Error::forbidden(&path.child(key), format!("{key} is not supported")));
        }
    }
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.push(Error::forbidden(&path.child("type"), why));
    }
    if !schema.list("items").is_empty() {
        let why = "items must be a schema object and not an array";
        errors.push(Error::forbidden(&path.child("items"), why));
    }
    if context.in_metadata && schema.embeds() {
        let at = path.child("x-kubernetes-embedded-resource");
        errors.push(Error::forbidden(&at, "must not be used inside of resource meta"));
    }
    if schema.flag("uniqueItems") {
        let why =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(Error::forbidden(&path.child("uniqueItems"), why));
    }
}

fn children(
    schema: Raw<'_>,
    path: &Path,
    context: &Context,
    root: bool,
    rules: bool,
    found: &mut Found,
) {
    if let Some(values) = schema.stated("additionalProperties") {
        let at = path.child("additionalProperties");
        if schema.has_properties() && *values != Value::Bool(true) {
            let why = "additionalProperties and properties are mutual exclusive";
            found.schema.push(Error::forbidden(&at, why));
        }
        if let Some(inner) = schema.child("additionalProperties") {
            let mut context = context.clone();
            if context.in_metadata {
                let why = "inside additionalProperties applying to object metadata";
                context.no_default = Some(why.to_owned());
            }
            found.add(visit(inner, &at, &context, false, rules));
        }
    }
    for (name, property) in schema.properties() {
        let mut context = context.clone();
        let map_type = schema.text("x-kubernetes-map-type");
        if !matches!(map_type, "" | "granular" | "atomic") {
            context.uncorrelated.get_or_insert_with(|| path.clone());
        }
        if (root || schema.embeds()) && matches!(name, "metadata" | "kind" | "apiVersion") {
            context.in_metadata = true;
            if root {
                context.no_default = Some(format!("in top-level {name}"));
            }
        }
        let at = path.child("properties").key(name);
        found.add(visit(property, &at, &context, false, rules));
    }
    if let Some(not) = schema.child("not") {
        found.add(visit(not, &path.child("not"), context, false, false));
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (at, part) in schema.schemas(key).enumerate() {
            found.add(visit(part, &path.child(key).index(at), context, false, false));
        }
    }
    if let Some(items) = schema.child("items") {
        let mut context = context.clone();
        if schema.text("x-kubernetes-list-type") != "map" {
            context.uncorrelated.get_or_insert_with(|| path.clone());
        }
        found.add(visit(items, &path.child("items"), &context, false, rules));
    }
}

/// A fault in the type of a schema that another keyword needs to be `wanted`.
fn wrong_type(schema: Raw<'_>, path: &Path, wanted: &str, key: &str) -> Option<Error> {
    let kind = schema.kind();
    if schema.stated(key).is_none() || kind == wanted {
        return None;
    }
    let at = path.child("type");
    let why = format!("must be {wanted} if {key} is specified");
    Some(if kind.is_empty() { Error::required(&at, why) } else { Error::invalid(&at, kind, why) })
}

fn map_type(schema: Raw<'_>, path: &Path, errors: &mut Gathered) {
    let key = "x-kubernetes-map-type";
    errors.extend(wrong_type(schema, path, "object", key));
    if schema.stated(key).is_some() && !matches!(schema.text(key), "atomic" | "granular") {
        let at = path.child(key);
        errors.push(Error::not_supported(&at, schema.text(key), &["atomic", "granular"]));
    }
}

fn list_type(schema: Raw<'_>, path: &Path, errors: &mut Gathered) {
    let key = "x-kubernetes-list-type";
    let list_type = schema.text(key);
    if let Some(error) = wrong_type(schema, path, "array", key) {
        errors.push(error);
    } else if list_type == "set"
        && let Some(items) = schema.child("items")
    {
        // kube-apiserver shows the list type of the item for both, null where it has none.
        let shown = items.stated(key).cloned().unwrap_or_default();
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let at = path.child("items");
        match items.kind() {
            "array" if !matches!(items.text(key), "" | "atomic") => {
                errors.push(Error::invalid(&at.child(key), shown, why));
            }
            "object" if items.text("x-kubernetes-map-type") != "atomic" => {
                errors.push(Error::invalid(&at.child("x-kubernetes-map-type"), shown, why));
            }
            _ => {}
        }
    }
    if schema.stated(key).is_some() && !matches!(list_type, "atomic" | "set" | "map") {
        let known = ["atomic", "set", "map"].map(str::to_owned).into_iter();
        errors.push(unsupported(&path.child(key), list_type.into(), known));
    }
}

/// How many keys may identify an element. An error about one shows all of them.
const LIST_MAP_KEYS_MAX: usize = 100;

fn list_map_keys(schema: Raw<'_>, path: &Path, errors: &mut Gathered) {
    let (keys_name, type_name) = ("x-kubernetes-list-map-keys", "x-kubernetes-list-type");
    let keys: Vec<&str> = schema.texts(keys_name).collect();
    let list_type = schema.text(type_name);
    if !keys.is_empty() && list_type != "map" {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        let at = path.child(type_name);
        errors.push(if schema.stated(type_name).is_none() {
            Error::required(&at, why)
        } else {
            Error::invalid(&at, list_type, why)
        });
    }
    if list_type != "map" {
        return;
    }
    let at = path.child(keys_name);
    if keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        errors.push(Error::required(&at, why));
    }
    let Some(items) = schema.child("items") else {
        let why = "must have a schema if x-kubernetes-list-type is map";
        errors.push(Error::required(&path.child("items"), why));
        return;
    };
    if items.kind() != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        let at = path.child("items").child("type");
        errors.push(Error::invalid(&at, items.kind(), why));
        return;
    }
    if keys.len() > LIST_MAP_KEYS_MAX {
        errors.push(Error::too_many(&at, keys.len(), LIST_MAP_KEYS_MAX));
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        match items.property(key).map(Raw::kind) {
            None => {
                let why = "entries must all be names of item properties";
                errors.push(Error::invalid(&at, json!(keys), why));
            }
            Some("array" | "object") => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let at = path.child("items").child("properties").key(key).child("type");
                errors.push(Error::invalid(&at, items.kind(), why));
            }
            Some(_) => {}
        }
        if keys[..index].contains(key) {
            let why = "must not contain duplicate entries";
            errors.push(Error::invalid(&at, json!(keys), why));
        }
    }
}

/// Elements of a set or map list have an identity, so they and their keys are never
/// null, and a key is never missing.
fn keyed_items(schema: Raw<'_>, path: &Path, errors: &mut Gathered) {
    let list_type = schema.text("x-kubernetes-list-type");
    let Some(items) = schema.child("items") else { return };
    if !matches!(list_type, "set" | "map") {
        return;
    }
    let at = path.child("items");
    if items.flag("nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(Error::forbidden(&at.child("nullable"), why));
    }
    if list_type != "map" {
        return;
    }
    for key in schema.texts("x-kubernetes-list-map-keys") {
        let Some(property) = items.property(key) else { continue };
        let at = at.child("properties").key(key);
        let required = items.texts("required").any(|name| name == key);
        if !required && property.stated("default").is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default \
                       or be a required property";
            errors.push(Error::required(&at.child("default"), why));
        }
        if property.flag("nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(Error::forbidden(&at.child("nullable"), why));
        }
    }
}
