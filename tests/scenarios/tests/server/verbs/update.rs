//! Update.

use scenarios::request::{Request, User, delete, get, post, put};
use serde_json::{Value, json};

use super::cases;
use super::resource::Resource;

const TOO_LARGE: usize = 4 << 20;

/// The object `a` exists; `{rv}` and `{uid}` are its revision and uid.
fn made(r: &Resource) -> Request {
    post(r.collection, r.body("a", "one"))
        .preparation()
        .capture("rv", "/metadata/resourceVersion")
        .capture("uid", "/metadata/uid")
}

/// A body with the present revision.
fn current(r: &Resource, text: &str) -> Value {
    let mut body = r.body("a", text);
    body["metadata"]["resourceVersion"] = json!("{rv}");
    body
}

fn changed(r: &Resource, change: impl Fn(&mut Value)) -> Vec<Request> {
    let mut body = current(r, "two");
    change(&mut body);
    vec![made(r), put(&r.object("a"), body)]
}

/// The steps with the last one refused.
fn refused(mut steps: Vec<Request>, code: u16, reason: &str) -> Vec<Request> {
    let last = steps.pop().expect("there is a step");
    steps.push(last.refused(code, reason));
    steps
}

cases! {
    update_changes_the_object: Update, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        put(&r.object("a"), current(r, "two")).expect(200),
        get(&r.object("a")).expect(200),
    ];
    update_without_a_revision: Update, Success, [namespaced cluster] => |r| vec![
        made(r),
        put(&r.object("a"), r.body("a", "two")).expect(200),
    ];
    update_that_changes_nothing: Update, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).expect(201).capture("rv", "/metadata/resourceVersion"),
        put(&r.object("a"), current(r, "one")).expect(200),
    ];
    update_replaces_labels: Update, Success, [namespaced cluster custom] => |r| {
        let mut body = current(r, "one");
        body["metadata"]["labels"] = json!({"new": "label"});
        body["metadata"]["annotations"] = json!({"new": "note"});
        vec![made(r), put(&r.object("a"), body).expect(200)]
    };
    update_keeps_what_the_server_sets: Update, Success, [namespaced cluster custom] => |r| {
        let mut body = current(r, "two");
        body["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
        body["metadata"]["generation"] = json!(70);
        body["metadata"]["selfLink"] = json!("/x");
        vec![made(r), put(&r.object("a"), body).expect(200)]
    };
    update_dry_run_leaves_the_object: Update, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        put(&r.object("a"), current(r, "two")).query("dryRun", "All").expect(200),
        get(&r.object("a")).expect(200).with(r.text, "one"),
    ];
    update_field_validation_warns: Update, Success, [namespaced cluster custom] => |r| {
        let mut body = current(r, "two");
        body["bogus"] = json!(1);
        vec![made(r), put(&r.object("a"), body).expect(200).warned(1)]
    };
    update_field_validation_ignores: Update, Success, [namespaced cluster custom] => |r| {
        let mut body = current(r, "two");
        body["bogus"] = json!(1);
        vec![made(r), put(&r.object("a"), body).query("fieldValidation", "Ignore").expect(200).warned(0)]
    };
    update_field_validation_is_strict: Update, BadRequest, [namespaced cluster custom] => |r| {
        let mut body = current(r, "two");
        body["bogus"] = json!(1);
        vec![made(r), put(&r.object("a"), body).query("fieldValidation", "Strict")
            .refused(400, "BadRequest")]
    };
    update_of_nothing: Update, NotFound, [namespaced cluster custom] => |r| vec![
        put(&r.object("a"), r.body("a", "two")).refused(404, "NotFound"),
    ];
    update_of_an_object_that_was: Update, NotFound, [namespaced cluster custom] => |r| vec![
        made(r),
        delete(&r.object("a")).preparation(),
        put(&r.object("a"), r.with_metadata("a", &json!({"uid": "{uid}", "resourceVersion": "{rv}"})))
            .refused(404, "NotFound"),
    ];
    update_of_an_old_revision: Update, Conflict, [namespaced cluster custom] => |r| vec![
        made(r),
        put(&r.object("a"), current(r, "two")).preparation(),
        put(&r.object("a"), current(r, "three")).refused(409, "Conflict"),
    ];
    update_of_another_uid: Update, Conflict, [namespaced cluster custom] => |r| {
        refused(changed(r, |body| {
            body["metadata"]["uid"] = json!("0f8fad5b-d9cb-469f-a165-70867728950e");
        }), 409, "Conflict")
    };
    update_without_a_revision_where_it_must: Update, Invalid, [custom] => |r| vec![
        made(r),
        put(&r.object("a"), r.body("a", "two")).refused(422, "Invalid"),
    ];
    update_to_an_invalid_object: Update, Invalid, [namespaced cluster custom] => |r| {
        let mut body = r.invalid("a");
        body["metadata"]["resourceVersion"] = json!("{rv}");
        vec![made(r), put(&r.object("a"), body).refused(422, "Invalid")]
    };
    update_of_what_may_not_change: Update, Invalid, [namespaced cluster] => |r| {
        let mut first = r.body("a", "one");
        let mut second = r.body("a", "two");
        if r.label == "namespaced" {
            first["immutable"] = json!(true);
        } else {
            second["value"] = json!(101);
        }
        vec![
            post(r.collection, first).preparation(),
            put(&r.object("a"), second).refused(422, "Invalid"),
        ]
    };
    update_with_bad_labels: Update, Invalid, [namespaced cluster custom] => |r| {
        refused(changed(r, |body| {
            body["metadata"]["labels"] = json!({"bad key": "v"});
        }), 422, "Invalid")
    };
    update_with_a_bad_revision: Update, Unnamed, [namespaced cluster custom] => |r| {
        refused(changed(r, |body| {
            body["metadata"]["resourceVersion"] = json!("many");
        }), 500, "")
    };
    update_dry_run_unknown: Update, Invalid, [namespaced cluster custom] => |r| vec![
        made(r),
        put(&r.object("a"), current(r, "two")).query("dryRun", "Some").refused(422, "Invalid"),
    ];
    update_of_another_name: Update, BadRequest, [namespaced cluster custom] => |r| {
        refused(changed(r, |body| {
            body["metadata"]["name"] = json!("other");
        }), 400, "BadRequest")
    };
    update_without_a_name: Update, BadRequest, [namespaced cluster custom] => |r| {
        refused(changed(r, |body| {
            body["metadata"]["name"] = json!(null);
        }), 400, "BadRequest")
    };
    update_in_another_namespace: Update, BadRequest, [namespaced custom] => |r| {
        refused(changed(r, |body| {
            body["metadata"]["namespace"] = json!("other");
        }), 400, "BadRequest")
    };
    update_of_another_custom_kind: Update, Invalid, [custom] => |r| {
        refused(changed(r, |body| {
            body["kind"] = json!("Secret");
        }), 422, "Invalid")
    };
    update_of_another_kind: Update, BadRequest, [namespaced cluster] => |r| {
        refused(changed(r, |body| {
            body["kind"] = json!("Secret");
        }), 400, "BadRequest")
    };
    update_from_broken_json: Update, BadRequest, [namespaced cluster custom] => |r| vec![
        made(r),
        put(&r.object("a"), json!(null)).raw("application/json", "{").refused(400, "BadRequest"),
    ];
    update_of_a_custom_collection: Update, BadRequest, [custom] => |r| vec![
        put(r.collection, r.body("a", "two")).refused(400, "BadRequest"),
    ];
    update_of_the_collection: Update, MethodNotAllowed, [namespaced cluster] => |r| vec![
        put(r.collection, r.body("a", "two")).refused(405, "MethodNotAllowed"),
    ];
    update_of_an_unknown_media_type: Update, UnsupportedMediaType, [namespaced cluster custom] => |r| vec![
        made(r),
        put(&r.object("a"), current(r, "two")).header("Content-Type", "text/plain")
            .refused(415, "UnsupportedMediaType"),
    ];
    update_answered_in_an_unknown_media_type: Update, NotAcceptable, [namespaced cluster custom] => |r| vec![
        made(r),
        put(&r.object("a"), current(r, "two")).header("Accept", "text/plain")
            .refused(406, "NotAcceptable"),
    ];
    update_by_an_outsider: Update, Forbidden, [namespaced cluster custom] => |r| vec![
        made(r),
        put(&r.object("a"), current(r, "two")).by(User::Outsider).refused(403, "Forbidden"),
    ];
    update_by_a_stranger: Update, Unauthorized, [namespaced cluster custom] => |r| vec![
        put(&r.object("a"), r.body("a", "two")).by(User::Stranger).refused(401, "Unauthorized"),
    ];
    update_of_too_much: Update, RequestEntityTooLarge, [namespaced cluster custom] => |r| vec![
        made(r),
        put(&r.object("a"), current(r, &"x".repeat(TOO_LARGE))).refused(413, "RequestEntityTooLarge"),
    ];
}
