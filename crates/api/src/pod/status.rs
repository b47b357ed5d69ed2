//! What the kubelet, or a hollow node in its place, reports of a pod.

use std::collections::BTreeMap;

use object::time::Time;
use serde::{Deserialize, Serialize};

use super::{ResourceList, ResourceRequirements};
use crate::condition::Condition;
use crate::wire;

/// The condition of a pod that somebody has go before it has done its work.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// What a pod is.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    /// Where it is in its life.
    #[serde(deserialize_with = "wire::or_default")]
    pub phase: PodPhase,
    /// The conditions `PodScheduled`, `Initialized`, `ContainersReady`, `Ready` and others.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Node on which preemption makes room for it.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub nominated_node_name: String,
    /// Its address.
    #[serde(
        deserialize_with = "wire::or_default",
        rename = "podIP",
        skip_serializing_if = "String::is_empty"
    )]
    pub pod_ip: String,
    /// When the node accepted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// State of the containers.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub container_statuses: Vec<ContainerStatus>,
    /// State of the init containers.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// QoS class as Kubernetes derived it at creation; see [`crate::qos::NativeQos`].
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub qos_class: String,
}

/// Where a pod is in its life. A phase that is none of these is read as `Unknown`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum PodPhase {
    /// Not all containers have started.
    #[default]
    Pending,
    /// At least one container runs, starts or restarts.
    Running,
    /// All containers ended well and stay ended.
    Succeeded,
    /// All containers ended, at least one badly, and stay ended.
    Failed,
    /// The node cannot be asked.
    #[serde(other)]
    Unknown,
}

impl PodPhase {
    /// Whether the pod has ended for good.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// State of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    /// Name of the container.
    #[serde(deserialize_with = "wire::or_default")]
    pub name: String,
    /// What it does now.
    #[serde(deserialize_with = "wire::or_default")]
    pub state: ContainerState,
    /// How it ended the last time.
    #[serde(deserialize_with = "wire::or_default")]
    pub last_state: ContainerState,
    /// Whether it passes its readiness probe.
    #[serde(deserialize_with = "wire::or_default")]
    pub ready: bool,
    /// How often it was restarted.
    #[serde(deserialize_with = "wire::or_default")]
    pub restart_count: i32,
    /// Requests that the node has set aside for it.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated_resources: ResourceList,
    /// What it runs with, which lags behind while it is resized; absent means not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
}

/// One of three states; none of them means waiting.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerState {
    /// It runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<ContainerRunning>,
    /// It ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<ContainerTerminated>,
}

/// Since when a container runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerRunning {
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
}

/// How a container ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerTerminated {
    /// Exit status; 0 is success.
    #[serde(deserialize_with = "wire::or_default")]
    pub exit_code: i32,
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
}
