//! Who has more room than before.

use std::collections::BTreeSet;

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
