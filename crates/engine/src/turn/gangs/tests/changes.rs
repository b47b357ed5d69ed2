//! Members, nodes and what is said of gangs change while a group is planned or bound.

use super::*;
use crate::fact::NodeFact;
use crate::ledger::PodRow;
use crate::profile::LastResort;
use crate::queue::Standing;

/// More than get nodes in one turn, by one that has one after the first.
const MANY: usize = 71;

fn name(number: usize) -> String {
    format!("m{number:03}")
}

/// Decides all that can be decided, in as many turns as it takes.
fn settled(engine: &mut Engine, now: Moment) -> Vec<String> {
    let mut words = Vec::new();
    for _ in 0..1_000 {
        words.extend(decided(engine, now));
        if engine.next_due(now).is_none_or(|due| due > now) {
            return words;
        }
    }
    panic!("it does not come to rest: {words:?}")
}

/// A gang of many of which so many must start, planned so far that the first have nodes.
fn half_planned(min: u32) -> Engine {
    let mut engine = engine();
    engine.apply(node("n", 100_000), START);
    engine.apply(gang("g", terms(min)), START);
    for number in 0..MANY {
        engine.apply(told(member(&name(number), "g", 1_000)), START);
    }
    assert_eq!(engine.decide(START), None);
    assert!(engine.is_planning() && has_claim(&engine, &name(0)));
    engine
}

fn has_claim(engine: &Engine, name: &str) -> bool {
    engine.ledger().pod(&uid(name)).is_some_and(|row| row.claim.is_some())
}

type Becomes = fn(PodFact) -> PodFact;

