//! How resources make a score.

use crate::ledger::{Ask, EXACT_BITS, Ledger};
use crate::node_set::NodeSet;
use crate::plugin::SCORE_MAX;

/// A resource and what it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weighted {
    /// Its name.
    pub resource: Box<str>,
    /// What it counts.
    pub weight: i64,
}

impl Weighted {
    /// CPU and memory, which count alike.
    #[must_use]
    pub fn cpu_and_memory() -> Vec<Self> {
        ["cpu", "memory"].map(|name| Self { resource: name.into(), weight: 1 }).into()
    }
}

/// How the use of a resource makes a score.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// The emptier the better.
    LeastAllocated,
    /// The fuller the better.
    MostAllocated,
    /// As a line through points of utilisation in percent and score says.
    RequestedToCapacityRatio(Box<[(i64, i64)]>),
}

/// Which requests a score looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// What pods are charged for.
    Charged,
    /// With something for containers that request nothing.
    Scored,
}

/// The columns of one resource, with what the pod adds.
pub struct Part<'a> {
    allocatable: &'a [i64],
    requested: &'a [i64],
    added: i64,
    weight: i64,
    /// Whether the columns are exact as floating-point numbers.
    exact: bool,
}

impl<'a> Part<'a> {
    /// The columns, where floating-point numbers are exact: what nodes have and what is requested
    /// of them, without what the pod adds.
    pub fn exact(&self) -> Option<(&'a [i64], &'a [i64], i64)> {
        let small = (0..1 << EXACT_BITS).contains(&self.added);
        (self.exact && small).then_some((self.allocatable, self.requested, self.added))
    }

    /// The same where the pod adds this.
    pub fn adding(&mut self, added: i64) {
        self.added = added;
    }

    /// What the node has, and what is requested of it with the pod.
    pub fn at(&self, node: usize) -> (i64, i64) {
        (self.allocatable[node], self.requested[node].saturating_add(self.added))
    }
}

/// Nodes that are looked at together.
const BLOCK: usize = 64;

/// A floating-point number whose lowest bits are those of an integer below 2^52.
const TWO_TO_52: f64 = 4_503_599_627_370_496.0;

/// An amount below 2^52 as a floating-point number, in a form that works on many at once.
#[inline]
pub fn exactly(amount: i64) -> f64 {
    f64::from_bits(TWO_TO_52.to_bits() | amount.cast_unsigned()) - TWO_TO_52
}

/// A number from 0 to 2^51 without what is behind the point, in a form that works on many at once.
#[inline]
fn cut(number: f64) -> f64 {
    let nearest = (number + TWO_TO_52) - TWO_TO_52;
    if nearest > number { nearest - 1.0 } else { nearest }
}

/// A number from 0 to 2^31 as an integer, without what is behind the point.
#[inline]
pub fn whole(number: f64) -> i32 {
    (cut(number) + TWO_TO_52).to_bits() as i32
}

/// Whether a score is asked for so many nodes that it is given to all, in a row.
pub fn are_most(nodes: &NodeSet, places: usize) -> bool {
    nodes.len() > places / 4
}

/// The parts of a score for a pod. A scalar resource that it does not request plays no part.
pub fn parts<'a>(
    ledger: &'a Ledger,
    ask: Ask,
    resources: &[Weighted],
    counted: Counted,
) -> Vec<Part<'a>> {
    let columns = &ledger.nodes.resources;
    let requests = ledger.asks.requests.get(ask.requests);
    let charged = &requests.charged;
    let scored = columns.is_scored_exact();
    let part = |one: &Weighted| {
        let (column, requested, added, exact) = match (&*one.resource, counted) {
            ("cpu", Counted::Charged) => {
                (&columns.cpu, &columns.cpu.requested, charged.cpu_millis, true)
            }
            ("cpu", Counted::Scored) => {
                (&columns.cpu, &columns.cpu_scored, requests.cpu_millis_scored, scored)
            }
            ("memory", Counted::Charged) => {
                (&columns.memory, &columns.memory.requested, charged.memory_bytes, true)
            }
            ("memory", Counted::Scored) => {
                (&columns.memory, &columns.memory_scored, requests.memory_bytes_scored, scored)
            }
            ("ephemeral-storage", _) => {
                (&columns.storage, &columns.storage.requested, charged.storage_bytes, true)
            }
            (name, _) => {
                let added = charged.scalar(name);
                let column = columns.scalar(columns.find(name).filter(|_| added != 0)?);
                (column, &column.requested, added, true)
            }
        };
        let (allocatable, exact) = (&column.allocatable, exact && column.is_exact());
        Some(Part { allocatable, requested, added, weight: one.weight, exact })
    };
    resources.iter().filter_map(part).collect()
}

