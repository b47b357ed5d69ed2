//! Reservations: what is written of them, and when.

use super::*;
use crate::reservations::Settings;

/// A reservation of so many CPUs for nobody here, with more of its own.
pub(super) fn reservation(name: &str, cpu: &str, more: Value) -> Message {
    let own = json!({
        "metadata": { "name": name, "uid": name, "resourceVersion": "1",
                      "creationTimestamp": "1970-01-01T00:16:40Z" },
        "spec": { "ttl": "1m", "owners": [{ "object": { "name": "somebody" } }], "template": { "spec": {
            "containers": [{ "name": "hold", "resources": { "requests": { "cpu": cpu } } }] } } },
    });
    let own = object::patch::merge::apply(own, more).unwrap();
    feed::reservation(serde_json::from_value(own).unwrap())
}

#[test]
fn a_reservation_is_given_a_node_and_lives_until_its_time_is_over() {
    let profiles = vec![(NAME.into(), Profile::kubernetes().filter(Reservation::default()))];
    let engine = Engine::new(turn::Settings::default(), profiles, START);
    let core = Core::new(engine, [NAME.into()], Meters::register(&Metrics::new()));
    let mut core = begun(core, 8);
    tell(&mut core, [reservation("r", "6", json!({}))]);
    let orders = decisions(&mut core, START);
    let [Order::Bind(order)] = &orders[..] else { panic!("{orders:?}") };
    let held = order.held.clone().unwrap();
    assert_eq!(serde_json::to_value(held.amounts).unwrap(), json!({ "cpu": "6" }));
    assert!(order.pod.is_reservation && *order.node == *"n1");
    let bound = answer(&core, "r", Outcome::Bound);
    tell(&mut core, [bound]);
    let status = json!({ "phase": "Available", "nodeName": "n1", "allocatable": { "cpu": "6" } });
    tell(&mut core, [reservation("r", "6", json!({ "status": status }))]);
    check(&mut core, START, &[]);
    let end = START.after(Duration::from_secs(60));
    assert_eq!(core.next_due(START), Some(end));
    let orders = decisions(&mut core, end.after(Duration::from_secs(1)));
    let [Order::Live(order)] = &orders[..] else { panic!("{orders:?}") };
    let Step::Status { patch, .. } = &order.step else { panic!("{order:?}") };
    assert_eq!(patch["status"]["phase"], "Failed");
    // Until that is told, what it holds is held; then it is free.
    tell(&mut core, [Message::Lived(Uid::new("r"), Wrote::All), pod("p", "4", json!({}))]);
    let told = decisions(&mut core, end);
    assert!(matches!(&told[..], [Order::Tell(order)] if *order.pod.name == *"p"), "{told:?}");
    let failed = json!({ "phase": "Failed", "nodeName": "n1", "conditions": [
        { "type": "Ready", "status": "False", "reason": "Expired",
          "lastTransitionTime": "1970-01-01T00:17:41Z" }] });
    tell(&mut core, [reservation("r", "6", json!({ "status": failed }))]);
    let later = end.after(Duration::from_secs(60));
    let told = decisions(&mut core, later);
    assert!(matches!(&told[..], [Order::Bind(order)] if *order.pod.name == *"p"), "{told:?}");
}

/// One that uses reservations, with one node of so many CPUs.
fn reserving(cpu: u32) -> Core {
    let profiles = vec![(NAME.into(), Profile::kubernetes().filter(Reservation::default()))];
    let engine = Engine::new(turn::Settings::default(), profiles, START);
    begun(Core::new(engine, [NAME.into()], Meters::register(&Metrics::new())), cpu)
}

/// A reservation that holds so many CPUs, whose template asks for so many.
fn held(asks: &str, holds: &str, conditions: Value) -> Message {
    let status = json!({ "phase": "Available", "nodeName": "n1", "allocatable": { "cpu": holds },
                         "conditions": conditions });
    let spec = json!({ "ttl": "0s", "owners": [{ "labelSelector": { "matchLabels": { "app": "a" } } }],
                       "allocateOnce": false });
    reservation("r", asks, json!({ "status": status, "spec": spec }))
}

