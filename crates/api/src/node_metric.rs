//! Measured load of a node: what node agents report and schedulers read.

use std::collections::BTreeMap;

use object::time::Time;
use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::pod::ResourceList;
use crate::resource::resource;
use crate::wire;

/// The load of one node; it has the node's name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeMetric {
    /// Who it is.
    pub metadata: ObjectMeta,
    /// What to measure.
    pub spec: NodeMetricSpec,
    /// The last report.
    pub status: NodeMetricStatus,
}

resource!(NodeMetric, "slo.koordinator.sh", "v1alpha1", "NodeMetric", "nodemetrics", false);

/// What to measure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeMetricSpec {
    /// How to measure and how often to report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric_collect_policy: Option<CollectPolicy>,
}

/// How to measure and how often to report; absent parts have the agent's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CollectPolicy {
    /// Window over which usage is averaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_duration_seconds: Option<i64>,
    /// Time between two reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report_interval_seconds: Option<i64>,
    /// Windows of the percentile reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_aggregate_policy: Option<AggregatePolicy>,
    /// Which page cache counts as used memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_memory_collect_policy: Option<MemoryCollectPolicy>,
}

/// Windows of the percentile reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AggregatePolicy {
    /// Lengths, such as `5m0s`.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub durations: Vec<String>,
}

/// Which page cache counts as used memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum MemoryCollectPolicy {
    /// None.
    UsageWithoutPageCache,
    /// What was touched not long ago.
    UsageWithHotPageCache,
    /// All.
    UsageWithPageCache,
}

/// The last report.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeMetricStatus {
    /// When it was made; an old one is not trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_time: Option<Time>,
    /// Usage of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_metric: Option<NodeUsage>,
    /// Usage of each pod, by namespace and name.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub pods_metric: Vec<PodMetric>,
    /// Part of the production pods' requests that is predicted to stay unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prod_reclaimable_metric: Option<ReclaimableMetric>,
}

/// Usage of a node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeUsage {
    /// Everything.
    pub node_usage: ResourceMap,
    /// Everything over longer windows.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub aggregated_node_usages: Vec<AggregatedUsage>,
    /// What does not belong to a pod.
    pub system_usage: ResourceMap,
    /// What does not belong to a pod, over longer windows.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub aggregated_system_usages: Vec<AggregatedUsage>,
}

/// Amounts of resources in use.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceMap {
    /// By resource name.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: ResourceList,
}

/// Usage over one window.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AggregatedUsage {
    /// By aggregation: `avg`, `p50`, `p90`, `p95` and `p99`.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub usage: BTreeMap<String, ResourceMap>,
    /// Length of the window, such as `5m0s`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub duration: String,
}

/// Usage of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodMetric {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// What it uses.
    pub pod_usage: ResourceMap,
    /// Its band, as [`crate::priority::PriorityBand`] is written; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub priority: String,
    /// Its class, as [`crate::qos::QosClass`] is written.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub qos: String,
}

/// Part of requests that is predicted to stay unused.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReclaimableMetric {
    /// The amounts.
    pub resource: ResourceMap,
}
