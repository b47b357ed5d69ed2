use std::time::Duration;

use object::quantity::Quantity;
use object::selector::label::Selector;
use object::taint::{Taint, Toleration, TolerationOperator};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::fact::{
    Claim, ClaimReference, Class, DEFAULT_SCHEDULER, NodeFact, PersistentVolume, Source,
    StorageFact, Version,
};
use crate::laws::fact;
use crate::needs::{
    Amounts, Clause, Needs, Owner, OwnerKind, PodTerm, Requests, Tolerations, Volume, Volumes,
};
use crate::profile::Consulting;
use crate::queue::Standing;

pub(in crate::turn) const START: Moment = Moment(1_000_000_000_000_000_000);

fn engine() -> Engine {
    asking(Consulting::Never)
}

/// An engine with two profiles, of which the second asks somebody outside about these pods.
pub(in crate::turn) fn asking(consulting: Consulting) -> Engine {
    let profiles = vec![
        (DEFAULT_SCHEDULER.into(), Profile::kubernetes()),
        ("other".into(), Profile { consulting, ..Profile::kubernetes() }),
    ];
    Engine::new(Settings::default(), profiles, START)
}

pub(in crate::turn) fn node(name: &str, cpu_millis: i64) -> Fact {
    Fact::Node(NodeFact {
        name: name.into(),
        allocatable: Amounts { cpu_millis, ..Amounts::default() },
        pods_allowed: 110,
        ..NodeFact::default()
    })
}

pub(in crate::turn) fn pod(name: &str, cpu_millis: i64) -> PodFact {
    let charged = Amounts { cpu_millis, ..Amounts::default() };
    let requests = Requests { charged, cpu_millis_scored: cpu_millis, ..Requests::default() };
    let needs = Needs { taken: requests.clone(), requests, ..Needs::default() };
    PodFact { needs, ..PodFact::new(name, "default", name) }
}

pub(in crate::turn) fn told(fact: PodFact) -> Fact {
    Fact::Pod(Box::new(fact))
}

/// Decides all that can be decided, does what is to be done for pods that wait, and writes it down.
pub(in crate::turn) fn decided(engine: &mut Engine, now: Moment) -> Vec<String> {
    let written = |decision: Decision| {
        let Decision { pod, attempts, verdict, .. } = decision;
        match verdict {
            Verdict::Bind(node, _) => format!("{} to {node}, try {attempts}", pod.name),
            Verdict::Prepare(node, writes) => format!("{} to {node} after {writes:?}", pod.name),
            Verdict::Consult(ticket, nodes) => {
                format!("{} of {}? {}", pod.name, nodes.join("+"), ticket.0)
            }
            Verdict::Failed(why) => format!("{} failed, try {attempts}: {why}", pod.name),
            Verdict::Wait(why) => match why.room() {
                Some(room) => {
                    let victims: Vec<&str> =
                        room.victims.iter().map(|one| &*one.pod.name).collect();
                    format!("{} waits for {} to go", pod.name, victims.join(" and "))
                }
                None => format!("{} waits, try {attempts}: {}", pod.name, why.examination),
            },
            Verdict::Await(why) => format!("{} waits: {why}", pod.name),
            Verdict::Unprepared(why) => format!("{} is not ready: {why}", pod.name),
        }
    };
    let next = || {
        let decision = engine.decide(now)?;
        engine.done(&decision.pod.uid, now);
        Some(decision)
    };
    std::iter::from_fn(next).map(written).collect()
}

#[test]
fn a_pod_goes_where_there_is_room_and_waits_where_there_is_none() {
    let mut engine = engine();
    engine.apply(told(pod("early", 1000)), START);
    assert_eq!(
        decided(&mut engine, START),
        ["early waits, try 1: no nodes available to schedule pods"]
    );
    engine.apply(node("a", 1500), START);
    engine.apply(told(pod("late", 1000)), START);
    assert_eq!(
        decided(&mut engine, START),
        ["late to a, try 1", "early waits, try 2: 0/1 nodes are available: 1 Insufficient cpu."]
    );
    engine.apply(node("b", 1000), START);
    assert_eq!(decided(&mut engine, START), ["early to b, try 3"]);
    assert!(engine.queue().is_empty());
}

