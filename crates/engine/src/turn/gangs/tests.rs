mod changes;
mod first;
mod laws;
mod plans;
mod release;
mod standby;
mod volumes;
mod waking;

use std::time::Duration;

use api::pod_group::{GangId, GangTerms, IncompleteStart, MatchPolicy};

use super::*;
use crate::fact::{DEFAULT_SCHEDULER, PodFact};
use crate::gangs::{Incarnation, Membership, Settings as GangSettings};
use crate::needs::{Volume, Volumes};
use crate::profile::{LastResort, Profile};
use crate::quota::{self, QuotaFact};
use crate::turn::tests::{START, claim, class, decided, node, pod, told, volume};
use crate::turn::{Answer, ClearingEnd, GangStep, PlanEnd, Settings};

fn engine() -> Engine {
    let profile = Profile {
        gangs: Some(GangSettings::default()),
        quota: Some(quota::Settings::default()),
        ..Profile::kubernetes()
    };
    Engine::new(Settings::default(), vec![(DEFAULT_SCHEDULER.into(), profile)], START)
}

fn id(name: &str) -> GangId {
    GangId::new("default", name)
}

fn terms(min: u32) -> GangTerms {
    GangTerms { min_available: Some(min), total_number: Some(min), ..GangTerms::default() }
}

/// An object that describes a gang.
fn gang(name: &str, terms: GangTerms) -> Fact {
    Fact::Gang { id: id(name), terms: Some(Box::new(terms)), has_started: false }
}

fn groups(names: &[&str]) -> BTreeSet<GangId> {
    names.iter().map(|name| id(name)).collect()
}

/// A member of a gang that an object describes.
fn member(name: &str, of: &str, millis: i64) -> PodFact {
    let own = Membership { gang: id(of), terms: None, created: Moment(0), incarnation: None };
    PodFact { gang: Some(Arc::new(own)), ..pod(name, millis) }
}

/// A member of a gang that its pods describe.
fn describing(name: &str, of: &str, millis: i64, created: u64, terms: GangTerms) -> PodFact {
    let own = Membership {
        gang: id(of),
        terms: Some(Box::new(terms)),
        created: Moment(created),
        incarnation: None,
    };
    PodFact { gang: Some(Arc::new(own)), ..pod(name, millis) }
}

fn bound(fact: PodFact, to: &str) -> Fact {
    told(PodFact { node: Some(to.into()), ..fact })
}

/// When members are told what they wait for.
const SOON: Moment = Moment(START.0 + 600_000_000);

fn uid(name: &str) -> Uid {
    Uid::new(name)
}

/// How many members of the cluster have a node.
fn placed(engine: &Engine) -> usize {
    engine.ledger().pods().filter(|(_, row)| row.is_placed()).count()
}

#[test]
fn s12_g1_members_wait_until_there_are_enough_and_are_told_how_many_there_are() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    engine.apply(gang("g", terms(4)), START);
    for name in ["a", "b", "c"] {
        engine.apply(told(member(name, "g", 1_000)), START);
    }
    let waits = |name: &str, there: usize| {
        format!("{name} waits: gang default/g waits for members: collected {there}/4")
    };
    assert_eq!(decided(&mut engine, START), [""; 0], "a moment later they might be enough");
    assert_eq!(decided(&mut engine, SOON), [waits("a", 3), waits("b", 3), waits("c", 3)]);
    engine.apply(told(member("a", "g", 1_000)), SOON);
    let late = SOON.after(Duration::from_secs(9));
    assert_eq!(decided(&mut engine, late), [""; 0], "each is told once");
    assert!(engine.queue().is_empty());
    let news = engine.take_gang_news();
    let Some(GangNews::Waits(wait)) = news.get(&id("g")) else { panic!("{news:?}") };
    assert_eq!(wait.to_string(), "gang default/g waits for members: collected 3/4");
}

#[test]
fn s12_g2_s12_g15_s12_g18_a_gang_is_one_entry_and_all_get_nodes_at_once_before_anybody_else() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    engine.apply(gang("g", terms(3)), START);
    for name in ["a", "b", "c"] {
        engine.apply(told(member(name, "g", 1_000)), START);
    }
    assert_eq!(engine.queue().len(), 1, "of the gang, one is in the queue");
    // Who comes while a gang is planned waits for its turn, whatever its priority.
    let mut first = None;
    while first.is_none() {
        first = engine.decide(START);
        engine.apply(told(PodFact { priority: 9, ..pod("high", 1_000) }), START);
    }
    assert_eq!(placed(&engine), 3);
    let stamp = first.unwrap().gang.unwrap();
    assert_eq!((&*stamp.group, stamp.members), ("default/g", 3));
    let words = decided(&mut engine, START);
    assert_eq!(words, ["b to n, try 1", "c to n, try 1", "high to n, try 1"]);
}