/// Ways in which a pod is no member any longer, and still there.
fn leaving() -> [(&'static str, Becomes); 4] {
    [
        ("deleted", |own| PodFact { deleting: true, ..own }),
        ("another scheduler's", |own| PodFact { scheduler: "else".into(), ..own }),
        ("of another gang", |own| PodFact { gang: member("x", "h", 1).gang, ..own }),
        ("of none", |own| PodFact { gang: None, ..own }),
    ]
}

#[test]
fn who_leaves_while_its_gang_is_planned_gets_no_node_with_it() {
    for (how, change) in leaving() {
        let mut engine = half_planned(70);
        engine.apply(told(change(member(&name(0), "g", 1_000))), START);
        assert!(!has_claim(&engine, &name(0)), "{how}: it gives its node back at once");
        let words = settled(&mut engine, START);
        let started = words.iter().filter(|own| own.starts_with('m') && own.contains(" to n"));
        let by_itself = usize::from(how == "of none");
        assert_eq!(started.count(), 70 + by_itself, "{how}: {words:?}");
        assert_eq!(has_claim(&engine, &name(0)), how == "of none", "{how}");
    }
}

#[test]
fn where_one_leaves_that_is_needed_while_its_gang_is_planned_nobody_starts() {
    for (how, change) in leaving() {
        let mut engine = half_planned(71);
        engine.apply(told(change(member(&name(0), "g", 1_000))), START);
        settled(&mut engine, START);
        assert_eq!(placed(&engine), usize::from(how == "of none"), "{how}");
        let words = settled(&mut engine, SOON);
        let expected = "m001 waits: gang default/g waits for members: collected 70/71";
        assert!(words.iter().any(|own| own == expected), "{how}: {words:?}");
    }
}

#[test]
fn where_more_have_to_start_than_when_the_plan_began_it_is_made_anew() {
    let mut engine = half_planned(70);
    engine.apply(gang("g", terms(72)), START);
    settled(&mut engine, START);
    assert_eq!((placed(&engine), engine.gangs_released()), (0, 0));
}

#[test]
fn one_that_is_not_needed_and_has_a_node_of_its_own_by_the_end_is_no_reason_to_end_the_plan() {
    let mut engine = engine();
    engine.apply(node("n", 100_000), START);
    engine.apply(gang("g", terms(70)), START);
    for number in 0..MANY {
        // One is too large for the node. It is tried first, and refused.
        let millis = if number == 0 { 200_000 } else { 1_000 };
        engine.apply(told(member(&name(number), "g", millis)), START);
    }
    assert_eq!(engine.decide(START), None);
    engine.apply(node("big", 300_000), START);
    engine.apply(bound(member(&name(0), "g", 200_000), "big"), START);
    let words = settled(&mut engine, START);
    assert_eq!(words.iter().filter(|own| own.contains(" to ")).count(), 70, "{words:?}");
    let ends: Vec<PlanEnd> = engine.take_gang_steps().into_iter().filter_map(planned).collect();
    assert_eq!(ends, [PlanEnd::Kept]);
    assert!(!has_claim(&engine, &name(0)), "it is where somebody else has put it");
}

fn planned(step: GangStep) -> Option<PlanEnd> {
    match step {
        GangStep::Planned { end, .. } => Some(end),
        GangStep::Cleared { .. } => None,
    }
}

/// Two nodes that take one member each, and a gang of two of which the first needs a volume.
fn preparing() -> (Engine, String) {
    let mut engine = engine();
    engine.apply(node("n", 1_000), START);
    engine.apply(node("o", 1_000), START);
    engine.apply(class("somebody"), START);
    engine.apply(gang("g", terms(2)), START);
    engine.apply(claim("a", None, None), START);
    engine.apply(told(with_volume("a")), START);
    engine.apply(told(member("b", "g", 1_000)), START);
    let words = decided(&mut engine, START);
    assert_eq!((words.len(), placed(&engine)), (1, 2), "{words:?}");
    let of = |name: &str| node_of(&engine, name);
    let (own, other) = (of("a"), of("b"));
    assert_ne!(own, other);
    (engine, other)
}

fn with_volume(name: &str) -> PodFact {
    let mut fact = member(name, "g", 1_000);
    let own = Volume::Claim(name.into());
    fact.needs.volumes = Volumes { namespace: "default".into(), volumes: [own].into() };
    fact
}

fn node_of(engine: &Engine, name: &str) -> String {
    let node = engine.ledger().pod(&uid(name)).and_then(PodRow::node).unwrap();
    engine.ledger().nodes.name(node).to_owned()
}

/// The volume of the first member is there.
fn prepared(engine: &mut Engine) -> Vec<String> {
    let node = node_of(engine, "a");
    engine.apply(volume("disk", Some("a")), START);
    engine.apply(claim("a", Some(&node), Some("disk")), START);
    settled(engine, START)
}

#[test]
fn who_leaves_before_it_is_bound_gives_its_node_back() {
    for (how, change) in leaving() {
        // It is ready while another is made ready.
        let (mut waiting, _) = preparing();
        waiting.apply(told(change(member("b", "g", 1_000))), START);
        assert!(!has_claim(&waiting, "b"), "{how}");
        assert!(!has_claim(&waiting, "a"), "{how}: too few are left");
        // Its Binding failed, and it rests.
        let mut engine = engine();
        engine.apply(node("n", 2_000), START);
        engine.apply(gang("g", terms(2)), START);
        for name in ["a", "b"] {
            engine.apply(told(member(name, "g", 1_000)), START);
        }
        assert_eq!(decided(&mut engine, START).len(), 2);
        engine.answered(&uid("b"), Answer::Refused, START);
        engine.apply(told(change(member("b", "g", 1_000))), START);
        assert!(!has_claim(&engine, "b") && has_claim(&engine, "a"), "{how}");
        let words = settled(&mut engine, START);
        assert_eq!(words.iter().any(|own| own.starts_with("b to n")), how == "of none", "{how}");
    }
}

#[test]
fn a_node_that_is_asked_for_stays_charged_for_who_leaves_until_it_is_known_what_became_of_it() {
    for (how, change) in leaving() {
        let mut engine = engine();
        engine.apply(node("n", 2_000), START);
        engine.apply(gang("g", terms(2)), START);
        for name in ["a", "b"] {
            engine.apply(told(member(name, "g", 1_000)), START);
        }
        assert_eq!(decided(&mut engine, START).len(), 2);
        engine.apply(told(change(member("b", "g", 1_000))), START);
        assert!(has_claim(&engine, "b"), "{how}");
        engine.answered(&uid("b"), Answer::Refused, START);
        assert!(!has_claim(&engine, "b"), "{how}");
    }
}

#[test]
fn a_member_is_not_bound_to_a_node_that_is_gone_or_takes_it_no_longer() {
    let gone: fn(&str) -> Fact = |node| Fact::NodeGone(node.into());
    let cordoned: fn(&str) -> Fact = |name| {
        let Fact::Node(fact) = node(name, 1_000) else { panic!() };
        Fact::Node(NodeFact { unschedulable: true, ..fact })
    };
    for change in [gone, cordoned] {
        let mut engine = engine();
        engine.apply(node("n", 1_000), START);
        engine.apply(node("o", 1_000), START);
        engine.apply(gang("g", terms(2)), START);
        for name in ["a", "b"] {
            engine.apply(told(member(name, "g", 1_000)), START);
        }
        assert_eq!(decided(&mut engine, START).len(), 2);
        engine.answered(&uid("b"), Answer::Refused, START);
        let lost = node_of(&engine, "b");
        engine.apply(change(&lost), START);
        let soon = START.after(Duration::from_secs(2));
        let words = settled(&mut engine, soon);
        assert!(words.is_empty() && !has_claim(&engine, "b"), "{words:?}");
        // Once its gang has started it is by itself.
        let other = node_of(&engine, "a");
        engine.answered(&uid("a"), Answer::Done, soon);
        engine.apply(bound(member("a", "g", 1_000), &other), soon);
        engine.apply(node("p", 1_000), soon);
        let words = settled(&mut engine, soon);
        assert!(words.iter().any(|own| own.starts_with("b to p")), "{words:?}");
    }
}

#[test]
fn where_nobody_is_bound_or_being_bound_those_that_are_left_do_not_start_alone() {
    let mut engine = engine();
    engine.apply(node("n", 1_000), START);
    engine.apply(node("o", 1_000), START);
    engine.apply(gang("g", terms(2)), START);
    for name in ["a", "b"] {
        engine.apply(told(member(name, "g", 1_000)), START);
    }
    assert_eq!(decided(&mut engine, START).len(), 2);
    engine.answered(&uid("a"), Answer::Refused, START);
    engine.answered(&uid("b"), Answer::Refused, START);
    let lost = node_of(&engine, "b");
    engine.apply(Fact::NodeGone((*lost).into()), START);
    let soon = START.after(Duration::from_secs(2));
    settled(&mut engine, soon);
    assert_eq!((placed(&engine), engine.gangs_released()), (0, 0));
    engine.apply(node("p", 1_000), soon);
    let words = settled(&mut engine, soon.after(Duration::from_secs(20)));
    assert_eq!(placed(&engine), 2, "{words:?}");
}

#[test]
fn a_member_whose_node_goes_while_others_are_made_ready_gets_another_or_nobody_starts() {
    let (mut engine, lost) = preparing();
    engine.apply(Fact::NodeGone((*lost).into()), START);
    engine.apply(node("p", 1_000), START);
    let words = prepared(&mut engine);
    assert!(words.iter().any(|own| own.starts_with("b to p")), "{words:?}");
    assert!(words.iter().any(|own| own.starts_with("a to")), "{words:?}");

    let (mut engine, lost) = preparing();
    engine.apply(Fact::NodeGone((*lost).into()), START);
    prepared(&mut engine);
    assert_eq!((placed(&engine), engine.gangs_released()), (0, 0));
}

#[test]
fn while_the_volumes_of_one_could_not_be_asked_for_nobody_of_its_gang_is_bound() {
    let (mut engine, _) = preparing();
    engine.answered(&uid("a"), Answer::Refused, START);
    assert_eq!(settled(&mut engine, START), [""; 0]);
    let soon = START.after(Duration::from_secs(2));
    let words = settled(&mut engine, soon);
    assert!(words.len() == 1 && words[0].starts_with("a to "), "it is tried again: {words:?}");
    let words = prepared(&mut engine);
    assert_eq!(words.len(), 2, "{words:?}");
}

/// A gang of two for whom two of lower priority have to go, and what was said to its members.
fn awaiting_room() -> (Engine, Vec<Uid>) {
    let profile = Profile {
        gangs: Some(GangSettings::default()),
        last_resorts: vec![LastResort::Coscheduling],
        ..Profile::kubernetes()
    };
    let mut engine =
        Engine::new(Settings::default(), vec![(DEFAULT_SCHEDULER.into(), profile)], START);
    engine.apply(node("n", 1_000), START);
    engine.apply(node("o", 1_000), START);
    for (name, on) in [("v", "n"), ("w", "o")] {
        engine.apply(bound(pod(name, 1_000), on), START);
    }
    engine.apply(gang("g", terms(2)), START);
    for name in ["a", "b"] {
        engine.apply(told(important(name)), START);
    }
    let mut told = Vec::new();
    for _ in 0..100 {
        if let Some(decision) = engine.decide(START)
            && let Verdict::Wait(waiting) = decision.verdict
            && waiting.room().is_some()
        {
            told.push(decision.pod.uid);
        }
    }
    assert_eq!(told, [uid("a"), uid("b")]);
    (engine, told)
}

fn important(name: &str) -> PodFact {
    PodFact { priority: 9, ..member(name, "g", 1_000) }
}

#[test]
fn where_those_who_have_to_go_were_not_asked_to_the_group_is_tried_again_after_a_while() {
    for first in [0, 1] {
        let (mut engine, told) = awaiting_room();
        let entry = engine.gang_entry(&id("g"));
        let (failed, other) = (&told[first], &told[1 - first]);
        engine.undone(failed, START);
        engine.done(other, START);
        let nominated = |uid: &Uid| engine.ledger().nominated(uid).is_some();
        assert!(!nominated(failed) && nominated(other));
        assert!(matches!(engine.queue().standing(&entry), Some(Standing::ErrorBackoff(_))));
        // Who was asked goes first, and then the other is asked once more.
        let later = START.after(Duration::from_secs(5));
        let is_to_go = |words: &[String]| words.iter().any(|own| own.ends_with(" to go"));
        assert!(!is_to_go(&settled(&mut engine, later)));
        let goes = if engine.ledger().nominated(other) == Some("n") { "v" } else { "w" };
        engine.apply(Fact::PodGone(uid(goes)), later);
        let later = later.after(Duration::from_secs(10));
        let words = settled(&mut engine, later);
        assert!(is_to_go(&words), "{words:?}");
    }
}

#[test]
fn members_who_were_not_told_why_they_wait_are_told_when_they_are_tried_again() {
    let mut engine = engine();
    engine.apply(node("n", 1_000), START);
    engine.apply(gang("g", terms(2)), START);
    for name in ["a", "b"] {
        engine.apply(told(member(name, "g", 1_000)), START);
    }
    let mut told = Vec::new();
    for _ in 0..10 {
        told.extend(engine.decide(START).map(|decision| decision.pod.uid));
    }
    assert_eq!(told, [uid("a"), uid("b")]);
    engine.undone(&uid("a"), START);
    engine.done(&uid("b"), START);
    let words = settled(&mut engine, START.after(Duration::from_secs(5)));
    assert!(words.iter().any(|own| own.starts_with("a waits, try 2")), "{words:?}");
}

#[test]
fn where_too_few_are_left_no_room_is_kept_for_the_others() {
    let fewer: fn(&mut Engine) = |engine| engine.apply(Fact::PodGone(uid("a")), START);
    let more: fn(&mut Engine) = |engine| engine.apply(gang("g", terms(3)), START);
    for change in [fewer, more] {
        let (mut engine, told) = awaiting_room();
        for uid in &told {
            engine.done(uid, START);
        }
        assert!(told.iter().all(|uid| engine.ledger().nominated(uid).is_some()));
        engine.apply(Fact::PodGone(uid("v")), START);
        engine.apply(Fact::PodGone(uid("w")), START);
        change(&mut engine);
        assert!(told.iter().all(|uid| engine.ledger().nominated(uid).is_none()));
        engine.apply(super::told(pod("low", 1_000)), START);
        let words = settled(&mut engine, START);
        assert!(words.iter().any(|own| own.starts_with("low to ")), "{words:?}");
    }
}

#[test]
fn who_waits_for_room_that_a_gang_needs_no_longer_is_tried_at_once() {
    let (mut engine, told) = awaiting_room();
    for uid in &told {
        engine.done(uid, START);
    }
    engine.apply(Fact::PodGone(uid("v")), START);
    engine.apply(Fact::PodGone(uid("w")), START);
    // Not tried itself before it waits for room that is kept for the gang.
    engine.apply(gang("g", GangTerms { groups: groups(&["g", "h"]), ..terms(2) }), START);
    engine.apply(super::told(pod("low", 1_000)), START);
    let later = START.after(Duration::from_secs(10));
    let words = settled(&mut engine, later);
    assert!(words.iter().any(|own| own.starts_with("low to ")), "{words:?}");
}

#[test]
fn who_leaves_before_it_is_told_of_the_room_that_is_made_holds_up_nobody() {
    for (how, change) in leaving() {
        let (mut engine, told) = awaiting_room();
        engine.done(&told[0], START);
        engine.apply(super::told(change(important("b"))), START);
        engine.apply(super::told(important("c")), START);
        engine.apply(Fact::PodGone(uid("v")), START);
        engine.apply(Fact::PodGone(uid("w")), START);
        let later = START.after(Duration::from_secs(20));
        engine.apply(node("p", 2_000), later);
        let words = settled(&mut engine, later);
        let started = ["a", "c"].iter().filter(|name| has_claim(&engine, name)).count();
        assert_eq!(started, 2, "{how}: {words:?}");
    }
}

#[test]
fn a_pod_that_its_quota_let_in_and_that_joins_a_gang_leaves_its_place_to_others() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    let max: quota::ByResource = [("cpu".into(), 1_000)].into();
    engine.apply(Fact::Quota(Box::new(QuotaFact::new("q", max))), START);
    let of_quota = |fact: PodFact| PodFact { quota: Some("q".into()), ..fact };
    engine.apply(bound(of_quota(pod("x", 1_000)), "n"), START);
    engine.apply(told(of_quota(pod("p", 1_000))), START);
    settled(&mut engine, START);
    engine.apply(Fact::PodGone(uid("x")), START);
    engine.apply(told(PodFact { priority: 9, ..pod("high", 1_000) }), START);
    // The quota lets it in while another comes first.
    assert_eq!(&*engine.decide(START).unwrap().pod.name, "high");
    assert_eq!(engine.queue().standing(&uid("p")), Some(Standing::Active));
    engine.apply(gang("g", terms(2)), START);
    engine.apply(told(of_quota(member("p", "g", 1_000))), START);
    engine.apply(told(of_quota(pod("r", 1_000))), START);
    let words = settled(&mut engine, START);
    assert_eq!(words, ["r to n, try 1"]);
}