#[test]
fn a_binding_that_failed_for_sure_frees_the_node_and_the_pod_is_tried_again_after_a_while() {
    let mut engine = engine();
    engine.apply(node("a", 1000), START);
    engine.apply(told(pod("one", 1000)), START);
    assert_eq!(decided(&mut engine, START), ["one to a, try 1"]);
    // What the API server still shows does not end the claim.
    engine.apply(told(pod("one", 1000)), START);
    engine.apply(told(pod("two", 1000)), START);
    let full = "two waits, try 1: 0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(decided(&mut engine, START), [full]);
    engine.answered(&Uid::new("one"), Answer::Refused, START);
    assert!(matches!(engine.queue().standing(&Uid::new("one")), Some(Standing::ErrorBackoff(_))));
    assert_eq!(decided(&mut engine, START), ["two to a, try 2"]);
    engine.answered(&Uid::new("two"), Answer::Lost, START);
    assert_eq!(decided(&mut engine, START), [""; 0], "it is gone, and the other one backs off");
    let later = engine.next_due(START).unwrap();
    assert!(later.since(START) <= Duration::from_secs(3));
    assert_eq!(decided(&mut engine, later), ["one to a, try 2"]);
    engine.answered(&Uid::new("one"), Answer::Done, later);
    engine.apply(Fact::PodGone(Uid::new("one")), later);
    engine.answered(&Uid::new("one"), Answer::Refused, later);
    assert!(engine.queue().is_empty());
}

#[test]
fn only_pods_of_our_profiles_that_may_be_tried_are_decided() {
    let check = |change: &dyn Fn(&mut PodFact), expected: usize| {
        let mut engine = engine();
        engine.apply(node("a", 1000), START);
        let mut fact = pod("one", 1000);
        change(&mut fact);
        engine.apply(told(fact), START);
        assert_eq!(decided(&mut engine, START).len(), expected);
        engine
    };
    check(&|_| {}, 1);
    check(&|pod| pod.scheduler = "other".into(), 1);
    check(&|pod| pod.scheduler = "somebody".into(), 0);
    check(&|pod| pod.deleting = true, 0);
    check(&|pod| pod.node = Some("a".into()), 0);
    let mut engine = check(&|pod| pod.gates = ["wait".into()].into(), 0);
    engine.apply(told(pod("one", 1000)), START);
    assert_eq!(decided(&mut engine, START), ["one to a, try 1"]);
}

#[test]
fn a_pod_of_another_scheduler_takes_room() {
    let mut engine = engine();
    engine.apply(node("a", 1000), START);
    let theirs = PodFact { scheduler: "theirs".into(), node: Some("a".into()), ..pod("one", 600) };
    engine.apply(told(theirs), START);
    engine.apply(told(pod("two", 600)), START);
    let full = "two waits, try 1: 0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(decided(&mut engine, START), [full]);
}

#[test]
fn room_is_made_for_a_pod_of_higher_priority_and_kept_for_it() {
    let mut engine = engine();
    let bound = |name: &str| PodFact { node: Some("a".into()), ..pod(name, 500) };
    for fact in [node("a", 1000), told(bound("one")), told(bound("two"))] {
        engine.apply(fact, START);
    }
    engine.apply(told(PodFact { priority: 10, ..pod("high", 500) }), START);
    let decision = engine.decide(START).unwrap();
    let Verdict::Wait(waiting) = decision.verdict else { panic!("there is no room yet") };
    let full = "0/1 nodes are available: 1 Insufficient cpu.";
    assert!(waiting.beyond_nodes().is_none());
    assert_eq!(waiting.to_string(), full, "the event says nothing of the room that is made");
    let victim = waiting.room().unwrap().victims[0].pod.clone();
    assert_eq!(engine.ledger().nominated(&Uid::new("high")), Some("a"));
    engine.done(&Uid::new("high"), START);
    // While the victim leaves, nobody else is chosen, and nobody else gets its room.
    engine.apply(told(PodFact { deleting: true, ..bound(&victim.name) }), START);
    engine.apply(told(pod("low", 500)), START);
    engine.apply(Fact::PodGone(victim.uid), START);
    let told = decided(&mut engine, START.after(Duration::from_secs(2)));
    assert_eq!(told[0], "high to a, try 2");
    assert_eq!(told[1], format!("low waits, try 1: {full}"));
}