/// The only order, which is to write something on a reservation.
fn lived(core: &mut Core) -> Step {
    let orders = decisions(core, START);
    let [Order::Live(order)] = &orders[..] else { panic!("{orders:?}") };
    order.step.clone()
}

#[test]
fn a_reservation_grows_and_shrinks_with_its_template() {
    let mut core = reserving(8);
    tell(&mut core, [held("4", "4", json!([]))]);
    check(&mut core, START, &[]);
    tell(&mut core, [held("6", "4", json!([]))]);
    let Step::Resize { patch, .. } = lived(&mut core) else { panic!("it is to hold more") };
    assert_eq!(patch["status"]["allocatable"], json!({ "cpu": "6" }));
    let conditions = patch["status"]["conditions"].clone();
    // What it grows by is nobody else's before it is written.
    tell(&mut core, [pod("late", "3", json!({}))]);
    let told = decisions(&mut core, START);
    assert!(matches!(&told[..], [Order::Tell(order)] if *order.pod.name == *"late"), "{told:?}");
    tell(&mut core, [Message::Told(Uid::new("late")), Message::Lived(Uid::new("r"), Wrote::All)]);
    tell(&mut core, [held("6", "6", conditions.clone())]);
    let told = decisions(&mut core, START);
    assert!(matches!(&told[..], [] | [Order::Tell(_)]), "{told:?}");
    tell(&mut core, [Message::Told(Uid::new("late"))]);
    // Another edits what it holds: the template did not change, so that stays.
    tell(&mut core, [held("6", "5", conditions.clone())]);
    check(&mut core, START.after(Duration::from_secs(60)), &["late to n1"]);
    // It shrinks: what it gives up is free when that is told.
    tell(&mut core, [held("1", "5", conditions)]);
    let Step::Resize { patch, .. } = lived(&mut core) else { panic!("it is to hold less") };
    let conditions = patch["status"]["conditions"].clone();
    tell(&mut core, [pod("next", "2", json!({}))]);
    let told = decisions(&mut core, START);
    assert!(matches!(&told[..], [Order::Tell(order)] if *order.pod.name == *"next"), "{told:?}");
    tell(&mut core, [Message::Told(Uid::new("next")), Message::Lived(Uid::new("r"), Wrote::All)]);
    tell(&mut core, [held("1", "1", conditions)]);
    check(&mut core, START.after(Duration::from_secs(120)), &["next to n1"]);
}

#[test]
fn what_a_template_asks_for_by_now_is_not_held_before_it_is_granted() {
    let mut core = reserving(8);
    tell(&mut core, [held("4", "4", json!([]))]);
    check(&mut core, START, &[]);
    // It asks for a resource that it does not hold, and of which the node has none.
    let status = json!({ "phase": "Available", "nodeName": "n1", "allocatable": { "cpu": "4" } });
    let requests = json!({ "cpu": "4", "example.com/chip": "8" });
    let spec = json!({ "ttl": "0s", "template": { "spec": { "containers": [
        { "name": "hold", "resources": { "requests": requests } }] } } });
    tell(&mut core, [reservation("r", "4", json!({ "status": status, "spec": spec }))]);
    let Step::Status { patch, .. } = lived(&mut core) else { panic!("it does not get it") };
    let told = patch["status"]["conditions"].to_string();
    assert!(told.contains("too little example.com/chip"), "{told}");
    let ledger = core.engine().ledger();
    let node = ledger.nodes.find("n1").unwrap();
    assert_eq!(ledger.nodes.resources.requested(node, "example.com/chip"), 0);
}

