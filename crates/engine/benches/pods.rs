//! What a pod costs the engine from when it comes until it is seen with its node, by Kubernetes' profile
//! and by Koordinator's: 10,000 pods come, each is decided on, and is told again as the server tells it
//! once its Binding is written.
//!
//! The cluster is that of `cargo xtask bench koordinator`: 5,000 nodes of 32 CPUs that say how these lie
//! and that have reported their load. Pods are read from JSON, which has a column of its own. The time is
//! that of the processor; rows take turns, and the median of the rounds counts. Nothing is judged: the bar
//! is on whole programs, and this is the part of it that can be seen without a server.

#![allow(clippy::disallowed_methods, reason = "a benchmark takes the time")]

mod world;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use api::elastic_quota::DEFAULT_QUOTA;
use api::node_metric::NodeMetric;
use api::pod::Pod;
use engine::Engine;
use engine::cpus::{Cpu, CpuTopology};
use engine::fact::{CpuLayout, DEFAULT_SCHEDULER, Fact, Uid};
use engine::gangs;
use engine::ledger::{LoadSettings, Stale};
use engine::moment::Moment;
use engine::plugins::load_aware::LoadAware;
use engine::plugins::node_numa_resource::NodeNuma;
use engine::plugins::node_resources::{Fit, Weighted};
use engine::plugins::reservation::Reservation;
use engine::plugins::scheduling_hint::SchedulingHint;
use engine::profile::{LastResort, Profile, Weight};
use engine::quota::{self, QuotaFact};
use engine::turn::{Answer, Settings, Verdict};
use serde_json::{Value, json};
use world::{amounts, node, node_name, processor_time};

const NODES: usize = 5_000;
const PODS: usize = 10_000;
const ROUNDS: usize = 5;
/// Pods an app.
const PODS_PER_APP: usize = 50;
/// Counts of CPUs that pods ask for that get their own: 1 to this.
const COUNTS: usize = 8;
/// Pods whose Bindings are under way while the next are decided on.
const UNDER_WAY: usize = 64;
/// Pods in a report; they are others than those that come.
const REPORTED: usize = 30;
const CPUS: u32 = 32;
const NUMAS: u32 = 2;
/// 1 January 2026, in seconds.
const BEGAN: u64 = 1_767_225_600;

/// A profile and the pods that come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    Kubernetes,
    Koordinator,
    /// Koordinator's profile, and pods that get CPUs of their own.
    Own,
}

impl Row {
    const ALL: [Self; 3] = [Self::Kubernetes, Self::Koordinator, Self::Own];

    fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "Kubernetes' profile, plain pods",
            Self::Koordinator => "Koordinator's profile, plain pods",
            Self::Own => "Koordinator's profile, pods with CPUs of their own",
        }
    }

    fn profile(self) -> Profile {
        match self {
            Self::Kubernetes => Profile::kubernetes(),
            Self::Koordinator | Self::Own => koordinator(),
        }
    }
}

/// What the scheduler makes of the file of Koordinator's chart, as far as it judges.
fn koordinator() -> Profile {
    let named = ["cpu", "memory", "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"];
    let resources = named.map(|name| Weighted { resource: name.into(), weight: 1 });
    let fit = Fit { resources: resources.into(), ..Fit::default() };
    let load = LoadSettings {
        stale: Stale::Believed,
        expires_after: Duration::from_secs(300),
        ..LoadSettings::default()
    };
    let load = LoadAware { settings: Arc::new(load) };
    let mut profile = Profile::kubernetes().filter(SchedulingHint::default());
    let scored = profile.scores.iter_mut();
    let scored = scored.filter(|(score, _)| score.plugin().name() == "NodeResourcesFit");
    scored.for_each(|(score, _)| *score = Box::new(fit.clone()));
    profile.gangs = Some(gangs::Settings::default());
    profile.quota = Some(quota::Settings { spares_default: true, ..quota::Settings::default() });
    profile.last_resorts =
        vec![LastResort::Reservation(None), LastResort::Coscheduling, LastResort::ElasticQuota];
    profile
        .filter(Reservation::default())
        .filter(load.clone())
        .filter(NodeNuma::default())
        .score(load, Weight(1))
        .score(NodeNuma::default(), Weight(1))
}

