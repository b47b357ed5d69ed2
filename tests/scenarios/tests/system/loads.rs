//! Pods go where machines are really idle, as nodes report it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use chassis::client::Call;
use http::Method;
use serde_json::{Value, json};

use crate::yard::{Yard, configured, on_both};

const METRICS: &str = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics";
const TOO_HOT: &str = "1 node(s) cpu usage exceed threshold";
/// How long a scheduler may take to find a kind.
const PATIENCE: Duration = Duration::from_secs(40);
const POLL: Duration = Duration::from_millis(200);

/// Has the server know the kind of reports.
async fn define(yard: &Yard) -> Result<()> {
    yard.define("nodemetrics.slo.koordinator.sh", METRICS).await
}

/// A node reports that so many of its CPUs are in use.
async fn report(yard: &Yard, node: &str, cpu: &str) -> Result<()> {
    let usage = json!({ "nodeUsage": { "resources": { "cpu": cpu, "memory": "1Gi" } } });
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = json!({ "status": { "updateTime": now, "nodeMetric": usage } });
    yard.patch_status(&format!("{METRICS}/{node}"), status).await
}

async fn begin_reports(yard: &Yard, node: &str, cpu: &str) -> Result<()> {
    let metric = json!({ "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
                         "metadata": { "name": node } });
    yard.create(METRICS, &metric).await?;
    report(yard, node, cpu).await
}

async fn end_reports(yard: &Yard, node: &str) -> Result<()> {
    let call = Call::new(Method::DELETE, format!("{METRICS}/{node}"));
    Ok(yard.client.call_unread(call).await?)
}

fn load_aware() -> Value {
    let enabled = json!({ "enabled": [{ "name": "LoadAwareScheduling" }] });
    json!({ "profiles": [{ "schedulerName": "default-scheduler",
                           "plugins": { "filter": enabled, "score": enabled } }] })
}

fn only_on(node: &str) -> Value {
    json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": node } } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hot_node_is_left_alone_until_it_has_cooled() {
    on_both("loads", async |yard| {
        define(yard).await?;
        for (node, cpu) in [("hot", "7"), ("cool", "1")] {
            yard.node(node, 8).await?;
            begin_reports(yard, node, cpu).await?;
        }
        let own = yard.schedule(configured(&load_aware())?).await?;
        yard.pod("anywhere", "1").await?;
        yard.until_on("anywhere", "cool").await?;
        yard.pod_like("there", "1", only_on("hot")).await?;
        let why = yard.until_waits("there", "Unschedulable").await?;
        ensure!(why.contains(TOO_HOT), "{why}");
        report(yard, "hot", "1").await?;
        yard.until_on("there", "hot").await?;
        own.end().await?;
        for node in ["hot", "cool"] {
            end_reports(yard, node).await?;
        }
        Ok(())
    })
    .await;
}

/// Waits until an event of a reason tells of a node, and says in which words.
async fn until_told(yard: &Yard, node: &str, reason: &str) -> Result<String> {
    let which = format!("regarding.kind=Node,regarding.name={node},reason={reason}");
    let which = which.replace('=', "%3D").replace(',', "%2C");
    let path = format!("/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector={which}");
    yard.until_object(&path, |all| Some(all["items"][0]["note"].as_str()?.to_owned())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_falls_silent_is_told_of_and_when_it_reports_again() {
    on_both("silent", async |yard| {
        define(yard).await?;
        // Events of nodes outlive the story.
        let node = &format!("silent-{}", yard.namespace);
        yard.node(node, 8).await?;
        begin_reports(yard, node, "1").await?;
        let mut file = load_aware();
        let args = json!({ "apiVersion": "kubescheduler.config.k8s.io/v1",
                           "kind": "LoadAwareSchedulingArgs", "nodeMetricExpirationSeconds": 3 });
        file["profiles"][0]["pluginConfig"] =
            json!([{ "name": "LoadAwareScheduling", "args": args }]);
        let own = yard.schedule(configured(&file)?).await?;
        let words = until_told(yard, node, "NodeMetricExpired").await?;
        ensure!(words.starts_with("NodeMetric was last updated at 2"), "{words}");
        ensure!(words.contains(", too long ago: "), "{words}");
        own.counts("gantry_scheduler_stale_node_metrics 1").await?;
        report(yard, node, "1").await?;
        until_told(yard, node, "NodeMetricReported").await?;
        own.end().await?;
        end_reports(yard, node).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_reports_every_node_is_taken_until_somebody_does() {
    // Of the servers that stories share, one may know the kind; a fresh one does not.
    let without_the_kind = AtomicUsize::new(0);
    on_both("loadless", async |yard| {
        yard.node("only", 64).await?;
        let reports = yard.client.call_unread(Call::new(Method::GET, METRICS)).await;
        if reports.is_err_and(|error| error.is_not_found()) {
            without_the_kind.fetch_add(1, Ordering::Relaxed);
        }
        let own = yard.schedule(configured(&load_aware())?).await?;
        yard.pod("first", "1").await?;
        yard.until_on("first", "only").await?;
        define(yard).await?;
        begin_reports(yard, "only", "60").await?;
        let begun = Instant::now();
        for number in 0.. {
            let name = format!("next-{number}");
            yard.pod(&name, "100m").await?;
            let settled = |seen: &crate::yard::Seen| {
                !seen.node(&name).is_empty() || seen.condition(&name).is_some()
            };
            yard.until(&format!("{name} is decided on"), settled).await?;
            if yard.seen(|seen| seen.node(&name).is_empty()) {
                let why = yard.until_waits(&name, "Unschedulable").await?;
                ensure!(why.contains(TOO_HOT), "{why}");
                break;
            }
            ensure!(begun.elapsed() < PATIENCE, "the report is not heard of");
            tokio::time::sleep(POLL).await;
        }
        own.end().await?;
        end_reports(yard, "only").await
    })
    .await;
    assert!(without_the_kind.into_inner() > 0, "every server knew the kind from the start");
}
