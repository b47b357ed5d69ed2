//! Whether ten million short pods, each with labels that no other one has, end with the memory that
//! they began with.
//!
//! Every fourth pod also wants to be away from pods with its own label, so that selectors come and
//! go as well, and every eighth names a resource that no node has. `cargo bench --bench soak -- PODS` plays another number of pods.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads its arguments and its memory")]

use std::collections::{BTreeMap, VecDeque};
use std::process::ExitCode;

use engine::decide::Decider;
use engine::fact::{Fact, NodeFact, PodFact};
use engine::ledger::Ledger;
use engine::needs::{Amounts, Clause, Needs, PodAffinity, PodTerm, Requests};
use engine::profile::Profile;
use object::selector::label::Selector;

const PODS: usize = 10_000_000;
const NODES: usize = 200;
/// Pods that are there at a time.
const ALIVE: usize = 5_000;
/// Pods after which the cluster and the answers that are kept are as full as they get, and memory is
/// read first. (Each pod with a resource of its own is a shape of its own, and these are kept until
/// their bytes are used up.)
const BEGIN: usize = 200 * ALIVE;
/// Parts of the memory in the beginning that may be there in the end.
const GROWTH_MAX: f64 = 1.1;

fn node(index: usize) -> Fact {
    let name: Box<str> = format!("node-{index}").into();
    Fact::Node(NodeFact {
        labels: BTreeMap::from([("kubernetes.io/hostname".into(), name.clone())]),
        name,
        allocatable: Amounts { cpu_millis: 64_000, memory_bytes: 256 << 30, ..Amounts::default() },
        pods_allowed: 250,
        ..NodeFact::default()
    })
}

fn pod(number: usize) -> PodFact {
    let job: Box<str> = format!("job-{number}").into();
    let mut charged = Amounts { cpu_millis: 100, memory_bytes: 128 << 20, ..Amounts::default() };
    if number.is_multiple_of(8) {
        charged.scalars.push((format!("example.com/{job}").into(), 0));
    }
    let requests = Requests { charged, cpu_millis_scored: 100, memory_bytes_scored: 128 << 20 };
    let mut needs = Needs { taken: requests.clone(), requests, ..Needs::default() };
    if number.is_multiple_of(4) {
        let pods = Clause::within("default", Selector::from_pairs([("job", &*job)]));
        let term = PodTerm { pods, topology_key: "kubernetes.io/hostname".into() };
        needs.pod_affinity = PodAffinity { away: Box::new([term]), ..PodAffinity::default() };
    }
    let fact = PodFact::new(&format!("uid-{number}"), "default", &job);
    let labels = BTreeMap::from([("app".into(), "soak".into()), ("job".into(), job)]);
    PodFact { labels, needs, ..fact }
}

/// Memory that is resident now.
fn megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib * 1024.0 / 1e6)
}

fn main() -> ExitCode {
    let pods = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(PODS);
    let mut ledger = Ledger::default();
    (0..NODES).for_each(|index| ledger.apply(node(index)));
    let mut decider = Decider::new(Profile::kubernetes(), &mut ledger, 1);
    let mut alive = VecDeque::new();
    let mut began = f64::NAN;
    for number in 0..pods.max(BEGIN + 1) {
        let mut fact = pod(number);
        let uid = fact.uid.clone();
        ledger.apply(Fact::Pod(Box::new(fact.clone())));
        let ask = ledger.pod(&uid).expect("it was just told").ask;
        let node = decider.pick(&ledger, ask, number as u64).expect("a node takes it");
        ledger.claim(&uid, node, None).expect("it has no node yet");
        fact.node = Some(ledger.nodes.name(node).into());
        ledger.apply(Fact::Pod(Box::new(fact)));
        alive.push_back(uid);
        if alive.len() > ALIVE
            && let Some(oldest) = alive.pop_front()
        {
            ledger.apply(Fact::PodGone(oldest));
        }
        if number == BEGIN {
            began = megabytes();
        }
    }
    let ended = megabytes();
    println!("| pods | MB after {BEGIN} | MB at the end | at most |");
    println!("|---|---|---|---|");
    println!("| {pods} | {began:.1} | {ended:.1} | {:.1} |", began * GROWTH_MAX);
    if ended <= began * GROWTH_MAX { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
