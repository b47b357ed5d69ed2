//! The longest that the engine keeps others waiting: how long single facts and single decisions take
//! in a full cluster, where pods come that nobody has room for and pods of lower priority make it.
//!
//! The benchmark ends with an error where the engine, in slices as it runs, keeps others waiting for
//! longer than a turn may take.

#![allow(clippy::disallowed_methods, reason = "a benchmark takes the time")]

mod world;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use engine::Engine;
use engine::fact::{DEFAULT_SCHEDULER, Fact, PodFact, Uid};
use engine::moment::Moment;
use engine::needs::{Constraint, Needs, Spread};
use engine::profile::Profile;
use engine::turn::{Settings, Verdict};
use world::{HOSTNAME, amounts, node_name, pods_of, processor_time, requests};

const NODES: usize = 5_000;
const PODS: usize = 50_000;
const PODS_PER_NODE: usize = PODS / NODES;
const CPU_MILLIS: i64 = 100;
const START: Moment = Moment(1_000_000_000_000_000_000);
/// Pods that are asked about in each row.
const ASKED: usize = 12;
/// As the engine slices.
const SLICE: usize = 1_024;
/// Pods that wait while others go.
const WAITING: usize = 10_000;
/// Pods that go, one after the other, and the most that is decided after each.
const GOING: usize = 5;
const DECISIONS_MAX: usize = 50;
/// The longest that a turn may take.
const TURN_MAX: Duration = Duration::from_millis(5);
/// Rows that take longer, as docs/PERFORMANCE.md says.
const KNOWN_TO_EXCEED: [&str; 1] = ["each of its own kind"];

fn node(index: usize) -> Fact {
    world::node(index, 1, amounts(CPU_MILLIS * PODS_PER_NODE as i64, 256 << 30), 250)
}

fn pod(name: &str, node: Option<usize>, priority: i32, cpu_millis: i64, spread: Spread) -> Fact {
    let requests = requests(cpu_millis, 1 << 20);
    Fact::Pod(Box::new(PodFact {
        labels: BTreeMap::from([("app".into(), "web".into())]),
        node: node.map(node_name),
        started: Some(Moment(1)),
        priority,
        needs: Needs { taken: requests.clone(), requests, spread, ..Needs::default() },
        ..PodFact::new(name, "default", name)
    }))
}

/// Spread over nodes: it holds anywhere once a pod of the node is gone.
fn spread() -> Spread {
    Spread(Box::new([Constraint {
        binds: true,
        max_skew: 1,
        topology_key: HOSTNAME.into(),
        pods: pods_of("web"),
        min_domains: 1,
        honours_affinity: true,
        honours_taints: false,
    }]))
}

/// A full cluster of pods of priorities 0 to 9.
fn cluster(slice: usize, per_node: usize) -> Engine {
    let profiles = vec![(DEFAULT_SCHEDULER.into(), Profile::kubernetes())];
    let mut engine = Engine::new(Settings::default(), profiles, START).with_slices_of(slice);
    for index in 0..NODES {
        engine.apply(node(index), START);
    }
    for number in 0..NODES * per_node {
        let (name, at) = (format!("bound-{number}"), number % NODES);
        let priority = (number / NODES) as i32 % 10;
        let cpu_millis = CPU_MILLIS * PODS_PER_NODE as i64 / per_node as i64;
        engine.apply(pod(&name, Some(at), priority, cpu_millis, Spread::default()), START);
    }
    engine
}

/// The longest of some times, and all of them together.
#[derive(Default)]
struct Times {
    longest: Duration,
    all: Duration,
    count: u32,
}

