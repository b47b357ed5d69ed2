//! A large simulation of reservations, by the engine as a whole: 5,000 nodes, 2,000 reservations that
//! find their nodes themselves, and 10,000 pods, of which a third own reservations.
//!
//! A reservation has room for two of its owners, and some apps have three: those of them that come
//! last have to do without. It prints the time and the memory that it took, and ends with an error
//! where a node has more on it than it has, where a reservation is used for more than it holds, or
//! where an owner that could use its reservation does not.

#![allow(clippy::disallowed_methods, reason = "a benchmark takes the time and reads its memory")]

mod world;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use engine::fact::{
    Allotment, DEFAULT_SCHEDULER, Fact, OwnerRule, PodFact, ReservationFact, ReservationPolicy,
    ReservationRules,
};
use engine::moment::Moment;
use engine::needs::{Needs, OwnReservation, ReservationNeeds};
use engine::plugins::node_numa_resource::NodeNuma;
use engine::plugins::reservation::Reservation;
use engine::profile::{Profile, Weight};
use engine::turn::{Settings, Verdict};
use object::selector::label::Selector;
use world::{amounts, node, node_name, peak_megabytes, processor_time, requests};

const NODES: usize = 5_000;
const RESERVATIONS: usize = 2_000;
const PODS: usize = 10_000;
/// Every so manieth pod owns a reservation.
const OWNERS_EVERY: usize = 3;
/// Apps whose pods own reservations, one for each app: fewer than there are reservations, so that some
/// reservations are for nobody who comes.
const APPS: usize = 1_400;
/// Nodes have room for two plain pods or reservations, so that nine tenths of all there is are used.
const NODE_MILLIS: i64 = 4_000;
const PLAIN_MILLIS: i64 = 2_000;
const OWNER_MILLIS: i64 = 1_000;
const OWNERS_PER_RESERVATION: usize = 2;
const MEMORY_BYTES: i64 = 1 << 30;
const NOW: Moment = Moment(1_000_000_000_000_000_000);

/// What became of a pod: its node, and the reservation that it uses.
struct Placed {
    node: Box<str>,
    inside: Option<Box<str>>,
    millis: i64,
}

fn app_of(pod: usize) -> Option<usize> {
    pod.is_multiple_of(OWNERS_EVERY).then_some(pod / OWNERS_EVERY % APPS)
}

fn pod(number: usize) -> PodFact {
    let app = app_of(number);
    let millis = if app.is_some() { OWNER_MILLIS } else { PLAIN_MILLIS };
    let requests = requests(millis, MEMORY_BYTES);
    let label = app.map_or("plain".to_owned(), |app| format!("app-{app}"));
    let name = format!("pod-{number}");
    PodFact {
        labels: BTreeMap::from([("app".into(), label.into())]),
        needs: Needs { taken: requests.clone(), requests, ..Needs::default() },
        ..PodFact::new(&name, "default", &name)
    }
}

/// A reservation for the pods of an app, which has no node yet.
fn reservation(app: usize) -> ReservationFact {
    let name = format!("held-{app}");
    let all = OWNERS_PER_RESERVATION as i64;
    let held = requests(all * OWNER_MILLIS, all * MEMORY_BYTES);
    let policy = ReservationPolicy::Restricted;
    let own = ReservationNeeds {
        own: Some(OwnReservation { policy, ..OwnReservation::default() }),
        ..ReservationNeeds::default()
    };
    let needs = Needs {
        taken: held.clone(),
        requests: held.clone(),
        reservation: Some(own),
        ..Needs::default()
    };
    let labels = Some(Selector::from_pairs([("app", format!("app-{app}").as_str())]));
    let rules = ReservationRules {
        name: name.as_str().into(),
        owners: [OwnerRule { labels, ..OwnerRule::default() }].into(),
        policy,
        amounts: held.charged,
        ..ReservationRules::default()
    };
    let pod = PodFact { needs, ..PodFact::new(&name, "", &name) };
    ReservationFact { pod, rules: Arc::new(rules) }
}

fn cluster() -> Engine {
    let profile = Profile::kubernetes().filter(Reservation::default());
    let profile = profile.filter(NodeNuma::default()).score(NodeNuma::default(), Weight(1));
    let profiles = vec![(DEFAULT_SCHEDULER.into(), profile)];
    let mut engine = Engine::new(Settings::default(), profiles, NOW);
    for index in 0..NODES {
        engine.apply(node(index, 3, amounts(NODE_MILLIS, 64 << 30), 110), NOW);
    }
    engine
}

