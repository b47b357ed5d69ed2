//! Plans of large gangs.

use super::*;

/// A gang of which one has to start, and so many alike that no node takes.
fn unfit(members: usize) -> Engine {
    let mut engine = engine();
    engine.apply(node("n", 500), START);
    engine.apply(gang("g", terms(1)), START);
    for number in 0..members {
        engine.apply(told(member(&format!("m{number:05}"), "g", 1_000)), START);
    }
    engine
}

#[test]
fn of_members_that_ask_the_same_one_is_tried_in_a_turn_until_another_gets_a_node() {
    let mut engine = unfit(1_000);
    let mut turns = 0;
    let first = loop {
        turns += 1;
        if let Some(decision) = engine.decide(START) {
            break decision;
        }
    };
    assert!(matches!(first.verdict, Verdict::Wait(_)));
    assert!(turns < 5, "{turns} turns");
    assert!(engine.gangs.tried < 5, "{} were tried", engine.gangs.tried);
    // Who asks for less is tried all the same.
    engine.apply(told(member("small", "g", 400)), START);
    let late = START.after(Duration::from_secs(60));
    let mut words = Vec::new();
    while engine.next_due(late).is_some_and(|due| due <= late) {
        words.extend(decided(&mut engine, late));
    }
    assert!(words.iter().any(|own| own.starts_with("small to n")), "{words:?}");
}

#[test]
fn who_asks_the_same_as_another_that_got_no_node_is_tried_again_once_others_have_theirs() {
    // Only beside one that comes later in the line, and is the smaller one.
    let mut engine = engine();
    let Fact::Node(own) = node("n", 10_000) else { unreachable!() };
    let labels = [("zone".into(), "a".into())].into();
    engine.apply(Fact::Node(crate::fact::NodeFact { labels, ..own }), START);
    let near = serde_json::json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "leader" } } }] } });
    let fact = |name: &str, app: &str, cpu: &str, affinity: serde_json::Value| {
        let wire = serde_json::json!({
            "metadata": { "name": name, "namespace": "default", "uid": name, "labels": {
                "app": app, "pod-group.scheduling.sigs.k8s.io": "g" } },
            "spec": { "affinity": affinity, "schedulerName": "default-scheduler", "containers": [
                { "name": "c", "resources": { "requests": { "cpu": cpu } } }] },
        });
        let wire: api::Pod = serde_json::from_value(wire).unwrap();
        Fact::from(&wire)
    };
    engine.apply(gang("g", terms(2)), START);
    for name in ["f1", "f2"] {
        engine.apply(fact(name, "follower", "2", near.clone()), START);
    }
    engine.apply(fact("l", "leader", "1", serde_json::Value::Null), START);
    engine.apply(fact("f3", "follower", "500m", near), START);
    let words = decided(&mut engine, START);
    assert!(words.iter().any(|own| own.starts_with("f3 to n")), "{words:?}");
}

/// A member of the gang g that asks for so much, and what else it says.
fn saying(name: &str, app: &str, cpu: &str, spec: serde_json::Value) -> Fact {
    let mut wire = serde_json::json!({
        "metadata": { "name": name, "namespace": "default", "uid": name, "labels": {
            "app": app, "pod-group.scheduling.sigs.k8s.io": "g" } },
        "spec": { "schedulerName": "default-scheduler", "containers": [
            { "name": "c", "resources": { "requests": { "cpu": cpu } } }] },
    });
    if let (Some(own), serde_json::Value::Object(more)) = (wire["spec"].as_object_mut(), spec) {
        own.extend(more);
    }
    let wire: api::Pod = serde_json::from_value(wire).unwrap();
    Fact::from(&wire)
}

fn node_of(name: &str, millis: i64, label: (&str, &str)) -> Fact {
    let Fact::Node(own) = node(name, millis) else { unreachable!() };
    let labels = [(label.0.into(), label.1.into())].into();
    Fact::Node(crate::fact::NodeFact { labels, ..own })
}

fn near(app: &str) -> serde_json::Value {
    serde_json::json!({ "affinity": { "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": app } } }] } } })
}

fn bound_of(engine: &mut Engine) -> usize {
    decided(engine, START).iter().filter(|own| own.contains(" to n")).count()
}

#[test]
fn members_that_want_to_be_near_a_smaller_one_are_tried_again_when_that_has_its_node() {
    let mut engine = engine();
    engine.apply(node_of("n", 10_000, ("zone", "a")), START);
    engine.apply(gang("g", terms(4)), START);
    for (name, cpu) in [("f1", "2"), ("f2", "2"), ("f3", "500m")] {
        engine.apply(saying(name, "follower", cpu, near("leader")), START);
    }
    engine.apply(saying("l", "leader", "1", serde_json::Value::Null), START);
    assert_eq!(bound_of(&mut engine), 4);
}