/// The quota of all pods that name no other, as every cluster has it.
fn default_quota() -> Fact {
    let unlimited = ["cpu", "memory"].map(|name| (name.into(), i64::MAX / 5));
    let quota = QuotaFact { created: after(0), ..QuotaFact::new(DEFAULT_QUOTA, unlimited.into()) };
    Fact::Quota(Box::new(quota))
}

/// A while after the beginning.
fn after(seconds: u64) -> Moment {
    Moment((BEGAN + seconds) * 1_000_000_000)
}

/// Cores of two threads on two NUMA nodes.
fn layout() -> CpuLayout {
    let each = CPUS / NUMAS;
    let cpu = |id| Cpu { id, core: id / 2, numa: id / each, socket: id / each };
    let zone = amounts(i64::from(each) * 1_000, 128 << 30);
    CpuLayout {
        topology: CpuTopology::new((0..CPUS).map(cpu)),
        zones: (0..NUMAS).map(|numa| (numa, zone.clone())).collect(),
        ..CpuLayout::default()
    }
}

fn report(index: usize) -> NodeMetric {
    let used = |millis: usize, mib: usize| json!({ "resources": { "cpu": format!("{millis}m"), "memory": format!("{mib}Mi") } });
    let of_pod = |number: usize| {
        json!({ "namespace": "others", "name": format!("service-{number:02}-6c7d8f9b5-{index:05}"),
                "priority": "koord-prod", "qos": "LS", "podUsage": used(40 + number, 512 + number) })
    };
    let report = json!({
        "metadata": { "name": &*node_name(index) },
        "status": {
            "updateTime": "2026-01-01T00:00:00Z",
            "nodeMetric": {
                "nodeUsage": used(2_000 + index * 31 % 1_000, 20_480),
                "systemUsage": used(300, 1_024),
            },
            "podsMetric": (0..REPORTED).map(of_pod).collect::<Vec<_>>(),
        },
    });
    serde_json::from_value(report).expect("it is a report")
}

/// A pod as the server tells it before it has a node.
fn pod(row: Row, number: usize) -> Value {
    let cpu = match row {
        Row::Own => (number % COUNTS + 1).to_string(),
        _ => "100m".to_owned(),
    };
    let app = format!("plain-{}", number / PODS_PER_APP);
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("pod-{number:06}"),
            "namespace": "bench",
            "uid": format!("00000000-0000-4000-8000-{number:012}"),
            "resourceVersion": (100_000 + number).to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
            "labels": { "app": app, "pod-template-hash": "6c7d8f9b5" },
        },
        "spec": {
            "containers": [{
                "name": "main",
                "image": "registry.example/app:1.2.3",
                "ports": [{ "containerPort": 8080, "protocol": "TCP" }],
                "env": [{ "name": "MODE", "value": "bench" }],
                "resources": { "requests": { "cpu": cpu, "memory": "128Mi" } },
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": DEFAULT_SCHEDULER,
            "tolerations": [
                { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                  "tolerationSeconds": 300 },
                { "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
                  "tolerationSeconds": 300 },
            ],
            "priority": 0,
            "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": { "phase": "Pending", "qosClass": "Burstable" },
    });
    if row == Row::Own {
        pod["metadata"]["labels"]["koordinator.sh/qosClass"] = json!("LSR");
    }
    pod
}

