//! Pod disruption budgets.

use std::collections::BTreeMap;

use object::selector::label::LabelSelector;
use object::time::Time;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::int_or_string::IntOrString;
use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire;

/// How many pods of a group may be missing at will.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDisruptionBudget {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// What is allowed.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: PodDisruptionBudgetSpec,
    /// What is allowed at present.
    #[serde(deserialize_with = "wire::or_default")]
    pub status: PodDisruptionBudgetStatus,
}

resource!(PodDisruptionBudget, "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true);

/// What a budget allows: one of the two amounts.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDisruptionBudgetSpec {
    /// Pods that must stay healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrString>,
    /// Pods that may be missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// The pods; absent means none, empty means all of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// What a budget allows at present; counts are always written, as in a deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDisruptionBudgetStatus {
    /// Generation that the status speaks of.
    #[serde(deserialize_with = "wire::or_default")]
    pub observed_generation: i64,
    /// Pods that may be evicted now.
    #[serde(deserialize_with = "wire::or_default")]
    pub disruptions_allowed: i32,
    /// Pods that are healthy.
    #[serde(deserialize_with = "wire::or_default")]
    pub current_healthy: i32,
    /// Pods that must be healthy.
    #[serde(deserialize_with = "wire::or_default")]
    pub desired_healthy: i32,
    /// Pods that there should be.
    #[serde(deserialize_with = "wire::or_default")]
    pub expected_pods: i32,
    /// Pods whose eviction was allowed and is not seen yet, with the time it was.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub disrupted_pods: BTreeMap<String, Time>,
    /// The condition `DisruptionAllowed`.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