#[test]
fn members_that_only_want_to_be_near_one_who_is_nowhere_get_none() {
    let mut engine = engine();
    engine.apply(node_of("n", 10_000, ("zone", "a")), START);
    engine.apply(gang("g", terms(3)), START);
    for name in ["f1", "f2"] {
        engine.apply(saying(name, "follower", "2", near("leader")), START);
    }
    engine.apply(saying("other", "other", "1", serde_json::Value::Null), START);
    let words = decided(&mut engine, START);
    assert!(words.iter().all(|own| own.contains("pod affinity rules")), "{words:?}");
    assert_eq!(engine.ledger().pods().filter(|(_, row)| row.claim.is_some()).count(), 0);
}

#[test]
fn no_member_takes_the_only_node_of_another() {
    for (first, second) in [("a", "b"), ("b", "a")] {
        // Whichever of both nodes is better for the one that may go anywhere.
        for disks in [["ssd", "hdd"], ["hdd", "ssd"]] {
            let mut engine = engine();
            for (name, disk) in ["n1", "n2"].into_iter().zip(disks) {
                engine.apply(node_of(name, 1_000, ("disk", disk)), START);
            }
            engine.apply(gang("g", terms(2)), START);
            engine.apply(saying(first, "any", "1", serde_json::Value::Null), START);
            let only = serde_json::json!({ "nodeSelector": { "disk": "ssd" } });
            engine.apply(saying(second, "picky", "1", only), START);
            assert_eq!(bound_of(&mut engine), 2, "{first} {disks:?}");
        }
    }
}

#[test]
fn a_plan_gives_nodes_to_no_more_members_that_are_not_needed_than_to_some() {
    let mut engine = engine();
    let Fact::Node(mut large) = node("n", 1_000_000) else { unreachable!() };
    large.pods_allowed = 10_000;
    engine.apply(Fact::Node(large), START);
    engine.apply(gang("g", terms(1)), START);
    for number in 0..2_000 {
        engine.apply(told(member(&format!("m{number:05}"), "g", 100)), START);
    }
    let mut first = None;
    while first.is_none() {
        first = engine.decide(START);
    }
    assert_eq!(engine.gangs.tried, 513);
    assert_eq!(1 + bound_of(&mut engine), 513);
    // The others are by themselves as soon as the gang has started.
    engine.apply(bound(member("m00000", "g", 100), "n"), START);
    engine.answered(&uid("m00000"), Answer::Done, START);
    assert_eq!(bound_of(&mut engine), 2_000 - 513);
}

#[test]
fn how_often_members_of_a_long_chain_are_tried_again_has_a_bound() {
    const LONG: usize = 300;
    let mut engine = engine();
    let Fact::Node(mut large) = node_of("n", 1_000_000, ("zone", "a")) else { unreachable!() };
    large.pods_allowed = 10_000;
    engine.apply(Fact::Node(large), START);
    engine.apply(gang("g", terms(u32::try_from(LONG).unwrap())), START);
    for number in 0..LONG {
        let spec = match number + 1 {
            LONG => serde_json::Value::Null,
            next => near(&format!("m{next:05}")),
        };
        let name = format!("m{number:05}");
        engine.apply(saying(&name, &name, "1m", spec), START);
    }
    let mut first = engine.decide(START);
    while engine.is_planning() {
        first = engine.decide(START);
    }
    assert!(matches!(first.unwrap().verdict, Verdict::Wait(_)), "it is given up");
    // Three times, since two sorts of members are tried before the others.
    let most = 3 * (LONG + crate::gangs::again_max(LONG));
    assert!(engine.gangs.tried <= most, "{} were tried, and {most} may be", engine.gangs.tried);
}

#[test]
fn members_of_different_sizes_start_once_their_quota_has_room_for_enough_of_them() {
    let check = |sizes: &[i64], min: u32, room: i64, is_full_first: bool, expected: usize| {
        let mut engine = engine();
        engine.apply(node("n", 100_000), START);
        let max = [("cpu".into(), room)].into();
        engine.apply(Fact::Quota(Box::new(QuotaFact::new("q", max))), START);
        let of_quota = |fact: PodFact| PodFact { quota: Some("q".into()), ..fact };
        if is_full_first {
            engine.apply(bound(of_quota(pod("other", room)), "n"), START);
        }
        engine.apply(gang("g", terms(min)), START);
        for (number, size) in sizes.iter().enumerate() {
            engine.apply(told(of_quota(member(&format!("m{number}"), "g", *size))), START);
        }
        if is_full_first {
            assert_eq!(bound_of(&mut engine), 0);
            engine.apply(Fact::PodGone(uid("other")), START);
        }
        assert_eq!(bound_of(&mut engine), expected, "{sizes:?} of {room}, full: {is_full_first}");
    };
    for is_full_first in [true, false] {
        check(&[100, 8_000, 8_000, 8_000], 2, 8_100, is_full_first, 2);
        check(&[8_000, 1_000, 1_000, 1_000], 3, 9_000, is_full_first, 3);
        check(&[8_000, 1_000, 1_000, 1_000], 4, 11_000, is_full_first, 4);
        check(&[2_000, 2_000, 2_000], 2, 5_000, is_full_first, 2);
    }
}
