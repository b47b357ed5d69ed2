//! What is read of a node that a profile may count.

use std::collections::BTreeMap;

use api::pod::ResourceList;
use chassis::client::{Identity, Object};
use serde::Deserialize;

/// A node, with nothing else than what it has and whether it takes pods.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct PoolNode {
    pub(super) metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    name: Box<str>,
    uid: Box<str>,
    resource_version: Box<str>,
    pub(super) labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Spec {
    unschedulable: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Status {
    allocatable: ResourceList,
    conditions: Vec<Condition>,
}

/// Without when it was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: Box<str>,
    status: Box<str>,
}

impl Object for PoolNode {
    fn identity(&self) -> Identity<'_> {
        let Metadata { name, uid, resource_version, .. } = &self.metadata;
        Identity { namespace: "", name, uid, resource_version }
    }
}

impl PoolNode {
    /// What pods can have of it.
    pub(super) fn allocatable(&self) -> &ResourceList {
        &self.status.allocatable
    }

    /// Whether it takes pods.
    pub(super) fn takes_pods(&self) -> bool {
        let is_ready = |own: &Condition| &*own.r#type == "Ready" && &*own.status == "True";
        !self.spec.unschedulable && self.status.conditions.iter().any(is_ready)
    }

    /// Whether both states of a node count the same.
    pub(super) fn are_alike(old: Option<&Self>, new: Option<&Self>) -> bool {
        match (old, new) {
            (Some(old), Some(new)) => {
                old.metadata.labels == new.metadata.labels
                    && old.takes_pods() == new.takes_pods()
                    && old.allocatable() == new.allocatable()
            }
            (old, new) => old.is_none() && new.is_none(),
        }
    }
}
