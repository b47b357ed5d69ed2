//! Scenarios of the specification: how a reservation ends, and what is told of it.

use api::condition::find;
use serde_json::{Value, json};

use super::*;

const KEPT: Option<Duration> = Some(Duration::from_secs(86_400));

fn at(seconds: u64) -> Moment {
    Moment(seconds * 1_000_000_000)
}

fn object(more: Value) -> Reservation {
    let own = json!({
        "metadata": { "name": "r", "uid": "u", "resourceVersion": "7",
                      "creationTimestamp": "1970-01-01T00:00:00Z" },
        "spec": { "ttl": "10m", "owners": [{ "object": { "name": "p" } }],
                  "template": { "spec": { "containers": [] } } },
        "status": { "phase": "Available", "nodeName": "n", "allocatable": { "cpu": "4" },
                    "conditions": [{ "type": "Ready", "status": "True", "reason": "Available",
                                     "lastTransitionTime": "1970-01-01T00:00:00Z" }] },
    });
    serde_json::from_value(object::patch::merge::apply(own, more).unwrap()).unwrap()
}

fn there() -> Seen {
    Seen { has_node: true, owners: Some((Vec::new(), ResourceList::new())), ..Seen::default() }
}

fn used() -> Seen {
    let owner = ObjectReference { name: "p".into(), ..ObjectReference::default() };
    let cpu = serde_json::from_value(json!({ "cpu": "1" })).unwrap();
    Seen { owners: Some((vec![owner], cpu)), ..there() }
}

/// The phase that is written, and why.
fn written(step: &Step) -> Option<(String, String)> {
    let Step::Status { patch, version } = step else { return None };
    assert_eq!((version.as_str(), &patch["metadata"]["resourceVersion"]), ("7", &json!("7")));
    let mut own = object(json!({}));
    own.status = serde_json::from_value(patch["status"].clone()).unwrap();
    let ready = find(&own.status.conditions, "Ready").map(|own| own.reason.clone());
    Some((own.status.phase.to_string(), ready.unwrap_or_default()))
}

#[test]
fn s11_7_it_expires_when_it_has_lived_long_enough() {
    let own = object(json!({}));
    assert_eq!(step(&own, &there(), at(599), KEPT), Step::Nothing);
    assert_eq!(due(&own, KEPT), Some(at(600)));
    let end = step(&own, &there(), at(601), KEPT);
    assert_eq!(written(&end), Some(("Failed".to_owned(), "Expired".to_owned())));
    // One that waits for a node ends as well.
    let waiting = object(json!({ "status": { "phase": "Pending", "nodeName": null } }));
    let end = step(&waiting, &Seen::default(), at(601), KEPT);
    assert_eq!(written(&end), Some(("Failed".to_owned(), "Expired".to_owned())));
}

/// Upstream looks every 3 to 15 seconds; here it is looked when its time has come, and never in vain.
#[test]
fn s11_10_it_is_looked_at_when_its_time_has_come() {
    let mut lives = Lives::default();
    let mut ledger = Ledger::default();
    let node = json!({ "metadata": { "name": "n" } });
    let node: api::Node = serde_json::from_value(node).unwrap();
    ledger.apply(engine::fact::Fact::Node(engine::fact::NodeFact::from(&node)));
    let own = object(json!({}));
    ledger.apply(engine::fact::ReservationFact::told(&own));
    lives.put(Arc::new(own), at(599));
    assert_eq!(lives.next(&ledger, at(599)), None);
    assert_eq!(lives.next_due(), Some(at(600)), "a second is left");
    assert!(lives.next(&ledger, at(600)).is_some());
}

/// Upstream ends at the sooner of both, and never where `ttl` is 0; here what is said outright counts.
#[test]
fn s11_8_s11_9_when_it_expires_is_what_is_said_outright() {
    let check = |spec: Value, expected: Option<u64>| {
        assert_eq!(due(&object(json!({ "spec": spec })), KEPT), expected.map(at));
    };
    check(json!({ "ttl": "0s" }), None);
    check(json!({ "ttl": "0s", "expires": "1970-01-01T00:00:09Z" }), Some(9));
    check(json!({ "ttl": "24h", "expires": "1970-01-04T00:00:00Z" }), Some(3 * 86_400));
    check(json!({ "ttl": "24h" }), Some(86_400));
    check(json!({ "ttl": null }), None);
    check(json!({ "ttl": "abc" }), None);
    check(json!({ "ttl": "99999999999h" }), None);
}

#[test]
fn what_expires_in_centuries_has_not_expired() {
    let far = object(json!({ "spec": { "expires": "2999-01-01T00:00:00Z" } }));
    assert_eq!(step(&far, &there(), at(4_000_000_000), KEPT), Step::Nothing);
    let past = object(json!({ "spec": { "expires": "1969-01-01T00:00:00Z" } }));
    assert!(written(&step(&past, &there(), at(1), KEPT)).is_some());
}

