use api::Pod;
use api::scheduling_hint::SCHEDULING_HINT;
use serde_json::{Value, json};

use super::*;
use crate::decide::Decider;
use crate::fact::{Fact, NodeFact, Uid};
use crate::needs::Amounts;
use crate::plugins::node_resources::Fit;
use crate::profile::{Profile, Weight};

/// What becomes of a pod with this hint, on nodes of which `n1` is empty, `n2` nearly full and `n3` full.
fn placed(hint: &str, tried_max: usize) -> Result<String, String> {
    let mut ledger = Ledger::default();
    let profile = Profile::default().filter(SchedulingHint { tried_max }).filter(Fit::default());
    let mut decider = Decider::new(profile.score(Fit::default(), Weight(1)), &mut ledger, 0);
    for (name, cpus) in [("n1", 64), ("n2", 2), ("n3", 0)] {
        let allocatable = Amounts { cpu_millis: cpus * 1_000, ..Amounts::default() };
        let fact = NodeFact { name: name.into(), allocatable, ..NodeFact::default() };
        ledger.apply(Fact::Node(NodeFact { pods_allowed: 9, ..fact }));
    }
    let pod = json!({
        "metadata": { "name": "p", "uid": "p", "annotations": { SCHEDULING_HINT: hint } },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] } });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    ledger.apply(Fact::from(&pod));
    let ask = ledger.pod(&Uid::new("p")).unwrap().ask;
    if let Some((_, refusal)) = decider.refused_everywhere(&ledger, ask) {
        return Err(refusal.reasons[0].to_string());
    }
    match decider.pick(&ledger, ask, 0) {
        Some(node) => Ok(ledger.nodes.name(node).to_owned()),
        None => Err(decider.examine(&mut ledger, &Uid::new("p")).unwrap().to_string()),
    }
}

fn said(hint: Value) -> Result<String, String> {
    placed(&hint.to_string(), TRIED_MAX)
}

#[test]
fn s10_67_a_pod_gets_no_other_node_than_it_names() {
    assert_eq!(said(json!({ "nodeNames": ["n2"] })), Ok("n2".into()));
    let none = said(json!({ "nodeNames": ["n3"] })).unwrap_err();
    assert!(none.contains("2 node(s) didn't satisfy plugin(s) [SchedulingHint]"), "{none}");
    assert!(none.contains("1 Insufficient cpu"), "{none}");
    assert!(said(json!({ "nodeNames": ["gone"] })).is_err());
}

#[test]
fn s10_68_nodes_that_are_tried_first_are_not_scored() {
    assert_eq!(said(json!({})), Ok("n1".into()));
    assert_eq!(said(json!({ "preferredNodeNames": ["n9", "n2"] })), Ok("n2".into()));
    assert_eq!(said(json!({ "preferredNodeNames": ["n9", "n3"] })), Ok("n1".into()));
    let both = json!({ "nodeNames": ["n1"], "preferredNodeNames": ["n2"] });
    assert_eq!(said(both), Ok("n1".into()));
}

#[test]
fn s10_69_no_more_are_tried_than_the_profile_says() {
    let hint = json!({ "preferredNodeNames": ["n8", "n9", "n2"] }).to_string();
    assert_eq!(placed(&hint, 3), Ok("n2".into()));
    assert_eq!(placed(&hint, 2), Ok("n1".into()));
}

#[test]
fn s10_70_a_hint_that_cannot_be_read_is_told() {
    let told = placed("{", TRIED_MAX).unwrap_err();
    assert!(told.starts_with(SCHEDULING_HINT), "{told}");
}