#[test]
fn pods_with_labels_that_nobody_names_speak_for_each_other_until_somebody_does() {
    let mut engine = engine();
    engine.apply(node("a", 1000), START);
    for number in 0..100 {
        let mut fact = pod(&format!("set-{number}"), 2000);
        let labels = [("app", "set".to_owned()), ("index", number.to_string())];
        fact.labels = labels.map(|(key, value)| (key.into(), value.into())).into();
        engine.apply(told(fact), START);
    }
    assert_eq!(decided(&mut engine, START).len(), 100);
    assert_eq!(engine.queue().waiting_groups(), 1);
    // A pod that is there already minds one of them.
    let mut minds = pod("minds", 0);
    minds.node = Some("a".into());
    let seven = Selector::from_pairs([("index", "7")]);
    let pods = Clause::within("default", seven);
    let term = PodTerm { topology_key: "kubernetes.io/hostname".into(), pods };
    minds.needs.pod_affinity.away = [term].into();
    engine.apply(told(minds), START);
    let later = START.after(Duration::from_secs(5));
    let asked = decided(&mut engine, later);
    assert_eq!(asked.len(), 1, "only the one that is minded now: {asked:?}");
    assert!(asked[0].starts_with("set-7 "), "{asked:?}");
    assert_eq!(engine.queue().waiting_groups(), 2);
    engine.apply(node("b", 4000), later);
    let later = START.after(Duration::from_secs(10));
    let placed = decided(&mut engine, later);
    assert_eq!(placed.iter().filter(|told| told.contains(" to b")).count(), 2, "{placed:?}");
}

#[test]
fn a_pod_that_becomes_another_hears_what_those_heard_whom_it_leaves() {
    let mut engine = engine();
    engine.apply(node("a", 1000), START);
    for name in ["one", "two"] {
        engine.apply(told(pod(name, 2000)), START);
    }
    assert_eq!(decided(&mut engine, START).len(), 2);
    // One of them finds out for both that there is room, behind a taint.
    let taint = Taint {
        key: "guests".into(),
        effect: Some(object::taint::Effect::NoSchedule),
        ..Taint::default()
    };
    let Fact::Node(tainted) = node("b", 4000) else { unreachable!("it is a node") };
    engine.apply(Fact::Node(NodeFact { taints: [taint].into(), ..tainted }), START);
    let later = START.after(Duration::from_secs(5));
    let tried = decided(&mut engine, later);
    assert_eq!(tried.len(), 1, "{tried:?}");
    let (spoke, other) = if tried[0].starts_with("one") { ("one", "two") } else { ("two", "one") };
    // The other is allowed there.
    let mut allowed = pod(other, 2000);
    let everything =
        Toleration { operator: Some(TolerationOperator::Exists), ..Toleration::default() };
    allowed.needs.tolerations = Tolerations([everything].into());
    engine.apply(told(allowed), later);
    let placed = decided(&mut engine, START.after(Duration::from_secs(20)));
    assert_eq!(placed, [format!("{other} to b, try 2")], "{spoke} spoke for it");
}

#[test]
fn pods_that_a_selector_finds_while_one_speaks_for_them_do_not_sleep_on() {
    // Whoever speaks for the others may be the first that is told, or the last.
    for speaker in ["set-00", "set-99"] {
        let mut engine = engine();
        let labelled = |name: &str| {
            let mut fact = pod(name, 2000);
            fact.labels = [("app".into(), "set".into()), ("name".into(), name.into())].into();
            fact
        };
        engine.apply(node("a", 1000), START);
        engine.apply(told(labelled(speaker)), START);
        decided(&mut engine, START);
        for number in 1..99 {
            engine.apply(told(labelled(&format!("set-{number:02}"))), START);
        }
        decided(&mut engine, START);
        assert_eq!(engine.queue().waiting_groups(), 1);
        // Room for all: one of them is woken, and not tried yet.
        let later = START.after(Duration::from_secs(5));
        engine.apply(node("b", 1_000_000), later);
        let mut minds = pod("minds", 0);
        minds.node = Some("a".into());
        let pods = Clause::within("default", Selector::from_pairs([("app", "set")]));
        let term = PodTerm { topology_key: "kubernetes.io/hostname".into(), pods };
        minds.needs.pod_affinity.away = [term].into();
        engine.apply(told(minds), later);
        let mut placed = 0;
        for seconds in 5..10 {
            let now = START.after(Duration::from_secs(seconds));
            let told = decided(&mut engine, now);
            placed += told.iter().filter(|told| told.contains(" to b")).count();
        }
        assert_eq!(placed, 99, "{speaker}");
        assert_eq!(engine.queue().missed_wakes(), 0);
    }
}

