//! How long it takes to copy what questions about nodes are asked of, and to answer one: that the
//! engine stands still for, and this it does not.

#![allow(clippy::disallowed_methods, reason = "a benchmark takes the time")]

mod world;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::decide::Decider;
use engine::fact::{Fact, PodFact};
use engine::ledger::Ledger;
use engine::moment::Moment;
use engine::needs::Needs;
use engine::profile::Profile;
use engine::why::explain;
use world::{amounts, node, node_name, requests};

const NODES: usize = 5_000;
const PODS: usize = 50_000;
const ROUNDS: usize = 9;
/// Pods that go while a snapshot is there.
const CHANGES: usize = 100;

fn pod(number: usize, apps: usize, node: Option<usize>, cpu_millis: i64) -> PodFact {
    let requests = requests(cpu_millis, 1 << 20);
    let name = format!("pod-{number}");
    let app = format!("app-{}", number % apps);
    PodFact {
        labels: BTreeMap::from([("app".into(), app.into())]),
        node: node.map(node_name),
        needs: Needs { taken: requests.clone(), requests, ..Needs::default() },
        ..PodFact::new(&name, "default", &name)
    }
}

fn cluster(apps: usize) -> Ledger {
    let mut ledger = Ledger::default();
    for index in 0..NODES {
        ledger.apply(node(index, 3, amounts(8_000, 64 << 30), 110));
    }
    for number in 0..PODS {
        ledger.apply(Fact::Pod(Box::new(pod(number, apps, Some(number % NODES), 100))));
    }
    ledger
}

/// The median time of some rounds.
fn median(mut round: impl FnMut()) -> Duration {
    let mut took: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let begun = Instant::now();
            round();
            begun.elapsed()
        })
        .collect();
    took.sort_unstable();
    took[ROUNDS / 2]
}

fn main() {
    for apps in [500, PODS] {
        let ledger = cluster(apps);
        let snapshot = median(|| drop(std::hint::black_box(ledger.snapshot(None))));
        let whole = median(|| drop(std::hint::black_box(ledger.clone())));
        let asked = pod(PODS, apps, None, 9_000);
        let answer = median(|| {
            let mut copy = ledger.snapshot(None);
            let mut decider = Decider::new(Profile::kubernetes(), &mut copy, 0);
            let told = explain(&mut copy, &mut decider, &asked, Moment(0));
            assert_eq!((told.nodes, told.fitting), (NODES, 0), "measuring another answer");
        });
        let mut changed = cluster(apps);
        let mut number = 0;
        let change = median(|| {
            // Every change is the first after a snapshot that somebody still has.
            let shared = changed.snapshot(None);
            for _ in 0..CHANGES {
                number += 1;
                let gone = pod(number % PODS, apps, None, 100).uid;
                changed.apply(Fact::PodGone(gone));
            }
            drop(shared);
        });
        println!(
            "{NODES} nodes, {PODS} pods of {apps} apps: snapshot made and dropped {snapshot:?}, \
             whole copy {whole:?}, snapshot and answer {answer:?}, snapshot and {CHANGES} changes \
             while it is there {change:?}"
        );
    }
}
