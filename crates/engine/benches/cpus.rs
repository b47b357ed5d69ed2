//! How many decisions a second the engine makes for pods that get CPUs of their own: 64 different
//! counts take turns on 5,000 nodes that report their NUMA nodes, each decision is applied with the
//! CPUs that it gave before the next is made, and one of ten is followed by a deletion.
//!
//! The time is that of the processor; the median of the rounds counts. The benchmark ends with an
//! error where a row falls short.

#![allow(clippy::disallowed_methods, reason = "a benchmark takes the time")]

mod world;

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use engine::cpus::{Cpu, CpuTopology};
use engine::decide::Decider;
use engine::fact::{CpuLayout, Fact, NumaPolicy, PodFact, Uid};
use engine::ledger::Ledger;
use engine::needs::{CpuNeeds, Needs};
use engine::plugins::load_aware::LoadAware;
use engine::plugins::node_numa_resource::NodeNuma;
use engine::plugins::reservation::Reservation;
use engine::profile::{Profile, Weight};
use world::{amounts, node, node_name, processor_time, requests};

const NODES: usize = 5_000;
const CPUS_PER_NODE: u32 = 256;
const MEMORY_BYTES_PER_CPU: i64 = 4 << 30;
/// Different counts that are asked for: 1 to this.
const COUNTS: usize = 64;
/// Pods that have their CPUs before, and between, rounds: each node has given away some 100 CPUs.
const BOUND: usize = 15_000;
const ROUNDS: usize = 15;
const DECISIONS: usize = 500;
const DECISIONS_PER_DELETION: usize = 10;
/// Decisions a second that are demanded, and where there are 8 NUMA nodes, of which 255 sets can be made.
const PER_SECOND_MIN: f64 = 5_000.0;
const PER_SECOND_MIN_OF_8: f64 = 1_500.0;

/// What a measurement is about.
struct Row {
    name: &'static str,
    numas: u32,
    policy: Option<NumaPolicy>,
    /// Whether memory goes with the count of CPUs in no simple way, so that no two nodes are used alike.
    is_uneven: bool,
}

const ROWS: [Row; 5] = [
    Row { name: "2 NUMA nodes, no policy", numas: 2, policy: None, is_uneven: false },
    Row {
        name: "2 NUMA nodes, SingleNUMANode",
        numas: 2,
        policy: Some(NumaPolicy::SingleNUMANode),
        is_uneven: false,
    },
    Row {
        name: "2 NUMA nodes, Restricted",
        numas: 2,
        policy: Some(NumaPolicy::Restricted),
        is_uneven: false,
    },
    Row {
        name: "2 NUMA nodes, Restricted, uneven memory",
        numas: 2,
        policy: Some(NumaPolicy::Restricted),
        is_uneven: true,
    },
    Row {
        name: "8 NUMA nodes, Restricted",
        numas: 8,
        policy: Some(NumaPolicy::Restricted),
        is_uneven: false,
    },
];

/// A cluster whose pods have CPUs of their own, and who decides on it.
struct World {
    ledger: Ledger,
    decider: Decider,
    /// Oldest first.
    placed: VecDeque<Uid>,
    decided: usize,
}

/// Cores of two threads, dealt out evenly to the NUMA nodes.
fn layout(row: &Row) -> CpuLayout {
    let each = CPUS_PER_NODE / row.numas;
    let cpu = |id| Cpu { id, core: id / 2, numa: id / each, socket: id / (CPUS_PER_NODE / 2) };
    let zone = amounts(i64::from(each) * 1_000, i64::from(each) * MEMORY_BYTES_PER_CPU);
    CpuLayout {
        topology: CpuTopology::new((0..CPUS_PER_NODE).map(cpu)),
        policy: row.policy,
        zones: (0..row.numas).map(|numa| (numa, zone.clone())).collect(),
        ..CpuLayout::default()
    }
}

