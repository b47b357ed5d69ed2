//! How long it took to plan groups, and to find out who makes room for them, for whoever counts that.

use std::time::Duration;

use crate::clearing::Fruitless;
use crate::preemption::{LastResorts, NoRoom, Outcome};

/// How many steps are kept for somebody who takes them.
const KEPT_MAX: usize = 1024;

/// What was done for a group, and how long it took from the moment of the first turn to that of the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GangStep {
    /// It was planned.
    Planned {
        /// What came of it.
        end: PlanEnd,
        /// How many members were to be tried.
        members: usize,
        /// How long it took, the search for room included.
        took: Duration,
    },
    /// It was found out who makes room for it.
    Cleared {
        /// What came of it.
        end: ClearingEnd,
        /// How long it took.
        took: Duration,
    },
}

/// What came of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanEnd {
    /// All members that are needed have nodes.
    Kept,
    /// One that is needed got none.
    Refused,
    /// There is no such group any longer, or members of it are gone.
    Dropped,
}

/// What came of making room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClearingEnd {
    /// Others go.
    Room,
    /// Nobody could go.
    NoVictims,
    /// It would not help.
    NotHelpful,
    /// Nobody has to go for the member that got no node.
    Never,
    /// Others are going already.
    Leaving,
}

impl ClearingEnd {
    /// What came of it where no room was made, by everything that was tried.
    pub(super) fn of(fruitless: &Fruitless) -> Self {
        if fruitless.had_victims() { Self::NotHelpful } else { Self::NoVictims }
    }

    /// The same as upstream says it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Room => "preempt success",
            Self::NoVictims => "no potential victims",
            Self::NotHelpful => "preemption not helpful",
            Self::Never => "not eligible due to preemptionPolicy=Never.",
            Self::Leaving => "not eligible due to terminating pod on the nominated node.",
        }
    }

    /// What members are told of it where nothing was tried.
    pub(super) fn untried(self) -> LastResorts {
        let preemption = match self {
            Self::Never => Some(Outcome::NoRoom(NoRoom::Never)),
            Self::Leaving => Some(Outcome::NoRoom(NoRoom::Leaving)),
            Self::Room | Self::NoVictims | Self::NotHelpful => None,
        };
        let text = format!("preemption: {}", self.as_str());
        LastResorts { preemption, text, is_untried: false }
    }
}

/// Steps that nobody has taken yet.
#[derive(Default)]
pub(super) struct Steps(Vec<GangStep>);

impl Steps {
    /// Keeps a step; where nobody takes them, no more than some.
    pub(super) fn note(&mut self, step: GangStep) {
        if self.0.len() < KEPT_MAX {
            self.0.push(step);
        }
    }

    /// All that were kept.
    pub(super) fn take(&mut self) -> Vec<GangStep> {
        std::mem::take(&mut self.0)
    }
}
