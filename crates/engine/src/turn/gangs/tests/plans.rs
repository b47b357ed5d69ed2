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
