//! What becomes of the sets when the number of replicas changes, or a rollout rests.
//!
//! One set takes the whole change. Several, in the middle of a rollout, share it in
//! proportion to their sizes, so that the mix of old and new pods stays what it was.

use api::ReplicaSet;

use super::rolling::resized;
use super::{Rollout, SetChange, replicas, revision};
use crate::facts::Packed;

/// The sets with the sizes they get.
pub fn scale(rollout: &Rollout<'_>) -> Vec<SetChange> {
    if let Some(only) = active_or_latest(rollout) {
        if replicas(only) == rollout.wanted() {
            return Vec::new();
        }
        return resized(rollout, only, rollout.wanted()).into_iter().collect();
    }
    if rollout.newest.is_some_and(|newest| is_saturated(rollout, newest)) {
        let old = rollout.old.iter().filter(|set| replicas(set) > 0);
        return old.filter_map(|set| resized(rollout, set, 0)).collect();
    }
    if rollout.deployment.spec.recreates() {
        return Vec::new();
    }
    share(rollout)
}

/// The one set with pods, or where none has pods the newest; `None` when several have.
fn active_or_latest<'a>(rollout: &Rollout<'a>) -> Option<&'a Packed<ReplicaSet>> {
    let mut active = rollout.active();
    match (active.next(), active.next()) {
        (Some(only), None) => Some(only),
        (None, _) => rollout.newest.or_else(|| rollout.old.last().copied()),
        (Some(_), Some(_)) => None,
    }
}

/// Whether the newest set has all pods, and all are available.
fn is_saturated(rollout: &Rollout<'_>, newest: &ReplicaSet) -> bool {
    let wanted = rollout.wanted();
    replicas(newest) == wanted
        && revision::desired(newest) == Some(wanted)
        && newest.status.available_replicas == wanted
}

fn share(rollout: &Rollout<'_>) -> Vec<SetChange> {
    let mut sets: Vec<&Packed<ReplicaSet>> = rollout.active().collect();
    let present = sets.iter().fold(0, |sum: i32, set| sum.saturating_add(replicas(set)));
    let allowed = if rollout.wanted() > 0 { rollout.size_max() } else { 0 };
    let to_add = allowed.saturating_sub(present);
    let created = |set: &ReplicaSet| set.metadata.creation_timestamp;
    // The largest first; of equal ones the newest grows and the oldest shrinks first.
    sets.sort_by(|left, right| {
        let by_size = replicas(right).cmp(&replicas(left));
        let by_age = created(left).cmp(&created(right));
        by_size.then(if to_add > 0 { by_age.reverse() } else { by_age })
    });
    let mut added = 0;
    let mut sizes = Vec::with_capacity(sets.len());
    for set in &sets {
        let part = proportion(rollout, set, to_add, added);
        added += part;
        sizes.push(replicas(set).saturating_add(part));
    }
    // What rounding left over goes to the first.
    if let Some(first) = sizes.first_mut() {
        *first = first.saturating_add(to_add - added).max(0);
    }
    sets.iter().zip(sizes).filter_map(|(set, size)| resized(rollout, set, size)).collect()
}

/// The part of `to_add` that a set gets, when `added` of it are given already.
fn proportion(rollout: &Rollout<'_>, set: &ReplicaSet, to_add: i32, added: i32) -> i32 {
    if replicas(set) == 0 || to_add == 0 || to_add == added {
        return 0;
    }
    let (part, allowed) = (fraction(rollout, set), to_add - added);
    if to_add > 0 { part.min(allowed) } else { part.max(allowed) }
}

/// By how much a set would change if it kept its share of the whole.
fn fraction(rollout: &Rollout<'_>, set: &ReplicaSet) -> i32 {
    let own = replicas(set);
    if rollout.wanted() == 0 {
        return -own;
    }
    let before = revision::size_max(set)
        .filter(|noted| *noted != 0)
        .unwrap_or(rollout.deployment.status.replicas);
    if before == 0 {
        return 0;
    }
    // Half away from zero, in whole numbers.
    let product = i64::from(own) * i64::from(rollout.size_max());
    let before = i64::from(before);
    let rounded = (2 * product + before).div_euclid(2 * before);
    i32::try_from(rounded).unwrap_or(i32::MAX).saturating_sub(own)
}
