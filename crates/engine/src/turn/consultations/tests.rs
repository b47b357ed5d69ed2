use std::time::Duration;

use super::*;
use crate::fact::{Fact, PodFact};
use crate::profile::Consulting;
use crate::queue::Standing;
use crate::reason::{Code, Reason};
use crate::turn::tests::{START, asking, decided, node, pod, told};

/// A pod of the profile that asks.
fn asked(name: &str, cpu_millis: i64) -> PodFact {
    PodFact { scheduler: "other".into(), ..pod(name, cpu_millis) }
}

/// An engine that asks about all pods of the second profile, with these nodes of one CPU each.
fn on(nodes: &[&str]) -> Engine {
    let mut engine = asking(Consulting::Always);
    for name in nodes {
        engine.apply(node(name, 1000), START);
    }
    engine
}

/// What was said, as `a+3 b-why c!why`: allowed with a score, refused, or refused for good.
fn counsel(words: &str) -> Advice {
    let mut counsel = Counsel::default();
    for word in words.split_whitespace() {
        let at = word.find(['+', '-', '!']).unwrap();
        let (name, rest) = (Box::from(&word[..at]), &word[at + 1..]);
        let code = match word.as_bytes()[at] {
            b'+' => {
                counsel.allowed.insert(name, rest.parse().unwrap());
                continue;
            }
            b'-' => Code::Unschedulable,
            _ => Code::Unresolvable,
        };
        let reason = Reason::Extender { url: "http://e".into(), words: rest.into() };
        counsel.refused.insert(name, Refusal::new(code, reason));
    }
    Advice::Counsel(counsel)
}

#[test]
fn a_pod_gets_the_best_of_the_nodes_that_it_may_get() {
    let check = |nodes: &[&str], said: &str, expected: &str| {
        let mut engine = on(nodes);
        engine.apply(told(asked("one", 100)), START);
        let question = format!("one of {}? 1", nodes.join("+"));
        assert_eq!(decided(&mut engine, START), [question]);
        assert_eq!(engine.next_due(START), None, "only an answer helps");
        engine.consulted(Ticket(1), counsel(said));
        assert_eq!(engine.next_due(START), Some(START));
        assert_eq!(decided(&mut engine, START), [expected], "{said}");
        assert!(engine.consultations.open.is_none());
    };
    check(&["a", "b", "c"], "a+0 b+1", "one to b, try 1");
    check(&["a", "b", "c"], "c+0", "one to c, try 1");
    check(&["a"], "a+0", "one to a, try 1");
    check(&["a", "b"], "a+9223372036854775807 b+-9223372036854775808", "one to a, try 1");
    let words = "one waits, try 1: 0/3 nodes are available:";
    check(&["a", "b", "c"], "a-no b-no c!never", &format!("{words} 1 never, 2 no."));
    check(&["a", "b", "c"], "a-no", &format!("{words} 1 no."));
    check(&["a", "b", "c"], "", words);
    // A node that nobody asked about is not taken, and nothing said of it is told.
    check(&["a", "b", "c"], "d+5 e-no", words);
}

#[test]
fn only_pods_that_somebody_cares_for_are_asked_about() {
    let check = |consulting: &Consulting, extended: &[&str], expected: &str| {
        let mut engine = asking(consulting.clone());
        engine.apply(node("a", 1000), START);
        let extended = extended.iter().map(|name| Box::from(*name)).collect();
        engine.apply(told(PodFact { extended, ..asked("one", 100) }), START);
        assert_eq!(decided(&mut engine, START), [expected], "{consulting:?}");
    };
    let (question, bound) = ("one of a? 1", "one to a, try 1");
    let naming = Consulting::Naming(["e/x".into(), "e/y".into()].into());
    check(&Consulting::Never, &["e/x"], bound);
    check(&Consulting::Always, &[], question);
    check(&naming, &["e/x"], question);
    check(&naming, &["e/w", "e/y"], question);
    check(&naming, &["e/w"], bound);
    check(&naming, &[], bound);
    // Where no node can take the pod, nobody is asked.
    let mut engine = on(&["a"]);
    engine.apply(told(asked("one", 2000)), START);
    let full = "one waits, try 1: 0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(decided(&mut engine, START), [full]);
}

#[test]
fn as_many_nodes_are_asked_about_as_kube_scheduler_looks_for() {
    let check = |nodes, percent, expected| assert_eq!(part_of(nodes, percent), expected);
    check(0, 0, 0);
    check(99, 1, 99);
    check(100, 0, 100);
    check(1000, 0, 420);
    check(5000, 0, 500);
    check(10_000, 0, 500);
    check(10_000, 20, 2000);
    check(200, 10, 100);
    check(200, 100, 200);
}

