//! A pod goes if its disruption budget allows it.

use scenarios::Scenario;
use scenarios::request::PatchType::Merge;
use scenarios::request::{Request, get, patch, post};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/{ns}/pods";
const POD: &str = "/api/v1/namespaces/{ns}/pods/a";
const BUDGETS: &str = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets";
const BUDGET: &str = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets/budget";

fn pod(name: &str) -> Request {
    post(
        PODS,
        json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"nodeName": "n",
        "automountServiceAccountToken": false, "containers": [{"name": "a", "image": "a"}]}}),
    )
    .preparation()
}

fn is(name: &str, phase: &str, ready: &str) -> Request {
    patch(
        &format!("{PODS}/{name}/status"),
        Merge,
        json!({"status": {"phase": phase,
        "conditions": [{"type": "Ready", "status": ready}]}}),
    )
    .preparation()
}

fn budget(spec: Value) -> Request {
    let mut budget = json!({"metadata": {"name": "budget"}, "spec": {"minAvailable": 1,
        "selector": {"matchLabels": {"app": "web"}}}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        budget["spec"][key] = value.clone();
    }
    post(BUDGETS, budget).preparation()
}

fn allows(count: i64) -> Request {
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": count, "currentHealthy": 1,
        "desiredHealthy": 1, "expectedPods": 1, "conditions": []});
    patch(&format!("{BUDGET}/status"), Merge, json!({"status": status})).preparation()
}

fn evict(body: Value) -> Request {
    let mut eviction = json!({"metadata": {"name": "a"}});
    for (key, value) in body.as_object().into_iter().flatten() {
        eviction[key] = value.clone();
    }
    post(&format!("{POD}/eviction"), eviction)
}

#[tokio::test]
async fn a_pod_without_a_budget_goes() {
    Scenario::new("a_pod_without_a_budget_goes")
        .step(pod("a"))
        .step(is("a", "Running", "True"))
        .step(evict(json!({})).query("dryRun", "All").expect(201))
        .step(evict(json!({"deleteOptions": {"dryRun": ["All"]}})).expect(201))
        .step(get(POD).expect(200))
        .step(evict(json!({})).expect(201))
        .step(get(POD).expect(200))
        .step(evict(json!({"deleteOptions": {"gracePeriodSeconds": 0}})).expect(201))
        .step(get(POD).refused(404, "NotFound"))
        .step(evict(json!({})).refused(404, "NotFound"))
        .run()
        .await;
}

#[tokio::test]
async fn an_eviction_spends_a_disruption() {
    Scenario::new("an_eviction_spends_a_disruption")
        .step(pod("a"))
        .step(is("a", "Running", "True"))
        .step(budget(json!({})))
        .step(evict(json!({})).refused(429, "TooManyRequests"))
        .step(allows(0))
        .step(evict(json!({})).refused(429, "TooManyRequests"))
        .step(allows(1))
        .step(evict(json!({})).query("dryRun", "All").expect(201))
        .step(get(BUDGET).expect(200))
        .step(evict(json!({})).expect(201))
        .step(get(BUDGET).expect(200))
        .step(get(POD).expect(200))
        .step(evict(json!({})).expect(201))
        .run()
        .await;
}

#[tokio::test]
async fn a_pod_that_does_not_serve_may_go() {
    Scenario::new("a_pod_that_does_not_serve_may_go")
        .step(pod("a"))
        .step(budget(json!({})))
        .step(evict(json!({})).query("dryRun", "All").expect(201))
        .step(is("a", "Failed", "False"))
        .step(evict(json!({})).query("dryRun", "All").expect(201))
        .step(is("a", "Running", "False"))
        .step(evict(json!({})).query("dryRun", "All").refused(429, "TooManyRequests"))
        .step(allows(0))
        .step(evict(json!({})).expect(201))
        .step(get(BUDGET).expect(200))
        .run()
        .await;
}

#[tokio::test]
async fn a_budget_may_always_let_the_unready_go() {
    Scenario::new("a_budget_may_always_let_the_unready_go")
        .step(pod("a"))
        .step(is("a", "Running", "False"))
        .step(budget(json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"})))
        .step(evict(json!({})).expect(201))
        .run()
        .await;
}

#[tokio::test]
async fn two_budgets_are_one_too_many() {
    let second =
        json!({"metadata": {"name": "second"}, "spec": {"maxUnavailable": 1, "selector": {}}});
    Scenario::new("two_budgets_are_one_too_many")
        .step(pod("a"))
        .step(is("a", "Running", "True"))
        .step(budget(json!({})))
        .step(post(BUDGETS, second).preparation())
        .step(evict(json!({})).expect(500))
        .run()
        .await;
}

#[tokio::test]
async fn a_wrong_eviction_is_refused() {
    Scenario::new("a_wrong_eviction_is_refused")
        .step(pod("a").capture("uid", "/metadata/uid"))
        .step(is("a", "Running", "True"))
        .step(evict(json!({"metadata": {"name": "b"}})).refused(400, "BadRequest"))
        .step(evict(json!({"metadata": {}})))
        .step(evict(json!({"deleteOptions": {"preconditions": {"uid": "8b6a1c52-9d2a-4b44-8d0b-1f6c6a2c7e11"}}})).refused(409, "Conflict"))
        .step(evict(json!({"deleteOptions": {"preconditions": {"resourceVersion": "1"}}})).refused(409, "Conflict"))
        .step(evict(json!({"deleteOptions": {"preconditions": {"uid": "{uid}"}}})).expect(201))
        .run()
        .await;
}

#[tokio::test]
async fn an_eviction_is_read_by_its_type() {
    let wrong =
        |options: Value| evict(json!({"deleteOptions": options})).refused(400, "BadRequest");
    Scenario::new("an_eviction_is_read_by_its_type")
        .step(pod("a"))
        .step(wrong(json!({"gracePeriodSeconds": "0"})))
        .step(wrong(json!({"preconditions": "x"})))
        .step(wrong(json!({"preconditions": {"resourceVersion": 1}})))
        .step(wrong(json!([])))
        .step(evict(json!({"kind": "Pod", "apiVersion": "v1"})))
        .step(evict(json!({"other": 1})).query("fieldValidation", "Strict"))
        .step(get(POD).expect(200))
        .run()
        .await;
}
