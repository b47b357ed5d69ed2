//! Pods, as far as controllers, nodes and schedulers read and write them.

use std::collections::BTreeMap;

use object::quantity::Quantity;
use object::taint::Toleration;
use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire::{self, wire_enum};

mod affinity;
mod status;
mod topology_spread;
mod volume;

pub use affinity::{
    Affinity, NodeAffinity, PodAffinity, PodAffinityTerm, PreferredSchedulingTerm,
    WeightedPodAffinityTerm, Wishes,
};
pub use status::{
    ContainerRunning, ContainerState, ContainerStatus, ContainerTerminated, DISRUPTION_TARGET,
    PodPhase, PodStatus,
};
pub use topology_spread::{NodeInclusionPolicy, TopologySpreadConstraint, WhenUnsatisfiable};
pub use volume::{ClaimSource, CsiSource, Volume, VolumeSource};

/// Amounts by resource name.
pub type ResourceList = BTreeMap<String, Quantity>;

/// A pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pod {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// What it should be.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: PodSpec,
    /// What it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub status: PodStatus,
}

resource!(Pod, "", "v1", "Pod", "pods", true);

/// Pod label that names another scheduler than the spec does.
pub const SCHEDULER_NAME_LABEL: &str = "scheduling.koordinator.sh/scheduler-name";

impl Pod {
    /// The scheduler in charge: the one that its label names, else the one of its spec.
    #[must_use]
    pub fn scheduler(&self) -> &str {
        let label = self.metadata.labels.get(SCHEDULER_NAME_LABEL);
        label.filter(|name| !name.is_empty()).unwrap_or(&self.spec.scheduler_name)
    }
}

/// What a pod runs and where it may.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// Node the pod is bound to; empty while it waits.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// What runs side by side.
    #[serde(deserialize_with = "wire::or_default")]
    pub containers: Vec<Container>,
    /// What runs before, one after another; with `Always` as restart policy, beside.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<Container>,
    /// Amounts for the pod as a whole, instead of the sum of its containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// What the sandbox costs on top.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub overhead: ResourceList,
    /// Taints the pod puts up with.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Priority, resolved from the class at admission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Scheduler in charge.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    /// Whether the pod may push out others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<PreemptionPolicy>,
    /// Labels that its node must have, with these values.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Where it has to be or would rather be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Box<Affinity>>,
    /// How it and its like are spread.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Those of its volumes that its place depends on.
    #[serde(deserialize_with = "volume::read", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// Devices it waits for.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_claims: Vec<PodResourceClaim>,
    /// What happens when a container ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<RestartPolicy>,
    /// Seconds after its start at which the pod fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// While there is a gate, the pod is not scheduled.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub scheduling_gates: Vec<SchedulingGate>,
    /// Conditions that others set, without which the pod is not ready.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub readiness_gates: Vec<ReadinessGate>,
    /// Whether the pod uses the addresses and ports of its node.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "std::ops::Not::not")]
    pub host_network: bool,
}

/// One container.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Name within the pod.
    #[serde(deserialize_with = "wire::or_default")]
    pub name: String,
    /// Image to run.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// What it asks for and may use.
    #[serde(deserialize_with = "wire::or_default")]
    pub resources: ResourceRequirements,
    /// Ports it listens on.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ContainerPort>,
    /// Overrides that of the pod; `Always` makes an init container a sidecar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<RestartPolicy>,
}

/// What a container or a pod asks for and may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceRequirements {
    /// What it is sure to get.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: ResourceList,
    /// What it may not exceed.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: ResourceList,
}

/// A port of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// Port on the node; 0 means none.
    #[serde(deserialize_with = "wire::or_default")]
    pub host_port: i32,
    /// Address on the node; empty means all.
    #[serde(
        deserialize_with = "wire::or_default",
        rename = "hostIP",
        skip_serializing_if = "String::is_empty"
    )]
    pub host_ip: String,
    /// TCP, UDP or SCTP; empty means TCP.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub protocol: String,
}

/// What keeps a pod from being scheduled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SchedulingGate {
    /// Who has to remove it.
    #[serde(deserialize_with = "wire::or_default")]
    pub name: String,
}

/// What keeps a pod from being ready, though its containers are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReadinessGate {
    /// The type of the condition that has to be `True`.
    #[serde(deserialize_with = "wire::or_default")]
    pub condition_type: String,
}

/// A claim on devices that a pod has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodResourceClaim {
    /// Name within the pod.
    #[serde(deserialize_with = "wire::or_default")]
    pub name: Box<str>,
}

wire_enum! {
    /// Whether a pod that finds no room may push out pods of lower priority.
    PreemptionPolicy {
        /// It may; what an absent policy means, too.
        PreemptLowerPriority,
        /// It waits.
        Never,
    }
}

wire_enum! {
    /// What happens when a container ends.
    RestartPolicy {
        /// It is started again; what an absent policy means, too.
        Always,
        /// It is started again if it failed.
        OnFailure,
        /// It stays ended.
        Never,
    }
}
