//! Taints and tolerations.
