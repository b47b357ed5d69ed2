use api::Node;
use engine::fact::NodeFact;
use serde_json::{Value, json};

use super::*;

const NOW: Moment = Moment(1_000_000_000_000);

/// A pod of a namespace, with more of its own.
fn pod(name: &str, more: Value) -> Pod {
    let pod = json!({
        "metadata": { "name": name, "namespace": "shop", "uid": name },
        "spec": { "schedulerName": "default-scheduler", "containers": [{ "name": "main" }] },
    });
    let pod = object::patch::merge::apply(pod, more).unwrap();
    serde_json::from_value(pod).unwrap()
}

fn asking(cpu: &str) -> Value {
    json!([{ "name": "main", "resources": { "requests": { "cpu": cpu } } }])
}

/// Three nodes: one with 500m left, one tainted, one cordoned.
fn cluster() -> Ledger {
    let mut ledger = Ledger::default();
    let nodes = [
        ("full", "2", json!({})),
        ("tainted", "4", json!({ "taints": [{ "key": "gpu", "effect": "NoSchedule" }] })),
        ("cordoned", "4", json!({ "unschedulable": true })),
    ];
    for (name, cpu, spec) in nodes {
        let allocatable = json!({ "cpu": cpu, "memory": "8Gi", "pods": "10" });
        let node = json!({
            "metadata": { "name": name },
            "spec": spec,
            "status": { "allocatable": allocatable },
        });
        let node: Node = serde_json::from_value(node).unwrap();
        ledger.apply(Fact::Node(NodeFact::from(&node)));
    }
    let running = json!({ "spec": { "nodeName": "full", "containers": asking("1500m") } });
    ledger.apply(Fact::from(&pod("running", running)));
    ledger
}

/// What is answered about a pod.
fn answered(more: Value) -> Answer {
    let (configuration, pod) = (Configuration::default(), pod("web-0", more));
    let mut answer = Answer::begun(&pod, AnsweredBy::Objects, &configuration);
    if let Some(profile) = answer.profile(&pod, &configuration) {
        let (mut ledger, fact) = (cluster(), PodFact::from(&pod));
        ledger.apply(Fact::Pod(Box::new(fact.clone())));
        answer.work_out(&mut ledger, profile, &fact, NOW);
    }
    let wire = serde_json::to_string(&answer).unwrap();
    assert_eq!(serde_json::from_str::<Answer>(&wire).unwrap(), answer, "{wire}");
    answer
}

#[test]
fn a_pod_that_no_node_can_take_is_told_what_is_missing_and_what_would_help() {
    let answer = answered(json!({ "spec": { "containers": asking("1") } }));
    insta::assert_snapshot!(answer.to_string(), @"");
    insta::assert_snapshot!(serde_json::to_string_pretty(&answer).unwrap(), @"");
}

#[test]
fn where_no_single_change_helps_it_says_so() {
    let spec = json!({ "containers": asking("8"), "nodeSelector": { "zone": "c" } });
    let answer = answered(json!({ "spec": spec }));
    insta::assert_snapshot!(answer.to_string(), @"");
}

#[test]
fn a_pod_that_fits_waits_for_its_turn() {
    let mut answer = answered(json!({ "spec": { "containers": asking("100m") } }));
    answer.answered_by = AnsweredBy::Scheduler;
    let standing = Some(Standing::Backoff { seconds_left: 3 });
    answer.state = State::Waiting { standing, nominated: Some("full".to_owned()) };
    insta::assert_snapshot!(answer.to_string(), @"");
}

#[test]
fn a_pod_for_which_no_node_is_looked_for_is_told_why() {
    let check = |more: Value, state: &str| {
        let answer = answered(more);
        assert_eq!(answer.nodes, None);
        let text = answer.to_string();
        let first = text.lines().next().unwrap();
        assert_eq!(first, format!("Pod shop/web-0 {state}"));
    };
    check(json!({ "spec": { "nodeName": "full" } }), "has a node: full.");
    check(
        json!({ "spec": { "nodeName": "full" }, "status": { "phase": "Failed" } }),
        "has ended (Failed) and needs no node.",
    );
    let deleted = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    check(deleted, "is being deleted: no node is looked for.");
    check(
        json!({ "spec": { "schedulingGates": [{ "name": "a" }, { "name": "b" }] } }),
        "is held back by scheduling gates a, b: no node is looked for until nothing is left in \
         spec.schedulingGates.",
    );
    check(
        json!({ "spec": { "schedulerName": "mine" } }),
        "waits for scheduler \"mine\", and who answers decides for default-scheduler: run a \
         scheduler of that name, or correct spec.schedulerName.",
    );
}
