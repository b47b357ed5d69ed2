use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{Engine, Settings, Verdict};
use super::*;
use crate::fact::{DEFAULT_SCHEDULER, Fact, NodeFact, PodFact};
use crate::laws::Step;
use crate::laws::preemption::crowded;
use crate::needs::{Amounts, HostPort, Needs, Ports, Requests};
use crate::profile::Profile;
use crate::queue::Standing;

const START: Moment = Moment(1_000_000_000_000_000_000);

fn engine(units: usize) -> Engine {
    let profiles = vec![(DEFAULT_SCHEDULER.into(), Profile::kubernetes())];
    Engine::new(Settings::default(), profiles, START).with_slices_of(units)
}

fn node(number: usize) -> Fact {
    Fact::Node(NodeFact {
        name: format!("node-{number}").into(),
        allocatable: Amounts { cpu_millis: 1000, ..Amounts::default() },
        pods_allowed: 110,
        ..NodeFact::default()
    })
}

fn pod(name: &str, priority: i32, cpu_millis: i64, node: Option<usize>) -> PodFact {
    let charged = Amounts { cpu_millis, ..Amounts::default() };
    let requests = Requests { charged, cpu_millis_scored: cpu_millis, ..Requests::default() };
    let needs = Needs { taken: requests.clone(), requests, ..Needs::default() };
    let node = node.map(|node| format!("node-{node}").into());
    PodFact { needs, priority, node, ..PodFact::new(name, "default", name) }
}

fn told(pod: PodFact) -> Fact {
    Fact::Pod(Box::new(pod))
}

/// Nodes that are full of pods of priority 1, by a search that looks at one of them at a time.
fn full(nodes: usize) -> Engine {
    let mut engine = engine(1);
    for number in 0..nodes {
        engine.apply(node(number), START);
        let name = format!("old-{number}");
        engine.apply(told(pod(&name, 1, 1000, Some(number))), START);
    }
    engine
}

/// What is decided for a pod in the end.
fn end(engine: &mut Engine) -> String {
    for _ in 0..1000 {
        let Some(decision) = engine.decide(START) else {
            assert!(!engine.searches.is_empty(), "nothing is decided");
            assert_eq!(engine.next_due(START), Some(START));
            continue;
        };
        engine.done(&decision.pod.uid, START);
        let name = decision.pod.name;
        return match decision.verdict {
            Verdict::Bind(node, _) => format!("{name} to {node}"),
            Verdict::Wait(why) => match why.room() {
                Some(room) => format!("{name} for {}", room.victims[0].pod.name),
                None => format!("{name} waits: {why}"),
            },
            other => format!("{name}: {other:?}"),
        };
    }
    panic!("the search has no end");
}

#[test]
fn other_pods_are_decided_while_a_search_is_under_way() {
    let mut engine = full(30);
    engine.apply(told(pod("urgent", 9, 500, None)), START);
    assert!(engine.decide(START).is_none());
    let mut small = Vec::new();
    for number in 0..40 {
        engine.apply(told(pod(&format!("small-{number}"), 0, 0, None)), START);
    }
    while small.len() < 40 {
        let told = end(&mut engine);
        assert!(told.starts_with("small-"), "{told} before others");
        small.push(told);
    }
    assert!(end(&mut engine).starts_with("urgent for old-"));
    assert!(engine.searches.is_empty());
}

