//! Which pods go first when there are too many.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use api::pod::PodPhase;
use jiff::Timestamp;

use crate::facts::PodFact;

/// Sorts pods, those first that are missed least: not bound before bound, pending before
/// running, not ready before ready, cheap before dear, on a crowded node before alone,
/// ready for a short time before long, restarted often before seldom, young before old.
/// Times are compared by their magnitude alone, and equal ones by uid, so that pods of
/// nearly the same age do not always go in the order they came.
pub fn rank(pods: &mut [&PodFact], crowding: &BTreeMap<&str, usize>, now: Timestamp) {
    pods.sort_by(|left, right| compare(left, right, crowding, now));
}

fn compare(
    left: &PodFact,
    right: &PodFact,
    crowding: &BTreeMap<&str, usize>,
    now: Timestamp,
) -> Ordering {
    let crowd = |pod: &PodFact| Reverse(crowding.get(&*pod.node).copied().unwrap_or(0));
    let coarse = |pod: &PodFact| {
        let bound = !pod.node.is_empty();
        (bound, phase_rank(pod.phase), pod.is_ready(), pod.deletion_cost, crowd(pod))
    };
    coarse(left).cmp(&coarse(right)).then_with(|| {
        by_age(left, right, left.ready_since, right.ready_since, now)
            .then_with(|| right.restarts_max.cmp(&left.restarts_max))
            .then_with(|| {
                by_age(left, right, Some(left.meta.created), Some(right.meta.created), now)
            })
    })
}

fn phase_rank(phase: PodPhase) -> u8 {
    match phase {
        PodPhase::Pending => 0,
        PodPhase::Unknown => 1,
        PodPhase::Running | PodPhase::Succeeded | PodPhase::Failed => 2,
    }
}

/// The younger first, by orders of magnitude of their ages; equal ones by uid, unless
/// their times are the same.
fn by_age(
    left: &PodFact,
    right: &PodFact,
    left_since: Option<Timestamp>,
    right_since: Option<Timestamp>,
    now: Timestamp,
) -> Ordering {
    let (Some(left_since), Some(right_since)) = (left_since, right_since) else {
        return Ordering::Equal;
    };
    if left_since == right_since {
        return Ordering::Equal;
    }
    magnitude(left_since, now)
        .cmp(&magnitude(right_since, now))
        .then_with(|| left.meta.uid.cmp(&right.meta.uid))
}

/// The power of two that an age in nanoseconds reaches; `None` below one.
fn magnitude(since: Timestamp, now: Timestamp) -> Option<u32> {
    let age = now.as_nanosecond().saturating_sub(since.as_nanosecond());
    u128::try_from(age).ok().and_then(u128::checked_ilog2)
}
