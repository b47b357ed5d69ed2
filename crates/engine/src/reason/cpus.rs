//! Why a node has no CPUs for a pod.

use std::fmt;

use crate::cpus::Binding;
use crate::fact::NumaPolicy;
use crate::numa::Unplaced;

/// Why a node has no CPUs for a pod. The texts are Koordinator's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuReason {
    /// What the pod says cannot be read.
    Malformed(Box<str>),
    /// It asks for a part of a CPU, where whole ones are given away.
    NotWhole {
        /// What it asks for, in thousandths.
        millis: i64,
    },
    /// Nobody says which CPUs the node has.
    NoLayout,
    /// The node has CPUs lie otherwise than the pod must have them.
    Conflict {
        /// As the pod must have them.
        pod: Binding,
        /// As the node has them.
        node: Binding,
    },
    /// It asks for a part of a core, where whole ones are given away.
    NotMultiple {
        /// How many CPUs it asks for.
        count: u32,
        /// How many a core has.
        threads: u32,
    },
    /// Too few are free.
    TooFew {
        /// How many CPUs it asks for.
        count: u32,
        /// How many are free that lie as they must.
        free: u32,
    },
    /// The node puts pods on NUMA nodes otherwise than the pod must be put.
    OtherPolicy {
        /// As the pod must be put.
        pod: NumaPolicy,
        /// As the node puts pods.
        node: NumaPolicy,
    },
    /// Its NUMA nodes have no place for the pod.
    Numa(Unplaced),
    /// The node offers more CPU than it has, and has too little for this one.
    Amplified {
        /// What the pod needs, in thousandths.
        requested: i64,
        /// What others have.
        used: i64,
        /// What the node offers.
        allocatable: i64,
    },
}

impl CpuReason {
    /// Whether no node helps.
    #[must_use]
    pub fn is_beyond_nodes(&self) -> bool {
        matches!(self, Self::Malformed(_) | Self::NotWhole { .. })
    }
}

impl fmt::Display for CpuReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed(words) => words,
            Self::NotWhole { .. } => "the requested CPUs must be integer",
            Self::NoLayout => "node(s) invalid CPU Topology",
            Self::Conflict { .. } => {
                "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
            }
            Self::NotMultiple { .. } => "node(s) requested cpus not multiple cpus per core",
            Self::TooFew { .. } => "not enough cpus available to satisfy request",
            Self::Amplified { .. } => "Insufficient amplified cpu",
            Self::OtherPolicy { .. } => "node(s) NUMA Topology policy not match",
            Self::Numa(unplaced) => return unplaced.fmt(f),
        })
    }
}
