//! The laws of each patch, and that no input makes one panic.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::strategic::openapi::OpenApi;
use super::three_way::{self, OnConflict};
use super::{json, merge, strategic};
use crate::json::{DEPTH_MAX, Limits, decode};

/// Any document without nulls, which a merge patch cannot write.
fn document() -> impl Strategy<Value = Value> {
    any_value(prop_oneof![any::<bool>().prop_map(Value::from), (0..4).prop_map(Value::from)])
        .prop_map(|value| json!({"a": value.clone(), "b": {"a": value}}))
}

fn with_nulls() -> impl Strategy<Value = Value> {
    any_value(prop_oneof![Just(Value::Null), (0..4).prop_map(Value::from)])
        .prop_map(|value| json!({"a": value.clone(), "b": {"a": value}}))
}

/// Upstream keeps nulls inside a list that takes an object's place and drops them
/// when the list is sent again, so the law holds for lists without them.
fn without_nulls_in_lists(value: Value) -> Value {
    match value {
        Value::Array(_) => merge::without_nulls(value),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, field)| (key, without_nulls_in_lists(field))).collect()
        }
        scalar => scalar,
    }
}

fn any_value(leaf: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Value> {
    leaf.prop_recursive(4, 30, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn optional(
    name: &'static str,
    value: impl Strategy<Value = Value>,
) -> impl Strategy<Value = Value> {
    prop::option::of(value).prop_map(move |value| match value {
        Some(value) => json!({name: value}),
        None => json!({}),
    })
}

fn join(parts: impl IntoIterator<Item = Value>) -> Value {
    let maps = parts.into_iter().filter_map(|part| part.as_object().cloned());
    Value::Object(maps.flatten().collect())
}

/// A list with merge key `key`, each key at most once, in any order.
fn keyed(
    key: &'static str,
    pool: &'static [&'static str],
    element: impl Strategy<Value = Value> + Clone,
) -> impl Strategy<Value = Value> {
    let chosen = prop::sample::subsequence(pool, 0..=pool.len()).prop_shuffle();
    (chosen, prop::collection::vec(element, pool.len())).prop_map(move |(keys, elements)| {
        keys.iter().zip(elements).map(|(name, rest)| join([rest, json!({key: name})])).collect()
    })
}

fn words(pool: &'static [&'static str]) -> impl Strategy<Value = Value> + Clone {
    prop::sample::subsequence(pool, 0..=pool.len()).prop_shuffle().prop_map(Value::from)
}

fn text(pool: &'static [&'static str]) -> impl Strategy<Value = Value> + Clone {
    prop::sample::select(pool).prop_map(Value::from)
}

/// A pod spec with finalizers beside it: every kind of list and map there is.
fn pod() -> impl Strategy<Value = Map<String, Value>> {
    let env = keyed("name", &["A", "B", "C"], optional("value", text(&["1", "2"])).boxed());
    let container = (
        optional("image", text(&["i", "j"])),
        optional("args", words(&["x", "y"])),
        optional("env", env),
    )
        .prop_map(|(image, args, env)| join([image, args, env]))
        .boxed();
    let volume = prop_oneof![
        Just(json!({"emptyDir": {}})),
        text(&["/a", "/b"]).prop_map(|path| json!({"hostPath": {"path": path}})),
    ]
    .boxed();
    let spec = (
        optional("containers", keyed("name", &["a", "b", "c", "d"], container)),
        optional("volumes", keyed("name", &["v", "w"], volume)),
        optional("nodeSelector", document()),
        optional("tolerations", words(&["x", "y"])),
    )
        .prop_map(|(containers, volumes, selector, tolerations)| {
            join([containers, volumes, selector, tolerations])
        });
    let meta =
        (optional("finalizers", words(&["a", "b", "c"])), optional("labels", text(&["l", "m"])))
            .prop_map(|(finalizers, labels)| join([finalizers, labels]));
    (optional("spec", spec), optional("metadata", meta))
        .prop_map(|(spec, meta)| join([spec, meta]).as_object().cloned().unwrap_or_default())
}

