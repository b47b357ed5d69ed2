//! Metadata of every object, without what only the API server reads.

use std::collections::BTreeMap;

use object::time::Time;
use serde::{Deserialize, Serialize};

use crate::wire;

/// Who an object is, where it stands in its life, and who owns it. Empty text means
/// that the field is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMeta {
    /// Name within the namespace.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Start of the name that the server completes when `name` is empty.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub generate_name: String,
    /// Namespace; empty for cluster-scoped kinds.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Identity over time: another object of the same name has another one.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Revision, opaque; for optimistic concurrency and watches.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Counts changes of the spec; 0 when the kind has no generation.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "is_zero")]
    pub generation: i64,
    /// Labels, for selectors.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations, for everything else.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Objects whose deletion this one follows.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// Those who must agree before the object goes.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// When the object was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// When a deletion that has begun is due; the object is going once this is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// Time between the request to delete and `deletion_timestamp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
}

impl ObjectMeta {
    /// Whether deletion has begun.
    #[must_use]
    pub fn is_going(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The owner that manages this object, if one does.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller == Some(true))
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(generation: &i64) -> bool {
    *generation == 0
}

/// An object in the same namespace, or a cluster-scoped one, that owns this object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    /// API version of the owner.
    #[serde(deserialize_with = "wire::or_default")]
    pub api_version: String,
    /// Kind of the owner.
    #[serde(deserialize_with = "wire::or_default")]
    pub kind: String,
    /// Name of the owner.
    #[serde(deserialize_with = "wire::or_default")]
    pub name: String,
    /// UID of the owner.
    #[serde(deserialize_with = "wire::or_default")]
    pub uid: String,
    /// Whether the owner manages this object; at most one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether the owner waits for this object when it is deleted in the foreground.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}
