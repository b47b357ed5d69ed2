//! JSON merge patch (RFC 7386): a partial document whose nulls delete.
//!
//! ```
//! use object::patch::merge::{apply, diff};
//! use serde_json::json;
//! let (old, new) = (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 3}}));
//! let patch = diff(&old, &new);
//! assert_eq!(patch, json!({"a": {"b": 3, "c": null}}));
//! assert_eq!(apply(old, patch).unwrap(), new);
//! ```

use serde_json::{Map, Value};

use super::PatchError;
use crate::json::{Decoded, Limits, decode, json_type};

/// Reads the body of a merge patch request, as the API server does when unknown
/// and duplicate fields are to be told (which is its default).
///
/// # Errors
/// When the body is not a JSON object; the text is kube-apiserver's.
pub fn read(body: &[u8], limits: Limits) -> Result<Decoded, PatchError> {
    let decoded = decode(body, limits)
        .map_err(|error| PatchError::Malformed(format!("error decoding patch: {error}")))?;
    match &decoded.value {
        Value::Object(_) => Ok(decoded),
        Value::Null => Err(PatchError::Malformed(NOT_A_PATCH.to_owned())),
        other => Err(PatchError::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(other)
        ))),
    }
}

const NOT_A_PATCH: &str = "Invalid JSON Patch";

/// The document with the patch applied.
///
/// As upstream has it, objects inside a list that the patch brings lose their nulls
/// too, unless the list takes the place of an object.
///
/// # Errors
/// When the patch is neither an object nor a list, or the document is null.
pub fn apply(document: Value, patch: Value) -> Result<Value, PatchError> {
    match (document, patch) {
        (Value::Null, _) => Err(PatchError::Unclassified("Invalid JSON Document".to_owned())),
        (Value::Object(mut document), Value::Object(patch)) => {
            merge(&mut document, patch);
            Ok(Value::Object(document))
        }
        (_, patch @ (Value::Object(_) | Value::Array(_))) => Ok(without_nulls(patch)),
        _ => Err(PatchError::Malformed(NOT_A_PATCH.to_owned())),
    }
}

pub(super) fn merge(document: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, change) in patch {
        if change.is_null() {
            document.remove(&key);
            continue;
        }
        match (document.get_mut(&key), change) {
            (Some(Value::Object(current)), Value::Object(change)) => merge(current, change),
            (Some(current @ Value::Object(_)), change) => *current = change,
            (_, change) => {
                document.insert(key, without_nulls(change));
            }
        }
    }
}

/// The value without the null fields of any object in it; nulls in lists stay.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, field)| !field.is_null())
            .map(|(key, field)| (key, without_nulls(field)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        scalar => scalar,
    }
}

/// The patch that makes `old` into `new`; `{}` when they are equal.
///
/// A null in `new` cannot be said by a merge patch: it deletes. Where `old` and
/// `new` are not both objects the patch is `new`.
#[must_use]
pub fn diff(old: &Value, new: &Value) -> Value {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => Value::Object(diff_maps(old, new)),
        _ => new.clone(),
    }
}

pub(super) fn diff_maps(old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, wanted) in new {
        match (old.get(key), wanted) {
            (Some(Value::Object(current)), Value::Object(wanted)) => {
                let nested = diff_maps(current, wanted);
                if !nested.is_empty() {
                    patch.insert(key.clone(), Value::Object(nested));
                }
            }
            (Some(current), wanted) if current == wanted => {}
            _ => {
                patch.insert(key.clone(), wanted.clone());
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_sets_what_it_names_and_deletes_where_it_says_null() {
        let check = |document: Value, patch: Value, result: Value| {
            assert_eq!(apply(document, patch).unwrap(), result);
        };
        check(json!({"a": 1, "b": 2}), json!({"a": null, "c": null}), json!({"b": 2}));
        check(json!({"a": {"b": 1}}), json!({"a": {"c": 2}}), json!({"a": {"b": 1, "c": 2}}));
        check(json!({"a": 1}), json!({"a": {"c": null, "d": 1}}), json!({"a": {"d": 1}}));
        check(json!({"a": null}), json!({"a": {"c": null}}), json!({"a": {}}));
        check(json!({"a": [1]}), json!({"a": [{"b": null}, null]}), json!({"a": [{}, null]}));
        check(json!({"a": {}}), json!({"a": [{"b": null}]}), json!({"a": [{"b": null}]}));
        check(json!({"a": {"b": 1}}), json!({}), json!({"a": {"b": 1}}));
        check(json!([1]), json!({"a": null, "b": 1}), json!({"b": 1}));
        check(json!({"a": 1}), json!([{"a": null}]), json!([{}]));
    }

    #[test]
    fn what_is_not_a_patch_is_refused() {
        let check = |body: &str, text: &str| {
            let refused = read(body.as_bytes(), Limits::default()).unwrap_err();
            assert_eq!((refused.status(), refused.to_string().as_str()), (400, text));
        };
        check("null", "Invalid JSON Patch");
        check("{", "error decoding patch: unexpected end of JSON input");
        check(
            "[]",
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        );
        assert_eq!(apply(json!({}), json!(1)).unwrap_err().status(), 400);
        assert_eq!(apply(Value::Null, json!({})).unwrap_err().status(), 500);
    }

    #[test]
    fn a_diff_names_only_what_changed() {
        let check = |old: Value, new: Value, patch: Value| assert_eq!(diff(&old, &new), patch);
        check(json!({"a": 1}), json!({"a": 1}), json!({}));
        check(
            json!({"a": 1, "b": {"c": 1}}),
            json!({"b": {"c": 2}}),
            json!({"a": null, "b": {"c": 2}}),
        );
        check(json!({"a": [1, 2]}), json!({"a": [2]}), json!({"a": [2]}));
        check(json!({"a": {}}), json!({"a": 1}), json!({"a": 1}));
    }
}
