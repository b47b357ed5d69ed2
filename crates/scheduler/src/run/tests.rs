use api::reservation::{AFFINITY, ALLOCATED};
use api::{Node, Pod};
use engine::fact::{Fact, NodeFact, Uid};
use serde_json::{Value, json};

use super::*;
use crate::feed;
use crate::message::{Order, Wrote};
use crate::reservations::Step;

/// A profile of the chart's configuration, which has all plugins.
const NAME: &str = "koord-scheduler";
const START: Moment = Moment(1_000_000_000_000);

/// A scheduler with these flags, which knows a node of four CPUs.
fn begun(gates: &str, controllers: &str) -> Core {
    let gates = Gates::parse(gates).unwrap();
    let controllers = Controllers::parse(controllers.split(',')).unwrap();
    let options = Options::new(Configuration::of_koordinator(), "test");
    let options = Options { gates, controllers, ..options };
    let (mut core, names) = core(&options, Meters::register(&Metrics::new()), START);
    assert_eq!(names, [NAME.into()]);
    let node = json!({ "metadata": { "name": "n1", "labels": { "zone": "z1" } },
                       "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "9" } } });
    let node: Node = serde_json::from_value(node).unwrap();
    tell(&mut core, [Message::Fact(Fact::Node(NodeFact::from(&node)))]);
    tell(&mut core, Kind::ALL.map(Message::Synced));
    core
}

fn tell(core: &mut Core, messages: impl IntoIterator<Item = Message>) {
    for message in messages {
        assert_eq!(core.take(message, START), None);
    }
}

fn decisions(core: &mut Core, now: Moment) -> Vec<Order> {
    std::iter::from_fn(|| core.next_order(now)).collect()
}

fn pod(name: &str, cpu: &str, more: Value) -> Message {
    let pod = json!({
        "metadata": { "name": name, "namespace": "ns", "uid": name, "labels": { "app": "a" } },
        "spec": { "schedulerName": NAME, "containers": [
            { "name": "main", "resources": { "requests": { "cpu": cpu } } }] },
    });
    let pod = object::patch::merge::apply(pod, more).unwrap();
    feed::news(serde_json::from_value::<Pod>(pod).unwrap())
}

/// A reservation that holds two CPUs for a minute.
fn held() -> Message {
    let own = json!({
        "metadata": { "name": "r", "uid": "r", "resourceVersion": "1",
                      "creationTimestamp": "1970-01-01T00:16:40Z" },
        "spec": { "ttl": "1m", "allocateOnce": false,
                  "owners": [{ "labelSelector": { "matchLabels": { "app": "a" } } }],
                  "template": { "spec": { "schedulerName": NAME, "containers": [
                      { "name": "hold", "resources": { "requests": { "cpu": "2" } } }] } } },
        "status": { "phase": "Available", "nodeName": "n1", "allocatable": { "cpu": "2" } },
    });
    feed::reservation(serde_json::from_value(own).unwrap())
}

/// Whether room that another scheduler makes for a pod of higher priority is taken.
fn takes_room_of_others(core: &mut Core) -> bool {
    let going = json!({ "metadata": { "deletionTimestamp": "1970-01-01T00:16:40Z" },
                        "spec": { "nodeName": "n1", "priority": 0 } });
    let awaited = json!({ "spec": { "schedulerName": "another", "priority": 6 },
                          "status": { "nominatedNodeName": "n1" } });
    tell(core, [pod("going", "2", going), pod("awaited", "4", awaited)]);
    tell(core, [pod("p", "1", json!({ "spec": { "priority": 5 } }))]);
    decisions(core, START).iter().any(|order| matches!(order, Order::Bind(_)))
}

/// Whether a pod uses a reservation that lacks a label of its node which the pod wants.
fn matches_labels_of_nodes(core: &mut Core) -> bool {
    let wanted = json!({ "reservationSelector": { "zone": "z1" } }).to_string();
    let must = json!({ "metadata": { "annotations": { AFFINITY: wanted } } });
    tell(core, [held(), pod("p", "1", must)]);
    let orders = decisions(core, START);
    orders
        .iter()
        .any(|order| matches!(order, Order::Bind(order) if order.stamps.contains_key(ALLOCATED)))
}

/// The pods that are to say no longer that they use a reservation, once that is deleted.
fn freed(core: &mut Core) -> Vec<String> {
    let uses = json!({ "name": "r", "uid": "r" }).to_string();
    let user = json!({ "metadata": { "annotations": { ALLOCATED: uses } },
                       "spec": { "nodeName": "n1" } });
    tell(core, [held(), pod("user", "1", user)]);
    decisions(core, START);
    tell(core, [Message::Lived(Uid::new("r"), Wrote::All)]);
    tell(core, [Message::Fact(Fact::PodGone(Uid::new("r")))]);
    let orders = decisions(core, START);
    let freed = orders.iter().filter_map(|order| match order {
        Order::Live(order) => match &order.step {
            Step::Free(pods) => Some(pods.iter().map(|pod| pod.name.to_string())),
            _ => None,
        },
        _ => None,
    });
    freed.flatten().collect()
}

/// Whether a reservation is ended when its time is over.
fn ends_lives(core: &mut Core) -> bool {
    tell(core, [held()]);
    let orders = decisions(core, START.after(Duration::from_secs(61)));
    orders.iter().any(|order| matches!(order, Order::Live(_)))
}

#[test]
fn gates_and_controllers_decide_what_they_are_named_for_and_nothing_else() {
    struct Expected {
        takes_room_of_others: bool,
        matches_labels_of_nodes: bool,
        freed: &'static [&'static str],
        ends_lives: bool,
    }
    let check = |gates: &str, controllers: &str, expected: Expected| {
        let told = format!("{gates} {controllers}");
        let begun = || begun(gates, controllers);
        assert_eq!(takes_room_of_others(&mut begun()), expected.takes_room_of_others, "{told}");
        let matches = matches_labels_of_nodes(&mut begun());
        assert_eq!(matches, expected.matches_labels_of_nodes, "{told}");
        assert_eq!(freed(&mut begun()), expected.freed, "{told}");
        assert_eq!(ends_lives(&mut begun()), expected.ends_lives, "{told}");
    };
    let plain = || Expected {
        takes_room_of_others: true,
        matches_labels_of_nodes: true,
        freed: &[],
        ends_lives: true,
    };
    check("", "*", plain());
    check(
        "CrossSchedulerNomination=true",
        "*",
        Expected { takes_room_of_others: false, ..plain() },
    );
    check(
        "OmitNodeLabelsForReservation=true",
        "*",
        Expected { matches_labels_of_nodes: false, ..plain() },
    );
    let frees = "CleanExpiredReservationAllocated=true";
    check(frees, "*", Expected { freed: &["user"], ..plain() });
    check("", "*,-Reservation", Expected { ends_lives: false, ..plain() });
    check(frees, "*,-Reservation", Expected { ends_lives: false, ..plain() });
}