#[test]
fn what_happens_to_a_pod_ends_its_search_and_what_makes_it_fit_gives_it_a_node() {
    let check = |facts: &[Fact], expected: Option<&str>| {
        let mut engine = full(5);
        engine.apply(told(pod("urgent", 9, 500, None)), START);
        assert!(engine.decide(START).is_none());
        assert!(engine.decide(START).is_none());
        for fact in facts {
            engine.apply(fact.clone(), START);
        }
        match expected {
            Some(expected) => {
                let told = end(&mut engine);
                assert!(told.starts_with(expected), "{told}, not {expected}");
            }
            None => assert!(engine.decide(START).is_none()),
        }
        assert!(engine.searches.is_empty());
        let in_flight = |(_, standing)| standing == Standing::InFlight;
        assert!(!engine.queue().standings().any(in_flight));
    };
    let urgent = Uid::new("urgent");
    check(&[], Some("urgent for old-"));
    check(&[Fact::PodGone(urgent)], None);
    check(&[told(pod("urgent", 9, 500, Some(3)))], None);
    check(&[told(PodFact { deleting: true, ..pod("urgent", 9, 500, None) })], None);
    check(&[told(PodFact { gates: ["wait".into()].into(), ..pod("urgent", 9, 500, None) })], None);
    check(&[Fact::PodGone(Uid::new("old-4"))], Some("urgent to node-4"));
    check(&[node(7)], Some("urgent to node-7"));
    check(&[told(pod("urgent", 0, 500, None))], Some("urgent waits: 0/5 nodes are available"));
    let higher = |number: usize| told(pod(&format!("old-{number}"), 10, 1000, Some(number)));
    let all: Vec<Fact> = (0..5).map(higher).collect();
    check(&all, Some("urgent waits: 0/5 nodes are available"));
    check(&all[..4], Some("urgent for old-4"));
    check(&[told(pod("urgent", 9, 500, None))], Some("urgent for old-"));
}

#[test]
fn a_node_that_would_have_taken_the_pod_when_it_was_asked_is_asked_again() {
    let mut engine = engine(1);
    let tainted = |number| {
        let Fact::Node(mut fact) = node(number) else { unreachable!("it is a node") };
        fact.unschedulable = true;
        Fact::Node(fact)
    };
    for fact in [tainted(0), node(1), tainted(2), told(pod("old", 9, 1000, Some(1)))] {
        engine.apply(fact, START);
    }
    engine.apply(told(pod("new", 0, 1000, None)), START);
    for _ in 0..2 {
        assert!(engine.decide(START).is_none(), "the search has begun");
    }
    engine.apply(Fact::PodGone(Uid::new("old")), START);
    assert!(engine.decide(START).is_none(), "a node that takes it was looked at");
    engine.apply(told(pod("other", 9, 1000, Some(1))), START);
    let words =
        "new waits: 0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable";
    let said = end(&mut engine);
    assert!(said.starts_with(words), "{said}");
    engine.apply(Fact::PodGone(Uid::new("other")), START);
    assert_eq!(end(&mut engine), "new to node-1", "it wakes");
}

#[test]
fn no_other_pods_have_to_go_before_those_who_have_to_are_asked() {
    let mut engine = engine(usize::MAX);
    for fact in [node(0), node(1), told(pod("p", 9, 1000, None))] {
        engine.apply(fact, START);
    }
    for (name, priority, cpu_millis, on) in
        [("a", 2, 1000, 0), ("low", 1, 500, 1), ("high", 3, 500, 1)]
    {
        engine.apply(told(pod(name, priority, cpu_millis, Some(on))), START);
    }
    let room = |engine: &mut Engine| {
        let decision = engine.decide(START)?;
        let Verdict::Wait(why) = decision.verdict else { panic!("{decision:?}") };
        why.room().map(|room| room.victims[0].pod.name.to_string())
    };
    assert_eq!(room(&mut engine).as_deref(), Some("a"));
    // Now less would be lost on the other node.
    engine.apply(Fact::PodGone(Uid::new("high")), START);
    assert_eq!(engine.next_due(START), None);
    assert_eq!(room(&mut engine), None, "that others have to go is on its way");
    engine.done(&Uid::new("p"), START);
    assert_eq!(engine.next_due(START), Some(START), "what happened meanwhile is not lost");
    // Once whoever has to go was asked, the pod waits for him.
    let mut going = pod("a", 2, 1000, Some(0));
    (going.deleting, going.giving_way) = (true, true);
    engine.apply(told(going), START);
    assert_eq!(room(&mut engine), None);
    engine.apply(Fact::PodGone(Uid::new("a")), START);
    assert_eq!(end(&mut engine), "p to node-0");
}

