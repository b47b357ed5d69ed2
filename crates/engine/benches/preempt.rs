//! How long it takes to find who makes room: a full cluster in which every pod but the one that is
//! asked about is of lower priority, or of the same.

#![allow(clippy::disallowed_methods, reason = "a benchmark takes the time")]

use std::collections::BTreeMap;
use std::time::Instant;

use engine::decide::Decider;
use engine::fact::{Fact, NodeFact, PodFact, Uid};
use engine::ledger::Ledger;
use engine::needs::{Amounts, Clause, Constraint, Needs, Requests, Spread};
use engine::preemption::Outcome;
use engine::profile::Profile;
use engine::queue::Moment;
use object::selector::label::Selector;

const HOSTNAME: &str = "kubernetes.io/hostname";
const PODS_PER_NODE: usize = 50;
const CPU_MILLIS: i64 = 100;
const ROUNDS: u32 = 20;

fn node(index: usize) -> Fact {
    let labels = BTreeMap::from([(HOSTNAME.into(), format!("node-{index}").into())]);
    let cpu_millis = CPU_MILLIS * PODS_PER_NODE as i64;
    Fact::Node(NodeFact {
        name: format!("node-{index}").into(),
        labels,
        allocatable: Amounts { cpu_millis, memory_bytes: 256 << 30, ..Amounts::default() },
        pods_allowed: 250,
        ..NodeFact::default()
    })
}

fn pod(name: &str, node: Option<usize>, priority: i32, cpu_millis: i64, spread: Spread) -> Fact {
    let charged = Amounts { cpu_millis, memory_bytes: 1 << 20, ..Amounts::default() };
    let requests =
        Requests { charged, cpu_millis_scored: cpu_millis, memory_bytes_scored: 1 << 20 };
    Fact::Pod(Box::new(PodFact {
        uid: Uid::new(name),
        namespace: "default".into(),
        name: name.into(),
        labels: BTreeMap::from([("app".into(), "web".into())]),
        node: node.map(|node| format!("node-{node}").into()),
        nominated: None,
        started: Some(Moment(1)),
        may_preempt: true,
        giving_way: false,
        priority,
        deleting: false,
        scheduler: "default-scheduler".into(),
        gates: Box::default(),
        extended: Box::default(),
        needs: Needs { taken: requests.clone(), requests, spread, ..Needs::default() },
    }))
}

/// Spread over nodes: it holds anywhere once a pod of the node is gone.
fn spread() -> Spread {
    let pods = Clause::within("default", Selector::from_pairs([("app", "web")]));
    Spread(Box::new([Constraint {
        binds: true,
        max_skew: 1,
        topology_key: HOSTNAME.into(),
        pods,
        min_domains: 1,
        honours_affinity: true,
        honours_taints: false,
    }]))
}

fn measure(name: &str, nodes: usize, priority: i32, pods: usize, spread: Spread) {
    let mut ledger = Ledger::default();
    for index in 0..nodes {
        ledger.apply(node(index));
    }
    for number in 0..nodes * PODS_PER_NODE {
        let name = format!("bound-{number}");
        ledger.apply(pod(&name, Some(number % nodes), 0, CPU_MILLIS, Spread::default()));
    }
    let decider = Decider::new(Profile::kubernetes(), &mut ledger, 1);
    ledger.apply(pod("asked", None, priority, CPU_MILLIS * pods as i64, spread));
    let uid = Uid::new("asked");
    let began = Instant::now();
    let mut victims = 0;
    for round in 0..ROUNDS {
        let examined = decider.examine(&mut ledger, &uid).expect("it is there");
        let tried = decider.last_resorts(&mut ledger, &uid, &examined, u64::from(round), Moment(2));
        if let Some(Outcome::Room(room)) = tried.expect("it is there").preemption {
            victims = room.victims.len();
        }
    }
    let millis = began.elapsed().as_secs_f64() * 1000.0 / f64::from(ROUNDS);
    println!("| {name} | {nodes} | {victims} | {millis:.2} |");
}

fn main() {
    println!("| who makes room for a pod | nodes | victims | milliseconds |");
    println!("|---|---|---|---|");
    for nodes in [1_000, 5_000] {
        measure("nobody: all of its priority", nodes, 0, 1, Spread::default());
        measure("one of lower priority", nodes, 1, 1, Spread::default());
        measure("ten of lower priority", nodes, 1, 10, Spread::default());
        measure("one of lower priority, spread", nodes, 1, 1, spread());
    }
}
