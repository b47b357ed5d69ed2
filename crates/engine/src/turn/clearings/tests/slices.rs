//! How much is looked at, and how often.

use super::*;

/// How many turns it takes to refuse so many pods that ask the same of a quota, in a cluster of which it takes
/// some turns to look at all nodes; and what they are told.
fn turns_of_flood(count: usize, users: &[PodFact]) -> (usize, BTreeSet<String>) {
    let mut engine = engine(&[LastResort::ElasticQuota]);
    for number in 0..600 {
        engine.apply(node(&format!("n{number}"), 4_000), START);
    }
    engine.apply(quota("q 4000 4000"), START);
    for user in users {
        engine.apply(on(of_quota(user.clone(), "q"), "n7"), START);
    }
    for number in 0..count {
        let own = of_quota(plain(&format!("new-{number}"), 2_000, 5), "q");
        engine.apply(told(own), START);
    }
    let (mut turns, mut texts, mut refused) = (0, BTreeSet::new(), 0);
    while refused < count {
        turns += 1;
        assert!(turns < 1_000, "{refused} of {count} are refused");
        let Some(Decision { pod, verdict, .. }) = engine.decide(START) else { continue };
        let Verdict::Wait(waiting) = verdict else { panic!("{} is let in", pod.name) };
        texts.insert(waiting.last_resorts.text.clone());
        assert!(waiting.room().is_none());
        engine.done(&pod.uid, START);
        refused += 1;
    }
    (turns, texts)
}

#[test]
fn who_goes_for_a_lot_is_found_out_once_and_not_at_all_where_nobody_of_the_quota_may_go() {
    // One that could go, and would not be enough.
    let users = [plain("low", 1_000, 1), plain("high", 3_000, 9)];
    let (one, texts) = turns_of_flood(1, &users);
    assert!(one > 3, "it takes some turns: {one}");
    assert_eq!(texts.len(), 1, "{texts:?}");
    let (many, texts) = turns_of_flood(100, &users);
    // Some begin to be looked for before the first one knows.
    assert!(many <= 100 + 16 + 2 * one, "{many} turns for 100, {one} for one");
    assert_eq!(texts.len(), 1, "all are told the same: {texts:?}");
    // Nobody who could.
    for change in [
        (|own: &mut PodFact| own.is_spared = true) as fn(&mut PodFact),
        |own| own.preemptible = Preemptible::No,
        |own| own.priority = 9,
    ] {
        let mut low = plain("low", 1_000, 1);
        change(&mut low);
        let (many, _) = turns_of_flood(100, &[low, plain("high", 3_000, 9)]);
        assert_eq!(many, 100);
    }
}
