//! What a pod wants of reservations.

use api::OwnerReference;

use super::{NodeTerm, Tolerations};
use crate::fact::{ReservationPolicy, Uid};

/// What a pod wants of reservations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ReservationNeeds {
    /// Which one it must use; none where it need not use any.
    pub affinity: Option<ReservationAffinity>,
    /// Resources of which one must hold exactly what the pod asks for.
    pub exact: Box<[Box<str>]>,
    /// Whether it may use what reservations hold, and uses none of them.
    pub is_ignoring: bool,
    /// Of several pods that a reservation may take over, the one with the highest number goes first.
    pub takeover_rank: i64,
    /// What it is itself, where it is one.
    pub own: Option<OwnReservation>,
    /// What it says that cannot be read, in words: then no node takes it.
    pub malformed: Option<Box<str>>,
}

/// A reservation that is to get a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct OwnReservation {
    /// Whether pods may use more than it holds.
    pub policy: ReservationPolicy,
    /// The only node that it may get, where it names one.
    pub node: Option<Box<str>>,
    /// Pods that run and that it takes over, where it takes over any.
    pub takes_over: Option<TakeOver>,
}

/// Pods that run and that a reservation takes over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TakeOver {
    /// The reservation.
    pub uid: Uid,
    /// Whether they need not be its owners.
    pub is_of_anyone: bool,
    /// Whether it may be more than one.
    pub may_be_many: bool,
    /// Whether it must be one at least.
    pub is_required: bool,
}

/// Who made a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Makers(pub Box<[OwnerReference]>);

/// Which reservation a pod must use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ReservationAffinity {
    /// The one of this name; then nothing else counts.
    pub name: Option<Box<str>>,
    /// One with these labels.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// One of which one of these holds.
    pub terms: Option<Box<[NodeTerm]>>,
    /// Taints that it puts up with.
    pub tolerations: Tolerations,
}

impl ReservationAffinity {
    /// Whether it is one with a name and labels like this.
    pub fn holds<'a>(&self, name: &str, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let terms = self.terms.as_deref();
        self.labels.iter().all(|(key, value)| label(key) == Some(value))
            && terms.is_none_or(|terms| terms.iter().any(|term| term.holds(name, &label)))
    }
}
