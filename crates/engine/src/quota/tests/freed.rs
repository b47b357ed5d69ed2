//! Who has more room than before.

use std::collections::BTreeSet;

use api::elastic_quota::DEFAULT_QUOTA;

use super::*;

/// Who has more room than when this was last asked.
fn freed(tree: &mut QuotaTree) -> BTreeSet<Box<str>> {
    match tree.take_freed() {
        Freed::These(names) => names,
        Freed::All => panic!("quotas are what they were"),
    }
}

#[test]
fn who_comes_to_rest_leaves_more_to_others_and_who_is_roused_leaves_nothing_to_anybody() {
    // What a and b ask for, what of that of a rests, and who has more room then, and when it is roused.
    let check = |asked: [&str; 2], resting: &str, expected: [&[&str]; 2]| {
        let mut tree =
            tree(Options::default(), "10", &["p< max=10", "a<p max=10", "b<p max=10", "c< max=1"]);
        ask(&mut tree, &format!("a {}", asked[0]));
        ask(&mut tree, &format!("b {}", asked[1]));
        drop(tree.take_freed());
        for (sign, expected) in [1, -1].into_iter().zip(expected) {
            tree.add_resting("a", &amounts(resting), sign);
            let expected: BTreeSet<Box<str>> = expected.iter().map(|own| (*own).into()).collect();
            assert_eq!(freed(&mut tree), expected, "{asked:?} {resting} {sign}");
        }
    };
    check(["10", "10"], "10", [&["b"], &["a"]]);
    check(["10", "10"], "8", [&["b"], &["a"]]);
    // What it asks for besides is all that it gets in any case.
    check(["20", "10"], "10", [&[], &[]]);
    // There is enough for both.
    check(["4", "4"], "2", [&[], &["p", "a"]]);
}

#[test]
fn there_is_more_to_share_when_there_is_more_or_the_default_quota_uses_less() {
    let mut tree = tree(Options::default(), "10/10", &["a< max=20/20"]);
    let used = |sign: i64| {
        move |tree: &mut QuotaTree| {
            tree.add_used(DEFAULT_QUOTA, &amounts("4/4"), sign, Preemptible::Yes);
        }
    };
    let mut check = |change: &dyn Fn(&mut QuotaTree), expected: bool| {
        drop(tree.take_freed());
        change(&mut tree);
        assert_eq!([tree.take_growth(), tree.take_growth()], [expected, false]);
    };
    check(&|tree| tree.set_capacity(list("10/10")), false);
    check(&|tree| tree.set_capacity(list("8/10")), false);
    check(&|tree| tree.set_capacity(list("8/11")), true);
    check(&used(1), false);
    check(&used(-1), true);
    check(&|tree| tree.add_used("a", &amounts("1/1"), 1, Preemptible::Yes), false);
    check(&|tree| tree.add_used("a", &amounts("1/1"), -1, Preemptible::Yes), false);
    check(
        &|tree| {
            tree.begin_thought();
            [1, -1].iter().for_each(|sign| used(*sign)(tree));
            tree.end_thought();
        },
        false,
    );
}
