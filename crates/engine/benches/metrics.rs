//! What reports of load cost: 5,000 nodes report once a minute, each with 30 pods and three windows,
//! and each report is read from JSON and taken in by an engine whose nodes run those pods.
//!
//! The time is that of the processor; the median of the rounds counts. After every 50 reports a pod is
//! decided on: what has changed is found out anew then, and that counts as well. The benchmark ends with
//! an error where it is more of a core than it may be. What it costs to read a report, and a layout, is
//! told by itself and not judged.

#![allow(clippy::disallowed_methods, reason = "a benchmark takes the time")]

mod world;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use api::cpus::CPU_TOPOLOGY;
use api::{NodeMetric, NodeResourceTopology};
use engine::Engine;
use engine::fact::{DEFAULT_SCHEDULER, Fact, LoadTimes, PodFact};
use engine::moment::Moment;
use engine::needs::Needs;
use engine::plugins::load_aware::LoadAware;
use engine::profile::{Profile, Weight};
use engine::turn::{Settings, Verdict};
use serde_json::{Value, json};
use world::{amounts, node, node_name, processor_time, requests};

const NODES: usize = 5_000;
const PODS_PER_NODE: usize = 30;
/// The CPUs of a node, cores of two threads on so many NUMA nodes.
const CPUS: usize = 32;
const NUMAS: usize = 2;
const ROUNDS: usize = 5;
/// Reports between two decisions.
const REPORTS_PER_DECISION: usize = 50;
/// How often a node reports.
const REPORTED_EVERY: Duration = Duration::from_secs(60);
/// Parts of one core that may go into it.
const CORE_SHARE_MAX: f64 = 0.03;
/// 1 January 2026, in seconds.
const BEGAN: u64 = 1_767_225_600;

/// Some time after the beginning.
fn after(seconds: u64) -> Moment {
    Moment((BEGAN + seconds) * 1_000_000_000)
}

fn pod_name(node: usize, number: usize) -> String {
    format!("app-{number:02}-6c7d8f9b5-{node:05}")
}

fn pod(name: &str, node: Option<usize>) -> PodFact {
    let requests = requests(500, 1 << 30);
    PodFact {
        node: node.map(node_name),
        load_times: LoadTimes { scheduled: node.map(|_| after(0)), initialized: None },
        needs: Needs { taken: requests.clone(), requests, ..Needs::default() },
        ..PodFact::new(name, "default", name)
    }
}

fn used(cpu_millis: usize, memory_mib: usize) -> Value {
    json!({ "resources": { "cpu": format!("{cpu_millis}m"), "memory": format!("{memory_mib}Mi") } })
}

/// What a node reports in a round, as it is on the wire.
fn report(node: usize, round: usize) -> String {
    let load = 4_000 + (node * 31 + round * 997) % 4_000;
    let figures = || {
        let figure = |(at, name): (usize, &str)| (name.to_owned(), used(load + at * 100, 20_480));
        let names = ["avg", "p50", "p90", "p95", "p99"];
        names.into_iter().enumerate().map(figure).collect::<serde_json::Map<_, _>>()
    };
    let window = |duration: &str| json!({ "duration": duration, "usage": figures() });
    let of_pod = |number: usize| {
        json!({ "namespace": "default", "name": pod_name(node, number), "priority": "koord-prod",
                "qos": "LS", "podUsage": used(100 + (round * 7 + number) % 50, 512 + number) })
    };
    // Rounds are a minute apart, and what is reported is of that minute.
    let time = format!("2026-01-01T00:{:02}:{:02}Z", round + 10, node * 60 / NODES);
    let report = json!({
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {
            "name": &*node_name(node),
            "uid": format!("00000000-0000-4000-8000-{node:012}"),
            "resourceVersion": (round * NODES + node).to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
        },
        "spec": { "metricCollectPolicy": {
            "aggregateDurationSeconds": 300, "reportIntervalSeconds": 60,
            "nodeAggregatePolicy": { "durations": ["5m0s", "10m0s", "30m0s"] } } },
        "status": {
            "updateTime": time,
            "nodeMetric": {
                "nodeUsage": used(load, 20_480),
                "systemUsage": used(300, 1_024),
                "aggregatedNodeUsages": [window("5m0s"), window("10m0s"), window("30m0s")],
            },
            "podsMetric": (0..PODS_PER_NODE).map(of_pod).collect::<Vec<_>>(),
        },
    });
    report.to_string()
}

