//! What becomes of a group whose members are being bound.

use super::*;

#[test]
fn s12_g27_who_starts_at_once_carries_how_many_they_were_and_who_comes_later_does_not() {
    let mut engine = engine();
    engine.apply(node("n", 9_000), START);
    engine.apply(gang("g", terms(2)), START);
    engine.apply(told(member("a", "g", 1_000)), START);
    engine.apply(told(member("b", "g", 1_000)), START);
    let mut stamps = Vec::new();
    while let Some(decision) = engine.decide(START) {
        stamps.push(decision.gang.map(|own| own.members));
    }
    assert_eq!(stamps[stamps.len() - 2..], [Some(2), Some(2)]);
    engine.apply(bound(member("a", "g", 1_000), "n"), START);
    engine.apply(told(member("c", "g", 1_000)), START);
    assert_eq!(engine.decide(START).unwrap().gang, None);
}

#[test]
fn s12_g26_a_member_whose_binding_fails_keeps_its_node_and_is_tried_again_until_time_is_over() {
    let mut engine = engine();
    engine.apply(node("n", 2_000), START);
    let ten = GangTerms { waiting_time: Some(Duration::from_secs(10)), ..terms(2) };
    engine.apply(gang("g", ten), START);
    engine.apply(told(member("a", "g", 1_000)), START);
    engine.apply(told(member("b", "g", 1_000)), START);
    assert_eq!(decided(&mut engine, START).len(), 2);
    for name in ["a", "b"] {
        engine.answered(&uid(name), Answer::Refused, START);
    }
    engine.apply(told(pod("thief", 1_000)), START);
    let words = decided(&mut engine, START);
    assert!(words[0].starts_with("thief waits"), "nobody takes their nodes: {words:?}");
    let soon = START.after(Duration::from_secs(2));
    assert_eq!(decided(&mut engine, soon), ["a to n, try 2", "b to n, try 2"]);
    for name in ["a", "b"] {
        engine.answered(&uid(name), Answer::Refused, soon);
    }
    let late = START.after(Duration::from_secs(11));
    let words = decided(&mut engine, late);
    assert_eq!(engine.gangs_released(), 0);
    assert!(words.iter().any(|own| own.starts_with("thief to n")), "{words:?}");
    assert_eq!(placed(&engine), 1, "all or nothing: {words:?}");
}

#[test]
fn members_that_are_bound_stay_and_the_rest_follows_when_time_is_over() {
    let mut engine = engine();
    engine.apply(node("n", 2_000), START);
    let ten = GangTerms { waiting_time: Some(Duration::from_secs(10)), ..terms(2) };
    engine.apply(gang("g", ten), START);
    engine.apply(told(member("a", "g", 1_000)), START);
    engine.apply(told(member("b", "g", 1_000)), START);
    assert_eq!(decided(&mut engine, START).len(), 2);
    engine.answered(&uid("a"), Answer::Done, START);
    engine.apply(bound(member("a", "g", 1_000), "n"), START);
    engine.answered(&uid("b"), Answer::Refused, START);
    let late = START.after(Duration::from_secs(11));
    assert_eq!(decided(&mut engine, late), ["b to n, try 1"], "it is by itself");
    engine.answered(&uid("b"), Answer::Lost, late);
    assert_eq!(engine.gangs_released(), 0);
}

#[test]
fn a_node_stays_charged_when_time_is_over_until_it_is_known_what_became_of_the_binding() {
    let mut engine = engine();
    engine.apply(node("n", 2_000), START);
    let ten = GangTerms { waiting_time: Some(Duration::from_secs(10)), ..terms(2) };
    engine.apply(gang("g", ten), START);
    engine.apply(told(member("a", "g", 1_000)), START);
    engine.apply(told(member("b", "g", 1_000)), START);
    assert_eq!(decided(&mut engine, START).len(), 2);
    engine.answered(&uid("a"), Answer::Refused, START);
    let late = START.after(Duration::from_secs(11));
    engine.apply(told(pod("thief", 2_000)), late);
    let words = decided(&mut engine, late);
    assert!(words.iter().all(|own| !own.contains(" to n")), "{words:?}");
    assert_eq!((placed(&engine), engine.gangs_released()), (1, 0));
    // It was not carried out: both start at once, or none does.
    engine.answered(&uid("b"), Answer::Refused, late);
    assert!(engine.queue().standing(&uid("b")).is_none(), "it is not by itself");
    let later = late.after(Duration::from_secs(60));
    let words = decided(&mut engine, later);
    assert_eq!(words[..2], ["a to n, try 1", "b to n, try 1"]);
    assert!(words[2].starts_with("thief waits") && placed(&engine) == 2, "{words:?}");
}

#[test]
fn where_one_goes_while_volumes_are_made_nobody_starts_without_it() {
    let mut engine = engine();
    engine.apply(node("n", 2_000), START);
    engine.apply(class("somebody"), START);
    engine.apply(gang("g", terms(2)), START);
    for name in ["a", "b"] {
        engine.apply(claim(name, None, None), START);
        let mut fact = member(name, "g", 1_000);
        let own = Volume::Claim(name.into());
        fact.needs.volumes = Volumes { namespace: "default".into(), volumes: [own].into() };
        engine.apply(told(fact), START);
    }
    assert_eq!(decided(&mut engine, START).len(), 2, "volumes are made for both");
    engine.apply(Fact::PodGone(uid("b")), START);
    engine.apply(volume("disk", Some("a")), START);
    engine.apply(claim("a", Some("n"), Some("disk")), START);
    let words = decided(&mut engine, SOON);
    assert_eq!(words, ["a waits: gang default/g waits for members: collected 1/2"]);
    assert_eq!((placed(&engine), engine.gangs_released()), (0, 0));
}
