//! Stateful sets, as far as they group pods.

use object::selector::label::LabelSelector;
use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire;

/// A stateful set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSet {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// What it should be.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: StatefulSetSpec,
}

resource!(StatefulSet, "apps", "v1", "StatefulSet", "statefulsets", true);

/// What a stateful set should be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetSpec {
    /// Pods that belong to it; the server wants one.
    #[serde(deserialize_with = "wire::or_default")]
    pub selector: LabelSelector,
}
