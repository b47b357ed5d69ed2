//! What a deployment reports.

use std::time::Duration;

use api::deployment::DeploymentStatus;
use api::{Condition, Deployment, ReplicaSet};
use jiff::{SignedDuration, Timestamp};

use super::{NewSet, Rollout, replicas};

/// The condition that tells how a rollout goes.
const PROGRESSING: &str = "Progressing";
/// A deadline that stands for none.
const NO_DEADLINE: i32 = i32::MAX;
/// The rollout is done.
const DONE: &str = "NewReplicaSetAvailable";
/// Nothing moved until the deadline.
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
/// The newest set could not be made.
pub const NOT_CREATED: &str = "ReplicaSetCreateError";
/// The rollout rests.
const PAUSED: &str = "DeploymentPaused";
/// A look is taken this long after a deadline, since times in objects are whole seconds.
const DEADLINE_SLACK: Duration = Duration::from_secs(1);

fn deadline(deployment: &Deployment) -> Option<SignedDuration> {
    let seconds = deployment.spec.progress_deadline_seconds?;
    (seconds != NO_DEADLINE).then(|| SignedDuration::from_secs(seconds.into()))
}

fn condition(kind: &str, status: &str, reason: &str, message: String, now: Timestamp) -> Condition {
    Condition {
        r#type: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_update_time: Some(now.into()),
        last_transition_time: Some(now.into()),
        ..Condition::default()
    }
}

/// Puts a condition in its place, unless status and reason are those it has. The time is
/// the condition's own.
fn set(conditions: &mut Vec<Condition>, new: Condition) {
    let now = new.last_update_time.unwrap_or_default();
    api::condition::set_unless_same_reason(conditions, new, now);
}

/// The counts, and whether enough pods are available.
pub fn counted(rollout: &Rollout<'_>) -> DeploymentStatus {
    let deployment = rollout.deployment;
    let available = rollout.sum(|set| set.status.available_replicas);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: rollout.sum(|set| set.status.replicas),
        updated_replicas: rollout.newest.map_or(0, |set| set.status.replicas),
        ready_replicas: rollout.sum(|set| set.status.ready_replicas),
        available_replicas: available,
        terminating_replicas: terminating(rollout),
        unavailable_replicas: rollout.sum(replicas).saturating_sub(available).max(0),
        conditions: deployment.status.conditions.clone(),
        collision_count: deployment.status.collision_count,
    };
    let enough = available >= rollout.wanted().saturating_sub(rollout.bounds.unavailable);
    let (value, reason, message) = if enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    let told = condition("Available", value, reason, message.to_owned(), rollout.now);
    set(&mut status.conditions, told);
    status
}

/// The pods that are going; `None` where some set does not tell.
fn terminating(rollout: &Rollout<'_>) -> Option<i32> {
    rollout.all().try_fold(0, |sum: i32, set| {
        set.status.terminating_replicas.map(|own| sum.saturating_add(own))
    })
}

/// Notes that a rollout rests, or goes on.
pub fn note_pause(status: &mut DeploymentStatus, deployment: &Deployment, now: Timestamp) {
    if deadline(deployment).is_none() {
        return;
    }
    let told = api::condition::find(&status.conditions, PROGRESSING);
    let reason = told.map_or("", |told| told.reason.as_str());
    let new = match (deployment.spec.paused, reason) {
        (_, TIMED_OUT) | (true, PAUSED) => return,
        (true, _) => (PAUSED, "Deployment is paused"),
        (false, PAUSED) => ("DeploymentResumed", "Deployment is resumed"),
        (false, _) => return,
    };
    let told = condition(PROGRESSING, "Unknown", new.0, new.1.to_owned(), now);
    set(&mut status.conditions, told);
}

/// Whether all pods are of the newest set and available, and no others are left.
pub fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = deployment.spec.replicas();
    status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
        && status.observed_generation >= deployment.metadata.generation
}

/// The status of a rollout, and when to look for its deadline.
pub fn rollout(
    rollout: &Rollout<'_>,
    created: Option<&NewSet>,
) -> (DeploymentStatus, Option<Duration>) {
    let deployment = rollout.deployment;
    let mut status = counted(rollout);
    note_pause(&mut status, deployment, rollout.now);
    match deadline(deployment) {
        None => {
            api::condition::remove(&mut status.conditions, PROGRESSING);
        }
        Some(limit) => progress(rollout, &mut status, created, limit),
    }
    match failure_of(rollout) {
        Some(failure) => set(&mut status.conditions, failure),
        None => {
            api::condition::remove(&mut status.conditions, "ReplicaFailure");
        }
    }
    let look_again = next_look(rollout, &status);
    (status, look_again)
}

