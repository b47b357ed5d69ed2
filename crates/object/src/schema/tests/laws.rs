//! Laws over generated schemas and documents.

use proptest::prelude::*;
use serde_json::Map;

use super::*;

const NAMES: [&str; 5] = ["a", "b", "c", "spec", "metadata"];

/// Any JSON, with the names that schemas use.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z]{0,4}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let name = prop_oneof![
            4 => proptest::sample::select(&NAMES[..]).prop_map(str::to_owned),
            1 => any::<String>(),
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A schema as a CRD may have it.
fn any_structural() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "default": "d"})),
        Just(json!({"type": "string", "nullable": true, "default": "n"})),
        Just(json!({"type": "string", "minLength": 1, "maxLength": 2, "pattern": "^[a-z]"})),
        Just(json!({"type": "integer", "default": 3, "minimum": 1})),
        Just(json!({"type": "number", "maximum": 10})),
        Just(json!({"type": "boolean", "nullable": true})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 2"}]})),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let fields = proptest::collection::btree_map(
            proptest::sample::select(&NAMES[..3]).prop_map(str::to_owned),
            inner.clone(),
            0..4,
        );
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            (fields, any::<bool>(), any::<bool>()).prop_map(|(fields, keep, fill)| {
                let mut schema = json!({"type": "object", "properties": fields});
                if keep {
                    schema["x-kubernetes-preserve-unknown-fields"] = true.into();
                }
                if fill {
                    schema["default"] = json!({});
                }
                schema
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_schema_and_no_document_panics(schema in any_json(), object in any_json(), old in any_json()) {
        let _ = status_root_errors(&schema, &Path::root());
        if let Ok(schema) = crd(&schema) {
            let _ = validate(&schema, &object, Some(&old));
        }
        let document = json!({"components": {"schemas": {"a": schema}}});
        if let Ok(definitions) = Definitions::from_openapi([&document]) {
            let mut object = object;
            for name in definitions.names() {
                let schema = definitions.schema(name).unwrap();
                let _ = decode_check(&schema, &object);
                drop_nulls(&schema, &mut object);
            }
        }
    }

    #[test]
    fn no_keyword_with_any_value_panics(
        keyword in proptest::sample::select(&[
            "type", "format", "pattern", "enum", "default", "required", "items", "properties",
            "additionalProperties", "allOf", "anyOf", "oneOf", "not", "minimum", "multipleOf",
            "maxLength", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
            "x-kubernetes-validations", "x-kubernetes-embedded-resource", "nullable",
        ][..]),
        value in any_json(),
        object in any_json(),
    ) {
        let mut inner = json!({"type": "string"});
        inner[keyword] = value;
        let schema = json!({"type": "object", "properties": {"spec": inner}});
        if let Ok(schema) = crd(&schema) {
            let mut object = json!({"spec": object});
            prune(&schema, &mut object);
            let _ = default(&schema, &mut object);
            let _ = validate(&schema, &object, None);
        }
    }

    #[test]
    fn no_rule_panics(source in "[-a-z0-9 .()!&|<>=+*/%'\"\\[\\]{}:?,]{0,40}") {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "integer", "x-kubernetes-validations": [{"rule": source}]}}});
        if let Ok(schema) = crd(&schema) {
            let _ = validate(&schema, &json!({"spec": 1}), None);
        }
    }

    #[test]
    fn no_pattern_panics(pattern in any::<String>(), text in any::<String>()) {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "string", "pattern": pattern}}});
        if let Ok(schema) = crd(&schema) {
            let _ = validate(&schema, &json!({"spec": text}), None);
        }
    }

    #[test]
    fn defaulting_and_pruning_keep_their_laws(spec in any_structural(), value in any_json()) {
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let Ok(schema) = crd(&schema) else { return Ok(()) };
        let object = json!({"spec": value});
        let apply = |steps: &[&dyn Fn(&mut Value)]| {
            let mut object = object.clone();
            steps.iter().for_each(|step| step(&mut object));
            object
        };
        let fill = |object: &mut Value| default(&schema, object).unwrap();
        let cut = |object: &mut Value| { prune(&schema, object); };
        prop_assert_eq!(apply(&[&fill]), apply(&[&fill, &fill]), "default is idempotent");
        prop_assert_eq!(apply(&[&cut]), apply(&[&cut, &cut]), "prune is idempotent");
        prop_assert_eq!(apply(&[&fill, &cut]), apply(&[&cut, &fill]), "they commute");
        let (whole, pruned) = (apply(&[]), apply(&[&cut]));
        let before = validate(&schema, &whole, None).len();
        prop_assert!(validate(&schema, &pruned, None).len() <= before, "pruning harms nothing");
        prop_assert!(validate(&schema, &whole, Some(&whole)).is_empty(), "no change, no fault");
    }
}

#[test]
fn a_document_as_deep_as_may_be_is_walked() {
    let native = json!({"components": {"schemas": {"t": {"type": "object", "properties": {
        "a": {"$ref": "#/components/schemas/t"}, "l": {"type": "array", "items": {
            "$ref": "#/components/schemas/t"}}}}}}});
    let native = Definitions::from_openapi([&native]).unwrap().schema("t").unwrap();
    let custom = crd(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"a": {"x-kubernetes-preserve-unknown-fields": true}}}))
    .unwrap();
    for depth in [DEPTH_MAX - 1, DEPTH_MAX + 200] {
        let deep = |step: fn(Value) -> Value| (0..depth).fold(json!({}), |inner, _| step(inner));
        for mut object in [deep(|inner| json!({"a": inner})), deep(|inner| json!([inner]))] {
            for schema in [&native, &custom] {
                prune(schema, &mut object);
                default(schema, &mut object).unwrap();
                drop_nulls(schema, &mut object);
                let _ = validate(schema, &object, Some(&object.clone()));
                let _ = decode_check(schema, &object);
            }
        }
    }
}

#[test]
fn a_schema_nested_without_end_is_refused() {
    let deep = |step: fn(Value) -> Value| (0..900).fold(json!({"type": "object"}), |s, _| step(s));
    for schema in [
        deep(|inner| json!({"type": "object", "properties": {"a": inner}})),
        deep(|inner| json!({"type": "object", "allOf": [inner]})),
        deep(|inner| json!({"type": "object", "not": inner})),
    ] {
        let error = crd(&schema).unwrap_err().remove(0);
        assert!(error.to_string().contains("schemas may nest at most"), "{error}");
    }
}
