//! Counting pods that have ended, and what a job reports.

use api::Condition;
use api::job::{JobStatus, UncountedPods};
use jiff::Timestamp;

use super::{Actions, Ending, Facts, Indexes, Outcome, PerIndex};
use crate::facts::PodFact;
use crate::pods::count;

/// How many pods may stand in the status uncounted: it must not grow without bound.
const UNCOUNTED_MAX: usize = 500;

/// What to write, and what may be done once it is written.
#[derive(Debug)]
pub struct Tally<'a> {
    /// The new status.
    pub status: JobStatus,
    /// Pods whose finalizer is to be removed when the status is written: it tells of them.
    pub release: Vec<&'a PodFact>,
}

/// Counts what has ended, and says what to report after `outcome`.
#[must_use]
pub fn tally<'a>(facts: &Facts<'a>, actions: &Actions<'a>, outcome: &Outcome) -> Tally<'a> {
    let mut status = facts.job.status.clone();
    let mut uncounted = facts.uncounted();
    count_released(facts, &mut status, &mut uncounted);
    note_activity(facts, &mut status, outcome);
    let all_deleted = facts.active().all(|pod| outcome.deleted.contains(&pod.meta.uid));
    // A job is not at its end while pods are on their way that nobody has deleted.
    let settled = all_deleted && facts.claims.unseen() == 0;
    let found = actions.ending.clone().or_else(|| reached(facts, outcome));
    let ending = found.filter(|_| settled);
    let done = Indexes::parse(&status.completed_indexes, facts.completions().unwrap_or(0));
    let mut book = Book { facts, ending: ending.as_ref(), uncounted, done };
    let mut release = Vec::new();
    let mut full = false;
    for pod in facts.pods.iter().copied().filter(|pod| facts.is_tracked(pod)) {
        if book.is_full() {
            full = true;
            break;
        }
        if book.may_go(pod, actions.per_index.as_ref()) {
            book.note(pod);
            release.push(pod);
        }
    }
    let Book { uncounted, done, .. } = book;
    if facts.is_indexed() {
        status.succeeded = count(done.len());
        status.completed_indexes = done.to_string();
        status.failed_indexes = actions.per_index.as_ref().map(|own| own.failed.to_string());
    }
    let is_done = uncounted == UncountedPods::default() && release.is_empty() && !full;
    status.uncounted_terminated_pods = Some(uncounted);
    note_suspension(facts, actions, ending.is_some(), &mut status);
    note_ending(facts, ending.as_ref(), is_done, &mut status);
    Tally { status, release }
}

/// Moves pods whose finalizer is gone from the list into the counters.
fn count_released(facts: &Facts<'_>, status: &mut JobStatus, uncounted: &mut UncountedPods) {
    let held =
        |uid: &String| facts.pods.iter().any(|pod| *pod.meta.uid == **uid && facts.is_tracked(pod));
    let before = (uncounted.succeeded.len(), uncounted.failed.len());
    uncounted.succeeded.retain(held);
    uncounted.failed.retain(held);
    let counted = |before: usize, now: &[String]| count(before - now.len());
    status.succeeded = status.succeeded.saturating_add(counted(before.0, &uncounted.succeeded));
    status.failed = status.failed.saturating_add(counted(before.1, &uncounted.failed));
}

/// The pods that run, those that are going, and when the job started.
fn note_activity(facts: &Facts<'_>, status: &mut JobStatus, outcome: &Outcome) {
    let stays = |pod: &&PodFact| !outcome.deleted.contains(&pod.meta.uid);
    let active = facts.active().filter(stays).count();
    let ready = facts.active().filter(stays).filter(|pod| pod.is_ready()).count();
    let removed = facts.active().filter(|pod| !stays(pod)).count();
    status.active = count(active + facts.claims.unseen() + outcome.created);
    status.ready = Some(count(ready));
    status.terminating = Some(count(facts.terminating().count() + removed));
    if status.start_time.is_none() && !facts.is_suspended() {
        status.start_time = Some(facts.now.into());
    }
}

/// Whether the job has what it asked for, and nothing of it runs any more.
fn reached(facts: &Facts<'_>, outcome: &Outcome) -> Option<Ending> {
    let still = facts.active().any(|pod| !outcome.deleted.contains(&pod.meta.uid));
    if still || outcome.created > 0 || facts.claims.unseen() > 0 {
        return None;
    }
    let enough = match facts.job.spec.completions {
        None => facts.succeeded() > 0,
        Some(completions) => facts.succeeded() >= completions,
    };
    enough.then_some(Ending::Reached)
}