#[test]
fn s12_g3_where_one_is_gone_the_others_wait_again() {
    let mut engine = engine();
    engine.apply(gang("g", terms(4)), START);
    for name in ["a", "b", "c", "d"] {
        engine.apply(told(member(name, "g", 1_000)), START);
    }
    assert_eq!(engine.queue().len(), 1);
    engine.apply(Fact::PodGone(uid("a")), START);
    assert!(engine.queue().is_empty());
    engine.apply(node("n", 10_000), START);
    engine.apply(told(member("e", "g", 1_000)), START);
    let words = decided(&mut engine, START);
    assert!(words.iter().filter(|words| words.contains(" to n")).count() == 4, "{words:?}");
}

#[test]
fn s12_g4_s12_g5_pods_may_come_before_what_describes_their_gang() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    for name in ["a", "b", "c"] {
        engine.apply(told(member(name, "g", 1_000)), START);
    }
    let words = decided(&mut engine, SOON);
    assert_eq!(words.len(), 3);
    assert_eq!(words[0], "a waits: gang default/g is not described: create PodGroup default/g");
    engine.apply(gang("g", terms(3)), START);
    assert_eq!(engine.queue().len(), 1);
    assert_eq!(decided(&mut engine, START), ["a to n, try 1", "b to n, try 1", "c to n, try 1"]);
}

#[test]
fn s12_g6_s12_g30_once_a_gang_has_started_who_comes_is_by_itself() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    engine.apply(gang("g", terms(4)), START);
    // As after a restart: all is known from what the API server shows.
    for name in ["a", "b", "c"] {
        engine.apply(bound(member(name, "g", 1_000), "n"), START);
    }
    engine.apply(told(member("d", "g", 1_000)), START);
    assert_eq!(decided(&mut engine, START), ["d to n, try 1"]);
}

#[test]
fn once_a_group_has_started_the_first_of_another_of_its_gangs_is_by_itself() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    for name in ["g", "h"] {
        let own = GangTerms { groups: groups(&["g", "h"]), ..terms(2) };
        engine.apply(gang(name, own), START);
    }
    engine.apply(bound(member("a", "g", 1_000), "n"), START);
    engine.apply(told(member("b", "h", 1_000)), START);
    assert_eq!(decided(&mut engine, START), ["b to n, try 1"]);
}

#[test]
fn a_gang_has_started_for_as_long_as_its_object_or_any_member_is_there() {
    let check = |first: &dyn Fn(&str) -> PodFact, is_object: bool, expected: &str| {
        let mut engine = engine();
        engine.apply(node("n", 10_000), START);
        if is_object {
            engine.apply(gang("g", terms(4)), START);
        }
        for name in ["a", "b"] {
            engine.apply(bound(first(name), "n"), START);
        }
        for name in ["a", "b"] {
            engine.apply(Fact::PodGone(uid(name)), START);
        }
        engine.apply(told(first("again")), START);
        assert_eq!(decided(&mut engine, SOON), [expected]);
    };
    check(&|name| member(name, "g", 1_000), true, "again to n, try 1");
    let waits = "again waits: gang default/g waits for members: collected 1/4";
    check(&|name| describing(name, "g", 1_000, 5, terms(4)), false, waits);
}

#[test]
fn a_gang_of_which_its_group_says_that_it_has_started_has() {
    let again = |has_started: bool| {
        let mut engine = engine();
        engine.apply(node("n", 10_000), START);
        let own = Some(Box::new(terms(4)));
        engine.apply(Fact::Gang { id: id("g"), terms: own.clone(), has_started }, START);
        engine.apply(told(member("again", "g", 1_000)), START);
        (engine, own)
    };
    let waits = "again waits: gang default/g waits for members: collected 1/4";
    assert_eq!(decided(&mut again(true).0, SOON), ["again to n, try 1"]);
    assert_eq!(decided(&mut again(false).0, SOON), [waits]);
    // Of one that is known already it is known here.
    let (mut engine, own) = again(false);
    engine.apply(Fact::Gang { id: id("g"), terms: own.clone(), has_started: true }, START);
    assert_eq!(decided(&mut engine, SOON), [waits]);
    // One that is made anew says what is so of it.
    let (mut engine, own) = again(true);
    engine.apply(Fact::Gang { id: id("g"), terms: None, has_started: false }, START);
    engine.apply(Fact::Gang { id: id("g"), terms: own, has_started: false }, START);
    assert_eq!(decided(&mut engine, SOON), [waits]);
}

