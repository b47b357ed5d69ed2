//! Reading and completing JSON objects whose types the schema has checked already.
//!
//! A field that is not there reads as empty, as it does in the structs kube-apiserver
//! decodes into.

use serde_json::{Map, Value};

/// The text under a key; empty where there is none.
pub(crate) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number under a key, where there is one.
pub(crate) fn number(object: &Value, key: &str) -> Option<i64> {
    object.get(key).and_then(Value::as_i64)
}

/// Whether the flag under a key is set.
pub(crate) fn flag(object: &Value, key: &str) -> bool {
    object.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// The list under a key; empty where there is none.
pub(crate) fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The texts of the list under a key.
pub(crate) fn texts<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    list(object, key).iter().filter_map(Value::as_str)
}

/// The entries of the list under a key, to be changed.
pub(crate) fn list_mut<'a>(
    object: &'a mut Value,
    key: &str,
) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// The map under a key, where there is one.
pub(crate) fn map<'a>(object: &'a Value, key: &str) -> Option<&'a Map<String, Value>> {
    object.get(key).and_then(Value::as_object)
}

/// What is under a key, where something is.
pub(crate) fn present<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

/// What is under a key, to be changed, where something is.
pub(crate) fn present_mut<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    object.get_mut(key).filter(|value| !value.is_null())
}

/// Sets a field that is absent.
pub(crate) fn set_absent(object: &mut Value, key: &str, value: impl Into<Value>) {
    let Some(map) = object.as_object_mut() else { return };
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets a text or number that is absent, empty or zero.
pub(crate) fn set_empty(object: &mut Value, key: &str, value: impl Into<Value>) {
    let empty = match object.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(_) => false,
    };
    if empty && let Some(map) = object.as_object_mut() {
        map.insert(key.to_owned(), value.into());
    }
}

/// Gives `object` the field of `other`: the same value, or none.
pub(crate) fn copy(object: &mut Value, other: &Value, key: &str) {
    let Some(map) = object.as_object_mut() else { return };
    match present(other, key) {
        Some(value) => map.insert(key.to_owned(), value.clone()),
        None => map.remove(key),
    };
}

/// Takes a field away.
pub(crate) fn remove(object: &mut Value, key: &str) {
    if let Some(map) = object.as_object_mut() {
        map.remove(key);
    }
}