#[test]
fn whoever_has_left_room_for_a_pod_has_it_tried_whatever_that_was_refused_for_last() {
    let mut engine = full(1);
    let uid = Uid::new("p");
    let with_port = |mut pod: PodFact| {
        pod.needs.ports = Ports([HostPort::new("", "TCP", 80)].into());
        pod
    };
    engine.apply(told(with_port(pod("p", 9, 1000, None))), START);
    assert_eq!(end(&mut engine), "p for old-0");
    let mut going = pod("old-0", 1, 1000, Some(0));
    (going.deleting, going.giving_way) = (true, true);
    engine.apply(told(going), START);
    // Somebody else comes there with the port that it wants, too.
    engine.apply(told(with_port(pod("other", 99, 0, Some(0)))), START);
    engine.queue.activate(&uid, START);
    let words = "p waits: 0/1 nodes are available: 1 node(s) didn't have free ports";
    assert!(end(&mut engine).starts_with(words));
    assert_eq!(engine.queue().standing(&uid), Some(Standing::Waiting));
    assert!(engine.ledger().pod(&uid).unwrap().nominated().is_some(), "it may come there yet");
    engine.apply(Fact::PodGone(Uid::new("old-0")), START);
    assert_ne!(engine.queue().standing(&uid), Some(Standing::Waiting));
    let later = START.after(std::time::Duration::from_secs(60));
    let decision = (0..100).find_map(|_| engine.decide(later)).expect("it is tried");
    assert!(matches!(decision.verdict, Verdict::Wait(_)));
    assert_eq!(engine.ledger().pod(&uid).unwrap().nominated(), None, "others may have the room");
}

#[test]
fn a_search_that_changes_make_vain_again_and_again_is_done_in_one_go() {
    let mut engine = full(20);
    engine.apply(told(pod("urgent", 9, 500, None)), START);
    for number in 0..1000 {
        if let Some(decision) = engine.decide(START) {
            assert!(matches!(decision.verdict, Verdict::Wait(_)));
            return;
        }
        // Each time, a node comes or goes that is of no use.
        let useless = NodeFact { name: "useless".into(), ..NodeFact::default() };
        let gone = Fact::NodeGone("useless".into());
        engine.apply(if number % 2 == 0 { Fact::Node(useless) } else { gone }, START);
    }
    panic!("the search has no end");
}

#[test]
fn room_for_three_wakes_no_more_than_four_of_ten_thousand() {
    let mut engine = engine(usize::MAX);
    engine.apply(node(0), START);
    engine.apply(told(pod("old", 5, 1000, Some(0))), START);
    for number in 0..10_000 {
        engine.apply(told(pod(&format!("new-{number}"), 0, 300, None)), START);
    }
    let decisions = |engine: &mut Engine| {
        let all: Vec<Decision> = std::iter::from_fn(|| engine.decide(START)).collect();
        let bound = all.iter().filter(|one| matches!(one.verdict, Verdict::Bind(..))).count();
        (all.len(), bound)
    };
    assert_eq!(decisions(&mut engine), (10_000, 0));
    engine.apply(Fact::PodGone(Uid::new("old")), START);
    assert_eq!(decisions(&mut engine), (4, 3));
    assert_eq!(decisions(&mut engine), (0, 0));
}

