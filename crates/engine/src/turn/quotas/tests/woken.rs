//! Who wakes when something has become otherwise, and who does not.

use super::*;

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
