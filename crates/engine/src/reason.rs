//! Why a node cannot take a pod, as data.
//!
//! Events, conditions and explanations render the same value. The text of each reason is that of
//! kube-scheduler, because people and programs search for it.

mod cpus;
mod reservations;
mod volumes;

use std::fmt;
use std::sync::Arc;

use object::taint::Taint;

use crate::plugin::Plugin;
use crate::quota::QuotaRefusal;

pub use cpus::CpuReason;
pub use reservations::ReservationReason;
pub use volumes::VolumeReason;

/// Whether evicting pods of the node could help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// It could.
    Unschedulable,
    /// It could not: the node itself is not what the pod needs.
    Unresolvable,
}

/// One reason why a node cannot take a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The node is cordoned.
    Cordoned,
    /// The pod does not put up with a taint.
    Tainted(Taint),
    /// The node's labels or name are not as the pod asks.
    NodeAffinity,
    /// The node is none of those that the pod's ask names.
    LeftOut {
        /// Plugins that read it so, by name.
        plugins: Vec<Plugin>,
    },
    /// The pod asks for nodes of several names at once.
    NamesConflict,
    /// The node's labels or name are not as the profile asks.
    AddedNodeAffinity,
    /// A port is taken.
    PortTaken {
        /// TCP, UDP or SCTP.
        protocol: Box<str>,
        /// The port.
        port: i32,
    },
    /// The pod has more terms about other pods than are kept.
    TooManyTerms {
        /// How many it has.
        terms: u32,
        /// How many it may have.
        most: u32,
    },
    /// A domain of the node would have too many pods more than another.
    Spread {
        /// The label whose values are the domains.
        topology_key: Box<str>,
        /// How many more there would be.
        skew: i64,
        /// How many more there may be.
        max_skew: i64,
    },
    /// The node lacks a label whose values are domains.
    NoDomain {
        /// The label.
        topology_key: Box<str>,
    },
    /// No pod that the pod must be near is near.
    NotNear,
    /// A pod is near that the pod must be away from.
    NotAway,
    /// A pod is near that must be away from such pods.
    KeptAway,
    /// The node has as many pods as it takes.
    TooManyPods {
        /// How many that is.
        allowed: i64,
    },
    /// The node has too little of a resource left.
    ShortOf {
        /// The resource.
        resource: Box<str>,
        /// What the pod asks for.
        requested: i64,
        /// What other pods request.
        used: i64,
        /// What the node has in all.
        allocatable: i64,
    },
    /// The node would be in use too much.
    Overloaded {
        /// Of what.
        resource: Box<str>,
        /// Whether that is what was used for a while.
        is_window: bool,
        /// How much would be in use, in percent of what it has.
        percent: i64,
        /// How much may be.
        most: i64,
    },
    /// The node has not reported for too long how much of it is in use.
    LoadUnknown,
    /// What the pod says cannot be read.
    Malformed(Box<str>),
    /// CPUs of its own.
    Cpus(CpuReason),
    /// A reservation.
    Reservation(ReservationReason),
    /// The pod's quota has no room.
    Quota(Box<QuotaRefusal>),
    /// A volume of the pod.
    Volume(VolumeReason),
    /// The pod claims devices, which nobody here can give yet.
    ResourceClaims,
    /// Somebody outside was asked, and refuses the node.
    Extender {
        /// Where they were asked.
        url: Arc<str>,
        /// What they said.
        words: Box<str>,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cordoned => "node(s) were unschedulable",
            Self::Tainted(_) => "node(s) had untolerated taint(s)",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::AddedNodeAffinity => "node(s) didn't match scheduler-enforced node affinity",
            Self::PortTaken { .. } => "node(s) didn't have free ports for the requested pod ports",
            Self::Spread { .. } => "node(s) didn't match pod topology spread constraints",
            Self::NoDomain { .. } => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Self::NotNear => "node(s) didn't match pod affinity rules",
            Self::NotAway => "node(s) didn't match pod anti-affinity rules",
            Self::KeptAway => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::TooManyPods { .. } => "Too many pods",
            Self::ResourceClaims => "pod has resource claims, which Gantry does not allocate yet",
            Self::NamesConflict => "pod affinity terms conflict",
            Self::LeftOut { plugins } => {
                let names: Vec<&str> = plugins.iter().map(|plugin| plugin.name()).collect();
                return write!(f, "node(s) didn't satisfy plugin(s) [{}]", names.join(" "));
            }
            Self::TooManyTerms { terms, most } => {
                return write!(
                    f,
                    "pod has {terms} pod affinity terms and topology spread constraints, Gantry \
                     takes at most {most}"
                );
            }
            Self::Extender { words, .. } | Self::Malformed(words) => words,
            Self::Cpus(reason) => return reason.fmt(f),
            Self::Reservation(reason) => return reason.fmt(f),
            Self::Quota(refusal) => return refusal.fmt(f),
            Self::Volume(reason) => return reason.fmt(f),
            Self::ShortOf { resource, .. } => return write!(f, "Insufficient {resource}"),
            Self::LoadUnknown => "node(s) nodeMetric expired",
            Self::Overloaded { resource, is_window, .. } => {
                let sort = if *is_window { " aggregated" } else { "" };
                return write!(f, "node(s) {resource}{sort} usage exceed threshold");
            }
        })
    }
}

/// Why a plugin refuses a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Whether evicting pods could help.
    pub code: Code,
    /// All that is wrong, in the order in which it is told.
    pub reasons: Vec<Reason>,
}

impl Refusal {
    /// A refusal for one reason.
    #[must_use]
    pub fn new(code: Code, reason: Reason) -> Self {
        Self { code, reasons: vec![reason] }
    }

    /// Whether the node would take the pod if others left it.
    #[must_use]
    pub fn is_curable(&self) -> bool {
        self.code == Code::Unschedulable
    }
}
