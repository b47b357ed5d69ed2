//! Priority classes.

use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::pod::PreemptionPolicy;
use crate::resource::resource;
use crate::wire;

/// A name for a priority.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PriorityClass {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// The priority that its pods get.
    #[serde(deserialize_with = "wire::or_default")]
    pub value: i32,
    /// Whether pods that name no class get this one.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "std::ops::Not::not")]
    pub global_default: bool,
    /// Whether its pods may push out others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<PreemptionPolicy>,
}

resource!(PriorityClass, "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false);
