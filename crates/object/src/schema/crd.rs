//! A CRD version's `openAPIV3Schema` becomes a [`Schema`], or the list of what
//! kube-apiserver would refuse in it.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::format::TextFormat;
use super::node::{Arena, Checks, Data, Id, Kind, ListType, MapType, Pattern, Schema, Values};
use super::pruning;
use super::structural::{self, Raw};
use super::{rules, standard, validation};
use crate::field::{Error, Errors, Gathered, Path};

impl Schema {
    /// Reads the schema of a CRD version. `path` is where it stands in the CRD, such
    /// as `spec.validation.openAPIV3Schema`.
    ///
    /// # Errors
    ///
    /// All that kube-apiserver refuses in a schema at the creation of a CRD, with its
    /// paths and messages, and rules that call functions which are not supported
    /// here.
    pub fn from_crd(schema: &Value, path: &Path) -> Result<Self, Errors> {
        let mut errors = Gathered::default();
        shape(schema, path, 0, &mut errors);
        rules::check_amount(schema, path, &mut errors);
        let Some(raw) = Raw::of(schema).filter(|_| errors.is_empty()) else {
            return Err(errors.into_list());
        };
        if raw.flag("nullable") {
            let at = path.child("nullable");
            errors.push(Error::forbidden(&at, "nullable cannot be true at the root"));
        }
        let mut arena = Arena::default();
        let root = read(raw, &mut arena);
        arena.at_mut(root).embedded = true;
        arena.summarise();
        let patterns = std::mem::take(&mut arena.patterns);
        let built = Self { arena: Arc::new(arena), root };

        let unsupported = unsupported(schema);
        let mut faults = Gathered::default();
        if unsupported.is_none() {
            faults.extend(structural::check(raw, path, &patterns));
            if faults.is_empty() {
                check_defaults(&built, path, false, &mut faults);
            }
        }
        let sound = unsupported.is_none() && faults.is_empty();
        errors.extend(faults.into_list());
        errors.extend(standard::check(raw, path, sound));
        if errors.is_empty()
            && let Some(why) = unsupported
        {
            errors.push(Error::invalid(path, "", why));
        }
        if errors.is_empty() { Ok(built) } else { Err(errors.into_list()) }
    }
}

/// What the root of a schema may not state when the status subresource is on,
/// because status is then validated by `properties.status` alone.
#[must_use]
pub fn status_root_errors(schema: &Value, path: &Path) -> Errors {
    const ALLOWED: [(&str, &str); 22] = [
        ("description", "Description"),
        ("type", "Type"),
        ("format", "Format"),
        ("title", "Title"),
        ("maximum", "Maximum"),
        ("exclusiveMaximum", "ExclusiveMaximum"),
        ("minimum", "Minimum"),
        ("exclusiveMinimum", "ExclusiveMinimum"),
        ("maxLength", "MaxLength"),
        ("minLength", "MinLength"),
        ("pattern", "Pattern"),
        ("maxItems", "MaxItems"),
        ("minItems", "MinItems"),
        ("uniqueItems", "UniqueItems"),
        ("multipleOf", "MultipleOf"),
        ("required", "Required"),
        ("items", "Items"),
        ("properties", "Properties"),
        ("externalDocs", "ExternalDocs"),
        ("example", "Example"),
        ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
        ("x-kubernetes-validations", "XValidations"),
    ];
    let Some(map) = schema.as_object() else { return Errors::new() };
    if let Some(kind) = map.get("type").and_then(Value::as_str)
        && !kind.is_empty()
        && kind != "object"
    {
        let why = "only \"object\" is allowed as the type at the root of the schema if the status \
                   subresource is enabled";
        return vec![Error::invalid(&path.child("type"), kind, why)];
    }
    let stated = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    let known = |key: &str| ALLOWED.iter().any(|(allowed, _)| *allowed == key);
    if map.iter().all(|(key, value)| known(key) || !stated(value)) {
        return Errors::new();
    }
    let names: Vec<&str> = ALLOWED.iter().map(|(_, name)| *name).collect();
    let why = format!(
        "only [{}] fields are allowed at the root of the schema if the status subresource is \
         enabled",
        names.join(" ")
    );
    vec![Error::invalid(path, schema.clone(), why)]
}

