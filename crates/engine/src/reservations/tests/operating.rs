//! Pods that are reservations once they run.

use api::reservation::{CURRENT_OWNER, OPERATING_MODE_LABEL, OWNERS};

use super::*;

/// A pod on a node that is a reservation for pods of the app.
fn operating(more: Value) -> Value {
    let owners = json!([{ "labelSelector": { "matchLabels": { "app": "demo" } } }]).to_string();
    let pod = json!({
        "metadata": { "labels": { "app": null, OPERATING_MODE_LABEL: "Reservation" },
                      "annotations": { OWNERS: owners } },
        "spec": { "nodeName": "n1" },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    merged(pod, more)
}

impl World {
    /// Says anew which reservations are for pods that wait.
    fn invite(&mut self) {
        for uid in self.ledger.pods().map(|(uid, _)| uid.clone()).collect::<Vec<_>>() {
            let labels = [("app".into(), "demo".into())].into();
            self.ledger.invite(&uid, &labels, &[]);
        }
    }
}

#[test]
fn s11_55_a_pod_that_runs_gives_its_room_to_one_of_its_owners() {
    let mut world = World::with("4", "8Gi");
    let four = amounts("4", "8Gi");
    world.pod("op", &four, operating(json!({})));
    assert_eq!(world.charged("n1"), (4_000, 8, 1));
    let full = "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.";
    let stranger = json!({ "metadata": { "labels": null } });
    assert_eq!(world.asks("stranger", &four, stranger), full);
    assert_eq!(world.asks("a", &four, json!({})), "n1 in op");
    let uses = world.ledger.pod(&Uid::new("a")).unwrap().allotment.unwrap();
    let uses = world.ledger.asks.allotments.get(uses).reservation.clone().unwrap();
    assert_eq!((&*uses.name, &uses.uid), ("op", &Uid::new("op")));
    assert_eq!(world.charged("n1"), (4_000, 8, 1), "what it held is used");
    assert_eq!(world.asks("b", &four, json!({})), full, "it is for one pod");
    // What they used is free when both are gone, in any order.
    world.ledger.apply(Fact::PodGone(Uid::new("op")));
    assert_eq!(world.charged("n1"), (4_000, 8, 1));
    world.ledger.apply(Fact::PodGone(Uid::new("a")));
    assert_eq!(world.charged("n1"), (0, 0, 0));
    for uid in ["stranger", "b"] {
        world.ledger.apply(Fact::PodGone(Uid::new(uid)));
    }
    assert!(world.ledger.reservations.is_empty() && world.ledger.asks.is_empty());
}

#[test]
fn it_is_for_nobody_before_it_is_ready_nor_while_it_is_used() {
    let mut world = World::with("4", "8Gi");
    let four = amounts("4", "8Gi");
    let full = "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.";
    let starting = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    let used = json!({ "metadata": { "annotations": { CURRENT_OWNER: "{\"name\":\"x\"}" } } });
    let plain = json!({ "metadata": { "labels": { OPERATING_MODE_LABEL: "Runnable" } } });
    world.pod("a", &four, json!({}));
    for more in [starting, used, plain] {
        world.pod("op", &four, operating(more));
        world.invite();
        assert_eq!(world.charged("n1"), (4_000, 8, 1));
        assert_eq!(world.said("a"), full);
    }
    world.pod("op", &four, operating(json!({})));
    world.invite();
    assert_eq!(world.said("a"), "n1 in op");
    // It becomes a plain pod, and both take what they take.
    let plain = json!({ "metadata": { "labels": { OPERATING_MODE_LABEL: "Runnable" } } });
    world.pod("op", &four, operating(plain));
    assert_eq!(world.charged("n1"), (8_000, 16, 2));
    world.pod("op", &four, operating(json!({})));
    assert_eq!(world.charged("n1"), (4_000, 8, 1));
}

#[test]
fn who_may_use_it_must_be_said_and_readable() {
    let check = |owners: Value, expected: &str| {
        let mut world = World::with("4", "8Gi");
        let more = json!({ "metadata": { "annotations": { OWNERS: owners } },
                           "spec": { "nodeName": null } });
        let told = world.asks("op", &amounts("1", "1Gi"), operating(more));
        assert!(told.contains(expected), "{told}");
    };
    check(json!("?"), "scheduling.koordinator.sh/reservation-owners has the value \"?\"");
    check(json!("[]"), "scheduling.koordinator.sh/reservation-owners");
    check(json!("[{}]"), "scheduling.koordinator.sh/reservation-owners");
    check(json!(null), "scheduling.koordinator.sh/reservation-owners");
    check(json!("[{\"object\":{\"name\":\"x\"}}]"), "n1");
}

#[test]
fn it_goes_together_with_others_that_have_a_policy() {
    let mut world = World::with("32", "32Gi");
    let others = json!({ "spec": { "owners": [{ "object": { "name": "somebody" } }] } });
    world.held("r", "n1", &amounts("1", "1Gi"), others.clone());
    let waiting = || operating(json!({ "spec": { "nodeName": null } }));
    let conflict = "0/1 nodes are available: 1 node(s) reservation allocate policy conflict.";
    assert_eq!(world.asks("op", &amounts("1", "1Gi"), waiting()), conflict);
    world.held("r", "n1", &amounts("1", "1Gi"), merged(others, policy("Restricted")));
    assert_eq!(world.said("op"), "n1");
}
