//! Pods that have to go since their quota uses more than it may.

use api::pod_group::{GangId, GangTerms};
use engine::gangs::{self, Membership};

use super::*;

/// A cluster whose quota `a` may use 6 CPUs and uses 8, of pods of one CPU and one of five.
fn overused() -> World {
    let mut world = world();
    let settings = Revoking { wait: Duration::from_secs(120), interval: Duration::from_secs(1) };
    world.own = Statements::default().revoking(Some(settings));
    world.quota("a", json!({}));
    world.quota("b", json!({}));
    world.pod("big", "a", 5);
    for pod in ["one", "two", "three"] {
        world.pod(pod, "a", 1);
    }
    world.pod("owner", "b", 4);
    world
}

/// The same quotas without pods of `a`, where pods may be of gangs.
fn gangs() -> World {
    let (quota, gangs) = (Some(Settings::default()), Some(gangs::Settings::default()));
    let profile = Profile { quota, gangs, ..Profile::kubernetes() };
    let engine = Engine::new(turn::Settings::default(), vec![("s".into(), profile)], START);
    let mut world = World { engine, ..world() };
    world.engine.apply(Fact::Node(NodeFact::from(&node())), START);
    let settings = Revoking { wait: Duration::from_secs(120), interval: Duration::from_secs(1) };
    world.own = Statements::default().revoking(Some(settings));
    world.quota("a", json!({}));
    world.quota("b", json!({}));
    world.pod("owner", "b", 4);
    world
}

/// A pod of a quota, and of a gang of which there must be two where its name ends with one, as in `1-g`.
fn member(name: &str, quota: &str, cpu: i64) -> PodFact {
    let gang = name.split_once('-').map(|(_, gang)| {
        let terms = GangTerms { min_available: Some(2), ..GangTerms::default() };
        let (gang, created) = (GangId::new("ns", gang), START);
        Arc::new(Membership { gang, terms: Some(terms.into()), created, incarnation: None })
    });
    PodFact { gang, ..bound(name, quota, cpu) }
}

#[test]
fn who_uses_more_than_he_may_for_too_long_loses_pods_and_the_time_begins_anew() {
    let mut world = overused();
    for seconds in [0, 1, 60, 120] {
        assert_eq!(world.revoked(seconds), [""; 0], "after {seconds} s");
    }
    let version = world.engine.ledger().quotas.forest().version();
    assert_eq!(world.own.revokes.next_due(version), Some(Moment(after(120).0 + 1)));
    assert_eq!(world.revoked(121), ["big of a/a"]);
    assert_eq!(world.revoked(122), [""; 0]);
    assert_eq!(world.revoked(241), [""; 0]);
    assert!(!world.revoked(242).is_empty());
}

#[test]
fn who_was_asked_and_stayed_is_passed_over_once_where_others_may_go() {
    let mut world = overused();
    let rounds = [0, 121, 242, 363, 484].map(|seconds| world.revoked(seconds));
    let others = ["three of a/a", "one of a/a"].map(str::to_owned).to_vec();
    let big = || vec!["big of a/a".to_owned()];
    assert_eq!(rounds, [vec![], big(), others.clone(), big(), others]);
    // Where nobody else may go, it is asked each time.
    for name in ["one", "two", "three"] {
        world.engine.apply(Fact::PodGone(Uid::new(name)), after(484));
    }
    world.pod("big", "a", 8);
    let rounds = [605, 726, 847].map(|seconds| world.revoked(seconds));
    assert_eq!(rounds, [(); 3].map(|()| big()));
}

#[test]
fn nobody_is_asked_beside_those_who_have_to_go_for_others_already() {
    let mut world = overused();
    world.tell(PodFact { priority: 9, ..bound("owner", "b", 4) });
    assert_eq!(world.revoked(0), [""; 0]);
    // Room is made for a pod on the node, and nobody was asked for that yet.
    let vip = bound("vip", "none", 1);
    world.tell(PodFact { node: None, priority: 9, scheduler: "s".into(), ..vip });
    while world.engine.decide(START).is_some() {}
    let mut pods = world.engine.ledger().pods();
    assert!(pods.any(|(_, row)| row.goes() && !row.is_deleting()));
    drop(pods);
    assert_eq!(world.revoked(121), [""; 0]);
}