/// A pod whose labels and selectors are flat, as the schema has them.
fn flat_pod() -> impl Strategy<Value = Map<String, Value>> {
    pod().prop_map(|mut pod| {
        if let Some(spec) = pod.get_mut("spec") {
            spec.as_object_mut().unwrap().remove("nodeSelector");
        }
        pod
    })
}

/// The paths of everything in a value that is not a container.
fn leaves(value: &Value, path: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, field)| leaves(field, &format!("{path}/{key}"), into));
        }
        _ => into.push(path.to_owned()),
    }
}

proptest! {
    #[test]
    fn a_merge_diff_applied_gives_the_new_document(old in with_nulls(), new in document()) {
        let patch = merge::diff(&old, &new);
        prop_assert_eq!(merge::apply(old, patch).unwrap(), new);
    }

    #[test]
    fn a_merge_patch_applied_twice_is_a_merge_patch_applied_once(
        document in document(),
        patch in with_nulls().prop_map(without_nulls_in_lists),
    ) {
        let once = merge::apply(document, patch.clone()).unwrap();
        prop_assert_eq!(merge::apply(once.clone(), patch).unwrap(), once);
    }

    #[test]
    fn a_strategic_diff_applied_gives_the_new_object(old in flat_pod(), new in flat_pod()) {
        let schema = OpenApi::of("Pod");
        let patch = strategic::diff(&old, &new, &schema).unwrap();
        prop_assert_eq!(strategic::apply(old, patch, &schema).unwrap(), new);
    }

    #[test]
    fn the_strategic_diff_of_equal_objects_is_empty(object in flat_pod()) {
        let patch = strategic::diff(&object, &object, &OpenApi::of("Pod")).unwrap();
        prop_assert_eq!(patch, Map::new());
    }

    #[test]
    fn a_strategic_diff_applied_twice_changes_nothing_more(old in flat_pod(), new in flat_pod()) {
        let schema = OpenApi::of("Pod");
        let patch = strategic::diff(&old, &new, &schema).unwrap();
        let again = strategic::apply(new.clone(), patch, &schema).unwrap();
        prop_assert_eq!(again, new);
    }

    #[test]
    fn a_three_way_patch_leaves_alone_what_nobody_named(
        original in flat_pod(),
        modified in flat_pod(),
        foreign in text(&["theirs"]),
    ) {
        let mut current = original.clone();
        current.insert("status".to_owned(), json!({"phase": foreign}));
        let labels = |object: &mut Map<String, Value>, value: Value| {
            let meta = object.entry("metadata").or_insert_with(|| json!({}));
            meta["annotations"] = value;
        };
        labels(&mut current, json!({"theirs": "1"}));
        let schema = OpenApi::of("Pod");
        let patch =
            three_way::strategic(&original, &modified, &current, &schema, OnConflict::Overwrite)
                .unwrap();
        let result = strategic::apply(current.clone(), patch, &schema).unwrap();
        prop_assert_eq!(&result["status"], &current["status"]);

        let patch = three_way::json_merge(&original, &modified, &current).unwrap();
        let result = merge::apply(Value::Object(current.clone()), Value::Object(patch)).unwrap();
        prop_assert_eq!(&result["status"], &current["status"]);
        if original.contains_key("metadata") == modified.contains_key("metadata") {
            prop_assert_eq!(&result["metadata"]["annotations"], &json!({"theirs": "1"}));
        }
        // What is wanted is there.
        let mut wanted = Vec::new();
        leaves(&Value::Object(modified.clone()), "", &mut wanted);
        for path in wanted {
            let modified = Value::Object(modified.clone());
            prop_assert_eq!(result.pointer(&path), modified.pointer(&path), "{}", path);
        }
    }

    #[test]
    fn a_json_patch_is_all_or_nothing(document in document(), last in "/[abc]/[abc]") {
        let operations = json!([
            {"op": "add", "path": "/new", "value": 1},
            {"op": "remove", "path": "/a"},
            {"op": "test", "path": last, "value": "never there"},
        ]);
        let patch = json::Patch::read(operations.to_string().as_bytes(), Limits::default()).unwrap();
        prop_assert!(patch.apply(document, Limits::default()).is_err());
    }

    #[test]
    fn a_json_patch_is_its_operations_one_by_one_or_nothing(
        operations in prop::collection::vec(operation(), 0..5),
    ) {
        let play = |document: Value, operations: &[Value]| {
            let body = Value::from(operations).to_string();
            let patch = json::Patch::read(body.as_bytes(), Limits::default()).unwrap();
            patch.apply(document, Limits::default())
        };
        let start = json!({"a": [1, {"b": [2]}], "b": {"a": null}});
        let step = |document, operation: &Value| play(document, std::slice::from_ref(operation));
        let one_by_one = operations.iter().try_fold(start.clone(), step);
        prop_assert_eq!(play(start, &operations), one_by_one);
    }

    #[test]
    fn a_test_of_the_whole_document_passes_exactly_when_it_is_equal(
        left in document(),
        right in document(),
    ) {
        let operations = json!([{"op": "test", "path": "", "value": right}]);
        let patch = json::Patch::read(operations.to_string().as_bytes(), Limits::default()).unwrap();
        prop_assert_eq!(patch.apply(left.clone(), Limits::default()).is_ok(), left == right);
    }

    #[test]
    fn no_bytes_make_a_patch_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        play_all(&json!({"a": [1, {"b": 2}]}), &body);
    }

    #[test]
    fn no_document_makes_a_patch_panic(
        object in hostile(),
        patch in hostile(),
    ) {
        play_all(&object, patch.to_string().as_bytes());
    }

    #[test]
    fn no_operations_make_a_patch_panic(operations in prop::collection::vec(operation(), 0..6)) {
        let body = Value::from(operations).to_string();
        play_all(&json!({"a": [1, {"b": [2]}], "b": {"a": null}}), body.as_bytes());
    }
}