#[test]
fn a_pod_whose_room_is_given_to_another_looks_for_room_elsewhere_at_once() {
    let mut engine = engine();
    engine.apply(node("a", 4000), START);
    engine.apply(node("b", 2000), START);
    for (name, at) in [("v1", "a"), ("v2", "a"), ("w", "b")] {
        engine.apply(told(PodFact { node: Some(at.into()), ..pod(name, 2000) }), START);
    }
    engine.apply(told(PodFact { priority: 10, ..pod("q", 2000) }), START);
    let first = decided(&mut engine, START);
    let nominated: Box<str> = engine.ledger().nominated(&Uid::new("q")).unwrap().into();
    assert_eq!(first.len(), 1, "{first:?}");
    // Larger and more important, it needs all of the node on which room is made, or the other one.
    let large = PodFact { priority: 100, ..pod("p", 4000) };
    engine.apply(told(large), START);
    let later = START.after(Duration::from_secs(3));
    let next = decided(&mut engine, later);
    match &*nominated {
        "a" => assert_eq!(next, ["p waits for v1 and v2 to go", "q waits for w to go"]),
        _ => assert_eq!(next, ["p waits for v1 and v2 to go"], "they do not meet"),
    }
}

#[test]
fn where_nothing_is_ever_tried_no_room_is_kept() {
    let profile = Profile { last_resorts: Vec::new(), ..Profile::kubernetes() };
    let mut engine =
        Engine::new(Settings::default(), vec![(DEFAULT_SCHEDULER.into(), profile)], START);
    engine.apply(node("a", 1000), START);
    engine.apply(told(PodFact { nominated: Some("a".into()), ..pod("large", 2000) }), START);
    assert!(!decided(&mut engine, START).is_empty());
    assert_eq!(engine.ledger().nominated(&Uid::new("large")), None);
}

#[test]
fn a_pod_for_which_nothing_could_be_done_is_tried_again() {
    let mut engine = engine();
    engine.apply(node("a", 100), START);
    engine.apply(told(pod("one", 500)), START);
    let uid = Uid::new("one");
    for number in 1..4_u64 {
        let now = START.after(Duration::from_secs(20 * number));
        assert_eq!(decided(&mut engine, now).len(), 1);
        assert_eq!(decided(&mut engine, now), [""; 0], "it waits");
        engine.undone(&uid, now);
        assert_eq!(decided(&mut engine, now), [""; 0], "not at once");
        assert!(engine.next_due(now).unwrap().since(now) <= Duration::from_secs(12));
    }
}

#[test]
fn a_pod_that_claims_devices_waits_and_says_so() {
    let mut engine = engine();
    engine.apply(node("a", 1000), START);
    let mut fact = pod("one", 100);
    fact.needs.resource_claims = true;
    engine.apply(told(fact), START);
    let decision = engine.decide(START).unwrap();
    let Verdict::Wait(why) = decision.verdict else { panic!("it has no devices") };
    assert!(why.examination.everywhere.is_some());
    assert!(why.beyond_nodes().is_some());
    assert_eq!(
        why.examination.to_string(),
        "0/1 nodes are available: pod has resource claims, which Gantry does not allocate yet."
    );
}

#[test]
fn a_pod_with_too_many_terms_waits_and_says_so() {
    let check = |near: usize, spread: usize, expected: &str| {
        let mut engine = engine();
        engine.apply(wired_node("a", "64Gi"), START);
        let term = serde_json::json!({ "topologyKey": "zone", "labelSelector": {} });
        let rule = serde_json::json!({ "topologyKey": "zone", "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway" });
        let weighted = serde_json::json!({ "weight": 1, "podAffinityTerm": term });
        let pod = serde_json::json!({
            "metadata": { "name": "one", "namespace": "default", "uid": "one" },
            "spec": {
                "schedulerName": DEFAULT_SCHEDULER,
                "containers": [],
                "topologySpreadConstraints": vec![rule; spread],
                "affinity": { "podAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": vec![weighted; near] } },
            },
        });
        let pod: api::pod::Pod = serde_json::from_value(pod).unwrap();
        engine.apply(Fact::from(&pod), START);
        let decision = engine.decide(START).unwrap();
        let told = match decision.verdict {
            Verdict::Bind(node, _) => node.to_string(),
            Verdict::Wait(why) => {
                assert!(why.beyond_nodes().is_some());
                why.examination.to_string()
            }
            _ => panic!("it is bound or waits"),
        };
        assert_eq!(told, expected);
    };
    check(156, 100, "a");
    check(
        156,
        101,
        "0/1 nodes are available: pod has 257 pod affinity terms and topology spread constraints, \
         Gantry takes at most 256.",
    );
}

