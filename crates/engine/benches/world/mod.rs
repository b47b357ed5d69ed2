//! The clusters and pods that benchmarks of the engine decide on, as `benches/mix.json` says.

#![allow(dead_code, reason = "each benchmark uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads its memory")]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use engine::decide::Decider;
use engine::fact::{
    Fact, NodeFact, OwnerRule, PodFact, ReservationFact, ReservationPolicy, ReservationRules, Uid,
};
use engine::ledger::Ledger;
use engine::needs::{Amounts, Clause, Constraint, Needs, PodAffinity, PodTerm, Requests, Spread};
use engine::plugins::reservation::Reservation;
use engine::profile::Profile;
use engine::reservations::Within;
use object::selector::label::Selector;
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

/// The label that each node has for itself.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// What is decided on.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mix {
    /// Pods that are bound before, and between, decisions.
    pub bound: usize,
    decisions_per_deletion: usize,
    node: Node,
    terms: BTreeMap<String, Terms>,
    /// Each is measured by itself.
    pub rows: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Node {
    cpu_millis: i64,
    memory_mib: i64,
    pods: i64,
    zones: usize,
}

/// The pods of one measurement: so many apps take turns.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Row {
    /// What is printed.
    pub name: String,
    apps: usize,
    cpu_millis: Amount,
    memory_mib: Amount,
    /// What the pods of an app want of each other; apps take turns.
    terms: Vec<String>,
    /// Decisions a second that are demanded at 5,000 nodes.
    pub per_second_min: f64,
}

/// An amount that goes up from app to app, and begins again after so many.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Amount {
    first: i64,
    step: i64,
    count: usize,
}

impl Amount {
    fn of(&self, app: usize) -> i64 {
        self.first + self.step * (app % self.count) as i64
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Terms {
    near: Vec<Box<str>>,
    away: Vec<Box<str>>,
    preferred: Vec<Preferred>,
    spread: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Preferred {
    weight: i32,
    topology_key: Box<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    binds: bool,
    max_skew: i32,
    topology_key: Box<str>,
}

impl Row {
    /// How many apps take turns.
    pub fn apps(&self) -> usize {
        self.apps
    }
}

impl Mix {
    /// What the file says.
    pub fn read() -> Self {
        serde_json::from_str(include_str!("../mix.json")).expect("mix.json is as it should be")
    }

    fn node(&self, index: usize) -> Fact {
        let Node { cpu_millis, memory_mib, pods, zones } = self.node;
        node(index, zones, amounts(cpu_millis, memory_mib << 20), pods)
    }

    /// The pod with this number.
    pub fn pod(&self, row: &Row, number: usize) -> PodFact {
        let app = number % row.apps;
        let (cpu_millis, memory_bytes) = (row.cpu_millis.of(app), row.memory_mib.of(app) << 20);
        let requests = requests(cpu_millis, memory_bytes);
        let terms = &self.terms[&row.terms[app % row.terms.len()]];
        let name: Box<str> = format!("app-{app}").into();
        PodFact {
            needs: Needs {
                taken: requests.clone(),
                requests,
                pod_affinity: terms.affinity(&name),
                spread: terms.spread(&name),
                ..Needs::default()
            },
            labels: BTreeMap::from([("app".into(), name)]),
            ..PodFact::new(&format!("uid-{number}"), "default", &format!("pod-{number}"))
        }
    }
}

impl Terms {
    fn affinity(&self, app: &str) -> PodAffinity {
        let term = |key: &str| PodTerm { pods: pods_of(app), topology_key: key.into() };
        let preferred = self.preferred.iter();
        PodAffinity {
            near: self.near.iter().map(|key| term(key)).collect(),
            away: self.away.iter().map(|key| term(key)).collect(),
            preferred: preferred.map(|one| (one.weight, term(&one.topology_key))).collect(),
        }
    }

    fn spread(&self, app: &str) -> Spread {
        let rule = |rule: &Rule| Constraint {
            binds: rule.binds,
            max_skew: rule.max_skew,
            topology_key: rule.topology_key.clone(),
            pods: pods_of(app),
            min_domains: 1,
            honours_affinity: true,
            honours_taints: false,
        };
        Spread(self.spread.iter().map(rule).collect())
    }
}

/// The pods of an app.
pub fn pods_of(app: &str) -> Clause {
    Clause::within("default", Selector::from_pairs([("app", app)]))
}

/// The name of the node with this number.
pub fn node_name(index: usize) -> Box<str> {
    format!("node-{index}").into()
}

/// The node with this number, of a cluster with so many zones.
pub fn node(index: usize, zones: usize, allocatable: Amounts, pods_allowed: i64) -> Fact {
    let zone = format!("zone-{}", index % zones);
    Fact::Node(NodeFact {
        name: node_name(index),
        labels: BTreeMap::from([(HOSTNAME.into(), node_name(index)), (ZONE.into(), zone.into())]),
        allocatable,
        pods_allowed,
        ..NodeFact::default()
    })
}

/// So much of a processor and of memory.
pub fn amounts(cpu_millis: i64, memory_bytes: i64) -> Amounts {
    Amounts { cpu_millis, memory_bytes, ..Amounts::default() }
}

/// What a pod asks for that asks for so much.
pub fn requests(cpu_millis: i64, memory_bytes: i64) -> Requests {
    Requests {
        charged: amounts(cpu_millis, memory_bytes),
        cpu_millis_scored: cpu_millis,
        memory_bytes_scored: memory_bytes,
    }
}

/// What this thread has had of a processor: others use the machine as well.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it does not run backwards")
}

/// Forgets the peak of memory so far.
pub fn forget_peak() {
    // Where this is not possible the peak is that of all rows so far, which is no less.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that the process had.
pub fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib * 1024.0 / 1e6)
}

/// A number that looks like any other.
fn scattered(number: usize) -> usize {
    let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20) as usize
}

