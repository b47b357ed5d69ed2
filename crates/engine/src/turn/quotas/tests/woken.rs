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

/// One in which it takes several turns to look who makes room. low has what p lacks in its quota, and the only node
/// that p can be on is another's.
fn far_apart() -> Engine {
    let mut engine = clearing();
    for number in 0..300 {
        engine.apply(node(&format!("n{number:03}"), 1_000), START);
    }
    engine.apply(node("only", 8_000), START);
    engine.apply(quota("a< 0 2500"), START);
    engine.apply(quota("o< 0 9000"), START);
    let on = |fact: PodFact, node: &str| told(PodFact { node: Some(node.into()), ..fact });
    engine.apply(on(member("low", "a", 1_000), "n000"), START);
    engine.apply(on(PodFact { priority: 99, ..member("stays", "o", 8_000) }, "only"), START);
    // Somebody hears of all that happens to the quota.
    engine.apply(told(member("huge", "a", 9_000)), START);
    assert_eq!(all_decided(&mut engine, START).len(), 1);
    engine.apply(told(PodFact { priority: 9, ..member("p", "a", 2_000) }), START);
    assert!(engine.decide(START).is_none(), "it is being looked for");
    engine
}

#[test]
fn whom_its_quota_has_room_for_once_it_is_known_that_nobody_can_help_is_tried() {
    let mut engine = far_apart();
    engine.apply(gone("low"), START);
    let words = all_decided(&mut engine, START);
    let last = words.last().expect("it is told");
    assert!(last.contains("301 Insufficient cpu"), "it waits for nodes: {words:?}");
    engine.apply(gone("stays"), START);
    let words = all_decided(&mut engine, START.after(Duration::from_secs(20)));
    assert!(words[0].starts_with("p to only"), "{words:?}");
    assert!(engine.ledger().quotas.keeps_what_was_pledged());
}

#[test]
fn who_is_refused_again_once_it_is_known_that_nobody_can_help_is_told_by_whom() {
    let mut engine = far_apart();
    engine.apply(gone("low"), START);
    engine.apply(quota("a< 0 1900"), START);
    let words = all_decided(&mut engine, START);
    assert!(words[0].contains("cpu 1900m"), "{words:?}");
    let lot = engine.queue().lot(&Uid::new("p"));
    assert_eq!(lot.and_then(|lot| engine.queue().refusing(lot)), Some("a"));
}

#[test]
fn what_others_do_while_it_is_looked_who_makes_room_is_not_lost() {
    let check = |quota: &str, expected: usize| {
        let mut engine = far_apart();
        engine.forget_vain_refused_by(|own| own == quota);
        let soon = |seconds: u64| START.after(Duration::from_secs(seconds));
        let all = (0..9).flat_map(|seconds| all_decided(&mut engine, soon(seconds)));
        assert_eq!(all.filter(|own| own.starts_with("p waits")).count(), expected, "{quota}");
    };
    check("b", 1);
    check("a", 2);
}