/// What a keyword of a schema must look like in JSON.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Text,
    Flag,
    Number,
    Whole,
    Texts,
    List,
    Rules,
    Schema,
    Schemas,
    SchemaMap,
    SchemaOrList,
    SchemaOrFlag,
}

fn shape_of(keyword: &str) -> Option<Shape> {
    Some(match keyword {
        "type"
        | "format"
        | "title"
        | "description"
        | "pattern"
        | "id"
        | "$schema"
        | "$ref"
        | "x-kubernetes-list-type"
        | "x-kubernetes-map-type" => Shape::Text,
        "nullable"
        | "exclusiveMinimum"
        | "exclusiveMaximum"
        | "uniqueItems"
        | "x-kubernetes-preserve-unknown-fields"
        | "x-kubernetes-embedded-resource"
        | "x-kubernetes-int-or-string" => Shape::Flag,
        "minimum" | "maximum" | "multipleOf" => Shape::Number,
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            Shape::Whole
        }
        "required" | "x-kubernetes-list-map-keys" => Shape::Texts,
        "enum" => Shape::List,
        "x-kubernetes-validations" => Shape::Rules,
        "not" => Shape::Schema,
        "allOf" | "anyOf" | "oneOf" => Shape::Schemas,
        "properties" | "patternProperties" | "definitions" => Shape::SchemaMap,
        "items" => Shape::SchemaOrList,
        "additionalProperties" | "additionalItems" => Shape::SchemaOrFlag,
        _ => return None,
    })
}

/// How long the path to a schema may be: the checks make the path of every schema below it.
const PATH_BYTES_MAX: usize = 4 * 1024;

/// Refuses a schema whose keywords hold JSON of the wrong type, or that nests beyond
/// the bound: the checks after this one may take both for granted.
fn shape(schema: &Value, path: &Path, depth: usize, errors: &mut Gathered) {
    if errors.is_full() {
        return;
    }
    if depth > super::DEPTH_MAX / 4 {
        let why = format!("schemas may nest at most {} deep", super::DEPTH_MAX / 4);
        errors.push(Error::forbidden(path, why));
        return;
    }
    if path.as_str().len() > PATH_BYTES_MAX {
        let why = format!("the path to a schema may have at most {PATH_BYTES_MAX} bytes");
        errors.push(Error::forbidden(path, why));
        return;
    }
    let Value::Object(map) = schema else {
        if !schema.is_null() {
            errors.push(wrong(path, schema, "a schema object"));
        }
        return;
    };
    for (keyword, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        if let Some(shape) = shape_of(keyword) {
            keyword_shape(shape, value, &path.child(keyword), depth, errors);
        }
    }
}

fn wrong(path: &Path, value: &Value, wanted: &str) -> Error {
    Error::type_invalid(path, value.clone(), format!("must be {wanted}"))
}

fn keyword_shape(wanted: Shape, value: &Value, path: &Path, depth: usize, errors: &mut Gathered) {
    let simple = |holds: bool, wanted: &str| (!holds).then(|| wrong(path, value, wanted));
    match (wanted, value) {
        (Shape::Text, _) => errors.extend(simple(value.is_string(), "a string")),
        (Shape::Flag, _) => errors.extend(simple(value.is_boolean(), "a boolean")),
        (Shape::Number, _) => errors.extend(simple(value.is_number(), "a number")),
        (Shape::Whole, _) => errors.extend(simple(value.is_i64(), "an integer")),
        (Shape::Texts, _) => {
            let texts = value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
            errors.extend(simple(texts, "a list of strings"));
        }
        (Shape::List, _) => errors.extend(simple(value.is_array(), "a list")),
        (Shape::Rules, Value::Array(rules)) => {
            for (at, rule) in rules.iter().enumerate() {
                rule_shape(rule, &path.index(at), errors);
            }
        }
        (Shape::SchemaOrFlag, Value::Bool(_)) => {}
        (Shape::Schema | Shape::SchemaOrList | Shape::SchemaOrFlag, Value::Object(_)) => {
            shape(value, path, depth + 1, errors);
        }
        (Shape::Schemas | Shape::SchemaOrList, Value::Array(list)) => {
            for (at, inner) in list.iter().enumerate() {
                shape(inner, &path.index(at), depth + 1, errors);
            }
        }
        (Shape::SchemaMap, Value::Object(map)) => {
            for (name, inner) in map {
                shape(inner, &path.key(name), depth + 1, errors);
            }
        }
        (Shape::Rules | Shape::Schemas, _) => errors.push(wrong(path, value, "a list")),
        (Shape::Schema | Shape::SchemaOrList | Shape::SchemaOrFlag | Shape::SchemaMap, _) => {
            errors.push(wrong(path, value, "an object"));
        }
    }
}