#[test]
fn a_gang_that_is_made_again_while_its_old_members_go_starts_whole_once_more() {
    let check = |is_object: bool, is_replaced: bool, expected: &str| {
        let own = |name: &str| match is_object {
            true => member(name, "g", 1_000),
            false => describing(name, "g", 1_000, 5, terms(4)),
        };
        let mut engine = engine();
        engine.apply(node("n", 10_000), START);
        if is_object {
            engine.apply(gang("g", terms(4)), START);
        }
        for name in ["a", "b"] {
            engine.apply(bound(own(name), "n"), START);
            engine.apply(bound(PodFact { deleting: true, ..own(name) }, "n"), START);
        }
        if is_replaced {
            engine.apply(Fact::Gang { id: id("g"), terms: None, has_started: false }, START);
            engine.apply(gang("g", terms(4)), START);
        }
        engine.apply(told(own("again")), START);
        assert_eq!(decided(&mut engine, SOON), [expected], "{is_object} {is_replaced}");
    };
    let waits = "again waits: gang default/g waits for members: collected 1/4";
    check(true, true, waits);
    check(false, false, waits);
    check(true, false, waits);
}

/// A gang of which these members are bound.
fn started(terms: GangTerms, members: &[&str]) -> Engine {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    engine.apply(gang("g", terms), START);
    for name in members {
        engine.apply(bound(member(name, "g", 1_000), "n"), START);
    }
    engine
}

/// One of them is asked to go.
fn going(name: &str) -> Fact {
    bound(PodFact { deleting: true, ..member(name, "g", 1_000) }, "n")
}

#[test]
fn a_gang_that_was_taken_whole_starts_whole_again_and_one_of_which_members_ended_does_not() {
    let waits = "again waits: gang default/g waits for members: collected 1/2";
    let check = |ended: &[&str], deleted: &[&str], expected: &str| {
        let mut engine = started(terms(2), &["a", "b", "c"]);
        ended.iter().for_each(|name| engine.apply(Fact::PodGone(uid(name)), START));
        deleted.iter().for_each(|name| engine.apply(going(name), START));
        deleted.iter().for_each(|name| engine.apply(Fact::PodGone(uid(name)), START));
        engine.apply(told(member("again", "g", 1_000)), START);
        assert_eq!(decided(&mut engine, SOON), [expected], "{ended:?} {deleted:?}");
    };
    check(&[], &["a", "b", "c"], waits);
    check(&["a"], &["b", "c"], waits);
    check(&["a", "b"], &["c"], "again to n, try 1");
    check(&["a", "b", "c"], &[], "again to n, try 1");
    check(&[], &["a", "b"], "again to n, try 1");
}

#[test]
fn a_start_in_part_that_is_undone_begins_anew_unless_a_member_has_ended() {
    let check = |says: IncompleteStart, ended: &[&str], deleted: &[&str], expected: &str| {
        let own = GangTerms { incomplete_start: says, ..terms(3) };
        let mut engine = started(own, &["a", "b"]);
        ended.iter().for_each(|name| engine.apply(Fact::PodGone(uid(name)), START));
        for name in deleted {
            engine.apply(going(name), START);
            engine.apply(Fact::PodGone(uid(name)), START);
        }
        assert!(!engine.ledger().gangs.was_whole(&id("g")));
        engine.apply(told(member("again", "g", 1_000)), START);
        assert_eq!(decided(&mut engine, SOON), [expected], "{says:?} {ended:?} {deleted:?}");
    };
    let waits = "again waits: gang default/g waits for members: collected 1/3";
    check(IncompleteStart::Delete, &[], &["a", "b"], waits);
    check(IncompleteStart::Delete, &["a"], &["b"], "again to n, try 1");
    check(IncompleteStart::Delete, &[], &["a"], "again to n, try 1");
    check(IncompleteStart::Keep, &[], &["a", "b"], waits);
    check(IncompleteStart::Keep, &[], &["a"], "again to n, try 1");
}

