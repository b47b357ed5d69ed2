//! Priority classes, disruption budgets and leases.

use scenarios::Scenario;
use scenarios::request::{delete, get, post};
use serde_json::json;

use crate::trials::{changes, creations, selector};

const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const BUDGETS: &str = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases";

#[tokio::test]
async fn a_priority_class_is_completed_and_checked() {
    let bodies = vec![
        json!({}),
        json!({"value": -5, "description": "low", "preemptionPolicy": "Never"}),
        json!({"value": 1_000_000_001}),
        json!({"value": 1, "preemptionPolicy": "Odd"}),
        json!({"value": 1, "preemptionPolicy": ""}),
        json!({"metadata": {"name": "system-mine"}, "value": 1}),
        json!({"metadata": {"name": "system-node-critical"}, "value": 1}),
        json!({"value": "high"}),
    ];
    creations("a_priority_class_is_completed_and_checked", CLASSES, bodies).await;
}

#[tokio::test]
async fn a_priority_class_keeps_its_value() {
    let patches = vec![
        json!({"value": 2}),
        json!({"preemptionPolicy": "Never"}),
        json!({"description": "d"}),
        json!({"preemptionPolicy": null}),
    ];
    changes("a_priority_class_keeps_its_value", CLASSES, json!({"value": 1}), patches).await;
}

#[tokio::test]
async fn there_is_one_default_priority_class() {
    let class = |name: &str| json!({"metadata": {"name": name}, "value": 1, "globalDefault": true});
    Scenario::new("there_is_one_default_priority_class")
        // The classes every cluster begins with are as old as the server.
        .fresh()
        .step(get(CLASSES).expect(200))
        .step(post(CLASSES, class("first")).expect(201))
        // kube-apiserver's admission looks at classes through a watch, which lags.
        .step(post(CLASSES, class("second")).query("dryRun", "All").expect(403).awaited())
        .step(post(CLASSES, class("second")).expect(403))
        .step(delete(&format!("{CLASSES}/first")).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_budget_is_checked() {
    let bodies = vec![
        json!({"spec": {}}),
        json!({}),
        json!({"spec": {"minAvailable": "50%", "selector": selector()}}),
        json!({"spec": {"minAvailable": 1, "maxUnavailable": "10%"}}),
        json!({"spec": {"minAvailable": -1}}),
        json!({"spec": {"maxUnavailable": "150%"}}),
        json!({"spec": {"maxUnavailable": "x"}}),
        json!({"spec": {"selector": {"matchLabels": {"a b": "c"}}}}),
        json!({"spec": {"unhealthyPodEvictionPolicy": "Odd"}}),
        json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, "status": {
            "disruptionsAllowed": 3}}),
    ];
    creations("a_budget_is_checked", BUDGETS, bodies).await;
}

#[tokio::test]
async fn a_budget_counts_its_changes() {
    let patches = vec![
        json!({"spec": {"minAvailable": 2}}),
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1,
            "expectedPods": 2, "observedGeneration": 2}}),
        json!({"status": {"disruptionsAllowed": -1}}),
        json!({"spec": {"selector": {"matchLabels": {"x": "y"}}}}),
    ];
    let budget = json!({"spec": {"minAvailable": 1, "selector": selector()}});
    changes("a_budget_counts_its_changes", BUDGETS, budget, patches).await;
}

#[tokio::test]
async fn a_lease_is_checked() {
    let bodies = vec![
        json!({}),
        json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
        json!({"spec": {"preferredHolder": "h"}}),
        json!({"spec": {"holderIdentity": "h", "leaseDurationSeconds": 15,
            "acquireTime": "2020-01-01T00:00:00.000000Z",
            "renewTime": "2020-01-01T00:00:00.123456Z"}}),
    ];
    creations("a_lease_is_checked", LEASES, bodies).await;
}
