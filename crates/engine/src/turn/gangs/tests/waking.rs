//! What wakes a group that no nodes were found for.

use super::*;
use crate::profile::LastResort;
use crate::queue::Standing;

/// A gang of which two have to start, and no node takes more than one of its two members.
fn refused() -> Engine {
    let mut engine = engine();
    engine.apply(node("n", 1_000), START);
    engine.apply(gang("g", terms(2)), START);
    for name in ["a", "b"] {
        engine.apply(told(member(name, "g", 1_000)), START);
    }
    assert_eq!(decided(&mut engine, START).len(), 2);
    assert_eq!(engine.queue().standing(&engine.gang_entry(&id("g"))), Some(Standing::Waiting));
    engine
}

fn later() -> Moment {
    START.after(Duration::from_secs(2))
}

/// Who gets a node when this has happened to a gang that was refused.
fn check(fact: Fact, expected: &[&str]) {
    let mut engine = refused();
    let told = format!("{fact:?}");
    engine.apply(fact, later());
    let words = decided(&mut engine, later());
    let bound = words.iter().filter(|own| own.contains(" to n"));
    let bound: Vec<&str> = bound.filter_map(|own| own.split(' ').next()).collect();
    assert_eq!(bound, expected, "{told}: {words:?}");
}

#[test]
fn a_refused_group_wakes_where_it_needs_or_asks_for_something_else() {
    check(gang("g", terms(1)), &["a"]);
    check(told(member("c", "g", 100)), &[]);
    check(told(member("a", "g", 100)), &[]);
    // Neither first nor second by what it asks: all of them count.
    for name in ["a", "b"] {
        let mut engine = refused();
        engine.apply(node("m", 400), START);
        assert_eq!(decided(&mut engine, later()), [""; 0], "{name}: none takes a second one");
        engine.apply(told(member(name, "g", 300)), later());
        let words = decided(&mut engine, later());
        assert_eq!(placed(&engine), 2, "{name}: {words:?}");
    }
    let mut engine = refused();
    engine.apply(node("m", 400), START);
    engine.apply(told(member("c", "g", 300)), later());
    let words = decided(&mut engine, later());
    assert_eq!(placed(&engine), 2, "a new member fits: {words:?}");
}

#[test]
fn a_group_that_is_told_the_same_sleeps_on() {
    let mut engine = refused();
    engine.apply(gang("g", terms(2)), later());
    engine.apply(told(member("a", "g", 1_000)), later());
    assert_eq!(decided(&mut engine, later()), [""; 0]);
}

/// All that is decided, also where it takes some turns.
fn settled(engine: &mut Engine, now: Moment) -> Vec<String> {
    (0..100).flat_map(|_| decided(engine, now)).collect()
}

/// Where pods go for gangs and within quotas.
fn making_room() -> Engine {
    let profile = Profile {
        gangs: Some(GangSettings::default()),
        quota: Some(quota::Settings::default()),
        last_resorts: vec![LastResort::Coscheduling, LastResort::ElasticQuota],
        ..Profile::kubernetes()
    };
    let profiles = vec![(DEFAULT_SCHEDULER.into(), profile)];
    Engine::new(Settings::default(), profiles, START)
}

/// A gang of two in a quota for which somebody has to go, who has not gone yet.
fn awaiting_quota() -> Engine {
    let mut engine = making_room();
    engine.apply(node("n", 20_000), START);
    engine.apply(quota(4_000), START);
    let of_quota = |fact: PodFact| PodFact { quota: Some("q".into()), ..fact };
    for name in ["old-1", "old-2"] {
        engine.apply(bound(of_quota(pod(name, 2_000)), "n"), START);
    }
    engine.apply(gang("g", terms(2)), START);
    for name in ["a", "b"] {
        let own = PodFact { priority: 9, ..of_quota(member(name, "g", 2_000)) };
        engine.apply(told(own), START);
    }
    engine
}

fn quota(cpu_millis: i64) -> Fact {
    let cpu: quota::ByResource = [("cpu".into(), cpu_millis)].into();
    Fact::Quota(Box::new(QuotaFact { min: cpu.clone(), ..QuotaFact::new("q", cpu) }))
}

#[test]
fn a_group_that_only_its_quota_is_too_small_for_wakes_when_that_has_room() {
    let check = |change: &[Fact]| {
        let mut engine = awaiting_quota();
        let words = settled(&mut engine, START);
        assert!(words.iter().any(|own| own.contains("waits for old-")), "{words:?}");
        for fact in change {
            engine.apply(fact.clone(), later());
        }
        let words = settled(&mut engine, later());
        let bound = words.iter().filter(|own| own.contains(" to n")).count();
        assert_eq!(bound, 2, "{change:?}: {words:?}");
    };
    check(&[quota(8_000)]);
    check(&[Fact::PodGone(uid("old-1")), Fact::PodGone(uid("old-2"))]);
}