fn rule_shape(rule: &Value, path: &Path, errors: &mut Gathered) {
    let Value::Object(map) = rule else {
        errors.push(wrong(path, rule, "an object"));
        return;
    };
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        let wanted = match key.as_str() {
            "rule" | "message" | "messageExpression" | "reason" | "fieldPath"
                if !value.is_string() =>
            {
                "a string"
            }
            "optionalOldSelf" if !value.is_boolean() => "a boolean",
            _ => continue,
        };
        errors.push(wrong(&path.child(key), value, wanted));
    }
}

/// A keyword that has no place in a structural schema, wherever it stands.
fn unsupported(schema: &Value) -> Option<&'static str> {
    const KEYWORDS: [(&str, &str); 7] = [
        ("id", "OpenAPIV3Schema 'id' is not supported"),
        ("$schema", "OpenAPIV3Schema 'schema' is not supported"),
        ("$ref", "OpenAPIV3Schema '$ref' is not supported"),
        ("patternProperties", "OpenAPIV3Schema 'patternProperties' is not supported"),
        ("dependencies", "OpenAPIV3Schema 'dependencies' is not supported"),
        ("additionalItems", "OpenAPIV3Schema 'additionalItems' is not supported"),
        ("definitions", "OpenAPIV3Schema 'definitions' is not supported"),
    ];
    let raw = Raw::of(schema)?;
    for (keyword, why) in KEYWORDS {
        let stated = match raw.stated(keyword) {
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Object(map)) => !map.is_empty() || keyword == "additionalItems",
            other => other.is_some(),
        };
        if stated {
            return Some(why);
        }
    }
    if raw.stated("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        return Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined",
        );
    }
    if !raw.list("items").is_empty() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array");
    }
    let maps = raw.0.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::values);
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| raw.list(key));
    let single = ["items", "additionalProperties", "not"]
        .into_iter()
        .filter_map(|key| raw.stated(key).filter(|value| value.is_object()));
    maps.chain(lists).chain(single).find_map(unsupported)
}

/// Puts `raw` and all below it into `arena`. What is malformed is left out: the
/// checks report it.
fn read(raw: Raw<'_>, arena: &mut Arena) -> Id {
    let fields: Vec<(Box<str>, Id)> =
        raw.properties().map(|(name, property)| (Box::from(name), read(property, arena))).collect();
    let values = match raw.stated("additionalProperties") {
        Some(Value::Bool(true)) => Values::Anything,
        Some(Value::Bool(false)) => Values::Nothing,
        Some(Value::Object(inner)) => Values::Of(read(Raw(inner), arena)),
        _ => Values::Unstated,
    };
    let items = raw.child("items").map(|items| read(items, arena));
    let checks = checks(raw, arena);
    let kind = if raw.int_or_string() { Kind::IntOrString } else { kind(raw.kind()) };
    let format = Some(raw.text("format")).filter(|format| !format.is_empty());
    let data = Data {
        kind,
        format: format.map(Box::from),
        text_format: format.and_then(TextFormat::named),
        nullable: raw.flag("nullable"),
        preserve: raw.preserves(),
        embedded: raw.embeds(),
        fields: fields.into(),
        values,
        items,
        default: raw.stated("default").cloned(),
        list_type: list_type(raw.text("x-kubernetes-list-type")),
        list_map_keys: raw.texts("x-kubernetes-list-map-keys").map(Box::from).collect(),
        map_type: map_type(raw.text("x-kubernetes-map-type")),
        checks,
        rules: rules::compile(raw, &mut arena.patterns).into(),
        ..Data::default()
    };
    arena.push(data)
}

