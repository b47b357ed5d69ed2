//! How far a group has come, of what is seen of its members.

use std::collections::BTreeSet;

use api::pod::PodPhase;
use api::pod_group::{PodGroupPhase, PodGroupStatus};
use object::time::Time;
use serde_json::{Map, Value, json};

use super::member::Member;

/// How many owners are named: a group has one or two, and an object must not grow with its pods.
const OWNERS_NAMED_MAX: usize = 16;

/// What is seen of the members of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// How many there are.
    pub(super) members: i32,
    /// How many have a node.
    pub(super) scheduled: i32,
    /// How many run.
    pub(super) running: i32,
    /// How many ended well, but for those that somebody has go.
    pub(super) succeeded: i32,
    /// How many failed, but for those that are being deleted.
    pub(super) failed: i32,
}

impl<'a> FromIterator<&'a Member> for Seen {
    fn from_iter<I: IntoIterator<Item = &'a Member>>(members: I) -> Self {
        let mut seen = Self::default();
        for member in members {
            let phase = member.status.phase;
            let counts = [
                (&mut seen.members, true),
                (&mut seen.scheduled, !member.spec.node_name.is_empty()),
                (&mut seen.running, phase == PodPhase::Running),
                (&mut seen.succeeded, phase == PodPhase::Succeeded && !member.is_disrupted()),
                (&mut seen.failed, phase == PodPhase::Failed && !member.is_going()),
            ];
            for (count, is_one) in counts {
                *count = count.saturating_add(i32::from(is_one));
            }
        }
        seen
    }
}

impl Seen {
    /// How many run or ended well.
    fn well(&self) -> i32 {
        self.running.saturating_add(self.succeeded)
    }
}

/// What the status is to be of a group that says `told` and needs so many members, whose owners are asked for only
/// where they are to be named. What has finished stays as it is, and so does what has failed until as many are well again
/// as are needed: whoever made its pods may make others in their stead.
pub(super) fn next(
    told: &PodGroupStatus,
    least: i32,
    seen: &Seen,
    owners: impl FnOnce() -> String,
    now: Time,
) -> PodGroupStatus {
    let mut next = told.clone();
    // Nobody has looked at one that says nothing.
    let is_new = told.phase == PodGroupPhase::default();
    match told.phase {
        PodGroupPhase::Finished => return next,
        PodGroupPhase::Failed if least <= 0 || seen.well() < least => return next,
        _ if is_new || told.phase == PodGroupPhase::Pending => {
            next.phase = PodGroupPhase::Pending;
            if least <= 0 || seen.members < least {
                return next;
            }
            next.occupied_by = owners();
            next.phase = PodGroupPhase::PreScheduling;
            // Of those that are under way already there is more to say.
            if seen.scheduled == 0 {
                return next;
            }
        }
        _ => {}
    }
    let Seen { members, scheduled, running, succeeded, failed, .. } = *seen;
    next = PodGroupStatus { scheduled, running, succeeded, failed, ..next };
    if members == 0 {
        next.phase = PodGroupPhase::Pending;
    } else if least > 0 {
        next.phase = counted(least, seen);
    }
    if next.phase == PodGroupPhase::Scheduling && next.schedule_start_time.is_none() {
        next.schedule_start_time = Some(now);
    }
    next
}

/// The phase that counts alone decide: the last of these that is so.
fn counted(least: i32, seen: &Seen) -> PodGroupPhase {
    let Seen { scheduled, succeeded, failed, .. } = *seen;
    let well = seen.well();
    let mut phase = PodGroupPhase::Scheduling;
    if scheduled >= least {
        phase = if well >= least { PodGroupPhase::Running } else { PodGroupPhase::Scheduled };
    }
    // One that failed is not missed where enough others are well.
    if failed > 0 && well < least && failed.saturating_add(well) >= least {
        phase = PodGroupPhase::Failed;
    }
    if succeeded >= least {
        phase = PodGroupPhase::Finished;
    }
    phase
}

/// The owners of members, the first ones by name, each as `namespace/name`.
pub(super) fn owners<'a>(members: impl Iterator<Item = &'a Member>) -> String {
    let mut first: BTreeSet<(&str, &str)> = BTreeSet::new();
    for owner in members.flat_map(Member::owners) {
        let has_room = first.len() < OWNERS_NAMED_MAX;
        if has_room || first.last().is_some_and(|last| owner < *last) {
            first.insert(owner);
        }
        if first.len() > OWNERS_NAMED_MAX {
            first.pop_last();
        }
    }
    let owners: Vec<String> =
        first.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
    owners.join(",")
}

/// What is to be written so that a group says `next`; none where it does already. It counts only for
/// the group that was seen, not for another of its name.
pub(super) fn patch(uid: &str, told: &PodGroupStatus, next: &PodGroupStatus) -> Option<Value> {
    let mut status = Map::new();
    let mut put = |field: &str, is_other: bool, value: Value| {
        if is_other {
            status.insert(field.to_owned(), value);
        }
    };
    put("phase", told.phase != next.phase, json!(next.phase));
    put("occupiedBy", told.occupied_by != next.occupied_by, json!(next.occupied_by));
    put("scheduled", told.scheduled != next.scheduled, json!(next.scheduled));
    put("running", told.running != next.running, json!(next.running));
    put("succeeded", told.succeeded != next.succeeded, json!(next.succeeded));
    put("failed", told.failed != next.failed, json!(next.failed));
    let start = next.schedule_start_time;
    put("scheduleStartTime", told.schedule_start_time != start, json!(start));
    (!status.is_empty()).then(|| json!({ "metadata": { "uid": uid }, "status": status }))
}
