use serde_json::{Value, json};

use super::*;

fn reservation(spec: Value, status: Value) -> Reservation {
    let metadata = json!({ "name": "r", "uid": "u" });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap()
}

fn spec(requests: Value) -> Value {
    let containers = json!([{ "name": "c", "resources": { "requests": requests } }]);
    json!({ "owners": [{ "object": { "name": "p" } }],
            "template": { "spec": { "containers": containers, "schedulerName": "s" } } })
}

#[test]
fn what_is_held_is_what_the_status_says_once_it_says_so() {
    let requests = json!({ "cpu": "2", "memory": "1Gi", "pods": "3" });
    let own =
        ReservationFact::of(&reservation(spec(requests.clone()), json!({}))).unwrap().unwrap();
    let rules = &own.rules;
    assert_eq!((rules.amounts.cpu_millis, rules.amounts.memory_bytes), (2_000, 1 << 30));
    assert_eq!((rules.pods, own.pod.node.as_deref(), &*own.pod.scheduler), (Some(3), None, "s"));
    assert_eq!(own.pod.needs.taken.charged, rules.amounts);
    let allocatable = json!({ "cpu": "5", "example.com/x": "7" });
    let status = json!({ "phase": "Available", "nodeName": "n", "allocatable": allocatable });
    let own = ReservationFact::of(&reservation(spec(requests.clone()), status)).unwrap().unwrap();
    assert_eq!(own.rules.amounts.cpu_millis, 5_000);
    assert_eq!(own.rules.amounts.memory_bytes, 1 << 30, "what it does not name stays");
    assert_eq!(own.rules.amounts.scalar("example.com/x"), 7);
    assert_eq!(own.pod.node.as_deref(), Some("n"));
    // Nothing is held before.
    let status = json!({ "phase": "Pending", "nodeName": "n" });
    let own = ReservationFact::of(&reservation(spec(requests.clone()), status)).unwrap().unwrap();
    assert_eq!(own.pod.node, None);
    for phase in ["Succeeded", "Failed"] {
        let own = reservation(spec(requests.clone()), json!({ "phase": phase, "nodeName": "n" }));
        assert_eq!(ReservationFact::of(&own), Ok(None));
        assert!(matches!(ReservationFact::told(&own), Fact::PodGone(uid) if *uid.0 == *"u"));
    }
}

#[test]
fn what_cannot_be_read_is_told_by_name() {
    let check = |change: fn(&mut Value), key: &str| {
        let mut object = json!({ "metadata": { "name": "r", "uid": "u", "annotations": {} },
                                 "spec": spec(json!({ "cpu": "1" })) });
        change(&mut object);
        let own: Reservation = serde_json::from_value(object).unwrap();
        let error = ReservationFact::of(&own).unwrap_err();
        assert_eq!(error.key, key, "{error}");
        assert!(matches!(ReservationFact::told(&own), Fact::PodGone(_)));
        // What holds something already goes on holding it, for nobody.
        let mut own = own;
        own.status = serde_json::from_value(json!({ "phase": "Available", "nodeName": "n",
                                                    "allocatable": { "cpu": "3" } }))
        .unwrap();
        let Fact::Reservation(held) = ReservationFact::told(&own) else { panic!("it is held") };
        assert_eq!(held.pod.needs.taken.charged.cpu_millis, 3_000);
        assert_eq!((held.pod.node.as_deref(), &*held.pod.uid.0), (Some("n"), "u"));
        assert!(held.rules.owners.is_empty());
    };
    check(|own| own["spec"]["owners"] = json!([]), "spec.owners");
    check(|own| own["spec"]["template"] = Value::Null, "spec.template");
    check(|own| own["spec"]["preAllocation"] = json!(true), "spec.preAllocation");
    check(
        |own| {
            let odd = json!([{ "key": "a", "operator": "Near" }]);
            own["spec"]["owners"] = json!([{ "labelSelector": { "matchExpressions": odd } }]);
        },
        "spec.owners[].labelSelector",
    );
    check(
        |own| own["metadata"]["annotations"][wire::RESTRICTED_OPTIONS] = json!("?"),
        wire::RESTRICTED_OPTIONS,
    );
    check(
        |own| own["metadata"]["annotations"]["node.koordinator.sh/reservation"] = json!("?"),
        "node.koordinator.sh/reservation",
    );
}

#[test]
fn what_somebody_else_got_is_not_what_a_reservation_holds() {
    let status = json!({ "cpuset": "0-7" }).to_string();
    let mut template = spec(json!({ "cpu": "4" }));
    let used = json!({ "name": "other", "uid": "o" }).to_string();
    template["template"]["metadata"] =
        json!({ "annotations": { api::cpus::RESOURCE_STATUS: status, wire::ALLOCATED: used } });
    let held = json!({ "phase": "Available", "nodeName": "n", "allocatable": { "cpu": "8" } });
    let mut own = reservation(template, held);
    let read = |own: &Reservation| ReservationFact::of(own).unwrap().unwrap().pod.allotment;
    assert_eq!(read(&own), None);
    // Its own it has, also where it holds more than its template asks for.
    own.metadata.annotations.insert(api::cpus::RESOURCE_STATUS.to_owned(), status);
    assert_eq!(read(&own).map(|own| own.cpus.len()), Some(8));
}
