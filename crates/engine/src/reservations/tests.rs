//! Scenarios of the specification: who gets what of which reservation, and why not.

mod kept;
mod operating;
mod room;
mod takeover;

use api::cpus::{CPU_TOPOLOGY, RESOURCE_STATUS};
use api::reservation::{AFFINITY, EXACT_MATCH, IGNORED_LABEL, RESTRICTED_OPTIONS};
use api::{Node, NodeResourceTopology, Pod, Reservation};
use serde_json::{Value, json};

use super::suit::score;
use super::{Place, Within};
use crate::decide::Decider;
use crate::fact::{Fact, NodeFact, ReservationFact, Uid};
use crate::ledger::Ledger;
use crate::needs::Amounts;
use crate::plugins::node_numa_resource::NodeNuma;
use crate::plugins::node_resources::IgnoredResources;
use crate::plugins::reservation::Reservation as Plugin;
use crate::profile::Profile;

fn merged(object: Value, more: Value) -> Value {
    object::patch::merge::apply(object, more).unwrap()
}

struct World {
    ledger: Ledger,
    decider: Decider,
}

const GI: i64 = 1 << 30;

fn containers(requests: &Value) -> Value {
    json!([{ "name": "c", "resources": { "requests": requests } }])
}

/// An amount of CPU and memory.
fn amounts(cpu: &str, memory: &str) -> Value {
    json!({ "cpu": cpu, "memory": memory })
}

impl World {
    fn new() -> Self {
        Self::by(Plugin::default())
    }

    fn by(plugin: Plugin) -> Self {
        let mut ledger = Ledger::default();
        let decider = Decider::new(Profile::kubernetes().filter(plugin), &mut ledger, 1);
        Self { ledger, decider }
    }

    /// With one node that has so much.
    fn with(cpu: &str, memory: &str) -> Self {
        let mut world = Self::new();
        world.node("n1", &amounts(cpu, memory), json!({}));
        world
    }

    fn node(&mut self, name: &str, has: &Value, labels: Value) {
        let has = merged(json!({ "pods": "110" }), has.clone());
        let node = json!({ "metadata": { "name": name, "labels": labels },
                           "status": { "allocatable": has } });
        let node: Node = serde_json::from_value(node).unwrap();
        self.ledger.apply(Fact::Node(NodeFact::from(&node)));
    }

    fn pod(&mut self, name: &str, requests: &Value, more: Value) {
        let pod = json!({
            "metadata": { "name": name, "namespace": "default", "uid": name,
                          "labels": { "app": "demo" } },
            "spec": { "containers": containers(requests) },
        });
        let pod: Pod = serde_json::from_value(merged(pod, more)).unwrap();
        self.ledger.apply(Fact::from(&pod));
    }

    /// A pod of somebody else that is on a node.
    fn stranger(&mut self, name: &str, node: &str, requests: &Value) {
        let more = json!({ "metadata": { "labels": null }, "spec": { "nodeName": node } });
        self.pod(name, requests, more);
    }

    /// A reservation for pods of the app, on a node, that holds this.
    fn held(&mut self, name: &str, node: &str, holds: &Value, more: Value) {
        let status = json!({ "phase": "Available", "nodeName": node, "allocatable": holds });
        self.reserve(name, holds, merged(json!({ "status": status }), more));
    }

    fn reserve(&mut self, name: &str, asks: &Value, more: Value) {
        let own = json!({
            "metadata": { "name": name, "uid": name },
            "spec": { "ttl": "1h", "allocateOnce": false,
                      "owners": [{ "labelSelector": { "matchLabels": { "app": "demo" } } }],
                      "template": { "spec": { "containers": containers(asks) } } },
        });
        let own: Reservation = serde_json::from_value(merged(own, more)).unwrap();
        self.ledger.apply(Fact::Reservation(Box::new(ReservationFact::of(&own).unwrap().unwrap())));
        for uid in self.ledger.pods().map(|(uid, _)| uid.clone()).collect::<Vec<_>>() {
            let labels = [("app".into(), "demo".into())].into();
            self.ledger.invite(&uid, &labels, &[]);
        }
    }

