use serde_json::json;

use super::*;
use crate::json::DEPTH_MAX;

fn play(document: Value, patch: &Value) -> Result<Value, PatchError> {
    let limits = Limits::default();
    Patch::read(&serde_json::to_vec(patch).unwrap(), limits)?.apply(document, limits)
}

#[test]
fn operations_apply_in_order() {
    let check = |document: Value, patch: Value, result: Value| {
        assert_eq!(play(document, &patch).unwrap(), result, "{patch}");
    };
    let op = |op: &str, path: &str, value: Value| json!({"op": op, "path": path, "value": value});
    check(json!({}), json!([]), json!({}));
    check(json!({}), Value::Null, json!({}));
    check(json!({"a": [1, 2]}), json!([op("add", "/a/1", json!(9))]), json!({"a": [1, 9, 2]}));
    check(json!({"a": [1, 2]}), json!([op("add", "/a/-", json!(9))]), json!({"a": [1, 2, 9]}));
    check(json!({"a": [1, 2]}), json!([op("add", "/a/-1", json!(9))]), json!({"a": [1, 2, 9]}));
    check(json!({"a": [1, 2]}), json!([op("add", "/a/2", json!(9))]), json!({"a": [1, 2, 9]}));
    check(json!({}), json!([{"op": "add", "path": "/a"}]), json!({"a": null}));
    check(json!({}), json!([op("replace", "/a", json!(1))]), json!({"a": 1}));
    check(json!({"a": [1, 2]}), json!([op("replace", "/a/-1", json!(9))]), json!({"a": [1, 9]}));
    check(json!({"a": 1}), json!([op("replace", "", json!([1]))]), json!([1]));
    check(json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/0"}]), json!({"a": [2]}));
    check(
        json!({"a/b": 1, "m~n": 2}),
        json!([{"op": "remove", "path": "/a~1b"}]),
        json!({"m~n": 2}),
    );
    check(json!({"~1": 1}), json!([{"op": "remove", "path": "/~01"}]), json!({}));
    check(
        json!({"a": {"b": 1}, "c": {}}),
        json!([{"op": "move", "from": "/a/b", "path": "/c/d"}]),
        json!({"a": {}, "c": {"d": 1}}),
    );
    check(
        json!({"a": [1]}),
        json!([{"op": "copy", "from": "/a", "path": "/b"}, op("add", "/b/-", json!(2))]),
        json!({"a": [1], "b": [1, 2]}),
    );
    check(json!({}), json!([{"op": "copy", "from": "/x", "path": "/y"}]), json!({"y": null}));
    check(
        json!({"a": {"x": [1]}}),
        json!([op("test", "/a", json!({"x": [1]}))]),
        json!({"a": {"x": [1]}}),
    );
    check(json!({}), json!([op("test", "/gone", Value::Null)]), json!({}));
    check(json!({"b": 1}), json!([op("add", "ignored/c", json!(2))]), json!({"b": 1, "c": 2}));
}

#[test]
fn an_operation_that_does_not_apply_is_refused_in_upstream_s_words() {
    let check = |operation: Value, text: &str| {
        let document = json!({"a": [1, 2], "s": "x", "n": null});
        let refused = play(document, &json!([operation])).unwrap_err();
        assert_eq!((refused.status(), refused.to_string().as_str()), (422, text));
    };
    check(json!({"op": "jump"}), "Unexpected kind: jump");
    check(json!(null), "Unexpected kind: unknown");
    check(json!({"op": "add"}), "add operation failed to decode path: missing value");
    check(
        json!({"op": "add", "path": "/x/y", "value": 1}),
        "add operation does not apply: doc is missing path: \"/x/y\": missing value",
    );
    check(
        json!({"op": "add", "path": "", "value": 1}),
        "add operation does not apply: doc is missing path: \"\": missing value",
    );
    check(
        json!({"op": "add", "path": "/s/y", "value": 1}),
        "add operation does not apply: doc is missing path: \"/s/y\": missing value",
    );
    check(
        json!({"op": "add", "path": "/a/4", "value": 1}),
        "error in add for path: '/a/4': Unable to access invalid index: 4: invalid index referenced",
    );
    check(
        json!({"op": "add", "path": "/a/x", "value": 1}),
        "error in add for path: '/a/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
    );
    check(
        json!({"op": "remove", "path": "/z"}),
        "error in remove for path: '/z': Unable to remove nonexistent key: z: missing value",
    );
    check(
        json!({"op": "replace", "path": "/a/2", "value": 1}),
        "replace operation does not apply: doc is missing key: /a/2: missing value",
    );
    check(
        json!({"op": "replace", "path": "/n/y", "value": 1}),
        "replace operation does not apply: doc is missing path: /n/y: missing value",
    );
    check(
        json!({"op": "replace", "value": 1}),
        "replace operation failed to decode path: operation missing path field: missing value",
    );
    check(
        json!({"op": "move", "path": "/b"}),
        "move operation failed to decode from: operation, missing from field: missing value",
    );
    check(
        json!({"op": "move", "from": "/z", "path": "/b"}),
        "error in move for path: 'z': Unable to remove nonexistent key: z: missing value",
    );
    check(
        json!({"op": "test", "path": "/s", "value": "y"}),
        "testing value /s failed: test failed",
    );
    check(
        json!({"op": "test", "path": "/a/99999999999999999999", "value": "y"}),
        "error in test for path: '/a/99999999999999999999': strconv.Atoi: parsing \"99999999999999999999\": value out of range",
    );
}

#[test]
fn what_is_not_a_patch_is_refused() {
    let check = |body: &str, text: &str| {
        let refused = Patch::read(body.as_bytes(), Limits::default()).unwrap_err();
        assert_eq!((refused.status(), refused.to_string().as_str()), (400, text));
    };
    check("[", "error decoding patch: unexpected end of JSON input");
    check(
        "{}",
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
    );
    check(
        "[1]",
        "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
    );
    check(
        r#"[{"op":1}]"#,
        "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
    );
}

#[test]
fn a_strict_reader_is_told_of_unknown_and_duplicate_fields() {
    let body = br#"[{"op":"test","path":"/a","op":"test","x":1}]"#;
    let patch = Patch::read(body, Limits::default()).unwrap();
    assert_eq!(
        patch.strict_errors,
        [r#"json patch duplicate field "[0].op""#, r#"json patch unknown field "[0].x""#]
    );
}

#[test]
fn work_is_bounded() {
    let many = vec![json!({"op": "test", "path": "/x", "value": null}); OPERATIONS_MAX + 1];
    let refused = play(json!({}), &json!(many)).unwrap_err();
    assert_eq!(
        (refused.status(), refused.to_string().as_str()),
        (413, "The allowed maximum operations in a JSON patch is 10000, got 10001")
    );

    let doubling = vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 40];
    let refused = play(json!({"a": ["0123456789"]}), &json!(doubling)).unwrap_err();
    assert!(refused.to_string().starts_with("Unable to complete the copy"), "{refused}");

    let deeper = vec![json!({"op": "copy", "from": "/a", "path": "/a/a"}); DEPTH_MAX];
    let refused = play(json!({"a": {}}), &json!(deeper)).unwrap_err();
    assert!(refused.to_string().contains("exceeded max depth"), "{refused}");
}