impl Times {
    fn take<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let begun = processor_time();
        let done = work();
        let took = processor_time().saturating_sub(begun);
        self.longest = self.longest.max(took);
        self.all += took;
        self.count += 1;
        done
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// What a row came to.
struct Row {
    name: &'static str,
    longest: Duration,
}

impl Row {
    /// Whether it took longer than it may, and than is known.
    fn exceeds(&self) -> bool {
        self.longest > TURN_MAX && !KNOWN_TO_EXCEED.contains(&self.name)
    }
}

/// A pod that no node can take, from its coming to the decision, while a fact comes between any two
/// turns.
fn refused(
    name: &'static str,
    slice: usize,
    priority: i32,
    cpu_millis: i64,
    spread: &Spread,
) -> Row {
    refused_among(name, (slice, PODS_PER_NODE), priority, cpu_millis, spread)
}

fn refused_among(
    name: &'static str,
    (slice, per_node): (usize, usize),
    priority: i32,
    cpu_millis: i64,
    spread: &Spread,
) -> Row {
    let mut engine = cluster(slice, per_node);
    let (mut turns, mut whole) = (Times::default(), Times::default());
    let mut victims = 0;
    for number in 0..ASKED {
        let uid = format!("asked-{number}");
        engine.apply(pod(&uid, None, priority, cpu_millis, spread.clone()), START);
        let begun = processor_time();
        let mut facts = 0;
        let verdict = loop {
            if let Some(decision) = turns.take(|| engine.decide(START)) {
                break decision.verdict;
            }
            assert_eq!(engine.next_due(START), Some(START), "measuring what is never decided");
            // The same load on another node: all that was gathered has to be gathered again.
            let at = (number * 97 + facts) % NODES;
            let own = format!("bound-{at}");
            let cpu_millis = CPU_MILLIS * PODS_PER_NODE as i64 / per_node as i64;
            let fact = pod(&own, Some(at), 0, cpu_millis, Spread::default());
            engine.apply(fact, START);
            facts += 1;
        };
        whole.all += processor_time().saturating_sub(begun);
        let Verdict::Wait(why) = verdict else { panic!("measuring a pod that fits") };
        victims = why.room().map_or(0, |room| room.victims.len());
        turns.take(|| why.to_string());
        engine.apply(Fact::PodGone(Uid::new(&uid)), START);
    }
    println!(
        "| {name} | {victims} | {:.2} | {:.2} | {:.1} |",
        millis(turns.longest),
        millis(whole.all) / ASKED as f64,
        f64::from(turns.count) / ASKED as f64,
    );
    Row { name, longest: turns.longest }
}

/// What a fact costs while pods wait: all alike, or each of its own kind.
fn told_while_waiting(name: &'static str, cpu_millis: impl Fn(usize) -> i64) -> Row {
    let mut engine = cluster(SLICE, PODS_PER_NODE);
    for number in 0..WAITING {
        let name = format!("waits-{number}");
        let mut fact = pod(&name, None, 0, cpu_millis(number), Spread::default());
        if let Fact::Pod(pod) = &mut fact {
            pod.may_preempt = false;
        }
        engine.apply(fact, START);
    }
    while engine.decide(START).is_some() || engine.next_due(START) == Some(START) {}
    let (mut facts, mut decisions) = (Times::default(), Times::default());
    for number in 0..GOING {
        let gone = Fact::PodGone(Uid::new(&format!("bound-{number}")));
        facts.take(|| engine.apply(gone, START));
        for _ in 0..DECISIONS_MAX {
            let decision = decisions.take(|| engine.decide(START));
            if decision.is_none() && engine.next_due(START) != Some(START) {
                break;
            }
        }
    }
    println!(
        "| {name} | {:.2} | {} | {:.2} |",
        millis(facts.longest),
        decisions.count / GOING as u32,
        millis(decisions.longest),
    );
    Row { name, longest: facts.longest.max(decisions.longest) }
}

/// Pods that nobody has room for.
fn searches(slice: usize) -> Vec<Row> {
    let none = Spread::default();
    vec![
        refused("nobody: all of its priority", slice, 0, CPU_MILLIS, &none),
        refused("one of ten", slice, 5, CPU_MILLIS, &none),
        refused("all ten", slice, 10, 10 * CPU_MILLIS, &none),
        refused("all ten are not enough", slice, 10, 11 * CPU_MILLIS, &none),
        refused("one of ten, spread", slice, 5, CPU_MILLIS, &spread()),
        refused_among("all of fifty", (slice, 50), 10, 10 * CPU_MILLIS, &none),
    ]
}

fn main() -> ExitCode {
    println!("{NODES} nodes with {PODS} pods of ten priorities; a fact between any two turns");
    let mut rows = Vec::new();
    for (title, slice) in [("in one go", usize::MAX), ("in slices", SLICE)] {
        println!();
        println!("| {title}: who makes room | victims | longest turn, ms | whole, ms | turns |");
        println!("|---|---|---|---|---|");
        // Only what runs in slices counts.
        rows = searches(slice);
    }
    println!();
    println!("| {WAITING} pods wait, one bound pod goes | the fact, ms | turns | longest, ms |");
    println!("|---|---|---|---|");
    rows.push(told_while_waiting("all alike", |_| 10 * CPU_MILLIS));
    let own_kind = |number| 500 + number as i64 % WAITING as i64;
    rows.push(told_while_waiting("each of its own kind", own_kind));
    let mut code = ExitCode::SUCCESS;
    for row in rows.iter().filter(|row| row.exceeds()) {
        println!("{}: {:.2} ms, and a turn may take {TURN_MAX:?}", row.name, millis(row.longest));
        code = ExitCode::FAILURE;
    }
    code
}
