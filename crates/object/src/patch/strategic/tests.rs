use serde_json::json;

use super::openapi::OpenApi;
use super::*;

fn play(kind: &str, object: Value, patch: Value) -> Result<Value, PatchError> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else { unreachable!() };
    apply(object, patch, &OpenApi::of(kind)).map(Value::Object)
}

#[test]
fn lists_merge_as_the_schema_says() {
    let check = |object: Value, patch: Value, result: Value| {
        assert_eq!(play("PodSpec", object, patch.clone()).unwrap(), result, "{patch}");
    };
    let names =
        |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
    let list = |names_: &[&str]| json!({"containers": names(names_)});
    check(
        json!({"containers": [{"name": "a", "image": "1"}]}),
        json!({"containers": [{"name": "a", "args": ["x"]}, {"name": "b"}]}),
        json!({"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}]}),
    );
    check(
        list(&["a", "b"]),
        json!({"containers": [{"name": "a", "$patch": "delete"}]}),
        list(&["b"]),
    );
    check(
        list(&["a", "b"]),
        json!({"containers": [{"name": "c"}, {"$patch": "replace"}]}),
        list(&["c"]),
    );
    check(
        list(&["a", "b", "c"]),
        json!({"$setElementOrder/containers": names(&["c", "a"])}),
        list(&["b", "c", "a"]),
    );
    check(
        json!({"tolerations": [{"key": "a"}]}),
        json!({"tolerations": [{"key": "b"}]}),
        json!({"tolerations": [{"key": "b"}]}),
    );
    check(
        json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
        json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}]}),
        json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
    );
}

#[test]
fn lists_of_scalars_merge_as_sets() {
    let check = |patch: Value, result: &[&str]| {
        let object = json!({"finalizers": ["a", "b", "c"]});
        let patched = play("ObjectMeta", object, patch.clone()).unwrap();
        assert_eq!(patched, json!({"finalizers": result}), "{patch}");
    };
    check(json!({"finalizers": ["b", "d"]}), &["a", "b", "d", "c"]);
    check(json!({"$deleteFromPrimitiveList/finalizers": ["a", "z"]}), &["b", "c"]);
    check(
        json!({"finalizers": ["d"], "$setElementOrder/finalizers": ["d", "c"]}),
        &["d", "a", "b", "c"],
    );
}

#[test]
fn misuse_is_refused_in_upstream_s_words() {
    let check = |object: Value, patch: Value, status: u16, text: &str| {
        let refused = play("PodSpec", object, patch).unwrap_err();
        assert_eq!((refused.status(), refused.to_string().as_str()), (status, text));
    };
    let one = || json!({"containers": [{"name": "a"}], "securityContext": {}});
    check(
        one(),
        json!({"containers": [{"image": "x"}]}),
        500,
        "map: map[image:x] does not contain declared merge key: name",
    );
    check(
        one(),
        json!({"securityContext": {"$patch": "merge"}}),
        500,
        "unknown patch type: merge in map: map[$patch:merge]",
    );
    check(
        one(),
        json!({"securityContext": {"$patch": 1}}),
        500,
        "unknown patch type: %!s(int64=1) in map: map[$patch:1]",
    );
    check(one(), json!({"$retainKeys": "x"}), 400, "invalid patch format of retainKeys");
    check(
        one(),
        json!({"$setElementOrder": []}),
        400,
        "invalid patch format of setElementOrder list",
    );
    check(
        one(),
        json!({"containers": [{"name": "b"}], "$setElementOrder/containers": [{"name": "a"}]}),
        500,
        "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
    );
    check(
        json!({"x": {}}),
        json!({"x": {}}),
        500,
        "unable to find api field in struct PodSpec for the json field \"x\"",
    );
    check(
        one(),
        json!({"containers": [[]]}),
        500,
        "list element types are not identical: [[map[name:a]] [[]]]",
    );
    check(
        json!({"containers": [[1]]}),
        json!({"containers": [[]]}),
        422,
        "lists of lists are not supported",
    );
    check(
        json!({"containers": []}),
        json!({"containers": [null]}),
        500,
        "an element of a merging list may not be null: leave it out",
    );
    check(
        json!({"nodeSelector": {"a": {}}}),
        json!({"nodeSelector": {"a": {}}}),
        500,
        "merging an object in json but data type is not struct, instead is: map",
    );
}

#[test]
fn a_strategy_is_read_from_its_text() {
    let check = |text: &str, strategy: Strategy, retain_keys: bool| {
        assert_eq!(Strategies::parse(text), Ok(Strategies { strategy, retain_keys }));
    };
    check("", Strategy::Default, false);
    check("merge", Strategy::Merge, false);
    check("merge,retainKeys", Strategy::Merge, true);
    check("retainKeys", Strategy::Default, true);
    check("replace", Strategy::Replace, false);
    assert_eq!(
        Strategies::parse("atomic").unwrap_err().to_string(),
        "unknown patch strategy \"atomic\": use merge, replace or retainKeys"
    );
}

#[test]
fn long_lists_merge_in_good_time() {
    let list = |from: usize, to: usize| -> Value {
        (from..to).map(|n| json!({"name": n.to_string()})).collect()
    };
    let object = json!({"containers": list(0, 20_000)});
    let patch = json!({"containers": list(10_000, 30_000), "$setElementOrder/containers": list(10_000, 30_000)});
    let patched = play("PodSpec", object, patch).unwrap();
    assert_eq!(patched["containers"], list(0, 30_000));
}
