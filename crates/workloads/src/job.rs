//! Jobs: pods that run to their end, as often as asked for.
//!
//! A pod that ends is counted exactly once, even when it is deleted or the controller
//! restarts in between: a finalizer keeps it until its uid stands in the job's status
//! ([`tally`]), the uid stands there until the finalizer is gone, and only then it moves
//! into a counter. [`decide`] says which pods to make and delete, [`finish`] when a job
//! has come to its end. All of it is pure; [`shell`] carries it out.
//!
//! Left out: `podFailurePolicy`, `successPolicy`, `backoffLimitPerIndex` and
//! `maxFailedIndexes`. A job that sets them runs as if it did not.

mod backoff;
mod indexes;
mod orphans;
mod shell;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use api::{Condition, Job};
use jiff::{SignedDuration, Timestamp};

use crate::claims::Claims;
use crate::facts::{Packed, PodFact, TRACKING_FINALIZER};
use crate::pods::{BURST_MAX, count};
use crate::replica_set::rank;

pub use backoff::Backoff;
pub use indexes::Indexes;
pub use shell::start;
pub use tally::{Tally, tally};

/// The controller that a job without `managedBy` belongs to.
const OWN_NAME: &str = "kubernetes.io/job-controller";

/// What is known when a job is looked at.
pub struct Facts<'a> {
    /// The job.
    pub job: &'a Packed<Job>,
    /// Its pods.
    pub pods: &'a [&'a PodFact],
    /// What we did to its pods and have not seen yet.
    pub claims: &'a Claims,
    /// The failures so far, for the wait before the next try.
    pub backoff: Backoff,
    /// The time.
    pub now: Timestamp,
}

/// How a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As many pods as asked for have succeeded.
    Reached,
    /// Too many pods have failed.
    BackoffLimit,
    /// It has taken too long.
    Deadline,
    /// An earlier look found it; its words stand in the status.
    Succeeding,
    /// An earlier look found it; its words stand in the status.
    Failing,
}

impl Ending {
    /// Whether the job has failed.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::BackoffLimit | Self::Deadline | Self::Failing)
    }

    /// Reason and message, where they do not stand in the status yet.
    fn words(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Reached => {
                Some(("CompletionsReached", "Reached expected number of succeeded pods"))
            }
            Self::BackoffLimit => {
                Some(("BackoffLimitExceeded", "Job has reached the specified backoff limit"))
            }
            Self::Deadline => {
                Some(("DeadlineExceeded", "Job was active longer than specified deadline"))
            }
            Self::Succeeding | Self::Failing => None,
        }
    }
}

/// What to do to the pods of a job.
#[derive(Debug, Default)]
pub struct Actions<'a> {
    /// Pods to make; each with its index where the job has indexes.
    pub create: Vec<Option<u32>>,
    /// Pods to delete.
    pub delete: Vec<&'a PodFact>,
    /// How the job ends, where it does.
    pub ending: Option<Ending>,
    /// When to look again though nothing changes.
    pub look_again: Option<Duration>,
}

/// What was done of it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// How many pods were made.
    pub created: usize,
    /// The uids of the pods that were deleted.
    pub deleted: BTreeSet<Box<str>>,
}

impl<'a> Facts<'a> {
    fn is_indexed(&self) -> bool {
        self.job.spec.completion_mode.as_deref() == Some("Indexed")
    }

    fn is_suspended(&self) -> bool {
        self.job.spec.suspend == Some(true)
    }

    /// Whether a pod is replaced only once it has ended.
    fn waits_for_end(&self) -> bool {
        self.job.spec.pod_replacement_policy.as_deref() == Some("Failed")
    }

    fn completions(&self) -> Option<u32> {
        self.job.spec.completions.map(|count| count.try_into().unwrap_or(0))
    }

