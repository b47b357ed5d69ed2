//! The life of nodes: who is still there, and what that means for the pods.
//!
//! A node that neither renews its lease nor reports for a while is marked as unknown
//! ([`health`]). What a node reports, or no longer reports, becomes taints ([`taints`]).
//! Pods that do not tolerate a `NoExecute` taint, or no longer do, are deleted
//! ([`eviction`]).
//!
//! Other than with kube-controller-manager, a pod's time on a tainted node counts from the
//! taint's `timeAdded`, so that a restart does not lengthen it, and a zone's pace
//! ([`zones`]) is judged when a node asks, not every five seconds. Left out: pods bound to a
//! node that is gone.

pub mod eviction;
pub mod health;
mod shell;
pub mod taints;
pub mod zones;

pub use shell::{Graces, start};