    /// What becomes of a pod or a reservation: its node and the reservation that it uses, or why it waits.
    fn said(&mut self, name: &str) -> String {
        let uid = Uid::new(name);
        let found = self.decider.choose(&mut self.ledger, &uid, 7).unwrap();
        let Some(place) = found else {
            return self.decider.examine(&mut self.ledger, &uid).unwrap().to_string();
        };
        let ask = self.ledger.pod(&uid).unwrap().ask;
        let own = self.decider.allot(&mut self.ledger, ask, &place).unwrap();
        let Place { node, within } = place;
        self.ledger.claim(&uid, node, own.as_ref()).unwrap();
        let name = self.ledger.nodes.name(node).to_owned();
        match within {
            Within::Node => name,
            Within::All => format!("{name} amid all"),
            Within::Reservation(own) => format!("{name} in {}", own.name),
            Within::Adopting(pods) => {
                self.ledger.adopt(&uid, &pods);
                let pods: Vec<&str> = pods.iter().map(|uid| &*uid.0).collect();
                format!("{name} with {}", pods.join(", "))
            }
        }
    }

    fn asks(&mut self, name: &str, requests: &Value, more: Value) -> String {
        self.pod(name, requests, more);
        self.said(name)
    }

    /// What is charged to a node: CPU, memory and places for pods.
    fn charged(&self, node: &str) -> (i64, i64, i64) {
        let node = self.ledger.nodes.find(node).unwrap();
        let resources = &self.ledger.nodes.resources;
        let of = |name| resources.requested(node, name);
        (of("cpu"), of("memory") / GI, self.ledger.nodes.pods[node.get()])
    }
}

fn affinity(text: Value) -> Value {
    json!({ "metadata": { "annotations": { AFFINITY: text.to_string() } } })
}

fn policy(policy: &str) -> Value {
    json!({ "spec": { "allocatePolicy": policy } })
}

const NO_MATCH_ANYWHERE: &str =
    "0/1 nodes are available: node(s) no reservations match reservation affinity.";

#[test]
fn s11_3_s11_4_two_pods_share_a_reservation_and_are_counted_once() {
    let mut world = World::with("7800m", "27Gi");
    world.stranger("other", "n1", &amounts("780m", "1200Mi"));
    world.held("r", "n1", &amounts("6", "20Gi"), json!({}));
    assert_eq!(world.charged("n1"), (6_780, 21, 2));
    assert_eq!(world.asks("a", &amounts("2", "10Gi"), json!({})), "n1 in r");
    assert_eq!(world.charged("n1"), (6_780, 21, 2), "it is inside");
    assert_eq!(world.asks("b", &amounts("2", "10Gi"), json!({})), "n1 in r");
    assert_eq!(world.charged("n1"), (6_780, 21, 3));
    // What they leave is held again; what they use stays used when the reservation is gone.
    world.ledger.apply(Fact::PodGone(Uid::new("a")));
    assert_eq!(world.charged("n1"), (6_780, 21, 2));
    world.ledger.apply(Fact::PodGone(Uid::new("r")));
    assert_eq!(world.charged("n1"), (2_780, 11, 2));
    world.ledger.apply(Fact::PodGone(Uid::new("b")));
    assert_eq!(world.charged("n1"), (780, 1, 1));
    assert!(world.ledger.reservations.is_empty());
}

#[test]
fn s11_5_a_reservation_that_names_its_node_waits_for_it() {
    let mut world = World::with("4", "8Gi");
    world.node("n2", &amounts("64", "64Gi"), json!({}));
    world.stranger("full", "n1", &amounts("4", "1Gi"));
    let named = json!({ "spec": { "template": { "spec": { "nodeName": "n1" } } } });
    world.reserve("r", &amounts("2", "1Gi"), named);
    assert_eq!(
        world.said("r"),
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match the nodeName \
         specified by reservation."
    );
    world.ledger.apply(Fact::PodGone(Uid::new("full")));
    assert_eq!(world.said("r"), "n1");
    assert_eq!(world.charged("n1"), (2_000, 1, 1));
}