/// A cluster with bound pods, and who decides on it.
pub struct World {
    ledger: Ledger,
    decider: Decider,
    /// Oldest first.
    placed: VecDeque<Uid>,
    bound: usize,
    decisions_per_deletion: usize,
    decided: usize,
}

impl World {
    /// A cluster of so many nodes with the pods of a row bound to them.
    pub fn new(mix: &Mix, row: &Row, nodes: usize) -> Self {
        let mut ledger = Ledger::default();
        let mut placed = VecDeque::new();
        for index in 0..nodes {
            ledger.apply(mix.node(index));
        }
        for number in 0..mix.bound {
            let mut fact = mix.pod(row, number);
            fact.uid = Uid::new(&format!("bound-{number}"));
            fact.node = Some(node_name(scattered(number) % nodes));
            placed.push_back(fact.uid.clone());
            ledger.apply(Fact::Pod(Box::new(fact)));
        }
        let decider = Decider::new(Profile::kubernetes(), &mut ledger, 1);
        let (bound, decisions_per_deletion) = (mix.bound, mix.decisions_per_deletion);
        Self { ledger, decider, placed, bound, decisions_per_deletion, decided: 0 }
    }

    /// Holds so many reservations, each for the pods of one app.
    pub fn reserve(&mut self, count: usize, nodes: usize, app: impl Fn(usize) -> String) {
        let profile = Profile::kubernetes().filter(Reservation::default());
        self.decider = Decider::new(profile, &mut self.ledger, 1);
        for number in 0..count {
            let name = format!("held-{number}");
            let mut pod = PodFact::new(&name, "default", &name);
            pod.node = Some(node_name(scattered(number) % nodes));
            let requests = requests(1_000, 16 << 30);
            (pod.needs.requests, pod.needs.taken) = (requests.clone(), requests.clone());
            let labels = Some(Selector::from_pairs([("app", app(number).as_str())]));
            let rules = ReservationRules {
                name: name.into(),
                owners: [OwnerRule { labels, ..OwnerRule::default() }].into(),
                policy: ReservationPolicy::Restricted,
                amounts: requests.charged,
                ..ReservationRules::default()
            };
            let own = ReservationFact { pod, rules: Arc::new(rules) };
            self.ledger.apply(Fact::Reservation(Box::new(own)));
        }
    }

    /// The same as [`World::decide`], where pods may use reservations; how many do.
    pub fn choose(&mut self, pods: Vec<PodFact>) -> usize {
        let mut inside = 0;
        for fact in pods {
            let uid = fact.uid.clone();
            self.ledger.apply(Fact::Pod(Box::new(fact)));
            let place = self.decider.choose(&mut self.ledger, &uid, self.decided as u64);
            let place = place.expect("it waits").expect("every pod finds a node");
            inside += usize::from(place.within != Within::Node);
            let ask = self.ledger.pod(&uid).expect("it was just told").ask;
            let own = self.decider.allot(&mut self.ledger, ask, &place).expect("it is there");
            self.ledger.claim(&uid, place.node, own.as_ref()).expect("it has no node yet");
            self.placed.push_back(uid);
            self.decided += 1;
            if self.decided.is_multiple_of(self.decisions_per_deletion) {
                self.delete_oldest();
            }
        }
        inside
    }

    /// Deletes the newest pods first, until as many are bound as in the beginning.
    pub fn trim_newest(&mut self) {
        while self.placed.len() > self.bound {
            if let Some(newest) = self.placed.pop_back() {
                self.ledger.apply(Fact::PodGone(newest));
            }
        }
    }

    /// The pods to decide for next.
    pub fn next(&self, mix: &Mix, row: &Row, count: usize) -> Vec<PodFact> {
        (self.decided..self.decided + count).map(|number| mix.pod(row, number)).collect()
    }

    /// Decides for one pod after the other, each applied before the next.
    pub fn decide(&mut self, pods: Vec<PodFact>) {
        for fact in pods {
            let uid = fact.uid.clone();
            self.ledger.apply(Fact::Pod(Box::new(fact)));
            let ask = self.ledger.pod(&uid).expect("it was just told").ask;
            let node = self.decider.pick(&self.ledger, ask, self.decided as u64);
            let node = node.expect("a measurement in which every pod finds a node");
            self.ledger.claim(&uid, node, None).expect("it has no node yet");
            self.placed.push_back(uid);
            self.decided += 1;
            if self.decided.is_multiple_of(self.decisions_per_deletion) {
                self.delete_oldest();
            }
        }
    }

    /// Deletes pods until as many are bound as in the beginning.
    pub fn trim(&mut self) {
        while self.placed.len() > self.bound {
            self.delete_oldest();
        }
    }

    fn delete_oldest(&mut self) {
        if let Some(oldest) = self.placed.pop_front() {
            self.ledger.apply(Fact::PodGone(oldest));
        }
    }
}
