//! Namespaces, as far as their deletion goes.

use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire;

/// A namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Namespace {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// Who must agree before it goes.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: NamespaceSpec,
    /// Where it is in its life.
    #[serde(deserialize_with = "wire::or_default")]
    pub status: NamespaceStatus,
}

resource!(Namespace, "", "v1", "Namespace", "namespaces", false);

/// Who must agree before a namespace goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespaceSpec {
    /// Removed through the subresource `finalize` when the content is gone.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
}

/// Where a namespace is in its life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespaceStatus {
    /// `Active` or `Terminating`.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// What holds up the deletion.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