#[test]
fn a_group_whose_quota_has_room_before_all_are_told_is_tried_at_once() {
    let mut engine = awaiting_quota();
    let mut told = Vec::new();
    for _ in 0..100 {
        told.extend(engine.decide(START).map(|decision| decision.pod.uid));
    }
    for name in ["old-1", "old-2"] {
        engine.apply(Fact::PodGone(uid(name)), START);
    }
    for uid in told {
        engine.done(&uid, START);
    }
    let words = settled(&mut engine, START);
    assert_eq!(words.iter().filter(|own| own.contains(" to n")).count(), 2, "{words:?}");
}

#[test]
fn who_waits_for_room_that_a_group_gets_looks_elsewhere_at_once() {
    let check = |middle: &[PodFact], entry: &dyn Fn(&Engine) -> Uid| {
        let last_resorts = vec![LastResort::Coscheduling];
        let gangs = Some(GangSettings::default());
        let profile = Profile { gangs, last_resorts, ..Profile::kubernetes() };
        let profiles = vec![(DEFAULT_SCHEDULER.into(), profile)];
        let mut engine = Engine::new(Settings::default(), profiles, START);
        let with = |priority, fact| told(PodFact { priority, ..fact });
        engine.apply(node("n", 2_000), START);
        engine.apply(bound(PodFact { priority: 1, ..pod("old", 2_000) }, "n"), START);
        engine.apply(gang("m", terms(2)), START);
        for fact in middle {
            engine.apply(with(5, fact.clone()), START);
        }
        let words = settled(&mut engine, START);
        assert!(words.iter().any(|own| own.ends_with("waits for old to go")), "{words:?}");
        let entry = entry(&engine);
        let tries = |engine: &Engine| {
            let moves = engine.queue().moves().iter().filter(|own| own.uid == entry);
            moves.filter(|own| own.cause == "NominationDelete").count()
        };
        assert_eq!(tries(&engine), 0);
        engine.apply(gang("g", terms(2)), START);
        for name in ["a", "b"] {
            engine.apply(with(9, member(name, "g", 1_000)), START);
        }
        let words = settled(&mut engine, START);
        assert!(words.iter().any(|own| own.starts_with("a waits for")), "{words:?}");
        assert_eq!(tries(&engine), 1, "{words:?}");
    };
    check(&[pod("middle", 2_000)], &|_| uid("middle"));
    let members = [member("x", "m", 1_000), member("y", "m", 1_000)];
    check(&members, &|engine| engine.gang_entry(&id("m")));
}

#[test]
fn a_plan_is_looked_at_anew_where_its_gang_says_otherwise_meanwhile() {
    let check = |fact: Fact, expected: usize| {
        let mut engine = engine();
        engine.apply(node("n", 1_000_000), START);
        engine.apply(gang("g", terms(100)), START);
        for number in 0..100 {
            engine.apply(told(member(&format!("p{number}"), "g", 1_000)), START);
        }
        assert!(engine.decide(START).is_none() && engine.is_planning(), "it takes some turns");
        let told = format!("{fact:?}");
        engine.apply(fact, START);
        drop(settled(&mut engine, START));
        assert_eq!(placed(&engine), expected, "{told}");
    };
    check(gang("g", terms(100)), 100);
    check(gang("g", terms(101)), 0);
    check(Fact::Gang { id: id("g"), terms: None, has_started: false }, 0);
}

#[test]
fn who_could_not_be_told_what_the_gang_waits_for_is_told_once_more_and_nobody_else() {
    let mut engine = engine();
    engine.apply(gang("g", terms(3)), START);
    for name in ["a", "b"] {
        engine.apply(told(member(name, "g", 1_000)), START);
    }
    assert_eq!(decided(&mut engine, SOON).len(), 2);
    engine.done(&uid("a"), SOON);
    engine.undone(&uid("b"), SOON);
    let later = SOON.after(TOLD_AGAIN_AFTER);
    assert_eq!(engine.next_due(SOON), Some(later));
    assert_eq!(decided(&mut engine, SOON), [""; 0], "not at once");
    let words = "b waits: gang default/g waits for members: collected 2/3";
    assert_eq!(decided(&mut engine, later), [words]);
    assert_eq!(engine.next_due(later), None);
}

#[test]
fn a_group_that_waits_for_its_quota_is_tried_again_where_somebody_uses_it_by_now_who_may_go() {
    let mut engine = making_room();
    let of_quota = |fact: PodFact, priority: i32| {
        let quota = Some("q".into());
        PodFact { quota, priority, ..fact }
    };
    engine.apply(node("n", 20_000), START);
    engine.apply(quota(6_000), START);
    engine.apply(bound(of_quota(pod("old", 5_000), 9), "n"), START);
    engine.apply(gang("g", terms(2)), START);
    for name in ["a", "b"] {
        engine.apply(told(of_quota(member(name, "g", 2_000), 9)), START);
    }
    let words = settled(&mut engine, START);
    assert!(words.iter().all(|own| own.contains("Insufficient quotas")), "{words:?}");
    // Somebody else has one bound that is less important, and the other one ends.
    engine.apply(bound(of_quota(pod("low", 3_000), 0), "n"), later());
    engine.apply(Fact::PodGone(uid("old")), later());
    let words = settled(&mut engine, later());
    assert!(words.iter().any(|own| own.contains("waits for low")), "{words:?}");
}
