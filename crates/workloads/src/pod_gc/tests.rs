use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::facts::testing::pod;

fn pods(list: &str) -> Vec<PodFact> {
    let words = list.split(',').map(str::trim).filter(|words| !words.is_empty());
    words
        .map(|words| {
            let (name, words) = words.split_once(' ').unwrap_or((words, ""));
            pod(name, words)
        })
        .collect()
}

/// A node that is well, or `dead`, or `lost` and out of service for good.
fn node(name: &str) -> Option<Arc<NodeFact>> {
    let (status, taints) = match name {
        "well" => ("True", json!([{ "key": OUT_OF_SERVICE, "effect": "NoExecute" }])),
        "dead" => ("Unknown", json!([])),
        "lost" => ("Unknown", json!([{ "key": OUT_OF_SERVICE, "effect": "NoExecute" }])),
        _ => return None,
    };
    let wire = json!({ "metadata": { "name": name }, "spec": { "taints": taints },
                       "status": { "conditions": [{ "type": "Ready", "status": status }] } });
    Some(Arc::new(serde_json::from_value(wire).unwrap()))
}

#[test]
fn pods_go_that_nobody_else_would_end() {
    let check = |list: &str, want: &str| {
        let pods = pods(list);
        let refs: Vec<&PodFact> = pods.iter().collect();
        let gone = BTreeSet::from(["gone".into()]);
        let told: Vec<String> = doomed(&refs, node, &gone, 2)
            .iter()
            .map(|(pod, why)| format!("{} {}", pod.meta.key.name(), why.as_str()))
            .collect();
        assert_eq!(told.join(", "), want, "{list}");
    };
    check("", "");
    check("a node=well, b, c node=dead, d node=lost, e node=late", "");
    // A node that is gone takes all of its pods along, whatever their phase.
    check(
        "a node=gone, b node=gone going, c node=gone failed",
        "a orphaned, b orphaned, c orphaned",
    );
    // Only what is to go anyway goes from a node that is out of service and not ready.
    check("a node=well going, b node=dead going, c node=lost going", "c out-of-service");
    check("a going, b pending going, c pending", "a unscheduled, b unscheduled");
    check("a node=late going", "");
    // Of the ended pods two are kept; evicted ones go first, then the oldest.
    check("a succeeded, b failed", "");
    check("a succeeded created@3, b failed created@1, c failed created@9", "b terminated");
    check(
        "a failed created@1, b failed created@5 evicted, c succeeded created@1, d failed created@4",
        "b terminated, a terminated",
    );
    check("b failed, a failed, c failed node=gone", "a terminated, c orphaned");
}

#[test]
fn a_node_is_asked_for_after_it_was_missing_for_a_while() {
    let all = pods("a node=n, b node=m, c, d node=n");
    let secs = Duration::from_secs;
    let mut quarantine = Quarantine::default();
    let mut look = |there: &str, now| {
        let due = quarantine.look(&all, |node| there.contains(node), secs(now));
        due.join(" ")
    };
    assert_eq!(look("", 0), "");
    assert_eq!(look("m", 39), "");
    assert_eq!(look("m", 40), "n");
    // One that came back begins anew.
    assert_eq!(look("", 60), "n");
    assert_eq!(look("n", 80), "");
    assert_eq!(look("", 99), "");
    assert_eq!(look("", 100), "m");
    quarantine.found("m");
    assert_eq!(quarantine.look(&all, |_| false, secs(139)), [Box::from("n")]);
    // Where no pod names it, nobody asks.
    assert!(quarantine.look(&[], |_| false, secs(500)).is_empty());
}