/// Fields of a pod and directives with values of any sort.
fn hostile() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        text(&["delete", "replace", "merge", "a", ""]),
    ];
    let key = prop::sample::select(vec![
        "spec",
        "metadata",
        "containers",
        "env",
        "name",
        "value",
        "finalizers",
        "volumes",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$setElementOrder/name",
        "$deleteFromPrimitiveList/finalizers",
        "$deleteFromPrimitiveList/containers",
        "$deleteFromPrimitiveList/",
        "$setElementOrder/",
    ]);
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::vec((key.clone(), inner), 0..5).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(key, field)| (key.to_owned(), field)).collect())
            }),
        ]
    })
}

fn operation() -> impl Strategy<Value = Value> {
    let path = "(/(a|b|0|1|-|-1|~0|~1|99999999999999999999)){0,4}";
    (prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test"]), path, path)
        .prop_map(|(op, path, from)| json!({"op": op, "path": path, "from": from, "value": [path]}))
}

fn play_all(object: &Value, body: &[u8]) {
    let limits = Limits::default();
    if let Ok(patch) = json::Patch::read(body, limits) {
        let _ = patch.apply(object.clone(), limits);
    }
    let Ok(decoded) = decode(body, limits) else { return };
    let _ = merge::apply(object.clone(), decoded.value.clone());
    let (Value::Object(object), Value::Object(patch)) = (object.clone(), decoded.value) else {
        return;
    };
    for schema in ["Pod", "PodSpec", "ObjectMeta"].map(OpenApi::of) {
        let _ = strategic::apply(object.clone(), patch.clone(), &schema);
        let _ = strategic::diff(&object, &patch, &schema);
        let _ = three_way::strategic(&patch, &object, &patch, &schema, OnConflict::Refuse);
    }
    let _ = three_way::json_merge(&patch, &object, &patch);
}

#[test]
fn a_document_at_the_depth_bound_passes_through_every_patch_on_a_small_stack() {
    let nested = format!("{}1{}", "{\"spec\":".repeat(DEPTH_MAX), "}".repeat(DEPTH_MAX));
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
    let run = move || {
        let object = decode(nested.as_bytes(), Limits::default()).unwrap().value;
        play_all(&object, nested.as_bytes());
        assert_eq!(merge::apply(object.clone(), object.clone()).unwrap(), object);
    };
    thread.spawn(run).unwrap().join().unwrap();
}
