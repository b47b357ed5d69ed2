//! Get and list.

use scenarios::request::{Request, User, get, post};
use serde_json::json;

use super::cases;
use super::resource::Resource;

fn table() -> &'static str {
    "application/json;as=Table;g=meta.k8s.io;v=v1"
}

/// Three objects, made in an order that is not that of their names.
fn three(r: &Resource) -> Vec<Request> {
    ["b", "c", "a"]
        .into_iter()
        .map(|stem| post(r.collection, r.body(stem, "one")).preparation())
        .collect()
}

fn after_three(r: &Resource, steps: Vec<Request>) -> Vec<Request> {
    three(r).into_iter().chain(steps).collect()
}

fn mine(r: &Resource) -> Request {
    get(r.collection).query("labelSelector", r.selector())
}

cases! {
    get_reads_the_object: Get, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).preparation(),
        get(&r.object("a")).expect(200),
    ];
    get_from_the_cache: Get, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).preparation().capture("rv", "/metadata/resourceVersion"),
        get(&r.object("a")).query("resourceVersion", "{rv}").expect(200),
    ];
    get_as_a_table: Get, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).preparation(),
        get(&r.object("a")).header("Accept", table()).expect(200),
        get(&r.object("a")).header("Accept", table()).query("includeObject", "None").expect(200),
        get(&r.object("a")).header("Accept", table()).query("includeObject", "Object").expect(200),
    ];
    get_as_partial_metadata: Get, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).preparation(),
        get(&r.object("a"))
            .header("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
            .expect(200),
    ];
    get_as_yaml: Get, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).preparation(),
        get(&r.object("a")).header("Accept", "application/yaml")
            .header("User-Agent", "scenario").expect(200),
    ];
    get_prefers_the_first_it_can_have: Get, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).preparation(),
        get(&r.object("a")).header("Accept", "text/plain, application/json;q=0.9, */*;q=0.1").expect(200),
        get(&r.object("a")).header("Accept", "*/*").expect(200),
    ];
    get_of_an_object_is_no_watch: Get, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).preparation(),
        get(&r.object("a")).query("watch", "true").expect(200).with("/metadata/name", r.name("a")),
    ];
    get_pretty: Get, Success, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).preparation(),
        get(&r.object("a")).query("pretty", "true").expect(200),
    ];
    get_of_nothing: Get, NotFound, [namespaced cluster custom] => |r| vec![
        get(&r.object("a")).refused(404, "NotFound"),
    ];
    get_of_a_bad_name: Get, NotFound, [namespaced cluster custom] => |r| vec![
        get(&format!("{}/Not_A_Name", r.collection)).refused(404, "NotFound"),
    ];
    get_of_an_unknown_subresource: Get, NotFound, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).preparation(),
        get(&format!("{}/nothing", r.object("a"))).refused(404, "NotFound"),
    ];
    get_at_a_bad_revision: Get, Unnamed, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).preparation(),
        get(&r.object("a")).query("resourceVersion", "many").refused(500, ""),
    ];
    get_in_an_unknown_media_type: Get, NotAcceptable, [namespaced cluster custom] => |r| vec![
        post(r.collection, r.body("a", "one")).preparation(),
        get(&r.object("a")).header("Accept", "text/plain").refused(406, "NotAcceptable"),
        get(&r.object("a")).header("Accept", "application/json;as=Nothing;g=x;v=v1")
            .refused(406, "NotAcceptable"),
    ];
    get_by_an_outsider: Get, Forbidden, [namespaced cluster custom] => |r| vec![
        get(&r.object("a")).by(User::Outsider).refused(403, "Forbidden"),
    ];
    get_by_a_stranger: Get, Unauthorized, [namespaced cluster custom] => |r| vec![
        get(&r.object("a")).by(User::Stranger).refused(401, "Unauthorized"),
    ];

    list_of_nothing: List, Success, [namespaced cluster custom] => |r| vec![mine(r).expect(200)];
    list_in_the_order_of_names: List, Success, [namespaced cluster custom] => |r| {
        after_three(r, vec![mine(r).expect(200)])
    };
    list_of_a_namespace: List, Success, [namespaced custom] => |r| {
        after_three(r, vec![
            get(r.collection).expect(200),
            get(r.collection).query("resourceVersion", "0").query("limit", "0").expect(200),
        ])
    };
    list_in_no_namespace: List, Success, [namespaced custom] => |r| vec![
        get(&r.collection.replace("{ns}", "{ns}-missing")).expect(200),
    ];
    list_in_all_namespaces: List, Success, [namespaced custom] => |r| {
        let everywhere = r.collection.replace("/namespaces/{ns}", "");
        after_three(r, vec![get(&everywhere).query("labelSelector", r.selector()).expect(200)])
    };
    list_by_labels: List, Success, [namespaced cluster custom] => |r| {
        let by = |selector: &str| get(r.collection).query("labelSelector", selector).expect(200);
        after_three(r, vec![
            by("scenario in ({ns},x),!absent"),
            by("scenario=={ns},absent"),
            by("scenario={ns},scenario!=x,scenario notin (y)"),
        ])
    };
    list_by_name: List, Success, [namespaced cluster custom] => |r| {
        let name = r.name("b");
        after_three(r, vec![
            mine(r).query("fieldSelector", &format!("metadata.name={name}")).expect(200),
            mine(r).query("fieldSelector", &format!("metadata.name!={name}")).expect(200),
        ])
    };
    list_by_namespace: List, Success, [namespaced custom] => |r| {
        after_three(r, vec![
            mine(r).query("fieldSelector", "metadata.namespace={ns}").expect(200),
            mine(r).query("fieldSelector", "metadata.namespace=other").expect(200),
        ])
    };
    list_in_pages: List, Success, [namespaced custom] => |r| {
        after_three(r, vec![
            get(r.collection).query("limit", "2").expect(200).capture("next", "/metadata/continue")
                .with("/metadata/remainingItemCount", 1),
            get(r.collection).query("limit", "2").query("continue", "{next}").expect(200),
        ])
    };
    list_in_pages_by_labels: List, Success, [namespaced cluster custom] => |r| {
        after_three(r, vec![
            mine(r).query("limit", "2").expect(200).capture("next", "/metadata/continue"),
            mine(r).query("limit", "2").query("continue", "{next}").expect(200),
        ])
    };
    list_at_an_exact_revision: List, Success, [namespaced custom] => |r| vec![
        post(r.collection, r.body("a", "one")).preparation().capture("rv", "/metadata/resourceVersion"),
        post(r.collection, r.body("b", "one")).preparation(),
        get(r.collection).query("resourceVersion", "{rv}").query("resourceVersionMatch", "Exact")
            .expect(200),
    ];
    list_not_older_than: List, Success, [namespaced custom] => |r| vec![
        post(r.collection, r.body("a", "one")).preparation().capture("rv", "/metadata/resourceVersion"),
        get(r.collection).query("resourceVersion", "{rv}")
            .query("resourceVersionMatch", "NotOlderThan").expect(200),
    ];
    list_as_a_table: List, Success, [namespaced cluster custom] => |r| {
        after_three(r, vec![
            mine(r).header("Accept", table()).expect(200),
            mine(r).header("Accept", table()).query("includeObject", "None").expect(200),
        ])
    };
    list_as_partial_metadata: List, Success, [namespaced cluster custom] => |r| {
        after_three(r, vec![
            mine(r)
                .header("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
                .expect(200),
        ])
    };
    list_by_broken_labels: List, BadRequest, [namespaced cluster custom] => |r| vec![
        get(r.collection).query("labelSelector", "a in (b").refused(400, "BadRequest"),
        get(r.collection).query("labelSelector", "a b").refused(400, "BadRequest"),
        get(r.collection).query("labelSelector", "a=b!").refused(400, "BadRequest"),
    ];
    list_by_an_unknown_field: List, BadRequest, [namespaced cluster custom] => |r| vec![
        get(r.collection).query("fieldSelector", "spec.nothing=x").refused(400, "BadRequest"),
        get(r.collection).query("fieldSelector", "a").refused(400, "BadRequest"),
    ];
    list_with_a_bad_limit: List, BadRequest, [namespaced cluster custom] => |r| vec![
        get(r.collection).query("limit", "many").refused(400, "BadRequest"),
    ];
    list_with_a_foreign_continue: List, BadRequest, [namespaced cluster custom] => |r| vec![
        get(r.collection).query("limit", "1").query("continue", "mine").refused(400, "BadRequest"),
    ];
    list_continued_at_another_revision: List, BadRequest, [namespaced custom] => |r| {
        after_three(r, vec![
            get(r.collection).query("limit", "2").expect(200).capture("next", "/metadata/continue"),
            get(r.collection).query("limit", "2").query("continue", "{next}")
                .query("resourceVersion", "1").refused(400, "BadRequest"),
        ])
    };
    list_with_a_match_but_no_revision: List, Invalid, [namespaced cluster custom] => |r| vec![
        get(r.collection).query("resourceVersionMatch", "Exact").refused(422, "Invalid"),
    ];
    list_with_an_unknown_match: List, Invalid, [namespaced cluster custom] => |r| vec![
        get(r.collection).query("resourceVersion", "1").query("resourceVersionMatch", "Near")
            .refused(422, "Invalid"),
    ];
    list_exactly_at_any_revision: List, Invalid, [namespaced cluster custom] => |r| vec![
        get(r.collection).query("resourceVersion", "0").query("resourceVersionMatch", "Exact")
            .refused(422, "Invalid"),
    ];
    list_with_initial_events: List, Invalid, [namespaced cluster custom] => |r| vec![
        get(r.collection).query("sendInitialEvents", "true").refused(422, "Invalid"),
    ];
    list_at_a_bad_revision: List, BadRequest, [namespaced cluster custom] => |r| vec![
        get(r.collection).query("resourceVersion", "many").refused(400, "BadRequest"),
    ];
    list_at_a_compacted_revision: List, Expired, [namespaced cluster custom] => |r| vec![
        get(r.collection).query("resourceVersion", "1").query("resourceVersionMatch", "Exact")
            .refused(410, "Expired"),
    ];
    list_at_a_future_revision: List, Timeout, [namespaced cluster custom] => |r| vec![
        get(r.collection).query("resourceVersion", "9000000000000").refused(504, "Timeout"),
    ];
    list_in_an_unknown_media_type: List, NotAcceptable, [namespaced cluster custom] => |r| vec![
        mine(r).header("Accept", "text/plain").refused(406, "NotAcceptable"),
    ];
    list_by_an_outsider: List, Forbidden, [namespaced cluster custom] => |r| vec![
        mine(r).by(User::Outsider).refused(403, "Forbidden"),
    ];
    list_by_a_stranger: List, Unauthorized, [namespaced cluster custom] => |r| vec![
        mine(r).by(User::Stranger).refused(401, "Unauthorized"),
    ];
    list_by_nobody: List, Unauthorized, [namespaced cluster custom] => |r| vec![
        mine(r).by(User::Anonymous).with("/kind", json!("Status")).refused(401, "Unauthorized"),
    ];
}