/// A node and pods as the wire has them.
fn wired_node(name: &str, memory: &str) -> Fact {
    let allocatable = serde_json::json!({ "cpu": "4", "memory": memory, "pods": "110" });
    let node = serde_json::json!({ "metadata": { "name": name }, "status": { "allocatable": allocatable } });
    let node: api::node::Node = serde_json::from_value(node).unwrap();
    Fact::Node(NodeFact::from(&node))
}

fn wired_pod(name: &str, node: &str, requests: serde_json::Value) -> Fact {
    let container = serde_json::json!({ "name": "main", "resources": { "requests": requests } });
    let pod = serde_json::json!({
        "metadata": { "name": name, "namespace": "default", "uid": name },
        "spec": { "nodeName": node, "schedulerName": DEFAULT_SCHEDULER, "containers": [container] },
    });
    let pod: api::pod::Pod = serde_json::from_value(pod).unwrap();
    Fact::from(&pod)
}

#[test]
fn no_numbers_of_a_node_end_the_engine() {
    // Wrapped to 64 bits, what is left of the node would be the least number there is, to be divided
    // by what it has: less one.
    for memory in ["18446744073709551615", "9223372036854775808", "1e100", "0"] {
        for request in ["16140901064495857663", "16140901064286142463", "9223372036854775807"] {
            let mut engine = engine();
            engine.apply(wired_node("a", memory), START);
            engine.apply(wired_node("b", "64Gi"), START);
            engine.apply(wired_pod("mirror", "a", serde_json::json!({ "memory": request })), START);
            engine.apply(wired_pod("one", "", serde_json::json!({ "memory": request })), START);
            engine.apply(wired_pod("two", "", serde_json::json!({})), START);
            let told = decided(&mut engine, START);
            let refused = "one waits, try 1: 0/2 nodes are available: 2 Insufficient memory.";
            assert_eq!(told.iter().filter(|told| *told == refused).count(), 1, "{told:?}");
            assert!(told.iter().any(|told| told.starts_with("two to ")), "{told:?}");
        }
    }
}

#[test]
fn a_request_beyond_64_bits_fits_nowhere_and_makes_no_room_for_others() {
    let check = |requests: serde_json::Value, short: &str| {
        let mut engine = engine();
        engine.apply(wired_node("a", "64Gi"), START);
        // One that is bound by hand, and again: whatever both add up to, it is not less.
        for name in ["by-hand", "again"] {
            engine.apply(wired_pod(name, "a", requests.clone()), START);
        }
        engine.apply(wired_pod("huge", "", requests), START);
        let next = serde_json::json!({ "cpu": "1", "memory": "1Gi" });
        engine.apply(wired_pod("next", "", next), START);
        let told = decided(&mut engine, START);
        let refused = format!("0/1 nodes are available: 1 Insufficient {short}.");
        for name in ["huge", "next"] {
            let expected = format!("{name} waits, try 1: {refused}");
            assert!(told.contains(&expected), "{told:?} without {expected}");
        }
        let node = engine.ledger().nodes.find("a").unwrap();
        assert!(engine.ledger().nodes.resources.is_exceeded(node));
    };
    for cpu in ["9223372036854775807", "9223372036854775808", "1e30"] {
        check(serde_json::json!({ "cpu": cpu }), "cpu");
    }
    for memory in ["18446743936270598144", "9223372036854775807", "1e100"] {
        check(serde_json::json!({ "memory": memory }), "memory");
    }
}

