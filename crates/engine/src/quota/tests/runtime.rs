//! How much each quota may use.

use api::elastic_quota::{DEFAULT_QUOTA, SYSTEM_QUOTA};

use super::*;

/// Two teams with all of a cluster.
const TEAMS: [&str; 2] = ["t1< min=50/80 max=96/160", "t2< min=40/80 max=96/160"];
/// A parent whose children are guaranteed all that it is.
const FAMILY: [&str; 4] = [
    "p< min=300000 max=1000000",
    "a<p min=100000 max=1000000",
    "b<p min=100000 max=1000000",
    "c<p min=100000 max=1000000",
];

fn family(options: Options, capacity: &str, asking: &[&str]) -> QuotaTree {
    let mut tree = tree(options, capacity, &FAMILY);
    asking.iter().for_each(|name| ask(&mut tree, &format!("{name} 200000")));
    tree
}

#[test]
fn s12_q1_children_of_one_parent_share_what_it_has() {
    let quotas = [
        "n1< min=10 max=100 weight=40",
        "n2< min=15 max=100 weight=60",
        "n3< min=20 max=100 weight=50",
        "n4< min=15 max=100 weight=80",
    ];
    let mut tree = tree(Options::default(), "100", &quotas);
    ["n1 5", "n2 20", "n3 40", "n4 70"].iter().for_each(|text| ask(&mut tree, text));
    check(&mut tree, |own| &own.runtime, &["n1 5", "n2 20", "n3 35", "n4 40"]);
}

#[test]
fn s12_q2_who_asks_alone_gets_what_he_asks_for() {
    let mut tree = tree(Options::default(), "96/160", &TEAMS);
    ask(&mut tree, "t1 60/100");
    check(&mut tree, |own| &own.runtime, &["t1 60/100", "t2 0/0"]);
}

#[test]
fn s12_q3_who_asks_beside_others_gets_his_guarantee_and_his_part_of_the_rest() {
    let mut tree = tree(Options::default(), "96/160", &TEAMS);
    ask(&mut tree, "t1 100/200");
    ask(&mut tree, "t2 100/200");
    check(&mut tree, |own| &own.runtime, &["t1 53/80", "t2 43/80"]);
}

#[test]
fn s12_q4_nobody_asks_for_more_than_his_ceiling() {
    let mut tree = tree(Options::default(), "200/200", &TEAMS);
    ask(&mut tree, "t1 120/1");
    check(&mut tree, |own| &own.request, &["t1 120/1"]);
    check(&mut tree, |own| &own.limited_request, &["t1 96/1"]);
    check(&mut tree, |own| &own.runtime, &["t1 96/1"]);
}

#[test]
fn s12_q5_a_ceiling_below_limits_what_those_above_ask_for() {
    let quotas = ["org< min=1/1 max=96/160", "a<org min=1/1 max=96/160", "a-123<a max=30/60"];
    let mut tree = tree(Options::default(), "96/160", &quotas);
    ask(&mut tree, "a-123 55/75");
    check(&mut tree, |own| &own.runtime, &["a-123 30/60"]);
    check(&mut tree, |own| &own.request, &["a-123 55/75", "a 30/60", "org 30/60"]);
}

#[test]
fn s12_q6_what_is_kept_is_not_lent() {
    let check = |y: &str, expected: &[&str]| {
        let mut tree = tree(Options::default(), "100", &["x< min=60 max=96", y]);
        ask(&mut tree, "x 120");
        check(&mut tree, |own| &own.runtime, expected);
    };
    check("y< min=40 max=96 keeps", &["x 60", "y 40"]);
    check("y< min=40 max=96", &["x 96", "y 0"]);
}

/// A parent and two children, and what all three get while the first child asks for more and more.
fn check_growing(quotas: &[&str], steps: &[(&str, [&str; 3])]) {
    let mut tree = tree(Options::default(), "100", quotas);
    for (more, expected) in steps {
        ask(&mut tree, &format!("child1 {more}"));
        check(&mut tree, |own| &own.runtime, expected);
    }
}

#[test]
fn s12_q7_s12_q8_what_is_kept_below_is_asked_for_above() {
    check_growing(
        &[
            "root-q< min=60 max=96 keeps",
            "child1<root-q min=20 max=96 keeps",
            "child2<root-q min=20 max=96 keeps",
        ],
        &[
            ("0", ["root-q 60", "child1 20", "child2 20"]),
            ("40", ["root-q 60", "child1 40", "child2 20"]),
            ("20", ["root-q 80", "child1 60", "child2 20"]),
        ],
    );
}

#[test]
fn s12_q9_a_parent_that_lends_has_what_its_children_ask_for() {
    check_growing(
        &[
            "root-q< min=60 max=96",
            "child1<root-q min=20 max=96 keeps",
            "child2<root-q min=20 max=96",
        ],
        &[
            ("0", ["root-q 20", "child1 20", "child2 0"]),
            ("40", ["root-q 40", "child1 40", "child2 0"]),
            ("20", ["root-q 60", "child1 60", "child2 0"]),
        ],
    );
}