#[test]
fn a_member_that_failed_has_not_ended_so_that_a_gang_that_is_tried_again_starts_whole() {
    let mut engine = started(terms(2), &["a", "b"]);
    engine.apply(Fact::PodFailed(uid("a")), START);
    engine.apply(told(member("again", "g", 1_000)), START);
    assert_eq!(decided(&mut engine, SOON), ["again to n, try 1"], "the other one runs");
    engine.answered(&uid("again"), Answer::Lost, SOON);
    engine.apply(Fact::PodGone(uid("again")), SOON);
    engine.apply(going("b"), SOON);
    engine.apply(Fact::PodGone(uid("b")), SOON);
    engine.apply(told(member("anew", "g", 1_000)), SOON);
    let late = SOON.after(Duration::from_secs(1));
    let waits = "anew waits: gang default/g waits for members: collected 1/2";
    assert_eq!(decided(&mut engine, late), [waits]);
}

#[test]
fn s12_g7_s12_g8_s12_g9_s12_g16_of_pods_that_describe_a_gang_the_first_that_can_be_read_counts() {
    let mut engine = engine();
    let wrong = GangTerms::default();
    engine.apply(told(describing("a", "g", 1_000, 5, wrong)), START);
    let words = decided(&mut engine, SOON);
    assert!(words[0].starts_with("a waits: gang default/g cannot start: "), "{words:?}");
    engine.apply(told(describing("b", "g", 1_000, 7, terms(3))), START);
    engine.apply(told(describing("c", "g", 1_000, 6, terms(2))), START);
    assert_eq!(engine.ledger().gangs.terms(&id("g")).unwrap().min_available, Some(2));
    engine.apply(node("n", 10_000), START);
    assert_eq!(decided(&mut engine, START).iter().filter(|own| own.contains(" to ")).count(), 3);
    // Nothing is left of it when all are gone.
    for name in ["a", "b", "c"] {
        engine.apply(Fact::PodGone(uid(name)), START);
    }
    assert!(engine.ledger().gangs.is_empty());
}

#[test]
fn s12_g10_s12_g11_s12_g12_a_group_has_one_time_the_least_that_is_said() {
    let mut engine = engine();
    let with = |seconds: Option<u64>, own: &[&str]| GangTerms {
        waiting_time: seconds.map(Duration::from_secs),
        groups: groups(own),
        ..terms(1)
    };
    engine.apply(gang("a", with(None, &[])), START);
    engine.apply(gang("b", with(Some(10), &["b", "c"])), START);
    engine.apply(gang("c", with(Some(20), &["b", "c"])), START);
    let wait = |name: &str| engine.ledger().gang_wait(&engine.ledger().group_of(&id(name)));
    assert_eq!(wait("a"), Duration::from_secs(600));
    assert_eq!((wait("b"), wait("c")), (Duration::from_secs(10), Duration::from_secs(10)));
}

#[test]
fn s12_g13_s12_g14_gangs_of_a_group_wait_for_each_other() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    let both = |min| GangTerms { groups: groups(&["a", "b"]), ..terms(min) };
    engine.apply(gang("a", both(1)), START);
    engine.apply(told(member("a1", "a", 1_000)), START);
    let words = decided(&mut engine, SOON);
    assert_eq!(
        words,
        ["a1 waits: waiting for gang default/b: gang default/b is not described: create PodGroup \
          default/b"]
    );
    engine.apply(gang("b", both(2)), START);
    engine.apply(told(member("b1", "b", 1_000)), START);
    let words = decided(&mut engine, SOON);
    assert_eq!(words.len(), 2, "both hear what is missing now: {words:?}");
    assert!(
        words.iter().all(|own| own.ends_with("gang default/b waits for members: collected 1/2"))
    );
    engine.apply(told(member("b2", "b", 1_000)), START);
    let words = decided(&mut engine, START);
    assert_eq!(words, ["a1 to n, try 1", "b1 to n, try 1", "b2 to n, try 1"]);
}

#[test]
fn of_gangs_that_start_at_once_those_with_members_hear_that_the_first_has_none() {
    let mut engine = engine();
    for name in ["a", "b"] {
        engine.apply(gang(name, GangTerms { groups: groups(&["a", "b"]), ..terms(1) }), START);
    }
    engine.apply(told(member("b1", "b", 1_000)), START);
    let words = decided(&mut engine, SOON);
    assert_eq!(words, ["b1 waits: gang default/a waits for members: collected 0/1"]);
}

#[test]
fn a_gang_that_names_one_which_names_others_waits_until_that_has_started() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    engine.apply(gang("a", GangTerms { groups: groups(&["a", "b"]), ..terms(1) }), START);
    engine.apply(gang("b", terms(1)), START);
    engine.apply(told(member("a1", "a", 1_000)), START);
    assert_eq!(
        decided(&mut engine, SOON),
        ["a1 waits: waiting for gang default/b: gang default/b waits for members: collected 0/1"]
    );
    engine.apply(told(member("b1", "b", 1_000)), START);
    assert_eq!(decided(&mut engine, START), ["b1 to n, try 1"]);
    engine.apply(bound(member("b1", "b", 1_000), "n"), START);
    assert_eq!(decided(&mut engine, START), ["a1 to n, try 1"]);
}

