//! What node agents of Koordinator write: how the CPUs of nodes lie, once, and how nodes are loaded,
//! again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use api::cpus::CPU_TOPOLOGY;
use chassis::client::{Client, Patch, ResourceType};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

use crate::load::{answered, each, node_name, unless_there};
use crate::subjects::IN_FLIGHT;

/// Pods in a report.
const PODS: usize = 30;
/// Windows in a report.
const WINDOWS: [&str; 3] = ["5m0s", "10m0s", "30m0s"];
/// The CPUs of a node, cores of two threads on so many NUMA nodes.
const CPUS: usize = 32;
const NUMAS: usize = 2;
const NUMA_MEMORY: &str = "128Gi";
/// Parts of the reports that are due which must have been written: with fewer it is another load.
const WRITTEN_MIN: f64 = 0.9;
/// So many reports may be late whenever it is looked: those that are under way.
const LATE_MAX: f64 = IN_FLIGHT as f64;
/// How long to wait for reports that are late.
const PATIENCE: Duration = Duration::from_mins(5);
/// How often it is looked whether any are.
const LOOK_EVERY: Duration = Duration::from_millis(100);

fn metrics() -> ResourceType {
    ResourceType::cluster("slo.koordinator.sh", "v1alpha1", "nodemetrics")
}

fn layouts() -> ResourceType {
    ResourceType::cluster("topology.node.k8s.io", "v1alpha1", "noderesourcetopologies")
}

/// Has nodes say how their CPUs lie, and report for the first time.
///
/// # Errors
/// When a request fails.
pub async fn prepare(client: &Client, nodes: usize) -> Result<()> {
    let access = &client.access::<IgnoredAny>(layouts(), "");
    each(0..nodes, |index| async move {
        let layout = layout(index);
        unless_there(answered(|| access.create(&layout)).await)
    })
    .await?;
    let access = &client.access::<IgnoredAny>(metrics(), "");
    each(0..nodes, |index| async move {
        let metric = json!({
            "apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeMetric",
            "metadata": {"name": node_name(index)},
            "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
        });
        unless_there(answered(|| access.create(&metric)).await)?;
        report(client, index, 0).await
    })
    .await
}

/// How the CPUs of a node lie.
fn layout(index: usize) -> Value {
    let each = CPUS / NUMAS;
    let cpu = |id: usize| json!({"id": id, "core": id / 2, "socket": id / each, "node": id / each});
    let detail = json!({"detail": (0..CPUS).map(cpu).collect::<Vec<_>>()});
    let amount = |name: &str, amount: &str| json!({"name": name, "capacity": amount, "allocatable": amount, "available": amount});
    let zone = |numa: usize| {
        let resources = [amount("cpu", &each.to_string()), amount("memory", NUMA_MEMORY)];
        json!({"name": format!("node-{numa}"), "type": "Node", "resources": resources})
    };
    json!({
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node_name(index), "annotations": {CPU_TOPOLOGY: detail.to_string()}},
        "topologyPolicies": [],
        "zones": (0..NUMAS).map(zone).collect::<Vec<_>>(),
    })
}

/// Writes what a node reports for the time with this number.
async fn report(client: &Client, index: usize, time: usize) -> Result<()> {
    let access = client.access::<IgnoredAny>(metrics(), "");
    let (name, patch) = (node_name(index), Patch::Merge(json!({"status": status(index, time)})));
    Ok(answered(|| access.patch_sub(&name, "status", &patch)).await?)
}

fn status(index: usize, time: usize) -> Value {
    let used = |millis: usize, mib: usize| json!({"resources": {"cpu": format!("{millis}m"), "memory": format!("{mib}Mi")}});
    let load = 2_000 + (index * 31 + time * 97) % 1_000;
    let figures = || -> Map<String, Value> {
        let figures = ["avg", "p50", "p90", "p95", "p99"].into_iter().zip(0..);
        figures.map(|(name, at)| (name.to_owned(), used(load + at * 50, 20_480))).collect()
    };
    let window = |length: &str| json!({"duration": length, "usage": figures()});
    let of_pod = |number: usize| {
        json!({
            "namespace": "others",
            "name": format!("service-{number:02}-6c7d8f9b5-{index:05}"),
            "priority": "koord-prod",
            "qos": "LS",
            "podUsage": used(40 + (number + time) % 30, 512 + number),
        })
    };
    json!({
        "updateTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "nodeMetric": {
            "nodeUsage": used(load, 20_480),
            "systemUsage": used(300, 1_024),
            "aggregatedNodeUsages": WINDOWS.map(window),
        },
        "podsMetric": (0..PODS).map(of_pod).collect::<Vec<_>>(),
    })
}

