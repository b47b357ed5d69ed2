//! What every kind with a struct says about itself.

use serde::Serialize;
use serde_json::Value;

use crate::object_meta::{ObjectMeta, OwnerReference};

/// A kind that Gantry reads or writes: where it is served, and its metadata.
///
/// ```
/// use api::{Lease, Pod, Resource};
/// assert_eq!(Pod::api_version(), "v1");
/// assert_eq!(Lease::api_version(), "coordination.k8s.io/v1");
/// ```
pub trait Resource {
    /// The API group; empty for the core group.
    const GROUP: &'static str;
    /// The version that Gantry speaks.
    const VERSION: &'static str;
    /// The kind, as in `Pod`.
    const KIND: &'static str;
    /// The name in URLs, as in `pods`.
    const PLURAL: &'static str;
    /// Whether objects live in a namespace.
    const NAMESPACED: bool;

    /// The object's metadata.
    fn meta(&self) -> &ObjectMeta;

    /// The object's metadata, to change.
    fn meta_mut(&mut self) -> &mut ObjectMeta;

    /// Group and version as `apiVersion` has them.
    #[must_use]
    fn api_version() -> String {
        if Self::GROUP.is_empty() {
            Self::VERSION.to_owned()
        } else {
            format!("{}/{}", Self::GROUP, Self::VERSION)
        }
    }

    /// The reference by which a dependent names this object as its managing controller.
    #[must_use]
    fn controller_reference(&self) -> OwnerReference {
        let meta = self.meta();
        OwnerReference {
            api_version: Self::api_version(),
            kind: Self::KIND.to_owned(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// The object as an API server takes it, with `apiVersion` and `kind`.
    ///
    /// # Panics
    /// Never for the structs of this crate: all of them are JSON objects with text keys.
    #[must_use]
    fn to_json(&self) -> Value
    where
        Self: Serialize,
    {
        let mut value = serde_json::to_value(self).expect("structs with text keys become JSON");
        value["apiVersion"] = Self::api_version().into();
        value["kind"] = Self::KIND.into();
        value
    }
}

/// Implements [`Resource`] for a struct with a field `metadata`.
macro_rules! resource {
    ($type:ty, $group:literal, $version:literal, $kind:literal, $plural:literal, $namespaced:literal) => {
        impl crate::Resource for $type {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = $kind;
            const PLURAL: &'static str = $plural;
            const NAMESPACED: bool = $namespaced;

            fn meta(&self) -> &crate::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut crate::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
pub(crate) use resource;