#[test]
fn gangs_that_name_each_other_and_not_the_same_are_invalid_and_say_where_they_differ() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    let named = |own: &[&str]| GangTerms { groups: groups(own), ..terms(1) };
    engine.apply(gang("a", named(&["a", "b"])), START);
    engine.apply(gang("b", named(&["a", "b", "c"])), START);
    engine.apply(told(member("a1", "a", 1_000)), START);
    engine.apply(told(member("b1", "b", 1_000)), START);
    let wrong = |own: &str, gangs: &str| {
        format!(
            "{own} waits: gangs {gangs} cannot start: each names the other, and only one of them names \
             default/c; name the same gangs in both"
        )
    };
    let expected = [wrong("a1", "default/a and default/b"), wrong("b1", "default/b and default/a")];
    assert_eq!(decided(&mut engine, SOON), expected);
    engine.apply(gang("b", named(&["a", "b"])), SOON);
    assert_eq!(decided(&mut engine, SOON), ["a1 to n, try 1", "b1 to n, try 1"]);
}

#[test]
fn s12_g19_s12_g20_no_gang_of_a_group_gets_nodes_where_another_gets_none() {
    let mut engine = engine();
    engine.apply(node("n", 4_000), START);
    let both = |min| GangTerms { groups: groups(&["a", "b"]), ..terms(min) };
    engine.apply(gang("a", both(3)), START);
    engine.apply(gang("b", both(2)), START);
    for (name, of) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b")] {
        engine.apply(told(member(name, of, 1_000)), START);
    }
    let words = decided(&mut engine, START);
    assert_eq!(words.len(), 5, "{words:?}");
    assert_eq!((placed(&engine), engine.gangs_released()), (0, 0));
    engine.apply(node("m", 1_000), START);
    assert_eq!(decided(&mut engine, START).len(), 5);
    assert_eq!((placed(&engine), engine.gangs_released()), (5, 1));
    for (name, of) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b")] {
        engine.answered(&uid(name), Answer::Done, START);
        engine.apply(bound(member(name, of, 1_000), "n"), START);
    }
    assert_eq!(engine.gangs_released(), 0);
}

#[test]
fn s12_g21_s12_g22_s12_g23_which_members_count_is_a_matter_of_policy() {
    let check = |policy: MatchPolicy, starts: bool| {
        let mut engine = engine();
        engine.apply(node("n", 10_000), START);
        engine.apply(gang("g", GangTerms { match_policy: Some(policy), ..terms(3) }), START);
        for name in ["a", "b"] {
            engine.apply(bound(member(name, "g", 1_000), "n"), START);
        }
        engine.apply(told(member("c", "g", 1_000)), START);
        let words = decided(&mut engine, SOON);
        let waits = "c waits: gang default/g waits for members: collected 1/3";
        assert_eq!(words, [if starts { "c to n, try 1" } else { waits }], "{policy:?}");
    };
    check(MatchPolicy::WaitingAndRunning, true);
    check(MatchPolicy::OnceSatisfied, true);
    check(MatchPolicy::OnlyWaiting, false);
}

#[test]
fn s12_g31_after_a_restart_in_the_middle_the_rest_of_those_that_started_follows() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    let only = GangTerms { match_policy: Some(MatchPolicy::OnlyWaiting), ..terms(3) };
    engine.apply(gang("g", only), START);
    let started = |name: &str| {
        let mut fact = member(name, "g", 1_000);
        let mut own = (**fact.gang.as_ref().unwrap()).clone();
        own.incarnation = Some(Incarnation { group: "default/g".into(), members: 3 });
        fact.gang = Some(Arc::new(own));
        bound(fact, "n")
    };
    engine.apply(started("a"), START);
    engine.apply(started("b"), START);
    engine.apply(told(member("c", "g", 1_000)), START);
    assert_eq!(decided(&mut engine, START), ["c to n, try 1"]);
    engine.apply(started("c"), START);
    engine.apply(told(member("d", "g", 1_000)), START);
    let words = decided(&mut engine, SOON);
    assert_eq!(words, ["d waits: gang default/g waits for members: collected 1/3"]);
}

