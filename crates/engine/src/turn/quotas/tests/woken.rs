//! Who wakes when something has become otherwise, and who does not.

use super::*;

#[test]
fn a_pod_larger_than_all_there_was_wakes_when_there_is_more() {
    let check = |more: fn(&mut Engine), expected: &str| {
        let mut engine = engine();
        engine.apply(node("n", 20_000), START);
        engine.apply(quota("a< 1000 32000"), START);
        engine.apply(bound(pod("of-nobody", 8_000)), START);
        engine.apply(told(member("large", "a", 16_000)), START);
        let words = all_decided(&mut engine, START);
        assert!(words[0].contains("Insufficient quotas"), "{words:?}");
        assert!(engine.queue().is_resting(&Uid::new("large")), "nothing is divided for it");
        more(&mut engine);
        assert_eq!(all_decided(&mut engine, START), [expected]);
        assert_eq!(engine.queue().missed_wakes(), 0);
    };
    check(|engine| engine.apply(node("m", 32_000), START), "large to m, try 2");
    check(|engine| engine.apply(gone("of-nobody"), START), "large to n, try 2");
}

#[test]
fn of_many_lots_larger_than_all_there_was_so_many_are_asked_in_a_turn_and_the_last_one_as_well() {
    let mut engine = engine();
    engine.apply(node("n", 1_000), START);
    engine.apply(quota("a< 0 900000"), START);
    let lots = 2 * i64::try_from(growth::ASKED_MAX).unwrap() + 9;
    for number in 0..lots {
        engine.apply(told(member(&format!("p{number:04}"), "a", 2_000 + number)), START);
    }
    assert_eq!(all_turns(&mut engine, 2_000), usize::try_from(lots).unwrap());
    engine.apply(node("m", 2_000 + lots), START);
    let resting = |engine: &Engine| {
        let all = (0..lots).map(|number| Uid::new(&format!("p{number:04}")));
        all.filter(|uid| engine.queue().is_resting(uid)).count()
    };
    let mut before = resting(&engine);
    while engine.next_due(START) == Some(START) {
        drop(engine.decide(START));
        let now = resting(&engine);
        assert!(before - now <= growth::ASKED_MAX + WOKEN_MAX, "{before} and {now}");
        before = now;
    }
    assert_eq!(before, 0);
}

/// How many pods are decided about in so many turns.
fn all_turns(engine: &mut Engine, turns: usize) -> usize {
    (0..turns).filter(|_| engine.decide(START).is_some()).count()
}

#[test]
fn who_may_be_tried_and_then_may_not_is_no_reason_to_look_at_others_again() {
    let mut engine = engine();
    engine.apply(node("n", 10_000), START);
    for text in ["p< 0 4000", "a<p 0 4000", "b<p 0 4000"] {
        engine.apply(quota(text), START);
    }
    engine.apply(bound(member("holds", "a", 4_000)), START);
    engine.apply(told(member("waits", "b", 1_000)), START);
    assert_eq!(all_decided(&mut engine, START).len(), 1);
    for round in 0..4 {
        let gates: Box<[Box<str>]> =
            if round % 2 == 0 { ["later".into()].into() } else { [].into() };
        engine.apply(told(PodFact { gates, ..member("toggles", "a", 1_000) }), START);
        engine.follow_rests();
        let freed = engine.ledger.quotas.take_freed();
        assert!(freed.is_nobody(), "{round}: {freed:?}");
        all_decided(&mut engine, START);
    }
}
