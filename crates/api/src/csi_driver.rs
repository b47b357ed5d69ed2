//! CSI drivers, as far as a scheduler asks them.

use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire;

/// A CSI driver that is installed in the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiDriver {
    /// Who it is; the name is that of the driver.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// What it can do.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: CsiDriverSpec,
}

resource!(CsiDriver, "storage.k8s.io", "v1", "CSIDriver", "csidrivers", false);

/// What a driver can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiDriverSpec {
    /// Whether it reports how much room it has, so that a pod is placed only where there
    /// is enough; absent means that it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_capacity: Option<bool>,
}
