//! How many replicas the sets of a rollout get next.

use super::{Rollout, SetChange, replicas, revision};

/// The size of the newest set when it is made.
pub fn first_size(rollout: &Rollout<'_>) -> i32 {
    if rollout.deployment.spec.recreates() {
        return rollout.wanted();
    }
    let room = rollout.size_max().saturating_sub(rollout.sum(replicas));
    room.clamp(0, rollout.wanted().max(0))
}

/// A set with another size, and the annotations that go with it.
pub fn resized(rollout: &Rollout<'_>, set: &api::ReplicaSet, size: i32) -> Option<SetChange> {
    let mut change = SetChange::of(set);
    change.replicas = (replicas(set) != size).then_some(size);
    change.annotations = revision::size_annotations(rollout, set);
    (!change.is_empty()).then_some(change)
}

/// Moves the newest set toward its full size, as far as the surge allows.
pub fn scale_new(rollout: &Rollout<'_>) -> Option<SetChange> {
    let newest = rollout.newest?;
    let (wanted, own) = (rollout.wanted(), replicas(newest));
    if own == wanted {
        return None;
    }
    if own > wanted || rollout.deployment.spec.recreates() {
        return resized(rollout, newest, wanted);
    }
    let room = rollout.size_max().saturating_sub(rollout.sum(replicas));
    if room <= 0 {
        return None;
    }
    resized(rollout, newest, own.saturating_add(room.min(wanted - own)))
}

/// Takes every old set down to nothing. Says whether any had to change.
pub fn scale_down_all(rollout: &Rollout<'_>, changes: &mut Vec<SetChange>) -> bool {
    let old = rollout.old.iter().filter(|set| replicas(set) > 0);
    let before = changes.len();
    changes.extend(old.filter_map(|set| resized(rollout, set, 0)));
    changes.len() > before
}

/// Takes replicas from old sets, as many as availability allows: first those that are not
/// available anyway, then others, the oldest set first.
pub fn scale_old(rollout: &Rollout<'_>) -> Vec<SetChange> {
    let Some(newest) = rollout.newest else { return Vec::new() };
    let available = |set: &api::ReplicaSet| set.status.available_replicas;
    let needed = rollout.wanted().saturating_sub(rollout.bounds.unavailable);
    let coming = replicas(newest).saturating_sub(available(newest));
    let spare = rollout.sum(replicas).saturating_sub(needed).saturating_sub(coming);
    if spare <= 0 {
        return Vec::new();
    }
    let mut sizes: Vec<i32> = rollout.old.iter().map(|set| replicas(set)).collect();
    let mut left = spare;
    for (set, size) in rollout.old.iter().zip(&mut sizes) {
        let unhealthy = size.saturating_sub(available(set)).clamp(0, left.max(0));
        *size -= unhealthy;
        left -= unhealthy;
    }
    let mut left = rollout.sum(available).saturating_sub(needed);
    for size in &mut sizes {
        let taken = (*size).clamp(0, left.max(0));
        *size -= taken;
        left -= taken;
    }
    let changed = rollout.old.iter().zip(sizes).filter(|(set, size)| replicas(set) != *size);
    changed.filter_map(|(set, size)| resized(rollout, set, size)).collect()
}
