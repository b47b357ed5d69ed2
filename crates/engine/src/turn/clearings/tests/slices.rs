//! How much is looked at, and how often.

use super::*;
use crate::fact::NodeFact;
use crate::queue::Standing;

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

/// Why a pod waits while a node that is of no use comes or goes after each turn.
fn refused_amid_changes(engine: &mut Engine) -> String {
    for number in 0..2_000 {
        if let Some(Decision { pod, verdict, .. }) = engine.decide(START) {
            let Verdict::Wait(waiting) = verdict else { panic!("{} gets a node", pod.name) };
            assert!(waiting.room().is_none());
            engine.done(&pod.uid, START);
            return waiting.last_resorts.text.clone();
        }
        let useless = NodeFact { name: "useless".into(), ..NodeFact::default() };
        let gone = Fact::NodeGone("useless".into());
        engine.apply(if number % 2 == 0 { Fact::Node(useless) } else { gone }, START);
    }
    panic!("it comes to no end");
}

/// One with so many nodes, of which each has a pod that stays, that no slice is enough for all.
fn large() -> Engine {
    let mut engine = jobs();
    for number in 0..3_000 {
        let name = format!("n{number}");
        engine.apply(node(&name, 1_000), START);
        engine.apply(on(plain(&format!("old-{number}"), 1_000, 99), &name), START);
    }
    engine
}

#[test]
fn where_nodes_come_and_go_all_the_time_it_is_given_up_for_a_while_and_no_turn_is_without_end() {
    let mut engine = large();
    let uid = Uid::new("new");
    engine.apply(told(plain("new", 1_000, 9)), START);
    let text = refused_amid_changes(&mut engine);
    assert!(text.contains(Uncleared::Unsettled.as_str()), "{text}");
    let standing = engine.queue().standing(&uid);
    assert!(matches!(standing, Some(Standing::ErrorBackoff(_))), "{standing:?}");
}

#[test]
fn where_it_is_given_up_for_a_pod_of_a_quota_it_is_looked_again_after_a_while() {
    let mut engine = large();
    engine.apply(quota("q 4000 4000"), START);
    for (name, millis, priority) in [("low", 1_000, 1), ("high", 3_000, 99)] {
        engine.apply(node(name, 4_000), START);
        engine.apply(on(of_quota(plain(name, millis, priority), "q"), name), START);
    }
    engine.apply(told(of_quota(plain("new", 1_000, 9), "q")), START);
    let text = refused_amid_changes(&mut engine);
    assert!(text.contains(Uncleared::Unsettled.as_str()), "{text}");
    assert!(decided(&mut engine, START).is_empty(), "it is left alone");
    let later = Moment(START.0 + 60_000_000_000);
    let room = (0..999).find_map(|_| match engine.decide(later)?.verdict {
        Verdict::Wait(waiting) => waiting.room().map(|room| room.victims[0].pod.name.clone()),
        _ => None,
    });
    assert_eq!(room.as_deref(), Some("low"));
}

#[test]
fn a_node_that_offers_somebody_who_has_to_stay_is_not_asked_without_end() {
    let check = |size: i64, expected: &[&str]| {
        let mut engine = engine(&[LastResort::Coscheduling]);
        engine.apply(node("n", 30_000), START);
        engine.apply(gang("old", 2), START);
        // Two of it can go one by one, and both of them only with the third.
        for name in ["o1", "o2"] {
            engine.apply(on(member(name, "old", 10_000, 1), "n"), START);
        }
        let stays = PodFact { is_spared: true, ..member("o3", "old", 10_000, 1) };
        engine.apply(on(stays, "n"), START);
        engine.apply(told(plain("new", size, 9)), START);
        let (victims, _, texts) = cleared(&mut engine);
        assert_eq!(victims, names(expected), "{size} {texts:?}");
        assert!(engine.searches.is_empty(), "{size}: it is still looked for");
    };
    check(10_000, &["o1"]);
    check(20_000, &[]);
}

#[test]
fn a_gang_that_goes_whole_is_offered_by_the_node_that_has_to_be_left() {
    let mut engine = engine(&[LastResort::ElasticQuota]);
    let Fact::Node(mut closed) = node("closed", 20_000) else { unreachable!() };
    closed.unschedulable = true;
    engine.apply(Fact::Node(closed), START);
    engine.apply(node("full", 2_000), START);
    engine.apply(quota("owner 5000 10000"), START);
    engine.apply(quota("borrower 0 20000"), START);
    engine.apply(gang("old", 2), START);
    for (name, node) in [("a", "closed"), ("b", "full")] {
        engine.apply(on(of_quota(member(name, "old", 2_000, 100), "borrower"), node), START);
    }
    engine.apply(told(of_quota(plain("own", 2_000, 1), "owner")), START);
    let (victims, _, texts) = cleared(&mut engine);
    assert_eq!(victims, names(&["a", "b"]), "{texts:?}");
    assert!(engine.searches.is_empty(), "it is still looked for");
}
