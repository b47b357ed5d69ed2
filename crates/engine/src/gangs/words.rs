//! What is told of gangs.

use std::fmt;

use api::Malformed;
use api::pod_group::GangId;

/// How many gangs are named at once.
const NAMED_MAX: usize = 8;

/// What members of a gang wait for, before any node is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GangWait {
    /// Nothing describes the gang.
    Undescribed(GangId),
    /// It is not said how many members there must be.
    Unreadable(GangId, Box<Malformed>),
    /// Members are missing.
    Collecting {
        /// Of which gang.
        gang: GangId,
        /// How many are there.
        there: usize,
        /// How many there must be.
        min: usize,
    },
    /// A gang that has to start first, or at once, has not.
    Gang {
        /// Which.
        gang: GangId,
        /// What that waits for; none where it could start.
        why: Option<Box<GangWait>>,
    },
    /// A gang and another name each other, and do not name the same: each waits for the other to start.
    Unlike {
        /// The gang.
        gang: GangId,
        /// The other.
        other: GangId,
        /// Those that only one of them names.
        only: Box<[GangId]>,
    },
    /// Gangs wait for each other in a circle: each for the next one to start, and the last for the first.
    Circle {
        /// The first.
        gang: GangId,
        /// The others, in this order.
        others: Box<[GangId]>,
    },
    /// Somebody outside is asked about a member, which cannot be done for many at once.
    Consulted {
        /// The gang.
        gang: GangId,
        /// The member, as `namespace/name`.
        pod: Box<str>,
    },
}

impl GangWait {
    /// The gang that it is about.
    #[must_use]
    pub fn gang(&self) -> &GangId {
        match self {
            Self::Undescribed(gang)
            | Self::Unreadable(gang, _)
            | Self::Collecting { gang, .. }
            | Self::Gang { gang, .. }
            | Self::Unlike { gang, .. }
            | Self::Circle { gang, .. }
            | Self::Consulted { gang, .. } => gang,
        }
    }

    /// Whether another wait is of the same sort, and differs in numbers alone.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Collecting { gang, .. }, Self::Collecting { gang: other, .. }) => gang == other,
            (Self::Gang { gang, why }, Self::Gang { gang: other, why: theirs }) => {
                let is_like = match (why, theirs) {
                    (Some(why), Some(theirs)) => why.is_like(theirs),
                    (why, theirs) => why.is_none() == theirs.is_none(),
                };
                gang == other && is_like
            }
            _ => self == other,
        }
    }
}

impl fmt::Display for GangWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undescribed(gang) => {
                write!(f, "gang {gang} is not described: create PodGroup {gang}")
            }
            Self::Unreadable(gang, why) => write!(f, "gang {gang} cannot start: {why}"),
            Self::Collecting { gang, there, min } => {
                write!(f, "gang {gang} waits for members: collected {there}/{min}")
            }
            Self::Gang { gang, why: None } => write!(f, "waiting for gang {gang} to start"),
            Self::Gang { gang, why: Some(why) } => write!(f, "waiting for gang {gang}: {why}"),
            Self::Unlike { gang, other, only } => {
                let only = listed(only.iter());
                write!(
                    f,
                    "gangs {gang} and {other} cannot start: each names the other, and only one of them \
                     names {only}; name the same gangs in both"
                )
            }
            Self::Circle { gang, others } => write!(
                f,
                "gangs {} cannot start: each of them waits for the next one to start, and the last for {gang}; \
                 name the same gangs in all of them, or take a name out of one",
                listed(std::iter::once(gang).chain(others)),
            ),
            Self::Consulted { gang, pod } => write!(
                f,
                "gang {gang} cannot start: extenders are asked about pod {pod}, and not about several \
                 pods at once; take the pod out of the gang, or its resource out of managedResources"
            ),
        }
    }
}

/// Gangs as a text, the first of them by name.
fn listed<'a>(gangs: impl Iterator<Item = &'a GangId>) -> String {
    let all: Vec<&GangId> = gangs.collect();
    let named: Vec<&str> = all.iter().take(NAMED_MAX).map(|gang| gang.as_str()).collect();
    match all.len().saturating_sub(NAMED_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Why a group of gangs has no nodes: one of its members has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangRefusal {
    /// The gangs.
    pub group: Box<str>,
    /// The member that no node can take, as `namespace/name`.
    pub pod: Box<str>,
    /// How many others had one.
    pub placed: usize,
}

/// With whom a pod gets its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangStamp {
    /// The gangs.
    pub group: Box<str>,
    /// How many members get one at once.
    pub members: usize,
}