#[test]
fn where_none_of_a_part_is_allowed_the_others_are_asked_about() {
    let names: Vec<String> = (0..250).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut engine = on(&names);
    engine.apply(told(asked("one", 100)), START);
    let mut seen = BTreeSet::new();
    for (round, count) in [(1, 120), (2, 120), (3, 10)] {
        let Some(Decision { verdict: Verdict::Consult(ticket, part), .. }) = engine.decide(START)
        else {
            panic!("round {round}: nobody is asked")
        };
        assert_eq!((ticket, part.len()), (Ticket(round), count));
        assert!(part.iter().all(|node| seen.insert(node.clone())), "asked twice");
        let said: Vec<String> = part.iter().map(|node| format!("{node}-no")).collect();
        engine.consulted(ticket, counsel(&said.join(" ")));
    }
    let words = "one waits, try 1: 0/250 nodes are available: 250 no.";
    assert_eq!(decided(&mut engine, START), [words]);
}

#[test]
fn one_question_is_open_at_a_time_and_others_go_on() {
    let mut engine = on(&["a"]);
    engine.apply(told(asked("one", 100)), START);
    assert_eq!(decided(&mut engine, START), ["one of a? 1"]);
    engine.apply(told(asked("two", 100)), START);
    engine.apply(told(PodFact { priority: 5, ..asked("three", 100) }), START);
    engine.apply(told(pod("free", 100)), START);
    assert_eq!(decided(&mut engine, START), ["free to a, try 1"]);
    let standing = engine.queue().standing(&Uid::new("two"));
    assert_eq!(standing, Some(Standing::Active), "it is one of the next");
    engine.consulted(Ticket(7), counsel("a+0"));
    assert_eq!(decided(&mut engine, START), [""; 0], "nobody asked that");
    engine.consulted(Ticket(1), counsel("a+0"));
    assert_eq!(decided(&mut engine, START), ["one to a, try 1", "three of a? 2"]);
    // Whoever is gone is not asked about any longer, and the next one is.
    engine.apply(Fact::PodGone(Uid::new("three")), START);
    assert_eq!(decided(&mut engine, START), ["two of a? 3"]);
    engine.consulted(Ticket(2), counsel("a+0"));
    assert_eq!(decided(&mut engine, START), [""; 0], "that answer is too late");
    let theirs = PodFact { node: Some("a".into()), ..asked("two", 100) };
    engine.apply(told(theirs), START);
    engine.consulted(Ticket(3), counsel("a+0"));
    assert_eq!(decided(&mut engine, START), [""; 0], "somebody else bound it");
    assert!(engine.queue().is_empty());
}

#[test]
fn whoever_was_set_aside_comes_back_though_the_one_before_him_asks_nothing() {
    let mut engine = on(&["a"]);
    for (name, cpu_millis, priority) in [("one", 100, 3), ("two", 2000, 2), ("three", 100, 1)] {
        engine.apply(told(PodFact { priority, ..asked(name, cpu_millis) }), START);
    }
    assert_eq!(decided(&mut engine, START), ["one of a? 1"]);
    engine.consulted(Ticket(1), counsel("a+0"));
    let full = "two waits, try 1: 0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(decided(&mut engine, START), ["one to a, try 1", full, "three of a? 2"]);
    engine.apply(told(PodFact { priority: 1, ..asked("four", 100) }), START);
    engine.apply(told(asked("five", 100)), START);
    assert_eq!(decided(&mut engine, START), [""; 0]);
    engine.apply(Fact::PodGone(Uid::new("three")), START);
    assert_eq!(engine.next_due(START), Some(START));
    engine.apply(Fact::PodGone(Uid::new("four")), START);
    assert_eq!(decided(&mut engine, START), ["five of a? 3"]);
}

#[test]
fn an_answer_is_held_against_the_cluster_as_it_is_then() {
    let start = |cpu_millis| {
        let mut engine = on(&["a", "b"]);
        engine.apply(told(asked("one", cpu_millis)), START);
        assert_eq!(decided(&mut engine, START), ["one of a+b? 1"]);
        engine
    };
    let full = |node: &str| {
        let name = format!("on-{node}");
        told(PodFact { node: Some(node.into()), ..pod(&name, 600) })
    };
    let mut engine = start(500);
    engine.apply(full("b"), START);
    engine.consulted(Ticket(1), counsel("a+0 b+9"));
    assert_eq!(decided(&mut engine, START), ["one to a, try 1"], "b is full by now");
    // Where nothing that was allowed is left, but something that nobody was asked about is.
    let mut engine = start(500);
    engine.apply(full("b"), START);
    engine.apply(node("c", 1000), START);
    engine.consulted(Ticket(1), counsel("a-no b+9"));
    assert_eq!(decided(&mut engine, START), ["one of c? 2"]);
    engine.apply(node("d", 1000), START);
    engine.consulted(Ticket(2), counsel("c-no"));
    assert_eq!(decided(&mut engine, START), ["one of d? 3"]);
    engine.apply(node("e", 1000), START);
    engine.consulted(Ticket(3), counsel("d-no"));
    let tired = "one failed, try 1: nodes changed while extenders were asked about them, 3 times";
    assert_eq!(decided(&mut engine, START), [tired]);
    // Where nothing is new, what was said stands beside what the nodes say.
    let mut engine = start(500);
    engine.apply(full("b"), START);
    engine.consulted(Ticket(1), counsel("a-no b+9"));
    let both = "one waits, try 1: 0/2 nodes are available: 1 Insufficient cpu, 1 no.";
    let told = decided(&mut engine, START);
    assert_eq!(told, [both, "one of a? 2"], "what changed meanwhile may help");
    let mut engine = start(500);
    engine.apply(full("a"), START);
    engine.apply(full("b"), START);
    engine.consulted(Ticket(1), counsel("a-no b+9"));
    let neither = "one waits, try 1: 0/2 nodes are available: 2 Insufficient cpu.";
    assert_eq!(decided(&mut engine, START)[0], neither);
}

