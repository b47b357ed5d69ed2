//! A CustomResourceDefinition becomes a [`Kind`], and stops being one.
//!
//! What kube-apiserver does with controllers some milliseconds later (accepting
//! names, establishing, cleaning up) happens here right after the commit, in the
//! request that caused it.

mod build;
mod check;
mod definition;
mod lifecycle;
mod lineage;

pub use definition::Definition;
pub use lifecycle::{after_removal, after_write};
pub use lineage::Lineage;

use super::Kind;

/// Whether this is the kind whose objects define kinds.
#[must_use]
pub fn defines_kinds(kind: &Kind) -> bool {
    kind.group == "apiextensions.k8s.io" && kind.names.plural == "customresourcedefinitions"
}
