//! Replica sets.

use object::selector::label::LabelSelector;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::object_meta::ObjectMeta;
use crate::pod_template::PodTemplate;
use crate::resource::resource;
use crate::wire;

/// A replica set.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSet {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// What it should be.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: ReplicaSetSpec,
    /// What it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub status: ReplicaSetStatus,
}

resource!(ReplicaSet, "apps", "v1", "ReplicaSet", "replicasets", true);

/// What a replica set should be.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSetSpec {
    /// Number of pods; the server's default is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Seconds that a pod must be ready to count as available.
    #[serde(deserialize_with = "wire::or_default")]
    pub min_ready_seconds: i32,
    /// Pods that belong to it.
    #[serde(deserialize_with = "wire::or_default")]
    pub selector: LabelSelector,
    /// What its pods are.
    pub template: PodTemplate,
}

impl ReplicaSetSpec {
    /// Number of pods.
    #[must_use]
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }
}

/// What a replica set is; counts are always written, as in a deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSetStatus {
    /// Pods that are not going.
    #[serde(deserialize_with = "wire::or_default")]
    pub replicas: i32,
    /// Those of them with all labels of the template.
    #[serde(deserialize_with = "wire::or_default")]
    pub fully_labeled_replicas: i32,
    /// Those of them that are ready.
    #[serde(deserialize_with = "wire::or_default")]
    pub ready_replicas: i32,
    /// Those of them that have been ready for long enough.
    #[serde(deserialize_with = "wire::or_default")]
    pub available_replicas: i32,
    /// Pods that are going and have not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// Generation that the status speaks of.
    #[serde(deserialize_with = "wire::or_default")]
    pub observed_generation: i64,
    /// The condition `ReplicaFailure`.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
