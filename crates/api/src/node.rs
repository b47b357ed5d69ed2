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
    /// Addresses that its pods get.
    #[serde(
        deserialize_with = "wire::or_default",
        rename = "podCIDR",
        skip_serializing_if = "String::is_empty"
    )]
    pub pod_cidr: String,
    /// Id at the cloud provider.
    #[serde(
        deserialize_with = "wire::or_default",
        rename = "providerID",
        skip_serializing_if = "String::is_empty"
    )]
    pub provider_id: String,
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
    /// Where it can be reached.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<NodeAddress>,
    /// Versions of what runs on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,
    /// Images that it has, the largest of them where there are many.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ContainerImage>,
    /// Volumes attached to it.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub volumes_attached: Vec<AttachedVolume>,
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

/// A volume that is attached to a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AttachedVolume {
    /// Name that is unique in the cluster, with the driver in front.
    #[serde(deserialize_with = "wire::or_default")]
    pub name: Box<str>,
}

/// One address of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAddress {
    /// `InternalIP`, `Hostname` or another.
    #[serde(deserialize_with = "wire::or_default")]
    pub r#type: String,
    /// The address.
    #[serde(deserialize_with = "wire::or_default")]
    pub address: String,
}

/// Versions of what runs on a node; the server wants all of them, empty or not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeInfo {
    /// Id of the machine.
    #[serde(deserialize_with = "wire::or_default", rename = "machineID")]
    pub machine_id: String,
    /// Id of the board.
    #[serde(deserialize_with = "wire::or_default", rename = "systemUUID")]
    pub system_uuid: String,
    /// Changes with each start.
    #[serde(deserialize_with = "wire::or_default", rename = "bootID")]
    pub boot_id: String,
    /// Kernel.
    #[serde(deserialize_with = "wire::or_default")]
    pub kernel_version: String,
    /// Distribution.
    #[serde(deserialize_with = "wire::or_default")]
    pub os_image: String,
    /// Container runtime.
    #[serde(deserialize_with = "wire::or_default")]
    pub container_runtime_version: String,
    /// Kubelet.
    #[serde(deserialize_with = "wire::or_default")]
    pub kubelet_version: String,
    /// Deprecated and empty in recent kubelets.
    #[serde(deserialize_with = "wire::or_default")]
    pub kube_proxy_version: String,
    /// Such as `linux`.
    #[serde(deserialize_with = "wire::or_default")]
    pub operating_system: String,
    /// Such as `amd64`.
    #[serde(deserialize_with = "wire::or_default")]
    pub architecture: String,
}
