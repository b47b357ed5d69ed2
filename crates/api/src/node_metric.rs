//! Measured load of a node: what node agents report and schedulers read.

use object::time::{Duration, Time};
use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire;

mod figures;
mod pod;
mod usages;

pub use figures::Figures;
pub use pod::{PodMetric, PodName};
pub use usages::Usages;

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
    /// Time between two reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report_interval_seconds: Option<i64>,
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
}

/// Usage of a node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeUsage {
    /// Everything.
    pub node_usage: ResourceMap,
    /// What does not belong to a pod.
    pub system_usage: ResourceMap,
    /// What it used for a while, in several figures.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub aggregated_node_usages: Vec<AggregatedUsage>,
}

/// Usage of a node over some time.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AggregatedUsage {
    /// By figure, such as `p95`.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Figures::is_empty")]
    pub usage: Figures,
    /// Of how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
}

/// Amounts of resources in use.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceMap {
    /// By resource name.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Usages::is_empty")]
    pub resources: Usages,
}

/// Brings a list into the order of its names; of several with one name the last counts.
fn sort_by_name<N: Ord, T>(all: &mut Vec<(N, T)>) {
    object::list::sort(all, |(one, _), (other, _)| one.cmp(other));
}
