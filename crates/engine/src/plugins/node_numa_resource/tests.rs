//! Scenarios of the specification, on nodes of cores with two threads each.

use api::cpus::{
    AMPLIFICATION_RATIO, CPU_BIND_POLICY_LABEL, CPU_MANAGER_POLICY, CPU_TOPOLOGY, NODE_RESERVATION,
    NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC, RESOURCE_STATUS,
};
use api::{CpuSet, Node, NodeResourceTopology, Pod};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};

use super::*;
use crate::decide::Decider;
use crate::fact::{Fact, NodeFact, Uid};
use crate::profile::{Profile, Weight};
use crate::reservations::Place;

struct World {
    ledger: Ledger,
    decider: Decider,
}

fn merged(object: Value, more: Value) -> Value {
    object::patch::merge::apply(object, more).unwrap()
}

fn world_by(plugin: NodeNuma) -> World {
    let profile = Profile::default().filter(plugin.clone()).score(plugin, Weight(1));
    let mut ledger = Ledger::default();
    let decider = Decider::new(profile, &mut ledger, 0);
    World { ledger, decider }
}

/// A node of so many CPUs on two sockets, which reports them.
fn world(cpus: u32) -> World {
    let mut world = world_by(NodeNuma::default());
    world.node(cpus, json!({}));
    world.layout(cpus, json!({}));
    world
}

/// A pod of this class that requests this.
fn asking(class: &str, cpu: &str, spec: Value) -> Value {
    let labels = match class {
        "" => json!({}),
        class => json!({ "koordinator.sh/qosClass": class }),
    };
    let annotations = match spec {
        Value::Null => json!({}),
        spec => json!({ RESOURCE_SPEC: spec.to_string() }),
    };
    json!({ "metadata": { "labels": labels, "annotations": annotations },
            "spec": { "containers": [
                { "name": "c", "resources": { "requests": { "cpu": cpu, "memory": "1Gi" } } }] } })
}

fn lsr(cpu: &str) -> Value {
    asking("LSR", cpu, Value::Null)
}

fn required(policy: &str) -> Value {
    json!({ "requiredCPUBindPolicy": policy })
}

impl World {
    fn node(&mut self, cpus: u32, more: Value) {
        let amounts = json!({ "cpu": cpus, "memory": "512Gi", "pods": "110" });
        let node = json!({ "metadata": { "name": "n" }, "status": { "allocatable": amounts } });
        let node: Node = serde_json::from_value(merged(node, more)).unwrap();
        self.ledger.apply(Fact::Node(NodeFact::from(&node)));
    }

    fn layout(&mut self, cpus: u32, annotations: Value) {
        let detail = (0..cpus).map(|id| {
            let socket = id / cpus.div_ceil(2).max(1);
            json!({ "id": id, "core": id / 2, "socket": socket, "node": socket })
        });
        let detail = json!({ "detail": detail.collect::<Vec<_>>() }).to_string();
        let annotations = merged(annotations, json!({ CPU_TOPOLOGY: detail }));
        let wire = json!({ "metadata": { "name": "n", "annotations": annotations } });
        let wire: NodeResourceTopology = serde_json::from_value(wire).unwrap();
        self.ledger.apply(Fact::from(&wire));
    }

    fn tell(&mut self, name: &str, pod: Value) -> Ask {
        let metadata = json!({ "metadata": { "name": name, "namespace": "ns", "uid": name } });
        let pod: Pod = serde_json::from_value(merged(pod, metadata)).unwrap();
        self.ledger.apply(Fact::from(&pod));
        self.ledger.pod(&Uid::new(name)).unwrap().ask
    }

    /// A pod that is on the node with these CPUs.
    fn bound(&mut self, name: &str, pod: Value, cpus: &str) {
        let status = json!({ "cpuset": cpus }).to_string();
        let more = json!({ "metadata": { "annotations": { RESOURCE_STATUS: status } },
                           "spec": { "nodeName": "n" } });
        self.tell(name, merged(pod, more));
    }