#[test]
fn s11_17_s11_18_owners_are_one_of_several_and_all_that_one_says() {
    let mut world = World::with("32", "32Gi");
    let owners = json!({ "spec": { "owners": [
        { "object": { "namespace": "default", "name": "a" } },
        { "labelSelector": { "matchLabels": { "app": "b" } } },
        { "controller": { "kind": "ReplicaSet", "name": "rs1", "namespace": "x" },
          "labelSelector": { "matchLabels": { "tier": "web" } } }] } });
    world.held("r", "n1", &amounts("16", "16Gi"), owners);
    let of = |namespace: &str, labels: Value, controller: &str| {
        let owner = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": controller,
                             "uid": "u", "controller": true }]);
        json!({ "metadata": { "namespace": namespace, "labels": labels,
                              "ownerReferences": owner } })
    };
    let one = amounts("1", "1Gi");
    let none = json!({ "app": null });
    let mut check = |name: &str, uid: &str, more: Value, expected: &str| {
        let more = merged(more, json!({ "metadata": { "name": name } }));
        assert_eq!(world.asks(uid, &one, more), expected, "{uid}");
    };
    check("a", "1", of("default", none.clone(), ""), "n1 in r");
    check("a", "2", of("kube-system", none.clone(), ""), "n1");
    check("c", "3", of("kube-system", json!({ "app": "b" }), ""), "n1 in r");
    check("d", "4", of("x", none.clone(), "rs1"), "n1");
    let web = json!({ "app": null, "tier": "web" });
    check("e", "5", of("x", web.clone(), "rs1"), "n1 in r");
    check("f", "6", of("x", web.clone(), "rs2"), "n1");
    check("g", "7", of("y", web, "rs1"), "n1");
}

#[test]
fn s11_19_s11_20_what_must_be_exact_is_compared_name_by_name() {
    let check = |holds: &Value, asks: &Value, names: &[&str], expected: &str| {
        let mut world = World::with("32", "32Gi");
        world.held("r", "n1", holds, json!({}));
        let exact = json!({ "resourceNames": names }).to_string();
        let more = json!({ "metadata": { "annotations": { EXACT_MATCH: exact } } });
        assert_eq!(world.asks("p", asks, more), expected, "{names:?}");
    };
    check(&amounts("1", "2Gi"), &amounts("1", "1Gi"), &["cpu"], "n1 in r");
    check(&amounts("1", "2Gi"), &amounts("1", "1Gi"), &["cpu", "memory"], "n1");
    let cpu = json!({ "cpu": "1" });
    check(&cpu, &cpu, &["cpu", "memory"], "n1 in r");
    // What both lack hides nothing that comes after it.
    check(&cpu, &json!({ "cpu": "2" }), &["memory", "cpu"], "n1");
}

#[test]
fn s11_21_one_that_takes_no_more_pods_is_used_by_those_who_put_up_with_it() {
    let mut world = World::with("32", "32Gi");
    world.held("r", "n1", &amounts("4", "4Gi"), json!({ "spec": { "unschedulable": true } }));
    let one = amounts("1", "1Gi");
    assert_eq!(world.asks("a", &one, json!({})), "n1");
    let tolerations = json!([{ "key": "node.kubernetes.io/unschedulable", "operator": "Exists",
                               "effect": "NoSchedule" }]);
    let tolerant = affinity(json!({ "tolerations": tolerations }));
    assert_eq!(world.asks("b", &one, tolerant), "n1 in r");
}

#[test]
fn s11_22_a_taint_keeps_away_who_does_not_put_up_with_it() {
    let mut world = World::with("32", "32Gi");
    let taints = json!([{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }]);
    world.held("r1", "n1", &amounts("4", "4Gi"), json!({ "spec": { "taints": taints } }));
    let one = amounts("1", "1Gi");
    let unmet = "0/1 nodes are available: 1 node(s) no reservation(s) to meet the requirements.";
    assert_eq!(world.asks("must", &one, affinity(json!({}))), unmet);
    assert_eq!(world.asks("may", &one, json!({})), "n1", "though it names no affinity");
    let tolerations = json!([{ "key": "gpu", "operator": "Exists", "effect": "NoSchedule" }]);
    let tolerant = affinity(json!({ "tolerations": tolerations }));
    assert_eq!(world.asks("tolerant", &one, tolerant), "n1 in r1");
}

