//! Why a quota has no room.

use std::fmt;

use super::{Misplaced, quantity};

/// Why a quota does not admit somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaRefusal {
    /// The quota that refuses: the one that is asked, or one above it.
    pub quota: Box<str>,
    /// The quotas from the one that refuses down to the one that is asked.
    pub path: Vec<Box<str>>,
    /// Why.
    pub reason: RefusalReason,
}

/// Why a quota refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalReason {
    /// There is no such quota.
    Unknown,
    /// It is nowhere in the tree.
    Misplaced(Misplaced),
    /// More would be used than may be.
    Exceeded {
        /// What it is held to.
        bound: Bound,
        /// Of what there is too little: at least one.
        excesses: Vec<Excess>,
    },
}

/// What a quota is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// What it may use now.
    Runtime,
    /// Its ceiling.
    Max,
    /// What it is guaranteed: only so much is used by who never makes room.
    Min,
}

impl Bound {
    /// As one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Max => "max",
            Self::Min => "min",
        }
    }

    /// Of what there is too little where this is not enough.
    fn what(self) -> &'static str {
        match self {
            Self::Runtime | Self::Max => "quotas",
            Self::Min => "non-preemptible quotas",
        }
    }
}

/// A resource of which there is too little.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    /// Which.
    pub resource: Box<str>,
    /// How much may be used.
    pub limit: i64,
    /// How much is.
    pub used: i64,
    /// How much is asked for.
    pub asked: i64,
}

impl QuotaRefusal {
    /// Whether words on a pod say that a quota has no room for it.
    #[must_use]
    pub fn is_told_by(words: &str) -> bool {
        [Bound::Runtime, Bound::Max, Bound::Min].into_iter().any(|bound| {
            let of = |who| words.contains(&format!("Insufficient {}, {who}", bound.what()));
            of("quotaName: ") || of("quotaNameTopo: ")
        })
    }
}

impl fmt::Display for QuotaRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, path, reason } = self;
        match reason {
            RefusalReason::Unknown => {
                write!(f, "quota {quota} does not exist: create it or name another")
            }
            RefusalReason::Misplaced(why) => write!(f, "quota {quota} admits nothing: {why}"),
            RefusalReason::Exceeded { bound, excesses } => {
                let of = |amount: fn(&Excess) -> i64| {
                    let own = excesses.iter();
                    let own = own.map(|own| {
                        format!("{} {}", own.resource, quantity(&own.resource, amount(own)))
                    });
                    own.collect::<Vec<_>>().join(", ")
                };
                let what = bound.what();
                let who = match path.len() {
                    1 => format!("quotaName: {quota}"),
                    _ => format!("quotaNameTopo: [{}]", path.join(" ")),
                };
                let limits = format!("{}: {}", bound.name(), of(|own| own.limit));
                let (used, asked) = (of(|own| own.used), of(|own| own.asked));
                let names: Vec<&str> = excesses.iter().map(|own| &*own.resource).collect();
                let names = names.join(" ");
                write!(
                    f,
                    "Insufficient {what}, {who}, {limits}, used: {used}, pod's request: {asked}, \
                     exceedDimensions: [{names}]"
                )
            }
        }
    }
}