fn progress(
    rollout: &Rollout<'_>,
    status: &mut DeploymentStatus,
    created: Option<&NewSet>,
    limit: SignedDuration,
) {
    let (deployment, now) = (rollout.deployment, rollout.now);
    if let Some(created) = created {
        let message = format!("Created new replica set \"{}\"", created.name);
        let told = condition(PROGRESSING, "True", "NewReplicaSetCreated", message, now);
        return set(&mut status.conditions, told);
    }
    let current = api::condition::find(&status.conditions, PROGRESSING).cloned();
    if current.is_none()
        && let Some(newest) = rollout.newest
    {
        let message = format!("Found new replica set \"{}\"", newest.metadata.name);
        let told = condition(PROGRESSING, "True", "FoundNewReplicaSet", message, now);
        set(&mut status.conditions, told);
    }
    let was_done = status.replicas == status.updated_replicas
        && current.as_ref().is_some_and(|current| current.reason == DONE);
    if was_done {
        return;
    }
    let whom = match rollout.newest {
        Some(newest) => format!("ReplicaSet \"{}\"", newest.metadata.name),
        None => format!("Deployment \"{}\"", deployment.metadata.name),
    };
    if is_complete(deployment, status) {
        let message = format!("{whom} has successfully progressed.");
        set(&mut status.conditions, condition(PROGRESSING, "True", DONE, message, now));
    } else if has_moved(&deployment.status, status) {
        let message = format!("{whom} is progressing.");
        let mut told = condition(PROGRESSING, "True", "ReplicaSetUpdated", message, now);
        // The time of the last move is told even where the words stay the same.
        if let Some(current) = current.filter(|current| current.is_true()) {
            told.last_transition_time = current.last_transition_time;
        }
        api::condition::remove(&mut status.conditions, PROGRESSING);
        status.conditions.push(told);
    } else if has_timed_out(&status.conditions, limit, now) {
        let message = format!("{whom} has timed out progressing.");
        set(&mut status.conditions, condition(PROGRESSING, "False", TIMED_OUT, message, now));
    }
}

/// Whether anything came nearer to the end since the last report.
fn has_moved(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let old_pods = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
    new.updated_replicas > old.updated_replicas
        || old_pods(new) < old_pods(old)
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

fn has_timed_out(conditions: &[Condition], limit: SignedDuration, now: Timestamp) -> bool {
    let Some(told) = api::condition::find(conditions, PROGRESSING) else { return false };
    match told.reason.as_str() {
        DONE => false,
        TIMED_OUT => true,
        _ => told.last_update_time.is_some_and(|last| {
            last.timestamp().saturating_add(limit).is_ok_and(|deadline| deadline < now)
        }),
    }
}

fn next_look(rollout: &Rollout<'_>, status: &DeploymentStatus) -> Option<Duration> {
    let limit = deadline(rollout.deployment)?;
    let told = api::condition::find(&status.conditions, PROGRESSING)?;
    if is_complete(rollout.deployment, status) || told.reason == TIMED_OUT || told.reason == DONE {
        return None;
    }
    let deadline = told.last_update_time?.timestamp().saturating_add(limit).ok()?;
    let left = Duration::try_from(deadline.duration_since(rollout.now)).unwrap_or_default();
    Some(left.saturating_add(DEADLINE_SLACK))
}

/// The failure of the newest set, or else of any.
fn failure_of(rollout: &Rollout<'_>) -> Option<Condition> {
    let of = |set: &ReplicaSet| {
        let failure = api::condition::find(&set.status.conditions, "ReplicaFailure")?;
        let since = failure.last_transition_time;
        Some(Condition { last_update_time: since, ..failure.clone() })
    };
    let newest = rollout.newest.and_then(|set| of(set));
    newest.or_else(|| rollout.old.iter().find_map(|set| of(set)))
}

/// What is told of a set that could not be made.
pub fn creation_failure(name: &str, error: &str) -> String {
    format!("Failed to create new replica set \"{name}\": {error}")
}

/// The status after the newest set could not be made.
pub fn not_created(
    deployment: &Deployment,
    status: &DeploymentStatus,
    name: &str,
    error: &str,
    now: Timestamp,
) -> DeploymentStatus {
    let mut status = status.clone();
    status.conditions = deployment.status.conditions.clone();
    if deadline(deployment).is_some() {
        let message = creation_failure(name, error);
        let told = condition(PROGRESSING, "False", NOT_CREATED, message, now);
        set(&mut status.conditions, told);
    }
    status
}