/// The same once its Binding is written.
fn bound(
    mut pod: Value,
    number: usize,
    node: &str,
    stamps: Vec<(&'static str, String)>,
) -> Vec<u8> {
    pod["metadata"]["resourceVersion"] = json!((200_000 + number).to_string());
    for (key, value) in stamps {
        pod["metadata"]["annotations"][key] = json!(value);
    }
    pod["spec"]["nodeName"] = json!(node);
    pod["status"]["conditions"] = json!([{
        "type": "PodScheduled", "status": "True", "observedGeneration": 1,
        "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:30Z",
    }]);
    pod.to_string().into_bytes()
}

fn cluster(row: Row) -> Engine {
    let profiles = vec![(DEFAULT_SCHEDULER.into(), row.profile())];
    let mut engine = Engine::new(Settings::default(), profiles, after(0));
    engine.apply(default_quota(), after(0));
    for index in 0..NODES {
        engine.apply(node(index, 3, amounts(i64::from(CPUS) * 1_000, 256 << 30), 110), after(0));
        let layout = Some(Arc::new(layout()));
        engine.apply(Fact::Layout { node: node_name(index), layout }, after(0));
        engine.apply(Fact::from(report(index)), after(0));
    }
    engine
}

/// What a part took. It is a function of its own for those who count instructions only here, under
/// Valgrind, where the clock cannot be read.
#[inline(never)]
fn timed<T>(sum: &mut Duration, act: impl FnOnce() -> T) -> T {
    if std::env::var_os("UNTIMED").is_some() {
        return act();
    }
    let began = processor_time();
    let outcome = act();
    *sum += processor_time() - began;
    outcome
}

fn read(body: &[u8]) -> Fact {
    let pod: Pod = serde_json::from_slice(body).expect("it is a pod");
    Fact::from(&pod)
}

/// Processor time for reading pods and for the engine.
fn run(row: Row) -> [Duration; 2] {
    let mut engine = cluster(row);
    let [mut reading, mut deciding] = [Duration::ZERO; 2];
    let bodies: Vec<Vec<u8>> =
        (0..PODS).map(|number| pod(row, number).to_string().into()).collect();
    let facts: Vec<Fact> = timed(&mut reading, || bodies.iter().map(|body| read(body)).collect());
    timed(&mut deciding, || facts.into_iter().for_each(|fact| engine.apply(fact, after(1))));
    let mut under_way: VecDeque<(Uid, Vec<u8>)> = VecDeque::new();
    let mut left = PODS;
    while left > 0 || !under_way.is_empty() {
        // What is not the engine's work is done for a whole batch, between two looks at the clock.
        let decided = timed(&mut deciding, || {
            let each =
                (0..UNDER_WAY.min(left)).map(|_| engine.decide(after(2)).expect("one waits"));
            each.collect::<Vec<_>>()
        });
        left -= decided.len();
        let answered: Vec<(Uid, Vec<u8>)> = under_way.drain(..).collect();
        let facts: Vec<(Uid, Fact)> = timed(&mut reading, || {
            answered.into_iter().map(|(uid, body)| (uid, read(&body))).collect()
        });
        timed(&mut deciding, || {
            for (uid, fact) in facts {
                engine.answered(&uid, Answer::Done, after(2));
                engine.apply(fact, after(2));
            }
        });
        for decision in decided {
            let Verdict::Bind(node, own) = decision.verdict else {
                panic!("measuring pods that find no node: {:?}", decision.verdict);
            };
            assert_eq!(own.is_some(), row == Row::Own, "CPUs are for those that ask for them");
            let number = decision.pod.name.trim_start_matches("pod-").parse().expect("a number");
            let stamps = own.map(|own| own.stamps()).unwrap_or_default();
            under_way.push_back((decision.pod.uid, bound(pod(row, number), number, &node, stamps)));
        }
    }
    [reading, deciding]
}

fn main() {
    // For whoever looks into one row with a profiler, which makes everything slow.
    if let Ok(word) = std::env::var("ONLY") {
        let rows = Row::ALL.into_iter().filter(|row| row.name().contains(&word));
        return rows.for_each(|row| println!("{}: {:?}", row.name(), run(row)));
    }
    let mut samples = [const { Vec::new() }; Row::ALL.len()];
    for _ in 0..ROUNDS {
        for (row, samples) in Row::ALL.into_iter().zip(&mut samples) {
            samples.push(run(row).map(|own| own.as_secs_f64() * 1e6 / PODS as f64));
        }
    }
    let median = |samples: &[[f64; 2]], part: usize| {
        let mut own: Vec<f64> = samples.iter().map(|sample| sample[part]).collect();
        own.sort_unstable_by(f64::total_cmp);
        own[own.len() / 2]
    };
    let first = [0, 1].map(|part| median(&samples[0], part));
    println!(
        "| {PODS} pods on {NODES} nodes | read, µs a pod | engine, µs a pod | engine, to the first row |"
    );
    println!("|---|---|---|---|");
    for (row, samples) in Row::ALL.into_iter().zip(&samples) {
        let [read, engine] = [0, 1].map(|part| median(samples, part));
        println!("| {} | {read:.1} | {engine:.1} | {:.2}x |", row.name(), engine / first[1]);
    }
}