#[test]
fn s11_11_s11_12_what_has_ended_is_deleted_after_a_while_or_when_its_node_is_gone() {
    let ended = |phase: &str, reason: &str| {
        let ready = json!({ "type": "Ready", "status": "False", "reason": reason,
                            "lastTransitionTime": "1970-01-01T00:00:05Z",
                            "lastProbeTime": "1970-01-01T00:00:05Z" });
        object(json!({ "status": { "phase": phase, "conditions": [ready] } }))
    };
    for own in [ended("Succeeded", "Succeeded"), ended("Failed", "Expired")] {
        assert_eq!(step(&own, &there(), at(86_404), KEPT), Step::Nothing);
        assert_eq!(step(&own, &there(), at(86_405), KEPT), Step::Delete);
        assert_eq!(step(&own, &there(), at(86_406), None), Step::Nothing, "nobody deletes any");
        let gone = Seen { has_node: false, ..there() };
        assert_eq!(step(&own, &gone, at(6), KEPT), Step::Delete);
        assert_eq!(due(&own, KEPT), Some(at(86_405)));
    }
}

#[test]
fn s11_13_it_ends_with_its_node() {
    let gone = Seen { has_node: false, ..there() };
    let end = step(&object(json!({})), &gone, at(1), KEPT);
    assert_eq!(written(&end), Some(("Failed".to_owned(), "Expired".to_owned())));
}

#[test]
fn s11_2_s11_52_who_uses_it_is_told_and_ends_one_that_is_for_one_pod() {
    let once = step(&object(json!({})), &used(), at(1), KEPT);
    assert_eq!(written(&once), Some(("Succeeded".to_owned(), "Succeeded".to_owned())));
    let Step::Status { patch, .. } = &once else { panic!("it is written") };
    assert_eq!(patch["status"]["currentOwners"], json!([{ "name": "p" }]));
    assert_eq!(patch["status"]["allocated"], json!({ "cpu": "1" }));
    let many = json!({ "spec": { "allocateOnce": false } });
    let told = step(&object(many.clone()), &used(), at(1), KEPT);
    let Step::Status { patch, .. } = &told else { panic!("it is written") };
    assert_eq!(patch["status"]["phase"], Value::Null, "others may use it, too");
    // What is told already is not told again, and who goes is told as well.
    let status = json!({ "currentOwners": [{ "name": "p" }], "allocated": { "cpu": "1" } });
    let mut known = many;
    known["status"] = status;
    assert_eq!(step(&object(known.clone()), &used(), at(1), KEPT), Step::Nothing);
    let Step::Status { patch, .. } = step(&object(known), &there(), at(1), KEPT) else {
        panic!("it is written");
    };
    assert_eq!(patch["status"]["currentOwners"], json!([]));
    assert_eq!(patch["status"]["allocated"], json!({ "cpu": null }));
}

#[test]
fn what_cannot_be_read_is_told_once() {
    let odd = Seen { malformed: Some("no owners".to_owned()), ..Seen::default() };
    let waiting = json!({ "status": { "phase": null, "nodeName": null } });
    let Step::Status { patch, .. } = step(&object(waiting.clone()), &odd, at(1), KEPT) else {
        panic!("it is written");
    };
    let conditions = &patch["status"]["conditions"];
    let mut known = waiting;
    known["status"]["conditions"] = conditions.clone();
    let known = object(known);
    let told = find(&known.status.conditions, "Scheduled").unwrap();
    assert_eq!((told.reason.as_str(), told.message.as_str()), ("Invalid", "no owners"));
    assert_eq!(step(&known, &odd, at(9), KEPT), Step::Nothing);
    // One that holds something goes on doing so, and nobody can use it until it is mended.
    let held = Seen { malformed: Some("no owners".to_owned()), ..there() };
    let told = step(&object(json!({})), &held, at(1), KEPT);
    let Step::Status { patch, .. } = &told else { panic!("it is written") };
    let mut known = json!({ "status": { "conditions": patch["status"]["conditions"] } });
    let own = object(known.clone());
    let ready = find(&own.status.conditions, "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Invalid"));
    let Step::Status { patch, .. } = step(&own, &there(), at(9), KEPT) else {
        panic!("it is written");
    };
    known["status"]["conditions"] = patch["status"]["conditions"].clone();
    let own = object(known);
    assert_eq!(find(&own.status.conditions, "Ready").unwrap().reason, "Available");
    assert_eq!(step(&own, &there(), at(10), KEPT), Step::Nothing);
}

#[test]
fn one_that_is_being_deleted_is_left_alone_whatever_its_time_is() {
    let going = json!({ "metadata": { "deletionTimestamp": "1970-01-01T00:00:01Z",
                                      "finalizers": ["example.com/wait"] } });
    let mut lives = Lives::default();
    lives.put(Arc::new(object(going.clone())), at(9_000));
    assert_eq!(lives.next(&Ledger::default(), at(9_000)), None);
    assert_eq!(lives.next_due(), None);
    let mut ended = going;
    ended["status"] = json!({ "phase": "Failed", "conditions": [
        { "type": "Ready", "status": "False", "reason": "Expired",
          "lastTransitionTime": "1970-01-01T00:00:05Z" }] });
    lives.put(Arc::new(object(ended)), at(900_000));
    assert_eq!(lives.next(&Ledger::default(), at(900_000)), None);
}

