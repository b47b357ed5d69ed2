//! How many decisions a second the engine makes: one at a time, each applied before the next, on a
//! cluster with bound pods, with one deletion for every ten decisions.

#![allow(clippy::disallowed_methods, reason = "a benchmark takes the time")]

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::time::Instant;

use engine::decide::Decider;
use engine::fact::{Fact, NodeFact, PodFact, Uid};
use engine::ledger::Ledger;
use engine::needs::{Amounts, Clause, Constraint, Needs, PodAffinity, PodTerm, Requests, Spread};
use engine::profile::Profile;
use object::selector::label::Selector;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

fn node(index: usize) -> Fact {
    let labels = BTreeMap::from([
        (HOSTNAME.into(), format!("node-{index}").into()),
        (ZONE.into(), format!("zone-{}", index % 3).into()),
    ]);
    Fact::Node(NodeFact {
        name: format!("node-{index}").into(),
        labels,
        allocatable: Amounts { cpu_millis: 64_000, memory_bytes: 256 << 30, ..Amounts::default() },
        pods_allowed: 250,
        ..NodeFact::default()
    })
}

fn requests(cpu_millis: i64, memory_mib: i64) -> Requests {
    let memory_bytes = memory_mib << 20;
    let charged = Amounts { cpu_millis, memory_bytes, ..Amounts::default() };
    Requests { charged, cpu_millis_scored: cpu_millis, memory_bytes_scored: memory_bytes }
}

fn needs(requests: Requests) -> Needs {
    Needs { taken: requests.clone(), requests, ..Needs::default() }
}

fn pod(number: usize, app: usize, needs: Needs, node: Option<usize>) -> PodFact {
    PodFact {
        uid: Uid::new(&format!("uid-{number}")),
        namespace: "default".into(),
        name: format!("pod-{number}").into(),
        labels: BTreeMap::from([("app".into(), format!("app-{app}").into())]),
        node: node.map(|node| format!("node-{node}").into()),
        nominated: None,
        started: None,
        may_preempt: true,
        giving_way: false,
        priority: 0,
        deleting: false,
        scheduler: "default-scheduler".into(),
        gates: Box::default(),
        needs,
    }
}

/// A pod of a row of the table.
type Make = fn(usize) -> PodFact;

fn plain(number: usize) -> PodFact {
    pod(number, 0, needs(requests(100, 128)), None)
}

/// One of a thousand shapes: a third plain, a third away from their like, a third spread.
fn mixed(number: usize) -> PodFact {
    let app = number % 1000;
    let mut needs = needs(requests(100 + 50 * (app as i64 % 7), 128 + 64 * (app as i64 % 5)));
    let labels = Selector::from_pairs([("app", &*format!("app-{app}"))]);
    let pods = Clause::within("default", labels);
    match app % 3 {
        1 => {
            let term = PodTerm { pods, topology_key: HOSTNAME.into() };
            needs.pod_affinity =
                PodAffinity { preferred: Box::new([(-100, term)]), ..PodAffinity::default() };
        }
        2 => {
            needs.spread = Spread(Box::new([Constraint {
                binds: true,
                max_skew: 5,
                topology_key: ZONE.into(),
                pods,
                min_domains: 1,
                honours_affinity: true,
                honours_taints: false,
            }]));
        }
        _ => {}
    }
    pod(number, app, needs, None)
}

/// Each pod asks for something that no other one does.
fn different(number: usize) -> PodFact {
    let number_i64 = number as i64 % 10_000;
    pod(number, number % 100, needs(requests(100 + number_i64 % 500, 64 + number_i64)), None)
}

fn measure(name: &str, nodes: usize, bound: usize, decisions: usize, make: Make) {
    let mut ledger = Ledger::default();
    for index in 0..nodes {
        ledger.apply(node(index));
    }
    for number in 0..bound {
        let mut fact = make(number);
        fact.uid = Uid::new(&format!("bound-{number}"));
        fact.node = Some(format!("node-{}", number % nodes).into());
        ledger.apply(Fact::Pod(Box::new(fact)));
    }
    let mut decider = Decider::new(Profile::kubernetes(), &mut ledger, 1);
    let facts: Vec<PodFact> = (0..decisions).map(make).collect();
    let mut placed = VecDeque::new();
    let began = Instant::now();
    for (number, fact) in facts.into_iter().enumerate() {
        let uid = fact.uid.clone();
        ledger.apply(Fact::Pod(Box::new(fact)));
        let ask = ledger.pod(&uid).expect("it was just told").ask;
        let node = decider.pick(&ledger, ask, number as u64).expect("a node takes it");
        ledger.claim(&uid, node).expect("it has no node yet");
        placed.push_back(uid);
        if number % 10 == 9
            && let Some(oldest) = placed.pop_front()
        {
            ledger.apply(Fact::PodGone(oldest));
        }
    }
    let rate = decisions as f64 / began.elapsed().as_secs_f64();
    println!("| {name} | {nodes} | {bound} | {rate:.0} |");
}

fn main() {
    println!("| pods | nodes | bound | decisions a second |");
    println!("|---|---|---|---|");
    for nodes in [5_000, 20_000] {
        measure("equal", nodes, 50_000, 50_000, plain);
        measure("1,000 shapes", nodes, 50_000, 20_000, mixed);
        measure("10,000 shapes", nodes, 50_000, 10_000, different);
    }
}
