//! The rules that make a schema structural: every value has a type that is stated
//! outside of `allOf`, `anyOf`, `oneOf` and `not`, and what those say refers to
//! fields that exist.
//!
//! The checks read the raw JSON of the schema, because they are about what was
//! written, not about what it means.

use serde_json::{Map, Value};

use super::pattern::Patterns;
use crate::field::{Error, Errors, Gathered, Path};

/// The raw JSON of one schema, with the zero value for what is not there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Raw<'a> {
    /// The schema in `value`; null reads as a schema that says nothing.
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        match value {
            Value::Object(map) => Some(Self(map)),
            Value::Null => Some(Self(&EMPTY)),
            _ => None,
        }
    }

    pub(super) fn text(self, key: &str) -> &'a str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn kind(self) -> &'a str {
        self.text("type")
    }

    pub(super) fn flag(self, key: &str) -> bool {
        self.0.get(key).and_then(Value::as_bool).unwrap_or_default()
    }

    /// What `key` holds, where it says something.
    pub(super) fn stated(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn child(self, key: &str) -> Option<Self> {
        match self.stated(key)? {
            Value::Object(map) => Some(Self(map)),
            _ => None,
        }
    }

    pub(super) fn list(self, key: &str) -> &'a [Value] {
        self.0.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(super) fn schemas(self, key: &str) -> impl Iterator<Item = Raw<'a>> {
        self.list(key).iter().filter_map(Raw::of)
    }

    pub(super) fn properties(self) -> impl Iterator<Item = (&'a str, Raw<'a>)> {
        let map = self.0.get("properties").and_then(Value::as_object);
        map.into_iter().flatten().filter_map(|(name, value)| Some((name.as_str(), Raw::of(value)?)))
    }

    pub(super) fn property(self, name: &str) -> Option<Raw<'a>> {
        Raw::of(self.0.get("properties")?.get(name)?)
    }

    pub(super) fn has_properties(self) -> bool {
        self.0.get("properties").and_then(Value::as_object).is_some_and(|map| !map.is_empty())
    }

    pub(super) fn texts(self, key: &str) -> impl Iterator<Item = &'a str> {
        self.list(key).iter().filter_map(Value::as_str)
    }

    pub(super) fn preserves(self) -> bool {
        self.flag("x-kubernetes-preserve-unknown-fields")
    }

    pub(super) fn embeds(self) -> bool {
        self.flag("x-kubernetes-embedded-resource")
    }

    pub(super) fn int_or_string(self) -> bool {
        self.flag("x-kubernetes-int-or-string")
    }

    /// Whether anything but the zero value is stated under one of `keys`.
    fn states_beyond(self, keys: &[&str]) -> bool {
        self.0.iter().any(|(key, value)| !keys.contains(&key.as_str()) && !is_zero(value))
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(_) => false,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What keeps `schema` from being structural, sorted by text as kube-apiserver does.
/// `patterns` are those of the schema.
pub(super) fn check(schema: Raw<'_>, path: &Path, patterns: &Patterns) -> Errors {
    let mut errors = Gathered::default();
    faulty_patterns(schema, path, patterns, &mut errors);
    invariants(schema, Level::Root, path, &mut errors);
    completeness(schema, Some(schema), path, path, &mut errors);
    let mut errors = errors.into_list();
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn invariants(schema: Raw<'_>, level: Level, path: &Path, errors: &mut Gathered) {
    if errors.is_full() {
        return;
    }
    let items = schema.child("items");
    if schema.kind() == "array" && items.is_none() {
        errors.push(Error::required(&path.child("items"), "must be specified"));
    }
    if let Some(items) = items {
        invariants(items, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in schema.properties() {
        invariants(property, Level::Field, &path.child("properties").key(name), errors);
    }
    let values = path.child("additionalProperties");
    if schema.stated("additionalProperties").is_some() {
        if level == Level::Root {
            errors.push(Error::forbidden(&values, "must not be used at the root"));
        }
        if let Some(inner) = schema.child("additionalProperties") {
            invariants(inner, Level::Field, &values, errors);
        }
        if schema.embeds() {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            errors.push(Error::forbidden(&values, why));
        }
    }
    extensions(schema, path, errors);
    junctors(schema, Skip::of(schema), path, errors);
    stated_type(schema, level, path, errors);
    resource_fields(schema, level, path, errors);
}

fn extensions(schema: Raw<'_>, path: &Path, errors: &mut Gathered) {
    if !schema.int_or_string() {
        return;
    }
    let why = "must be false if x-kubernetes-int-or-string is true";
    for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if schema.flag(key) {
            errors.push(Error::invalid(&path.child(key), true, why));
        }
    }
}

fn stated_type(schema: Raw<'_>, level: Level, path: &Path, errors: &mut Gathered) {
    let kind = schema.kind();
    let at = path.child("type");
    if schema.embeds() && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            Error::required(&at, why)
        } else {
            Error::invalid(&at, kind, why)
        });
    } else if kind.is_empty() && !schema.int_or_string() && !schema.preserves() {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(Error::required(&at, why));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(Error::invalid(&at, kind, "must be object at the root"));
    }
}

fn resource_fields(schema: Raw<'_>, level: Level, path: &Path, errors: &mut Gathered) {
    let is_resource = level == Level::Root || schema.embeds();
    let properties = path.child("properties");
    for name in ["kind", "apiVersion"] {
        if let Some(property) = schema.property(name)
            && is_resource
            && property.kind() != "string"
        {
            let at = properties.key(name).child("type");
            errors.push(Error::invalid(&at, property.kind(), "must be string"));
        }
    }
    if let Some(metadata) = schema.property("metadata") {
        let at = properties.key("metadata");
        if is_resource && metadata.kind() != "object" {
            errors.push(Error::invalid(&at.child("type"), metadata.kind(), "must be object"));
        }
        let names_only =
            metadata.properties().all(|(name, _)| matches!(name, "name" | "generateName"));
        let ignored = ["type", "default", "properties", "externalDocs", "example"];
        if level == Level::Root && (!names_only || metadata.states_beyond(&ignored)) {
            let why = "must not specify anything other than name and generateName, but metadata \
                       is implicitly specified";
            errors.push(Error::forbidden(&at, why));
        }
    }
    if schema.embeds() && !schema.preserves() && !schema.has_properties() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(&properties, why));
    }
}