#[test]
fn s11_23_who_names_it_puts_up_with_everything() {
    let mut world = World::with("32", "32Gi");
    let taints = json!([{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }]);
    let spec = json!({ "spec": { "unschedulable": true, "taints": taints } });
    world.held("r1", "n1", &amounts("4", "4Gi"), spec);
    let one = amounts("1", "1Gi");
    let unmet = "0/1 nodes are available: 1 node(s) no reservation(s) to meet the requirements.";
    assert_eq!(world.asks("b", &one, affinity(json!({ "name": "r1" }))), "n1 in r1");
    assert_eq!(world.asks("c", &one, affinity(json!({ "name": "r2" }))), unmet);
}

#[test]
fn s11_24_s11_26_a_pod_that_must_use_one_waits_for_one_that_is_for_it() {
    let mut world = World::with("32", "32Gi");
    let others = json!({ "spec": { "owners": [{ "object": { "name": "somebody" } }] } });
    world.held("r1", "n1", &amounts("4", "4Gi"), others);
    let one = amounts("1", "1Gi");
    assert_eq!(world.asks("a", &one, affinity(json!({ "name": "r1" }))), NO_MATCH_ANYWHERE);
    let any = json!({ "metadata": { "annotations": { AFFINITY: "" } } });
    assert_eq!(world.asks("b", &one, any.clone()), NO_MATCH_ANYWHERE);
    world.held("r2", "n1", &amounts("4", "4Gi"), json!({}));
    assert_eq!(world.said("b"), "n1 in r2");
    let broken = json!({ "metadata": { "annotations": { AFFINITY: "{" } } });
    let told = world.asks("c", &one, broken);
    assert!(told.contains("reservation-affinity has the value \"{\""), "{told}");
    // On a node without any, nothing is said of what is elsewhere.
    world.node("n2", &amounts("1", "1Gi"), json!({}));
    world.pod("d", &amounts("40", "1Gi"), any);
    let told = world.said("d");
    let expected = "0/2 nodes are available: 1 Insufficient cpu by node, 1 node(s) no reservations \
                    match reservation affinity.";
    assert_eq!(told, expected);
}

#[test]
fn s11_25_labels_of_the_node_count_where_the_reservation_has_none() {
    let mut world = World::new();
    world.node("n1", &amounts("32", "32Gi"), json!({ "zone": "z1" }));
    world.held("r", "n1", &amounts("4", "4Gi"), json!({}));
    let one = amounts("1", "1Gi");
    let zone = |zone: &str| affinity(json!({ "reservationSelector": { "zone": zone } }));
    assert_eq!(world.asks("a", &one, zone("z1")), "n1 in r");
    assert!(world.asks("b", &one, zone("z2")).contains("to meet the requirements"));
    world.held(
        "s",
        "n1",
        &amounts("4", "4Gi"),
        json!({ "metadata": { "labels": { "zone": "z2" } } }),
    );
    assert_eq!(world.said("b"), "n1 in s");
    let terms = json!({ "requiredDuringSchedulingIgnoredDuringExecution": {
        "reservationSelectorTerms": [
            { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["s"] }] }] } });
    assert_eq!(world.asks("c", &one, affinity(terms)), "n1 in s");
    // Where those of nodes are left out, only its own count.
    let only_own = Plugin { omits_node_labels: true, ..Plugin::default() };
    let mut world = World::by(only_own);
    world.node("n1", &amounts("32", "32Gi"), json!({ "zone": "z1" }));
    world.held("r", "n1", &amounts("4", "4Gi"), json!({}));
    assert!(world.asks("a", &one, zone("z1")).contains("to meet the requirements"));
    let labelled = json!({ "metadata": { "labels": { "zone": "z1" } } });
    world.held("s", "n1", &amounts("4", "4Gi"), labelled);
    assert_eq!(world.said("a"), "n1 in s");
}

#[test]
fn s11_27_s11_28_an_aligned_one_is_used_together_with_what_is_free() {
    let check = |others: &str, expected: &str| {
        let mut world = World::with("32", "64Gi");
        world.stranger("other", "n1", &amounts(others, "1Gi"));
        world.held("r", "n1", &amounts("6", "1Gi"), policy("Aligned"));
        assert_eq!(world.asks("p", &amounts("8", "8Gi"), affinity(json!({}))), expected);
    };
    check("24", "n1 in r");
    check("26", "0/1 nodes are available: 1 Insufficient cpu by node.");
}

