//! What was only lent comes back.

use super::*;

#[test]
fn what_was_lent_comes_back_also_from_pods_that_others_do_not_push_out() {
    let check = |change: fn(&mut PodFact), expected: usize| {
        let mut engine = engine(&[LastResort::ElasticQuota]);
        engine.apply(node("n", 10_000), START);
        engine.apply(quota("owner 5000 10000"), START);
        engine.apply(quota("borrower 5000 10000"), START);
        for number in 0..5 {
            let mut own = of_quota(plain(&format!("b{number}"), 2_000, 100), "borrower");
            change(&mut own);
            engine.apply(on(own, "n"), START);
        }
        engine.apply(told(of_quota(plain("own", 2_000, 1), "owner")), START);
        let (victims, _, texts) = cleared(&mut engine);
        assert_eq!(victims.len(), expected, "{texts:?}");
        // Whoever had to go does not come back for it.
        for victim in &victims {
            engine.apply(Fact::PodGone(Uid::new(victim)), START);
            let mut again = of_quota(plain(&format!("{victim}-again"), 2_000, 100), "borrower");
            change(&mut again);
            engine.apply(told(again), START);
        }
        let (again, ..) = cleared(&mut engine);
        assert_eq!(again, names(&[]), "nobody takes anything back from the owner");
    };
    check(|own| own.is_spared = true, 1);
    check(|own| own.preemptible = Preemptible::No, 0);
}

#[test]
fn one_of_a_gang_that_stays_does_not_keep_what_was_lent_to_the_others() {
    let check = |shield: fn(&mut PodFact), asked: i64, expected: usize| {
        let mut engine = jobs();
        engine.apply(node("n", 10_000), START);
        engine.apply(quota("owner 6000 10000"), START);
        engine.apply(quota("borrower 2000 10000"), START);
        engine.apply(quota("third 2000 10000"), START);
        engine.apply(gang("g", 10), START);
        for number in 0..10 {
            let mut own = of_quota(member(&format!("g{number}"), "g", 1_000, 5), "borrower");
            if number == 0 {
                shield(&mut own);
            }
            engine.apply(on(own, "n"), START);
        }
        engine.apply(told(of_quota(plain("own", asked, 1), "owner")), START);
        let (victims, _, texts) = cleared(&mut engine);
        assert_eq!(victims.len(), expected, "{texts:?}");
        assert!(!victims.contains("g0"), "{victims:?}");
    };
    check(|own| own.preemptible = Preemptible::No, 3_000, 3);
    // One that uses what its own quota is guaranteed.
    check(|own| own.quota = Some("third".into()), 3_000, 3);
    check(|own| own.preemptible = Preemptible::No, 7_000, 0);
    // Of those that are important in the same quota, a gang goes whole or not at all as ever.
    let mut engine = jobs();
    engine.apply(node("n", 10_000), START);
    engine.apply(gang("g", 5), START);
    for number in 0..5 {
        let mut own = member(&format!("g{number}"), "g", 2_000, 1);
        own.is_spared = number == 0;
        engine.apply(on(own, "n"), START);
    }
    engine.apply(told(plain("one", 2_000, 9)), START);
    assert_eq!(cleared(&mut engine).0, names(&[]));
}

#[test]
fn who_goes_alone_goes_before_a_gang_that_would_go_whole_and_is_as_important() {
    let check = |priority: i32, expected: &[&str]| {
        let mut engine = jobs();
        engine.apply(node("n", 99_000), START);
        engine.apply(quota("org 12000 12000"), START);
        for text in ["owner 8000 8000", "borrower 2000 12000"] {
            let Fact::Quota(own) = quota(text) else { unreachable!() };
            let parent = "org".into();
            engine.apply(Fact::Quota(Box::new(QuotaFact { parent, ..*own })), START);
        }
        engine.apply(gang("g", 3), START);
        // Whoever is named first is looked at first.
        for name in ["a", "b", "c"] {
            engine.apply(on(of_quota(member(name, "g", 2_000, 5), "borrower"), "n"), START);
        }
        for name in ["x", "y", "z"] {
            engine.apply(on(of_quota(plain(name, 2_000, priority), "borrower"), "n"), START);
        }
        engine.apply(told(of_quota(plain("own", 3_000, 1), "owner")), START);
        let (victims, _, texts) = cleared(&mut engine);
        assert_eq!(victims, names(expected), "{texts:?}");
    };
    check(5, &["x", "y"]);
    check(4, &["x", "y"]);
    check(6, &["a", "b", "c"]);
}

#[test]
fn whoever_goes_already_is_no_loss_so_that_nobody_else_is_asked_for_the_same_room() {
    // As a new leader finds it, which does not know for whom they go.
    let mut engine = jobs();
    engine.apply(node("n", 100_000), START);
    engine.apply(quota("q 0 20000"), START);
    let going = PodFact { deleting: true, giving_way: true, ..plain("x", 10_000, 2) };
    engine.apply(on(of_quota(going, "q"), "n"), START);
    engine.apply(on(of_quota(plain("y", 10_000, 1), "q"), "n"), START);
    engine.apply(told(of_quota(plain("p", 10_000, 9), "q")), START);
    assert_eq!(cleared(&mut engine).0, names(&["x"]));
}

#[test]
fn of_users_of_a_quota_that_are_as_important_the_one_that_started_last_goes() {
    for late in ["x", "y"] {
        let mut engine = jobs();
        engine.apply(node("n", 100_000), START);
        engine.apply(quota("q 0 20000"), START);
        for name in ["x", "y"] {
            let started = Some(Moment(if name == late { 2 } else { 1 }));
            let own = PodFact { started, ..plain(name, 10_000, 1) };
            engine.apply(on(of_quota(own, "q"), "n"), START);
        }
        engine.apply(told(of_quota(plain("p", 10_000, 9), "q")), START);
        assert_eq!(cleared(&mut engine).0, names(&[late]));
    }
}
