use serde_json::json;

use super::*;
use crate::patch::strategic::openapi::OpenApi;

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is not an object"),
    }
}

#[test]
fn what_was_applied_before_and_is_wanted_no_more_is_deleted() {
    let check = |original: Value, modified: Value, current: Value, patch: Value| {
        let [original, modified, current] = [original, modified, current].map(fields);
        assert_eq!(Value::Object(json_merge(&original, &modified, &current).unwrap()), patch);
    };
    check(json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "c": 3}), json!({"a": null, "b": 2}));
    check(json!({}), json!({"a": {}}), json!({"a": {"x": 1}}), json!({}));
    check(json!({}), json!({"a": {}}), json!({}), json!({"a": {}}));
    check(
        json!({"a": {"x": 1}}),
        json!({"a": {}}),
        json!({"a": {"x": 1}}),
        json!({"a": {"x": null}}),
    );
}

#[test]
fn elements_are_deleted_by_key_and_others_left_alone() {
    let named = |names: &[&str]| {
        let list: Value = names.iter().map(|name| json!({"name": name})).collect();
        fields(json!({"containers": list}))
    };
    let schema = OpenApi::of("PodSpec");
    let (original, modified, current) =
        (named(&["a", "b"]), named(&["b"]), named(&["a", "b", "injected"]));
    let patch = strategic(&original, &modified, &current, &schema, OnConflict::Overwrite).unwrap();
    assert_eq!(
        Value::Object(patch.clone()),
        json!({
            "$setElementOrder/containers": [{"name": "b"}],
            "containers": [{"name": "a", "$patch": "delete"}],
        })
    );
    let patched = crate::patch::strategic::apply(current, patch, &schema).unwrap();
    assert_eq!(patched, named(&["b", "injected"]));
}

#[test]
fn a_change_by_someone_else_is_overwritten_or_refused() {
    let [original, modified, current] =
        [json!({"nodeName": "a"}), json!({"nodeName": "b"}), json!({"nodeName": "c"})].map(fields);
    let schema = OpenApi::of("PodSpec");
    let patch = |on_conflict| strategic(&original, &modified, &current, &schema, on_conflict);
    assert_eq!(Value::Object(patch(OnConflict::Overwrite).unwrap()), json!({"nodeName": "b"}));
    assert_eq!(
        patch(OnConflict::Refuse).unwrap_err().to_string(),
        "patch:\n{\"nodeName\":\"b\"}\nconflicts with changes made from original to current:\n{\"nodeName\":\"c\"}\n"
    );
}
