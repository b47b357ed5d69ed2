//! Watch.

use scenarios::request::{PatchType, Request, User, delete, get, patch, post, watch};
use serde_json::json;

use super::cases;
use super::resource::Resource;

/// An object's whole life, after a list that tells from where to watch.
fn life(r: &Resource) -> Vec<Request> {
    vec![
        get(r.collection).preparation().capture("rv", "/metadata/resourceVersion"),
        post(r.collection, r.body("a", "one")).preparation(),
        patch(&r.object("a"), PatchType::Merge, r.merge_patch("two")).preparation(),
        delete(&r.object("a")).preparation(),
    ]
}

fn after_life(r: &Resource, steps: Vec<Request>) -> Vec<Request> {
    life(r).into_iter().chain(steps).collect()
}

fn mine(r: &Resource, events: usize) -> Request {
    watch(r.collection, events).query("labelSelector", r.selector())
}

cases! {
    watch_tells_a_life: Watch, Success, [namespaced cluster custom] => |r| {
        after_life(r, vec![mine(r, 3).query("resourceVersion", "{rv}").expect(200)
            .with("/0/type", "ADDED").with("/1/type", "MODIFIED").with("/2/type", "DELETED")])
    };
    watch_starts_after_its_revision: Watch, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).preparation().capture("rv", "/metadata/resourceVersion"),
        patch(&r.object("a"), PatchType::Merge, r.merge_patch("two")).preparation(),
        mine(r, 1).query("resourceVersion", "{rv}").expect(200).with("/0/type", "MODIFIED"),
    ];
    watch_without_a_revision_tells_what_is: Watch, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("b", "one")).preparation(),
        post(r.collection, r.body("a", "one")).preparation(),
        mine(r, 2).expect(200).with("/0/type", "ADDED"),
    ];
    watch_sees_objects_come_and_go_by_label: Watch, Success, [namespaced cluster custom] => |r| vec![
        get(r.collection).preparation().capture("rv", "/metadata/resourceVersion"),
        post(r.collection, r.body("a", "one")).preparation(),
        patch(&r.object("a"), PatchType::Merge, json!({"metadata": {"labels": {"scenario": "x"}}}))
            .preparation(),
        patch(&r.object("a"), PatchType::Merge, json!({"metadata": {"labels": {"scenario": "{ns}"}}}))
            .preparation(),
        mine(r, 3).query("resourceVersion", "{rv}").expect(200)
            .with("/0/type", "ADDED").with("/1/type", "DELETED").with("/2/type", "ADDED"),
    ];
    watch_of_one_object: Watch, Success, [namespaced cluster custom] => |r| vec![
        get(r.collection).preparation().capture("rv", "/metadata/resourceVersion"),
        post(r.collection, r.body("a", "one")).preparation(),
        post(r.collection, r.body("b", "one")).preparation(),
        watch(r.collection, 1).query("fieldSelector", &format!("metadata.name={}", r.name("b")))
            .query("resourceVersion", "{rv}").expect(200),
    ];
    watch_ends_at_its_time: Watch, Success, [namespaced cluster custom] => |r| vec![
        mine(r, 9).query("timeoutSeconds", "1").expect(200),
    ];
    watch_starts_with_a_list: Watch, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("b", "one")).preparation(),
        post(r.collection, r.body("a", "one")).preparation(),
        mine(r, 3).query("sendInitialEvents", "true").query("allowWatchBookmarks", "true")
            .query("resourceVersionMatch", "NotOlderThan").expect(200).with("/2/type", "BOOKMARK"),
    ];
    watch_as_a_table: Watch, Success, [namespaced cluster custom] => |r| {
        after_life(r, vec![mine(r, 3).query("resourceVersion", "{rv}")
            .header("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").expect(200)])
    };
    watch_as_partial_metadata: Watch, Success, [namespaced cluster custom] => |r| {
        after_life(r, vec![mine(r, 3).query("resourceVersion", "{rv}")
            .header("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
            .expect(200)])
    };
    watch_from_too_far_back: Watch, Expired, [namespaced cluster custom] => |r| vec![
        mine(r, 1).query("resourceVersion", "1").expect(200)
            .with("/0/type", "ERROR").with("/0/object/reason", "Expired").with("/0/object/code", 410),
    ];
    watch_by_broken_labels: Watch, BadRequest, [namespaced cluster custom] => |r| vec![
        watch(r.collection, 1).query("labelSelector", "a in (b").refused(400, "BadRequest"),
    ];
    watch_with_a_bad_revision: Watch, Unnamed, [namespaced cluster custom] => |r| vec![
        watch(r.collection, 1).query("resourceVersion", "many").refused(500, ""),
    ];
    watch_with_a_bad_timeout: Watch, BadRequest, [namespaced cluster custom] => |r| vec![
        watch(r.collection, 1).query("timeoutSeconds", "many").refused(400, "BadRequest"),
    ];
    watch_with_initial_events_but_no_match: Watch, Invalid, [namespaced cluster custom] => |r| vec![
        watch(r.collection, 1).query("sendInitialEvents", "true").refused(422, "Invalid"),
    ];
    watch_with_a_match_but_no_initial_events: Watch, Invalid, [namespaced cluster custom] => |r| vec![
        watch(r.collection, 1).query("resourceVersion", "1")
            .query("resourceVersionMatch", "NotOlderThan").refused(422, "Invalid"),
    ];
    watch_in_an_unknown_media_type: Watch, NotAcceptable, [namespaced cluster custom] => |r| vec![
        watch(r.collection, 1).header("Accept", "text/plain").refused(406, "NotAcceptable"),
    ];
    watch_by_an_outsider: Watch, Forbidden, [namespaced cluster custom] => |r| vec![
        watch(r.collection, 1).by(User::Outsider).refused(403, "Forbidden"),
    ];
    watch_by_a_stranger: Watch, Unauthorized, [namespaced cluster custom] => |r| vec![
        watch(r.collection, 1).by(User::Stranger).refused(401, "Unauthorized"),
    ];
}
