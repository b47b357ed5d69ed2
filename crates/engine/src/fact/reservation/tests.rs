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
    assert_eq!(own.rules.amounts.memory_bytes, 0, "what it does not name is not held");
    assert_eq!(own.rules.pods, None);
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
    check(
        |own| {
            let ports: Vec<Value> = (1..=257).map(|port| json!({ "hostPort": port })).collect();
            own["spec"]["template"]["spec"]["containers"][0]["ports"] = json!(ports);
        },
        "spec.template.spec.containers[].ports",
    );
    check(|own| own["spec"]["owners"] = json!([]), "spec.owners");
    check(|own| own["spec"]["template"] = Value::Null, "spec.template");
    check(|own| own["spec"]["ttl"] = json!("abc"), "spec.ttl");
    check(
        |own| own["spec"]["template"]["spec"]["overhead"] = json!({ "cpu": "-2" }),
        "spec.template.spec.overhead",
    );
    check(
        |own| {
            let odd = json!({ "resources": { "cpu": "-1" } }).to_string();
            own["metadata"]["annotations"][wire::RESIZE_ALLOCATABLE] = json!(odd);
        },
        wire::RESIZE_ALLOCATABLE,
    );
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
fn a_selector_of_a_pod_that_is_a_reservation_is_refused_by_its_annotation() {
    let odd = r#"[{"labelSelector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}]"#;
    let pod = json!({ "metadata": { "labels": { wire::OPERATING_MODE_LABEL: "Reservation" },
                                    "annotations": { wire::OWNERS: odd } } });
    let needs = reservation_needs(&serde_json::from_value(pod).unwrap()).unwrap();
    let told = needs.malformed.unwrap();
    assert!(told.starts_with(wire::OWNERS), "{told}");
}

#[test]
fn amounts_that_nobody_can_hold_are_refused_by_name() {
    let check = |name: &str, amount: &str, expected: Option<&str>| {
        let own = ReservationFact::of(&reservation(spec(json!({ name: amount })), json!({})));
        let error = own.err().map(|error| {
            assert_eq!(error.key, "spec.template.spec.containers[].resources.requests");
            error.value().to_owned()
        });
        assert_eq!(error.as_deref(), expected, "{name}");
    };
    check("cpu", "-5", Some("cpu: -5"));
    check("zzz", "1", Some("zzz: 1"));
    check("a b/c d", "1", Some("a b/c d: 1"));
    for name in ["cpu", "pods", "hugepages-2Mi", "example.com/x", "kubernetes.io/batch-cpu"] {
        check(name, "1", None);
    }
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
