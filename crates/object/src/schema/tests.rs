//! What the module does as a whole, held against what kube-apiserver 1.35.4 answered:
//! the files beside this one are its answers.

mod facts;
mod laws;
mod limits;
mod rules;

use serde_json::{Value, json};

use super::*;
use crate::field::{Errors, Path};

fn records(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap()
}

fn causes(errors: &Errors) -> Vec<Value> {
    let cause = |error: &crate::field::Error| {
        json!([error.path.to_string(), error.fault.reason(), error.body()])
    };
    errors.iter().map(cause).collect()
}

fn crd(schema: &Value) -> Result<Schema, Errors> {
    Schema::from_crd(schema, &Path::new("spec.validation.openAPIV3Schema"))
}

#[test]
fn a_crd_is_refused_in_the_words_of_kube_apiserver() {
    let mut wrong = Vec::new();
    for record in records(include_str!("tests/crds.json")) {
        let ours = crd(&record["schema"]).err().map(|errors| causes(&errors)).unwrap_or_default();
        let theirs = record["causes"].as_array().unwrap();
        // The parser's own syntax errors are worded differently.
        let syntax = theirs.iter().any(|cause| cause.to_string().contains("Syntax error"));
        let unsupported = ours.iter().any(|cause| cause.to_string().contains("is not supported;"));
        if (syntax || unsupported) && ours.len() == theirs.len() {
            continue;
        }
        if ours != *theirs {
            wrong.push(format!("{}\nours   {ours:#?}\ntheirs {theirs:#?}", record["schema"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_custom_object_is_pruned_defaulted_and_refused_as_kube_apiserver_does() {
    let mut wrong = Vec::new();
    for kind in records(include_str!("tests/objects.json")) {
        let schema = crd(&kind["schema"]).unwrap();
        for record in kind["objects"].as_array().unwrap() {
            let mut object = record["object"].clone();
            object["apiVersion"] = "t.example/v1".into();
            object["kind"] = "Rul".into();
            object["metadata"] = json!({"name": "x"});
            if let Some(fault) = metadata_fault(&schema, &object) {
                let expected = record["message"].as_str().unwrap_or_default();
                if !expected.ends_with(&fault.to_string()) {
                    wrong.push(format!("{fault} is not {expected}"));
                }
                continue;
            }
            let unknown = prune(&schema, &mut object);
            let strict = record["strict"].as_str().unwrap_or_default();
            let shown: Vec<String> =
                unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
            if !strict.ends_with(&shown.join(", ")) || strict.is_empty() != unknown.is_empty() {
                wrong.push(format!("{unknown:?} is not {strict}"));
            }
            default(&schema, &mut object).unwrap();
            let errors = causes(&validate(&schema, &object, None));
            let expected = record["causes"].as_array().cloned().unwrap_or_default();
            if errors != expected {
                wrong.push(format!(
                    "{}\nours   {errors:#?}\ntheirs {expected:#?}",
                    record["object"]
                ));
            } else if expected.is_empty() && !same(&object["spec"], &record["stored"]) {
                wrong.push(format!("{} is not {}", object["spec"], record["stored"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Equal but for how a whole float is written.
fn same(ours: &Value, theirs: &Value) -> bool {
    ours == theirs || ours.to_string().replace(".0", "").as_str() == theirs.to_string().as_str()
}

fn natives() -> Definitions {
    let document: Value = serde_json::from_str(include_str!("tests/openapi.json")).unwrap();
    Definitions::from_openapi([&document]).unwrap()
}

#[test]
fn a_native_object_is_decoded_as_go_does() {
    let definitions = natives();
    let mut wrong = Vec::new();
    for record in records(include_str!("tests/decode.json")) {
        let schema = definitions.schema(record["definition"].as_str().unwrap()).unwrap();
        let ours = match decode_check(&schema, &record["object"]) {
            Err(error) => Some(error.to_string()),
            Ok(unknown) if unknown.is_empty() => None,
            Ok(mut unknown) => {
                // Go reports in the order of the document.
                unknown.sort_by_key(|path| path.to_lowercase());
                let shown = unknown.iter().map(|path| format!("unknown field {path:?}"));
                Some(format!("strict decoding error: {}", shown.collect::<Vec<_>>().join(", ")))
            }
        };
        // Structs that Go embeds have names in Go's path that the documents do not tell.
        let theirs = record["message"]
            .as_str()
            .map(|message| message.replace(".ProbeHandler", "").replace(".VolumeSource.", "."));
        if ours != theirs {
            wrong.push(format!("ours   {ours:?}\ntheirs {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_native_definition_can_be_walked() {
    let definitions = natives();
    let pod = definitions.schema("io.k8s.api.core.v1.Pod").unwrap();
    let containers = pod.root().field("spec").unwrap().field("containers").unwrap();
    assert_eq!(containers.kind(), Kind::Array);
    assert_eq!(containers.list_type(), Some(ListType::Map));
    assert_eq!(containers.list_map_keys().collect::<Vec<_>>(), ["name"]);
    assert_eq!(containers.merge_key(), Some("name"));
    assert_eq!(containers.patch_strategies().collect::<Vec<_>>(), ["merge"]);
    let container = containers.items().unwrap();
    assert_eq!(container.name(), Some("io.k8s.api.core.v1.Container"));
    assert_eq!(container.required().collect::<Vec<_>>(), ["name"]);
    let volumes = pod.root().field("spec").unwrap().field("volumes").unwrap();
    assert_eq!(volumes.patch_strategies().collect::<Vec<_>>(), ["merge", "retainKeys"]);
    let requests = container.field("resources").unwrap().field("requests").unwrap();
    assert_eq!(requests.values().unwrap().kind(), Kind::Quantity);
    let port = container.field("ports").unwrap().items().unwrap();
    assert_eq!(port.field("protocol").unwrap().default_value(), Some(&json!("TCP")));
    let created = pod.root().field("metadata").unwrap().field("creationTimestamp").unwrap();
    assert_eq!(created.kind(), Kind::Time);
    assert_eq!(pod.root().group_version_kinds()[0].kind, "Pod");
    let by_kind = definitions.of_kind("", "v1", "Pod").unwrap();
    assert_eq!(by_kind.root().name(), pod.root().name());

    let props = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let props = definitions.schema(props).unwrap();
    let mut at = props.root();
    for _ in 0..100 {
        at = at.field("properties").unwrap().values().unwrap();
    }
    assert_eq!(at.field("default").unwrap().kind(), Kind::Json);
}

#[test]
fn a_native_object_loses_nulls_and_unknown_fields() {
    let pod = natives().schema("io.k8s.api.core.v1.Pod").unwrap();
    let check = |mut object: Value, expected: Value, unknown: &[&str]| {
        drop_nulls(&pod, &mut object);
        assert_eq!(prune(&pod, &mut object), unknown);
        assert_eq!(object, expected);
    };
    check(
        json!({"metadata": {"creationTimestamp": null, "labels": {"a": null}}, "spec": null}),
        json!({"metadata": {"labels": {"a": ""}}}),
        &[],
    );
    check(
        json!({"spec": {"containers": [{"name": "c", "x": {"y": 1}, "args": [null]}]}, "z": 1}),
        json!({"spec": {"containers": [{"name": "c", "args": [""]}]}}),
        &["spec.containers[0].x", "z"],
    );
}

#[test]
fn a_document_that_cannot_be_read_is_named() {
    let check = |schemas: Value, text: &str| {
        let document = json!({"components": {"schemas": schemas}});
        let error = Definitions::from_openapi([&document]).unwrap_err();
        assert_eq!(error.to_string(), text);
    };
    let to = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    check(
        json!({"a": {"properties": {"x": to("b")}}}),
        "definition a refers to b, which no document defines",
    );
    check(json!({"a": to("b"), "b": to("a")}), "definition a is defined by itself alone");
}

#[test]
fn what_was_there_before_is_tolerated_until_it_changes() {
    let schema = crd(&json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {
            "s": {"type": "string", "maxLength": 2},
            "n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]},
            "list": {"type": "array", "items": {"type": "string", "maxLength": 1}},
            "keyed": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {
                    "k": {"type": "string"}, "v": {"type": "string", "maxLength": 1}}},
            },
        },
    }}}))
    .unwrap();
    let check = |old: Value, new: Value, expected: &[&str]| {
        let errors = validate(&schema, &json!({"spec": new}), Some(&json!({"spec": old})));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{new}");
    };
    let long = "Too long: may not be more than";
    let skipped = "<nil>: Invalid value: null: some validation rules were not checked because the \
                   object was invalid; correct the existing errors to complete validation";
    check(json!({"s": "abc"}), json!({"s": "abc", "n": 1}), &[]);
    check(
        json!({"s": "abc"}),
        json!({"s": "abcd"}),
        &[&format!("spec.s: {long} 2 bytes"), skipped],
    );
    check(json!({"n": 0, "s": "a"}), json!({"n": 0, "s": "b"}), &[]);
    check(json!({"n": 0}), json!({"n": -1}), &["spec.n: Invalid value: -1: failed rule: self > 0"]);
    check(json!({"list": ["ab"]}), json!({"list": ["ab"], "s": "a"}), &[]);
    check(
        json!({"list": ["ab"]}),
        json!({"list": ["ab", "c"]}),
        &[&format!("spec.list[0]: {long} 1 byte"), skipped],
    );
    check(
        json!({"keyed": [{"k": "x", "v": "ab"}]}),
        json!({"keyed": [{"k": "y"}, {"k": "x", "v": "ab"}]}),
        &[],
    );
    check(
        json!({"keyed": [{"k": "y"}, {"k": "y"}]}),
        json!({"keyed": [{"k": "y"}, {"k": "y"}, {"k": "z"}]}),
        &[],
    );
}

#[test]
fn status_needs_a_root_that_says_nothing_beside_its_fields() {
    let path = Path::new("spec.validation.openAPIV3Schema");
    let check = |schema: Value, count: usize| {
        assert_eq!(status_root_errors(&schema, &path).len(), count, "{schema}");
    };
    check(json!({"type": "object", "properties": {}}), 0);
    check(json!({"type": "array"}), 1);
    check(json!({"type": "object", "oneOf": [{}]}), 1);
}
