//! What a large or hostile document costs: each case is of a size at which work that grows with
//! the square of it would take minutes.

use serde_json::Map;

use super::*;

const MANY: usize = 20_000;

fn spec_with(schema: &Value) -> Schema {
    crd(&json!({"type": "object", "properties": {"spec": schema}}))
        .unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn faults(schema: &Schema, old: Option<&Value>, new: &Value) -> Vec<String> {
    let old = old.map(|old| json!({"spec": old}));
    let errors = validate(schema, &json!({"spec": new}), old.as_ref());
    errors.iter().map(ToString::to_string).collect()
}

fn reversed(list: &Value) -> Value {
    list.as_array().unwrap().iter().rev().cloned().collect()
}

#[test]
fn a_long_list_of_type_map_finds_its_old_elements_by_key() {
    let schema = spec_with(&json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {
            "k": {"type": "integer"}, "v": {"type": "string", "maxLength": 1}}},
        "x-kubernetes-validations": [{"rule": "size(self) == size(oldSelf)"}],
    }));
    let old: Value = (0..MANY / 2).map(|k| json!({"k": k, "v": "ab"})).collect();
    let mut new = reversed(&old);
    assert_eq!(faults(&schema, Some(&old), &new), [""; 0], "unchanged elements are forgiven");
    new[0]["v"] = "abc".into();
    let told = faults(&schema, Some(&old), &new);
    assert_eq!(told[0], "spec[0].v: Too long: may not be more than 1 byte");
}

#[test]
fn a_long_set_finds_its_old_elements_by_value() {
    let schema = spec_with(&json!({
        "type": "array",
        "x-kubernetes-list-type": "set",
        "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": "self == oldSelf"}],
    }));
    let old: Value = (0..MANY).collect();
    assert_eq!(faults(&schema, Some(&old), &reversed(&old)), [""; 0]);
}

#[test]
fn a_key_is_told_to_repeat_without_a_look_at_all_before_it() {
    use crate::json::{Limits, document};
    let pairs: Vec<String> = (0..MANY).map(|k| format!("\"k{k}\":\"v\"")).collect();
    let body = format!("{{\"data\":{{{},\"k1\":\"w\"}}}}", pairs.join(","));
    let read = document(body.as_bytes(), Limits::default()).unwrap();
    let text = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let schemas = json!({"T": {"type": "object", "properties": {"data": text}}});
    let definitions =
        Definitions::from_openapi([&json!({"components": {"schemas": schemas}})]).unwrap();
    let strictly = read_strictly(&definitions.schema("T").unwrap(), &read);
    assert_eq!(strictly.strays, ["duplicate field \"data.k1\""]);
    assert_eq!(strictly.value["data"]["k1"], "w");
}

#[test]
fn what_is_told_of_unknown_fields_is_bounded_however_long_their_paths_are() {
    let key = "k".repeat(300_000);
    let fields: Map<String, Value> = (0..MANY).map(|k| (format!("f{k}"), json!(1))).collect();
    let schema = spec_with(&json!({"type": "object",
        "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}}));
    let mut object = json!({"spec": {key.as_str(): fields}});
    let unknown = prune(&schema, &mut object);
    assert_eq!(object["spec"][&key], json!({}), "all are dropped");
    assert!((1..10).contains(&unknown.len()), "{}", unknown.len());

    let body = format!("{{\"{key}\":[{}]}}", vec![r#"{"a":1,"a":2}"#; MANY].join(","));
    let limits = crate::json::Limits::default();
    let decoded = crate::json::decode(body.as_bytes(), limits).unwrap();
    assert_eq!(decoded.duplicates.len(), 1);
    let read = crate::json::document(body.as_bytes(), limits).unwrap();
    let strictly = read_strictly(&schema, &read);
    assert_eq!(strictly.strays.len(), 1, "the key itself is unknown");
}