    /// Pods that have neither ended nor are going, nor were deleted by us.
    fn active(&self) -> impl Iterator<Item = &'a PodFact> {
        let pods = self.pods.iter().copied();
        pods.filter(|pod| pod.is_active() && !self.claims.is_deleted(&pod.meta.uid))
    }

    /// Pods that are going and have not ended, those that we deleted among them.
    fn terminating(&self) -> impl Iterator<Item = &'a PodFact> {
        let gone = |pod: &&PodFact| {
            pod.is_terminating() || (pod.is_active() && self.claims.is_deleted(&pod.meta.uid))
        };
        self.pods.iter().copied().filter(gone)
    }

    /// Whether a pod counts as failed: one that is deleted does, unless the job waits.
    fn is_failed(&self, pod: &PodFact) -> bool {
        use api::pod::PodPhase::{Failed, Succeeded};
        match pod.phase {
            Failed => true,
            Succeeded => false,
            _ => pod.is_going() && !self.waits_for_end(),
        }
    }

    fn is_succeeded(pod: &PodFact) -> bool {
        pod.phase == api::pod::PodPhase::Succeeded
    }

    /// Whether a pod still has to be counted.
    fn is_tracked(&self, pod: &PodFact) -> bool {
        pod.meta.has_finalizer(TRACKING_FINALIZER) && !self.claims.is_released(&pod.meta.uid)
    }

    /// Whether a pod's index is one that the job has; any pod's, in a job without.
    fn has_valid_index(&self, pod: &PodFact) -> bool {
        !self.is_indexed() || pod.completion_index.is_some_and(|own| Some(own) < self.completions())
    }

    /// The pods that have ended since the last count.
    fn newly<'b>(
        &'b self,
        test: impl Fn(&PodFact) -> bool + 'b,
        noted: &'b [String],
    ) -> impl Iterator<Item = &'a PodFact> + 'b {
        self.pods.iter().copied().filter(move |pod| {
            self.is_tracked(pod)
                && !noted.iter().any(|uid| **uid == *pod.meta.uid)
                && self.has_valid_index(pod)
                && test(pod)
        })
    }

    fn uncounted(&self) -> api::job::UncountedPods {
        self.job.status.uncounted_terminated_pods.clone().unwrap_or_default()
    }

    /// Pods that failed, with those that are not in the counter yet.
    fn failed(&self) -> i32 {
        let noted = self.uncounted().failed;
        let new = self.newly(|pod| self.is_failed(pod), &noted).count();
        self.job.status.failed.saturating_add(count(new + noted.len()))
    }

    /// Pods that succeeded, with those that are not in the counter yet.
    fn succeeded(&self) -> i32 {
        if self.is_indexed() {
            return count(self.done_indexes().len());
        }
        let noted = self.uncounted().succeeded;
        let new = self.newly(Self::is_succeeded, &noted).count();
        self.job.status.succeeded.saturating_add(count(new + noted.len()))
    }

    /// The indexes that are done: those of the status and those of pods not yet counted.
    fn done_indexes(&self) -> Indexes {
        let completions = self.completions().unwrap_or(0);
        let mut done = Indexes::parse(&self.job.status.completed_indexes, completions);
        let new = self
            .pods
            .iter()
            .filter(|pod| Self::is_succeeded(pod) && pod.meta.has_finalizer(TRACKING_FINALIZER));
        new.filter(|pod| self.has_valid_index(pod))
            .filter_map(|pod| pod.completion_index)
            .for_each(|index| done.insert(index));
        done
    }
}

/// Whether a job has come to its end and nothing more is done for it.
#[must_use]
pub fn is_finished(job: &Job) -> bool {
    let ended = |condition: &&Condition| {
        matches!(condition.r#type.as_str(), "Complete" | "Failed") && condition.is_true()
    };
    job.status.conditions.iter().any(|condition| ended(&condition))
}

/// Whether a job is ours to run.
#[must_use]
pub fn is_ours(job: &Job) -> bool {
    job.spec.managed_by.as_deref().is_none_or(|name| name == OWN_NAME)
}

/// When a job that has ended is to be deleted.
#[must_use]
pub fn delete_at(job: &Job) -> Option<Timestamp> {
    let seconds = job.spec.ttl_seconds_after_finished?;
    let ended = job.status.conditions.iter().find(|condition| {
        matches!(condition.r#type.as_str(), "Complete" | "Failed") && condition.is_true()
    })?;
    let since = ended.last_transition_time?.timestamp();
    since.saturating_add(SignedDuration::from_secs(seconds.max(0).into())).ok()
}

/// How the job ends, judged before its pods are touched.
#[must_use]
pub fn finish(facts: &Facts<'_>) -> Option<Ending> {
    let job = facts.job;
    let is_told = |kind: &str| {
        api::condition::find(&job.status.conditions, kind).is_some_and(Condition::is_true)
    };
    if is_told("SuccessCriteriaMet") {
        return Some(Ending::Succeeding);
    }
    if is_told("FailureTarget") {
        return Some(Ending::Failing);
    }
    let limit = job.spec.backoff_limit.unwrap_or(6);
    if facts.failed() > limit || restarts_beyond(facts, limit) {
        return Some(Ending::BackoffLimit);
    }
    (deadline(facts)? <= facts.now).then_some(Ending::Deadline)
}

/// When an active job fails for taking too long.
fn deadline(facts: &Facts<'_>) -> Option<Timestamp> {
    let job = facts.job;
    let seconds = job.spec.active_deadline_seconds.filter(|_| !facts.is_suspended())?;
    let rested = api::condition::find(&job.status.conditions, "Suspended");
    // A job that has just been woken starts anew, though its status does not say so yet.
    let is_woken = rested.is_some_and(Condition::is_true);
    let started = job.status.start_time.filter(|_| !is_woken).map_or(facts.now, Into::into);
    started.saturating_add(SignedDuration::from_secs(seconds)).ok()
}

/// Whether the containers of pods that restart by themselves did so too often.
fn restarts_beyond(facts: &Facts<'_>, limit: i32) -> bool {
    if !facts.job.template.restarts_on_failure() {
        return false;
    }
    let running = facts.pods.iter().filter(|pod| !pod.phase.is_terminal());
    let restarts = running.fold(0, |sum: i32, pod| sum.saturating_add(pod.restarts));
    if limit == 0 { restarts > 0 } else { restarts >= limit }
}

/// Decides what to do to the pods of a job that has not ended.
#[must_use]
pub fn decide<'a>(facts: &Facts<'a>) -> Actions<'a> {
    let mut actions = Actions { ending: finish(facts), ..Actions::default() };
    let until = |due: Timestamp| Duration::try_from(due.duration_since(facts.now)).ok();
    if actions.ending.is_none() {
        actions.look_again = deadline(facts).and_then(until);
    }
    let mut active: Vec<&PodFact> = facts.active().collect();
    if actions.ending.is_some() || facts.is_suspended() {
        if !facts.job.metadata.is_going() || actions.ending.is_some() {
            actions.delete = active;
        }
        return actions;
    }
    if facts.job.metadata.is_going() {
        return actions;
    }
    let present = active.len() + facts.claims.unseen();
    let wanted = wanted(facts, present);
    let surplus = present.saturating_sub(wanted).min(active.len());
    rank(&mut active, &std::collections::BTreeMap::new(), facts.now);
    actions.delete = to_remove(facts, active, surplus);
    if !actions.delete.is_empty() {
        return actions;
    }
    let leaving = if facts.waits_for_end() { facts.terminating().count() } else { 0 };
    let missing = wanted.saturating_sub(present + leaving).min(BURST_MAX);
    if missing == 0 {
        return actions;
    }
    if let Some(wait) = backoff(facts).wait(facts.now) {
        actions.look_again = Some(actions.look_again.map_or(wait, |other| other.min(wait)));
        return actions;
    }
    actions.create = match facts.completions().filter(|_| facts.is_indexed()) {
        None => vec![None; missing],
        Some(completions) => free_indexes(facts, completions, missing),
    };
    actions
}

