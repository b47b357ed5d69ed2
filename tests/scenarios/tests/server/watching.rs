//! Watches and long lists beyond one verb: bursts, absurd times, lists that outlive their revision.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use scenarios::Scenario;
use scenarios::request::{get, post, watch};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

/// More events than a server takes up at once.
const BURST: usize = 300;

#[tokio::test]
async fn a_watch_finds_its_event_behind_a_burst_of_others() {
    let labelled = |name: &str, label: &str| {
        let body = json!({"metadata": {"name": name, "labels": {"of": label}}});
        post(MAPS, body).preparation()
    };
    Scenario::new("a_watch_finds_its_event_behind_a_burst_of_others")
        .step(get(MAPS).preparation().capture("rv", "/metadata/resourceVersion"))
        .steps((0..BURST).map(|number| labelled(&format!("other-{number}"), "others")))
        .step(labelled("mine", "me"))
        .step(
            watch(MAPS, 1)
                .query("resourceVersion", "{rv}")
                .query("labelSelector", "of=me")
                .query("timeoutSeconds", "60")
                .expect(200)
                .with("/0/object/metadata/name", "mine"),
        )
        .step(
            watch(MAPS, 1)
                .query("resourceVersion", "{rv}")
                .query("fieldSelector", "metadata.name=mine")
                .query("timeoutSeconds", "60")
                .expect(200)
                .with("/0/object/metadata/name", "mine"),
        )
        .run()
        .await;
}

#[tokio::test]
async fn a_watch_may_ask_for_any_time() {
    let seconds = i64::MAX.to_string();
    Scenario::new("a_watch_may_ask_for_any_time")
        .step(post(MAPS, json!({"metadata": {"name": "a"}})).preparation())
        .step(
            watch(MAPS, 1)
                .query("fieldSelector", "metadata.name=a")
                .query("timeoutSeconds", "1000000000")
                .expect(200),
        )
        .step(watch(MAPS, 1).query("timeoutSeconds", &format!("{seconds}0")).expect(400))
        .run()
        .await;
}

#[tokio::test]
async fn what_there_is_cannot_be_watched_in_the_future() {
    Scenario::new("what_there_is_cannot_be_watched_in_the_future")
        .step(
            watch(MAPS, 1)
                .query("sendInitialEvents", "true")
                .query("resourceVersionMatch", "NotOlderThan")
                .query("resourceVersion", "9000000000000")
                .expect(200)
                .with("/0/type", "ERROR")
                .with("/0/object/reason", "Timeout")
                .with("/0/object/code", 504),
        )
        .run()
        .await;
}

#[tokio::test]
async fn a_list_that_outlived_its_revision_can_go_on_with_how_things_are() {
    let token = |revision: i64| {
        let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": "system-zzz\u{0}"});
        BASE64_URL_SAFE_NO_PAD.encode(token.to_string())
    };
    Scenario::new("a_list_that_outlived_its_revision_can_go_on_with_how_things_are")
        .exclusive()
        .step(post(CLASSES, json!({"metadata": {"name": "z"}, "value": 1})).preparation())
        .step(
            get(CLASSES)
                .query("limit", "1")
                .query("continue", &token(1))
                .refused(410, "Expired")
                .capture("next", "/metadata/continue"),
        )
        .step(get(CLASSES).query("limit", "1").query("continue", "{next}").expect(200))
        .step(get(CLASSES).query("limit", "1").query("continue", &token(0)).expect(400))
        .run()
        .await;
}
