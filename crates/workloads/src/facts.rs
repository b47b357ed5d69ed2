//! What the controllers keep of the objects they watch.
//!
//! A cluster has far more pods, nodes and leases than anything else, so what is kept of
//! those is cut to what some controller reads. Workloads carry a pod template that is
//! copied whole and read seldom: it is kept as text, with a digest to compare it by.

mod budget;
mod job_pod;
mod meta;
mod node;
mod pod;
mod template;
#[cfg(test)]
pub(crate) mod testing;

pub use budget::Budget;
pub use job_pod::{FAILURES, IGNORED_FAILURES, IndexFailures, JobPod};
pub(crate) use meta::owned;
pub use meta::{Meta, MetadataOnly, Owned};
pub use node::{LeaseFact, NodeFact};
pub use pod::{INDEX, PodFact, TRACKING_FINALIZER};
pub use template::{Packed, TEMPLATE_HASH_LABEL, Templated};
