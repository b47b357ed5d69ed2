//! What quotas keep for gangs while others leave for them.

use super::whole::settled;
use super::*;
use crate::decide::Decider;
use crate::why::{Deciders, GroupStand, plan_group};

fn gone(engine: &mut Engine, name: &str) {
    engine.apply(Fact::PodGone(Uid::new(name)), START);
}

fn going(engine: &mut Engine, fact: PodFact, node: &str) {
    engine.apply(on(PodFact { deleting: true, giving_way: true, ..fact }, node), START);
}

#[test]
fn what_others_leave_in_a_quota_for_a_gang_nobody_of_lower_priority_gets() {
    let mut engine = jobs();
    engine.apply(node("n", 20_000), START);
    engine.apply(quota("q 0 4000"), START);
    let old = |name: &str| of_quota(plain(name, 2_000, 0), "q");
    for name in ["old-1", "old-2"] {
        engine.apply(on(old(name), "n"), START);
    }
    for name in ["rest-1", "rest-2"] {
        engine.apply(told(of_quota(plain(name, 2_000, 0), "q")), START);
    }
    assert_eq!(settled(&mut engine).0, Vec::<String>::new());
    engine.apply(gang("g", 2), START);
    for name in ["a", "b"] {
        engine.apply(told(of_quota(member(name, "g", 2_000, 9), "q")), START);
    }
    let (victims, rooms, texts) = cleared(&mut engine);
    assert_eq!(victims, names(&["old-1", "old-2"]), "{rooms:?} {texts:?}");
    for name in ["old-1", "old-2"] {
        going(&mut engine, old(name), "n");
    }
    // They go one after the other, and each leaves room for a smaller one.
    gone(&mut engine, "old-1");
    assert_eq!(settled(&mut engine).0, Vec::<String>::new());
    gone(&mut engine, "old-2");
    let mut bound = settled(&mut engine).0;
    bound.sort_unstable();
    assert_eq!(bound, ["a to n", "b to n"]);
}

#[test]
fn a_gang_whose_room_in_its_quota_came_to_nothing_has_others_go_again() {
    let mut engine = jobs();
    engine.apply(node("n", 20_000), START);
    engine.apply(quota("q 0 4000"), START);
    let old = |name: &str| of_quota(plain(name, 2_000, 10), "q");
    for name in ["old-1", "old-2"] {
        engine.apply(on(old(name), "n"), START);
    }
    engine.apply(gang("g", 2), START);
    for name in ["a", "b"] {
        engine.apply(told(of_quota(member(name, "g", 2_000, 9), "q")), START);
    }
    assert_eq!(cleared(&mut engine).0, names(&[]), "they are more important");
    // Others are there instead who are less important.
    for (old, new) in [("old-1", "new-1"), ("old-2", "new-2")] {
        gone(&mut engine, old);
        engine.apply(on(of_quota(plain(new, 2_000, 0), "q"), "n"), START);
    }
    let mut victims = BTreeSet::new();
    for seconds in 0..120 {
        let now = START.after(std::time::Duration::from_secs(seconds));
        while let Some(Decision { pod, verdict, .. }) = engine.decide(now) {
            if let Verdict::Wait(waiting) = verdict
                && let Some(room) = waiting.room()
            {
                victims.extend(room.victims.iter().map(|one| one.pod.name.to_string()));
            }
            engine.done(&pod.uid, now);
        }
    }
    assert_eq!(victims, names(&["new-1", "new-2"]));
}

#[test]
fn gangs_of_one_quota_take_back_no_more_than_it_is_guaranteed() {
    let mut engine = jobs();
    for number in 0..10 {
        let name = format!("n{number}");
        engine.apply(node(&name, 1_000), START);
    }
    engine.apply(quota("a 5000 10000"), START);
    engine.apply(quota("b 5000 10000"), START);
    for number in 0..10 {
        let own = of_quota(plain(&format!("b{number}"), 1_000, 0), "b");
        engine.apply(on(own, &format!("n{number}")), START);
    }
    for of in ["g1", "g2"] {
        engine.apply(gang(of, 5), START);
        for number in 0..5 {
            let own = member(&format!("{of}-{number}"), of, 1_000, 0);
            engine.apply(told(of_quota(own, "a")), START);
        }
    }
    let mut gone = BTreeSet::new();
    for _ in 0..3 {
        let (victims, ..) = cleared(&mut engine);
        for name in &victims {
            let node = name.replace('b', "n");
            going(&mut engine, of_quota(plain(name, 1_000, 0), "b"), &node);
        }
        gone.extend(victims);
    }
    assert_eq!(gone.len(), 5, "{gone:?}");
}

