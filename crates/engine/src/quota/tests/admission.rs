//! Who may take more.

use api::elastic_quota::DEFAULT_QUOTA;

use super::*;

/// What a quota says to one more who asks, in words.
fn answer(tree: &mut QuotaTree, name: &str, text: &str, preemptible: Preemptible) -> String {
    match tree.admit(name, &amounts(text), preemptible) {
        Ok(()) => "admitted".to_owned(),
        Err(refusal) => refusal.to_string(),
    }
}

fn check_answer(tree: &mut QuotaTree, asked: &str, expected: &str) {
    let (name, text) = asked.split_once(' ').unwrap();
    assert_eq!(answer(tree, name, text, Preemptible::Yes), expected, "{asked}");
}

#[test]
fn s12_a1_what_a_quota_does_not_count_is_not_mentioned() {
    let mut tree = tree(Options::default(), "0/20", &["q< max=10/20"]);
    ask(&mut tree, "q 1/20");
    let mut asked = amounts("1/2");
    asked.put("nvidia.com/gpu", 1);
    let refusal = tree.admit("q", &asked, Preemptible::Yes).unwrap_err();
    let excesses = vec![Excess { resource: "cpu".into(), limit: 0, used: 0, asked: 1 }];
    let reason = RefusalReason::Exceeded { bound: Bound::Runtime, excesses };
    assert_eq!(refusal, QuotaRefusal { quota: "q".into(), path: vec!["q".into()], reason });
    asked.cpu_millis = 0;
    assert_eq!(tree.admit("q", &asked, Preemptible::Yes), Ok(()), "only the gpu is left");
}

#[test]
fn a_ceiling_holds_for_pods_of_quotas_below_that_say_nothing_of_the_resource() {
    let options = Options { limit: Limit::Max, ..Options::default() };
    for options in [Options::default(), options] {
        let quotas =
            ["p< min=0/4 max=9/4", "mid<p max=9", "leaf<mid max=9", "bare<p", "r< max=9/9"];
        let mut tree = tree(options, "9/9", &quotas);
        ["leaf 1/3", "bare 1/3", "r 0/9"].iter().for_each(|text| ask(&mut tree, text));
        tree.add_used("leaf", &amounts("1/3"), 1, Preemptible::Yes);
        tree.add_used("r", &amounts("0/1"), 1, Preemptible::Yes);
        check(&mut tree, |own| &own.used, &["p 1/3", "mid 1", "leaf 1", "r 0/1"]);
        check(
            &mut tree,
            |own| &own.runtime,
            match options.limit {
                Limit::Runtime => &["p 2/4", "r 0/5"],
                Limit::Max => &["p 9/4", "r 9/9"],
            },
        );
        let refused = answer(&mut tree, "bare", "1/3", Preemptible::Yes);
        assert!(refused.starts_with("Insufficient quotas, quotaNameTopo: [p bare]"), "{refused}");
        assert!(refused.ends_with("exceedDimensions: [memory]"), "{refused}");
        check_answer(&mut tree, "bare 1/1", "admitted");
        // What came is also gone again, and what the quota learns to count is counted.
        tree.put(quota("bare<p max=9/9"));
        tree.add_used("leaf", &amounts("1/3"), -1, Preemptible::Yes);
        check(&mut tree, |own| &own.used, &["p 0/0", "bare 0/0"]);
        check_answer(&mut tree, "bare 1/3", "admitted");
    }
}

#[test]
fn who_hands_a_resource_on_refuses_nobody_for_it_and_ceilings_above_hold() {
    let options = Options { limit: Limit::Max, ..Options::default() };
    for options in [Options::default(), options] {
        let quotas = ["org< max=9/6", "p<org max=9", "a<p max=9/5", "b<p max=9/5"];
        let mut tree = tree(options, "9/9", &quotas);
        ["p 1/1", "a 1/3", "b 1/3"].iter().for_each(|text| ask(&mut tree, text));
        tree.add_used("a", &amounts("1/3"), 1, Preemptible::Yes);
        tree.add_used("p", &amounts("1/1"), 1, Preemptible::Yes);
        check(&mut tree, |own| &own.used, &["p 2", "org 2/4"]);
        check_answer(&mut tree, "b 1/2", "admitted");
        let refused = answer(&mut tree, "b", "1/3", Preemptible::Yes);
        assert!(refused.starts_with("Insufficient quotas, quotaNameTopo: [org p b]"), "{refused}");
        assert!(refused.ends_with("exceedDimensions: [memory]"), "{refused}");
    }
}

#[test]
fn s12_a2_a_quota_admits_no_more_than_it_may_use_now() {
    let mut tree = tree(Options::default(), "1000/2", &["q< max=10000/20"]);
    ask(&mut tree, "q 1000/3");
    check_answer(
        &mut tree,
        "q 1000/3",
        "Insufficient quotas, quotaName: q, runtime: memory 2, used: memory 0, pod's request: memory 3, \
         exceedDimensions: [memory]",
    );
    check_answer(&mut tree, "q 1000/2", "admitted");
}

