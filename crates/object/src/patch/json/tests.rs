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

#[test]
fn a_value_is_moved_without_a_walk_over_it() {
    let big: Map<String, Value> = (0..50_000).map(|key| (key.to_string(), json!([]))).collect();
    let document = json!({"big": big, "in": {}});
    let there = json!({"op": "move", "from": "/big", "path": "/in/big"});
    let back = json!({"op": "move", "from": "/in/big", "path": "/big"});
    let patch = json!(vec![[there, back]; OPERATIONS_MAX / 2].concat());
    assert_eq!(play(document.clone(), &patch).unwrap(), document);
}

#[test]
fn a_patch_that_moves_too_much_is_refused() {
    let check = |document: Value, operations: Value, steps: usize, refusal: Option<&str>| {
        let limits = Limits::default();
        let patch = Patch::read(&serde_json::to_vec(&operations).unwrap(), limits).unwrap();
        let refused = patch.apply_within(document, limits, steps).err();
        assert!(refused.as_ref().is_none_or(|error| error.status() == 413), "{refused:?}");
        assert_eq!(refused.map(|error| error.to_string()).as_deref(), refusal);
    };
    let list: Vec<usize> = (0..1_000).collect();
    let first = vec![json!({"op": "add", "path": "/l/0", "value": 1}); 10];
    check(json!({"l": list}), json!(first), 3_000, None);
    check(
        json!({"l": list}),
        json!(first),
        1_000,
        Some(
            "The operations of the JSON patch up to [3] move more than 1000 values: split the patch, or move smaller values",
        ),
    );
    let last = vec![json!({"op": "add", "path": "/l/-", "value": 1}); 10];
    check(json!({"l": list}), json!(last), 0, None);

    // Where the document is as deep as it may be, only a walk tells whether a move keeps to it.
    let chain = (2..DEPTH_MAX).fold(json!({}), |inner, _| json!([inner]));
    let deep = json!({"chain": chain, "l": list, "in": {}});
    let there = json!({"op": "move", "from": "/l", "path": "/in/l"});
    let back = json!({"op": "move", "from": "/in/l", "path": "/l"});
    let moves = vec![[there, back]; 3].concat();
    check(deep.clone(), json!(moves), 10_000, None);
    check(
        deep,
        json!(moves),
        5_000,
        Some(
            "The operations of the JSON patch up to [4] move more than 5000 values: split the patch, or move smaller values",
        ),
    );
}

#[test]
fn the_bound_on_depth_holds_whatever_was_moved_before() {
    let chain = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!([inner]));
    let document = json!({"a": chain(DEPTH_MAX - 2), "b": {"c": {}}});
    let to = |path: &str| json!({"op": "move", "from": "/a", "path": path});
    assert!(play(document.clone(), &json!([to("/b/a")])).is_ok());
    let refused = play(document.clone(), &json!([to("/b/c/a")])).unwrap_err();
    assert!(refused.to_string().contains("exceeded max depth"), "{refused}");
    let replaced = json!([
        {"op": "replace", "path": "/b/c", "value": chain(DEPTH_MAX - 2)},
        {"op": "remove", "path": "/a"},
        {"op": "move", "from": "/b", "path": "/a"},
        {"op": "add", "path": "/d", "value": {"e": {}}},
        {"op": "move", "from": "/a", "path": "/d/e/f"},
    ]);
    let refused = play(document, &replaced).unwrap_err();
    assert!(refused.to_string().contains("exceeded max depth"), "{refused}");
}
