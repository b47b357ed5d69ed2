//! Sets of NUMA nodes: which are tried, and which of them is best.

use super::split::gives_all;
use super::{Places, Policy, Question, Use, Want, Zone};
use crate::cpus::Strategy;
use crate::plugin::SCORE_MAX;

/// Sets that are tried at most. Machines with so many NUMA nodes that there are more of them are rare,
/// and what is not found among these is as good as not there.
pub(super) const SETS_MAX: usize = 4_096;

/// When a search ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Enough {
    /// With the first set that will do.
    First,
    /// With the best of the smallest sets that will do.
    Best,
}

/// A search for a set of NUMA nodes that will do.
pub(super) struct Search<'a> {
    zones: &'a [Zone],
    question: &'a Question<'a>,
    /// NUMA nodes that have some of everything.
    usable: Places,
    /// By usable NUMA node, the last one before it that is no different from it.
    twins: Vec<Option<usize>>,
    /// What can be given of each resource, by resource and then by usable NUMA node.
    whole: Vec<i64>,
    fits_somewhere: bool,
    #[cfg(test)]
    scored: std::cell::Cell<usize>,
}

impl<'a> Search<'a> {
    pub(super) fn new(zones: &'a [Zone], question: &'a Question<'a>, usable: Places) -> Self {
        let twin = |at: usize| {
            let (own, before) = (&zones[usable[at]], &usable[..at]);
            let is_same = |other: &Zone| other.amounts == own.amounts && other.used == own.used;
            before.iter().rposition(|place| is_same(&zones[*place]))
        };
        let wants = question.wants.iter().enumerate();
        let whole = wants.flat_map(|(number, want)| {
            let grain = want.grain.max(1);
            let free =
                move |place: &usize| zones[*place].amounts[number].map_or(0, |room| room.free);
            usable.iter().map(move |place| free(place).max(0) / grain * grain)
        });
        let (twins, whole) = ((0..usable.len()).map(twin).collect(), whole.collect());
        Self {
            zones,
            question,
            usable,
            twins,
            whole,
            fits_somewhere: false,
            #[cfg(test)]
            scored: std::cell::Cell::default(),
        }
    }

    /// How many sets were compared with others.
    #[cfg(test)]
    pub(super) fn scored(&self) -> usize {
        self.scored.get()
    }

    /// Whether some set that was tried has enough, but is used otherwise.
    pub(super) fn fits_somewhere(&self) -> bool {
        self.fits_somewhere
    }

    pub(super) fn find(&mut self, enough: Enough) -> Option<Places> {
        let all: Places = (0..self.usable.len()).collect();
        // What all of them together do not have, no set of them has.
        let most = match self.question.policy {
            _ if all.is_empty() || !self.fits(&all) => 0,
            Policy::Single => 1,
            Policy::BestEffort | Policy::Restricted => all.len(),
        };
        let mut left = SETS_MAX;
        (self.fewest()..=most).find_map(|size| self.find_among(size, &mut left, enough))
    }

    /// The best of the sets of one size that will do.
    fn find_among(&mut self, size: usize, left: &mut usize, enough: Enough) -> Option<Places> {
        let mut best: Option<(i64, Places)> = None;
        let mut set: Places = (0..size).collect();
        let mut goes_on = size <= self.usable.len();
        while goes_on && *left > 0 {
            *left -= 1;
            if let Some(score) = self.tried(&set)
                && best.as_ref().is_none_or(|(other, _)| score > *other)
            {
                best = Some((score, set.clone()));
                if enough == Enough::First {
                    break;
                }
            }
            goes_on = advance(&mut set, self.usable.len());
        }
        best.map(|(_, set)| set.into_iter().map(|at| self.usable[at]).collect())
    }

    /// How good a set is, where it will do and no set that came before is like it.
    fn tried(&mut self, set: &[usize]) -> Option<i64> {
        let is_first = |at: &usize| self.twins[*at].is_none_or(|twin| set.contains(&twin));
        if !set.iter().all(is_first) || !self.fits(set) {
            return None;
        }
        self.fits_somewhere = true;
        if self.question.is_apart && self.is_used_otherwise(set) {
            return None;
        }
        Some(self.score(set))
    }

