mod loads;
mod reserved;

use std::fmt::Write as _;

use api::{Node, Pod};
use serde_json::{Value, json};

use super::*;
use crate::fact::{Fact, NodeFact, PodFact};
use crate::profile::Profile;

const NOW: Moment = Moment(1_000_000_000_000);

fn node(name: &str, spec: &Value, labels: &Value, cpu: &str) -> Fact {
    let node = json!({
        "metadata": { "name": name, "labels": labels },
        "spec": spec,
        "status": { "allocatable": { "cpu": cpu, "memory": "8Gi", "pods": "10" } },
    });
    let node: Node = serde_json::from_value(node).unwrap();
    Fact::Node(NodeFact::from(&node))
}

fn pod(name: &str, spec: &Value) -> PodFact {
    let pod = json!({
        "metadata": { "name": name, "namespace": "default", "uid": name, "labels": { "app": "web" } },
        "spec": spec,
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    PodFact::from(&pod)
}

fn asking(cpu: &str, more: &Value) -> Value {
    let mut spec =
        json!({ "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] });
    let (spec_map, more) = (spec.as_object_mut().unwrap(), more.as_object().unwrap());
    for (key, value) in more {
        spec_map.insert(key.clone(), value.clone());
    }
    spec
}

/// Three nodes: one full but for 500m, one tainted, one cordoned with a label of its own.
fn cluster() -> Ledger {
    let mut ledger = Ledger::default();
    let taint = json!({ "taints": [{ "key": "gpu", "value": "yes", "effect": "NoSchedule" }] });
    let cordoned = json!({ "unschedulable": true });
    ledger.apply(node("full", &json!({}), &json!({ "zone": "a" }), "2"));
    ledger.apply(node("tainted", &taint, &json!({ "zone": "a" }), "4"));
    ledger.apply(node("cordoned", &cordoned, &json!({ "zone": "b" }), "4"));
    let mut running = pod("running", &asking("1500m", &json!({})));
    running.node = Some("full".into());
    ledger.apply(Fact::Pod(Box::new(running)));
    ledger
}

fn told(spec: &Value) -> String {
    let mut ledger = cluster();
    let mut decider = Decider::new(Profile::kubernetes(), &mut ledger, 0);
    told_of(&mut ledger, &mut decider, &pod("new", spec))
}

/// All that is explained of a pod, a line for each thing.
fn told_of(ledger: &mut Ledger, decider: &mut Decider, fact: &PodFact) -> String {
    let explanation = explain(ledger, decider, fact, NOW);
    let mut text = format!("{} of {} fit\n", explanation.fitting, explanation.nodes);
    let joined = |lacks: &[Lack], words: fn(&Lack) -> String| {
        lacks.iter().map(words).collect::<Vec<String>>().join("; ")
    };
    for lack in &explanation.everywhere {
        let _ = writeln!(text, "everywhere: {lack}");
    }
    for (node, lacks) in &explanation.nearest {
        let _ = writeln!(text, "{node} {}", joined(lacks, Lack::to_string));
    }
    for one in &explanation.reservations {
        let (name, node) = (&one.name, one.node.as_deref().unwrap_or("nowhere"));
        let lacks = joined(&one.lacks, Lack::of_reservation);
        let _ = writeln!(text, "reservation {name} on {node} {lacks}");
    }
    for one in &explanation.takeovers {
        let (name, node) = (&one.name, one.node.as_deref().unwrap_or("nowhere"));
        let lacks = joined(&one.lacks, Lack::of_takeover);
        let _ = writeln!(text, "takeover {name} on {node} {lacks}");
    }
    for (change, admitted) in &explanation.cures {
        let _ = writeln!(text, "cure: {change} ({admitted})");
    }
    text
}

#[test]
fn the_nearest_nodes_say_what_they_lack_and_each_change_that_is_told_admits_the_pod() {
    let check = |spec: &Value, expected: &str| assert_eq!(told(spec), expected);
    check(
        &asking("1", &json!({})),
        "0 of 3 fit\n\
         full is short of cpu by 500m: 1 asked, 500m of 2 free\n\
         tainted has taint gpu=yes:NoSchedule, which is not tolerated\n\
         cordoned is cordoned\n\
         cure: request 500m of cpu, not 1 (1)\n\
         cure: tolerate taint gpu=yes:NoSchedule (1)\n\
         cure: tolerate taint node.kubernetes.io/unschedulable:NoSchedule (1)\n",
    );
    check(
        &asking("100m", &json!({ "nodeSelector": { "zone": "b" } })),
        "0 of 3 fit\n\
         full lacks label zone=b\n\
         cordoned is cordoned\n\
         tainted has taint gpu=yes:NoSchedule, which is not tolerated; lacks label zone=b\n\
         cure: take zone=b out of the node selector (1)\n\
         cure: tolerate taint node.kubernetes.io/unschedulable:NoSchedule (1)\n",
    );
    // No single change is enough.
    check(
        &asking("8", &json!({ "nodeSelector": { "zone": "c" } })),
        "0 of 3 fit\n\
         full lacks label zone=c; is short of cpu by 7500m: 8 asked, 500m of 2 free\n\
         tainted has taint gpu=yes:NoSchedule, which is not tolerated; lacks label zone=c; \
         is short of cpu by 4: 8 asked, 4 of 4 free\n\
         cordoned is cordoned; lacks label zone=c; is short of cpu by 4: 8 asked, 4 of 4 free\n",
    );
    check(&asking("100m", &json!({})), {
        "1 of 3 fit\n\
         tainted has taint gpu=yes:NoSchedule, which is not tolerated\n\
         cordoned is cordoned\n\
         cure: tolerate taint gpu=yes:NoSchedule (2)\n\
         cure: tolerate taint node.kubernetes.io/unschedulable:NoSchedule (2)\n"
    });
}

#[test]
fn rules_about_other_pods_can_be_given_up() {
    let near = json!({ "affinity": { "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "web" } } },
        ],
    } } });
    let text = told(&asking("100m", &near));
    assert!(text.contains("full has a pod near that the pod must be away from\n"), "{text}");
    assert!(text.contains("cure: drop the required pod anti-affinity by zone (1)\n"), "{text}");
}

#[test]
fn an_explanation_leaves_the_ledger_as_it_was() {
    let mut ledger = cluster();
    let mut decider = Decider::new(Profile::kubernetes(), &mut ledger, 0);
    let fact = pod("new", &asking("1", &json!({ "nodeSelector": { "zone": "b" } })));
    let before = ledger.asks.clone();
    explain(&mut ledger, &mut decider, &fact, NOW);
    assert_eq!(ledger.asks.requests.len(), before.requests.len());
    assert_eq!(ledger.asks.tolerations.len(), before.tolerations.len());
    assert_eq!(ledger.asks.node_affinity.len(), before.node_affinity.len());
}

#[test]
fn a_snapshot_is_enough_and_room_that_is_kept_for_others_is_not_free() {
    let mut ledger = cluster();
    let mut awaited = pod("awaited", &asking("500m", &json!({ "priority": 7 })));
    awaited.nominated = Some("full".into());
    ledger.apply(Fact::Pod(Box::new(awaited)));
    let small = pod("small", &asking("100m", &json!({})));
    let small_but_first = pod("first", &asking("100m", &json!({ "priority": 8 })));
    let check = |fact: &PodFact, fitting: usize, promised: usize| {
        let mut snapshot = ledger.snapshot(Some(&fact.uid));
        assert_eq!((ledger.pod_count(), snapshot.pod_count()), (2, 1));
        let mut decider = Decider::new(Profile::kubernetes(), &mut snapshot, 0);
        let told = explain(&mut snapshot, &mut decider, fact, NOW);
        assert_eq!((told.fitting, told.promised), (fitting, promised), "{told:?}");
        let mut whole = ledger.clone();
        let mut decider = Decider::new(Profile::kubernetes(), &mut whole, 0);
        assert_eq!(explain(&mut whole, &mut decider, fact, NOW), told);
    };
    check(&small, 0, 1);
    check(&small_but_first, 1, 0);
}

#[test]
fn every_reason_about_cpus_is_told_in_words_of_its_own() {
    use crate::cpus::Binding;
    use crate::fact::NumaPolicy;
    use crate::numa::Unplaced;
    use crate::reason::CpuReason as R;
    let check = |reason: R, expected: &str| {
        let lack = Lack {
            plugin: Plugin::NodeNUMAResource,
            reason: Reason::Cpus(reason),
            labels: Vec::new(),
            load: None,
        };
        assert_eq!(lack.to_string(), expected);
    };
    check(R::NoLayout, "does not report which CPUs it has");
    check(R::NotWhole { millis: 1500 }, "gives whole CPUs away, and 1500m is asked");
    check(
        R::TooFew { count: 8, free: 3 },
        "has 3 CPUs free that lie as they must, and 8 are asked",
    );
    check(
        R::NotMultiple { count: 3, threads: 2 },
        "gives whole cores of 2 CPUs away, and 3 are asked",
    );
    check(
        R::Amplified { requested: 2000, used: 3000, allocatable: 4000 },
        "is short of amplified cpu: 2 asked, 1 of 4 free",
    );
    check(
        R::Conflict { pod: Binding::SpreadByCores, node: Binding::FullCores },
        "gives CPUs away as FullPCPUs, and the pod must have them as SpreadByPCPUs",
    );
    check(
        R::OtherPolicy { pod: NumaPolicy::SingleNUMANode, node: NumaPolicy::Restricted },
        "puts pods on NUMA nodes by Restricted, and the pod must be put by SingleNUMANode",
    );
    check(R::Numa(Unplaced::NoZones), "does not report what its NUMA nodes have");
    check(R::Numa(Unplaced::Unsatisfied("cpu".into())), "has NUMA nodes with too little cpu");
    check(
        R::Numa(Unplaced::Unaligned),
        "has NUMA nodes with enough, which other pods use otherwise",
    );
}