    /// What becomes of a pod: its CPUs, that it gets none of its own, or why it is refused.
    fn said(&mut self, name: &str, pod: Value) -> String {
        let ask = self.tell(name, pod);
        let node = self.ledger.nodes.find("n").unwrap();
        let able = self.decider.feasible(&self.ledger, ask).contains(node);
        let refusal = self.decider.refusal(&self.ledger, ask, node);
        assert_eq!(able, refusal.is_none(), "{refusal:?}");
        if let Some((_, refusal)) = refusal {
            return refusal.reasons[0].to_string();
        }
        let own = self.decider.allot(&mut self.ledger, ask, &Place::on(node)).expect("it is able");
        self.ledger.claim(&Uid::new(name), node, own.as_ref()).unwrap();
        own.map_or("shared".to_owned(), |own| own.cpus.to_string())
    }

    fn score(&mut self, name: &str, pod: Value) -> i64 {
        let ask = self.tell(name, pod);
        self.decider.scores(&self.ledger, ask)[0].total
    }
}

const NOT_WHOLE: &str = "the requested CPUs must be integer";
const CONFLICT: &str = "node(s) cpu bind policy conflicts with pod's required cpu bind policy";
const TOO_FEW: &str = "not enough cpus available to satisfy request";

#[test]
fn s10_46_a_pod_with_cpus_of_its_own_asks_for_whole_ones() {
    let mut world = world(16);
    assert_eq!(world.said("a", lsr("4500m")), NOT_WHOLE);
    assert_eq!(world.said("b", lsr("4")), "0-3");
    assert_eq!(world.said("c", asking("LS", "4500m", Value::Null)), "shared");
    assert_eq!(world.said("d", asking("", "4", Value::Null)), "shared");
    // Of another band nobody gets his own.
    let batch =
        json!({ "metadata": { "labels": { "koordinator.sh/priority-class": "koord-batch" } } });
    assert_eq!(world.said("e", merged(lsr("1500m"), batch)), "shared");
}

#[test]
fn s10_47_a_node_that_gives_whole_cores_away_gives_them_to_everybody() {
    let mut world = world(16);
    world.node(16, json!({ "metadata": { "labels": { CPU_BIND_POLICY_LABEL: "FullPCPUsOnly" } } }));
    let ls = |cpu: &str| asking("LS", cpu, Value::Null);
    assert_eq!(world.said("a", ls("5")), "node(s) requested cpus not multiple cpus per core");
    assert_eq!(world.said("b", ls("5200m")), NOT_WHOLE);
    assert_eq!(world.said("c", ls("4")), "0-3");
}

#[test]
fn s10_48_the_node_decides_over_a_wish_and_not_over_a_demand() {
    let mut world = world(16);
    world.node(16, json!({ "metadata": { "labels": { CPU_BIND_POLICY_LABEL: "SpreadByPCPUs" } } }));
    assert_eq!(world.said("a", asking("LSR", "4", required("FullPCPUs"))), CONFLICT);
    assert_eq!(world.said("b", asking("LSR", "4", required("SpreadByPCPUs"))), "0,2,4,6");
    world.node(16, json!({ "metadata": { "labels": { CPU_BIND_POLICY_LABEL: "FullPCPUsOnly" } } }));
    let spread = json!({ "preferredCPUBindPolicy": "SpreadByPCPUs" });
    assert_eq!(world.said("c", asking("LSR", "4", spread)), "8-11");
}

#[test]
fn s10_49_a_kubelet_that_gives_whole_cores_away_is_heeded() {
    let mut world = world(16);
    let policy = r#"{"policy":"static","options":{"full-pcpus-only":"true"}}"#;
    world.layout(16, json!({ CPU_MANAGER_POLICY: policy }));
    assert_eq!(world.said("a", asking("LSR", "4", required("SpreadByPCPUs"))), CONFLICT);
}

#[test]
fn s10_50_what_nobody_does_is_refused_in_words() {
    let mut world = world(16);
    let said = world.said("a", asking("LSE", "4", required("ConstrainedBurst")));
    assert!(said.contains(RESOURCE_SPEC) && said.contains("ConstrainedBurst"), "{said}");
    assert_eq!(world.said("b", asking("LSE", "4", Value::Null)), "0-3");
}

