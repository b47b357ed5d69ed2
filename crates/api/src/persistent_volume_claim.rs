//! Claims on persistent volumes.

use object::selector::label::LabelSelector;
use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::persistent_volume::{AccessMode, VolumeMode};
use crate::pod::ResourceRequirements;
use crate::resource::resource;
use crate::wire::{self, wire_enum};

/// A claim on a persistent volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeClaim {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// What it asks for.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: PersistentVolumeClaimSpec,
    /// Where it is in its life.
    #[serde(deserialize_with = "wire::or_default")]
    pub status: PersistentVolumeClaimStatus,
}

resource!(PersistentVolumeClaim, "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true);

/// What a claim asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeClaimSpec {
    /// How the volume has to be mountable.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<AccessMode>,
    /// Labels that the volume must have; absent and empty mean any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// How much it must hold, as `storage`.
    #[serde(deserialize_with = "wire::or_default")]
    pub resources: ResourceRequirements,
    /// The volume that it is bound to, or is to be bound to.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub volume_name: Box<str>,
    /// Name of the class; empty asks for a volume without class, and absent leaves the
    /// choice to the default class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<Box<str>>,
    /// Whether it wants a file system; absent means that it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<VolumeMode>,
    /// Name of the class of attributes; an empty name is the same as none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_attributes_class_name: Option<Box<str>>,
}

/// Where a claim is in its life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeClaimStatus {
    /// The phase.
    #[serde(deserialize_with = "wire::or_default")]
    pub phase: ClaimPhase,
}

wire_enum! {
    /// Where a claim is in its life.
    ClaimPhase {
        /// It is not bound.
        Pending,
        /// It is bound.
        Bound,
        /// It was bound, and its volume is gone.
        Lost,
    }
}
