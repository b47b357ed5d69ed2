//! Persistent volumes, as far as claims are matched with them and nodes reach them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::node_selector::NodeSelector;
use crate::object_meta::ObjectMeta;
use crate::object_reference::ObjectReference;
use crate::pod::ResourceList;
use crate::resource::resource;
use crate::volume::{AwsElasticBlockStore, AzureDisk, Cinder, GcePersistentDisk, PortworxVolume};
use crate::wire::{self, wire_enum};

/// A persistent volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolume {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// What it offers.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: PersistentVolumeSpec,
    /// Where it is in its life.
    #[serde(deserialize_with = "wire::or_default")]
    pub status: PersistentVolumeStatus,
}

resource!(PersistentVolume, "", "v1", "PersistentVolume", "persistentvolumes", false);

/// What a persistent volume offers, to whom, and where. Of the sources, which a server lets
/// it have one of, those are named that a CSI driver has taken over, and CSI itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeSpec {
    /// How much it holds, as `storage`.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: ResourceList,
    /// How it can be mounted.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<AccessMode>,
    /// The claim that it is bound to or kept for; without a UID it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<ObjectReference>,
    /// Name of its class; empty means none.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub storage_class_name: Box<str>,
    /// Whether it has a file system; absent means that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<VolumeMode>,
    /// Nodes that reach it; absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<VolumeNodeAffinity>,
    /// Name of the class of its attributes; an empty name is the same as none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_attributes_class_name: Option<Box<str>>,
    /// The driver behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi: Option<CsiVolume>,
    /// The disk of GCE behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gce_persistent_disk: Option<GcePersistentDisk>,
    /// The disk of AWS behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_elastic_block_store: Option<AwsElasticBlockStore>,
    /// The disk of Azure behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure_disk: Option<AzureDisk>,
    /// The disk of OpenStack behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cinder: Option<Cinder>,
    /// The volume of Portworx behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub portworx_volume: Option<PortworxVolume>,
}

/// Nodes that reach a persistent volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeNodeAffinity {
    /// Which nodes; absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<NodeSelector>,
}

/// A volume of a CSI driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiVolume {
    /// Name of the driver.
    #[serde(deserialize_with = "wire::or_default")]
    pub driver: Box<str>,
    /// Name that the driver has for the volume.
    #[serde(deserialize_with = "wire::or_default")]
    pub volume_handle: Box<str>,
}

/// Where a persistent volume is in its life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeStatus {
    /// The phase; empty for one that no controller has seen.
    #[serde(deserialize_with = "wire::or_default")]
    pub phase: VolumePhase,
}

wire_enum! {
    /// How a volume can be mounted.
    AccessMode {
        /// To read and write, on one node.
        ReadWriteOnce,
        /// To read, on many nodes.
        ReadOnlyMany,
        /// To read and write, on many nodes.
        ReadWriteMany,
        /// To read and write, by one pod.
        ReadWriteOncePod,
    }
}

wire_enum! {
    /// What a volume is to a pod.
    VolumeMode {
        /// A folder.
        Filesystem,
        /// A device.
        Block,
    }
}

wire_enum! {
    /// Where a persistent volume is in its life.
    VolumePhase {
        /// It is not there yet.
        Pending,
        /// It can be bound.
        Available,
        /// It is bound.
        Bound,
        /// Its claim is gone, and it still has to be cleared.
        Released,
        /// It could not be cleared.
        Failed,
    }
}
