//! How much room a CSI driver has for volumes of a class in one part of the cluster.

use object::quantity::Quantity;
use object::selector::label::LabelSelector;
use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire;

/// How much room there is for volumes of one class on some nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiStorageCapacity {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// The nodes; absent means none, empty means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_topology: Option<LabelSelector>,
    /// Name of the class.
    #[serde(deserialize_with = "wire::or_default")]
    pub storage_class_name: Box<str>,
    /// How much room there is in all; absent means not known, which counts as none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Quantity>,
    /// Size of the largest volume that can be made; where it is there, it decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum_volume_size: Option<Quantity>,
}

resource!(
    CsiStorageCapacity,
    "storage.k8s.io",
    "v1",
    "CSIStorageCapacity",
    "csistoragecapacities",
    true
);