#[test]
fn s10_51_what_a_pod_got_is_told_with_the_binding() {
    let check = |labels: Value, spec: Value, expected: [&str; 2]| {
        let mut world = world(16);
        world.node(16, json!({ "metadata": { "labels": labels } }));
        let ask = world.tell("a", asking("LSR", "4", spec));
        let node = world.ledger.nodes.find("n").unwrap();
        let place = Place::on(node);
        let own = world.decider.allot(&mut world.ledger, ask, &place).unwrap().unwrap();
        let stamps = own.stamps();
        assert_eq!(
            stamps,
            [(RESOURCE_SPEC, expected[0].into()), (RESOURCE_STATUS, expected[1].into())]
        );
        // What is read back is what was given.
        let annotations = json!({ RESOURCE_SPEC: expected[0], RESOURCE_STATUS: expected[1] });
        let pod = json!({ "metadata": { "annotations": annotations } });
        assert_eq!(Allotment::of(&serde_json::from_value(pod).unwrap()), Some(own));
    };
    let cores = r#"{"cpuset":"0-3"}"#;
    let prefers = r#"{"preferredCPUBindPolicy":"FullPCPUs"}"#;
    check(json!({}), Value::Null, [prefers, cores]);
    check(json!({}), json!({ "preferredCPUBindPolicy": "Default" }), [prefers, cores]);
    let full = json!({ CPU_BIND_POLICY_LABEL: "FullPCPUsOnly" });
    check(full, Value::Null, [r#"{"requiredCPUBindPolicy":"FullPCPUs"}"#, cores]);
    let apart = json!({ "requiredCPUBindPolicy": "SpreadByPCPUs",
                        "preferredCPUExclusivePolicy": "PCPULevel" });
    let told =
        r#"{"requiredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}"#;
    check(json!({}), apart, [told, r#"{"cpuset":"0,2,4,6"}"#]);
}

#[test]
fn s10_52_a_pod_of_any_class_gets_cpus_where_the_node_says_so() {
    let mut world = world(16);
    world.node(16, json!({ "metadata": { "labels": { CPU_BIND_POLICY_LABEL: "FullPCPUsOnly" } } }));
    assert_eq!(world.said("a", asking("BE", "4", Value::Null)), "0-3");
}

#[test]
fn s10_61_a_node_may_offer_more_cpu_than_it_has() {
    let twice = json!({ "metadata": { "annotations": { AMPLIFICATION_RATIO: r#"{"cpu":2}"# } } });
    let mut world = world(32);
    world.node(64, twice);
    let shared = |cpu: &str| asking("LS", cpu, Value::Null);
    assert_eq!(world.said("a", shared("32")), "shared");
    assert_eq!(world.said("b", shared("32")), "shared");
    assert_eq!(world.said("c", shared("32")), "Insufficient amplified cpu");
}

#[test]
fn s10_62_a_cpu_of_ones_own_counts_as_much_as_is_offered_for_it() {
    let twice =
        || json!({ "metadata": { "annotations": { AMPLIFICATION_RATIO: r#"{"cpu":2}"# } } });
    let mut one = world(32);
    one.node(64, twice());
    assert_eq!(one.said("a", lsr("32")), "0-31");
    assert_eq!(one.said("b", asking("LS", "32", Value::Null)), "Insufficient amplified cpu");
    let mut other = world(32);
    other.node(64, twice());
    assert_eq!(other.said("a", asking("LS", "32", Value::Null)), "shared");
    assert_eq!(other.said("b", lsr("32")), "Insufficient amplified cpu");
}

#[test]
fn s10_63_scores_count_what_is_offered() {
    let plugin = NodeNuma { score: ScoreStrategy::MostAllocated, ..NodeNuma::default() };
    let check = |cpus: u32, offered: u32, memory: &str, ratio: u32, shared: i64, own: i64| {
        let mut world = world_by(plugin.clone());
        world.layout(cpus, json!({}));
        let ratio = json!({ "cpu": ratio }).to_string();
        world.node(
            offered,
            json!({ "metadata": { "annotations": { AMPLIFICATION_RATIO: ratio } },
                                    "status": { "allocatable": { "memory": memory } } }),
        );
        let more = json!({ "spec": { "containers": [{ "name": "c", "resources": { "requests": {
            "cpu": "8", "memory": "16Gi" } } }] } });
        assert_eq!(world.score("a", merged(asking("LS", "8", Value::Null), more.clone())), shared);
        assert_eq!(world.score("b", merged(lsr("8"), more)), own);
    };
    check(32, 32, "40Gi", 1, 32, 32);
    check(64, 128, "60Gi", 2, 16, 19);
}

#[test]
fn s10_72_cpus_that_are_kept_from_pods_are_given_to_none() {
    let mut world = world(16);
    let kept = json!({ NODE_RESERVATION: r#"{"reservedCPUs":"0-5"}"# });
    world.node(16, json!({ "metadata": { "annotations": kept } }));
    assert_eq!(world.said("a", lsr("12")), TOO_FEW);
    assert_eq!(world.said("b", lsr("10")), "6-15");
    // So they are where the node offers all the same.
    let only = r#"{"reservedCPUs":"0-5","applyPolicy":"ReservedCPUsOnly"}"#;
    let mut other = self::world(16);
    other.node(16, json!({ "metadata": { "annotations": { NODE_RESERVATION: only } } }));
    assert_eq!(other.said("c", lsr("12")), TOO_FEW);
    assert_eq!(other.said("d", lsr("10")), "6-15");
    let offers = |policy: &str| {
        let kept = json!({ "reservedCPUs": "0-5", "resources": { "cpu": "1", "memory": "12Gi" },
                           "applyPolicy": policy });
        let node = json!({
            "metadata": { "annotations": { NODE_RESERVATION: kept.to_string() } },
            "status": { "allocatable": { "cpu": "96", "memory": "512Gi" } } });
        let fact = NodeFact::from(&serde_json::from_value::<Node>(node).unwrap());
        (fact.allocatable.cpu_millis, fact.allocatable.memory_bytes >> 30)
    };
    assert_eq!(offers("Default"), (90_000, 500));
    assert_eq!(offers("ReservedCPUsOnly"), (96_000, 512));
}

#[test]
fn cpus_are_given_once_and_come_back() {
    let mut world = world(8);
    assert_eq!(world.said("a", lsr("4")), "0-3");
    assert_eq!(world.said("b", lsr("4")), "4-7");
    assert_eq!(world.said("c", lsr("2")), TOO_FEW);
    world.ledger.apply(Fact::PodGone(Uid::new("a")));
    assert_eq!(world.said("c", lsr("2")), "0-1");
    // The API server does not bind it: nobody holds what it was given.
    world.ledger.disclaim(&Uid::new("c")).unwrap();
    assert_eq!(world.said("d", lsr("4")), "0-3");
}

#[test]
fn what_a_bound_pod_says_that_it_got_counts_and_what_an_unbound_one_says_does_not() {
    let mut world = world(8);
    let stamped =
        json!({ "metadata": { "annotations": { RESOURCE_STATUS: r#"{"cpuset":"0-7"}"# } } });
    world.tell("unbound", merged(lsr("8"), stamped));
    world.bound("bound", lsr("2"), "0-1");
    assert_eq!(world.said("a", lsr("4")), "4-7");
}

#[test]
fn a_layout_that_comes_late_finds_everybody_in_his_place() {
    let mut world = world_by(NodeNuma::default());
    world.bound("first", lsr("2"), "0-1");
    world.node(8, json!({}));
    assert_eq!(world.said("a", lsr("2")), "node(s) invalid CPU Topology");
    world.layout(8, json!({}));
    assert_eq!(world.said("a", lsr("2")), "4-5");
    world.ledger.apply(Fact::Layout { node: "n".into(), layout: None });
    assert_eq!(world.said("b", lsr("2")), "node(s) invalid CPU Topology");
    world.layout(8, json!({}));
    assert_eq!(world.said("b", lsr("2")), "2-3");
}

#[test]
fn a_pod_that_would_have_cpus_so_does_not_get_a_node_where_there_are_too_few() {
    let mut world = world(8);
    assert_eq!(world.said("a", asking("LSR", "6", required("SpreadByPCPUs"))), TOO_FEW);
    let spread = json!({ "preferredCPUBindPolicy": "SpreadByPCPUs" });
    assert_eq!(world.said("b", asking("LSR", "6", spread.clone())), "0-4,6");
    assert_eq!(world.said("c", asking("LSR", "4", spread)), TOO_FEW);
    assert_eq!(world.said("d", asking("LSR", "2", required("FullPCPUs"))), TOO_FEW);
}

proptest! {
    /// Pods come and go: no CPU is two pods' own, none is given that is kept from pods, all lie as they
    /// must, and who is let in gets as many as he asks for.
    #[test]
    fn no_cpu_is_given_twice(
        steps in proptest::collection::vec((0..6_usize, 1..5_u32, 0..5_usize, any::<bool>()), 1..40),
        kept in 0..4_u32,
    ) {
        let mut world = world(16);
        let reserved = json!({ "reservedCPUs": format!("0-{kept}") }).to_string();
        world.node(16, json!({ "metadata": { "annotations": { NODE_RESERVATION: reserved } } }));
        let mut own = std::collections::BTreeMap::<usize, CpuSet>::new();
        for (pod, count, policy, goes) in steps {
            let name = format!("p{pod}");
            if goes || own.contains_key(&pod) {
                world.ledger.apply(Fact::PodGone(Uid::new(&name)));
                own.remove(&pod);
                continue;
            }
            let (key, policy) = [("requiredCPUBindPolicy", "FullPCPUs"),
                ("requiredCPUBindPolicy", "SpreadByPCPUs"), ("preferredCPUBindPolicy", "FullPCPUs"),
                ("preferredCPUBindPolicy", "SpreadByPCPUs"), ("preferredCPUBindPolicy", "Default")][policy];
            let said = world.said(&name, asking("LSR", &count.to_string(), json!({ key: policy })));
            let Ok(cpus) = CpuSet::parse(&said) else {
                world.ledger.apply(Fact::PodGone(Uid::new(&name)));
                continue;
            };
            prop_assert_eq!(cpus.len(), count as usize, "{}", said);
            prop_assert!(cpus.iter().all(|cpu| cpu > kept && cpu < 16), "{}", said);
            prop_assert!(own.values().all(|other| other.among(&cpus).is_empty()), "{}", said);
            if key == "requiredCPUBindPolicy" {
                let cores: std::collections::BTreeSet<u32> = cpus.iter().map(|cpu| cpu / 2).collect();
                let wanted = if policy == "FullPCPUs" { count / 2 } else { count };
                prop_assert_eq!(cores.len(), wanted as usize, "{} {}", policy, said);
            }
            own.insert(pod, cpus);
        }
        for pod in own.keys() {
            world.ledger.apply(Fact::PodGone(Uid::new(&format!("p{pod}"))));
        }
        prop_assert!(world.ledger.asks.allotments.is_empty() && world.ledger.asks.cpus.is_empty());
        prop_assert_eq!(world.said("all", asking("LSR", &(15 - kept).to_string(),
            json!({ "preferredCPUBindPolicy": "SpreadByPCPUs" }))).parse::<String>().unwrap(),
            format!("{}-15", kept + 1).replace("15-15", "15"));
    }
}

/// A machine with so many NUMA nodes of so many CPUs and GiB, CPUs numbered in a row.
fn machine(world: &mut World, numas: u32, cpus: u32, memory: u32, policy: &str) {
    let detail = (0..numas * cpus).map(|id| {
        let numa = id / cpus;
        json!({ "id": id, "core": id / 2, "socket": numa, "node": numa })
    });
    let detail = json!({ "detail": detail.collect::<Vec<_>>() }).to_string();
    let amount = |name: &str, amount: String| json!({ "name": name, "capacity": amount, "allocatable": amount, "available": amount });
    let zone = |numa: u32| {
        json!({ "name": format!("node-{numa}"), "type": "Node", "resources": [
            amount("cpu", cpus.to_string()), amount("memory", format!("{memory}Gi"))] })
    };
    let wire = json!({
        "metadata": { "name": "n", "annotations": { CPU_TOPOLOGY: detail } },
        "topologyPolicies": [policy], "zones": (0..numas).map(zone).collect::<Vec<_>>() });
    let wire: NodeResourceTopology = serde_json::from_value(wire).unwrap();
    world.ledger.apply(Fact::from(&wire));
    let memory =
        json!({ "status": { "allocatable": { "memory": format!("{}Gi", numas * memory) } } });
    world.node(numas * cpus, memory);
}

impl World {
    /// What a pod gets of which NUMA nodes, or why it gets nothing.
    fn zones(&mut self, name: &str, pod: Value) -> String {
        let said = self.said(name, pod);
        let row = self.ledger.pod(&Uid::new(name)).unwrap();
        let Some(id) = row.allotment else { return said };
        let own = self.ledger.asks.allotments.get(id).zones.iter();
        let own = own.map(|(zone, amounts)| format!("{}m of {zone}", amounts.cpu_millis));
        let own = own.collect::<Vec<_>>().join(", ");
        if said.is_empty() { own } else { format!("{said}: {own}") }
    }
}

fn with_policy(pod: Value, policy: &str) -> Value {
    let spec = json!({ "numaTopologyPolicy": policy }).to_string();
    merged(pod, json!({ "metadata": { "annotations": { NUMA_TOPOLOGY_SPEC: spec } } }))
}

#[test]
fn s10_55_whole_cores_of_several_numa_nodes() {
    let mut world = world_by(NodeNuma::default());
    machine(&mut world, 2, 52, 128, "Restricted");
    // More is accounted for than CPUs are bound.
    for (zone, cpus) in [(0, "0-43"), (1, "53-96")] {
        let own = json!([{ "node": zone, "resources": { "cpu": "48" } }]);
        let status = json!({ "cpuset": cpus, "numaNodeResources": own }).to_string();
        let more = json!({ "metadata": { "annotations": { RESOURCE_STATUS: status } },
                           "spec": { "nodeName": "n" } });
        world.tell(cpus, merged(lsr("44"), more));
    }
    let said = world.zones("c", asking("LSR", "8", required("FullPCPUs")));
    assert_eq!(said, "44-47,98-101: 4000m of 0, 4000m of 1");
}

#[test]
fn s10_56_one_thread_of_each_core_of_several_numa_nodes() {
    let mut world = world_by(NodeNuma::default());
    machine(&mut world, 2, 52, 128, "Restricted");
    // Of the first NUMA node more is accounted for than CPUs are bound; both threads of its first core are
    // free.
    for (zone, count, cpus, accounted) in
        [(0, "47", "3,5,7-51", "49"), (1, "51", "52-101,103", "51")]
    {
        let own = json!([{ "node": zone, "resources": { "cpu": accounted } }]);
        let status = json!({ "cpuset": cpus, "numaNodeResources": own }).to_string();
        let more = json!({ "metadata": { "annotations": { RESOURCE_STATUS: status } },
                           "spec": { "nodeName": "n" } });
        world.tell(cpus, merged(lsr(count), more));
    }
    let said = world.zones("c", asking("LSR", "4", required("SpreadByPCPUs")));
    assert_eq!(said, "0,2,4,102: 3000m of 0, 1000m of 1");
}

#[test]
fn s10_58_policies_of_pod_and_node_that_differ_do_not_meet() {
    let mut world = world_by(NodeNuma::default());
    machine(&mut world, 2, 8, 128, "Restricted");
    let pod = asking("LS", "2", Value::Null);
    let said = world.said("a", with_policy(pod.clone(), "SingleNUMANode"));
    assert_eq!(said, "node(s) NUMA Topology policy not match");
    assert_eq!(world.zones("b", with_policy(pod, "Restricted")), "2000m of 0");
}

#[test]
fn s10_59_a_pod_that_wants_one_numa_node_keeps_off_those_that_others_span() {
    let mut world = world_by(NodeNuma::default());
    machine(&mut world, 2, 8, 128, "None");
    world.bound("spans", lsr("2"), "0,8");
    let pod = asking("LS", "2", Value::Null);
    let said = world.said("a", with_policy(pod.clone(), "SingleNUMANode"));
    assert_eq!(said, "Unaligned NUMA Hint");
    machine(&mut world, 2, 8, 128, "SingleNUMANodePodLevel");
    assert_eq!(world.zones("b", pod), "2000m of 0");
}

#[test]
fn s10_60_nodes_are_scored_by_the_numa_nodes_that_a_pod_gets() {
    let plugin = NodeNuma { score: ScoreStrategy::MostAllocated, ..NodeNuma::default() };
    let check = |numas, cpus, memory, expected| {
        let mut world = world_by(plugin.clone());
        machine(&mut world, numas, cpus, memory, "SingleNUMANodePodLevel");
        let more = json!({ "spec": { "containers": [{ "name": "c", "resources": { "requests": {
            "cpu": "21", "memory": "40Gi" } } }] } });
        assert_eq!(world.score("a", merged(asking("LS", "21", Value::Null), more)), expected);
    };
    check(2, 52, 128, 35);
    check(1, 64, 128, 31);
}

#[test]
fn a_node_that_does_not_report_its_numa_nodes_takes_no_pod_that_needs_them() {
    let mut world = world(8);
    let pod = with_policy(asking("LS", "2", Value::Null), "Restricted");
    assert_eq!(world.said("a", pod.clone()), "node(s) missing NUMA resources");
    assert_eq!(world.said("b", with_policy(pod, "BestEffort")), "shared");
}

#[test]
fn what_is_taken_of_a_numa_node_comes_back() {
    let mut world = world_by(NodeNuma::default());
    machine(&mut world, 2, 8, 128, "SingleNUMANodePodLevel");
    let pod = |cpu: &str| asking("LS", cpu, Value::Null);
    assert_eq!(world.zones("a", pod("6")), "6000m of 0");
    assert_eq!(world.zones("b", pod("6")), "6000m of 1");
    assert_eq!(world.said("c", pod("3")), "Unsatisfied NUMA cpu");
    world.ledger.apply(Fact::PodGone(Uid::new("a")));
    assert_eq!(world.zones("c", pod("3")), "3000m of 0");
}

#[test]
fn what_shared_pods_and_pods_with_cpus_have_of_a_numa_node_adds_up() {
    let mut world = world_by(NodeNuma::default());
    machine(&mut world, 2, 8, 128, "SingleNUMANodePodLevel");
    // It has CPUs and says nothing of NUMA nodes, as where no policy was.
    world.bound("old", lsr("4"), "0-3");
    assert_eq!(world.zones("a", asking("LS", "8", Value::Null)), "8000m of 1");
    assert_eq!(world.zones("b", asking("LS", "3", Value::Null)), "3000m of 0");
    assert_eq!(world.said("c", asking("LS", "2", Value::Null)), "Unsatisfied NUMA cpu");
    assert_eq!(world.zones("d", asking("LS", "1", Value::Null)), "1000m of 0");
}

#[test]
fn as_well_as_can_be_is_better_than_not_at_all() {
    let mut world = world_by(NodeNuma::default());
    machine(&mut world, 2, 4, 128, "BestEffort");
    world.node(64, json!({}));
    // NUMA nodes have little left by what is accounted for, and CPUs of their own enough.
    for (name, zone) in [("a", 0), ("b", 1)] {
        let own = json!([{ "node": zone, "resources": { "cpu": "3" } }]);
        let status = json!({ "numaNodeResources": own }).to_string();
        let more = json!({ "metadata": { "annotations": { RESOURCE_STATUS: status } },
                           "spec": { "nodeName": "n" } });
        world.tell(name, merged(asking("LS", "3", Value::Null), more));
    }
    assert_eq!(world.zones("c", lsr("6")), "0-5: 4000m of 0, 2000m of 1");
}

#[test]
fn who_asks_for_nothing_is_put_nowhere_in_particular() {
    let mut world = world(8);
    let none = json!({ "spec": { "containers": [{ "name": "c" }] } });
    assert_eq!(world.said("a", with_policy(none, "SingleNUMANode")), "shared");
}

#[test]
fn cpus_lie_on_one_numa_node_though_nobody_reports_how_many_it_has() {
    let mut world = world_by(NodeNuma::default());
    let detail = (0..8).map(|id| json!({ "id": id, "core": id / 2, "socket": 0, "node": id / 4 }));
    let detail = json!({ "detail": detail.collect::<Vec<_>>() }).to_string();
    let zone = |numa: u32| {
        json!({ "name": format!("node-{numa}"), "type": "Node", "resources": [
            { "name": "memory", "capacity": "8Gi", "allocatable": "8Gi", "available": "8Gi" }] })
    };
    let wire = json!({ "metadata": { "name": "n", "annotations": { CPU_TOPOLOGY: detail } },
                       "topologyPolicies": ["SingleNUMANodePodLevel"], "zones": [zone(0), zone(1)] });
    world.ledger.apply(Fact::from(&serde_json::from_value::<NodeResourceTopology>(wire).unwrap()));
    world.node(8, json!({}));
    world.bound("a", lsr("2"), "0-1");
    assert_eq!(world.zones("b", lsr("4")), "4-7: 4000m of 1");
    assert_eq!(world.said("c", lsr("4")), "Unsatisfied NUMA cpu");
}

#[test]
fn what_nobody_gave_counts_for_nothing() {
    let mut world = world(8);
    world.bound("liar", asking("BE", "1", Value::Null), "0-7");
    assert_eq!(world.said("a", lsr("4")), "0-3");
}