#[test]
fn room_is_made_once_for_each_of_those_that_ask_the_same() {
    let mut engine = engine(usize::MAX);
    for number in 0..3 {
        engine.apply(told(pod(&format!("new-{number}"), 9, 1000, None)), START);
    }
    let decisions = |engine: &mut Engine| {
        let all: Vec<Decision> = std::iter::from_fn(|| engine.decide(START)).take(100).collect();
        let room =
            |one: &&Decision| matches!(&one.verdict, Verdict::Wait(why) if why.room().is_some());
        (all.len(), all.iter().filter(room).count())
    };
    assert_eq!(decisions(&mut engine), (3, 0));
    for number in 0..3 {
        engine.apply(told(pod(&format!("old-{number}"), 1, 1000, Some(number))), START);
    }
    for number in 0..3 {
        engine.apply(node(number), START);
    }
    assert_eq!(decisions(&mut engine), (3, 3));
}

/// Decides until nothing is due, and checks what is decided.
fn settle(engine: &mut Engine, at_most: usize) {
    for _ in 0..at_most {
        if engine.next_due(START) != Some(START) {
            return;
        }
        let Some(decision) = engine.decide(START) else { continue };
        engine.done(&decision.pod.uid, START);
        let row = engine.ledger().pod(&decision.pod.uid).expect("it is there");
        let priority = row.priority;
        match &decision.verdict {
            Verdict::Bind(node, _) => {
                let claimed = row.node().map(|node| engine.ledger().nodes.name(node));
                assert_eq!(claimed, Some(&**node));
            }
            Verdict::Wait(why) => {
                let Some(room) = why.room() else { continue };
                assert_eq!(row.nominated(), Some(engine.ledger().nodes.name(room.node)));
                for victim in &room.victims {
                    let row = engine.ledger().pod(&victim.pod.uid).expect("a victim is there");
                    assert!(row.priority < priority, "a victim is of lower priority");
                    assert_eq!(row.node(), Some(room.node));
                }
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_happens_between_slices_every_pod_is_decided_and_no_victim_is_of_higher_priority(
        steps in crowded(),
        between in vec(0..6_usize, 40..80),
        units in 1..6_usize,
    ) {
        let mut engine = engine(units);
        for (step, decisions) in steps.into_iter().zip(between) {
            if let Step::Fact(fact) = step {
                // What a server lets change of a pod is little: another one comes in its place.
                if let Fact::Pod(pod) = &fact {
                    engine.apply(Fact::PodGone(pod.uid.clone()), START);
                }
                engine.apply(fact, START);
            }
            settle(&mut engine, decisions);
        }
        settle(&mut engine, 10_000);
        prop_assert!(engine.searches.is_empty());
        for (uid, standing) in engine.queue().standings() {
            prop_assert!(standing != Standing::InFlight, "{uid:?} is in flight for ever");
            prop_assert!(engine.ledger().pod(uid).is_some_and(|row| row.node().is_none()));
        }
        prop_assert_eq!(engine.queue().changes_kept(), 0);
        // Whoever sleeps hears of what would help him: of each node he knows somebody who refuses him.
        let sleeping = engine.queue.standings().filter(|(_, own)| *own == Standing::Waiting);
        let sleeping: Vec<Uid> = sleeping.map(|(uid, _)| uid.clone()).collect();
        for uid in sleeping {
            let ask = engine.ledger.pod(&uid).expect("it is there").ask;
            let known = engine.queue.hears(&uid).expect("it sleeps").unschedulable;
            let (ledger, decider) = (&engine.ledger, &engine.profiles[0].1);
            let everywhere = decider.refused_everywhere(ledger, ask);
            if everywhere.is_some_and(|(plugin, _)| known.contains(plugin)) {
                continue;
            }
            for node in ledger.nodes.present().iter() {
                let refusing = decider.refusals(ledger, ask, node);
                let is_heard = refusing.iter().any(|(plugin, _)| known.contains(*plugin));
                // Room that is kept for others counts as taken.
                let is_kept = ledger.awaited(ledger.nodes.name(node)).next().is_some();
                prop_assert!(is_heard || is_kept, "{uid:?} knows {known:?}, not {refusing:?}");
            }
        }
    }
}