#[test]
fn growth_that_may_have_been_written_is_kept_and_growth_that_was_refused_is_not() {
    let mut core = reserving(8);
    tell(&mut core, [held("4", "4", json!([]))]);
    check(&mut core, START, &[]);
    let charged = |core: &Core| {
        let ledger = core.engine().ledger();
        let node = ledger.nodes.find("n1").unwrap();
        ledger.nodes.resources.requested(node, "cpu")
    };
    tell(&mut core, [held("8", "4", json!([]))]);
    let Step::Resize { .. } = lived(&mut core) else { panic!("it is to hold more") };
    assert_eq!(charged(&core), 8_000);
    tell(&mut core, [Message::Lived(Uid::new("r"), Wrote::Nothing)]);
    assert_eq!(charged(&core), 8_000, "nobody knows whether it is written");
    // Somebody else wrote another size: that is how it is.
    tell(&mut core, [held("8", "5", json!([]))]);
    assert_eq!(charged(&core), 5_000);
    let Step::Resize { .. } = lived(&mut core) else { panic!("it is to hold more") };
    tell(&mut core, [Message::Lived(Uid::new("r"), Wrote::Refused)]);
    assert_eq!(charged(&core), 5_000, "the server refused it");
    // What is left of one that is gone falls on nobody.
    tell(&mut core, [held("8", "6", json!([]))]);
    let Step::Resize { .. } = lived(&mut core) else { panic!("it is to hold more") };
    tell(&mut core, [Message::Fact(Fact::PodGone(Uid::new("r")))]);
    tell(&mut core, [reservation("s", "2", json!({}))]);
    let orders = decisions(&mut core, START);
    let [Order::Bind(order)] = &orders[..] else { panic!("{orders:?}") };
    let amounts = order.held.clone().unwrap().amounts;
    assert_eq!(serde_json::to_value(amounts).unwrap(), json!({ "cpu": "2" }));
}

