//! Deployments.

use object::selector::label::LabelSelector;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::int_or_string::IntOrString;
use crate::object_meta::ObjectMeta;
use crate::pod_template::PodTemplate;
use crate::resource::resource;
use crate::wire;

/// A deployment.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Deployment {
    /// Who it is.
    pub metadata: ObjectMeta,
    /// What it should be.
    pub spec: DeploymentSpec,
    /// What it is.
    pub status: DeploymentStatus,
}

resource!(Deployment, "apps", "v1", "Deployment", "deployments", true);

/// What a deployment should be.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentSpec {
    /// Number of pods; the server's default is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Pods that belong to it.
    pub selector: LabelSelector,
    /// What its pods are.
    pub template: PodTemplate,
    /// How old pods are replaced.
    pub strategy: DeploymentStrategy,
    /// Seconds that a pod must be ready to count as available.
    pub min_ready_seconds: i32,
    /// Old replica sets to keep; the server's default is 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// Seconds without progress after which a rollout counts as failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
    /// Whether rollouts wait.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

impl DeploymentSpec {
    /// Number of pods.
    #[must_use]
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }

    /// Whether all old pods end before the first new one starts.
    #[must_use]
    pub fn recreates(&self) -> bool {
        self.strategy.r#type == "Recreate"
    }
}

/// How old pods are replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentStrategy {
    /// `RollingUpdate` or `Recreate`; empty means the former.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub r#type: String,
    /// Bounds of a rolling update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

/// Bounds of a rolling update; the server's default is 25% for both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RollingUpdate {
    /// Pods that may be missing; a fraction is rounded down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Pods that may be too many; a fraction is rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
}

/// What a deployment is. Counts are always written: a merge patch that leaves one
/// out would keep the old one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentStatus {
    /// Generation that the status speaks of.
    pub observed_generation: i64,
    /// Pods that are not going.
    pub replicas: i32,
    /// Those of them made from the present template.
    pub updated_replicas: i32,
    /// Those of them that are ready.
    pub ready_replicas: i32,
    /// Those of them that have been ready for long enough.
    pub available_replicas: i32,
    /// Pods of its replica sets that are going and have not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// Pods still missing for all to be available.
    pub unavailable_replicas: i32,
    /// The conditions `Available`, `Progressing` and `ReplicaFailure`.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How often the name of a replica set was taken already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
}
