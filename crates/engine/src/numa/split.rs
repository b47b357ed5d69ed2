//! How much of each of some NUMA nodes a pod gets.

use super::{Want, Zone};

/// What a pod gets of one NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The number of the NUMA node.
    pub zone: u32,
    /// How much, by the order of the resources that are asked for; nothing of what it does not report.
    pub amounts: Vec<i64>,
}

/// What a pod gets, and what of it is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// By NUMA node.
    pub pieces: Vec<Piece>,
    /// Resources that some NUMA node reports and of which these have too little.
    pub missing: Vec<Box<str>>,
}

/// Gives a pod what it asks for of some NUMA nodes, as evenly as can be: those that have least give
/// first, each no more than its share of what is left.
#[must_use]
pub fn split(zones: &[Zone], places: &[usize], wants: &[Want<'_>]) -> Split {
    let mut pieces: Vec<Piece> = places
        .iter()
        .map(|place| Piece { zone: zones[*place].id, amounts: vec![0; wants.len()] })
        .collect();
    let mut missing = Vec::new();
    for (number, want) in wants.iter().enumerate() {
        let is_known = zones.iter().any(|zone| zone.amounts[number].is_some());
        if !is_known || want.amount <= 0 {
            continue;
        }
        let give = |at: usize, given: i64| pieces[at].amounts[number] = given;
        if share(zones, places, (number, want), give) > 0 {
            missing.push(want.resource.into());
        }
    }
    Split { pieces, missing }
}

/// Whether nothing of a resource is left that nobody can give.
pub(super) fn gives_all(zones: &[Zone], places: &[usize], want: (usize, &Want<'_>)) -> bool {
    share(zones, places, want, |_, _| {}) <= 0
}

/// Shares a resource out, and returns what is left of it.
fn share(
    zones: &[Zone],
    places: &[usize],
    (number, want): (usize, &Want<'_>),
    mut give: impl FnMut(usize, i64),
) -> i64 {
    let grain = want.grain.max(1);
    let free = |at: usize| zones[places[at]].amounts[number].map_or(0, |room| room.free.max(0));
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|at| (free(*at), zones[places[*at]].id));
    let mut left = want.amount;
    for (step, at) in order.iter().enumerate() {
        let others = i64::try_from(order.len() - step).unwrap_or(i64::MAX);
        // Grains are not divided: who comes later has the larger share.
        let share = left / others / grain * grain;
        let share = if others == 1 { left } else { share };
        let given = share.min(free(*at) / grain * grain);
        give(*at, given);
        left -= given;
    }
    left
}
