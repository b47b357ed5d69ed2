//! Where a pod has to be or would rather be, as seen from nodes and from other pods.

use object::selector::label::LabelSelector;
use serde::{Deserialize, Serialize};

use crate::node_selector::{NodeSelector, NodeSelectorTerm};
use crate::wire;

/// The affinities of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    /// To nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<NodeAffinity>,
    /// To places where certain pods are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_affinity: Option<PodAffinity>,
    /// To places where certain pods are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity: Option<PodAffinity>,
}

/// The nodes that a pod has to be on, where absent means that any will do, and those it would
/// rather be on.
pub type NodeAffinity = Wishes<Option<NodeSelector>, PreferredSchedulingTerm>;

/// The pods that a pod has to be near or away from, all of them, and those it would rather be;
/// which of the two follows from the field.
pub type PodAffinity = Wishes<Vec<PodAffinityTerm>, WeightedPodAffinityTerm>;

/// What has to hold when a pod gets its node, and what would be better.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(
    default,
    bound(deserialize = "R: Deserialize<'de> + Default, P: Deserialize<'de> + Default")
)]
pub struct Wishes<R: Default + PartialEq, P> {
    /// What has to hold.
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_default"
    )]
    pub required: R,
    /// What would be better.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "wire::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<P>,
}

/// Nodes that a pod would rather be on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PreferredSchedulingTerm {
    /// How much rather, from 1 to 100.
    #[serde(deserialize_with = "wire::or_default")]
    pub weight: i32,
    /// Which nodes.
    #[serde(deserialize_with = "wire::or_default")]
    pub preference: NodeSelectorTerm,
}

/// Pods, and how near is near. `matchLabelKeys` and `mismatchLabelKeys` are not read: the API
/// server makes them part of the selector when the pod is made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodAffinityTerm {
    /// Label of nodes: nodes of one value are one place.
    #[serde(deserialize_with = "wire::or_default")]
    pub topology_key: Box<str>,
    /// The pods; absent means none, empty means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Namespaces to look in; with neither these nor a selector, that of the pod.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<Box<str>>,
    /// Further namespaces to look in; absent means none, empty means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}

/// Pods that a pod would rather be near or away from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WeightedPodAffinityTerm {
    /// How much rather, from 1 to 100.
    #[serde(deserialize_with = "wire::or_default")]
    pub weight: i32,
    /// Which pods, and how near.
    #[serde(deserialize_with = "wire::or_default")]
    pub pod_affinity_term: PodAffinityTerm,
}