/// How the CPUs of a node lie, as it is on the wire.
fn layout(node: usize) -> String {
    let each = CPUS / NUMAS;
    let cpu =
        |id: usize| json!({ "id": id, "core": id / 2, "socket": id / each, "node": id / each });
    let detail = json!({ "detail": (0..CPUS).map(cpu).collect::<Vec<_>>() }).to_string();
    let amount = |name: &str, amount: &str| json!({ "name": name, "capacity": amount, "allocatable": amount, "available": amount });
    let zone = |numa: usize| {
        let resources = [amount("cpu", &each.to_string()), amount("memory", "128Gi")];
        json!({ "name": format!("node-{numa}"), "type": "Node", "resources": resources })
    };
    let layout = json!({
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": &*node_name(node),
            "uid": format!("00000000-0000-4000-9000-{node:012}"),
            "resourceVersion": node.to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
            "annotations": { CPU_TOPOLOGY: detail },
        },
        "topologyPolicies": [],
        "zones": (0..NUMAS).map(zone).collect::<Vec<_>>(),
    });
    layout.to_string()
}

fn read_report(text: &str) -> Fact {
    Fact::from(serde_json::from_str::<NodeMetric>(text).expect("it is a report"))
}

fn read_layout(text: &str) -> Fact {
    Fact::from(&serde_json::from_str::<NodeResourceTopology>(text).expect("it is a layout"))
}

/// The median of the rounds, in seconds for each object.
fn median(round: impl FnMut(usize) -> Duration) -> f64 {
    let mut each: Vec<f64> =
        (1..=ROUNDS).map(round).map(|all| all.as_secs_f64() / NODES as f64).collect();
    each.sort_unstable_by(f64::total_cmp);
    each[ROUNDS / 2]
}

/// Tells what it costs to make a fact of a text, and to forget it.
fn tell_reading(kind: &str, texts: &[String], read: fn(&str) -> Fact) {
    let each = median(|_| {
        let began = processor_time();
        texts.iter().for_each(|text| drop(black_box(read(text))));
        processor_time() - began
    });
    println!("| {kind} of {} bytes | {:.1} |", texts[0].len(), each * 1e6);
}

fn cluster() -> Engine {
    let profile = Profile::kubernetes().filter(LoadAware::default());
    let profile = profile.score(LoadAware::default(), Weight(1));
    let profiles = vec![(DEFAULT_SCHEDULER.into(), profile)];
    let mut engine = Engine::new(Settings::default(), profiles, after(0));
    for index in 0..NODES {
        engine.apply(node(index, 3, amounts(32_000, 256 << 30), 110), after(0));
        for number in 0..PODS_PER_NODE {
            let pod = pod(&pod_name(index, number), Some(index));
            engine.apply(Fact::Pod(Box::new(pod)), after(0));
        }
    }
    engine
}

/// Takes the reports of a round in, and returns the time that took.
fn run(engine: &mut Engine, round: usize) -> Duration {
    let reports: Vec<String> = (0..NODES).map(|node| report(node, round)).collect();
    let now = after(600 + 60 * round as u64);
    let began = processor_time();
    for (number, report) in reports.iter().enumerate() {
        engine.apply(read_report(report), now);
        if number.is_multiple_of(REPORTS_PER_DECISION) {
            let name = format!("new-{round}-{number}");
            engine.apply(Fact::Pod(Box::new(pod(&name, None))), now);
            let decided = engine.decide(now).expect("a pod waits").verdict;
            assert!(matches!(decided, Verdict::Bind(..)), "measuring a full cluster: {decided:?}");
        }
    }
    processor_time() - began
}

fn main() -> ExitCode {
    println!("| from JSON to a fact | µs each |");
    println!("|---|---|");
    let reports: Vec<String> = (0..NODES).map(|node| report(node, 0)).collect();
    tell_reading("NodeMetric", &reports, read_report);
    let layouts: Vec<String> = (0..NODES).map(layout).collect();
    tell_reading("NodeResourceTopology", &layouts, read_layout);
    drop((reports, layouts));
    println!();
    let mut engine = cluster();
    // The first round fills what is kept.
    run(&mut engine, 0);
    let of_core = NODES as f64 / REPORTED_EVERY.as_secs_f64();
    let each = median(|round| run(&mut engine, round));
    let share = each * of_core;
    println!(
        "| {NODES} reports a minute, {PODS_PER_NODE} pods each | ms each | percent of a core | at most |"
    );
    println!("|---|---|---|---|");
    println!(
        "| of {} bytes, read and taken in | {:.3} | {:.2} | {} |",
        report(0, 0).len(),
        each * 1e3,
        share * 1e2,
        CORE_SHARE_MAX * 1e2
    );
    if share > CORE_SHARE_MAX {
        eprintln!("reports cost more than they may");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
