//! Pods of lower priority make room for reservations, and inside them.

use api::reservation::{PRIORITY_LABEL, SPARED_LABEL};

use super::*;
use crate::moment::Moment;
use crate::preemption::{Outcome, Settings};
use crate::profile::LastResort;
use crate::turn::Waiting;

impl World {
    fn preempting(last_resort: LastResort) -> Self {
        let profile = Profile { last_resorts: vec![last_resort], ..Profile::kubernetes() };
        let mut ledger = Ledger::default();
        let decider = Decider::new(profile.filter(Plugin::default()), &mut ledger, 1);
        let mut world = Self { ledger, decider };
        world.node("n1", &amounts("4", "8Gi"), json!({}));
        world
    }

    /// Who has to go for a pod that no node takes, or what is told then.
    fn victims(&mut self, name: &str) -> String {
        let uid = Uid::new(name);
        assert_eq!(self.decider.choose(&mut self.ledger, &uid, 7), Ok(None), "it has no node");
        let waiting = Waiting::of(&mut self.ledger, &self.decider, &uid, 7, Moment(0)).unwrap();
        match &waiting.last_resorts.preemption {
            Some(Outcome::Room(room)) => {
                let victims = room.victims.iter().map(|victim| &*victim.pod.name);
                victims.collect::<Vec<_>>().join(", ")
            }
            _ => waiting.last_resorts.text.clone(),
        }
    }
}

fn of(priority: i32, more: Value) -> Value {
    merged(json!({ "spec": { "nodeName": "n1", "priority": priority } }), more)
}

fn makes_room() -> LastResort {
    LastResort::Reservation(Some(Settings { spares: true, ..Settings::default() }))
}

#[test]
fn s11_56_a_pod_makes_room_for_a_reservation_unless_it_is_to_be_spared() {
    let reserve = |world: &mut World, more: Value| {
        let labels = json!({ "metadata": { "labels": { PRIORITY_LABEL: "9000" } } });
        world.reserve("r", &amounts("4", "1Gi"), merged(labels, more));
    };
    let low = of(1_000, json!({}));
    let mut world = World::preempting(makes_room());
    world.pod("low", &amounts("4", "1Gi"), low.clone());
    reserve(&mut world, json!({}));
    assert_eq!(world.victims("r"), "low");
    let spared = of(1_000, json!({ "metadata": { "labels": { SPARED_LABEL: "true" } } }));
    world.pod("low", &amounts("4", "1Gi"), spared);
    let nobody =
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    assert_eq!(world.victims("r"), nobody);
    // One that says so pushes nobody out, nor does any where that is not asked for.
    let never = json!({ "spec": { "template": { "spec": { "preemptionPolicy": "Never" } } } });
    world.pod("low", &amounts("4", "1Gi"), low.clone());
    reserve(&mut world, never);
    assert_eq!(world.victims("r"), "preemption: not eligible due to preemptionPolicy=Never.");
    for last_resort in
        [LastResort::Reservation(None), LastResort::DefaultPreemption(Settings::default())]
    {
        let mut world = World::preempting(last_resort);
        world.pod("low", &amounts("4", "1Gi"), low.clone());
        reserve(&mut world, json!({}));
        assert_eq!(world.victims("r"), "", "{last_resort:?}");
    }
}

#[test]
fn s11_57_who_is_awaited_is_counted_by_pods_of_no_higher_priority() {
    let mut world = World::preempting(makes_room());
    world.pod("low", &amounts("4", "1Gi"), of(1_000, json!({})));
    let labels = json!({ "metadata": { "labels": { PRIORITY_LABEL: "9000" } } });
    world.reserve("r", &amounts("4", "1Gi"), labels);
    assert_eq!(world.victims("r"), "low");
    world.ledger.nominate(&Uid::new("r"), Some("n1")).unwrap();
    world.ledger.apply(Fact::PodGone(Uid::new("low")));
    let waiting =
        |priority: i32| json!({ "metadata": { "labels": null }, "spec": { "priority": priority } });
    let full = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(world.asks("lower", &amounts("2", "1Gi"), waiting(100)), full);
    assert_eq!(world.asks("equal", &amounts("2", "1Gi"), waiting(9_000)), full);
    assert_eq!(world.asks("higher", &amounts("2", "1Gi"), waiting(10_000)), "n1");
    world.ledger.apply(Fact::PodGone(Uid::new("higher")));
    assert_eq!(world.said("r"), "n1", "what was made for it is its own");
    assert_eq!(world.charged("n1"), (4_000, 1, 1));
}

#[test]
fn room_is_made_inside_a_reservation() {
    let mut world = World::preempting(makes_room());
    world.held("r", "n1", &amounts("4", "8Gi"), policy("Restricted"));
    let uses = json!({ "metadata": { "annotations": {
        api::reservation::ALLOCATED: json!({ "name": "r", "uid": "r" }).to_string() } } });
    world.pod("a", &amounts("2", "1Gi"), of(1, uses.clone()));
    world.pod("b", &amounts("2", "1Gi"), of(2, uses));
    let must = merged(affinity(json!({})), json!({ "spec": { "priority": 5 } }));
    world.pod("must", &amounts("2", "1Gi"), must);
    assert_eq!(world.victims("must"), "a", "one of them is enough, and the lower one goes");
    world.ledger.nominate(&Uid::new("must"), Some("n1")).unwrap();
    world.ledger.apply(Fact::PodGone(Uid::new("a")));
    assert_eq!(world.said("must"), "n1 in r");
    assert_eq!(world.charged("n1"), (4_000, 8, 2));
    // One of another's cannot help: what is restricted stays short.
    let mut world = World::preempting(makes_room());
    world.held("r", "n1", &amounts("1", "1Gi"), policy("Restricted"));
    let low = of(1, json!({ "metadata": { "labels": null } }));
    world.pod("other", &amounts("3", "1Gi"), low);
    let must = merged(affinity(json!({})), json!({ "spec": { "priority": 5 } }));
    world.pod("must", &amounts("2", "1Gi"), must);
    assert_eq!(
        world.victims("must"),
        "preemption: 0/1 nodes are available: 1 Reservation(s) Insufficient cpu., 1 Reservation(s) \
         Insufficient cpu, 1 Reservation(s) matched owner total"
    );
}

