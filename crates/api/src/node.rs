//! Nodes, as far as they are registered, judged and filled.

use std::collections::BTreeMap;

use object::taint::Taint;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::object_meta::ObjectMeta;
use crate::pod::ResourceList;
use crate::resource::resource;
use crate::wire;

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Node {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// What is asked of it.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: NodeSpec,
    /// What it reports.
    #[serde(deserialize_with = "wire::or_default")]
    pub status: NodeStatus,
}

resource!(Node, "", "v1", "Node", "nodes", false);

/// What is asked of a node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSpec {
    /// What keeps pods away.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Whether the node is cordoned.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "std::ops::Not::not")]
    pub unschedulable: bool,
}

/// What a node reports.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    /// What the machine has.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: ResourceList,
    /// What pods may request.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: ResourceList,
    /// The conditions `Ready`, `MemoryPressure`, `DiskPressure`, `PIDPressure` and others.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Images that it has, the largest of them where there are many.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ContainerImage>,
}

/// An image that a node has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerImage {
    /// All its names, with tags and with digests.
    #[serde(deserialize_with = "wire::or_default")]
    pub names: Vec<Box<str>>,
    /// Size in bytes.
    #[serde(deserialize_with = "wire::or_default")]
    pub size_bytes: i64,
}
