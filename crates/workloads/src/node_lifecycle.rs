//! The life of nodes: who is still there, and what that means for the pods.
//!
//! A node that neither renews its lease nor reports for a while is marked as unknown
//! ([`health`]). What a node reports, or no longer reports, becomes taints ([`taints`]).
//! Pods that do not tolerate a `NoExecute` taint, or no longer do, are deleted
//! ([`eviction`]).
//!
//! Silence is measured in the time that the controller ran and listened: neither a jump of
//! the calendar's clock nor a pause of the process makes nodes look dead. While no node at
//! all is ready, it is more likely the controller that is cut off, and no pod is driven off.
//!
//! Other than with kube-controller-manager, a pod's time on a tainted node counts from the
//! taint's `timeAdded`, so that a restart does not lengthen it, and a zone's pace
//! ([`zones`]) is judged when a node asks, not every five seconds. Pods bound to a node that is
//! gone are [`pod_gc`](crate::pod_gc)'s.

pub mod eviction;
pub mod health;
mod shell;
pub mod taints;
pub mod zones;

pub use shell::{Graces, start};