#[test]
fn what_a_reservation_is_to_hold_is_nobodys_before_it_says_so() {
    let mut world = World::with("8", "8Gi");
    world.held("r", "n1", &amounts("2", "1Gi"), policy("Restricted"));
    let four = amounts("4", "1Gi");
    let wanted = crate::fact::Size {
        amounts: Amounts { cpu_millis: 4_000, memory_bytes: GI, ..Amounts::default() },
        pods: None,
    };
    world.ledger.resize(&Uid::new("r"), Some(wanted));
    assert_eq!(world.charged("n1"), (4_000, 1, 1));
    let told = world.asks("early", &four, affinity(json!({})));
    assert_eq!(told, "0/1 nodes are available: 1 Reservation(s) Insufficient cpu.");
    world.held("r", "n1", &four, policy("Restricted"));
    assert_eq!(world.said("early"), "n1 in r");
}

#[test]
fn a_reservation_of_low_priority_is_nobodys_victim() {
    let mut world = World::preempting(makes_room());
    let low = json!({ "metadata": { "labels": { PRIORITY_LABEL: "1" } } });
    world.held("r", "n1", &amounts("4", "8Gi"), low);
    let high = json!({ "metadata": { "labels": null }, "spec": { "priority": 9 } });
    world.pod("high", &amounts("4", "1Gi"), high);
    let nobody =
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    assert_eq!(world.victims("high"), nobody);
}

#[test]
fn it_is_told_what_is_in_the_way_of_each_reservation() {
    let mut world = World::preempting(LastResort::Reservation(None));
    let lines = |world: &mut World, name: &str| {
        let examined = world.decider.examine(&mut world.ledger, &Uid::new(name)).unwrap();
        let tally = examined.reservations.unwrap_or_default();
        (tally.lines().join("; "), tally.sentence().unwrap_or_default())
    };
    let one = amounts("1", "1Gi");
    world.pod("alone", &one, affinity(json!({})));
    assert_eq!(
        lines(&mut world, "alone"),
        ("0 Reservation(s) matched owner total".to_owned(), String::new())
    );
    world.held("closed", "n1", &one, json!({ "spec": { "unschedulable": true } }));
    let taint = |value: &str| {
        let taints = json!([{ "key": "gpu", "value": value, "effect": "NoSchedule" }]);
        json!({ "spec": { "taints": taints } })
    };
    world.held("tainted", "n1", &one, taint("yes"));
    world.held("tainted-too", "n1", &one, taint("yes"));
    world.held("small", "n1", &one, json!({ "metadata": { "labels": { "zone": "z" } } }));
    let wants = affinity(json!({ "reservationSelector": { "zone": "z" } }));
    world.pod("p", &amounts("4", "1Gi"), wants);
    assert_eq!(
        lines(&mut world, "p").1,
        "0/4 reservations are available: 1 Reservation(s) is unschedulable, 2 Reservation(s) had \
         untolerated taint {gpu: yes}, 1 Reservation(s) for node reason that Insufficient cpu by node."
    );
    world.pod("named", &amounts("4", "1Gi"), affinity(json!({ "name": "small" })));
    let (told, _) = lines(&mut world, "named");
    assert_eq!(
        told,
        "1 Reservation(s) exactly matches the requested reservation name; 3 Reservation(s) didn't \
         match the requested reservation name; 1 Reservation(s) for node reason that Insufficient \
         cpu by node; 4 Reservation(s) matched owner total"
    );
}

/// A reservation that takes over one of its own and pushes others out.
fn taking_over() -> Value {
    json!({ "metadata": { "labels": { PRIORITY_LABEL: "9000" } },
            "spec": { "preAllocation": true, "allocatePolicy": "Restricted" } })
}

#[test]
fn who_makes_room_for_a_reservation_is_not_taken_over_as_well() {
    let mut world = World::preempting(makes_room());
    let other = json!({ "metadata": { "labels": { "app": "other" } } });
    world.pod("other", &amounts("2", "1Gi"), of(9_500, other));
    world.pod("low", &amounts("2", "1Gi"), of(1_000, json!({})));
    world.reserve("r", &amounts("3", "1Gi"), taking_over());
    // Its room counts once.
    let nobody = "preemption: 0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(world.victims("r"), nobody);
}

#[test]
fn who_is_taken_over_need_not_make_room() {
    let mut world = World::preempting(makes_room());
    let other = json!({ "metadata": { "labels": { "app": "other" } } });
    world.pod("inside", &amounts("2", "1Gi"), of(1_000, json!({})));
    world.pod("other", &amounts("2", "1Gi"), of(1_000, other));
    world.reserve("r", &amounts("3", "2Gi"), taking_over());
    assert_eq!(world.victims("r"), "other");
}
