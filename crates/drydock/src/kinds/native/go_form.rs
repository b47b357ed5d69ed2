//! How a native object looks after kube-apiserver has read and written it.
//!
//! kube-apiserver decodes into Go structs and encodes them again, so empty fields
//! vanish or appear as each struct says, amounts get their canonical form and times
//! lose their fractions. The structs' word on it is the generated table `fields.txt`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use object::quantity::Quantity;
use object::schema::{Kind, Node, Schema};
use object::time::{MicroTime, Time};
use serde_json::{Map, Value};

use super::FIELDS;

/// How a field looks when it holds nothing.
#[derive(Debug, Clone, PartialEq)]
enum Empty {
    /// It vanishes when it is empty.
    Vanishes,
    /// It vanishes only when it is absent.
    VanishesAbsent,
    /// It is always there; this is what an empty one is written as.
    Stays(Value),
}

type Struct = BTreeMap<&'static str, Empty>;

static STRUCTS: LazyLock<BTreeMap<&'static str, Struct>> = LazyLock::new(|| {
    FIELDS
        .lines()
        .filter_map(|line| line.split_once('\t')?.0.split_once(' '))
        .map(|(name, fields)| {
            let fields: BTreeMap<&str, String> =
                serde_json::from_str(fields).expect("the generated table is well formed");
            (name, fields.into_iter().map(|(field, word)| (field, empty(&word))).collect())
        })
        .collect()
});

fn empty(word: &str) -> Empty {
    match word.split_once(':') {
        Some(("keep", zero)) => Empty::Stays(serde_json::from_str(zero).unwrap_or(Value::Null)),
        _ if word == "omit" || word == "zero" => Empty::Vanishes,
        _ => Empty::VanishesAbsent,
    }
}

/// Gives `object` the form in which kube-apiserver writes it.
pub fn as_written(schema: &Schema, object: &mut Value) {
    walk(schema.root(), object);
}

fn walk(node: Node<'_>, value: &mut Value) {
    match node.kind() {
        Kind::Quantity => {
            canonical(value, |text| text.parse::<Quantity>().ok().map(|q| q.to_string()))
        }
        Kind::Time => canonical(value, |text| text.parse::<Time>().ok().map(|t| t.to_string())),
        Kind::MicroTime => {
            canonical(value, |text| text.parse::<MicroTime>().ok().map(|t| t.to_string()))
        }
        Kind::Array => {
            if let (Some(items), Some(list)) = (node.items(), value.as_array_mut()) {
                list.iter_mut().for_each(|item| walk(items, item));
            }
        }
        Kind::Object => walk_object(node, value),
        _ => {}
    }
}

fn walk_object(node: Node<'_>, value: &mut Value) {
    let Some(map) = value.as_object_mut() else { return };
    if let Some(values) = node.values() {
        for entry in map.values_mut() {
            // A key of a Go map is there even when nothing stands under it.
            if entry.is_null() && values.kind() == Kind::Quantity {
                *entry = Quantity::ZERO.to_string().into();
            }
            walk(values, entry);
        }
        return;
    }
    for (name, entry) in map.iter_mut() {
        if let Some(field) = node.field(name) {
            walk(field, entry);
        }
    }
    if let Some(fields) = node.name().and_then(|name| STRUCTS.get(name)) {
        settle(fields, map);
    }
}

/// Removes and adds what an empty field is written as.
fn settle(fields: &Struct, map: &mut Map<String, Value>) {
    map.retain(|name, value| match fields.get(name.as_str()) {
        Some(Empty::Vanishes) => !is_empty(value),
        Some(Empty::VanishesAbsent | Empty::Stays(_)) | None => !value.is_null(),
    });
    for (name, empty) in fields {
        // Objects are stored as protobuf, which does not tell an empty list from none.
        let is_none = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
        if let Empty::Stays(zero) = empty
            && map.get(*name).is_none_or(is_none)
            && !matches!(*name, "apiVersion" | "kind")
        {
            map.insert((*name).to_owned(), zero.clone());
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn canonical(value: &mut Value, form: impl Fn(&str) -> Option<String>) {
    let written = match value {
        Value::String(text) => form(text),
        Value::Number(number) => form(&number.to_string()),
        _ => None,
    };
    if let Some(written) = written {
        *value = written.into();
    }
}
