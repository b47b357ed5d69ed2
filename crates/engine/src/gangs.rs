//! Gangs: pods that start together or not at all.
//!
//! A gang is described by an object of its own or by its pods, and gangs may name others that start with
//! them. What is known of gangs is in the ledger ([`Gangs`](crate::ledger::Gangs)); this folder says what
//! follows from it: which gangs are one group, how many members of each have to get a node at once, what a
//! group still waits for, and in which order its members are tried. It knows no queue and places nobody.

mod bill;
mod course;
mod line;
mod membership;
mod readiness;
mod words;

use std::time::Duration;

use api::pod_group::MatchPolicy;

pub(crate) use course::{Course, Refused, Seatless, seat};
pub(crate) use line::{Next, again_max, least_of};
pub use membership::{Incarnation, Membership};
pub(crate) use readiness::entry_of;
pub use readiness::{Group, Need, Readiness};
pub use words::{GangRefusal, GangStamp, GangWait};

/// What counts for gangs that do not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long those of a group that got nodes may take to be bound.
    pub wait: Duration,
    /// Which members count.
    pub policy: MatchPolicy,
    /// Whether all members hear why there are no nodes for them, and not only the one that got none.
    pub tells_all: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let (wait, policy) = (Duration::from_secs(600), MatchPolicy::OnceSatisfied);
        Self { wait, policy, tells_all: true }
    }
}
