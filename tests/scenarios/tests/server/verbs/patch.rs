//! Patch, in three dialects.

use scenarios::request::{PatchType, Request, User, delete, get, patch, post};
use serde_json::{Value, json};

use super::cases;
use super::resource::Resource;

const TOO_LARGE: usize = 4 << 20;

/// The most operations a JSON patch may have.
const OPERATIONS_MAX: usize = 10_000;

fn made(r: &Resource) -> Request {
    post(r.collection, r.body("a", "one")).preparation().capture("rv", "/metadata/resourceVersion")
}

fn merge(r: &Resource, body: Value) -> Request {
    patch(&r.object("a"), PatchType::Merge, body)
}

fn operations(r: &Resource, body: Value) -> Request {
    patch(&r.object("a"), PatchType::Json, body)
}

cases! {
    patch_merge_changes_the_object: Patch, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, r.merge_patch("two")).expect(200).with(r.text, "two"),
        get(&r.object("a")).expect(200),
    ];
    patch_json_changes_the_object: Patch, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        operations(r, json!([
            {"op": "test", "path": r.text, "value": "one"},
            {"op": "replace", "path": r.text, "value": "two"},
            {"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}},
            {"op": "copy", "from": "/metadata/annotations/a", "path": "/metadata/annotations/c"},
            {"op": "move", "from": "/metadata/annotations/a", "path": "/metadata/annotations/d"},
            {"op": "remove", "path": "/metadata/labels/scenario"},
        ])).expect(200).with(r.text, "two"),
    ];
    patch_strategic_changes_the_object: Patch, Success, [namespaced cluster] => |r| vec![
        made(r),
        patch(&r.object("a"), PatchType::Strategic, r.merge_patch("two")).expect(200).with(r.text, "two"),
    ];
    patch_strategic_merges_lists: Patch, Success, [namespaced cluster] => |r| vec![
        post(r.collection, r.with_metadata("a", &json!({"finalizers": ["x.test/a", "x.test/b"]})))
            .preparation(),
        patch(&r.object("a"), PatchType::Strategic, json!({"metadata": {"finalizers": ["x.test/c"]}}))
            .expect(200),
        patch(&r.object("a"), PatchType::Strategic,
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.test/a"]}})).expect(200),
        patch(&r.object("a"), PatchType::Strategic,
            json!({"metadata": {"labels": {"$patch": "replace", "only": "this"}}})).expect(200),
    ];
    patch_that_changes_nothing: Patch, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).expect(201),
        merge(r, json!({})).expect(200),
        operations(r, json!([])).expect(200),
        merge(r, json!({"metadata": {"labels": {"absent": null}}})).expect(200),
    ];
    patch_merge_removes_with_null: Patch, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, json!({"metadata": {"labels": null, "annotations": {"a": "b", "c": null}}})).expect(200),
    ];
    patch_of_the_present_revision: Patch, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, json!({"metadata": {"resourceVersion": "{rv}", "labels": {"a": "b"}}})).expect(200),
    ];
    patch_dry_run_leaves_the_object: Patch, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, r.merge_patch("two")).query("dryRun", "All").expect(200),
        get(&r.object("a")).expect(200).with(r.text, "one"),
    ];
    patch_field_validation_warns: Patch, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, json!({"bogus": 1, "metadata": {"labels": {"a": "b"}}})).expect(200).warned(1),
    ];
    patch_field_validation_ignores: Patch, Success, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, json!({"bogus": 1, "metadata": {"labels": {"a": "b"}}}))
            .query("fieldValidation", "Ignore").expect(200).warned(0),
    ];
    patch_field_validation_is_strict: Patch, Invalid, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, json!({"bogus": 1, "metadata": {"labels": {"a": "b"}}}))
            .query("fieldValidation", "Strict").refused(422, "Invalid"),
    ];
    patch_json_field_validation_is_strict: Patch, Invalid, [namespaced cluster custom] => |r| vec![
        made(r),
        operations(r, json!([{"op": "add", "path": "/bogus", "value": 1}]))
            .query("fieldValidation", "Strict").refused(422, "Invalid"),
    ];
    patch_of_nothing: Patch, NotFound, [namespaced cluster custom] => |r| vec![
        merge(r, r.merge_patch("two")).refused(404, "NotFound"),
        operations(r, json!([])).refused(404, "NotFound"),
    ];
    patch_of_an_old_revision: Patch, Conflict, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, r.merge_patch("two")).preparation(),
        merge(r, json!({"metadata": {"resourceVersion": "{rv}", "labels": {"a": "b"}}}))
            .refused(409, "Conflict"),
    ];
    patch_of_another_uid: Patch, Invalid, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, json!({"metadata": {"uid": "0f8fad5b-d9cb-469f-a165-70867728950e"}}))
            .refused(422, "Invalid"),
    ];
    patch_adding_a_finalizer_to_what_ends: Patch, Invalid, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.with_metadata("a", &json!({"finalizers": ["gantry.test/hold"]})))
            .preparation(),
        delete(&r.object("a")).preparation(),
        merge(r, json!({"metadata": {"finalizers": ["gantry.test/hold", "gantry.test/more"]}}))
            .refused(422, "Invalid"),
    ];
    patch_to_an_invalid_object: Patch, Invalid, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, r.invalid("a")).refused(422, "Invalid"),
    ];
    patch_json_that_does_not_apply: Patch, Invalid, [namespaced cluster custom] => |r| vec![
        made(r),
        operations(r, json!([{"op": "test", "path": r.text, "value": "other"}])).refused(422, "Invalid"),
        operations(r, json!([{"op": "remove", "path": "/absent"}])).refused(422, "Invalid"),
        operations(r, json!([{"op": "replace", "path": "/absent/deeper", "value": 1}]))
            .refused(422, "Invalid"),
    ];
    patch_dry_run_unknown: Patch, Invalid, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, json!({})).query("dryRun", "Some").refused(422, "Invalid"),
    ];
    patch_merge_with_force: Patch, Invalid, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, json!({})).query("force", "true").refused(422, "Invalid"),
    ];
    patch_of_the_name: Patch, BadRequest, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, json!({"metadata": {"name": "other"}})).refused(400, "BadRequest"),
    ];
    patch_of_the_namespace: Patch, BadRequest, [namespaced custom] => |r| vec![
        made(r),
        merge(r, json!({"metadata": {"namespace": "other"}})).refused(400, "BadRequest"),
    ];
    patch_of_the_kind: Patch, Invalid, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, json!({"kind": "Secret"})).refused(422, "Invalid"),
    ];
    patch_from_broken_json: Patch, BadRequest, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, json!(null)).raw(PatchType::Merge.media_type(), "{").refused(400, "BadRequest"),
        operations(r, json!(null)).raw(PatchType::Json.media_type(), "[{]").refused(400, "BadRequest"),
        operations(r, json!({"op": "add"})).refused(400, "BadRequest"),
    ];
    patch_merge_that_is_no_object: Patch, BadRequest, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, json!([1])).refused(400, "BadRequest"),
    ];
    patch_json_of_an_unknown_operation: Patch, Invalid, [namespaced cluster custom] => |r| vec![
        made(r),
        operations(r, json!([{"op": "twist", "path": "/a"}])).refused(422, "Invalid"),
    ];
    patch_strategic_of_a_custom_kind: Patch, UnsupportedMediaType, [custom] => |r| vec![
        made(r),
        patch(&r.object("a"), PatchType::Strategic, r.merge_patch("two"))
            .refused(415, "UnsupportedMediaType"),
    ];
    patch_of_an_unknown_media_type: Patch, UnsupportedMediaType, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, json!({})).header("Content-Type", "application/json").refused(415, "UnsupportedMediaType"),
    ];
    patch_answered_in_an_unknown_media_type: Patch, NotAcceptable, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, json!({})).header("Accept", "text/plain").refused(406, "NotAcceptable"),
    ];
    patch_of_a_custom_collection: Patch, BadRequest, [custom] => |r| vec![
        patch(r.collection, PatchType::Merge, json!({})).refused(400, "BadRequest"),
    ];
    patch_of_the_collection: Patch, MethodNotAllowed, [namespaced cluster] => |r| vec![
        patch(r.collection, PatchType::Merge, json!({})).refused(405, "MethodNotAllowed"),
    ];
    patch_by_an_outsider: Patch, Forbidden, [namespaced cluster custom] => |r| vec![
        merge(r, json!({})).by(User::Outsider).refused(403, "Forbidden"),
    ];
    patch_by_a_stranger: Patch, Unauthorized, [namespaced cluster custom] => |r| vec![
        merge(r, json!({})).by(User::Stranger).refused(401, "Unauthorized"),
    ];
    patch_of_too_much: Patch, RequestEntityTooLarge, [namespaced cluster custom] => |r| vec![
        made(r),
        merge(r, r.merge_patch(&"x".repeat(TOO_LARGE))).refused(413, "RequestEntityTooLarge"),
    ];
    patch_json_of_too_many_operations: Patch, RequestEntityTooLarge, [namespaced cluster custom] => |r| {
        let many = vec![json!({"op": "test", "path": "/a", "value": 1}); OPERATIONS_MAX + 1];
        vec![made(r), operations(r, json!(many)).refused(413, "RequestEntityTooLarge")]
    };
}
