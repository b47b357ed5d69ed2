//! Create.

use scenarios::request::{User, delete, get, post};
use serde_json::json;

use super::{NO_SUCH_PATH, cases};

/// More than a server reads of one body.
const TOO_LARGE: usize = 4 << 20;

cases! {
    create_makes_the_object: Create, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).expect(201),
        get(&r.object("a")).expect(200),
    ];
    create_generates_a_name: Create, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.with_metadata("x", &json!({"name": null, "generateName": r.name("g-")})))
            .expect(201),
    ];
    create_drops_what_the_server_sets: Create, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.with_metadata("a", &json!({
            "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7,
            "deletionTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x",
        }))).expect(201),
    ];
    create_keeps_metadata_of_users: Create, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.with_metadata("a", &json!({
            "annotations": {"a/b": "c"}, "finalizers": ["gantry.test/hold"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}],
        }))).expect(201),
    ];
    create_from_yaml: Create, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, json!(null))
            .raw("application/yaml", r.yaml("yaml").replace("{ns}-", ""))
            .query("fieldValidation", "Ignore")
            .expect(201),
    ];
    create_dry_run_leaves_nothing: Create, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).query("dryRun", "All").expect(201),
        get(&r.object("a")).refused(404, "NotFound"),
    ];
    create_as_a_table: Create, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one"))
            .header("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
            .expect(201),
    ];
    create_as_partial_metadata: Create, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one"))
            .header("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
            .expect(201),
    ];
    create_field_validation_warns: Create, Success, [namespaced cluster custom] => |r| {
        let mut body = r.body("a", "one");
        body["bogus"] = json!(1);
        vec![
            post(r.collection, body.clone()).expect(201).warned(1),
            post(r.collection, r.body("b", "one")).query("fieldValidation", "Warn").expect(201).warned(0),
        ]
    };
    create_field_validation_warns_of_repeats: Create, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, json!(null))
            .raw("application/json", r.repeating())
            .query("fieldValidation", "Warn")
            .expect(201),
    ];
    create_field_validation_ignores: Create, Success, [namespaced cluster custom] => |r| {
        let mut body = r.body("a", "one");
        body["bogus"] = json!(1);
        vec![post(r.collection, body).query("fieldValidation", "Ignore").expect(201).warned(0)]
    };
    create_field_validation_is_strict: Create, BadRequest, [namespaced cluster custom] => |r| {
        let mut body = r.body("a", "one");
        body["bogus"] = json!(1);
        body["metadata"]["bogus"] = json!(1);
        vec![post(r.collection, body).query("fieldValidation", "Strict").refused(400, "BadRequest")]
    };
    create_field_validation_is_strict_on_repeats: Create, BadRequest, [namespaced cluster custom] => |r| vec![
        post(r.collection, json!(null))
            .raw("application/json", r.repeating())
            .query("fieldValidation", "Strict")
            .refused(400, "BadRequest"),
    ];
    create_field_validation_unknown: Create, Invalid, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).query("fieldValidation", "Maybe").refused(422, "Invalid"),
    ];
    create_dry_run_unknown: Create, Invalid, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).query("dryRun", "Some").refused(422, "Invalid"),
    ];
    create_twice: Create, AlreadyExists, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).expect(201),
        post(r.collection, r.body("a", "two")).refused(409, "AlreadyExists"),
    ];
    create_in_no_namespace: Create, NotFound, [namespaced custom] => |r| vec![
        post(&r.collection.replace("{ns}", "{ns}-missing"), r.body("a", "one")).refused(404, "NotFound"),
    ];
    create_of_an_unknown_resource: Create, NotFound, [namespaced cluster] => |r| vec![
        post(&format!("{}-not", r.collection), r.body("a", "one")).refused(404, "NotFound"),
    ];
    create_of_an_unknown_custom_resource: Create, NoSuchPath, [custom] => |r| vec![
        post(&format!("{}-not", r.collection), r.body("a", "one"))
            .expect(404)
            .with("", NO_SUCH_PATH),
    ];
    create_with_a_bad_name: Create, Invalid, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.with_metadata("x", &json!({"name": "Not_A_Name"}))).refused(422, "Invalid"),
    ];
    create_without_a_name: Create, Invalid, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.with_metadata("x", &json!({"name": null}))).refused(422, "Invalid"),
    ];
    create_with_bad_labels: Create, Invalid, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.with_metadata("a", &json!({
            "labels": {"bad key": "v"}, "annotations": {"a/b/c": ""},
            "finalizers": ["no slash but fine?"],
        }))).refused(422, "Invalid"),
    ];
    create_with_bad_owners: Create, Invalid, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.with_metadata("a", &json!({
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "", "uid": ""}],
        }))).refused(422, "Invalid"),
    ];
    create_of_an_invalid_object: Create, Invalid, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.invalid("a")).refused(422, "Invalid"),
    ];
    create_of_a_wrong_type: Create, BadRequest, [namespaced cluster] => |r| {
        let mut body = r.body("a", "one");
        body["data"] = json!([1]);
        body["value"] = json!("many");
        vec![post(r.collection, body).refused(400, "BadRequest")]
    };
    create_of_a_wrong_type_by_schema: Create, Invalid, [custom] => |r| {
        // One fault at a time: kube-apiserver tells several in no order.
        let (mut size, mut color) = (r.body("a", "one"), r.body("a", "one"));
        size["spec"]["size"] = json!("many");
        color["spec"]["color"] = json!("green");
        [size, color].map(|body| post(r.collection, body).refused(422, "Invalid")).to_vec()
    };
    create_of_wrong_metadata: Create, BadRequest, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.with_metadata("a", &json!({"labels": [1]}))).refused(400, "BadRequest"),
    ];
    create_from_broken_json: Create, BadRequest, [namespaced cluster custom] => |r| vec![
        post(r.collection, json!(null)).raw("application/json", "{\"metadata\": ").refused(400, "BadRequest"),
    ];
    create_from_nothing: Create, BadRequest, [namespaced cluster custom] => |r| vec![
        post(r.collection, json!(null)).raw("application/json", "").refused(400, "BadRequest"),
    ];
    create_from_a_list: Create, BadRequest, [namespaced cluster custom] => |r| vec![
        post(r.collection, json!([])).refused(400, "BadRequest"),
    ];
    create_of_another_kind: Create, BadRequest, [namespaced cluster] => |r| {
        let mut body = r.body("a", "one");
        body["kind"] = json!("Secret");
        vec![post(r.collection, body).refused(400, "BadRequest")]
    };
    create_of_another_custom_kind: Create, Invalid, [custom] => |r| {
        let mut body = r.body("a", "one");
        body["kind"] = json!("Secret");
        vec![post(r.collection, body).refused(422, "Invalid")]
    };
    create_without_a_kind: Create, Success, [namespaced cluster] => |r| {
        let mut body = r.body("a", "one");
        body["kind"] = json!(null);
        body["apiVersion"] = json!(null);
        vec![post(r.collection, body).expect(201)]
    };
    create_without_a_custom_kind: Create, BadRequest, [custom] => |r| {
        let mut body = r.body("a", "one");
        body["kind"] = json!(null);
        vec![post(r.collection, body).refused(400, "BadRequest")]
    };
    create_of_another_version: Create, BadRequest, [namespaced cluster custom] => |r| {
        let mut body = r.body("a", "one");
        body["apiVersion"] = json!("v7");
        vec![post(r.collection, body).refused(400, "BadRequest")]
    };
    create_in_another_namespace: Create, BadRequest, [namespaced custom] => |r| vec![
        post(r.collection, r.with_metadata("a", &json!({"namespace": "other"}))).refused(400, "BadRequest"),
    ];
    create_of_a_cluster_object_drops_the_namespace: Create, Success, [cluster] => |r| vec![
        post(r.collection, r.with_metadata("a", &json!({"namespace": "other"}))).expect(201),
    ];
    create_with_a_revision: Create, Unnamed, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.with_metadata("a", &json!({"resourceVersion": "5"}))).refused(500, ""),
    ];
    create_on_the_path_of_a_custom_object: Create, Success, [custom] => |r| vec![
        post(&r.object("b"), r.body("a", "one")).expect(201),
        get(&r.object("a")).expect(200),
    ];
    create_on_an_object: Create, MethodNotAllowed, [namespaced cluster] => |r| vec![
        post(&r.object("a"), r.body("a", "one")).refused(405, "MethodNotAllowed"),
    ];
    create_of_an_unknown_media_type: Create, UnsupportedMediaType, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).header("Content-Type", "text/plain")
            .refused(415, "UnsupportedMediaType"),
    ];
    create_answered_in_an_unknown_media_type: Create, NotAcceptable, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).header("Accept", "text/plain").refused(406, "NotAcceptable"),
    ];
    create_by_an_outsider: Create, Forbidden, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).by(User::Outsider).refused(403, "Forbidden"),
    ];
    create_in_a_namespace_that_ends: Create, Forbidden, [namespaced custom] => |r| vec![
        delete("/api/v1/namespaces/{ns}").preparation(),
        post(r.collection, r.body("a", "one")).refused(403, "Forbidden"),
    ];
    create_by_a_stranger: Create, Unauthorized, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).by(User::Stranger).refused(401, "Unauthorized"),
    ];
    create_by_nobody: Create, Unauthorized, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).by(User::Anonymous).refused(401, "Unauthorized"),
    ];
    create_of_too_much: Create, RequestEntityTooLarge, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", &"x".repeat(TOO_LARGE))).refused(413, "RequestEntityTooLarge"),
    ];
}
