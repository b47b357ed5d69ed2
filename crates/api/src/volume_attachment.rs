//! Volumes that are, or are to be, attached to nodes.

use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire;

/// The wish that a volume be attached to a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachment {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// What is to be attached, and where.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: VolumeAttachmentSpec,
    /// Whether it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub status: VolumeAttachmentStatus,
}

resource!(VolumeAttachment, "storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", false);

/// What is to be attached, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentSpec {
    /// Name of the driver.
    #[serde(deserialize_with = "wire::or_default")]
    pub attacher: Box<str>,
    /// Name of the node.
    #[serde(deserialize_with = "wire::or_default")]
    pub node_name: Box<str>,
    /// The volume.
    #[serde(deserialize_with = "wire::or_default")]
    pub source: VolumeAttachmentSource,
}

/// The volume that is to be attached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentSource {
    /// Name of a persistent volume; absent for one in line with a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_name: Option<Box<str>>,
}

/// Whether a volume is attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentStatus {
    /// Whether it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub attached: bool,
}