    /// Whether a set has enough of everything that any NUMA node reports.
    fn fits(&self, set: &[usize]) -> bool {
        let fits = |(number, want): (usize, &Want<'_>)| {
            let is_known = self.zones.iter().any(|zone| zone.amounts[number].is_some());
            if !is_known || want.amount <= 0 {
                return true;
            }
            let whole = &self.whole[number * self.usable.len()..];
            let sum = set.iter().fold(0_i64, |sum, at| sum.saturating_add(whole[*at]));
            // Where it does not come out even, some may be left that nobody can give.
            let is_even = want.amount % want.grain.max(1) == 0;
            sum >= want.amount && (is_even || self.gives_all(set, number))
        };
        self.question.wants.iter().enumerate().all(fits)
    }

    fn gives_all(&self, set: &[usize], number: usize) -> bool {
        let places: Places = set.iter().map(|at| self.usable[*at]).collect();
        gives_all(self.zones, &places, (number, &self.question.wants[number]))
    }

    /// No smaller set has enough of each resource.
    fn fewest(&self) -> usize {
        let of = |(number, want): (usize, &Want<'_>)| {
            let is_reported = |at: &usize| self.zones[self.usable[*at]].amounts[number].is_some();
            let whole = &self.whole[number * self.usable.len()..];
            let places = (0..self.usable.len()).filter(is_reported);
            let mut free: Vec<i64> = places.map(|at| whole[at]).collect();
            free.sort_unstable_by(|a, b| b.cmp(a));
            let sums = free.iter().scan(0_i64, |sum, own| {
                *sum = sum.saturating_add(*own);
                Some(*sum)
            });
            sums.take_while(|sum| *sum < want.amount).count() + 1
        };
        let fewest = self.question.wants.iter().enumerate().map(of).max().unwrap_or(1);
        fewest.clamp(1, self.usable.len().max(1))
    }

    fn members<'s>(&'s self, set: &'s [usize]) -> impl Iterator<Item = &'s Zone> {
        set.iter().map(|at| &self.zones[self.usable[*at]])
    }

    /// Whether pods that span several NUMA nodes and pods that do not would meet.
    fn is_used_otherwise(&self, set: &[usize]) -> bool {
        let other = if set.len() > 1 { Use::Single } else { Use::Shared };
        self.members(set).any(|zone| zone.used == other)
    }

    /// How good a set is: by how much of it would be used.
    fn score(&self, set: &[usize]) -> i64 {
        #[cfg(test)]
        self.scored.set(self.scored.get() + 1);
        let (mut sum, mut weights) = (0_i64, 0_i64);
        for (number, want) in self.question.wants.iter().enumerate() {
            let rooms = self.members(set).filter_map(|zone| zone.amounts[number]);
            let (total, free) = rooms.fold((0_i64, 0_i64), |(total, free), room| {
                (total.saturating_add(room.total), free.saturating_add(room.free))
            });
            if total <= 0 {
                continue;
            }
            let used = total.saturating_sub(free).saturating_add(want.amount).clamp(0, total);
            let counted = match self.question.strategy {
                Strategy::MostAllocated => used,
                Strategy::LeastAllocated => total - used,
            };
            sum += part(counted, total).saturating_mul(want.weight);
            weights = weights.saturating_add(want.weight);
        }
        if weights > 0 { sum / weights } else { 0 }
    }
}

/// A part of a whole, of [`SCORE_MAX`].
fn part(counted: i64, total: i64) -> i64 {
    match counted.checked_mul(SCORE_MAX) {
        Some(counted) => counted / total,
        None => {
            let part = i128::from(counted) * i128::from(SCORE_MAX) / i128::from(total);
            i64::try_from(part).unwrap_or(0)
        }
    }
}

/// Goes on to the next set of as many of the places below `count`, and says whether there is one.
pub(super) fn advance(set: &mut [usize], count: usize) -> bool {
    let size = set.len();
    // The last place that can move up, does; those after it follow right behind.
    let movable = (0..size).rev().find(|at| set[*at] < count - size + *at);
    let Some(at) = movable else { return false };
    let first = set[at] + 1;
    (at..size).for_each(|place| set[place] = first + (place - at));
    true
}