fn pod(row: &Row, number: usize) -> PodFact {
    // A step that has no divisor in common with the number of counts reaches each of them.
    let count = i64::try_from(number * 29 % COUNTS + 1).expect("a small number");
    let uneven = if row.is_uneven { count * count * 977 % 1_009 } else { 0 };
    let requests = requests(count * 1_000, count * (2 << 30) + (uneven << 20));
    let cpus = CpuNeeds { is_sensitive: true, ..CpuNeeds::default() };
    PodFact {
        needs: Needs { taken: requests.clone(), requests, cpus: Some(cpus), ..Needs::default() },
        ..PodFact::new(&format!("uid-{number}"), "default", &format!("pod-{number}"))
    }
}

impl World {
    fn new(row: &Row) -> Self {
        let profile = Profile::kubernetes().filter(Reservation::default());
        let profile = profile.filter(LoadAware::default()).filter(NodeNuma::default());
        let profile = profile.score(LoadAware::default(), Weight(1));
        let profile = profile.score(NodeNuma::default(), Weight(1));
        let mut ledger = Ledger::default();
        let decider = Decider::new(profile, &mut ledger, 1);
        let memory = i64::from(CPUS_PER_NODE) * MEMORY_BYTES_PER_CPU;
        for index in 0..NODES {
            let has = amounts(i64::from(CPUS_PER_NODE) * 1_000, memory);
            ledger.apply(node(index, 3, has, 110));
            // Each says it for itself, as on the wire.
            let layout = Some(Arc::new(layout(row)));
            ledger.apply(Fact::Layout { node: node_name(index), layout });
        }
        Self { ledger, decider, placed: VecDeque::new(), decided: 0 }
    }

    /// Gives nodes and CPUs to the next pods, and returns the time that took.
    fn decide(&mut self, row: &Row, count: usize) -> Duration {
        let pods: Vec<PodFact> =
            (self.decided..self.decided + count).map(|number| pod(row, number)).collect();
        let began = processor_time();
        for fact in pods {
            let uid = fact.uid.clone();
            let asked = fact.needs.requests.charged.cpu_millis / 1_000;
            self.ledger.apply(Fact::Pod(Box::new(fact)));
            let place = self.decider.choose(&mut self.ledger, &uid, self.decided as u64);
            let place = place.expect("it waits").expect("every pod finds a node");
            let ask = self.ledger.pod(&uid).expect("it was just told").ask;
            let own = self.decider.allot(&mut self.ledger, ask, &place).expect("they are there");
            let given = own.as_ref().map_or(0, |own| own.cpus.len());
            assert_eq!(given as i64, asked, "measuring pods without CPUs");
            self.ledger.claim(&uid, place.node, own.as_ref()).expect("it has no node yet");
            self.placed.push_back(uid);
            self.decided += 1;
            if self.decided.is_multiple_of(DECISIONS_PER_DELETION) {
                self.delete_oldest();
            }
        }
        processor_time() - began
    }

    fn delete_oldest(&mut self) {
        if let Some(oldest) = self.placed.pop_front() {
            self.ledger.apply(Fact::PodGone(oldest));
        }
    }

    fn trim(&mut self) {
        while self.placed.len() > BOUND {
            self.delete_oldest();
        }
    }
}

/// Decisions a second.
fn measure(row: &Row) -> f64 {
    let mut world = World::new(row);
    while world.placed.len() < BOUND {
        world.decide(row, DECISIONS);
    }
    world.trim();
    let round = |_| {
        let took = world.decide(row, DECISIONS);
        world.trim();
        DECISIONS as f64 / took.as_secs_f64()
    };
    let mut rates: Vec<f64> = (0..ROUNDS).map(round).collect();
    rates.sort_unstable_by(f64::total_cmp);
    rates[ROUNDS / 2]
}

fn main() -> ExitCode {
    println!("| {COUNTS} counts of CPUs on {NODES} nodes | decisions a second | at least |");
    println!("|---|---|---|");
    let mut is_short = false;
    for row in &ROWS {
        let per_second = measure(row);
        let least = if row.numas > 2 { PER_SECOND_MIN_OF_8 } else { PER_SECOND_MIN };
        println!("| {} | {per_second:.0} | {least} |", row.name);
        is_short |= per_second < least;
    }
    if is_short {
        eprintln!("a row falls short of what is demanded");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