#[test]
fn who_is_in_line_and_has_to_go_for_others_meanwhile_is_not_asked() {
    let mut world = overused();
    world.quota("a", json!({ "spec": { "min": { "cpu": "0" }, "max": { "cpu": "0" } } }));
    assert_eq!(world.revoked(0), [""; 0]);
    let next = |world: &mut World| world.own.next_revoke(&mut world.engine, after(121));
    assert!(next(&mut world).is_some());
    let vip = bound("vip", "none", 10);
    world.tell(PodFact { node: None, priority: 9, scheduler: "s".into(), ..vip });
    while world.engine.decide(after(121)).is_some() {}
    assert_eq!(next(&mut world), None);
}

#[test]
fn no_gang_is_torn_where_other_pods_of_the_quota_may_go_and_one_after_the_other() {
    let check = |pods: &[(&str, i64)], expected: &[&str]| {
        let mut world = gangs();
        for (name, cpu) in pods {
            world.tell(member(name, "a", *cpu));
        }
        assert_eq!(world.revoked(0), [""; 0]);
        let expected: Vec<String> = expected.iter().map(|name| format!("{name} of a/a")).collect();
        assert_eq!(world.revoked(121), expected, "{pods:?}");
    };
    check(&[("1-g", 2), ("2-g", 2), ("3", 2), ("4", 2)], &["3"]);
    check(&[("1-g", 2), ("2-g", 2), ("3-g", 2), ("4", 2)], &["1-g"]);
    check(&[("1-g", 1), ("2-h", 1), ("3-g", 1), ("4-h", 5)], &["3-g", "1-g"]);
}

#[test]
fn a_member_that_goes_for_one_quota_is_missed_by_its_gang_in_another() {
    let mut world = gangs();
    for (quota, max) in [("a", 1), ("c", 2)] {
        world.quota(quota, json!({ "spec": { "min": { "cpu": "0" }, "max": { "cpu": max } } }));
    }
    for (name, quota) in [("1-g", "a"), ("2", "a"), ("3-g", "c"), ("4-g", "c"), ("5", "c")] {
        world.tell(member(name, quota, 1));
    }
    assert_eq!(world.revoked(0), [""; 0]);
    assert_eq!(world.revoked(121), ["1-g of a/a", "5 of c/c"]);
}

#[test]
fn s12_a15_who_uses_less_again_in_time_loses_nothing() {
    let mut world = overused();
    assert_eq!(world.revoked(0), [""; 0]);
    world.engine.apply(Fact::PodGone(Uid::new("big")), after(60));
    assert_eq!(world.revoked(60), [""; 0]);
    world.pod("big", "a", 5);
    assert_eq!(world.revoked(61), [""; 0]);
    assert_eq!(world.revoked(130), [""; 0]);
    assert!(!world.revoked(182).is_empty());
}

/// How many pods of each of these quotas go at some times, which may use nothing and of which so many do.
fn waves<const N: usize, const M: usize>(
    quotas: [(&str, usize); N],
    way: Way,
    times: [u64; M],
) -> [[usize; N]; M] {
    let mut world = world();
    let settings = Revoking { wait: Duration::from_secs(120), interval: Duration::from_secs(1) };
    world.own = Statements::default().revoking(Some(settings));
    for (quota, count) in quotas {
        world.quota(quota, json!({ "spec": { "min": { "cpu": "0" }, "max": { "cpu": "0" } } }));
        for number in 0..count {
            world.pod(&format!("{quota}-{number}"), quota.rsplit('/').next().unwrap(), 1);
        }
    }
    assert_eq!(world.revoked(0), [""; 0]);
    times.map(|seconds| {
        let mut gone = [0; N];
        while let Some(order) = world.own.next_revoke(&mut world.engine, after(seconds)) {
            let quota = quotas.iter().position(|(own, _)| own.ends_with(order.object.0.name()));
            gone[quota.unwrap()] += 1;
            let answer = if way == Way::Stay { Dismissal::Stays } else { Dismissal::Goes };
            world.own.dismissed(&order.pod.uid, answer);
            if way == Way::Go {
                world.engine.apply(Fact::PodGone(order.pod.uid), after(seconds));
            }
        }
        gone
    })
}

/// What becomes of pods that are asked to go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// They are gone at once.
    Go,
    /// They go, and nobody sees it yet.
    Linger,
    /// They stay.
    Stay,
}

