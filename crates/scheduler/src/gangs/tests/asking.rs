//! How often, and when, members of a gang that is there in part are asked to go.

use super::*;
use crate::dismissals::LINE_MAX;

/// When members are asked to go who never do, up to so many seconds, and how often their group is written.
fn asked(timeout: u64, seconds: u64, gone: &[(u64, &str)]) -> (Vec<u64>, usize) {
    let mut own = Starting::new(&json!({ INCOMPLETE_START: "Delete" }), &json!([]));
    own.group["spec"]["scheduleTimeoutSeconds"] = timeout.into();
    own.show(START);
    own.member("a", false, START);
    own.member("b", false, START);
    let (mut times, mut writes, mut last) = (Vec::new(), 0, own.group.clone());
    for second in 0..seconds {
        for (_, name) in gone.iter().filter(|(at, _)| *at == second) {
            own.member(name, true, later(second));
        }
        times.extend((!own.at(second).is_empty()).then_some(second));
        writes += usize::from(own.group != last);
        last = own.group.clone();
    }
    (times, writes)
}

#[test]
fn members_who_may_not_go_are_asked_less_and_less_often_and_their_group_is_written_as_often() {
    let (times, writes) = asked(1, 2_000, &[]);
    assert_eq!(times, [1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1_111, 1_411, 1_711]);
    assert!(writes <= times.len() + 1, "{writes} writes");
    // Who waits for long anyway is not asked more often than that.
    assert_eq!(asked(600, 3_000, &[]).0, [600, 1_200, 1_800, 2_400]);
}

#[test]
fn where_any_of_them_goes_the_others_are_asked_as_soon_as_at_first() {
    let (times, _) = asked(10, 200, &[(100, "a")]);
    assert_eq!(times, [10, 30, 70, 100, 120, 160]);
}

#[test]
fn who_finds_no_place_in_line_is_asked_as_soon_as_there_is_one() {
    let mut own = Starting::new(&json!({ INCOMPLETE_START: "Delete" }), &json!([]));
    own.member("a", false, START);
    own.member("b", false, START);
    // One place is left to the namespace, beside members of its own that need not go any longer.
    let filler = |number: usize| DismissOrder {
        pod: engine::fact::PodRef {
            uid: Uid::new(&format!("f{number}")),
            namespace: "ns".into(),
            name: "f".into(),
            is_reservation: false,
        },
        cause: crate::dismissals::Cause::Gang,
        object: (Key::namespaced("ns", "other"), "o".into()),
        words: "".into(),
    };
    assert_eq!(own.at(0), [""; 0]);
    let left = own.groups.leftovers.extend((1..LINE_MAX).map(filler));
    assert_eq!(left, None);
    let words = |name: &str| format!("gang {name}: 2 of 3 members were bound in time");
    assert_eq!(own.at(60), [words("a")]);
    assert_eq!(own.at(64), [""; 0]);
    assert_eq!(own.at(65), [words("b")], "and nobody who was asked already");
    assert_eq!(own.at(100), [""; 0]);
    assert_eq!(own.at(184), [""; 0], "the start counts as asked since then");
    assert_eq!(own.at(185), [words("a"), words("b")]);
}