#[test]
fn s11_29_s11_30_a_restricted_one_is_used_up_to_what_it_holds() {
    let world = |holds: Value| {
        let mut world = World::with("64", "64Gi");
        let kept = json!({ "resources": { "cpu": "1" } }).to_string();
        let kept =
            json!({ "metadata": { "annotations": { "node.koordinator.sh/reservation": kept } } });
        world.held("r", "n1", &holds, merged(policy("Restricted"), kept));
        let one = json!({ "cpu": "1" });
        assert_eq!(world.asks("a", &one, json!({})), "n1 in r");
        assert_eq!(world.asks("b", &one, json!({})), "n1 in r");
        world
    };
    let told = |text: &str| format!("0/1 nodes are available: 1 Reservation(s) {text}.");
    let mut counted = world(json!({ "cpu": "7", "pods": "2" }));
    let one = json!({ "cpu": "1" });
    let any = || affinity(json!({}));
    let named = || affinity(json!({ "name": "r" }));
    assert_eq!(counted.asks("c", &one, any()), told("Too many pods"));
    let words = "Too many pods, requested: 1, used: 2, capacity: 2";
    assert_eq!(counted.asks("d", &one, named()), told(words));
    assert_eq!(counted.asks("e", &one, json!({})), "n1", "it may do without");
    let mut world = world(json!({ "cpu": "7" }));
    let eight = json!({ "cpu": "8" });
    let words = "Insufficient cpu, requested: 8000, used: 2000, capacity: 6000";
    assert_eq!(world.asks("f", &eight, named()), told(words));
    assert_eq!(world.asks("g", &eight, any()), told("Insufficient cpu"));
    assert_eq!(world.asks("h", &json!({ "cpu": "4" }), any()), "n1 in r");
}

#[test]
fn s11_31_only_what_is_named_is_restricted() {
    let options = json!({ "resources": ["cpu"] }).to_string();
    let options = json!({ "metadata": { "annotations": { RESTRICTED_OPTIONS: options } } });
    let check = |memory: &str, expected: &str| {
        let mut world = World::with("4", "12Gi");
        let more = merged(policy("Restricted"), options.clone());
        world.held("r", "n1", &amounts("4", "8Gi"), more);
        assert_eq!(world.asks("p", &amounts("4", memory), affinity(json!({}))), expected);
    };
    check("12Gi", "n1 in r");
    check("13Gi", "0/1 nodes are available: 1 Insufficient memory by node.");
}

#[test]
fn s11_32_who_finds_it_full_takes_what_is_free_unless_he_must_use_one() {
    let mut world = World::with("24", "64Gi");
    world.held("r", "n1", &json!({ "cpu": "4" }), policy("Restricted"));
    assert_eq!(world.asks("a", &json!({ "cpu": "4" }), json!({})), "n1 in r");
    let two = json!({ "cpu": "2" });
    assert_eq!(world.asks("b", &two, json!({})), "n1");
    let told = world.asks("c", &two, affinity(json!({})));
    assert_eq!(told, "0/1 nodes are available: 1 Reservation(s) Insufficient cpu.");
    // It is used again when there is room in it.
    world.ledger.apply(Fact::PodGone(Uid::new("a")));
    assert_eq!(world.said("c"), "n1 in r");
}

#[test]
fn s11_33_those_without_a_policy_go_together_with_none_that_has_one() {
    let mut world = World::with("32", "32Gi");
    let one = amounts("1", "1Gi");
    world.held("r", "n1", &one, json!({}));
    let conflict = "0/1 nodes are available: 1 node(s) reservation allocate policy conflict.";
    for own in ["Aligned", "Restricted"] {
        world.reserve(own, &one, policy(own));
        assert_eq!(world.said(own), conflict);
    }
    world.reserve("same", &one, json!({}));
    assert_eq!(world.said("same"), "n1");
    let mut world = World::with("32", "32Gi");
    world.held("r", "n1", &one, policy("Aligned"));
    world.reserve("s", &one, policy("Restricted"));
    assert_eq!(world.said("s"), "n1");
    world.reserve("t", &one, json!({}));
    assert_eq!(world.said("t"), conflict);
}

