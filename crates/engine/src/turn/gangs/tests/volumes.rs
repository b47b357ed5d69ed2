//! Members whose volumes have to be made ready before anybody is bound.

use super::*;
use crate::fact::StorageFact;
use crate::queue::Standing;

/// A member with a volume of its own, which is still to be made.
fn with_volume(engine: &mut Engine, name: &str) -> PodFact {
    engine.apply(claim(name, None, None), START);
    let mut fact = member(name, "g", 1_000);
    let own = Volume::Claim(name.into());
    fact.needs.volumes = Volumes { namespace: "default".into(), volumes: [own].into() };
    fact
}

/// A gang of which so many have to start, and members of whom these have volumes.
fn gang_with_volumes(min: u32, plain: &[&str], with: &[&str]) -> Engine {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    engine.apply(class("somebody"), START);
    engine.apply(gang("g", terms(min)), START);
    for name in with {
        let fact = with_volume(&mut engine, name);
        engine.apply(told(fact), START);
    }
    for name in plain {
        engine.apply(told(member(name, "g", 1_000)), START);
    }
    engine
}

/// The volume of a member is made.
fn make(engine: &mut Engine, name: &str, now: Moment) {
    let disk = format!("disk-{name}");
    engine.apply(volume(&disk, Some(name)), now);
    engine.apply(claim(name, Some("n"), Some(&disk)), now);
}

fn seconds(seconds: u64) -> Moment {
    START.after(Duration::from_secs(seconds))
}

/// Who is bound by this, and whose volumes are to be made.
fn bound_and_prepared(words: &[String]) -> (Vec<&str>, Vec<&str>) {
    let of = |what: &'static str| {
        let own = words.iter().filter(move |own| own.contains(what));
        own.filter_map(|own| own.split(' ').next()).collect()
    };
    (of(" to n, try"), of(" to n after"))
}

#[test]
fn a_refused_preparation_leaves_nothing_behind_that_is_due() {
    let mut engine = gang_with_volumes(2, &[], &["a", "b"]);
    assert_eq!(decided(&mut engine, START).len(), 2, "volumes are made for both");
    engine.answered(&uid("a"), Answer::Refused, START);
    assert_eq!(bound_and_prepared(&decided(&mut engine, seconds(3))), (vec![], vec!["a"]));
    engine.apply(Fact::PodGone(uid("b")), seconds(3));
    engine.apply(Fact::PodGone(uid("a")), seconds(3));
    assert_eq!(engine.preparations.next_due(), None);
    assert!(engine.ledger().storage.promises.is_empty());
    assert_eq!(decided(&mut engine, seconds(10_000)), [""; 0]);
}

#[test]
fn nobody_is_bound_before_as_many_are_ready_as_have_to_start() {
    let mut engine = gang_with_volumes(2, &[], &["a", "b"]);
    assert_eq!(decided(&mut engine, START).len(), 2, "volumes are made for both");
    engine.answered(&uid("a"), Answer::Refused, START);
    make(&mut engine, "b", START);
    assert_eq!(decided(&mut engine, START), [""; 0], "a is not ready");
    assert_eq!(bound_and_prepared(&decided(&mut engine, seconds(3))), (vec![], vec!["a"]));
    make(&mut engine, "a", seconds(3));
    let words = decided(&mut engine, seconds(3));
    assert_eq!(bound_and_prepared(&words), (vec!["b", "a"], vec![]));
}

#[test]
fn one_that_is_tried_again_waits_for_those_that_have_to_start_with_it() {
    let mut engine = gang_with_volumes(2, &[], &["a", "b"]);
    assert_eq!(decided(&mut engine, START).len(), 2, "volumes are made for both");
    engine.answered(&uid("a"), Answer::Refused, START);
    // By the time that it is tried again there is nothing to prepare.
    make(&mut engine, "a", START);
    assert_eq!(decided(&mut engine, seconds(3)), [""; 0], "b is not ready");
    make(&mut engine, "b", seconds(4));
    let words = decided(&mut engine, seconds(4));
    assert_eq!(bound_and_prepared(&words), (vec!["a", "b"], vec![]));
}

#[test]
fn who_is_not_needed_holds_up_nobody_and_follows_when_it_is_ready() {
    let mut engine = gang_with_volumes(2, &["a", "b"], &["c"]);
    let words = decided(&mut engine, START);
    assert_eq!(bound_and_prepared(&words), (vec!["a", "b"], vec!["c"]));
    make(&mut engine, "c", START);
    assert_eq!(bound_and_prepared(&decided(&mut engine, START)), (vec!["c"], vec![]));
}

#[test]
fn who_is_not_needed_and_fails_is_by_itself_again() {
    let mut engine = gang_with_volumes(2, &["a", "b"], &["c"]);
    assert_eq!(decided(&mut engine, START).len(), 3);
    let gone = StorageFact::Claim("default".into(), "c".into(), None);
    engine.apply(Fact::Storage(gone), START);
    let words = decided(&mut engine, START);
    assert!(words[0].starts_with("c is not ready"), "{words:?}");
    assert_eq!((placed(&engine), engine.gangs_released()), (2, 1));
    for name in ["a", "b"] {
        engine.answered(&uid(name), Answer::Done, START);
        engine.apply(bound(member(name, "g", 1_000), "n"), START);
    }
    assert!(engine.queue().standing(&uid("c")).is_some(), "its gang has started");
}

#[test]
fn a_gang_whose_start_came_to_nothing_is_left_alone_for_longer_each_time() {
    let mut engine = gang_with_volumes(2, &["a"], &["b"]);
    for (rest, now) in [(1, 0), (2, 10), (4, 20)] {
        assert_eq!(bound_and_prepared(&decided(&mut engine, seconds(now))).1, ["b"]);
        engine.apply(claim("b", Some("n"), None), seconds(now));
        engine.apply(claim("b", None, None), seconds(now));
        let words = decided(&mut engine, seconds(now));
        assert!(words.iter().any(|own| own.starts_with("b is not ready")), "{words:?}");
        assert_eq!((placed(&engine), engine.gangs_released()), (0, 0));
        let entry = engine.gang_entry(&id("g"));
        let until = seconds(now + rest).window();
        assert_eq!(engine.queue().standing(&entry), Some(Standing::ErrorBackoff(until)));
    }
}

#[test]
fn who_loses_a_node_with_the_others_is_told_of_so_that_nothing_more_is_prepared_there() {
    let mut engine = gang_with_volumes(2, &["plain"], &["a", "b"]);
    engine.apply(gang("g", terms(3)), START);
    assert_eq!(bound_and_prepared(&decided(&mut engine, START)), (vec![], vec!["a", "b"]));
    assert_eq!(engine.take_vacated(), []);
    let gone = StorageFact::Claim("default".into(), "b".into(), None);
    engine.apply(Fact::Storage(gone), START);
    assert_eq!(placed(&engine), 0);
    let mut vacated = engine.take_vacated();
    vacated.sort();
    assert_eq!(vacated, [uid("a"), uid("b"), uid("plain")]);
    assert_eq!(engine.take_vacated(), []);
}
