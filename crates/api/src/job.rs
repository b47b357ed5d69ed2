//! Jobs.

use object::selector::label::LabelSelector;
use object::time::Time;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::object_meta::ObjectMeta;
use crate::pod_template::PodTemplate;
use crate::resource::resource;
use crate::wire;

/// A job.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Job {
    /// Who it is.
    pub metadata: ObjectMeta,
    /// What it should be.
    pub spec: JobSpec,
    /// What it is.
    pub status: JobStatus,
}

resource!(Job, "batch", "v1", "Job", "jobs", true);

/// What a job should be.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSpec {
    /// Pods at the same time; the server's default is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i32>,
    /// Pods that must succeed; without it, one success ends the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<i32>,
    /// `NonIndexed` or `Indexed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_mode: Option<String>,
    /// Seconds after its start at which the job fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// Failed pods before the job fails; the server's default is 6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// Failed pods of one index before that index fails; without it, only all together count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit_per_index: Option<i32>,
    /// Failed indexes before the job fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failed_indexes: Option<i32>,
    /// What failures mean, by how they came about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_failure_policy: Option<PodFailurePolicy>,
    /// Which indexes are enough for the whole to succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_policy: Option<SuccessPolicy>,
    /// Seconds after its end at which the job is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Whether the job has no pods for now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Whether a pod is replaced when it is going, or only when it has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_replacement_policy: Option<String>,
    /// Controller in charge; absent means the built-in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
    /// Pods that belong to it; the server makes it up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// What its pods are.
    pub template: PodTemplate,
}

/// What failures mean, by how they came about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodFailurePolicy {
    /// The first rule that matches a failed pod counts.
    #[serde(deserialize_with = "wire::or_default")]
    pub rules: Vec<PodFailurePolicyRule>,
}

/// What one way to fail means; by exit codes or by conditions of the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodFailurePolicyRule {
    /// `FailJob`, `FailIndex`, `Ignore` or `Count`.
    pub action: String,
    /// The exit codes that match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exit_codes: Option<OnExitCodes>,
    /// The conditions of which any matches.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub on_pod_conditions: Vec<OnPodCondition>,
}

/// Exit codes that a rule is for; success is none of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OnExitCodes {
    /// The container that it speaks of; any without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
    /// `In` or `NotIn`.
    pub operator: String,
    /// The codes.
    #[serde(deserialize_with = "wire::or_default")]
    pub values: Vec<i32>,
}

/// A condition of a pod that a rule is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OnPodCondition {
    /// Its type.
    pub r#type: String,
    /// Its status.
    pub status: String,
}

/// Which indexes are enough for the whole to succeed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SuccessPolicy {
    /// Any of them is enough.
    #[serde(deserialize_with = "wire::or_default")]
    pub rules: Vec<SuccessPolicyRule>,
}

/// Indexes that are enough: all of a list, so many of it, or so many of any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SuccessPolicyRule {
    /// The list, as in `1,3-5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded_indexes: Option<String>,
    /// How many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded_count: Option<i32>,
}

/// What a job is; counts are always written, as in a deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobStatus {
    /// The conditions `Complete`, `Failed`, `Suspended` and those that announce them.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When the controller started it, or resumed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Pods that run or wait and are not going.
    pub active: i32,
    /// Pods that succeeded.
    pub succeeded: i32,
    /// Pods that failed.
    pub failed: i32,
    /// Pods that are going and have not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<i32>,
    /// Active pods that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i32>,
    /// Indexes that are done, as in `1,3-5`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub completed_indexes: String,
    /// Indexes that have failed, in the same form; absent without a limit for each index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_indexes: Option<String>,
    /// Pods that ended and are not in the counts yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted_terminated_pods: Option<UncountedPods>,
}

/// UIDs of pods that ended and are not in the counts yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UncountedPods {
    /// Those that succeeded.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub succeeded: Vec<String>,
    /// Those that failed.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}
