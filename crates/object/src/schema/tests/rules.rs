//! Validation rules, among them those of the CRDs this project serves.

use super::*;

fn spec_with(schema: &Value) -> Result<Schema, Errors> {
    crd(&json!({"type": "object", "properties": {"spec": schema}}))
}

/// The texts of what is wrong with `new` after `old`.
fn faults(schema: &Value, old: Option<Value>, new: &Value) -> Vec<String> {
    let schema = spec_with(schema).unwrap_or_else(|errors| panic!("{errors:?}"));
    let old = old.map(|old| json!({"metadata": {"name": "a"}, "spec": old}));
    let object = json!({"metadata": {"name": "a"}, "spec": new});
    validate(&schema, &object, old.as_ref()).iter().map(ToString::to_string).collect()
}

#[test]
fn a_transition_rule_runs_only_on_an_update() {
    let schema = json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "self == oldSelf", "message": "immutable"}]});
    let check = |old: Option<Value>, new: Value, expected: &[&str]| {
        assert_eq!(faults(&schema, old, &new), expected);
    };
    check(None, json!("a"), &[]);
    check(Some(json!("a")), json!("a"), &[]);
    check(Some(json!("a")), json!("b"), &["spec: Invalid value: \"b\": immutable"]);
    check(Some(Value::Null), json!("b"), &[]);
}

#[test]
fn sets_and_maps_are_equal_in_any_order() {
    let rule = json!([{"rule": "self == oldSelf", "message": "fixed"}]);
    let set = json!({"type": "array", "items": {"type": "string"},
        "x-kubernetes-list-type": "set", "x-kubernetes-validations": rule});
    let list = json!({"type": "array", "items": {"type": "string"},
        "x-kubernetes-validations": rule});
    let (before, after) = (json!(["a", "b"]), json!(["b", "a"]));
    assert_eq!(faults(&set, Some(before.clone()), &after), [""; 0]);
    assert_eq!(faults(&list, Some(before), &after), ["spec: Invalid value: fixed"]);
}

#[test]
fn a_function_that_is_not_there_is_named_with_the_rule() {
    let schema = json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "self.lowerAscii() == self"}]});
    let error = spec_with(&schema).unwrap_err().remove(0).to_string();
    assert!(error.contains("\"Rule\":\"self.lowerAscii() == self\""), "{error}");
    assert!(error.contains("the rule calls 'lowerAscii', which is not supported"), "{error}");
    assert!(error.contains("startsWith"), "{error}");
    let optional = json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "self == oldSelf", "optionalOldSelf": true}]});
    let error = spec_with(&optional).unwrap_err().remove(0).to_string();
    assert!(error.contains("optionalOldSelf is not supported"), "{error}");
}

#[test]
fn a_rule_without_end_is_refused_and_not_walked() {
    for source in [
        "1+".repeat(5_000) + "1 > 0",
        "1+".repeat(4_000) + "1 > 0",
        format!("self{} == 1", ".a".repeat(3_000)),
        format!("{}true{}", "(".repeat(3_000), ")".repeat(3_000)),
        format!("{}self{}", "[".repeat(2_000), "]".repeat(2_000)),
        format!("{}1", "1 < ".repeat(2_000)),
        "{'a': ".repeat(49) + "1" + &"}".repeat(49),
    ] {
        let schema = json!({"type": "string", "x-kubernetes-validations": [{"rule": source}]});
        assert!(spec_with(&schema).is_err(), "{}…", &source[..20]);
    }
}

#[test]
fn a_rule_as_deep_as_may_be_runs() {
    for source in [
        "1 + ".repeat(190) + "1 > 0",
        "true && ".repeat(900) + "true",
        "(".repeat(48) + "true" + &")".repeat(48),
        "[1].all(x, ".repeat(40) + "true" + &")".repeat(40),
    ] {
        let schema = json!({"type": "string", "x-kubernetes-validations": [{"rule": source}]});
        assert_eq!(faults(&schema, None, &json!("a")), [""; 0]);
    }
}

/// Holds one rule against a value it accepts and one it refuses; for a rule that
/// looks back, a pair of values is an update.
fn check_rule(schema: &Value, rule: &str, good: Value, bad: Value) {
    let mut schema = schema.clone();
    schema["x-kubernetes-validations"] = json!([{"rule": rule, "message": "no"}]);
    let update = rule.contains("oldSelf");
    for (value, holds) in [(good, true), (bad, false)] {
        let (old, new) =
            if update { (Some(value[0].clone()), value[1].clone()) } else { (None, value) };
        let found = faults(&schema, old, &new);
        assert_eq!(found.is_empty(), holds, "{rule}: {new} {found:?}");
    }
}

