//! What a large or hostile document costs. Work is counted, not timed: a bound holds or does not,
//! however busy the machine is.

use serde_json::Map;

use super::*;
use crate::work::counted;

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

/// Checks that work was done by looking elements up: at least one comparison for each, and far
/// fewer than one of each with each.
fn check_looked_up(elements: usize, comparisons: usize) {
    let allowed = elements..elements * elements / 20;
    assert!(allowed.contains(&comparisons), "{comparisons} comparisons, not {allowed:?}");
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
    let (told, comparisons) = counted(|| faults(&schema, Some(&old), &new));
    assert_eq!(told, [""; 0], "unchanged elements are forgiven");
    check_looked_up(MANY / 2, comparisons);
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
    let (told, comparisons) = counted(|| faults(&schema, Some(&old), &reversed(&old)));
    assert_eq!(told, [""; 0]);
    check_looked_up(MANY, comparisons);
}

#[test]
fn a_key_that_repeats_among_many_is_told_and_its_last_value_taken() {
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

#[test]
fn the_patterns_of_a_definition_are_compiled_once_and_bounded_together() {
    let with = |patterns: Vec<String>| {
        let property = |pattern: &String| json!({"type": "string", "pattern": pattern});
        let named = patterns.iter().enumerate().map(|(at, it)| (format!("p{at}"), property(it)));
        let properties: Map<String, Value> = named.collect();
        crd(&json!({"type": "object", "properties": properties}))
    };
    assert!(with(vec!["^[a-z]{1,500}$".to_owned(); 2_000]).is_ok());
    let huge = (100..200).map(|count| format!("((a{{{count}}}){{100}}){{100}}")).collect();
    let errors = with(huge).unwrap_err();
    assert_eq!(errors.len(), 100);
    let first = errors[0].to_string();
    assert!(
        first.contains(".pattern: Invalid value: \"((a{100}){100}){100}\": a pattern may"),
        "{first}"
    );
    let last = errors[99].to_string();
    assert!(last.contains("the patterns of a schema may compile to 32 MiB together"), "{last}");
}

#[test]
fn defaults_stop_where_they_would_make_an_object_too_large() {
    let schema = spec_with(&json!({"type": "array", "items": {"type": "object", "properties": {
        "text": {"type": "string", "default": "x".repeat(100_000)}}}}));
    let check = |elements: usize, fits: bool| {
        let mut object = json!({"spec": vec![json!({}); elements]});
        let filled = default(&schema, &mut object);
        assert_eq!(filled.is_ok(), fits, "{elements}");
        let added = object.to_string().len();
        assert!(added < DEFAULTS_BYTES_MAX + 100_000, "{added}");
    };
    check(100, true);
    check(2_000, false);
}

#[test]
fn of_many_faults_the_first_are_told() {
    let schema = spec_with(&json!({"type": "array", "items": {"type": "string", "maxLength": 1}}));
    let told = faults(&schema, None, &json!(vec!["ab"; 60_000]));
    assert_eq!(told.len(), crate::field::ERRORS_MAX + 1);
    assert_eq!(told[999], "spec[999]: Too long: may not be more than 1 byte");
    assert_eq!(
        told[1_000],
        "<nil>: Invalid value: only the first 1000 faults are told: correct them to see the others"
    );

    let set = spec_with(&json!({"type": "array", "items": {"type": "integer"},
        "x-kubernetes-list-type": "set"}));
    let twice: Value = (0..MANY).chain(0..MANY).collect();
    assert_eq!(faults(&set, None, &twice).len(), crate::field::ERRORS_MAX + 1);

    // The path of each fault is as long as the object.
    let map = spec_with(&json!({"type": "object", "additionalProperties":
        {"type": "array", "items": {"type": "string", "maxLength": 1}}}));
    let told = faults(&map, None, &json!({"k".repeat(300_000): vec!["ab"; MANY]}));
    assert!((2..10).contains(&told.len()), "{}", told.len());
}

#[test]
fn faults_that_were_there_before_do_not_hide_those_that_are_new() {
    let schema = spec_with(&json!({"type": "object", "properties": {
        "a": {"type": "array", "items": {"type": "string", "maxLength": 1}},
        "b": {"type": "string", "maxLength": 1}}}));
    let old = json!({"a": vec!["ab"; 3_000]});
    let mut new = old.clone();
    new["b"] = "cd".into();
    let told = faults(&schema, Some(&old), &new);
    assert_eq!(told, ["spec.b: Too long: may not be more than 1 byte"]);
}

#[test]
fn alternatives_times_values_are_bounded() {
    let check = |alternatives: usize, values: usize, fits: bool| {
        let any: Vec<Value> = (0..alternatives).map(|at| json!({"enum": [at]})).collect();
        let schema = spec_with(&json!({"type": "array",
            "items": {"type": "integer", "anyOf": any}}));
        let told = faults(&schema, None, &json!(vec![alternatives - 1; values]));
        assert_eq!(told.is_empty(), fits, "{told:?}");
        assert!(fits || told[0].contains("validation costs more than is allowed"), "{told:?}");
    };
    check(20, 200, true);
    check(2_000, MANY, false);
}

#[test]
fn an_unchanged_list_is_compared_once_for_all_its_elements() {
    let schema = spec_with(&json!({"type": "object", "properties": {
        "n": {"type": "integer"},
        "l": {"type": "array", "items":
            {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 0"}]}}}}));
    let old = json!({"l": (0..10_000).collect::<Value>(), "n": 1});
    let mut new = old.clone();
    new["n"] = 2.into();
    let (told, comparisons) = counted(|| faults(&schema, Some(&old), &new));
    assert_eq!(told, [""; 0]);
    assert_eq!(comparisons, 1);
}

#[test]
fn rules_at_every_level_of_a_large_document_draw_on_the_budget() {
    let rules = json!([{"rule": "true"}]);
    let list = json!({"type": "array", "items": {"type": "string"}});
    let deep = |levels: usize| {
        (0..levels).fold(list.clone(), |inner, _| {
            json!({"type": "object", "properties": {"a": inner}, "x-kubernetes-validations": rules})
        })
    };
    let check = |levels: usize, fits: bool| {
        let long = json!(vec!["x".repeat(10_000); 100]);
        let object = (0..levels).fold(long, |inner, _| json!({"a": inner}));
        let told = faults(&spec_with(&deep(levels)), None, &object);
        let out_of_budget = "validation failed due to running out of cost budget, no further \
                             validation rules will be run";
        match told.as_slice() {
            [] => assert!(fits, "{levels} levels were free"),
            [one] => assert!(!fits && one.ends_with(out_of_budget), "{one}"),
            many => panic!("rules went on after the budget: {many:?}"),
        }
    };
    check(1, true);
    check(120, false);
}

#[test]
fn a_definition_has_a_bound_on_its_rules_paths_and_keys() {
    let check = |spec: Value, told: &str| {
        let errors = crd(&json!({"type": "object", "properties": {"spec": spec}})).unwrap_err();
        let text = errors[0].to_string();
        assert!(text.contains(told), "{text}");
    };
    let rules = vec![json!({"rule": "true"}); 10_000];
    check(
        json!({"type": "string", "x-kubernetes-validations": rules}),
        "the validation rules of a schema may have 262144 bytes of text together",
    );
    let (name, text) = ("n".repeat(5_000), json!({"type": "string"}));
    check(
        json!({"type": "object", "properties": {name: {"type": "object", "properties": {"a": text}}}}),
        "the path to a schema may have at most 4096 bytes",
    );
    let keys: Vec<String> = (0..MANY).map(|key| format!("k{key}")).collect();
    check(
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
            "items": {"type": "object", "properties": {"k0": text}}}),
        "Too many: 20000: must have at most 100 items",
    );
}

#[test]
fn a_rule_finds_the_fields_it_names_without_a_look_at_all_there_are() {
    const READS: usize = 300;
    let text = json!({"type": "string"});
    let fields: Map<String, Value> =
        (0..MANY).map(|at| (format!("f-{at}"), text.clone())).collect();
    let reads = vec!["has(self.f__dash__7)"; READS].join(" && ");
    let rule = json!([{"rule": reads}]);
    let definition = json!({"type": "object", "properties": {"spec":
        {"type": "object", "properties": fields, "x-kubernetes-validations": rule}}});
    let (read, names) = counted(|| crd(&definition));
    read.unwrap();
    assert!((READS..READS * 20).contains(&names), "{names} names were escaped");
}
