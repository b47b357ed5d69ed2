//! How resources make a score.

use crate::ledger::{Ask, Ledger};
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
}

impl Part<'_> {
    /// What the node has, and what is requested of it with the pod.
    pub fn at(&self, node: usize) -> (i64, i64) {
        (self.allocatable[node], self.requested[node] + self.added)
    }
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
    let part = |one: &Weighted| {
        let (column, requested, added) = match (&*one.resource, counted) {
            ("cpu", Counted::Charged) => (&columns.cpu, &columns.cpu.requested, charged.cpu_millis),
            ("cpu", Counted::Scored) => {
                (&columns.cpu, &columns.cpu_scored, requests.cpu_millis_scored)
            }
            ("memory", Counted::Charged) => {
                (&columns.memory, &columns.memory.requested, charged.memory_bytes)
            }
            ("memory", Counted::Scored) => {
                (&columns.memory, &columns.memory_scored, requests.memory_bytes_scored)
            }
            ("ephemeral-storage", _) => {
                (&columns.storage, &columns.storage.requested, charged.storage_bytes)
            }
            (name, _) => {
                let added = charged.scalar(name);
                let column = columns.scalar(columns.find(name).filter(|_| added != 0)?);
                (column, &column.requested, added)
            }
        };
        let allocatable = &column.allocatable;
        Some(Part { allocatable, requested, added, weight: one.weight })
    };
    resources.iter().filter_map(part).collect()
}

impl Strategy {
    /// The score of a node.
    pub fn score(&self, parts: &[Part<'_>], node: usize) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for part in parts {
            let (allocatable, requested) = part.at(node);
            if allocatable == 0 {
                continue;
            }
            let score = match self {
                Self::LeastAllocated => least(requested, allocatable),
                Self::MostAllocated => requested.min(allocatable) * SCORE_MAX / allocatable,
                Self::RequestedToCapacityRatio(points) => {
                    match ratio(points, requested, allocatable) {
                        // A resource that scores nothing does not pull the others down.
                        score if score <= 0 => continue,
                        score => score,
                    }
                }
            };
            sum += score * part.weight;
            weights += part.weight;
        }
        match self {
            _ if weights == 0 => 0,
            Self::LeastAllocated | Self::MostAllocated => sum / weights,
            Self::RequestedToCapacityRatio(_) => (sum as f64 / weights as f64).round() as i64,
        }
    }
}

fn least(requested: i64, allocatable: i64) -> i64 {
    if requested > allocatable { 0 } else { (allocatable - requested) * SCORE_MAX / allocatable }
}

fn ratio(points: &[(i64, i64)], requested: i64, allocatable: i64) -> i64 {
    let percent = if requested > allocatable { 100 } else { requested * 100 / allocatable };
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
mod tests {
    use super::*;

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
