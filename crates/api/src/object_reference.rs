//! References from one object to another.

use serde::{Deserialize, Serialize};

use crate::wire;

/// An object, as another one names it. Empty text means that the field is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectReference {
    /// API version of the object.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub api_version: Box<str>,
    /// Kind of the object.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub kind: Box<str>,
    /// Namespace of the object.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub namespace: Box<str>,
    /// Name of the object.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    /// UID of the object; empty where any object of the name is meant.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub uid: Box<str>,
    /// Revision of the object that is meant.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub resource_version: Box<str>,
    /// Part of the object that is meant, such as `spec.containers{main}`.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "str::is_empty")]
    pub field_path: Box<str>,
}
