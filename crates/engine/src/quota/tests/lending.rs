//! Who uses what is others', and who may have it back.

use super::*;

/// Whether what one quota uses was only lent, as far as another asks for it; both as in `a 5/6`.
fn is_lent(tree: &mut QuotaTree, own: &str, other: &str) -> bool {
    let [own, other] = [own, other].map(|text| text.split_once(' ').unwrap());
    let [ours, theirs] = [own, other].map(|(_, text)| amounts(text));
    let part = |(quota, _), amounts| crate::quota::Part { quota, amounts };
    tree.view().is_borrowed(part(own, &ours), Claim::Asked(part(other, &theirs)))
}

/// Whether so much may be taken back.
fn may_take_back(tree: &mut QuotaTree, asked: &str) -> bool {
    let (quota, text) = asked.split_once(' ').unwrap();
    let amounts = amounts(text);
    tree.view().wants(crate::quota::Part { quota, amounts: &amounts }).is_some()
}

/// Asks for so much and uses it.
fn take(tree: &mut QuotaTree, text: &str) {
    ask(tree, text);
    let (name, text) = text.split_once(' ').unwrap();
    tree.add_used(name, &amounts(text), 1, Preemptible::Yes);
}

#[test]
fn pods_of_a_quota_above_the_one_that_asks_have_what_that_is_guaranteed() {
    let quotas = ["p< min=20 max=28", "c<p min=8 max=28", "b< max=28"];
    let mut tree = tree(Options::default(), "28", &quotas);
    ["p 12", "b 16"].iter().for_each(|text| take(&mut tree, text));
    ask(&mut tree, "c 4");
    assert!(may_take_back(&mut tree, "c 4"));
    assert!(!is_lent(&mut tree, "p 1", "c 4"), "it is within what it is guaranteed");
    assert!(is_lent(&mut tree, "b 1", "c 4"));
    take(&mut tree, "p 9");
    assert!(is_lent(&mut tree, "p 1", "c 4"), "it uses one more");
    // What is above both is as much above the one as above the other.
    take(&mut tree, "c 9");
    assert!(is_lent(&mut tree, "c 1", "p 1") == may_take_back(&mut tree, "p 0"));
}

#[test]
fn who_uses_what_it_is_guaranteed_borrows_nothing_however_little_its_parent_asks_for() {
    let quotas = ["org< min=80 max=96", "vision<org min=48 max=80", "speech<org min=32 max=64"];
    let mut tree = tree(Options::default(), "192", &quotas);
    ["vision 30", "speech 10"].iter().for_each(|text| take(&mut tree, text));
    check(&mut tree, |own| &own.runtime, &["org 40", "vision 30", "speech 10"]);
    check(&mut tree, |own| &own.kept_min, &["org 80", "vision 48", "speech 32"]);
    check(&mut tree, |own| &own.borrowed, &["org 0", "vision 0", "speech 0"]);
    let lent = |tree: &mut QuotaTree| {
        let mut lent = tree.view().lent_below("org");
        ["speech", "vision"].map(|name| lent.remove(name).unwrap())
    };
    assert_eq!(lent(&mut tree), [list("0"), list("0")]);
    assert!(!is_lent(&mut tree, "vision 5", "speech 5"));
    // It is kept while there is as much.
    take(&mut tree, "vision 30");
    check(&mut tree, |own| &own.borrowed, &["vision 12"]);
    assert_eq!(lent(&mut tree), [list("12"), list("0")]);
    assert!(is_lent(&mut tree, "vision 5", "speech 5"));
    tree.set_capacity(list("40"));
    check(&mut tree, |own| &own.kept_min, &["org 40", "vision 24", "speech 16"]);
}

#[test]
fn as_much_is_lent_as_is_borrowed_where_guarantees_shrink() {
    let quotas = ["vision< min=48 max=80", "speech< min=32 max=64"];
    let mut tree = tree(Options::default(), "38", &quotas);
    ["vision 32", "speech 6"].iter().for_each(|text| take(&mut tree, text));
    check(&mut tree, |own| &own.kept_min, &["vision 22", "speech 15"]);
    check(&mut tree, |own| &own.borrowed, &["vision 10", "speech 0"]);
    let lent = tree.view().lent_below(ROOT_QUOTA);
    assert_eq!((&lent["vision"], &lent["speech"]), (&list("0"), &list("10")));
}

#[test]
fn a_resource_is_given_back_to_who_is_guaranteed_it_whatever_else_he_asks_for() {
    let quotas = ["a< min=0/8 max=20/8", "b< max=20/8", "c< min=9 max=20"];
    let mut tree = tree(Options::default(), "20/8", &quotas);
    take(&mut tree, "b 5/8");
    ask(&mut tree, "a 4/4");
    assert!(may_take_back(&mut tree, "a 4/4"), "there is enough of the CPUs");
    assert!(is_lent(&mut tree, "b 1/1", "a 4/4"));
    assert!(!is_lent(&mut tree, "b 1/0", "a 4/4"), "CPUs are not what it is guaranteed");
    assert!(!may_take_back(&mut tree, "a 4/9"));
    // What is not there, and not guaranteed, does not come back.
    take(&mut tree, "c 15");
    assert!(!may_take_back(&mut tree, "a 18/4"));
    assert!(!is_lent(&mut tree, "c 1/0", "a 18/4"));
    assert!(may_take_back(&mut tree, "a 0/4"));
}