/// Nodes that report, evenly over time, for as long as it is there.
pub struct Reports {
    task: JoinHandle<Result<()>>,
    began: Instant,
    /// How much time is between two reports of different nodes.
    spacing: Duration,
    written: Arc<AtomicU64>,
}

impl Reports {
    /// Has so many nodes report every so often.
    pub fn begin(client: &Client, nodes: usize, every: Duration) -> Self {
        let spacing = every / u32::try_from(nodes.max(1)).unwrap_or(u32::MAX);
        let spacing = spacing.max(Duration::from_micros(1));
        let written = Arc::new(AtomicU64::new(0));
        let task = go_on(client.clone(), nodes.max(1), spacing, Arc::clone(&written));
        Self { task: tokio::spawn(task), began: Instant::now(), spacing, written }
    }

    /// An error where it goes on no longer.
    ///
    /// # Errors
    /// See above.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.task.is_finished(), "nodes have ceased to report");
        Ok(())
    }

    /// Waits until what is late has been made up for, so that no row pays for the one before it.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn catch_up(&self) -> Result<()> {
        let began = Instant::now();
        while self.late() > LATE_MAX {
            self.check()?;
            let late = self.late();
            ensure!(began.elapsed() < PATIENCE, "{late:.0} reports are late: the load is too much");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// How many reports are due and not written.
    pub fn late(&self) -> f64 {
        let due = self.began.elapsed().as_secs_f64() / self.spacing.as_secs_f64();
        (due - self.written.load(Ordering::Relaxed) as f64).max(0.0)
    }

    /// Ends it, and tells how many reports there were.
    ///
    /// # Errors
    /// When a report could not be written, or too few were.
    pub async fn end(self) -> Result<String> {
        let (elapsed, written) = (self.began.elapsed(), self.written.load(Ordering::Relaxed));
        if self.task.is_finished() {
            self.task.await.context("the reports broke off")??;
            bail!("nodes have ceased to report");
        }
        self.task.abort();
        let due = elapsed.as_secs_f64() / self.spacing.as_secs_f64();
        ensure!(are_enough(written as f64, due), "{written} of {due:.0} reports were written");
        let minutes = elapsed.as_secs_f64() / 60.0;
        Ok(format!("nodes reported {:.0} times a minute", written as f64 / minutes))
    }
}

/// Whether so many reports are nearly all that are due. Of a short row those that are under way would be
/// too large a part.
fn are_enough(written: f64, due: f64) -> bool {
    written >= (due * WRITTEN_MIN).min(due - LATE_MAX)
}

async fn go_on(
    client: Client,
    nodes: usize,
    spacing: Duration,
    written: Arc<AtomicU64>,
) -> Result<()> {
    // Where the server is slow, what is late is made up for.
    let ticks = tokio::time::interval(spacing);
    let numbers = stream::unfold((ticks, 0_usize), |(mut ticks, number)| async move {
        ticks.tick().await;
        Some((number, (ticks, number + 1)))
    });
    let (client, written) = (&client, &written);
    let writes = numbers.map(|number| async move {
        report(client, number % nodes, number / nodes + 1).await?;
        written.fetch_add(1, Ordering::Relaxed);
        anyhow::Ok(())
    });
    writes.buffer_unordered(IN_FLIGHT).try_for_each(|()| async { Ok(()) }).await
}

#[cfg(test)]
mod tests {
    use api::{NodeMetric, NodeResourceTopology};

    use super::*;

    #[test]
    fn reports_are_enough_where_nine_tenths_or_all_but_those_under_way_are_written() {
        let check = |written: f64, due: f64, expected: bool| {
            assert_eq!(are_enough(written, due), expected, "{written} of {due}");
        };
        check(1_800.0, 2_000.0, true);
        check(1_799.0, 2_000.0, false);
        check(36.0, 100.0, true);
        check(35.0, 100.0, false);
        check(0.0, 0.0, true);
    }

    #[test]
    fn what_nodes_say_is_what_their_agents_would() {
        let layout: NodeResourceTopology = serde_json::from_value(layout(7)).unwrap();
        assert_eq!(api::cpus::Layout::of(&layout).cpus.len(), CPUS);
        assert_eq!(layout.zones.len(), NUMAS);
        let metric: NodeMetric =
            serde_json::from_value(json!({"metadata": {"name": "n"}, "status": status(7, 1)}))
                .unwrap();
        assert_eq!(metric.status.pods_metric.len(), PODS);
        assert!(metric.status.update_time.is_some());
        let usage = metric.status.node_metric.unwrap();
        assert_eq!(usage.aggregated_node_usages.len(), WINDOWS.len());
        assert!(usage.aggregated_node_usages.iter().all(|window| window.usage.len() == 5));
    }
}