/// What has ended and is not in the counters yet.
struct Book<'f, 'a> {
    facts: &'f Facts<'a>,
    ending: Option<&'f Ending>,
    uncounted: UncountedPods,
    done: Indexes,
}

impl Book<'_, '_> {
    fn is_full(&self) -> bool {
        self.uncounted.succeeded.len() + self.uncounted.failed.len() >= UNCOUNTED_MAX
    }

    /// Whether the finalizer of a pod may go, once what it tells is noted.
    fn may_go(&self, pod: &PodFact, per_index: Option<&PerIndex<'_>>) -> bool {
        let is_last = self.ending.is_some() || self.facts.job.metadata.is_going();
        let is_held = || per_index.is_some_and(|own| own.holds(pod));
        is_last || Facts::is_succeeded(pod) || (self.facts.is_failed(pod) && !is_held())
    }

    /// Notes how a pod ended.
    fn note(&mut self, pod: &PodFact) {
        let facts = self.facts;
        let uid = || pod.meta.uid.to_string();
        let is_in = |list: &[String]| list.iter().any(|own| **own == *pod.meta.uid);
        if Facts::is_succeeded(pod) && !is_in(&self.uncounted.failed) {
            if facts.is_indexed() {
                // The index itself tells that this pod was counted.
                if let Some(index) = pod.completion_index.filter(|_| facts.has_valid_index(pod)) {
                    self.done.insert(index);
                }
            } else if !is_in(&self.uncounted.succeeded) {
                self.uncounted.succeeded.push(uid());
            }
        } else if (facts.is_failed(pod) || self.ending.is_some_and(Ending::is_failure))
            && !is_in(&self.uncounted.failed)
            && facts.has_valid_index(pod)
            && !facts.is_ignored(pod)
        {
            self.uncounted.failed.push(uid());
        }
    }
}

/// Notes that the job rests, or goes on.
fn note_suspension(facts: &Facts<'_>, actions: &Actions<'_>, ends: bool, status: &mut JobStatus) {
    if ends || actions.ending.is_some() || facts.job.metadata.is_going() {
        return;
    }
    let told = api::condition::find(&status.conditions, "Suspended");
    if facts.is_suspended() {
        if !told.is_some_and(Condition::is_true) {
            let new = ("Suspended", "True", "JobSuspended", "Job suspended");
            set(&mut status.conditions, new, facts.now);
        }
    } else if told.is_some_and(Condition::is_true) {
        let new = ("Suspended", "False", "JobResumed", "Job resumed");
        set(&mut status.conditions, new, facts.now);
        // The deadline counts the time that a job is active without a rest.
        status.start_time = Some(facts.now.into());
    }
}

/// Announces the end, and declares it when every pod is counted and gone.
fn note_ending(facts: &Facts<'_>, ending: Option<&Ending>, is_done: bool, status: &mut JobStatus) {
    let Some(ending) = ending else { return };
    let (target, end) = if ending.is_failure() {
        ("FailureTarget", "Failed")
    } else {
        ("SuccessCriteriaMet", "Complete")
    };
    if let Some((reason, message)) = ending.words() {
        set(&mut status.conditions, (target, "True", reason, &message), facts.now);
    }
    if !is_done || status.terminating != Some(0) || status.active != 0 {
        return;
    }
    let (reason, message) = api::condition::find(&status.conditions, target)
        .map(|told| (told.reason.clone(), told.message.clone()))
        .unwrap_or_default();
    set(&mut status.conditions, (end, "True", &reason, &message), facts.now);
    // A job that never ran, since it asked for nothing, has a start all the same.
    let started = *status.start_time.get_or_insert(facts.now.into());
    if !ending.is_failure() {
        status.completion_time = Some(started.max(facts.now.into()));
    }
}

fn set(conditions: &mut Vec<Condition>, new: (&str, &str, &str, &str), now: Timestamp) {
    let (kind, status, reason, message) = new;
    let condition = Condition {
        r#type: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_probe_time: Some(now.into()),
        ..Condition::default()
    };
    api::condition::set(conditions, condition, now.into());
}