#[test]
fn s12_q10_and_what_all_of_them_keep() {
    check_growing(
        &[
            "root-q< min=60 max=96",
            "child1<root-q min=20 max=96 keeps",
            "child2<root-q min=20 max=96 keeps",
        ],
        &[
            ("0", ["root-q 40", "child1 20", "child2 20"]),
            ("40", ["root-q 60", "child1 40", "child2 20"]),
            ("20", ["root-q 80", "child1 60", "child2 20"]),
        ],
    );
}

#[test]
fn s12_q11_guarantees_shrink_together_where_there_is_too_little() {
    let mut tree = family(Options::default(), "200000", &["a", "b", "c"]);
    let scaled = ["p 200000", "a 66666", "b 66666", "c 66666"];
    check(&mut tree, |own| &own.kept_min, &scaled);
    check(&mut tree, |own| &own.runtime, &["p 200000", "a 66667", "b 66667", "c 66666"]);
}

#[test]
fn s12_q12_also_that_of_one_who_asks_for_nothing() {
    let mut tree = family(Options::default(), "200000", &["a", "c"]);
    check(&mut tree, |own| &own.kept_min, &["a 66666", "b 66666", "c 66666"]);
    check(&mut tree, |own| &own.runtime, &["a 100000", "b 0", "c 100000"]);
}

#[test]
fn s12_q13_or_stay_what_they_are_and_are_more_than_there_is() {
    let options = Options { scales_min: false, ..Options::default() };
    let mut tree = family(options, "200000", &["a", "b", "c"]);
    check(&mut tree, |own| &own.runtime, &["p 300000", "a 100000", "b 100000", "c 100000"]);
    check(&mut tree, |own| &own.kept_min, &["p 300000", "a 100000"]);
}

#[test]
fn s12_q14_and_are_whole_again_when_there_is_enough() {
    let mut tree = family(Options::default(), "200000", &["a", "b", "c"]);
    check(&mut tree, |own| &own.kept_min, &["p 200000", "a 66666"]);
    tree.set_capacity(list("600000"));
    check(&mut tree, |own| &own.kept_min, &["p 300000", "a 100000", "b 100000", "c 100000"]);
    check(&mut tree, |own| &own.runtime, &["p 600000", "a 200000", "b 200000", "c 200000"]);
}

#[test]
fn who_asks_for_no_more_than_it_is_guaranteed_gets_it_however_little_those_beside_it_ask_for() {
    let quotas =
        ["org< min=80 max=96", "vision<org min=48 max=80 weight=0", "speech<org min=32 max=64"];
    let mut tree = tree(Options::default(), "192", &quotas);
    ask(&mut tree, "vision 40");
    check(&mut tree, |own| &own.runtime, &["org 40", "vision 40", "speech 0"]);
}

#[test]
fn s12_q17_who_keeps_his_guarantee_always_asks_for_it() {
    let quotas =
        ["q1< min=20 max=40 keeps", "q2<q1 min=10 max=40 keeps", "q3<q1 min=5 max=40 keeps"];
    let mut tree = tree(Options::default(), "100", &quotas);
    for (more, own, below, above) in [
        ("5", "q2 10", "q1 15", "q1 20"),
        ("10", "q2 15", "q1 20", "q1 20"),
        ("10", "q2 25", "q1 30", "q1 30"),
    ] {
        ask(&mut tree, &format!("q2 {more}"));
        check(&mut tree, |own| &own.request, &[own, above]);
        check(&mut tree, |own| &own.child_request, &[below]);
    }
}

#[test]
fn s12_q18_the_default_and_the_system_quota_take_theirs_first() {
    let mut tree = tree(Options::default(), "1000/1000", &["a< max=2000/2000"]);
    ask(&mut tree, "a 2000/2000");
    tree.add_used(SYSTEM_QUOTA, &amounts("10/30"), 1, Preemptible::Yes);
    tree.add_used(DEFAULT_QUOTA, &amounts("2/5"), 1, Preemptible::Yes);
    assert_eq!(tree.view().shared(), list("988/965"));
    check(&mut tree, |own| &own.runtime, &["a 988/965"]);
    check(&mut tree, |own| &own.used, &[&format!("{ROOT_QUOTA} 12/35")]);
    // What they ask for and do not use is there for the others.
    ask(&mut tree, &format!("{DEFAULT_QUOTA} 500/500"));
    check(&mut tree, |own| &own.runtime, &["a 988/965"]);
    tree.add_used(DEFAULT_QUOTA, &amounts("2/5"), -1, Preemptible::Yes);
    check(&mut tree, |own| &own.runtime, &["a 990/970"]);
    // They may use more than there is.
    tree.add_used(DEFAULT_QUOTA, &amounts("5000/1"), 1, Preemptible::Yes);
    check(&mut tree, |own| &own.runtime, &["a 0/969"]);
}