#[test]
fn those_that_started_before_who_waits_was_there_count_for_no_start_of_it() {
    let check = |bound_at: &[(u64, usize)], gone: usize, created: u64, expected: bool| {
        let mut engine = engine();
        engine.apply(node("n", 10_000), START);
        let only = GangTerms { match_policy: Some(MatchPolicy::OnlyWaiting), ..terms(3) };
        engine.apply(gang("g", only), START);
        let of = |name: &str, created: u64, incarnation: Option<Incarnation>| {
            let own =
                Membership { gang: id("g"), terms: None, created: Moment(created), incarnation };
            PodFact { gang: Some(Arc::new(own)), ..pod(name, 1_000) }
        };
        let started = Incarnation { group: "default/g".into(), members: 3 };
        let all = bound_at.iter().flat_map(|(at, count)| (0..*count).map(move |n| (*at, n)));
        for (at, number) in all.skip(gone) {
            let fact = of(&format!("p{at}-{number}"), 0, Some(started.clone()));
            engine.apply(bound(PodFact { started: Some(Moment(at)), ..fact }, "n"), START);
        }
        engine.apply(told(of("new", created, None)), START);
        let words = decided(&mut engine, SOON);
        let is_bound = words.iter().any(|own| own.starts_with("new to n"));
        assert_eq!(is_bound, expected, "{bound_at:?} {gone} {created}: {words:?}");
    };
    check(&[(100, 2)], 0, 50, true);
    check(&[(100, 2)], 0, 100, true);
    check(&[(100, 3)], 1, 200, false);
    check(&[(100, 3), (300, 2)], 0, 200, true);
    check(&[(100, 3), (300, 3)], 1, 400, false);
}

#[test]
fn s12_g17_s12_g24_s12_g28_where_one_gets_no_node_nobody_does_and_all_hear_why() {
    let mut engine = engine();
    engine.apply(node("n", 3_000), START);
    engine.apply(gang("g", terms(3)), START);
    for name in ["a", "b", "c"] {
        engine.apply(told(member(name, "g", 1_100)), START);
    }
    let words = decided(&mut engine, START);
    assert_eq!(words.len(), 3, "{words:?}");
    let text = "0/1 nodes are available: 1 Insufficient cpu.";
    assert!(words.iter().all(|own| own.ends_with(text)), "{words:?}");
    assert_eq!(placed(&engine), 0, "nobody holds anything");
    let news = engine.take_gang_news();
    let expected: Arc<str> =
        "GangGroup \"default/g\" gets rejected due to member Pod \"default/c\" is \
        unschedulable with reason \"0/1 nodes are available: 1 Insufficient cpu.\", \
        alreadyWaitForBound: 2"
            .into();
    assert_eq!(news.get(&id("g")), Some(&GangNews::Refused(expected)));
    // What does not help wakes nobody; what does wakes the gang, without any rest.
    engine.apply(told(pod("other", 100)), START);
    assert_eq!(decided(&mut engine, START), ["other to n, try 1"]);
    engine.apply(node("m", 3_000), START);
    let words = decided(&mut engine, START);
    assert_eq!(words.iter().filter(|own| own.ends_with("try 2")).count(), 3, "{words:?}");
}

#[test]
fn s12_g25_further_members_get_nodes_where_there_are_some_and_never_hold_up_the_others() {
    let mut engine = engine();
    engine.apply(node("n", 3_000), START);
    engine.apply(gang("g", terms(2)), START);
    for (name, millis) in [("a", 1_000), ("b", 1_000), ("c", 1_000), ("d", 9_000), ("e", 1_000)] {
        engine.apply(told(member(name, "g", millis)), START);
    }
    let words = decided(&mut engine, START);
    assert_eq!(words, ["a to n, try 1", "b to n, try 1", "c to n, try 1"]);
    engine.answered(&uid("a"), Answer::Done, START);
    engine.apply(bound(member("a", "g", 1_000), "n"), START);
    let words = decided(&mut engine, START);
    assert_eq!(words.len(), 2, "the gang has started, and the rest are by themselves: {words:?}");
}

#[test]
fn a_gang_that_is_left_by_another_of_its_group_keeps_its_turn() {
    let mut engine = engine();
    engine.apply(node("n", 1_000), START);
    let both = || GangTerms { groups: groups(&["g", "h"]), ..terms(1) };
    engine.apply(gang("g", both()), START);
    engine.apply(gang("h", both()), START);
    engine.apply(told(member("a", "g", 9_000)), START);
    engine.apply(bound(member("b", "h", 100), "n"), START);
    engine.apply(
        gang("g", GangTerms { match_policy: Some(MatchPolicy::OnlyWaiting), ..both() }),
        START,
    );
    decided(&mut engine, START);
    // What describes the other is gone: that is of no group any longer, and has started.
    engine.apply(Fact::Gang { id: id("h"), terms: None, has_started: false }, START);
    assert!(engine.queue().standing(&engine.gang_entry(&id("g"))).is_some());
}

