//! What the controllers keep of the objects they watch.
//!
//! A cluster has far more pods, nodes and leases than anything else, so what is kept of
//! those is cut to what some controller reads. Workloads carry a pod template that is
//! copied whole and read seldom: it is kept as text, with a digest to compare it by.

mod meta;
mod node;
mod pod;
mod template;
#[cfg(test)]
pub(crate) mod testing;

pub use meta::{Labels, Meta, Owned};
pub use node::{LeaseFact, NodeFact};
pub use pod::{PodFact, TRACKING_FINALIZER};
pub use template::{Packed, TEMPLATE_HASH_LABEL, Template, Templated};

use std::ops::Deref;

use api::{OwnerReference, Resource};
use chassis::client::{Identity, Object};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// An object of the `api` crate as it came over the wire.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct Watched<T>(pub T);

impl<T> Deref for Watched<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The identity that an object's metadata gives.
pub(crate) fn identity_of(meta: &api::ObjectMeta) -> Identity<'_> {
    Identity {
        namespace: &meta.namespace,
        name: &meta.name,
        uid: &meta.uid,
        resource_version: &meta.resource_version,
    }
}

impl<T: Resource + DeserializeOwned + Send + 'static> Object for Watched<T> {
    fn identity(&self) -> Identity<'_> {
        identity_of(self.0.meta())
    }
}

impl<T: Resource + DeserializeOwned + Send + 'static> Owned for Watched<T> {
    fn owners(&self) -> &[OwnerReference] {
        &self.0.meta().owner_references
    }

    fn has_finalizer(&self, name: &str) -> bool {
        self.0.meta().finalizers.iter().any(|own| own == name)
    }

    fn is_going(&self) -> bool {
        self.0.meta().is_going()
    }
}