#[test]
fn no_more_stand_in_line_to_go_than_may_and_the_rest_goes_when_these_were_asked() {
    let check = |way: Way, expected: [usize; 5]| {
        let found = waves([("a", LINE_MAX + 40)], way, [121, 122, 123, 242, 243]);
        assert_eq!(found.map(|[own]| own), expected);
    };
    check(Way::Go, [LINE_MAX, 40, 0, 0, 0]);
    // Each is asked once, and all of them again after as long.
    check(Way::Linger, [LINE_MAX, 40, 0, 0, LINE_MAX]);
    check(Way::Stay, [LINE_MAX, 40, 0, 0, LINE_MAX]);
}

#[test]
fn pods_of_every_namespace_are_asked_to_go_however_many_those_of_another_are() {
    let half = LINE_MAX / 2;
    let quotas = [("a", half - 48), ("b", half + 2), ("c", 100)];
    let found = waves(quotas, Way::Go, [121, 122, 123]);
    assert_eq!(found, [[half - 48, half, 100], [0, 2, 0], [0, 0, 0]]);
    // Who may not go keeps nobody of his namespace from his turn.
    let found = waves([("n/a", LINE_MAX + 40), ("n/b", 2)], Way::Stay, [121, 122, 123]);
    assert_eq!(found, [[LINE_MAX, 0], [40, 2], [0, 0]]);
}

/// A cluster of ten CPUs that pods of a quota use and of one below it, each of them so many, one CPU each: the
/// quota may use `most` of them, and the one below `most_below`.
fn overused_below(own: i64, below: i64, most: i64, most_below: i64) -> World {
    let mut world = world();
    let settings = Revoking { wait: Duration::from_secs(120), interval: Duration::from_secs(1) };
    world.own = Statements::default().revoking(Some(settings));
    let max = |cpu: i64| json!({ "min": { "cpu": "0" }, "max": { "cpu": cpu.to_string() } });
    let labels = json!({ "labels": { IS_PARENT_LABEL: "true" } });
    world.quota("above", json!({ "metadata": labels, "spec": max(most) }));
    let labels = json!({ "labels": { PARENT_LABEL: "above" } });
    world.quota("below", json!({ "metadata": labels, "spec": max(most_below) }));
    for (quota, count) in [("above", own), ("below", below)] {
        for number in 0..count {
            world.pod(&format!("{quota}-{number}"), quota, 1);
        }
    }
    world
}

#[test]
fn what_quotas_below_use_too_much_of_comes_back_from_their_pods_and_not_from_those_above() {
    let check = |[own, below, most, most_below]: [i64; 4], expected: [usize; 2]| {
        let mut world = overused_below(own, below, most, most_below);
        assert_eq!(world.revoked(0), [""; 0]);
        let gone = world.revoked(121);
        let of = |quota: &str| gone.iter().filter(|own| own.ends_with(quota)).count();
        let found = [of("/above"), of("/below")];
        assert_eq!(found, expected, "{own} {below} of {most} {most_below}");
        // Those who are going go for the quota above as well, also where its time comes later.
        for name in gone.iter().filter_map(|own| own.split(' ').next()) {
            let quota = if name.starts_with("above") { "above" } else { "below" };
            world.tell(PodFact { deleting: true, ..bound(name, quota, 1) });
        }
        assert_eq!(world.revoked(243), [""; 0]);
    };
    check([1, 6, 4, 3], [0, 3]);
    check([2, 6, 4, 3], [1, 3]);
    check([2, 6, 4, 9], [2, 2]);
    check([6, 2, 4, 9], [4, 0]);
}

#[test]
fn nobody_goes_any_longer_once_the_quota_uses_no_more_than_it_may() {
    let mut world = overused_below(0, 10, 10, 0);
    assert_eq!(world.revoked(0), [""; 0]);
    let next = |world: &mut World| world.own.next_revoke(&mut world.engine, after(121));
    assert!(next(&mut world).is_some());
    let labels = json!({ "labels": { PARENT_LABEL: "above" } });
    let spec = json!({ "max": { "cpu": "10" }, "min": { "cpu": "0" } });
    world.quota("below", json!({ "metadata": labels, "spec": spec }));
    assert_eq!(next(&mut world), None);
}

#[test]
fn nobody_has_to_go_where_nobody_said_so() {
    let mut world = overused();
    world.own = Statements::default();
    assert_eq!((world.revoked(0), world.revoked(999)), (vec![], vec![]));
    assert_eq!(world.own.revokes.next_due(0), None);
}