#[test]
fn s11_34_strangers_get_what_is_neither_used_nor_held() {
    let check = |cpu: &str, more: Value, fits: bool| {
        let mut world = World::with("32", "64Gi");
        world.held("r", "n1", &json!({ "cpu": "8" }), policy("Aligned"));
        assert_eq!(world.asks("owner", &json!({ "cpu": "4" }), json!({})), "n1 in r");
        let told = world.asks("p", &json!({ "cpu": cpu }), more);
        assert_eq!(told.starts_with("n1"), fits, "{told}");
    };
    let stranger = || json!({ "metadata": { "labels": { "app": null } } });
    check("24", stranger(), true);
    check("25", stranger(), false);
    check("28", json!({}), true);
    check("29", json!({}), false);
}

#[test]
fn owners_that_use_more_than_is_held_are_counted_whole() {
    let mut world = World::with("32", "64Gi");
    world.held("r", "n1", &json!({ "cpu": "8" }), policy("Aligned"));
    assert_eq!(world.asks("a", &json!({ "cpu": "6" }), json!({})), "n1 in r");
    assert_eq!(world.asks("b", &json!({ "cpu": "6" }), json!({})), "n1 in r");
    assert_eq!(world.charged("n1"), (12_000, 0, 2), "nothing is held any more");
    world.ledger.apply(Fact::PodGone(Uid::new("a")));
    assert_eq!(world.charged("n1"), (8_000, 0, 1));
}

#[test]
fn s11_35_what_is_left_to_others_is_not_told() {
    let mut world = World::new();
    let names = vec!["example.com/x".into()];
    let ignored = IgnoredResources { names, ..IgnoredResources::default() };
    let plugin = Plugin { ignored, ..Plugin::default() };
    world.decider = Decider::new(Profile::kubernetes().filter(plugin), &mut world.ledger, 1);
    let has = |cpu: &str, x: &str| json!({ "cpu": cpu, "example.com/x": x });
    world.node("n1", &has("8", "8"), json!({}));
    world.held("r", "n1", &has("2", "2"), policy("Restricted"));
    let short = "0/1 nodes are available: 1 Reservation(s) Insufficient cpu.";
    assert_eq!(world.asks("a", &has("4", "4"), affinity(json!({}))), short);
    assert_eq!(world.asks("b", &has("2", "4"), affinity(json!({}))), "n1 in r");
}

#[test]
fn s11_37_ports_stay_taken_by_whoever_uses_them() {
    let mut world = World::with("32", "64Gi");
    let port = json!([{ "name": "c", "ports": [{ "containerPort": 80, "hostPort": 8080 }],
                        "resources": { "requests": { "cpu": "1" } } }]);
    let with_port = json!({ "spec": { "containers": port } });
    let held = json!({ "spec": { "template": { "spec": { "containers": port } } } });
    world.held("r", "n1", &json!({ "cpu": "1" }), held);
    let stranger =
        || json!({ "metadata": { "labels": { "app": null } }, "spec": { "containers": port } });
    let taken = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod \
                 ports.";
    assert_eq!(world.asks("early", &json!({}), stranger()), taken);
    assert_eq!(world.asks("owner", &json!({}), with_port.clone()), "n1 in r");
    assert_eq!(world.asks("other", &json!({}), stranger()), taken);
    world.ledger.apply(Fact::PodGone(Uid::new("r")));
    assert_eq!(world.asks("late", &json!({}), stranger()), taken);
    world.ledger.apply(Fact::PodGone(Uid::new("owner")));
    assert_eq!(world.said("late"), "n1");
}

#[test]
fn s11_38_s11_39_the_fuller_one_is_used_first() {
    let mut world = World::with("32", "64Gi");
    world.held("large", "n1", &amounts("4", "8Gi"), policy("Aligned"));
    world.held("small", "n1", &amounts("2", "4Gi"), policy("Aligned"));
    let two = amounts("2", "4Gi");
    assert_eq!(world.asks("a", &two, json!({})), "n1 in small");
    assert_eq!(world.asks("b", &two, json!({})), "n1 in large");
}

#[test]
fn s11_40_what_would_overflow_adds_nothing_to_the_score() {
    let of = |cpu: i64, memory: i64| Amounts {
        cpu_millis: cpu * 1_000,
        memory_bytes: memory * GI,
        ..Amounts::default()
    };
    assert_eq!(score(&of(4, 8), &of(3, 2), &of(2, 4)), 37);
    assert_eq!(score(&of(4, 8), &of(0, 0), &of(2, 4)), 50);
    assert_eq!(score(&of(2, 4), &of(0, 0), &of(2, 4)), 100);
    assert_eq!(score(&of(0, 0), &of(0, 0), &of(2, 4)), 0);
}

