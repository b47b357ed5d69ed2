//! Shares of a cluster, each with a guarantee and a ceiling, that form trees and lend each other what is
//! idle.

mod pod;
mod terms;

use std::collections::BTreeMap;

use object::condition::Condition;
use serde::{Deserialize, Serialize};

pub use pod::{PREEMPTIBLE_LABEL, QUOTA_NAME_LABEL, is_preemptible, quota_name};
pub use terms::{
    ADMISSION, ALLOW_FORCE_UPDATE_LABEL, ALLOW_LENT_LABEL, IGNORE_DEFAULT_TREE_LABEL,
    IS_PARENT_LABEL, IS_ROOT_LABEL, MAX_STRICT_CHECK_RESOURCE_KEYS, NAMESPACES, NAMESPACES_MAX,
    PARENT_LABEL, PROFILE_LABEL, QuotaTerms, SHARED_WEIGHT, TOTAL_RESOURCE, TREE_ID_LABEL,
    UNSCHEDULABLE_RESOURCE,
};
pub(crate) use terms::{KEYS_BOUNDS, KEYS_FIX};

use crate::object_meta::ObjectMeta;
use crate::pod::ResourceList;
use crate::resource::resource;
use crate::wire;

/// The quota that all others are below.
pub const ROOT_QUOTA: &str = "koordinator-root-quota";
/// The quota of pods that belong to no other.
pub const DEFAULT_QUOTA: &str = "koordinator-default-quota";
/// The quota of pods that the cluster itself needs.
pub const SYSTEM_QUOTA: &str = "koordinator-system-quota";

/// Annotation that the scheduler writes: how much may be used now.
pub const RUNTIME: &str = "quota.scheduling.koordinator.sh/runtime";
/// Annotation that the scheduler writes: what is asked for.
pub const REQUEST: &str = "quota.scheduling.koordinator.sh/request";
/// Annotation that the scheduler writes: what pods and the quotas below ask for.
pub const CHILD_REQUEST: &str = "quota.scheduling.koordinator.sh/child-request";
/// Annotation that the scheduler writes: what nobody takes back.
pub const GUARANTEED: &str = "quota.scheduling.koordinator.sh/guaranteed";
/// Annotation that the scheduler writes: what pods use, and what the quotas below are guaranteed.
pub const ALLOCATED: &str = "quota.scheduling.koordinator.sh/allocated";
/// Annotation that the scheduler writes: what pods ask for that never make room for others.
pub const NON_PREEMPTIBLE_REQUEST: &str = "quota.scheduling.koordinator.sh/non-preemptible-request";
/// Annotation that the scheduler writes: what such pods use.
pub const NON_PREEMPTIBLE_USED: &str = "quota.scheduling.koordinator.sh/non-preemptible-used";

/// A share of the cluster. What else it says is in labels and annotations: [`QuotaTerms`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ElasticQuota {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// How much it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: ElasticQuotaSpec,
    /// How much of it is used.
    #[serde(deserialize_with = "wire::or_default")]
    pub status: ElasticQuotaStatus,
}

resource!(
    ElasticQuota,
    "scheduling.sigs.k8s.io",
    "v1alpha1",
    "ElasticQuota",
    "elasticquotas",
    true
);

impl ElasticQuota {
    /// What pods and the quotas below ask for, as it was written last; none where that cannot be read: the
    /// scheduler writes it again.
    #[must_use]
    pub fn child_request(&self) -> Option<ResourceList> {
        let text = self.metadata.annotations.get(CHILD_REQUEST)?;
        serde_json::from_str(text).ok()
    }
}

/// How much a share is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ElasticQuotaSpec {
    /// What it is guaranteed.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub min: ResourceList,
    /// What it never goes beyond. Only resources that are named here are counted.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub max: ResourceList,
}

/// How much of a share is used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ElasticQuotaStatus {
    /// What pods request that are charged to it or to a quota below it.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub used: ResourceList,
    /// What is so, and since when. Upstream has none.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
