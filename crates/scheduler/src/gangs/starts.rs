//! How gangs have started whose groups want no gang that is there in part: they say so by an annotation.
//!
//! Whether a gang has started, and whether it was whole since, is what the engine's ledger says, which hears of each
//! member that is bound, ends or goes. That it was whole is kept as a condition of its group as well, so that a scheduler
//! that starts later never takes members for the rest of a start that were left when others of a whole gang went.

use std::time::Duration;

use api::PodGroup;
use api::condition::{self, Condition};
use api::pod_group::{GangId, GangTerms, INCOMPLETE_START, IncompleteStart};
use chassis::backoff::doubled;
use chassis::key::Key;
use engine::fact::{PodRef, Uid};
use engine::ledger::{Ledger, PodRow};
use engine::moment::Moment;

use crate::dismissals::{Cause, DismissOrder};
use crate::reservations::time;

/// The condition that says whether enough members were bound at any time.
const STARTED: &str = "Started";

/// How long members are left alone who were asked to go and did not, where they do not wait longer for each other.
pub(super) const ASKED_AGAIN_MAX: Duration = Duration::from_secs(300);
/// When those are asked for whom there was no place in line.
pub(super) const LINE_AGAIN: Duration = Duration::from_secs(5);

/// How far the start of a gang has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Start {
    /// Nobody is bound.
    #[default]
    Ahead,
    /// So many are bound and not enough, since then or since they were last asked to go: so often in a row, without
    /// that any of them went.
    Partial { bound: usize, since: Moment, asked: u32 },
    /// Enough were, of which some may have ended.
    Whole,
}

/// Whether it is to be said of a group how its gang has started: it asks for that, or has heard of it.
pub(super) fn is_told(group: &PodGroup, terms: &GangTerms) -> bool {
    is_asked(terms) || condition::find(&group.status.conditions, STARTED).is_some()
}

/// Whether a group wants no members that are there alone, and says how many there must be.
pub(super) fn is_asked(terms: &GangTerms) -> bool {
    let has_min = terms.min_available.is_some_and(|min| min > 0);
    has_min && terms.incomplete_start == IncompleteStart::Delete
}

/// Whether a group says that enough members were bound at any time.
pub(super) fn is_whole(group: &PodGroup) -> bool {
    let told = condition::find(&group.status.conditions, STARTED);
    told.is_some_and(|own| own.status == "True")
}

impl Start {
    /// What the group says of it.
    pub(super) fn read(group: &PodGroup) -> Self {
        if is_whole(group) { Self::Whole } else { Self::Ahead }
    }

    /// How far it has come by now.
    pub(super) fn next(self, ledger: &Ledger, gang: &GangId, now: Moment) -> Self {
        let gangs = &ledger.gangs;
        if !gangs.has_started(gang) {
            return Self::Ahead;
        }
        match (gangs.staying(gang).len(), self) {
            _ if gangs.was_whole(gang) => Self::Whole,
            (_, Self::Whole) => Self::Whole,
            (0, _) => Self::Ahead,
            (bound, Self::Partial { bound: before, since, asked }) => {
                Self::Partial { bound, since, asked: if bound < before { 0 } else { asked } }
            }
            (bound, Self::Ahead) => Self::Partial { bound, since: now, asked: 0 },
        }
    }

    /// When who is bound has to go.
    pub(super) fn due(self, ledger: &Ledger, gang: &GangId) -> Option<Moment> {
        match self {
            Self::Partial { since, asked, .. } => {
                let wait = ledger.gang_wait(&ledger.group_of(gang));
                Some(since.after(doubled(wait, wait.max(ASKED_AGAIN_MAX), asked)))
            }
            Self::Ahead | Self::Whole => None,
        }
    }

    /// The same, where who is bound was just asked to go: whoever does not is asked again when it has lasted as long
    /// once more, or twice as long each time where nobody went.
    pub(super) fn again(self, now: Moment) -> Self {
        match self {
            Self::Partial { bound, asked, .. } => {
                Self::Partial { bound, since: now, asked: asked.saturating_add(1) }
            }
            Self::Ahead | Self::Whole => self,
        }
    }

    /// The same as a condition of a group that needs so many, where it ends then.
    pub(super) fn condition(self, min: usize, due: Option<Moment>) -> Condition {
        let (reason, message) = match self {
            Self::Ahead => ("Ahead", format!("no member is bound, and {min} have to be")),
            Self::Partial { bound, .. } => {
                let then = due.map_or_else(
                    || "they stay".to_owned(),
                    |due| {
                        let by = time(due);
                        format!(
                            "they have to go where no more are by {by}, as {INCOMPLETE_START} says"
                        )
                    },
                );
                ("Incomplete", format!("{bound} of {min} members are bound: {then}"))
            }
            Self::Whole => ("Whole", format!("{min} members were bound")),
        };
        Condition {
            r#type: STARTED.to_owned(),
            status: if self == Self::Whole { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message,
            ..Condition::default()
        }
    }
}

/// The members of a gang that have to go where too few followed them.
pub(super) fn leftovers(ledger: &Ledger, group: &PodGroup, min: usize) -> Vec<DismissOrder> {
    let metadata = &group.metadata;
    let gang = GangId::new(&metadata.namespace, &metadata.name);
    let key = Key::namespaced(&metadata.namespace, &metadata.name);
    let staying = || ledger.gangs.staying(&gang);
    let count = staying().len();
    let words = format!("{count} of {min} members were bound in time");
    let order = |(uid, row): (&Uid, &PodRow)| DismissOrder {
        pod: PodRef::of(uid, row),
        cause: Cause::Gang,
        object: (key.clone(), metadata.uid.as_str().into()),
        words: words.as_str().into(),
    };
    staying().filter_map(|uid| Some((uid, ledger.pod(uid)?))).map(order).collect()
}