#[test]
fn what_a_reservation_cannot_become_is_told() {
    let mut core = reserving(8);
    let condition = |step: &Step| {
        let (Step::Status { patch, .. } | Step::Resize { patch, .. }) = step else {
            panic!("{step:?}")
        };
        let all = patch["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let own = all.iter().find(|own| own["type"] == "Resized").cloned().unwrap_or_default();
        let text = |field: &str| own[field].as_str().unwrap_or_default().to_owned();
        (json!(all), text("status"), text("reason"), text("message"))
    };
    let user = json!({ "metadata": { "labels": { "app": "a" }, "annotations": {
        "scheduling.koordinator.sh/reservation-allocated": r#"{"name":"r","uid":"r"}"# } },
        "spec": { "nodeName": "n1" } });
    tell(&mut core, [held("4", "4", json!([])), pod("user", "3", user)]);
    let Step::Status { .. } = lived(&mut core) else { panic!("who uses it is told") };
    tell(&mut core, [Message::Lived(Uid::new("r"), Wrote::All)]);
    let check = |core: &mut Core, asks: &str, reason: &str, words: &str| {
        tell(core, [held(asks, "4", json!([]))]);
        let (conditions, status, told, message) = condition(&lived(core));
        assert_eq!((status.as_str(), told.as_str()), ("False", reason), "{message}");
        assert!(message.contains(words), "{message}");
        tell(core, [Message::Lived(Uid::new("r"), Wrote::All)]);
        conditions
    };
    check(&mut core, "2", "InUse", "pods use more cpu");
    let refused = check(&mut core, "9", "Insufficient", "node n1 has too little cpu");
    // It asks for what it holds again.
    tell(&mut core, [held("4", "4", refused)]);
    let (_, status, reason, _) = condition(&lived(&mut core));
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Resized"));
    tell(&mut core, [Message::Lived(Uid::new("r"), Wrote::All)]);
    // What counts only when a node is given is told as well.
    let elsewhere = json!({
        "metadata": { "generation": 2 },
        "status": { "phase": "Available", "nodeName": "n1", "allocatable": { "cpu": "4" } },
        "spec": { "ttl": "0s", "allocateOnce": false,
                  "template": { "spec": { "nodeSelector": { "disk": "ssd" } } } } });
    tell(&mut core, [reservation("r", "4", elsewhere)]);
    let (_, status, reason, message) = condition(&lived(&mut core));
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Immutable"));
    assert!(message.contains("spec.template.spec.nodeSelector"), "{message}");
    tell(&mut core, [Message::Lived(Uid::new("r"), Wrote::All)]);
    // And so is that it is as it was again.
    let told = json!([{ "type": "Resized", "status": "False", "reason": "Immutable",
                        "message": message }]);
    tell(&mut core, [held("4", "4", told)]);
    let (_, status, reason, _) = condition(&lived(&mut core));
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Resized"));
}

#[test]
fn a_template_that_becomes_nonsense_changes_nothing_but_what_is_told() {
    for spec in [
        json!(7),
        json!("x"),
        json!([1]),
        json!({ "containers": ["x", 7, null] }),
        json!({ "containers": 7, "initContainers": { "a": 1 } }),
        Value::Null,
    ] {
        let mut core = reserving(8);
        let status =
            json!({ "phase": "Available", "nodeName": "n1", "allocatable": { "cpu": "4" } });
        tell(&mut core, [reservation("r", "4", json!({ "status": status }))]);
        let nonsense = json!({ "status": status, "spec": { "template": { "spec": spec } } });
        tell(&mut core, [reservation("r", "4", nonsense)]);
        // It goes on holding what it holds.
        tell(&mut core, [pod("p", "5", json!({}))]);
        let orders = decisions(&mut core, START);
        assert!(!orders.iter().any(|order| matches!(order, Order::Bind(_))), "{orders:?}");
    }
}

#[test]
fn s11_14_pods_say_no_longer_that_they_use_one_that_is_gone_where_that_is_wanted() {
    for frees_pods in [false, true] {
        let settings = Settings { frees_pods, ..Settings::default() };
        let mut core = reserving(8).keeping(Some(settings));
        let user = || {
            json!({ "metadata": { "annotations": {
            "scheduling.koordinator.sh/reservation-allocated": r#"{"name":"r","uid":"r"}"# } },
            "spec": { "nodeName": "n1" } })
        };
        tell(&mut core, [held("4", "4", json!([])), pod("a", "1", user()), pod("b", "1", user())]);
        let Step::Status { .. } = lived(&mut core) else { panic!("who uses it is told") };
        tell(&mut core, [Message::Lived(Uid::new("r"), Wrote::All)]);
        tell(&mut core, [Message::Fact(Fact::PodGone(Uid::new("r")))]);
        let orders = decisions(&mut core, START);
        match (&orders[..], frees_pods) {
            ([], false) => {}
            ([Order::Live(order)], true) => {
                let Step::Free(pods) = &order.step else { panic!("{order:?}") };
                let names: Vec<&str> = pods.iter().map(|pod| &*pod.name).collect();
                assert_eq!(names, ["a", "b"]);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn who_takes_over_pods_writes_that_on_them() {
    let mut core = reserving(8);
    let there = json!({ "metadata": { "labels": { "app": "a" } }, "spec": { "nodeName": "n1" } });
    tell(&mut core, [pod("a", "6", there)]);
    let spec = json!({ "preAllocation": true, "allocatePolicy": "Restricted",
                       "owners": [{ "labelSelector": { "matchLabels": { "app": "a" } } }] });
    tell(&mut core, [reservation("r", "8", json!({ "spec": spec }))]);
    let orders = decisions(&mut core, START);
    let [Order::Bind(order)] = &orders[..] else { panic!("{orders:?}") };
    let held = order.held.clone().unwrap();
    let names: Vec<&str> = held.adopts.iter().map(|pod| &*pod.name).collect();
    assert_eq!((names, held.leaves.len()), (vec!["a"], 0));
    assert!(held.told.contains(r#"{"cpu":"8"}"#), "{}", held.told);
}

#[test]
fn it_is_told_what_is_in_the_way_of_reservations() {
    let mut core = reserving(8);
    let closed = json!({ "status": { "phase": "Available", "nodeName": "n1",
                                     "allocatable": { "cpu": "1" } },
                         "spec": { "unschedulable": true,
                                   "owners": [{ "object": { "name": "p" } }] } });
    tell(&mut core, [reservation("r", "1", closed)]);
    let must = json!({ "metadata": { "annotations": {
        "scheduling.koordinator.sh/reservation-affinity": "{}" } } });
    tell(&mut core, [pod("p", "1", must)]);
    let orders = decisions(&mut core, START);
    let [Order::Tell(order)] = &orders[..] else { panic!("{orders:?}") };
    let expected = "0/1 reservations are available: 1 Reservation(s) is unschedulable.";
    assert_eq!(order.reservations.as_deref(), Some(expected));
}

#[test]
fn a_reservation_ends_with_its_node() {
    let mut core = reserving(8);
    let status = json!({ "phase": "Available", "nodeName": "n1", "allocatable": { "cpu": "6" } });
    tell(&mut core, [reservation("r", "6", json!({ "status": status }))]);
    check(&mut core, START, &[]);
    tell(&mut core, [Message::Fact(Fact::NodeGone("n1".into()))]);
    let orders = decisions(&mut core, START);
    let [Order::Live(order)] = &orders[..] else { panic!("{orders:?}") };
    let Step::Status { patch, .. } = &order.step else { panic!("{order:?}") };
    assert_eq!(patch["status"]["phase"], "Failed");
}

#[test]
fn s10_80_a_reservation_that_somebody_else_looks_after_is_left_alone() {
    let profiles = vec![(NAME.into(), Profile::kubernetes().filter(Reservation::default()))];
    let engine = Engine::new(turn::Settings::default(), profiles, START);
    let core = Core::new(engine, [NAME.into()], Meters::register(&Metrics::new()));
    let mut core = begun(core.keeping(None), 8);
    tell(&mut core, [reservation("r", "6", json!({}))]);
    // It gets a node as ever.
    assert!(matches!(&decisions(&mut core, START)[..], [Order::Bind(_)]));
    let bound = answer(&core, "r", Outcome::Bound);
    tell(&mut core, [bound]);
    let status = json!({ "phase": "Available", "nodeName": "n1", "allocatable": { "cpu": "6" } });
    tell(&mut core, [reservation("r", "6", json!({ "status": status }))]);
    check(&mut core, START, &[]);
    let expired = START.after(Duration::from_secs(61));
    assert_eq!(core.next_due(START), None);
    check(&mut core, expired, &[]);
}

#[test]
fn one_that_names_a_profile_which_gives_none_a_node_is_told_so() {
    let other = "with-reservations";
    let profiles = vec![
        (NAME.into(), Profile::kubernetes()),
        (other.into(), Profile::kubernetes().filter(Reservation::default())),
    ];
    let engine = Engine::new(turn::Settings::default(), profiles, START);
    let names = [NAME.into(), other.into()];
    let mut core = begun(Core::new(engine, names, Meters::register(&Metrics::new())), 8);
    tell(&mut core, [reservation("r", "6", json!({}))]);
    let orders = decisions(&mut core, START);
    let [Order::Live(order)] = &orders[..] else { panic!("{orders:?}") };
    let Step::Status { patch, .. } = &order.step else { panic!("{order:?}") };
    let told = &patch["status"]["conditions"][0];
    assert_eq!((&told["type"], &told["reason"]), (&json!("Scheduled"), &json!("Invalid")));
    let words = told["message"].as_str().unwrap();
    assert!(words.contains("schedulerName") && words.contains(NAME), "{words}");
    tell(&mut core, [Message::Lived(Uid::new("r"), Wrote::All)]);
    // Where it names one that does, it gets its node.
    let named = json!({ "spec": { "template": { "spec": { "schedulerName": other } } } });
    tell(&mut core, [reservation("r", "6", named)]);
    let orders = decisions(&mut core, START);
    assert!(matches!(&orders[..], [Order::Bind(_)]), "{orders:?}");
}
