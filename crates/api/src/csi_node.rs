//! What CSI drivers say of the nodes they run on.

use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire;

/// The CSI drivers of the node of the same name. Its annotation
/// `storage.alpha.kubernetes.io/migrated-plugins` lists the built-in sources that drivers
/// have taken over there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiNode {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// What runs there.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: CsiNodeSpec,
}

resource!(CsiNode, "storage.k8s.io", "v1", "CSINode", "csinodes", false);

/// What runs on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiNodeSpec {
    /// The drivers.
    #[serde(deserialize_with = "wire::or_default")]
    pub drivers: Vec<CsiNodeDriver>,
}

/// A driver on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiNodeDriver {
    /// Name of the driver.
    #[serde(deserialize_with = "wire::or_default")]
    pub name: Box<str>,
    /// How many volumes there may be; absent means no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<VolumeNodeResources>,
}

/// How many volumes of a driver a node may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeNodeResources {
    /// The number; absent means no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
}

impl CsiNodeDriver {
    /// How many volumes of the driver the node may have; `None` where there is no bound.
    #[must_use]
    pub fn limit(&self) -> Option<i32> {
        self.allocatable.and_then(|allocatable| allocatable.count)
    }
}