impl Strategy {
    /// Writes the scores of all nodes, many at once. Each is what [`Self::score`] says.
    pub fn score_all(&self, parts: &[Part<'_>], raw: &mut [i32]) {
        let light = |part: &Part<'_>| (0..=WEIGHT_MAX).contains(&part.weight);
        let exact = parts.iter().all(|part| part.exact().is_some() && light(part));
        match self {
            Self::LeastAllocated if exact => {
                score_exactly(parts, raw, |has, asked| if asked > has { 0.0 } else { has - asked });
            }
            Self::MostAllocated if exact => {
                score_exactly(parts, raw, |has, asked| if asked > has { has } else { asked });
            }
            _ => {
                for (node, raw) in raw.iter_mut().enumerate() {
                    *raw = i32::try_from(self.score(parts, node)).unwrap_or(i32::MAX);
                }
            }
        }
    }

    /// The score of a node.
    pub fn score(&self, parts: &[Part<'_>], node: usize) -> i64 {
        self.of(parts.iter().map(|part| {
            let (allocatable, requested) = part.at(node);
            (allocatable, requested, part.weight)
        }))
    }

    /// The score of something that has so much, of which so much is asked, and that counts so much.
    pub fn of(&self, parts: impl IntoIterator<Item = (i64, i64, i64)>) -> i64 {
        let (mut sum, mut weights) = (0_i64, 0_i64);
        for (allocatable, requested, weight) in parts {
            if allocatable <= 0 {
                continue;
            }
            let score = match self {
                Self::LeastAllocated => least(requested, allocatable),
                Self::MostAllocated => {
                    requested.min(allocatable).saturating_mul(SCORE_MAX) / allocatable
                }
                Self::RequestedToCapacityRatio(points) => {
                    match ratio(points, requested, allocatable) {
                        // A resource that scores nothing does not pull the others down.
                        score if score <= 0 => continue,
                        score => score,
                    }
                }
            };
            sum = score.saturating_mul(weight).saturating_add(sum);
            weights = weight.saturating_add(weights);
        }
        match self {
            _ if weights <= 0 => 0,
            Self::LeastAllocated | Self::MostAllocated => sum / weights,
            Self::RequestedToCapacityRatio(_) => (sum as f64 / weights as f64).round() as i64,
        }
    }
}

/// Weights above this are not worth a fast way.
const WEIGHT_MAX: i64 = 1 << 20;

/// Writes the scores of all nodes, by what counts of what they have and what is asked of them.
///
/// For integers below 2^53 the quotient of floating-point numbers, cut off, is that of integers: it
/// is rounded up to an integer only where it is one.
fn score_exactly(parts: &[Part<'_>], raw: &mut [i32], counts: impl Fn(f64, f64) -> f64) {
    for (number, raw) in raw.chunks_mut(BLOCK).enumerate() {
        let nodes = number * BLOCK..number * BLOCK + raw.len();
        let (mut sums, mut weights) = ([0.0; BLOCK], [0.0; BLOCK]);
        for part in parts {
            let columns =
                part.allocatable[nodes.clone()].iter().zip(&part.requested[nodes.clone()]);
            let (added, weight) = (part.added, part.weight as f64);
            for ((sum, weights), (has, asked)) in sums.iter_mut().zip(&mut weights).zip(columns) {
                let (has, asked) = (exactly(*has), exactly(asked.wrapping_add(added)));
                let (divisor, own) = if has == 0.0 { (1.0, 0.0) } else { (has, weight) };
                *sum += cut(counts(has, asked) * SCORE_MAX as f64 / divisor) * own;
                *weights += own;
            }
        }
        for (raw, (sum, weight)) in raw.iter_mut().zip(sums.iter().zip(&weights)) {
            *raw = whole(sum / if *weight == 0.0 { 1.0 } else { *weight });
        }
    }
}

fn least(requested: i64, allocatable: i64) -> i64 {
    if requested > allocatable {
        return 0;
    }
    allocatable.saturating_sub(requested).saturating_mul(SCORE_MAX) / allocatable
}

fn ratio(points: &[(i64, i64)], requested: i64, allocatable: i64) -> i64 {
    let percent =
        if requested > allocatable { 100 } else { requested.saturating_mul(100) / allocatable };
    let Some(next) = points.iter().position(|(at, _)| percent <= *at) else {
        return points.last().map_or(0, |(_, score)| *score);
    };
    let (to, score) = points[next];
    match next.checked_sub(1).map(|before| points[before]) {
        None => score,
        Some((from, start)) => start + (score - start) * (percent - from) / (to - from),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::{Just, any, prop_oneof, proptest};
    use proptest::strategy::Strategy as Generator;

    use super::*;

    /// What nodes have and what is requested of them, some of it too large to be exact.
    pub fn amounts() -> impl Generator<Value = Vec<(i64, i64)>> {
        let small = || prop_oneof![0..70_i64, 0..(1_i64 << 40), 0..(1_i64 << 45)];
        let any = || {
            let ends = Just(i64::MIN).prop_union(Just(i64::MAX)).or(Just(-1));
            prop_oneof![0..70_i64, Just(1_i64 << 45), 0..(i64::MAX / 200), any::<i64>(), ends]
        };
        let few = 1..150;
        prop_oneof![
            2 => proptest::collection::vec((small(), small()), few.clone()),
            1 => proptest::collection::vec((any(), any()), few),
        ]
    }

    /// Calls with two parts that have these amounts.
    pub fn with_parts(
        [one, two]: [&[(i64, i64)]; 2],
        added: i64,
        weight: i64,
        call: impl FnOnce(&[Part<'_>], usize),
    ) {
        let nodes = one.len().min(two.len());
        let columns = [one, two]
            .map(|amounts| -> (Vec<i64>, Vec<i64>) { amounts[..nodes].iter().copied().unzip() });
        let fits = |amounts: &[i64]| amounts.iter().all(|amount| amount >> EXACT_BITS == 0);
        let [one, two] = columns.each_ref().map(|(allocatable, requested)| Part {
            exact: fits(allocatable) && fits(requested),
            allocatable,
            requested,
            added,
            weight,
        });
        call(&[Part { weight: 1, ..one }, two], nodes);
    }

    #[test]
    fn what_is_behind_the_point_is_cut_off() {
        let check = |number: f64| assert_eq!(whole(number), number as i32, "{number}");
        [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 99.999_999_999, 100.0, 2e9]
            .into_iter()
            .for_each(check);
        check(1.0_f64.next_down());
        check(3.0_f64.next_up());
    }

    proptest! {
        #[test]
        fn many_at_once_score_as_each_does(
            one in amounts(),
            two in amounts(),
            added in prop_oneof![3 => 0..100_i64, 1 => any::<i64>()],
            weight in 1..4_i64,
        ) {
            let line = Strategy::RequestedToCapacityRatio(Box::new([(0, 100), (60, 10), (100, 0)]));
            for strategy in [Strategy::LeastAllocated, Strategy::MostAllocated, line] {
                with_parts([&one, &two], added, weight, |parts, nodes| {
                    let mut raw = vec![-1; nodes];
                    strategy.score_all(parts, &mut raw);
                    let each =
                        |node| i32::try_from(strategy.score(parts, node)).unwrap_or(i32::MAX);
                    assert_eq!(raw, (0..nodes).map(each).collect::<Vec<_>>());
                });
            }
        }
    }

    #[test]
    fn a_line_through_points_gives_the_score_between_them() {
        let points = [(0, 0), (50, 100), (100, 20)];
        let check = |requested, expected| assert_eq!(ratio(&points, requested, 100), expected);
        check(0, 0);
        check(25, 50);
        check(50, 100);
        check(75, 60);
        check(100, 20);
        check(150, 20);
    }
}
