//! Which of several nodes loses the least.

use std::cmp::Reverse;

use super::Candidate;
use crate::moment::Moment;

/// What is lost on a node. Less is better; the order of the fields is the order of what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Loss {
    /// Victims that break a disruption budget.
    violations: usize,
    /// The priority of the most important victim.
    highest: i32,
    /// The priorities of all, each raised so far that none is below 0: more victims never count
    /// less.
    sum: i64,
    /// How many victims there are.
    count: usize,
    /// When the longest running one of the highest priority started: later is better.
    started: Reverse<Moment>,
}

/// What raises every priority to 0 or more.
const RAISE: i64 = 1 << 31;

impl Loss {
    /// What is lost with victims of these priorities and starts, the most important first.
    pub fn new(violations: usize, victims: impl Iterator<Item = (i32, Moment)> + Clone) -> Self {
        let highest = victims.clone().map(|(priority, _)| priority).max().unwrap_or(i32::MIN);
        let longest = victims.clone().filter(|(priority, _)| *priority == highest);
        let started = longest.map(|(_, started)| started).min().unwrap_or_default();
        Self {
            violations,
            highest,
            sum: victims.clone().map(|(priority, _)| i64::from(priority) + RAISE).sum(),
            count: victims.count(),
            started: Reverse(started),
        }
    }
}

/// The candidate that loses the least, and the first of those that are equal.
pub(super) fn best(candidates: &[Candidate]) -> Option<&Candidate> {
    // Of equal ones, the first is the least.
    candidates.iter().min_by_key(|candidate| candidate.loss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_lost_in_the_order_of_what_counts() {
        let loss = |violations, victims: &[(i32, u64)]| {
            Loss::new(violations, victims.iter().map(|(priority, at)| (*priority, Moment(*at))))
        };
        let check = |better: Loss, worse: Loss| assert!(better < worse, "{better:?} {worse:?}");
        check(loss(0, &[(9, 1), (9, 1)]), loss(1, &[(1, 1)]));
        check(loss(0, &[(1, 1), (1, 1), (1, 1)]), loss(0, &[(2, 1)]));
        check(loss(0, &[(2, 1), (0, 1)]), loss(0, &[(2, 1), (1, 1)]));
        // One more victim never counts less, even where priorities are below 0.
        check(loss(0, &[(-1, 1)]), loss(0, &[(-1, 1), (-5, 1)]));
        check(loss(0, &[(1, 5)]), loss(0, &[(1, 4)]));
        // Only the start of the most important ones counts.
        check(loss(0, &[(2, 5), (1, 1)]), loss(0, &[(2, 4), (1, 9)]));
    }
}
