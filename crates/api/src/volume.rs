//! Where a volume's data is, for those sources that the place of a pod depends on.
//!
//! Pods name them in line and persistent volumes in their spec, with the same fields. Only
//! what tells one disk from another is named, and whether it may be shared.

use serde::{Deserialize, Serialize};

use crate::wire;

/// A persistent disk of GCE.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GcePersistentDisk {
    /// Name of the disk.
    #[serde(deserialize_with = "wire::or_default")]
    pub pd_name: Box<str>,
    /// Whether it is only read, so that others may read it as well.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// A disk of AWS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct AwsElasticBlockStore {
    /// Id of the disk, such as `vol-1` or `aws://zone/vol-1`.
    #[serde(rename = "volumeID", deserialize_with = "wire::or_default")]
    pub volume_id: Box<str>,
}

/// A disk of Azure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AzureDisk {
    /// Where the disk is.
    #[serde(rename = "diskURI", deserialize_with = "wire::or_default")]
    pub disk_uri: Box<str>,
    /// Who keeps the disk: a driver has taken over those that are `Managed`, in any case of
    /// letters. The server's default is `Shared`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Box<str>>,
}

/// A disk of OpenStack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Cinder {
    /// Id of the disk.
    #[serde(rename = "volumeID", deserialize_with = "wire::or_default")]
    pub volume_id: Box<str>,
}

/// A volume of Portworx.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct PortworxVolume {
    /// Id of the volume.
    #[serde(rename = "volumeID", deserialize_with = "wire::or_default")]
    pub volume_id: Box<str>,
}

/// A target of iSCSI.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Iscsi {
    /// Qualified name of the target.
    #[serde(deserialize_with = "wire::or_default")]
    pub iqn: Box<str>,
    /// Whether it is only read, so that others may read it as well.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// An image of a Ceph cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rbd {
    /// Monitors of the cluster: two that share one are the same cluster.
    #[serde(deserialize_with = "wire::or_default")]
    pub monitors: Vec<Box<str>>,
    /// The pool; the server's default is `rbd`.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub pool: Box<str>,
    /// The image.
    #[serde(deserialize_with = "wire::or_default")]
    pub image: Box<str>,
    /// Whether it is only read, so that others may read it as well.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}
