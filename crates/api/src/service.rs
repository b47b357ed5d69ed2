//! Services, as far as they group pods.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire;

/// A service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Service {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// What it serves.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: ServiceSpec,
}

resource!(Service, "", "v1", "Service", "services", true);

/// What a service serves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    /// Labels of its pods; empty means that it has none of its own.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub selector: BTreeMap<String, String>,
}