#[test]
fn s12_a3_or_no_more_than_its_ceiling() {
    let options = Options { limit: Limit::Max, ..Options::default() };
    let mut tree = tree(options, "1000/2", &["q< max=10000/20"]);
    ask(&mut tree, "q 1000/3");
    check_answer(&mut tree, "q 1000/3", "admitted");
    check(&mut tree, |own| &own.runtime, &["q 10000/20"]);
    tree.add_used("q", &amounts("1000/18"), 1, Preemptible::Yes);
    check_answer(
        &mut tree,
        "q 1000/3",
        "Insufficient quotas, quotaName: q, max: memory 20, used: memory 18, pod's request: memory 3, \
         exceedDimensions: [memory]",
    );
}

/// A parent that has less than its child may use.
fn parent_and_child(options: Options) -> QuotaTree {
    let quotas = ["test< max=9/2", "test-child<test min=0/3 max=9/9"];
    let mut tree = tree(options, "9/9", &quotas);
    ask(&mut tree, "test-child 1/3");
    tree
}

#[test]
fn s12_a4_s12_a5_those_above_are_always_asked() {
    let options = Options { scales_min: false, ..Options::default() };
    let mut tree = parent_and_child(options);
    check(&mut tree, |own| &own.runtime, &["test 1/2", "test-child 1/3"]);
    let refused = "Insufficient quotas, quotaNameTopo: [test test-child], runtime: memory 2, used: memory 0, \
                   pod's request: memory 3, exceedDimensions: [memory]";
    check_answer(&mut tree, "test-child 1/3", refused);
    let refusal = tree.admit("test-child", &amounts("1/3"), Preemptible::Yes).unwrap_err();
    assert_eq!((&*refusal.quota, refusal.path.len()), ("test", 2));
    let mut tree = parent_and_child(Options { limit: Limit::Max, ..options });
    check_answer(&mut tree, "test-child 1/3", &refused.replace("runtime", "max"));
    check_answer(&mut tree, "test-child 1/2", "admitted");
    // What siblings use counts above.
    tree.put(quota("sister<test max=9/9"));
    tree.add_used("sister", &amounts("0/1"), 1, Preemptible::Yes);
    check_answer(&mut tree, "test-child 1/1", "admitted");
    let refused = refused.replace("runtime", "max").replace("memory 0", "memory 1");
    check_answer(&mut tree, "test-child 1/2", &refused.replace("memory 3", "memory 2"));
}

#[test]
fn s12_a6_who_never_makes_room_is_charged_to_the_guarantee() {
    let mut tree = tree(Options::default(), "10000", &["q< min=5000 max=10000"]);
    tree.add_request("q", &amounts("6000"), 1, Preemptible::No);
    tree.add_used("q", &amounts("4000"), 1, Preemptible::No);
    let refused = "Insufficient non-preemptible quotas, quotaName: q, min: cpu 5, used: cpu 4, pod's request: \
                   cpu 2, exceedDimensions: [cpu]";
    assert_eq!(answer(&mut tree, "q", "2000", Preemptible::No), refused);
    assert_eq!(answer(&mut tree, "q", "1000", Preemptible::No), "admitted");
    check_answer(&mut tree, "q 2000", "admitted");
    check(&mut tree, |own| &own.non_preemptible_used, &["q 4000"]);
    check(&mut tree, |own| &own.non_preemptible_request, &["q 6000"]);
}

#[test]
fn s12_a7_and_not_to_what_others_use_of_it() {
    let mut tree = tree(Options::default(), "10000", &["q< min=5000 max=10000"]);
    tree.add_used("q", &amounts("4000"), 1, Preemptible::Yes);
    ask(&mut tree, "q 10000");
    assert_eq!(answer(&mut tree, "q", "2000", Preemptible::No), "admitted");
    // What nothing is guaranteed of at all is like everybody's.
    tree.put(quota("q< max=10000"));
    assert_eq!(answer(&mut tree, "q", "2000", Preemptible::No), "admitted");
}

#[test]
fn s12_a8_what_is_used_counts() {
    let mut tree = tree(Options::default(), "7000", &["q< max=10000"]);
    ask(&mut tree, "q 8000");
    tree.add_used("q", &amounts("6000"), 1, Preemptible::Yes);
    check_answer(
        &mut tree,
        "q 2000",
        "Insufficient quotas, quotaName: q, runtime: cpu 7, used: cpu 6, pod's request: cpu 2, \
         exceedDimensions: [cpu]",
    );
    check_answer(&mut tree, "q 1000", "admitted");
    tree.add_used("q", &amounts("6000"), -1, Preemptible::Yes);
    check_answer(&mut tree, "q 2000", "admitted");
}