/// The node that is decided on next, and what comes with it.
fn next(engine: &mut Engine, name: &str) -> (Box<str>, Option<Box<Allotment>>) {
    let decision = engine.decide(NOW).expect("one waits");
    assert_eq!(&*decision.pod.name, name, "they are decided on as they come");
    match decision.verdict {
        Verdict::Bind(node, own) => (node, own),
        other => panic!("{name} should find a node: {other:?}"),
    }
}

/// Gives reservations their nodes, by name.
fn reserve(engine: &mut Engine) -> BTreeMap<Box<str>, Box<str>> {
    let mut nodes = BTreeMap::new();
    for app in 0..RESERVATIONS {
        let mut fact = reservation(app);
        engine.apply(Fact::Reservation(Box::new(fact.clone())), NOW);
        let (node, own) = next(engine, &fact.pod.name);
        (fact.pod.node, fact.pod.allotment) = (Some(node.clone()), own.map(|own| *own));
        nodes.insert(fact.pod.name.clone(), node);
        engine.apply(Fact::Reservation(Box::new(fact)), NOW);
    }
    nodes
}

/// Gives pods their nodes, and shows each as bound before the next comes.
fn bind(engine: &mut Engine) -> Vec<Placed> {
    let place = |number: usize| {
        let mut fact = pod(number);
        let millis = fact.needs.requests.charged.cpu_millis;
        engine.apply(Fact::Pod(Box::new(fact.clone())), NOW);
        let (node, own) = next(engine, &fact.name);
        let inside = own.as_ref().and_then(|own| own.reservation.as_ref());
        let inside = inside.map(|own| own.name.clone());
        (fact.node, fact.allotment) = (Some(node.clone()), own.map(|own| *own));
        engine.apply(Fact::Pod(Box::new(fact)), NOW);
        Placed { node, inside, millis }
    };
    (0..PODS).map(place).collect()
}

/// What is wrong with where everybody is, counted apart from the engine.
fn wrongs(reserved: &BTreeMap<Box<str>, Box<str>>, pods: &[Placed]) -> Vec<String> {
    let all = OWNERS_PER_RESERVATION as i64 * OWNER_MILLIS;
    let (mut on_nodes, mut inside) = (BTreeMap::new(), BTreeMap::new());
    reserved.values().for_each(|node| *on_nodes.entry(node).or_insert(0) += all);
    let mut wrongs = Vec::new();
    for (number, Placed { node, inside: own, millis }) in pods.iter().enumerate() {
        let Some(own) = own else {
            *on_nodes.entry(node).or_insert(0) += millis;
            continue;
        };
        *inside.entry(own).or_insert(0) += millis;
        let expected = app_of(number).map(|app| format!("held-{app}"));
        if expected.as_deref() != Some(own) || reserved.get(own) != Some(node) {
            wrongs.push(format!("pod-{number} is on {node} inside of {own}"));
        }
    }
    let over = on_nodes.into_iter().filter(|(_, used)| *used > NODE_MILLIS);
    wrongs.extend(over.map(|(node, used)| format!("{node} has {used}m on it")));
    for app in 0..APPS {
        let owners = (0..PODS).filter(|pod| app_of(*pod) == Some(app)).count();
        let able = owners.min(OWNERS_PER_RESERVATION) as i64 * OWNER_MILLIS;
        let used = inside.get(&Box::from(format!("held-{app}"))).copied().unwrap_or(0);
        if used != able {
            wrongs.push(format!("of held-{app} {used}m are used and not {able}m"));
        }
    }
    wrongs
}

fn main() -> ExitCode {
    let mut engine = cluster();
    let began = processor_time();
    let reserved = reserve(&mut engine);
    let held = processor_time() - began;
    let pods = bind(&mut engine);
    let took = processor_time() - began - held;
    let micros = |time: Duration, count: usize| time.as_secs_f64() * 1e6 / count as f64;
    let inside = pods.iter().filter(|pod| pod.inside.is_some()).count();
    println!(
        "{NODES} nodes: {RESERVATIONS} reservations got their nodes in {held:.2?} ({:.0} µs each), \
         {PODS} pods in {took:.2?} ({:.0} µs each), {inside} of them inside; at most {:.0} MB",
        micros(held, RESERVATIONS),
        micros(took, PODS),
        peak_megabytes(),
    );
    let mut wrongs = wrongs(&reserved, &pods);
    let ledger = engine.ledger();
    let exceeded = (0..NODES).map(node_name).filter(|name| {
        ledger.nodes.find(name).is_none_or(|node| ledger.nodes.resources.is_exceeded(node))
    });
    wrongs.extend(exceeded.map(|name| format!("the engine takes {name} for too full")));
    wrongs.iter().take(20).for_each(|wrong| eprintln!("{wrong}"));
    if wrongs.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