#[test]
fn s11_41_the_lowest_order_goes_first_whatever_the_scores_are() {
    let mut world = World::with("32", "64Gi");
    world.node("n2", &amounts("32", "64Gi"), json!({}));
    let order =
        |order: &str| json!({ "metadata": { "labels": { api::reservation::ORDER_LABEL: order } } });
    world.held("a", "n1", &amounts("2", "4Gi"), order("100"));
    world.held("b", "n2", &amounts("8", "16Gi"), order("50"));
    world.held("c", "n1", &amounts("2", "4Gi"), order("0"));
    let two = amounts("2", "4Gi");
    assert_eq!(world.asks("p", &two, json!({})), "n2 in b");
    // The next best, where that one's node does not take the pod.
    let taint = json!([{ "key": "k", "effect": "NoSchedule" }]);
    let node = json!({ "metadata": { "name": "n2" }, "spec": { "taints": taint },
                       "status": { "allocatable": { "cpu": "32", "memory": "64Gi", "pods": "9" } } });
    let node: Node = serde_json::from_value(node).unwrap();
    world.ledger.apply(Fact::Node(NodeFact::from(&node)));
    assert_eq!(world.asks("q", &two, json!({})), "n1 in a");
    assert_eq!(world.asks("s", &two, json!({})), "n1 in c");
}

#[test]
fn one_that_is_for_one_pod_is_given_to_one() {
    let mut world = World::with("4", "8Gi");
    world.held("r", "n1", &json!({ "cpu": "4" }), json!({ "spec": { "allocateOnce": true } }));
    let one = json!({ "cpu": "1" });
    assert_eq!(world.asks("a", &one, affinity(json!({}))), "n1 in r");
    assert!(world.asks("b", &one, affinity(json!({}))).contains("to meet the requirements"));
    assert!(world.asks("c", &one, json!({})).contains("Insufficient cpu"), "the rest is held");
}

#[test]
fn s11_54_a_pod_that_ignores_reservations_may_use_what_they_hold() {
    let mut world = World::with("32", "64Gi");
    world.held("r", "n1", &json!({ "cpu": "16" }), json!({}));
    world.stranger("other", "n1", &json!({ "cpu": "12" }));
    let stranger = json!({ "metadata": { "labels": { "app": null } } });
    assert!(world.asks("a", &json!({ "cpu": "5" }), stranger).contains("Insufficient cpu"));
    let ignoring = json!({ "metadata": { "labels": { IGNORED_LABEL: "true" } } });
    assert!(world.asks("c", &json!({ "cpu": "21" }), ignoring.clone()).contains("Insufficient"));
    assert_eq!(world.asks("b", &json!({ "cpu": "18" }), ignoring), "n1 amid all");
    assert_eq!(world.charged("n1").0, 46_000, "what is held stays held");
}

