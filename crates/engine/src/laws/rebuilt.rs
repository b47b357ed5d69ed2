//! Whatever came when, and whatever was decided meanwhile: once every answer is in, the ledger is what
//! a scheduler that starts now would make of the objects.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use super::order::whole;
use super::reservations::RESERVATIONS;
use super::{Step, decider, labels, needs, play, step, uid};
use crate::fact::{Fact, PodRef, Uid};
use crate::ledger::{Ledger, PodRow, Reservation};

/// What a fact is about: the later of two that are about the same counts. Storage says itself which of
/// two is the later one, and is told whole.
fn subject(fact: &Fact) -> Option<String> {
    Some(match fact {
        Fact::Node(node) => format!("node {}", node.name),
        Fact::NodeGone(name) => format!("node {name}"),
        Fact::Pod(pod) => pod.uid.0.to_string(),
        Fact::Reservation(own) => own.pod.uid.0.to_string(),
        Fact::PodGone(uid) | Fact::PodFailed(uid) => uid.0.to_string(),
        Fact::Namespace { name, .. } | Fact::NamespaceGone(name) => format!("namespace {name}"),
        Fact::Owner { namespace, owner, .. } => format!("{namespace}/{:?}", owner),
        Fact::Gang { id, .. } => format!("gang {id}"),
        Fact::Quota(own) => format!("quota {}/{}", own.namespace, own.name),
        Fact::QuotaGone { namespace, name } => format!("quota {namespace}/{name}"),
        Fact::Budget { namespace, name, .. } => format!("budget {namespace}/{name}"),
        Fact::Load { node, .. } => format!("load of {node}"),
        Fact::Layout { node, .. } => format!("layout of {node}"),
        Fact::Storage(_) => return None,
    })
}

/// The last fact about each object, in the order of objects.
fn latest(steps: &[Step]) -> BTreeMap<String, Fact> {
    let facts = steps.iter().filter_map(|step| match step {
        Step::Fact(fact) => Some((subject(fact)?, fact.clone())),
        _ => None,
    });
    facts.collect()
}

/// Each answer that is still to come does, and says that nothing came of what was decided; what is to be
/// written is, and the objects are told once more.
fn settle(ledger: &mut Ledger, latest: &BTreeMap<String, Fact>) {
    for own in RESERVATIONS.map(uid) {
        ledger.adoptions_are_written(&own);
        ledger.resize(&own, None);
    }
    for pod in (0..RESERVATIONS.end).map(uid) {
        let _ = ledger.disclaim(&pod);
    }
    for fact in latest.values().filter(|fact| matches!(fact, Fact::Pod(_))) {
        ledger.apply(fact.clone());
    }
}

/// A reservation by names: where it is, what is used of it and what is left.
fn told(ledger: &Ledger, own: Reservation<'_>) -> String {
    let amount = |name: &str| {
        let (held, used) = (own.rules.amounts.of(name), own.used.amounts.of(name));
        (held, used, own.spare.amounts.of(name))
    };
    let amounts = ["cpu", "memory", "ephemeral-storage", "example.com/gpu"].map(amount);
    let users: Vec<&Uid> = ledger.users(own).into_iter().map(|(uid, _)| uid).collect();
    let (node, spare) = (ledger.nodes.name(own.node), own.spare);
    format!(
        "{node} {amounts:?} {} {users:?} {} {:?} {:?} {:?} {:?}",
        own.used.pods, spare.pods, spare.ports, spare.cpus, spare.exclusive, spare.zones
    )
}

/// All that can be seen of reservations and of what nodes are charged for, by names.
fn charged(ledger: &Ledger) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    // Where a node is not there, a pod on it is where nobody looks.
    let is_there = |uid: &Uid| {
        let node = ledger.pod(uid).and_then(PodRow::node);
        node.is_some_and(|node| ledger.nodes.present().contains(node))
    };
    let names = |pods: Vec<PodRef>| {
        let pods = pods.into_iter().map(|pod| pod.uid).filter(|uid| is_there(uid));
        pods.collect::<BTreeSet<Uid>>()
    };
    for uid in (0..RESERVATIONS.end).map(uid) {
        let own = ledger.reservations.find(&uid).filter(|_| is_there(&uid));
        let own = own.map(|own| told(ledger, own));
        let (here, elsewhere) = ledger.adopted(&uid);
        let users: BTreeSet<Uid> = names(here).union(&names(elsewhere)).cloned().collect();
        let row = ledger.pod(&uid).map(|row: &PodRow| (row.adoption.clone(), row.is_placed()));
        all.insert(uid.0.to_string(), format!("{own:?} {users:?} {row:?}"));
    }
    for node in ledger.nodes.present().iter() {
        let (at, resources) = (node.get(), &ledger.nodes.resources);
        let amounts = ["cpu", "memory", "ephemeral-storage", "example.com/gpu"]
            .map(|name| resources.requested(node, name));
        let mut ports = ledger.nodes.ports(node).to_vec();
        ports.sort_unstable();
        let scored = (resources.cpu_scored[at], resources.memory_scored[at]);
        let cpus = ledger.cpus.of(node).map(|own| (&own.sets, &own.zones, own.free));
        let told = format!("{amounts:?} {} {ports:?} {scored:?} {cpus:?}", ledger.nodes.pods[at]);
        all.insert(ledger.nodes.name(node).to_owned(), told);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_settled_equals_what_the_objects_say(
        steps in vec(step(), 1..80),
        asks in vec(needs(), 1..3),
        like in labels(),
    ) {
        let mut ledger = Ledger::default();
        let mut decider_of = decider(&mut ledger);
        for (number, step) in (0..).zip(&steps) {
            play(&mut ledger, &mut decider_of, step, number);
        }
        let latest = latest(&steps);
        settle(&mut ledger, &latest);
        let mut anew = Ledger::default();
        drop(decider(&mut anew));
        for step in &steps {
            if let Step::Fact(fact @ Fact::Storage(_)) = step {
                anew.apply(fact.clone());
            }
        }
        latest.into_values().for_each(|fact| anew.apply(fact));
        prop_assert_eq!(charged(&ledger), charged(&anew));
        prop_assert_eq!(whole(ledger, &asks, &like), whole(anew, &asks, &like));
    }
}
