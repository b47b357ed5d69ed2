//! What is read of a pod that names a group.

use api::pod::{DISRUPTION_TARGET, PodPhase};
use chassis::client::{Identity, Object};
use chassis::key::Key;
use serde::Deserialize;

/// A pod that names a group, with nothing else than how far it is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Member {
    pub(super) metadata: Metadata,
    pub(super) spec: Spec,
    pub(super) status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    namespace: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    resource_version: Box<str>,
    deletion_timestamp: Option<Box<str>>,
    labels: Labels,
    pub(super) owner_references: Option<Vec<Owner>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Labels {
    #[serde(rename = "pod-group.scheduling.sigs.k8s.io")]
    group: Box<str>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Owner {
    name: Box<str>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) node_name: Box<str>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) phase: PodPhase,
    conditions: Option<Vec<Told>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Told {
    r#type: Box<str>,
    status: Box<str>,
}

impl Object for Member {
    fn identity(&self) -> Identity<'_> {
        let Metadata { namespace, name, uid, resource_version, .. } = &self.metadata;
        Identity { namespace, name, uid, resource_version }
    }
}

impl Member {
    /// The group, which is in the namespace of the pod.
    pub(super) fn group(&self) -> Key {
        Key::namespaced(&self.metadata.namespace, self.metadata.labels.group.trim())
    }

    /// Whether it is being deleted.
    pub(super) fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether somebody has it go before it has done its work: what ends so may say that it ended well.
    pub(super) fn is_disrupted(&self) -> bool {
        let mut told = self.status.conditions.iter().flatten();
        self.is_going()
            || told.any(|own| &*own.r#type == DISRUPTION_TARGET && &*own.status == "True")
    }

    /// Its owners, each as namespace and name.
    pub(super) fn owners(&self) -> impl Iterator<Item = (&str, &str)> {
        let owners = self.metadata.owner_references.iter().flatten();
        owners.map(|owner| (&*self.metadata.namespace, &*owner.name))
    }
}