pub(super) fn kind(name: &str) -> Kind {
    match name {
        "object" => Kind::Object,
        "array" => Kind::Array,
        "string" => Kind::String,
        "integer" => Kind::Integer,
        "number" => Kind::Number,
        "boolean" => Kind::Boolean,
        _ => Kind::Any,
    }
}

pub(super) fn list_type(name: &str) -> Option<ListType> {
    match name {
        "atomic" => Some(ListType::Atomic),
        "set" => Some(ListType::Set),
        "map" => Some(ListType::Map),
        _ => None,
    }
}

pub(super) fn map_type(name: &str) -> Option<MapType> {
    match name {
        "atomic" => Some(MapType::Atomic),
        "granular" => Some(MapType::Granular),
        _ => None,
    }
}

/// The limits that `raw` states, if it states any.
pub(super) fn checks(raw: Raw<'_>, arena: &mut Arena) -> Option<Box<Checks>> {
    const KEYWORDS: [&str; 18] = [
        "required",
        "enum",
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "exclusiveMinimum",
    ];
    if !KEYWORDS.iter().any(|key| raw.stated(key).is_some()) {
        return None;
    }
    let number = |key: &str| raw.stated(key).and_then(Value::as_f64);
    let whole = |key: &str| raw.stated(key).and_then(Value::as_i64);
    let pattern = Some(raw.text("pattern")).filter(|pattern| !pattern.is_empty());
    let mut parts = |key: &str| raw.schemas(key).map(|part| read(part, arena)).collect();
    let (all_of, any_of, one_of) = (parts("allOf"), parts("anyOf"), parts("oneOf"));
    let not = raw.child("not").map(|not| read(not, arena));
    Some(Box::new(Checks {
        required: raw.texts("required").map(Box::from).collect(),
        choices: raw.list("enum").into(),
        minimum: number("minimum"),
        exclusive_minimum: raw.flag("exclusiveMinimum"),
        maximum: number("maximum"),
        exclusive_maximum: raw.flag("exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        min_length: whole("minLength"),
        max_length: whole("maxLength"),
        pattern: pattern.and_then(|source| {
            let regex = arena.patterns.compiled(source)?;
            Some(Pattern { source: source.into(), regex })
        }),
        min_items: whole("minItems"),
        max_items: whole("maxItems"),
        unique_items: raw.flag("uniqueItems"),
        min_properties: whole("minProperties"),
        max_properties: whole("maxProperties"),
        all_of,
        any_of,
        one_of,
        not,
    }))
}

/// Every default must hold no unknown field and must be valid itself.
fn check_defaults(schema: &Schema, path: &Path, in_metadata: bool, errors: &mut Gathered) {
    if errors.is_full() {
        return;
    }
    let data = schema.data();
    let in_metadata = in_metadata && !data.embedded;
    if let Some(default) = &data.default {
        check_default(schema, default, &path.child("default"), in_metadata, errors);
    }
    let at = |id: Id| Schema { arena: Arc::clone(&schema.arena), root: id };
    if let Some(items) = data.items {
        check_defaults(&at(items), &path.child("items"), in_metadata, errors);
    }
    for (name, id) in data.fields.iter() {
        let meta = data.embedded && matches!(&**name, "metadata" | "apiVersion" | "kind");
        let path = path.child("properties").key(name);
        check_defaults(&at(*id), &path, in_metadata || meta, errors);
    }
}

fn check_default(
    schema: &Schema,
    default: &Value,
    path: &Path,
    in_metadata: bool,
    errors: &mut Gathered,
) {
    if !in_metadata {
        let mut pruned = default.clone();
        pruning::prune(schema, &mut pruned);
        if pruned != *default {
            let why = "must not have unknown fields";
            errors.push(Error::invalid(path, default.clone(), why));
        }
    }
    let mut faults = super::meta::errors(schema, default, path, true);
    if faults.is_empty() {
        faults = validation::values(schema, default, None, path);
    }
    if faults.is_empty() {
        faults = rules::run(schema, default, Some(default), path, false);
    }
    if faults.is_empty() {
        faults = rules::run(schema, default, None, path, false);
    }
    errors.extend(faults);
}