#[test]
fn who_comes_after_its_gang_was_refused_hears_why() {
    let mut engine = engine();
    engine.apply(node("n", 1_000), START);
    engine.apply(gang("g", terms(2)), START);
    engine.apply(told(member("a", "g", 1_000)), START);
    engine.apply(told(member("b", "g", 1_000)), START);
    let words = decided(&mut engine, START);
    assert_eq!(words.len(), 2, "{words:?}");
    engine.apply(told(member("c", "g", 1_000)), START);
    let words = decided(&mut engine, START);
    assert!(words.iter().any(|own| own.starts_with("c waits, try 1: ")), "{words:?}");
    assert!(words.iter().all(|own| !own.starts_with("a waits")), "others have heard it: {words:?}");
    assert!(words.iter().any(|own| own.starts_with("b waits, try 2")), "it was tried: {words:?}");
}

#[test]
fn two_gangs_that_need_the_same_nodes_do_not_hold_each_other_up() {
    let mut engine = engine();
    engine.apply(node("n", 3_000), START);
    for name in ["x", "y"] {
        engine.apply(gang(name, terms(3)), START);
    }
    for name in ["x1", "y1", "x2", "y2", "x3", "y3"] {
        engine.apply(told(member(name, &name[..1], 1_000)), START);
    }
    let words = decided(&mut engine, START);
    assert_eq!(words.iter().filter(|own| own.contains(" to n")).count(), 3, "{words:?}");
    assert_eq!(placed(&engine), 3);
    for name in ["x1", "x2", "x3"] {
        engine.answered(&uid(name), Answer::Done, START);
        engine.apply(bound(member(name, "x", 1_000), "n"), START);
        engine.apply(Fact::PodGone(uid(name)), START);
    }
    let words = decided(&mut engine, START);
    assert_eq!(words.iter().filter(|own| own.contains(" to n")).count(), 3, "{words:?}");
}

#[test]
fn a_gang_is_held_to_its_quota_as_a_whole() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    let max: quota::ByResource = [("cpu".into(), 2_000)].into();
    engine.apply(Fact::Quota(Box::new(QuotaFact::new("q", max.clone()))), START);
    engine.apply(gang("g", terms(3)), START);
    let of_quota = |name: &str| PodFact { quota: Some("q".into()), ..member(name, "g", 1_000) };
    for name in ["a", "b", "c"] {
        engine.apply(told(of_quota(name)), START);
    }
    let words = decided(&mut engine, START);
    assert!(words[0].contains("Insufficient quotas, quotaName: q"), "{words:?}");
    assert_eq!(placed(&engine), 0);
    let more: quota::ByResource = [("cpu".into(), 3_000)].into();
    engine.apply(Fact::Quota(Box::new(QuotaFact::new("q", more))), START);
    let words = decided(&mut engine, START);
    assert_eq!(placed(&engine), 3, "{words:?}");
}

#[test]
fn a_gang_that_reaches_one_quota_in_several_ways_is_held_to_it_as_a_whole() {
    let check = |change: &dyn Fn(&mut PodFact)| {
        let mut engine = engine();
        engine.apply(node("n", 10_000), START);
        let own = |millis| -> quota::ByResource { [("cpu".into(), millis)].into() };
        let namespaces = vec!["default".into()];
        let fact = QuotaFact { min: own(1_000), namespaces, ..QuotaFact::new("q", own(1_500)) };
        engine.apply(Fact::Quota(Box::new(fact.clone())), START);
        engine.apply(gang("g", terms(2)), START);
        for name in ["a", "b"] {
            let mut own = PodFact { quota: Some("q".into()), ..member(name, "g", 1_000) };
            if name == "a" {
                change(&mut own);
            }
            engine.apply(told(own), START);
        }
        decided(&mut engine, START);
        assert_eq!((placed(&engine), engine.queue().parked()), (0, 1));
        let more = QuotaFact { max: own(2_000), ..fact };
        engine.apply(Fact::Quota(Box::new(more)), START);
        decided(&mut engine, START);
        assert_eq!(placed(&engine), 2);
    };
    check(&|_| {});
    check(&|own| own.preemptible = quota::Preemptible::No);
    check(&|own| own.quota = None);
}