#[test]
fn what_was_told_while_it_was_written_is_looked_at_afterwards() {
    let mut lives = Lives::default();
    let ledger = Ledger::default();
    lives.put(Arc::new(object(json!({}))), at(1));
    assert!(lives.next(&ledger, at(1)).is_some(), "there is no node");
    let failed = json!({ "status": { "phase": "Failed", "conditions": [
        { "type": "Ready", "status": "False", "reason": "Expired",
          "lastTransitionTime": "1970-01-01T00:00:05Z" }] } });
    lives.put(Arc::new(object(failed)), at(2));
    assert_eq!(lives.next(&ledger, at(2)), None, "it is still being written");
    lives.lived(&Uid::new("u"), Wrote::All, at(3));
    let order = lives.next(&ledger, at(3)).unwrap();
    assert_eq!(order.step, Step::Delete, "it has ended, and its node is gone");
}

#[test]
fn one_thing_is_written_at_a_time_and_again_where_it_could_not_be() {
    let mut lives = Lives::default();
    let ledger = Ledger::default();
    let uid = Uid::new("u");
    lives.put(Arc::new(object(json!({}))), at(1));
    assert_eq!(lives.next_due(), Some(at(1)));
    // There is no node.
    let order = lives.next(&ledger, at(1)).unwrap();
    assert!(matches!(order.step, Step::Status { .. }));
    lives.touch(uid.clone(), at(2));
    assert_eq!(lives.next(&ledger, at(2)), None, "it is being written");
    lives.lived(&uid, Wrote::Nothing, at(3));
    assert_eq!(lives.next(&ledger, at(3)), None);
    assert!(lives.next(&ledger, at(4)).is_some(), "there was news of it meanwhile");
    lives.lived(&uid, Wrote::Nothing, at(5));
    assert_eq!(lives.next(&ledger, at(9)), None);
    assert!(lives.next(&ledger, at(10)).is_some());
    lives.remove(&uid, &ledger);
    lives.lived(&uid, Wrote::Nothing, at(9));
    assert_eq!((lives.next(&ledger, at(99)), lives.next_due()), (None, None));
}

#[test]
fn what_there_is_is_shown_and_nothing_else() {
    let metrics = chassis::metrics::Metrics::new();
    let meters = ReservationMeters::default();
    metrics.register(|registry| meters.enter(registry));
    let mut lives = Lives::default();
    let status = json!({ "allocated": { "cpu": "1" } });
    lives.put(Arc::new(object(json!({ "status": status }))), at(1));
    lives.show(&meters);
    let shown = metrics.render();
    for line in [
        r#"scheduler_reservation_status_phase{name="r",phase="Available"} 1"#,
        r#"scheduler_reservation_status_phase{name="r",phase="Failed"} 0"#,
        r#"scheduler_reservation_resource{type="allocatable",name="r",resource="cpu",unit="core"} 4"#,
        r#"scheduler_reservation_resource{type="utilization",name="r",resource="cpu",unit="ratio"} 0.25"#,
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
    lives.remove(&Uid::new("u"), &Ledger::default());
    lives.show(&meters);
    assert!(!metrics.render().contains(r#"name="r""#));
}

#[test]
fn a_reservation_that_names_a_gang_says_that_it_gets_its_node_by_itself() {
    let label = json!({ "pod-group.scheduling.sigs.k8s.io": "train" });
    let check = |more: Value, phase: &str, expected: Option<(&str, &str)>| {
        let mut own = object(more);
        own.status.phase = serde_json::from_value(json!(phase)).unwrap();
        let Step::Status { patch, .. } = step(&own, &there(), at(1), KEPT) else {
            assert_eq!(expected, None, "{phase}");
            return;
        };
        own.status.conditions =
            serde_json::from_value(patch["status"]["conditions"].clone()).unwrap();
        let told = find(&own.status.conditions, "Valid").unwrap();
        assert_eq!(Some((&*told.reason, &*told.message)), expected, "{phase}");
        assert_eq!(step(&own, &there(), at(1), KEPT), Step::Nothing, "it is told once");
        own.spec.template = None;
        own.metadata.labels.clear();
        let Step::Status { patch, .. } = step(&own, &there(), at(2), KEPT) else { panic!() };
        let last = patch["status"]["conditions"].as_array().unwrap().last().unwrap();
        assert_eq!(last["reason"], "Readable");
    };
    let words =
        "that it is of gang \"train\" changes nothing: a reservation gets its node by itself";
    let template = json!({ "metadata": { "labels": label }, "spec": { "containers": [] } });
    let of_template = json!({ "spec": { "template": template } });
    for phase in ["Pending", "Available"] {
        check(of_template.clone(), phase, Some(("PartlyHeeded", words)));
        check(json!({}), phase, None);
    }
    let own = json!({ "metadata": { "labels": label } });
    check(own, "Available", Some(("PartlyHeeded", words)));
}
