//! Pods that come and go in thought.

use super::{Ask, ReservationIndex};
use crate::fact::Allotment;
use crate::pool::Id;

/// A pod that comes to a node or leaves it, in thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passing {
    /// What it takes and wants.
    pub ask: Ask,
    /// Whether it is being deleted, so that those who plan ahead do not count it.
    pub deleting: bool,
    /// What it got besides amounts.
    pub allotment: Option<Id<Allotment>>,
    /// Which reservation it is, where it is one: it takes what of that no pod uses.
    pub reservation: Option<ReservationIndex>,
}

impl Passing {
    /// Whether it takes of its node what another would: what it wanted before it got its node does not
    /// matter any longer, and is written down anew with what it got.
    pub(super) fn takes_as(self, other: Self) -> bool {
        let settled = |own: Self| {
            let ask = Ask { cpus: None, hint: None, ..own.ask };
            Self { ask, ..own }
        };
        settled(self) == settled(other)
    }
}

/// Which way a pod goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It comes.
    In,
    /// It leaves.
    Out,
}

impl Way {
    /// What it adds to a count.
    #[must_use]
    pub fn sign(self) -> i64 {
        match self {
            Self::In => 1,
            Self::Out => -1,
        }
    }

    /// The other way.
    pub(crate) fn back(self) -> Self {
        match self {
            Self::In => Self::Out,
            Self::Out => Self::In,
        }
    }
}
