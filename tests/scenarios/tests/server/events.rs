//! Events in both their forms.

use scenarios::Scenario;
use scenarios::request::{PatchType, get, patch, post};
use serde_json::{Value, json};

use crate::trials::{creations, with};

const OLD: &str = "/api/v1/namespaces/{ns}/events";
const NEW: &str = "/apis/events.k8s.io/v1/namespaces/{ns}/events";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn old() -> Value {
    json!({
        "metadata": {"name": "old"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{ns}", "uid": "u",
            "apiVersion": "v1", "resourceVersion": "7", "fieldPath": "spec.containers{c}"},
        "reason": "Pulled",
        "message": " Image pulled\n",
        "source": {"component": "kubelet", "host": "node-1"},
        "firstTimestamp": "2020-01-01T00:00:00Z",
        "lastTimestamp": "2020-01-02T00:00:00Z",
        "count": 3,
        "type": "Normal",
    })
}

fn new() -> Value {
    json!({
        "metadata": {"name": "new"},
        "regarding": {"kind": "Pod", "name": "q", "namespace": "{ns}"},
        "related": {"kind": "Node", "name": "n"},
        "eventTime": "2020-01-01T00:00:00.000001Z",
        "reportingController": "gantry.io/scheduler",
        "reportingInstance": "scheduler-1",
        "action": "Binding",
        "reason": "Scheduled",
        "note": "assigned",
        "type": "Normal",
        "series": {"count": 2, "lastObservedTime": "2020-01-01T00:00:05.000000Z"},
    })
}

#[tokio::test]
async fn an_event_shows_in_both_forms() {
    Scenario::new("an_event_shows_in_both_forms")
        .step(post(OLD, old()).expect(201))
        .step(post(NEW, new()).expect(201))
        .step(get(&format!("{OLD}/new")).expect(200))
        .step(get(&format!("{NEW}/old")).expect(200))
        .step(get(OLD).expect(200))
        .step(get(NEW).expect(200))
        .step(get(OLD).header("Accept", TABLE).expect(200))
        .step(get(NEW).header("Accept", TABLE).expect(200))
        .step(patch(&format!("{NEW}/old"), PatchType::Merge, json!({"note": "other"})))
        .step(patch(&format!("{NEW}/new"), PatchType::Merge, json!({"series": {"count": 5}})))
        .step(patch(&format!("{NEW}/new"), PatchType::Merge, json!({"series": {"count": 1}})))
        .step(patch(&format!("{NEW}/new"), PatchType::Merge, json!({"action": "Other"})))
        .step(patch(&format!("{OLD}/old"), PatchType::Strategic, json!({"count": 4})))
        .step(patch(&format!("{OLD}/new"), PatchType::Merge, json!({"message": "changed"})))
        .step(get(&format!("{NEW}/new")).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn events_are_selected_by_field() {
    let select = |path: &str, selector: &str| get(path).query("fieldSelector", selector);
    Scenario::new("events_are_selected_by_field")
        .step(post(OLD, old()).preparation())
        .step(post(NEW, new()).preparation())
        .step(select(OLD, "involvedObject.kind=Pod,involvedObject.name=p"))
        .step(select(OLD, "involvedObject.uid=u,reason!=Other"))
        .step(select(OLD, "involvedObject.fieldPath=spec.containers{c}"))
        .step(select(OLD, "source=kubelet"))
        .step(select(OLD, "source=gantry.io/scheduler"))
        .step(select(OLD, "reportingComponent=gantry.io/scheduler,type=Normal"))
        .step(select(OLD, "regarding.name=p"))
        .step(select(NEW, "regarding.name=q"))
        .step(select(NEW, "reportingController=gantry.io/scheduler"))
        .step(select(NEW, "involvedObject.name=q"))
        .step(select(NEW, "source=kubelet"))
        .run()
        .await;
}

#[tokio::test]
async fn the_older_form_is_checked_leniently() {
    let event = |change: Value| with(with(old(), json!({"metadata": {}})), change);
    let bodies = vec![
        json!({"involvedObject": {"namespace": "{ns}"}}),
        json!({}),
        json!({"involvedObject": {"namespace": "other"}}),
        event(json!({"type": "Odd", "reason": ""})),
        event(json!({"eventTime": "2020-01-01T00:00:00.000000Z"})),
        event(json!({"eventTime": "2020-01-01T00:00:00.000000Z", "reportingComponent": "a b",
            "reportingInstance": "x".repeat(129), "action": "a"})),
    ];
    creations("the_older_form_is_checked_leniently", OLD, bodies).await;
}

#[tokio::test]
async fn the_newer_form_is_checked_strictly() {
    let event = |change: Value| with(with(new(), json!({"metadata": {}})), change);
    let bodies = vec![
        json!({}),
        event(json!({"type": "Odd"})),
        event(json!({"eventTime": null})),
        event(json!({"deprecatedCount": 1, "deprecatedSource": {"component": "c"},
            "deprecatedFirstTimestamp": "2020-01-01T00:00:00Z",
            "deprecatedLastTimestamp": "2020-01-01T00:00:00Z"})),
        event(json!({"series": {"count": 1, "lastObservedTime": null}})),
        event(json!({"regarding": {"kind": "Node", "name": "n"}})),
        event(json!({"note": "x".repeat(1025), "reason": "x".repeat(129)})),
        event(json!({"action": "", "reason": "", "reportingController": "",
            "reportingInstance": ""})),
    ];
    creations("the_newer_form_is_checked_strictly", NEW, bodies).await;
}
