//! NUMA nodes: on which of them a pod is put, and how much of each it gets.
//!
//! It knows neither pods nor nodes of a cluster: whoever asks says what each NUMA node has and what is
//! asked for. Sets of NUMA nodes are tried from the smallest that can have enough on, one for all that
//! are no different from it, and not more than some thousands of them.

mod sets;
mod split;

use std::fmt;

pub use split::{Piece, Split, split};

use crate::cpus::Strategy;
use sets::{Enough, Search};

/// One NUMA node, as far as a pod is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Zone {
    /// Its number.
    pub id: u32,
    /// What it has and what is free of it, by the order of the resources that are asked for; nothing
    /// where it does not report the resource.
    pub amounts: Vec<Option<Room>>,
    /// How the pods are that have CPUs of it.
    pub used: Use,
}

/// What a NUMA node has of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Room {
    /// In all.
    pub total: i64,
    /// What nobody has.
    pub free: i64,
}

/// How pods use the CPUs of a NUMA node; who spans several counts for more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Use {
    /// Nobody does.
    #[default]
    Idle,
    /// Only pods that are on no other.
    Single,
    /// Pods that are on others, too.
    Shared,
}

/// A resource that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Want<'a> {
    /// Its name.
    pub resource: &'a str,
    /// How much.
    pub amount: i64,
    /// Of how much it is given at a time.
    pub grain: i64,
    /// What it counts in scores.
    pub weight: i64,
}

/// How NUMA nodes are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// As few as can be; all where nothing fits.
    BestEffort,
    /// As few as can be, or none.
    Restricted,
    /// One, or none.
    Single,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question<'a> {
    /// What the pod asks for.
    pub wants: Vec<Want<'a>>,
    /// How NUMA nodes are chosen.
    pub policy: Policy,
    /// Whether pods that are on one and pods that are on several are kept apart.
    pub is_apart: bool,
    /// Which of equally many are better.
    pub strategy: Strategy,
}

/// Why no NUMA nodes can be chosen. The texts are Koordinator's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unplaced {
    /// There are none.
    NoZones,
    /// No set of them has so much of this.
    Unsatisfied(Box<str>),
    /// Those that have are used otherwise, or are too many.
    Unaligned,
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoZones => f.write_str("node(s) missing NUMA resources"),
            Self::Unsatisfied(resource) => write!(f, "Unsatisfied NUMA {resource}"),
            Self::Unaligned => f.write_str("Unaligned NUMA Hint"),
        }
    }
}

/// A set of NUMA nodes, by their places.
type Places = Vec<usize>;

/// What of which NUMA nodes a pod gets.
///
/// # Errors
/// Why it gets nothing.
pub fn place(zones: &[Zone], question: &Question<'_>) -> Result<Vec<Piece>, Unplaced> {
    let places = find(zones, question, Enough::Best)?;
    Ok(split(zones, &places, &question.wants).pieces)
}

/// Whether a pod gets anything, which is known sooner than what.
///
/// # Errors
/// Why it gets nothing.
pub fn check(zones: &[Zone], question: &Question<'_>) -> Result<(), Unplaced> {
    find(zones, question, Enough::First).map(|_| ())
}

fn find(zones: &[Zone], question: &Question<'_>, enough: Enough) -> Result<Places, Unplaced> {
    if zones.is_empty() {
        return Err(Unplaced::NoZones);
    }
    let usable: Places = (0..zones.len()).filter(|at| has_some(&zones[*at], question)).collect();
    let mut search = Search::new(zones, question, usable);
    if let Some(places) = search.find(enough) {
        return Ok(places);
    }
    match question.policy {
        // Whatever there is: what is missing is found out by those who count whole nodes.
        Policy::BestEffort => Ok((0..zones.len()).collect()),
        _ if search.fits_somewhere() => Err(Unplaced::Unaligned),
        Policy::Restricted | Policy::Single => {
            Err(Unplaced::Unsatisfied(short_of(zones, question)))
        }
    }
}

/// Whether a NUMA node has some of everything that is asked and that it reports.
fn has_some(zone: &Zone, question: &Question<'_>) -> bool {
    zone.amounts
        .iter()
        .zip(&question.wants)
        .all(|(room, want)| want.amount <= 0 || room.as_ref().is_none_or(|room| room.free > 0))
}

/// The resource that is missing on all together, or else the first that no allowed set has.
fn short_of(zones: &[Zone], question: &Question<'_>) -> Box<str> {
    let all: Places = (0..zones.len()).collect();
    let missing = split(zones, &all, &question.wants).missing;
    let largest = |number: usize| {
        let rooms = zones.iter().filter_map(|zone| zone.amounts[number]);
        rooms.map(|room| room.free).max()
    };
    let wants = question.wants.iter().enumerate();
    let mut alone =
        wants.filter(|(number, want)| largest(*number).is_some_and(|most| most < want.amount));
    let first = missing.into_iter().next().or_else(|| Some(alone.next()?.1.resource.into()));
    let any = || question.wants.first().map(|want| want.resource.into());
    first.or_else(any).unwrap_or_default()
}

#[cfg(test)]
mod tests;
