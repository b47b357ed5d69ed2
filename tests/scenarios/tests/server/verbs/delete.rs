//! Delete and deletecollection.

use scenarios::request::{PatchType, Request, User, delete, get, patch, post};
use serde_json::{Value, json};

use super::cases;
use super::resource::Resource;

const ANOTHER_UID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

fn made(r: &Resource) -> Request {
    post(r.collection, r.body("a", "one"))
        .preparation()
        .capture("rv", "/metadata/resourceVersion")
        .capture("uid", "/metadata/uid")
}

/// A delete of `a` with options.
fn with(r: &Resource, options: Value) -> Request {
    delete(&r.object("a")).json(options)
}

fn all(r: &Resource) -> Request {
    delete(r.collection).query("labelSelector", r.selector())
}

fn list(r: &Resource) -> Request {
    get(r.collection).query("labelSelector", r.selector())
}

fn two(r: &Resource) -> Vec<Request> {
    ["a", "b"].map(|stem| post(r.collection, r.body(stem, "one")).preparation()).to_vec()
}

fn after_two(r: &Resource, steps: Vec<Request>) -> Vec<Request> {
    two(r).into_iter().chain(steps).collect()
}

cases! {
    delete_removes_the_object: Delete, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        delete(&r.object("a")).expect(200),
        get(&r.object("a")).refused(404, "NotFound"),
    ];
    delete_with_options: Delete, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        with(r, json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "propagationPolicy": "Background"})).expect(200),
    ];
    delete_with_preconditions_that_hold: Delete, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        with(r, json!({"preconditions": {"uid": "{uid}", "resourceVersion": "{rv}"}})).expect(200),
    ];
    delete_dry_run_leaves_the_object: Delete, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        delete(&r.object("a")).query("dryRun", "All").expect(200),
        with(r, json!({"dryRun": ["All"]})).expect(200),
        get(&r.object("a")).expect(200),
    ];
    delete_waits_for_finalizers: Delete, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.with_metadata("a", &json!({"finalizers": ["gantry.test/hold"]})))
            .preparation(),
        delete(&r.object("a")).expect(200),
        delete(&r.object("a")).expect(200),
        get(&r.object("a")).expect(200),
        patch(&r.object("a"), PatchType::Merge, json!({"metadata": {"finalizers": null}})).expect(200),
        get(&r.object("a")).refused(404, "NotFound"),
    ];
    delete_that_orphans_waits: Delete, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        with(r, json!({"propagationPolicy": "Orphan"})).expect(200),
        get(&r.object("a")).expect(200).with("/metadata/finalizers/0", "orphan"),
    ];
    delete_in_the_foreground_waits: Delete, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        delete(&r.object("a")).query("propagationPolicy", "Foreground").expect(200),
        get(&r.object("a")).expect(200).with("/metadata/finalizers/0", "foregroundDeletion"),
    ];
    delete_of_nothing: Delete, NotFound, [namespaced cluster custom] => |r| vec![
        delete(&r.object("a")).refused(404, "NotFound"),
        with(r, json!({"preconditions": {"uid": ANOTHER_UID}})).refused(404, "NotFound"),
    ];
    delete_of_another_uid: Delete, Conflict, [namespaced cluster custom] => |r| vec![
        made(r),
        with(r, json!({"preconditions": {"uid": ANOTHER_UID}})).refused(409, "Conflict"),
    ];
    delete_of_another_revision: Delete, Conflict, [namespaced cluster custom] => |r| vec![
        made(r),
        with(r, json!({"preconditions": {"resourceVersion": "1"}})).refused(409, "Conflict"),
    ];
    delete_with_an_unknown_policy: Delete, Invalid, [namespaced cluster custom] => |r| vec![
        made(r),
        with(r, json!({"propagationPolicy": "Sideways"})).refused(422, "Invalid"),
        with(r, json!({"propagationPolicy": "Orphan", "orphanDependents": true})).refused(422, "Invalid"),
        with(r, json!({"dryRun": ["Some"]})).refused(422, "Invalid"),
    ];
    delete_with_broken_options: Delete, BadRequest, [namespaced cluster custom] => |r| vec![
        made(r),
        delete(&r.object("a")).raw("application/json", "{").refused(400, "BadRequest"),
        with(r, json!({"gracePeriodSeconds": "many"})).refused(400, "BadRequest"),
    ];
    delete_with_options_of_another_kind: Delete, BadRequest, [namespaced cluster custom] => |r| vec![
        made(r),
        with(r, json!({"apiVersion": "v1", "kind": "Secret"})).refused(400, "BadRequest"),
    ];
    delete_with_a_bad_query: Delete, BadRequest, [namespaced cluster custom] => |r| vec![
        made(r),
        delete(&r.object("a")).query("gracePeriodSeconds", "many").refused(400, "BadRequest"),
    ];
    delete_of_an_unknown_media_type: Delete, UnsupportedMediaType, [namespaced cluster custom] => |r| vec![
        made(r),
        delete(&r.object("a")).raw("text/plain", "x").refused(415, "UnsupportedMediaType"),
    ];
    delete_answered_in_an_unknown_media_type: Delete, NotAcceptable, [namespaced cluster custom] => |r| vec![
        made(r),
        delete(&r.object("a")).header("Accept", "text/plain").refused(406, "NotAcceptable"),
    ];
    delete_by_an_outsider: Delete, Forbidden, [namespaced cluster custom] => |r| vec![
        delete(&r.object("a")).by(User::Outsider).refused(403, "Forbidden"),
    ];
    delete_by_a_stranger: Delete, Unauthorized, [namespaced cluster custom] => |r| vec![
        delete(&r.object("a")).by(User::Stranger).refused(401, "Unauthorized"),
    ];

    deletecollection_by_labels: DeleteCollection, Success, [namespaced cluster custom] => |r| {
        after_two(r, vec![all(r).expect(200), list(r).expect(200).with("/items", json!([]))])
    };
    deletecollection_of_a_namespace: DeleteCollection, Success, [namespaced custom] => |r| {
        after_two(r, vec![delete(r.collection).expect(200), list(r).expect(200).with("/items", json!([]))])
    };
    deletecollection_by_name: DeleteCollection, Success, [namespaced cluster custom] => |r| {
        after_two(r, vec![
            all(r).query("fieldSelector", &format!("metadata.name={}", r.name("a"))).expect(200),
            list(r).expect(200),
        ])
    };
    deletecollection_of_nothing: DeleteCollection, Success, [namespaced cluster custom] => |r| vec![
        all(r).expect(200),
    ];
    deletecollection_dry_run: DeleteCollection, Success, [namespaced cluster custom] => |r| {
        after_two(r, vec![all(r).query("dryRun", "All").expect(200), list(r).expect(200)])
    };
    deletecollection_waits_for_finalizers: DeleteCollection, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.with_metadata("a", &json!({"finalizers": ["gantry.test/hold"]})))
            .preparation(),
        post(r.collection, r.body("b", "one")).preparation(),
        all(r).expect(200),
        list(r).expect(200),
    ];
    deletecollection_of_another_uid: DeleteCollection, Conflict, [namespaced cluster custom] => |r| {
        after_two(r, vec![
            all(r).json(json!({"preconditions": {"uid": ANOTHER_UID}})).refused(409, "Conflict"),
        ])
    };
    deletecollection_by_broken_labels: DeleteCollection, BadRequest, [namespaced cluster custom] => |r| vec![
        delete(r.collection).query("labelSelector", "a in (b").refused(400, "BadRequest"),
        all(r).query("fieldSelector", "spec.nothing=x").refused(400, "BadRequest"),
    ];
    deletecollection_with_broken_options: DeleteCollection, BadRequest, [namespaced cluster custom] => |r| vec![
        all(r).raw("application/json", "{").refused(400, "BadRequest"),
    ];
    deletecollection_with_an_unknown_policy: DeleteCollection, Invalid, [namespaced cluster custom] => |r| vec![
        all(r).json(json!({"propagationPolicy": "Sideways"})).refused(422, "Invalid"),
    ];
    deletecollection_of_an_unknown_media_type: DeleteCollection, UnsupportedMediaType, [namespaced cluster custom] => |r| vec![
        all(r).raw("text/plain", "x").refused(415, "UnsupportedMediaType"),
    ];
    deletecollection_answered_in_an_unknown_media_type: DeleteCollection, NotAcceptable, [namespaced cluster custom] => |r| vec![
        all(r).header("Accept", "text/plain").refused(406, "NotAcceptable"),
    ];
    deletecollection_by_an_outsider: DeleteCollection, Forbidden, [namespaced cluster custom] => |r| vec![
        all(r).by(User::Outsider).refused(403, "Forbidden"),
    ];
    deletecollection_by_a_stranger: DeleteCollection, Unauthorized, [namespaced cluster custom] => |r| vec![
        all(r).by(User::Stranger).refused(401, "Unauthorized"),
    ];
}