#[test]
fn who_says_nothing_of_a_resource_that_one_above_counts_only_borrows_it() {
    let mut tree = tree(
        Options::default(),
        "9/9",
        &["p< min=9/9 max=9/9", "a<p min=0/4 max=9/9", "b<p max=9"],
    );
    take(&mut tree, "b 1/9");
    ask(&mut tree, "a 1/4");
    assert!(may_take_back(&mut tree, "a 1/4") && is_lent(&mut tree, "b 1/9", "a 1/4"));
    // What no quota counts is nobody's to give.
    let quotas = ["a< min=0/4 max=9/9", "b< max=9"];
    let mut tree = super::tree(Options::default(), "9/9", &quotas);
    take(&mut tree, "b 1/9");
    assert!(!is_lent(&mut tree, "b 1/9", "a 1/4"));
}

#[test]
fn what_is_handed_on_is_guaranteed_to_those_below_and_not_to_who_hands_it_on() {
    let quotas = [
        "org< min=9/9 max=9/9",
        "p<org max=9",
        "a<p min=0/4 max=9/9",
        "b<p max=9/9",
        "r<org min=0/5 max=9/9",
    ];
    let mut tree = tree(Options::default(), "9/9", &quotas);
    take(&mut tree, "b 0/4");
    ask(&mut tree, "r 0/5");
    assert!(may_take_back(&mut tree, "r 0/5"));
    assert!(
        !is_lent(&mut tree, "b 0/1", "r 0/5"),
        "those below one use no more than they are guaranteed"
    );
    assert!(is_lent(&mut tree, "b 0/1", "a 0/1"));
    take(&mut tree, "b 0/1");
    assert!(is_lent(&mut tree, "b 0/1", "r 0/5"));
    take(&mut tree, "b 0/-5");
    take(&mut tree, "p 0/1");
    assert!(is_lent(&mut tree, "p 0/1", "a 0/1") && is_lent(&mut tree, "p 0/1", "r 0/1"));
}

#[test]
fn where_what_is_in_use_is_guaranteed_nothing_is_taken_back() {
    for guarantees_usage in [false, true] {
        let options = Options { guarantees_usage, ..Options::default() };
        let mut tree = tree(options, "10", &["a< min=5 max=10", "b< max=10"]);
        take(&mut tree, "b 10");
        ask(&mut tree, "a 4");
        assert_eq!(is_lent(&mut tree, "b 1", "a 4"), !guarantees_usage);
        assert_eq!(may_take_back(&mut tree, "a 4"), !guarantees_usage);
    }
}

#[test]
fn of_resources_that_nothing_has_so_many_are_reckoned_those_first_that_most_quotas_name() {
    let mut tree = QuotaTree::default();
    tree.set_capacity(list("10/10"));
    let named = |number: usize| {
        let own = (0..RESOURCES_MAX - 3).map(move |at| format!("example.com/{number}-{at}"));
        own.chain(["cpu", "memory", "z.example/common"].map(str::to_owned))
    };
    let quotas = 100;
    for number in 0..quotas {
        let max = named(number).map(|name| (name.into(), 1)).collect();
        tree.put(QuotaFact::new(&format!("q{number:03}"), max));
    }
    assert_eq!(tree.cells(), (2 + OTHER_RESOURCES_MAX) * (3 + quotas));
    let view = tree.view();
    let standing = view.standing("q000").unwrap();
    assert!(standing.used.contains_key("z.example/common"), "that is what most name");
    assert_eq!(standing.used.len(), RESOURCES_MAX, "the first by name are among them");
    assert_eq!(view.uncounted("q000"), None);
    assert_eq!(view.uncounted("q099"), Some("example.com/99-0"));
    // What nodes have is reckoned in any case.
    let mut capacity = list("10/10");
    capacity.insert("example.com/99-0".into(), 4);
    tree.set_capacity(capacity);
    assert_eq!(tree.view().uncounted("q099"), Some("example.com/99-1"));
    assert_eq!(tree.cells(), (3 + OTHER_RESOURCES_MAX) * (3 + quotas));
}

#[test]
fn of_resources_that_are_not_there_those_say_nothing_that_do_not_ask_for_them() {
    use api::elastic_quota::{DEFAULT_QUOTA, SYSTEM_QUOTA};
    let mut tree = tree(Options::default(), "10/0", &["q< max=9/9"]);
    tree.put(QuotaFact::new("r", [("example.com/chip".into(), 4)].into()));
    let told = |tree: &mut QuotaTree, name: &str| {
        let standing = tree.view().standing(name).unwrap();
        standing.used.keys().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    for name in [ROOT_QUOTA, DEFAULT_QUOTA, SYSTEM_QUOTA] {
        assert_eq!(told(&mut tree, name), "cpu");
    }
    ask(&mut tree, &format!("{DEFAULT_QUOTA} 1/1"));
    assert_eq!(told(&mut tree, DEFAULT_QUOTA), "cpu memory");
    assert_eq!(told(&mut tree, SYSTEM_QUOTA), "cpu");
    assert_eq!(
        (&*told(&mut tree, "q"), &*told(&mut tree, "r")),
        ("cpu memory", "example.com/chip")
    );
}