#[test]
fn what_is_guaranteed_below_a_quota_does_not_raise_its_ceiling() {
    let options = Options { guarantees_usage: true, ..Options::default() };
    let quotas = ["p< max=10", "a<p min=8 max=9", "b<p min=8 max=9", "r< max=90"];
    let mut tree = tree(options, "40", &quotas);
    ["a 8", "b 8", "r 90"].iter().for_each(|text| ask(&mut tree, text));
    check(&mut tree, |own| &own.runtime, &["p 10", "a 8", "b 8", "r 30"]);
    tree.add_used("a", &amounts("8"), 1, Preemptible::Yes);
    check_answer(&mut tree, "b 2", "admitted");
    let refused = answer(&mut tree, "b", "3", Preemptible::Yes);
    assert!(refused.starts_with("Insufficient quotas, quotaNameTopo: [p b]"), "{refused}");
}

#[test]
fn only_what_is_asked_for_has_to_be_there() {
    let mut tree = tree(Options::default(), "10/10", &["q< max=10/10"]);
    ask(&mut tree, "q 10/10");
    tree.add_used("q", &amounts("1/20"), 1, Preemptible::Yes);
    check_answer(&mut tree, "q 5/0", "admitted");
}

#[test]
fn the_default_quota_is_held_to_its_ceiling_where_it_has_one() {
    let mut tree = tree(Options::default(), "10", &[]);
    check_answer(&mut tree, &format!("{DEFAULT_QUOTA} 500"), "admitted");
    let most = i64::MAX;
    tree.put(quota(&format!("{DEFAULT_QUOTA}< max={most}")));
    tree.add_used(DEFAULT_QUOTA, &amounts("500"), 1, Preemptible::Yes);
    check_answer(&mut tree, &format!("{DEFAULT_QUOTA} 500"), "admitted");
    tree.put(quota(&format!("{DEFAULT_QUOTA}< max=900")));
    check_answer(
        &mut tree,
        &format!("{DEFAULT_QUOTA} 500"),
        "Insufficient quotas, quotaName: koordinator-default-quota, max: cpu 900m, used: cpu 500m, \
         pod's request: cpu 500m, exceedDimensions: [cpu]",
    );
}

#[test]
fn who_is_nowhere_admits_nothing_and_holds_nothing_until_it_has_a_place() {
    let mut tree = tree(Options::default(), "100", &["q<p min=60 max=100 keeps", "r< max=100"]);
    ask(&mut tree, "q 50");
    ask(&mut tree, "r 100");
    tree.add_used("q", &amounts("30"), 1, Preemptible::Yes);
    check_answer(&mut tree, "gone 1", "quota gone does not exist: create it or name another");
    check_answer(
        &mut tree,
        &format!("{ROOT_QUOTA} 1"),
        "quota koordinator-root-quota does not exist: create it or name another",
    );
    check_answer(
        &mut tree,
        "q 1",
        "quota q admits nothing: its parent p does not exist: create it or name another",
    );
    let misplaced: Vec<_> =
        tree.view().misplaced().map(|(name, why)| (name.to_owned(), why.clone())).collect();
    assert_eq!(misplaced, [("q".to_owned(), Misplaced::UnknownParent("p".into()))]);
    check(&mut tree, |own| &own.runtime, &["r 100"]);
    assert_eq!(tree.view().standing("q"), None);
    tree.put(quota("p< min=60 max=100"));
    check(&mut tree, |own| &own.runtime, &["p 60", "q 60", "r 40"]);
    check(&mut tree, |own| &own.used, &["p 30", "q 30"]);
    check_answer(&mut tree, "q 1", "admitted");
    // A circle is no place either.
    tree.put(quota("p<q max=100"));
    check_answer(
        &mut tree,
        "q 1",
        "quota q admits nothing: its parents lead back to it, over q, p: give one of them another parent",
    );
    tree.put(quota("p<p max=100"));
    check_answer(
        &mut tree,
        "p 1",
        "quota p admits nothing: it names itself as its parent: name another",
    );
    check(&mut tree, |own| &own.runtime, &["r 100"]);
}

#[test]
fn what_is_kept_for_others_who_never_make_room_is_no_reason_to_divide_nothing_for_one() {
    // What is used and kept by those who never make room of a guarantee of 4, and whether one more of 2 is beyond it.
    let check = |used: &str, kept: &str, expected: [bool; 2]| {
        let mut tree = tree(Options::default(), "10", &["q< min=4 max=10"]);
        tree.add_used("q", &amounts(used), 1, Preemptible::No);
        let entry = Entry { charge: Charge::Pledged, preemptible: Preemptible::No, sign: 1 };
        tree.charge("q", &amounts(kept), entry);
        let two = amounts("2");
        let own = crate::quota::Part { quota: "q", amounts: &two };
        let view = tree.view();
        let is_beyond = [Claim::Asked(own), Claim::Besides(own)]
            .map(|claim| view.is_beyond_runtime(claim, Preemptible::No));
        assert_eq!(is_beyond, expected, "{used} and {kept}");
        let others = view.is_beyond_runtime(Claim::Besides(own), Preemptible::Yes);
        assert!(!others, "who makes room is held to nothing of this");
    };
    check("0", "2", [false, false]);
    check("0", "3", [false, true]);
    check("2", "0", [false, false]);
    check("2", "1", [false, true]);
    check("3", "0", [true, true]);
}