/// The failures, with those of pods that have ended since the last count.
#[must_use]
pub fn backoff(facts: &Facts<'_>) -> Backoff {
    let noted = facts.uncounted();
    let ended = |pod: &PodFact| pod.ended.or(pod.meta.deleting).unwrap_or(facts.now);
    let succeeded: Vec<Timestamp> =
        facts.newly(Facts::is_succeeded, &noted.succeeded).map(ended).collect();
    let failed: Vec<Timestamp> =
        facts.newly(|pod| facts.is_failed(pod), &noted.failed).map(ended).collect();
    facts.backoff.after(&succeeded, &failed)
}

/// How many pods should be active.
fn wanted(facts: &Facts<'_>, present: usize) -> usize {
    let parallelism = usize::try_from(facts.job.spec.parallelism.unwrap_or(1)).unwrap_or(0);
    let succeeded = usize::try_from(facts.succeeded()).unwrap_or(0);
    match facts.completions() {
        // The first success ends the job, when those that run have ended too.
        None if succeeded > 0 => present,
        None => parallelism,
        Some(completions) => (completions as usize).saturating_sub(succeeded).min(parallelism),
    }
}

/// Pods to delete: those whose index is taken or not the job's, then those first that are
/// missed least. `ranked` is in that order.
fn to_remove<'a>(facts: &Facts<'_>, ranked: Vec<&'a PodFact>, at_least: usize) -> Vec<&'a PodFact> {
    let (mut remove, mut keep) = (Vec::new(), Vec::new());
    if facts.is_indexed() {
        let mut taken = BTreeSet::new();
        // The best of an index is the last in rank.
        for pod in ranked.into_iter().rev() {
            let own = pod.completion_index.filter(|_| facts.has_valid_index(pod));
            if own.is_some_and(|own| taken.insert(own)) {
                keep.push(pod);
            } else {
                remove.push(pod);
            }
        }
        keep.reverse();
    } else {
        keep = ranked;
    }
    let more = at_least.saturating_sub(remove.len());
    remove.extend(keep.into_iter().take(more));
    remove.truncate(BURST_MAX);
    remove
}

/// The lowest indexes that are neither done nor worked on.
fn free_indexes(facts: &Facts<'_>, completions: u32, missing: usize) -> Vec<Option<u32>> {
    let done = facts.done_indexes();
    let mut busy: BTreeSet<u32> = facts.active().filter_map(|pod| pod.completion_index).collect();
    busy.extend(facts.claims.unseen_indexes());
    if facts.waits_for_end() {
        busy.extend(facts.terminating().filter_map(|pod| pod.completion_index));
    }
    let free = (0..completions).filter(|index| !done.contains(*index) && !busy.contains(index));
    free.take(missing).map(Some).collect()
}
