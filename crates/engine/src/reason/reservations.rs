//! Why a pod cannot use a reservation, and why one gets no node.

use std::fmt;

use crate::reservations::Unsuited;

/// Why a pod cannot use a reservation, and why one gets no node. The texts are Koordinator's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationReason {
    /// No reservation of the node is one that the pod must use.
    NoMatch,
    /// There are some, and none is as it should be.
    Unmet,
    /// A reservation is not one that the pod can use.
    Unsuited {
        /// Why not.
        why: Unsuited,
        /// Whether the pod names it.
        is_named: bool,
    },
    /// The node has too little of what the reservation does not hold.
    ShortOfNode {
        /// Of what.
        resource: Box<str>,
    },
    /// The reservation is for another node.
    OtherNode,
    /// The reservations of the node are of another policy, and do not go together with it.
    PolicyConflict,
    /// It is to take over pods, and pods may use more than it holds.
    TakeOverUnrestricted,
    /// It is to take over pods that it is not for, and the profile does not let it.
    TakeOverOfAnyone,
    /// The node has no pod that it could take over, and it must take over one.
    NothingToTakeOver,
    /// The node has some, and with none of them it fits.
    TakeOverUnmet,
    /// It would not get the CPUs and the parts of NUMA nodes that a pod has which it is to take over.
    Apart,
    /// A reservation that the pod names is for other pods. Only explanations tell it.
    NotMeant,
    /// A reservation that is for the pod has no node. Only explanations tell it.
    NotThere,
    /// A reservation that the pod names was never there, or has ended. Only explanations tell it.
    Gone,
}

impl ReservationReason {
    /// Whether somebody who leaves could help.
    #[must_use]
    pub fn is_about_room(&self) -> bool {
        match self {
            Self::Unsuited { why, .. } => {
                matches!(why, Unsuited::ShortOf { .. } | Unsuited::TooManyPods { .. })
            }
            Self::ShortOfNode { .. } => true,
            _ => false,
        }
    }
}

impl fmt::Display for ReservationReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMatch => f.write_str("node(s) no reservations match reservation affinity"),
            Self::Unmet => f.write_str("node(s) no reservation(s) to meet the requirements"),
            Self::ShortOfNode { resource } => write!(f, "Insufficient {resource} by node"),
            Self::OtherNode => {
                f.write_str("node(s) didn't match the nodeName specified by reservation")
            }
            Self::PolicyConflict => f.write_str("node(s) reservation allocate policy conflict"),
            Self::TakeOverUnrestricted => f.write_str(
                "node(s) reservation pre allocation is unsupported with current attributes",
            ),
            Self::TakeOverOfAnyone => {
                f.write_str("reservation requires cluster mode pre-allocation which is disabled")
            }
            Self::NothingToTakeOver => {
                f.write_str("node(s) no pod match reservation with pre allocation required")
            }
            Self::TakeOverUnmet => {
                f.write_str("node(s) no pod(s) to meet the pre-allocation requirements")
            }
            Self::Apart => f.write_str("Reservation(s) would have other CPUs or NUMA nodes"),
            Self::NotMeant => f.write_str("Reservation(s) didn't match owner"),
            Self::NotThere => f.write_str("Reservation(s) have no node"),
            Self::Gone => f.write_str("Reservation(s) not found"),
            Self::Unsuited { why, is_named } => match why {
                Unsuited::ShortOf { resource, requested, used, capacity } if *is_named => write!(
                    f,
                    "Reservation(s) Insufficient {resource}, requested: {requested}, used: {used}, \
                     capacity: {capacity}"
                ),
                Unsuited::ShortOf { resource, .. } => {
                    write!(f, "Reservation(s) Insufficient {resource}")
                }
                Unsuited::TooManyPods { used, capacity } if *is_named => write!(
                    f,
                    "Reservation(s) Too many pods, requested: 1, used: {used}, capacity: {capacity}"
                ),
                Unsuited::TooManyPods { .. } => f.write_str("Reservation(s) Too many pods"),
                Unsuited::Name => {
                    f.write_str("Reservation(s) didn't match the requested reservation name")
                }
                Unsuited::Closed => f.write_str("Reservation(s) is unschedulable"),
                Unsuited::Tainted(taint) => write!(
                    f,
                    "Reservation(s) had untolerated taint {{{}: {}}}",
                    taint.key, taint.value
                ),
                Unsuited::Labels => f.write_str("Reservation(s) didn't match affinity rules"),
                Unsuited::NotExact => f.write_str("Reservation(s) is not exact matched"),
                Unsuited::Taken => f.write_str("Reservation(s) is used by another pod"),
                Unsuited::Nothing => {
                    f.write_str("Reservation(s) have nothing left of what is asked for")
                }
            },
        }
    }
}
