//! Where a reservation stands in its life: without I/O, and at a given time.

use std::time::Duration;

use api::condition::{self, Condition};
use api::pod_group::GangName;
use api::reservation::{READY, ReservationPhase, SCHEDULED};
use api::{ObjectReference, Pod, PodTemplate, Reservation, ResourceList};
use engine::fact::{PodRef, Size};
use engine::moment::Moment;
use jiff::Timestamp;
use object::time::Time;
use serde_json::{Value, json};

use super::size::{IMMUTABLE, Resize, amounts, told as told_size};

/// The condition that says whether it holds what its template asks for by now, and the reason where it does.
const RESIZED: &str = "Resized";
/// The reason where something of a reservation cannot be read.
const INVALID: &str = "Invalid";

/// The condition that says whether what is said of a reservation can be meant, and is heeded.
const VALID: &str = "Valid";

/// What is to be written on a reservation.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// This status, where it is still of this version.
    Status {
        /// The version.
        version: String,
        /// As a merge patch.
        patch: Value,
    },
    /// The same, and it holds this much from then on.
    Resize {
        /// The version.
        version: String,
        /// As a merge patch.
        patch: Value,
        /// How much.
        size: Size,
    },
    /// It is to be deleted.
    Delete,
    /// It is gone, and these pods are to say no longer that they use it.
    Free(Vec<PodRef>),
}

/// What is to be seen of a reservation, besides what is written on it.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Whether its node is there.
    pub(super) has_node: bool,
    /// Pods that use it and what they use, where it holds something.
    pub(super) owners: Option<(Vec<ObjectReference>, ResourceList)>,
    /// What of it cannot be read, in words.
    pub(super) malformed: Option<String>,
    /// Whether it is to hold something else.
    pub(super) resize: Resize,
}

pub(crate) fn time(moment: Moment) -> Time {
    let stamp = Timestamp::from_nanosecond(i128::from(moment.0)).unwrap_or(Timestamp::UNIX_EPOCH);
    Time::from(stamp)
}

/// When a reservation ends by itself; none where it never does. What is said outright goes before how
/// long it is to live, which every reservation says; how long is unknown where that cannot be read.
fn end(own: &Reservation) -> Option<Moment> {
    if own.spec.expires.is_some() {
        return own.expires().ok().flatten().map(Into::into);
    }
    let lifetime = own.lifetime().ok().flatten()?;
    let created = own.metadata.creation_timestamp?;
    Some(Moment::from(created).after(lifetime))
}

/// When an ended reservation is deleted, by the condition that says that it has ended.
fn deletion(own: &Reservation, kept: Duration) -> Option<Moment> {
    let ready = condition::find(&own.status.conditions, READY)?;
    let at = match (&own.status.phase, ready.reason.as_str()) {
        (ReservationPhase::Failed, "Expired") => ready.last_transition_time,
        (ReservationPhase::Succeeded, _) => ready.last_probe_time.or(ready.last_transition_time),
        _ => None,
    };
    Some(Moment::from(at?).after(kept))
}

/// When a reservation is to be looked at, if nothing happens before.
pub(super) fn due(own: &Reservation, kept: Option<Duration>) -> Option<Moment> {
    match own.has_ended() {
        _ if own.metadata.is_going() => None,
        true => deletion(own, kept?),
        false => end(own),
    }
}

/// What is to be written on a reservation now.
pub(super) fn step(own: &Reservation, seen: &Seen, now: Moment, kept: Option<Duration>) -> Step {
    if own.metadata.is_going() {
        return Step::Nothing;
    }
    if own.has_ended() {
        let is_homeless = !own.status.node_name.is_empty() && !seen.has_node;
        let is_over = |kept| deletion(own, kept).is_some_and(|at| is_homeless || at <= now);
        return if kept.is_some_and(is_over) { Step::Delete } else { Step::Nothing };
    }
    if end(own).is_some_and(|at| at <= now) {
        return ended(own, ReservationPhase::Failed, ("Expired", "it has expired"), now);
    }
    if own.is_held() && !seen.has_node {
        return ended(own, ReservationPhase::Failed, ("Expired", "its node is gone"), now);
    }
    if let Some(step) = readable(own, seen.malformed.as_deref(), now) {
        return step;
    }
    if let Some(step) = heeded(own, now) {
        return step;
    }
    if let Some(step) = resized(own, &seen.resize, now) {
        return step;
    }
    let Some((owners, allocated)) = seen.owners.as_ref().filter(|_| own.is_held()) else {
        return Step::Nothing;
    };
    let is_told = own.status.current_owners == *owners && own.status.allocated == *allocated;
    let is_used_up = own.is_for_one_pod() && !owners.is_empty();
    if is_told && !is_used_up {
        return Step::Nothing;
    }
    let mut step = match is_used_up {
        true => ended(own, ReservationPhase::Succeeded, ("Succeeded", "its pod is there"), now),
        false => status(own, json!({})),
    };
    if let Step::Status { patch, .. } = &mut step {
        patch["status"]["currentOwners"] = json!(owners);
        patch["status"]["allocated"] = replaced(&own.status.allocated, allocated);
    }
    step
}

