//! Gangs: pods that start together or not at all.

mod gang;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use gang::{
    BIND_GROUP_ID, BIND_GROUP_ID_BEFORE, BIND_MEMBER_COUNT, BIND_MEMBER_COUNT_BEFORE, GANG_GROUPS,
    GANG_MATCH_POLICY, GANG_MATCH_POLICY_ALIAS, GANG_MIN_AVAILABLE, GANG_MIN_AVAILABLE_LABEL,
    GANG_MODE, GANG_NAME, GANG_NAME_LABEL, GANG_TOTAL_NUMBER, GANG_WAITING_TIME, GangId, GangMode,
    GangName, GangTerms, INCOMPLETE_START, IncompleteStart, MatchPolicy, POD_GROUP_LABEL,
};
use object::condition::Condition;
use object::time::Time;

use crate::object_meta::ObjectMeta;
use crate::pod::ResourceList;
use crate::resource::resource;
use crate::wire;

/// A gang that is an object of its own.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroup {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// What it takes to start.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: PodGroupSpec,
    /// How far it has come.
    #[serde(deserialize_with = "wire::or_default")]
    pub status: PodGroupStatus,
}

resource!(PodGroup, "scheduling.sigs.k8s.io", "v1alpha1", "PodGroup", "podgroups", true);

/// What it takes for a gang to start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupSpec {
    /// How many members must have a place before any may start.
    #[serde(deserialize_with = "wire::or_default")]
    pub min_member: i32,
    /// How long members wait for each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_timeout_seconds: Option<i32>,
    /// What members are to ask for together. Nothing comes of it: what each of them asks for counts.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub min_resources: ResourceList,
}

/// How far a gang has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupStatus {
    /// Where it stands in its life.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_default")]
    pub phase: PodGroupPhase,
    /// Owners of its members, sorted, each as `namespace/name`.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub occupied_by: String,
    /// Members that have a node.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_default")]
    pub scheduled: i32,
    /// Members that run.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_default")]
    pub running: i32,
    /// Members that ended well.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_default")]
    pub succeeded: i32,
    /// Members that failed.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_default")]
    pub failed: i32,
    /// When it was first under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_start_time: Option<Time>,
    /// What is so, and since when. Upstream has none.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

wire::wire_enum! {
    /// Where a gang stands in its life. Where nothing is said, nobody has looked at it yet.
    PodGroupPhase {
        /// Members are missing.
        Pending,
        /// All are there, and none has a node.
        PreScheduling,
        /// Some have a node, and not yet enough.
        Scheduling,
        /// Enough have one.
        Scheduled,
        /// Enough run.
        Running,
        /// Nobody knows; nobody writes this.
        Unknown,
        /// Enough ended well.
        Finished,
        /// Some failed, and no others run.
        Failed,
    }
}