#[test]
fn the_rules_on_selectors_and_counts_hold_and_break() {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": text});
    let selector = json!({"type": "object", "properties": {"operator": text, "values": texts}});
    let tolerations = json!({"type": "array", "items": {"type": "object", "properties": {
        "key": text, "operator": text, "value": text}}});
    let count = json!({"type": "object", "properties": {
        "minCount": {"type": "integer"}, "count": {"x-kubernetes-int-or-string": true}}});
    check_rule(
        &selector,
        "(self.operator == 'In' || self.operator == 'NotIn') ? (has(self.values) && size(self.values) > 0) : true",
        json!({"operator": "In", "values": ["a"]}),
        json!({"operator": "NotIn"}),
    );
    check_rule(
        &selector,
        "(self.operator == 'Exists' || self.operator == 'DoesNotExist') ? (!has(self.values) || size(self.values) == 0) : true",
        json!({"operator": "Exists", "values": []}),
        json!({"operator": "Exists", "values": ["a"]}),
    );
    check_rule(
        &tolerations,
        "self.all(x, x.operator != 'Exists' || !has(x.value) || size(x.value) == 0)",
        json!([{"operator": "Exists"}]),
        json!([{"operator": "Exists", "value": "v"}]),
    );
    check_rule(
        &tolerations,
        "self.all(x, (has(x.key) && size(x.key) > 0) || x.operator == 'Exists')",
        json!([{"key": "a", "operator": "Equal"}]),
        json!([{"operator": "Equal"}]),
    );
    check_rule(
        &count,
        "!has(self.minCount) || !has(self.count) || (type(self.count) == string && self.count == 'All') || (type(self.count) == int && self.minCount <= self.count) || (type(self.count) == string && self.count.matches('^[0-9]+$') && self.minCount <= int(self.count))",
        json!({"minCount": 2, "count": "3"}),
        json!({"minCount": 2, "count": 1}),
    );
}

#[test]
fn the_rules_on_states_and_stages_hold_and_break() {
    let text = json!({"type": "string"});
    let state = json!({"type": "object", "properties": {"state": text, "policy": text}});
    check_rule(
        &state,
        "!(has(oldSelf.state) && oldSelf.state == 'Run' && self.state == 'Initialize')",
        json!([{"state": "Initialize"}, {"state": "Run"}]),
        json!([{"state": "Run"}, {"state": "Initialize"}]),
    );
    check_rule(
        &state,
        "!(has(oldSelf.policy) && !has(self.policy))",
        json!([{"policy": "a"}, {"policy": "b"}]),
        json!([{"policy": "a"}, {}]),
    );
    let stages = json!({"type": "array", "items": {"type": "object", "properties": {
        "type": text, "waitTime": text}}});
    check_rule(
        &stages,
        "!self.exists(e, e.type == 'TimedWait' && !has(e.waitTime))",
        json!([{"type": "TimedWait", "waitTime": "1h"}]),
        json!([{"type": "TimedWait"}]),
    );
    let resources = json!({"type": "object", "properties": {"resourceSelectors": {
        "type": "array", "items": {"type": "object", "properties": {
            "kind": text, "group": text, "version": text, "selectionScope": text}}}}});
    check_rule(
        &resources,
        "size(self.resourceSelectors.filter(x, x.kind == 'Namespace' && x.group == \"\" && x.version == 'v1' && has(x.selectionScope) && x.selectionScope == 'NamespaceWithResourceSelectors')) <= 1",
        json!({"resourceSelectors": [{"kind": "Pod"}]}),
        json!({"resourceSelectors": [
            {"kind": "Namespace", "group": "", "version": "v1",
             "selectionScope": "NamespaceWithResourceSelectors"},
            {"kind": "Namespace", "group": "", "version": "v1",
             "selectionScope": "NamespaceWithResourceSelectors"}]}),
    );
}

#[test]
fn rules_that_could_run_for_long_are_not_run() {
    let spent = "spec: Invalid value: \"array\": validation failed due to running out of cost \
                 budget, no further validation rules will be run";
    let check = |rule: &str, elements: usize, runs: bool| {
        let schema = json!({"type": "array", "items": {"type": "string"},
            "x-kubernetes-validations": [{"rule": rule}]});
        let list: Vec<String> = (0..elements).map(|number| format!("item-{number}")).collect();
        let told = faults(&schema, None, &json!(list));
        let want: &[&str] = if runs { &[] } else { &[spent] };
        assert_eq!(told, want, "{rule} over {elements}");
    };
    let pairs = "self.all(a, self.exists_one(b, b == a))";
    check(pairs, 200, true);
    check(pairs, 20_000, false);
    check("self.all(a, self.all(b, self.all(c, self.all(d, a.size() > 0))))", 100, false);
    check("self.all(a, a.startsWith('item-'))", 20_000, true);
    let doubled = format!("[self]{}.size() == 1", ".map(a, a + a)".repeat(40));
    check(&doubled, 1, false);
    let joined = format!("({}).size() > 0", vec!["self"; 100].join(" + "));
    check(&joined, 5, true);
    check(&joined, 100_000, false);
    check("self.all(a, a.matches('^item-[0-9]{1,9}$'))", 2_000, true);
    check("self.all(a, a.matches('((a{100}){100}){100}|item'))", 2_000, false);
    check("self.all(a, a.matches(a))", 2_000, false);
}

#[test]
fn every_rule_under_an_object_draws_on_one_budget() {
    let rule = "self.all(a, true || self.all(b, a == b))";
    let schema = json!({"type": "array", "items": {"type": "array", "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": rule}]}});
    let row: Vec<usize> = (0..500).collect();
    assert_eq!(faults(&schema, None, &json!([row])), Vec::<String>::new());
    let told = faults(&schema, None, &json!(vec![row; 20]));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("running out of cost budget"), "{told:?}");
}