#[test]
fn s12_a20_what_is_in_use_is_not_taken_back() {
    let options = Options { guarantees_usage: true, ..Options::default() };
    let quotas =
        ["q1< min=20 max=90 weight=1", "q2<q1 min=10 max=90", "q3<q1 min=5 max=90", "r< max=90"];
    let mut tree = tree(options, "40", &quotas);
    for (more, below, above) in
        [("5", "q2 10", "q1 20"), ("10", "q2 15", "q1 20"), ("10", "q2 25", "q1 30")]
    {
        tree.add_used("q2", &amounts(more), 1, Preemptible::Yes);
        tree.add_request("q2", &amounts(more), 1, Preemptible::Yes);
        check(&mut tree, |own| &own.guaranteed, &[below, above, "q3 5"]);
    }
    check(&mut tree, |own| &own.allocated, &["q2 25", "q1 30", "q3 0"]);
    // Others ask for it, and only what is idle is divided.
    ask(&mut tree, "r 90");
    check(&mut tree, |own| &own.runtime, &["q1 30", "q2 25", "q3 5", "r 10"]);
}

#[test]
fn what_is_lent_is_what_others_use_of_a_guarantee() {
    let quotas =
        ["a< min=40 max=100", "b< min=20 max=100", "c< min=20 max=100 keeps", "d< max=100"];
    let mut tree = tree(Options::default(), "100", &quotas);
    let mut use_more = |name: &str, more: &str, borrowed: [&str; 2], lent: [&str; 3]| {
        tree.add_used(name, &amounts(more), 1, Preemptible::Yes);
        check(&mut tree, |own| &own.borrowed, &borrowed);
        let told = tree.view().lent_below(ROOT_QUOTA);
        let told = ["a", "b", "c"].map(|name| format!("{name} {}", told[name]["cpu"]));
        assert_eq!(told, lent);
    };
    use_more("b", "5", ["b 0", "d 0"], ["a 0", "b 0", "c 0"]);
    // Twenty are guaranteed to nobody.
    use_more("d", "20", ["b 0", "d 20"], ["a 0", "b 0", "c 0"]);
    use_more("d", "11", ["b 0", "d 31"], ["a 8", "b 3", "c 0"]);
    use_more("a", "40", ["a 0", "d 31"], ["a 0", "b 11", "c 0"]);
    use_more("a", "1", ["a 1", "d 31"], ["a 0", "b 12", "c 0"]);
    use_more("b", "20", ["b 5", "d 31"], ["a 0", "b 0", "c 0"]);
}

#[test]
fn a_parent_that_does_not_count_a_resource_hands_on_what_those_below_would_get_in_its_place() {
    let whole = |capacity: &str, quotas: &[&str], asked: &[&str], expected: &[&str]| {
        let mut tree = tree(Options::default(), capacity, quotas);
        asked.iter().for_each(|text| ask(&mut tree, text));
        check(&mut tree, |own| &own.runtime, expected);
    };
    whole("100/100", &["p< max=100", "a<p min=1/1 max=50/50"], &["a 5/5"], &["p 5", "a 5/5"]);
    // Its weight is theirs together, also two levels below.
    let quotas = ["p< max=9", "q<p max=9", "a<q max=0/60", "b<p max=0/30", "r< max=0/90"];
    let asked = ["a 0/99", "b 0/99", "r 0/99"];
    whole("9/90", &quotas, &asked, &["p 0", "q 0", "a 0/30", "b 0/15", "r 0/45"]);
    // So is what it is guaranteed, and what it does not lend is what they do not.
    let quotas =
        ["p< max=9 keeps", "a<p min=0/20 max=0/90 keeps", "b<p min=0/10 max=0/90", "r< max=0/90"];
    whole("9/90", &quotas, &["r 0/99"], &["a 0/20", "b 0/0", "r 0/70"]);
    let quotas = ["p< max=9", "a<p min=0/20 max=0/90 weight=0/0", "r< max=0/90"];
    whole("9/90", &quotas, &["a 0/30", "r 0/99"], &["a 0/20", "r 0/70"]);
    whole("9/10", &quotas, &["a 0/30", "r 0/99"], &["a 0/10", "r 0/0"]);
}

#[test]
fn ceilings_beyond_all_measure_are_no_trouble() {
    let most = i64::MAX;
    let quotas = [&*format!("a< min={most} max={most}"), &format!("b< min={most} max={most}")];
    let mut tree = tree(Options::default(), &most.to_string(), &quotas);
    for name in ["a", "b", "a", "b", DEFAULT_QUOTA] {
        ask(&mut tree, &format!("{name} {most}"));
    }
    let half = most / 2;
    check(&mut tree, |own| &own.runtime, &[&format!("a {}", half + 1), &format!("b {half}")]);
    // Sums are exact: what was asked for and is gone leaves nothing behind.
    for _ in 0..2 {
        tree.add_request("a", &amounts(&most.to_string()), -1, Preemptible::Yes);
    }
    check(&mut tree, |own| &own.request, &["a 0"]);
    check(&mut tree, |own| &own.runtime, &["a 0", &format!("b {most}")]);
}
