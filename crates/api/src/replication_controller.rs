//! Replication controllers, as far as they group pods.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire;

/// A replication controller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicationController {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// What it should be.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: ReplicationControllerSpec,
}

resource!(ReplicationController, "", "v1", "ReplicationController", "replicationcontrollers", true);

/// What a replication controller should be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicationControllerSpec {
    /// Labels of its pods; the server fills it in from the template.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub selector: BTreeMap<String, String>,
}