#[test]
fn a_pod_that_was_refused_wakes_by_any_change_and_one_that_failed_after_its_back_off() {
    let mut engine = on(&["a"]);
    engine.apply(told(asked("one", 100)), START);
    assert_eq!(decided(&mut engine, START), ["one of a? 1"]);
    engine.consulted(Ticket(1), counsel("a-no"));
    assert_eq!(decided(&mut engine, START).len(), 1);
    let uid = Uid::new("one");
    assert_eq!(engine.queue().standing(&uid), Some(Standing::Waiting));
    // It would not matter to anybody else.
    let labelled = PodFact { node: Some("a".into()), ..pod("other", 1) };
    engine.apply(told(labelled), START);
    assert_eq!(decided(&mut engine, START), ["one of a? 2"]);
    engine.consulted(Ticket(2), Advice::Failed("down".into()));
    assert_eq!(decided(&mut engine, START), ["one failed, try 2: down"]);
    assert!(matches!(engine.queue().standing(&uid), Some(Standing::ErrorBackoff(_))));
    let due = engine.next_due(START).unwrap();
    assert!(due.since(START) <= Duration::from_secs(3));
    assert_eq!(decided(&mut engine, due), ["one of a? 3"]);
    engine.consulted(Ticket(3), counsel("a-no"));
    assert_eq!(decided(&mut engine, due).len(), 1);
    // Nobody says when they change their mind, so that it is tried after a while, and missed nothing.
    let later = due.after(Duration::from_secs(400));
    assert_eq!(decided(&mut engine, later), ["one of a? 4"]);
    engine.consulted(Ticket(4), counsel("a+0"));
    assert_eq!(decided(&mut engine, later), ["one to a, try 4"]);
    assert_eq!(engine.queue().missed_wakes(), 0);
}

#[test]
fn room_is_made_where_that_can_help_and_then_asked_about_first() {
    let lesser =
        |node: &str| told(PodFact { node: Some(node.into()), ..pod(&format!("on-{node}"), 800) });
    let greater = || PodFact { priority: 9, ..asked("high", 500) };
    let mut engine = on(&["a", "b", "c"]);
    engine.apply(lesser("a"), START);
    engine.apply(told(greater()), START);
    assert_eq!(decided(&mut engine, START), ["high of b+c? 1"]);
    // Neither b, which is refused for good, nor c has anybody who could go.
    engine.consulted(Ticket(1), counsel("b!never c-no"));
    assert_eq!(decided(&mut engine, START), ["high waits for on-a to go"]);
    assert_eq!(engine.ledger().nominated(&Uid::new("high")), Some("a"));
    engine.apply(Fact::PodGone(Uid::new("on-a")), START);
    let later = START.after(Duration::from_secs(3));
    assert_eq!(decided(&mut engine, later), ["high of a? 2"]);
    engine.consulted(Ticket(2), Advice::Failed("down".into()));
    assert_eq!(decided(&mut engine, later), ["high of a+b+c? 3"]);
    engine.consulted(Ticket(3), counsel("a-no b+0"));
    assert_eq!(decided(&mut engine, later), ["high to b, try 2"]);
    // One that is refused for good keeps those who could go, and so does one of which nothing is
    // said.
    for said in ["a!never", ""] {
        let mut engine = on(&["a"]);
        let low = PodFact { node: Some("a".into()), ..pod("low", 100) };
        engine.apply(told(low), START);
        engine.apply(told(greater()), START);
        assert_eq!(decided(&mut engine, START), ["high of a? 1"]);
        engine.consulted(Ticket(1), counsel(said));
        let decision = engine.decide(START).unwrap();
        let Verdict::Wait(waiting) = decision.verdict else { panic!("it may not get a") };
        assert!(waiting.to_string().contains("1 Preemption is not helpful"), "{waiting}");
    }
    // A failure gives up the room.
    let mut engine = on(&["a"]);
    engine.apply(told(PodFact { nominated: Some("a".into()), ..greater() }), START);
    assert_eq!(decided(&mut engine, START), ["high of a? 1"]);
    engine.consulted(Ticket(1), counsel("a-no"));
    assert_eq!(decided(&mut engine, START), ["high of a? 2"]);
    engine.consulted(Ticket(2), Advice::Failed("down".into()));
    assert_eq!(decided(&mut engine, START), ["high failed, try 1: down"]);
    assert_eq!(engine.ledger().nominated(&Uid::new("high")), None);
}
