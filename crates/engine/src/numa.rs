//! NUMA nodes: on which of them a pod is put, and how much of each it gets.
//!
//! It knows neither pods nor nodes of a cluster: whoever asks says what each NUMA node has and what is
//! asked for. Sets of NUMA nodes are tried from the smallest that can have enough on, and not more than
//! some thousands of them.

mod split;

use std::fmt;

pub use split::{Piece, Split, split};

use crate::cpus::Strategy;

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

/// How pods use the CPUs of a NUMA node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Want {
    /// Its name.
    pub resource: Box<str>,
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
pub struct Question {
    /// What the pod asks for.
    pub wants: Vec<Want>,
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
pub fn place(zones: &[Zone], question: &Question) -> Result<Vec<Piece>, Unplaced> {
    if zones.is_empty() {
        return Err(Unplaced::NoZones);
    }
    let usable: Places = (0..zones.len()).filter(|at| has_some(&zones[*at], question)).collect();
    // What all of them together do not have, no set of them has.
    let fits = !usable.is_empty() && split(zones, &usable, &question.wants).missing.is_empty();
    let most = match question.policy {
        _ if !fits => 0,
        Policy::Single => 1,
        Policy::BestEffort | Policy::Restricted => usable.len(),
    };
    let (mut left, mut fits_somewhere) = (SETS_MAX, false);
    for size in fewest(zones, &usable, question)..=most {
        let mut best: Option<(i64, Vec<Piece>)> = None;
        for places in combinations(usable.len(), size).take(left) {
            left -= 1;
            let places: Places = places.into_iter().map(|at| usable[at]).collect();
            let Some(pieces) = tried(zones, &places, question) else { continue };
            fits_somewhere = true;
            if question.is_apart && is_used_otherwise(zones, &places) {
                continue;
            }
            let score = score(zones, &places, question);
            if best.as_ref().is_none_or(|(other, _)| score > *other) {
                best = Some((score, pieces));
            }
        }
        if let Some((_, pieces)) = best {
            return Ok(pieces);
        }
    }
    match question.policy {
        // Whatever there is: what is missing is found out by those who count whole nodes.
        Policy::BestEffort => {
            let all: Places = (0..zones.len()).collect();
            Ok(split(zones, &all, &question.wants).pieces)
        }
        _ if fits_somewhere => Err(Unplaced::Unaligned),
        Policy::Restricted | Policy::Single => {
            Err(Unplaced::Unsatisfied(short_of(zones, question)))
        }
    }
}

/// Sets that are tried at most. Machines with so many NUMA nodes that there are more of them are rare,
/// and what is not found among these is as good as not there.
const SETS_MAX: usize = 4_096;

/// Whether a NUMA node has some of everything that is asked and that it reports.
fn has_some(zone: &Zone, question: &Question) -> bool {
    zone.amounts
        .iter()
        .zip(&question.wants)
        .all(|(room, want)| want.amount <= 0 || room.as_ref().is_none_or(|room| room.free > 0))
}

/// No smaller set has enough of each resource.
fn fewest(zones: &[Zone], usable: &[usize], question: &Question) -> usize {
    let of = |(number, want): (usize, &Want)| {
        let grain = want.grain.max(1);
        let free = usable.iter().filter_map(|at| zones[*at].amounts[number]);
        let mut free: Vec<i64> = free.map(|room| room.free.max(0) / grain * grain).collect();
        free.sort_unstable_by(|a, b| b.cmp(a));
        let sums = free.iter().scan(0_i64, |sum, own| {
            *sum = sum.saturating_add(*own);
            Some(*sum)
        });
        sums.take_while(|sum| *sum < want.amount).count() + 1
    };
    question.wants.iter().enumerate().map(of).max().unwrap_or(1).clamp(1, usable.len().max(1))
}

/// What a pod gets of these, where they have enough.
fn tried(zones: &[Zone], places: &[usize], question: &Question) -> Option<Vec<Piece>> {
    let Split { pieces, missing } = split(zones, places, &question.wants);
    missing.is_empty().then_some(pieces)
}

/// Whether pods that span several NUMA nodes and pods that do not would meet.
fn is_used_otherwise(zones: &[Zone], places: &[usize]) -> bool {
    let other = if places.len() > 1 { Use::Single } else { Use::Shared };
    places.iter().any(|place| zones[*place].used == other)
}

/// How good a set is: by how much of it would be used.
fn score(zones: &[Zone], places: &[usize], question: &Question) -> i64 {
    let (mut sum, mut weights) = (0_i64, 0_i64);
    for (number, want) in question.wants.iter().enumerate() {
        let rooms = places.iter().filter_map(|place| zones[*place].amounts[number]);
        let (total, free) = rooms.fold((0_i64, 0_i64), |(total, free), room| {
            (total.saturating_add(room.total), free.saturating_add(room.free))
        });
        if total <= 0 {
            continue;
        }
        let used = total.saturating_sub(free).saturating_add(want.amount).clamp(0, total);
        let counted = match question.strategy {
            Strategy::MostAllocated => used,
            Strategy::LeastAllocated => total - used,
        };
        let part = i128::from(counted) * i128::from(crate::plugin::SCORE_MAX) / i128::from(total);
        sum += i64::try_from(part).unwrap_or(0).saturating_mul(want.weight);
        weights = weights.saturating_add(want.weight);
    }
    if weights > 0 { sum / weights } else { 0 }
}

/// The resource that is missing on all together, or else the first that no allowed set has.
fn short_of(zones: &[Zone], question: &Question) -> Box<str> {
    let all: Places = (0..zones.len()).collect();
    let missing = split(zones, &all, &question.wants).missing;
    let largest = |number: usize| {
        let rooms = zones.iter().filter_map(|zone| zone.amounts[number]);
        rooms.map(|room| room.free).max()
    };
    let wants = question.wants.iter().enumerate();
    let mut alone =
        wants.filter(|(number, want)| largest(*number).is_some_and(|most| most < want.amount));
    let first = missing.into_iter().next().or_else(|| Some(alone.next()?.1.resource.clone()));
    let any = || question.wants.first().map(|want| want.resource.clone());
    first.or_else(any).unwrap_or_default()
}

/// Sets of so many of the places below `count`, in order.
fn combinations(count: usize, size: usize) -> impl Iterator<Item = Places> {
    let mut next: Option<Places> = (size <= count).then(|| (0..size).collect());
    std::iter::from_fn(move || {
        let now = next.take()?;
        // The last place that can move up, does; those after it follow right behind.
        let movable = (0..size).rev().find(|at| now[*at] < count - size + *at);
        next = movable.map(|at| {
            let mut then = now.clone();
            let first = then[at] + 1;
            (at..size).for_each(|place| then[place] = first + (place - at));
            then
        });
        Some(now)
    })
}

#[cfg(test)]
mod tests;