#[test]
fn which_pods_are_alike_is_known_as_late_as_the_decision() {
    let owner = Owner { kind: OwnerKind::ReplicaSet, name: "web".into() };
    let selector = Selector::from_pairs([("app", "web")]);
    let set =
        Fact::Owner { namespace: "default".into(), owner: owner.clone(), selector: Some(selector) };
    let like = |set_first: bool| {
        let mut engine = engine();
        engine.apply(node("a", 1000), START);
        let mut fact = pod("one", 100);
        fact.labels = BTreeMap::from([("app".into(), "web".into())]);
        fact.needs.owner = Some(owner.clone());
        let facts = [set.clone(), told(fact)];
        let ordered = if set_first {
            facts
        } else {
            let [a, b] = facts;
            [b, a]
        };
        for fact in ordered {
            engine.apply(fact, START);
        }
        assert_eq!(decided(&mut engine, START).len(), 1);
        engine.ledger().pod(&Uid::new("one")).unwrap().ask.like.is_some()
    };
    assert!(like(true));
    assert!(like(false));
}

/// A claim of class `late`, which waits for a node; bound to a volume where one is named.
pub(in crate::turn) fn claim(name: &str, selected: Option<&str>, volume: Option<&str>) -> Fact {
    claim_at(0, name, selected, volume)
}

/// The same in this version.
fn claim_at(version: u64, name: &str, selected: Option<&str>, volume: Option<&str>) -> Fact {
    let claim = Claim {
        uid: name.into(),
        version: Version(version),
        class: "late".into(),
        request: None,
        access_modes: Box::default(),
        is_block: false,
        attributes_class: Box::default(),
        selector: Selector::everything(),
        volume: volume.map(Into::into),
        bind_completed: volume.is_some(),
        is_lost: false,
        is_going: false,
        selected_node: selected.map(Into::into),
        controller: None,
    };
    Fact::Storage(StorageFact::Claim("default".into(), name.into(), Some(Box::new(claim))))
}

pub(in crate::turn) fn volume(name: &str, claim: Option<&str>) -> Fact {
    let claim = claim.map(|name| ClaimReference {
        namespace: "default".into(),
        name: name.into(),
        uid: name.into(),
    });
    let volume = PersistentVolume {
        version: Version::default(),
        class: "late".into(),
        capacity: Quantity::ZERO,
        access_modes: Box::default(),
        is_block: false,
        attributes_class: Box::default(),
        is_available: claim.is_none(),
        claim,
        is_going: false,
        labels: BTreeMap::new(),
        reach: None,
        reach_taken_over: None,
        zones: Box::default(),
        source: Source::Other,
    };
    Fact::Storage(StorageFact::Volume(name.into(), Some(Box::new(volume))))
}

/// A class whose claims wait for a node, made by somebody or by nobody.
pub(in crate::turn) fn class(provisioner: &str) -> Fact {
    let class = Class { provisioner: provisioner.into(), waits: true, topologies: Box::default() };
    Fact::Storage(StorageFact::Class("late".into(), Some(class)))
}

fn with_claim(name: &str, claim: &str) -> Fact {
    let mut fact = pod(name, 100);
    fact.needs.volumes =
        Volumes { namespace: "default".into(), volumes: [Volume::Claim(claim.into())].into() };
    told(fact)
}

fn storage(provisioner: &str) -> Engine {
    let mut engine = engine();
    for fact in [node("a", 1000), class(provisioner), claim("data", None, None)] {
        engine.apply(fact, START);
    }
    engine
}

#[test]
fn a_volume_is_promised_to_one_claim_and_the_pod_is_bound_when_the_claim_is() {
    let mut engine = storage("");
    engine.apply(volume("disk", None), START);
    engine.apply(claim("more", None, None), START);
    engine.apply(with_claim("one", "data"), START);
    let keep = "one to a after [KeepVolume { volume: \"disk\", claim: ClaimReference { \
                namespace: \"default\", name: \"data\", uid: \"data\" } }]";
    assert_eq!(decided(&mut engine, START), [keep]);
    engine.apply(with_claim("two", "more"), START);
    let none = "two waits, try 1: 0/1 nodes are available: \
                1 node(s) didn't find available persistent volumes to bind.";
    assert_eq!(decided(&mut engine, START), [none]);
    engine.prepared(&Uid::new("one"), &[7], START);
    // What was true before the write does not take it back.
    engine.apply(volume("disk", None), START);
    engine.apply(volume("disk", Some("data")), START);
    assert_eq!(decided(&mut engine, START), [none.replace("try 1", "try 2")]);
    engine.apply(claim("data", None, Some("disk")), START);
    assert_eq!(decided(&mut engine, START)[0], "one to a, try 1");
    assert!(engine.ledger().storage.promises.is_empty());
}