/// Which `anyOf` may name types: the two ways to write an integer or a string.
#[derive(Debug, Clone, Copy, Default)]
struct Skip {
    any_of: bool,
    first_all_of: bool,
}

impl Skip {
    fn of(schema: Raw<'_>) -> Self {
        let first = schema.schemas("allOf").next();
        Self {
            any_of: is_integer_or_string(schema),
            first_all_of: first.is_some_and(is_integer_or_string),
        }
    }
}

fn is_integer_or_string(schema: Raw<'_>) -> bool {
    let choices = schema.list("anyOf");
    choices.len() == 2
        && schema.schemas("anyOf").zip(["integer", "string"]).all(|(choice, kind)| {
            choice.kind() == kind && !choice.states_beyond(&["type", "externalDocs", "example"])
        })
}

fn junctors(schema: Raw<'_>, skip: Skip, path: &Path, errors: &mut Gathered) {
    if !skip.any_of {
        for (at, choice) in schema.schemas("anyOf").enumerate() {
            nested(choice, false, &path.child("anyOf").index(at), errors);
        }
    }
    for (at, part) in schema.schemas("allOf").enumerate() {
        let skip = skip.first_all_of && at == 0;
        nested(part, skip, &path.child("allOf").index(at), errors);
    }
    for (at, choice) in schema.schemas("oneOf").enumerate() {
        nested(choice, false, &path.child("oneOf").index(at), errors);
    }
    if let Some(not) = schema.child("not") {
        nested(not, false, &path.child("not"), errors);
    }
}

fn faulty_patterns(schema: Raw<'_>, path: &Path, patterns: &Patterns, errors: &mut Gathered) {
    let source = schema.text("pattern");
    if let Some(why) = patterns.fault(source) {
        errors.push(Error::invalid(&path.child("pattern"), source, why));
    }
    for key in ["items", "additionalProperties", "not"] {
        if let Some(inner) = schema.child(key) {
            faulty_patterns(inner, &path.child(key), patterns, errors);
        }
    }
    for key in ["anyOf", "allOf", "oneOf"] {
        for (at, part) in schema.schemas(key).enumerate() {
            faulty_patterns(part, &path.child(key).index(at), patterns, errors);
        }
    }
    for (name, property) in schema.properties() {
        faulty_patterns(property, &path.child("properties").key(name), patterns, errors);
    }
}

fn nested(schema: Raw<'_>, skip_any_of: bool, path: &Path, errors: &mut Gathered) {
    junctors(schema, Skip { any_of: skip_any_of, first_all_of: false }, path, errors);
    if let Some(items) = schema.child("items") {
        nested(items, false, &path.child("items"), errors);
    }
    for (name, property) in schema.properties() {
        nested(property, false, &path.child("properties").key(name), errors);
    }
    let mut forbid = |key: &str, why: &str| {
        errors.push(Error::forbidden(&path.child(key), format!("must be {why} to be structural")));
    };
    for key in ["type", "title", "description"] {
        if !schema.text(key).is_empty() {
            forbid(key, "empty");
        }
    }
    if schema.stated("default").is_some() {
        forbid("default", "undefined");
    }
    if schema.stated("additionalProperties").is_some_and(|values| *values != Value::Bool(false)) {
        forbid("additionalProperties", "undefined");
    }
    for key in [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        if schema.flag(key) {
            forbid(key, "false");
        }
    }
    for key in ["x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
        if !schema.list(key).is_empty() {
            forbid(key, "empty");
        }
    }
    for key in ["x-kubernetes-list-type", "x-kubernetes-map-type"] {
        if schema.stated(key).is_some() {
            forbid(key, "undefined");
        }
    }
    if schema.property("metadata").is_some() {
        let at = path.child("properties").key("metadata");
        errors.push(Error::forbidden(&at, "must not be specified in a nested context"));
    }
}

/// Everything that a junctor in `said` refers to must be declared in `shape`.
fn completeness(
    said: Raw<'_>,
    shape: Option<Raw<'_>>,
    shape_path: &Path,
    path: &Path,
    errors: &mut Gathered,
) {
    if let Some(not) = said.child("not") {
        complete(not, shape, shape_path, &path.child("not"), errors);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (at, part) in said.schemas(key).enumerate() {
            complete(part, shape, shape_path, &path.child(key).index(at), errors);
        }
    }
}

fn complete(
    said: Raw<'_>,
    shape: Option<Raw<'_>>,
    shape_path: &Path,
    path: &Path,
    errors: &mut Gathered,
) {
    if errors.is_full() {
        return;
    }
    let Some(shape) = shape else {
        let why = format!("because it is defined in {path}");
        errors.push(Error::required(shape_path, why));
        return;
    };
    completeness(said, Some(shape), shape_path, path, errors);
    if let Some(items) = said.child("items") {
        let (at, said_at) = (shape_path.child("items"), path.child("items"));
        complete(items, shape.child("items"), &at, &said_at, errors);
    }
    for (name, property) in said.properties() {
        let at = shape_path.child("properties").key(name);
        let said_at = path.child("properties").key(name);
        complete(property, shape.property(name), &at, &said_at, errors);
    }
}