#[test]
fn who_is_left_of_those_that_were_to_be_bound_gives_up_where_all_others_are_lost() {
    let mut engine = engine();
    engine.apply(node("n", 2_000), START);
    engine.apply(gang("g", terms(2)), START);
    for name in ["a", "b"] {
        engine.apply(told(member(name, "g", 1_000)), START);
    }
    assert_eq!(decided(&mut engine, START).len(), 2);
    engine.answered(&uid("a"), Answer::Lost, START);
    engine.answered(&uid("b"), Answer::Refused, START);
    assert_eq!((placed(&engine), engine.gangs_released()), (0, 0));
    // What became of the one that is lost is not known yet: meanwhile others are decided about.
    engine.apply(told(pod("other", 1_000)), START);
    assert_eq!(settled(&mut engine, START), ["other to n, try 1"]);
    engine.apply(Fact::PodGone(uid("a")), START);
    let words = settled(&mut engine, SOON);
    assert_eq!(words, ["b waits: gang default/g waits for members: collected 1/2"]);
}

#[test]
fn who_is_not_needed_and_got_no_node_is_by_itself_once_the_others_are_bound_and_not_before() {
    let running = GangTerms { match_policy: Some(MatchPolicy::WaitingAndRunning), ..terms(2) };
    let mut engine = engine();
    engine.apply(node("n", 2_000), START);
    engine.apply(class("somebody"), START);
    engine.apply(gang("g", running), START);
    engine.apply(claim("a", None, None), START);
    engine.apply(told(with_volume("a")), START);
    for (name, millis) in [("b", 1_000), ("c", 900)] {
        engine.apply(told(member(name, "g", millis)), START);
    }
    assert_eq!(settled(&mut engine, START).len(), 1);
    assert_eq!(placed(&engine), 2);
    assert_eq!(engine.queue().standing(&uid("c")), None);
    let words = prepared(&mut engine);
    assert!(words.iter().any(|own| own.starts_with("c waits, try 1")), "{words:?}");
}

#[test]
fn while_only_numbers_change_in_why_a_gang_waits_one_is_told_of_each_attempt() {
    let mut engine = engine();
    engine.apply(node("n", 1_200), START);
    engine.apply(gang("g", terms(4)), START);
    for name in ["a", "b", "c", "d"] {
        engine.apply(told(member(name, "g", 1_100)), START);
    }
    assert_eq!(settled(&mut engine, START).len(), 4);
    for (number, name) in (2..).zip(["o", "p"]) {
        let later = START.after(Duration::from_secs(number * 60));
        engine.apply(node(name, 1_200), later);
        let words = settled(&mut engine, later);
        assert!(words.len() == 1 && words[0].contains(&format!("0/{number} nodes")), "{words:?}");
    }
    let later = START.after(Duration::from_secs(900));
    let Fact::Node(own) = node("q", 1_200) else { panic!() };
    engine.apply(Fact::Node(NodeFact { unschedulable: true, ..own }), later);
    engine.apply(node("o", 1_300), later);
    let words = settled(&mut engine, later);
    assert_eq!(words.len(), 4, "one node says something else: {words:?}");
}