#[test]
fn a_volume_is_made_for_the_node_or_the_pod_is_tried_again() {
    let select = "one to a after [SelectNode { namespace: \"default\", claim: \"data\", \
                  node: \"a\" }]";
    let late = START.after(Duration::from_secs(601));
    let check = |facts: &[Fact], now: Moment, expected: &[&str]| {
        let mut engine = storage("somebody");
        engine.apply(with_claim("one", "data"), START);
        assert_eq!(decided(&mut engine, START), [select]);
        for fact in facts {
            engine.apply(fact.clone(), START);
        }
        let told = decided(&mut engine, now);
        assert_eq!(told.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        let waits = engine.preparations.next_due().is_some();
        assert_eq!(engine.ledger().storage.promises.is_empty(), !waits);
    };
    let selected = || claim("data", Some("a"), None);
    let made = || claim("data", Some("a"), Some("disk"));
    check(&[], START, &[]);
    check(&[selected(), made()], START, &[]);
    check(&[selected(), made(), volume("disk", Some("data"))], START, &["one to a, try 1"]);
    check(&[volume("disk", Some("data")), made()], START, &["one to a, try 1"]);
    let failed = "one is not ready: binding volumes: provisioning failed for PVC \"data\"";
    check(&[selected(), claim("data", None, None)], START, &[failed]);
    check(&[claim("data", None, None)], START, &[]);
    let deadline = "one is not ready: binding volumes: context deadline exceeded";
    check(&[selected()], late, &[deadline]);
    let node = "one is not ready: binding volumes: failed to get node \"a\": node \"a\" not found";
    check(&[Fact::NodeGone("a".into())], START, &[node]);
    check(&[Fact::PodGone(Uid::new("one"))], late, &[]);
}

#[test]
fn what_was_taken_back_while_nobody_looked_is_taken_back() {
    let failed = "one is not ready: binding volumes: provisioning failed for PVC \"data\"";
    let check = |what: &str, seen: u64, written: u64, answered_first: bool, expected: &[&str]| {
        let mut engine = storage("somebody");
        engine.apply(with_claim("one", "data"), START);
        assert_eq!(decided(&mut engine, START).len(), 1);
        let answer = |engine: &mut Engine| engine.prepared(&Uid::new("one"), &[written], START);
        let tell = |engine: &mut Engine| engine.apply(claim_at(seen, "data", None, None), START);
        if answered_first {
            answer(&mut engine);
            tell(&mut engine);
        } else {
            tell(&mut engine);
            answer(&mut engine);
        }
        let told = decided(&mut engine, START);
        assert_eq!(told.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{what}");
    };
    for answered_first in [true, false] {
        check("it is what was before the write", 6, 7, answered_first, &[]);
        check("it is later than the write", 8, 7, answered_first, &[failed]);
        check("nobody knows what the write made", 8, 0, answered_first, &[]);
    }
}

#[test]
fn what_is_decided_and_not_yet_asked_for_is_taken_back_with_its_reason() {
    let check = |what: &str, happens: &dyn Fn(&mut Engine), expected: &[&str]| {
        let mut engine = storage("somebody");
        engine.apply(with_claim("one", "data"), START);
        assert_eq!(decided(&mut engine, START).len(), 1);
        engine.apply(volume("disk", Some("data")), START);
        engine.apply(claim("data", Some("a"), Some("disk")), START);
        happens(&mut engine);
        let told = decided(&mut engine, START);
        assert_eq!(told.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{what}");
        let row = engine.ledger().pod(&Uid::new("one"));
        let is_charged = row.is_some_and(|row| row.node().is_some() && !row.is_bound());
        assert_eq!(is_charged, !expected.is_empty(), "{what}");
    };
    check("nothing happens", &|_| (), &["one to a, try 1"]);
    let bound = PodFact { node: Some("b".into()), ..pod("one", 100) };
    check("somebody else binds it", &|engine| engine.apply(told(bound.clone()), START), &[]);
    let going = PodFact { deleting: true, ..pod("one", 100) };
    check("it is asked to go", &|engine| engine.apply(told(going.clone()), START), &[]);
    let gone = Fact::PodGone(Uid::new("one"));
    check("it is gone", &|engine| engine.apply(gone.clone(), START), &[]);
    let lost = |engine: &mut Engine| engine.answered(&Uid::new("one"), Answer::Lost, START);
    check("it is lost", &lost, &[]);
    let refused = |engine: &mut Engine| engine.answered(&Uid::new("one"), Answer::Refused, START);
    check("what prepares it was refused", &refused, &[]);
}

#[derive(Debug, Clone)]
enum Step {
    Fact(Fact),
    Decide,
    Answer(u8, Answer),
    /// So many of the nodes that are asked about are allowed; or those who are asked fail.
    Advise(Option<usize>),
    Done(u8),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let answer = prop_oneof![Just(Answer::Done), Just(Answer::Lost), Just(Answer::Refused)];
    prop_oneof![
        6 => fact().prop_map(Step::Fact),
        4 => Just(Step::Decide),
        1 => (0..20_u8, answer).prop_map(|(pod, answer)| Step::Answer(pod, answer)),
        2 => proptest::option::weighted(0.8, 0..4_usize).prop_map(Step::Advise),
        1 => (0..20_u8).prop_map(Step::Done),
        1 => (0..40_u64).prop_map(Step::Pass),
    ]
}

fn play(steps: &[Step]) -> (Engine, Vec<Decision>) {
    let (mut engine, mut now) = (asking(Consulting::Always), START);
    let mut decisions: Vec<Decision> = Vec::new();
    for step in steps {
        match step {
            Step::Fact(fact) => {
                let mut fact = fact.clone();
                if let Fact::Pod(pod) = &mut fact
                    && pod.uid.0.ends_with(['1', '4', '7'])
                {
                    pod.scheduler = "other".into();
                }
                engine.apply(fact, now);
            }
            Step::Decide => decisions.extend(engine.decide(now)),
            Step::Done(pod) => engine.done(&crate::laws::uid(*pod), now),
            Step::Answer(pod, answer) => {
                engine.answered(&crate::laws::uid(*pod), *answer, now);
            }
            Step::Advise(allowed) => {
                let last = decisions.iter().rev().find_map(|decision| match &decision.verdict {
                    Verdict::Consult(ticket, nodes) => Some((*ticket, nodes)),
                    _ => None,
                });
                let Some((ticket, nodes)) = last else { continue };
                let counsel = |count: usize| Counsel {
                    allowed: nodes.iter().take(count).map(|node| (node.clone(), 1)).collect(),
                    ..Counsel::default()
                };
                let failed = || Advice::Failed("no".into());
                let advice = allowed.map_or_else(failed, |count| Advice::Counsel(counsel(count)));
                engine.consulted(ticket, advice);
            }
            Step::Pass(seconds) => now = now.after(Duration::from_secs(*seconds)),
        }
    }
    (engine, decisions)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn equal_facts_give_equal_decisions(steps in vec(step(), 1..80)) {
        prop_assert_eq!(play(&steps).1, play(&steps).1);
    }

    #[test]
    fn every_pod_that_wants_a_node_is_in_the_queue_or_has_a_claim(steps in vec(step(), 1..80)) {
        let (engine, _) = play(&steps);
        for uid in &engine.unbound.all() {
            let row = engine.ledger.pod(uid).unwrap();
            let queued = engine.queue.standing(uid).is_some();
            prop_assert!(!row.is_bound());
            prop_assert_eq!(queued, row.node().is_none());
        }
        let prepares = engine.preparations.next_due().is_some();
        prop_assert!(prepares || engine.ledger.storage.promises.is_empty());
        // Whoever is in flight is being asked about, or room is made for him, and nobody waits for
        // nobody.
        let flying = engine.queue.standings().filter(|(_, own)| *own == Standing::InFlight);
        let asked = usize::from(engine.consultations.is_open());
        prop_assert_eq!(flying.count(), asked + engine.rooms.len() + engine.searches.len());
        let is_due = engine.next_due(START) == Some(START);
        prop_assert!(asked > 0 || is_due || engine.queue.is_nobody_aside());
        prop_assert!(engine.queue.standings().all(|(uid, _)| engine.unbound.get(uid).is_some()));
    }
}