#[test]
fn members_are_counted_where_their_group_stands_or_as_gated() {
    let mut engine = engine();
    engine.apply(gang("g", terms(3)), START);
    for name in ["a", "b"] {
        engine.apply(told(member(name, "g", 1_000)), START);
    }
    assert_eq!(engine.gang_standings(), (Vec::new(), 2));
    engine.apply(told(member("c", "g", 1_000)), START);
    assert_eq!(engine.gang_standings(), (vec![(crate::queue::Standing::Active, 2)], 0));
}

#[test]
fn pods_of_a_profile_without_gangs_are_by_themselves() {
    let profiles = vec![
        (DEFAULT_SCHEDULER.into(), Profile::kubernetes()),
        (
            "ganged".into(),
            Profile { gangs: Some(GangSettings::default()), ..Profile::kubernetes() },
        ),
    ];
    let mut engine = Engine::new(Settings::default(), profiles, START);
    engine.apply(node("n", 10_000), START);
    engine.apply(told(member("alone", "g", 1_000)), START);
    let ganged = PodFact { scheduler: "ganged".into(), ..member("waits", "g", 1_000) };
    engine.apply(told(ganged), START);
    let words = decided(&mut engine, SOON);
    assert!(words[0].starts_with("waits waits: gang default/g is not described"), "{words:?}");
    assert_eq!(words[1], "alone to n, try 1", "{words:?}");
}

#[test]
fn s12_g29_where_not_all_are_told_only_the_one_that_got_no_node_is() {
    let gangs = Some(GangSettings { tells_all: false, ..GangSettings::default() });
    let profile = Profile { gangs, ..Profile::kubernetes() };
    let profiles = vec![(DEFAULT_SCHEDULER.into(), profile)];
    let mut engine = Engine::new(Settings::default(), profiles, START);
    engine.apply(node("n", 2_000), START);
    engine.apply(gang("g", terms(3)), START);
    for name in ["a", "b", "c"] {
        engine.apply(told(member(name, "g", 1_000)), START);
    }
    let words = decided(&mut engine, START);
    assert_eq!(words, ["c waits, try 1: 0/1 nodes are available: 1 Insufficient cpu."]);
}

/// What was done for groups until nothing more is, by a clock that moves a second for each turn.
fn steps(engine: &mut Engine) -> Vec<GangStep> {
    for second in 0..9 {
        engine.decide(START.after(Duration::from_secs(second)));
    }
    engine.take_gang_steps()
}

/// Two of three members of a gang fit, and others may go for them, or not.
fn short_of_one(may_preempt: bool) -> Engine {
    let last_resorts = vec![LastResort::Coscheduling];
    let gangs = Some(GangSettings::default());
    let profile = Profile { gangs, last_resorts, ..Profile::kubernetes() };
    let profiles = vec![(DEFAULT_SCHEDULER.into(), profile)];
    let mut engine = Engine::new(Settings::default(), profiles, START);
    engine.apply(node("n", 2_000), START);
    engine.apply(gang("g", terms(3)), START);
    for name in ["a", "b", "c"] {
        engine.apply(told(PodFact { may_preempt, ..member(name, "g", 1_000) }), START);
    }
    engine
}

#[test]
fn what_is_done_for_groups_is_told_with_how_long_it_took() {
    let planned = |end, members, took| GangStep::Planned { end, members, took };
    let (none, second) = (Duration::ZERO, Duration::from_secs(1));
    let never = GangStep::Cleared { end: ClearingEnd::Never, took: none };
    assert_eq!(steps(&mut short_of_one(false)), [never, planned(PlanEnd::Refused, 3, none)]);
    let mut engine = short_of_one(true);
    let cleared = GangStep::Cleared { end: ClearingEnd::NoVictims, took: second };
    assert_eq!(steps(&mut engine), [cleared, planned(PlanEnd::Refused, 3, second)]);
    engine.apply(node("m", 2_000), START);
    assert_eq!(steps(&mut engine), [planned(PlanEnd::Kept, 3, none)]);
    // One of so many that it takes two turns goes between them.
    engine.apply(gang("h", terms(70)), START);
    engine.apply(node("large", 90_000), START);
    for number in 0..70 {
        engine.apply(told(member(&format!("h{number:02}"), "h", 1_000)), START);
    }
    while engine.gangs.planning.is_none() {
        engine.decide(START);
    }
    engine.apply(Fact::PodGone(uid("h00")), START);
    let dropped = steps(&mut engine);
    assert_eq!(dropped, [planned(PlanEnd::Dropped, 70, none)]);
    assert_eq!(engine.take_gang_steps(), []);
}