#[test]
fn while_others_leave_nobody_takes_what_their_quota_is_guaranteed() {
    let mut engine = jobs();
    engine.apply(quota("a 30000 100000"), START);
    engine.apply(quota("b 60000 100000"), START);
    for number in 0..6 {
        let name = format!("n{number}");
        engine.apply(node(&name, 16_000), START);
        for which in ["x", "y"] {
            let own = of_quota(plain(&format!("{name}-{which}"), 8_000, 0), "b");
            engine.apply(on(own, &name), START);
        }
    }
    for number in 0..3 {
        engine.apply(told(of_quota(plain(&format!("a{number}"), 10_000, 0), "a")), START);
    }
    let (victims, ..) = cleared(&mut engine);
    assert_eq!(victims.len(), 4, "b keeps 64 of its 60, and not 48: {victims:?}");
    for name in &victims {
        let node = name.split('-').next().unwrap();
        going(&mut engine, of_quota(plain(name, 8_000, 0), "b"), node);
    }
    assert_eq!(cleared(&mut engine).0, names(&[]));
}

#[test]
fn of_pods_alike_that_their_quota_refuses_all_have_others_go_and_not_one_after_the_other() {
    let mut engine = jobs();
    engine.apply(node("n", 20_000), START);
    engine.apply(quota("q 0 6000"), START);
    for number in 0..3 {
        let old = of_quota(plain(&format!("old-{number}"), 2_000, 10), "q");
        engine.apply(on(old, "n"), START);
    }
    for number in 0..3 {
        engine.apply(told(of_quota(plain(&format!("new-{number}"), 2_000, 9), "q")), START);
    }
    assert_eq!(cleared(&mut engine).0, names(&[]), "they are more important");
    for number in 0..3 {
        gone(&mut engine, &format!("old-{number}"));
        let low = of_quota(plain(&format!("low-{number}"), 2_000, 0), "q");
        engine.apply(on(low, "n"), START);
    }
    let mut victims = BTreeSet::new();
    for seconds in 0..10 {
        let now = START.after(std::time::Duration::from_secs(seconds));
        for _ in 0..100 {
            let Some(Decision { pod, verdict, .. }) = engine.decide(now) else { continue };
            if let Verdict::Wait(waiting) = verdict {
                let room = waiting.room().into_iter().flat_map(|room| &room.victims);
                victims.extend(room.map(|one| one.pod.name.to_string()));
            }
            engine.done(&pod.uid, now);
        }
    }
    assert_eq!(victims.len(), 3, "nobody has gone yet: {victims:?}");
}

#[test]
fn what_a_quota_keeps_for_a_gang_is_no_reason_why_it_has_no_room_for_it() {
    let mut engine = jobs();
    engine.apply(node("n", 40_000), START);
    engine.apply(quota("q 0 20000"), START);
    for name in ["x", "y"] {
        engine.apply(on(of_quota(plain(name, 10_000, 1), "q"), "n"), START);
    }
    engine.apply(gang("g", 2), START);
    for name in ["a", "b"] {
        engine.apply(told(of_quota(member(name, "g", 10_000, 9), "q")), START);
    }
    assert_eq!(cleared(&mut engine).0, names(&["x", "y"]));
    // One of them is gone, and the other will be.
    gone(&mut engine, "x");
    let mut ledger = engine.ledger().snapshot([]);
    let stand = GroupStand::of(&ledger, &GangId::new("default", "g"), |_| false).unwrap();
    let profile = Profile { quota: Some(quota::Settings::default()), ..Profile::kubernetes() };
    let all = &mut [Decider::new(profile, &mut ledger, 0)];
    let of = &["a", "b"].map(|name| (Uid::new(name), 0)).into();
    let plan = plan_group(&mut ledger, &stand, &mut Deciders { all, of });
    assert_eq!((plan.seats.len(), plan.needed), (1, 2), "there is room for one by now");
    assert!(ledger.quotas.keeps_what_was_pledged());
}
