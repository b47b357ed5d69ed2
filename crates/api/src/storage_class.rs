//! Storage classes, as far as they say when and where volumes are made.

use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire::{self, wire_enum};

/// A storage class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageClass {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// Who makes its volumes; `kubernetes.io/no-provisioner` means nobody.
    #[serde(deserialize_with = "wire::or_default")]
    pub provisioner: Box<str>,
    /// When a claim is bound; the server's default is `Immediate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_binding_mode: Option<VolumeBindingMode>,
    /// Nodes for which volumes can be made, one term at least; empty means all.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

resource!(StorageClass, "storage.k8s.io", "v1", "StorageClass", "storageclasses", false);

/// Nodes that meet every requirement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySelectorTerm {
    /// Requirements on labels; without any, no node matches.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_label_expressions: Vec<TopologySelectorRequirement>,
}

/// A requirement on one label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySelectorRequirement {
    /// The label.
    #[serde(deserialize_with = "wire::or_default")]
    pub key: Box<str>,
    /// Values, of which the label has to have one.
    #[serde(deserialize_with = "wire::or_default")]
    pub values: Vec<Box<str>>,
}

wire_enum! {
    /// When a claim is bound.
    VolumeBindingMode {
        /// As soon as it is there.
        Immediate,
        /// When a pod that uses it has been given a node.
        WaitForFirstConsumer,
    }
}