#[test]
fn who_owns_a_reservation_gets_the_part_of_the_numa_node_that_it_holds() {
    let mut ledger = Ledger::default();
    let profile = Profile::kubernetes().filter(NodeNuma::default()).filter(Plugin::default());
    let decider = Decider::new(profile, &mut ledger, 1);
    let mut world = World { ledger, decider };
    let label = json!({ "node.koordinator.sh/numa-topology-policy": "SingleNUMANode" });
    world.node("n1", &amounts("8", "64Gi"), label);
    let cpu = |id: u32| json!({ "id": id, "core": id / 2, "socket": id / 4, "node": id / 4 });
    let detail = json!({ "detail": (0..8).map(cpu).collect::<Vec<_>>() }).to_string();
    let zone = |id: u32| {
        json!({ "name": format!("node-{id}"), "type": "Node", "resources": [
            { "name": "cpu", "capacity": "4", "allocatable": "4", "available": "4" }] })
    };
    let layout = json!({ "metadata": { "name": "n1", "annotations": { CPU_TOPOLOGY: detail } },
                         "zones": [zone(0), zone(1)] });
    let layout: NodeResourceTopology = serde_json::from_value(layout).unwrap();
    world.ledger.apply(Fact::from(&layout));
    for (name, cpus, app) in [("r", "2-3", "demo"), ("s", "0-1", "other")] {
        let status = json!({ "cpuset": cpus,
                             "numaNodeResources": [{ "node": 0, "resources": { "cpu": "2" } }] });
        let more = json!({
            "metadata": { "labels": { "koordinator.sh/qosClass": "LSR" },
                          "annotations": { RESOURCE_STATUS: status.to_string() } },
            "spec": { "owners": [{ "labelSelector": { "matchLabels": { "app": app } } }] } });
        world.held(name, "n1", &json!({ "cpu": "2" }), merged(policy("Restricted"), more));
    }
    let mut got = |name: &str, app: Value| {
        let labels = json!({ "app": app, "koordinator.sh/qosClass": "LSR" });
        let told =
            world.asks(name, &json!({ "cpu": "2" }), json!({ "metadata": { "labels": labels } }));
        let id = world.ledger.pod(&Uid::new(name)).unwrap().allotment.unwrap();
        let own = world.ledger.asks.allotments.get(id);
        (told, own.cpus.to_string(), own.zones.iter().map(|(zone, _)| *zone).collect::<Vec<_>>())
    };
    // The other NUMA node is the emptier one.
    assert_eq!(got("owner", json!("demo")), ("n1 in r".to_owned(), "2-3".to_owned(), vec![0]));
    assert_eq!(got("stranger", Value::Null), ("n1".to_owned(), "4-5".to_owned(), vec![1]));
}

#[test]
fn cpus_that_are_held_are_for_those_who_own_the_reservation() {
    let mut ledger = Ledger::default();
    let profile = Profile::kubernetes().filter(NodeNuma::default()).filter(Plugin::default());
    let decider = Decider::new(profile, &mut ledger, 1);
    let mut world = World { ledger, decider };
    world.node("n1", &amounts("8", "64Gi"), json!({}));
    let cpu = |id: u32| json!({ "id": id, "core": id / 2, "socket": 0, "node": 0 });
    let detail = json!({ "detail": (0..8).map(cpu).collect::<Vec<_>>() }).to_string();
    let layout = json!({ "metadata": { "name": "n1", "annotations": { CPU_TOPOLOGY: detail } } });
    let layout: NodeResourceTopology = serde_json::from_value(layout).unwrap();
    world.ledger.apply(Fact::from(&layout));
    let sensitive = json!({ "koordinator.sh/qosClass": "LSR" });
    let status = json!({ "cpuset": "4-7" }).to_string();
    let more =
        json!({ "metadata": { "labels": sensitive, "annotations": { RESOURCE_STATUS: status } } });
    world.held("r", "n1", &json!({ "cpu": "4" }), merged(policy("Restricted"), more));
    let labelled = |app: Value| json!({ "metadata": { "labels": { "app": app, "koordinator.sh/qosClass": "LSR" } } });
    let got = |world: &mut World, name: &str, cpu: &str, app: Value| {
        let told = world.asks(name, &json!({ "cpu": cpu }), labelled(app));
        let row = world.ledger.pod(&Uid::new(name)).unwrap();
        let own = row.allotment.map(|id| world.ledger.asks.allotments.get(id).cpus.to_string());
        (told, own.unwrap_or_default())
    };
    let said = |place: &str, cpus: &str| (place.to_owned(), cpus.to_owned());
    assert_eq!(got(&mut world, "owner", "2", json!("demo")), said("n1 in r", "4-5"));
    assert_eq!(got(&mut world, "stranger", "4", Value::Null), said("n1", "0-3"));
    let refused = got(&mut world, "late", "1", Value::Null).0;
    assert!(refused.contains("Insufficient cpu"), "{refused}");
    assert_eq!(got(&mut world, "second", "2", json!("demo")), said("n1 in r", "6-7"));
    // What an owner leaves is held again, and free when nobody holds it.
    let free = |world: &World| {
        let node = world.ledger.nodes.find("n1").unwrap();
        let own = world.ledger.cpus.of(node).unwrap();
        (own.free.lying(None), own.bound)
    };
    assert_eq!(free(&world), (0, 8));
    world.ledger.apply(Fact::PodGone(Uid::new("owner")));
    assert_eq!(free(&world), (0, 8));
    world.ledger.apply(Fact::PodGone(Uid::new("r")));
    assert_eq!(free(&world), (2, 6));
}