/// One list of amounts in the place of another, as a merge patch.
pub(crate) fn replaced(old: &ResourceList, new: &ResourceList) -> Value {
    let mut patch = json!(new);
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch[name] = Value::Null;
    }
    patch
}

fn status(own: &Reservation, status: Value) -> Step {
    let version = own.metadata.resource_version.clone();
    let patch = json!({
        "metadata": { "uid": own.metadata.uid, "resourceVersion": version },
        "status": status,
    });
    Step::Status { version, patch }
}

/// That nothing is held for a reservation, or that nobody can use what is held, since something of it
/// cannot be read; and that it can be used again. None where that is written already.
fn readable(own: &Reservation, malformed: Option<&str>, now: Moment) -> Option<Step> {
    let told = |r#type: &str| condition::find(&own.status.conditions, r#type);
    let is_told = told(READY).is_some_and(|ready| ready.reason == INVALID);
    let (r#type, status_word, reason, message) = match malformed {
        Some(words) if own.is_held() => (READY, "False", INVALID, words),
        Some(words) => (SCHEDULED, "False", INVALID, words),
        None if own.is_held() && is_told => (READY, "True", "Available", ""),
        None => return None,
    };
    let mut conditions = own.status.conditions.clone();
    let new = Condition {
        r#type: r#type.to_owned(),
        status: status_word.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..Condition::default()
    };
    let is_new = condition::set(&mut conditions, new, time(now));
    is_new.then(|| status(own, json!({ "conditions": conditions })))
}

/// That something which is said of a reservation changes nothing, or does no longer; none where that is written already.
fn heeded(own: &Reservation, now: Moment) -> Option<Step> {
    let (reason, message) = match gang(own) {
        Some(gang) => {
            let words = "changes nothing: a reservation gets its node by itself";
            ("PartlyHeeded", format!("that it is of gang {gang:?} {words}"))
        }
        None => {
            condition::find(&own.status.conditions, VALID)?;
            ("Readable", String::new())
        }
    };
    let mut conditions = own.status.conditions.clone();
    let new = Condition {
        r#type: VALID.to_owned(),
        status: "True".to_owned(),
        reason: reason.to_owned(),
        message,
        ..Condition::default()
    };
    let is_new = condition::set(&mut conditions, new, time(now));
    is_new.then(|| status(own, json!({ "conditions": conditions })))
}

/// The gang that a reservation names, itself or by its template.
fn gang(own: &Reservation) -> Option<String> {
    let template = own.spec.template.as_ref();
    let mut pod = Pod::default();
    pod.metadata.labels = template.map(PodTemplate::labels).unwrap_or_default();
    pod.metadata.labels.extend(own.metadata.labels.clone());
    pod.metadata.annotations = template.map(PodTemplate::annotations).unwrap_or_default();
    pod.metadata.annotations.extend(own.metadata.annotations.clone());
    GangName::of(&pod).map(|gang| gang.as_str().to_owned())
}

/// That a reservation holds what its template asks for now, or why not; none where that is written.
fn resized(own: &Reservation, resize: &Resize, now: Moment) -> Option<Step> {
    let told = condition::find(&own.status.conditions, RESIZED);
    let (status_word, reason, message) = match resize {
        // What another process told may still be so.
        Resize::Nothing if told.is_some_and(|told| told.reason == IMMUTABLE) => return None,
        Resize::Nothing | Resize::TakenBack if told.is_some_and(|told| told.status == "False") => {
            ("True", RESIZED, String::new())
        }
        Resize::Nothing | Resize::TakenBack => return None,
        Resize::Granted(_) => ("True", RESIZED, String::new()),
        Resize::Refused(why) => ("False", why.reason(), why.to_string()),
    };
    let mut conditions = own.status.conditions.clone();
    let set = |conditions: &mut Vec<Condition>, r#type: &str, new: (&str, &str, String)| {
        let (status, reason, message) = new;
        let new = Condition {
            r#type: r#type.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            ..Condition::default()
        };
        condition::set(conditions, new, time(now))
    };
    let is_new = set(&mut conditions, RESIZED, (status_word, reason, message));
    let Resize::Granted(size) = resize else {
        return is_new.then(|| status(own, json!({ "conditions": conditions })));
    };
    set(&mut conditions, SCHEDULED, ("True", "Scheduled", told_size(size)));
    let held = replaced(&own.status.allocatable, &amounts(size));
    let step = status(own, json!({ "conditions": conditions, "allocatable": held }));
    match step {
        Step::Status { version, patch } => {
            Some(Step::Resize { version, patch, size: size.clone() })
        }
        step => Some(step),
    }
}

fn ended(
    own: &Reservation,
    phase: ReservationPhase,
    (reason, message): (&str, &str),
    now: Moment,
) -> Step {
    let mut conditions = own.status.conditions.clone();
    let ready = Condition {
        r#type: READY.to_owned(),
        status: "False".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_probe_time: Some(time(now)),
        ..Condition::default()
    };
    condition::set(&mut conditions, ready, time(now));
    status(own, json!({ "phase": phase, "conditions": conditions }))
}
