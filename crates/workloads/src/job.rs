//! Jobs: pods that run to their end, as often as asked for.
//!
//! A pod that ends is counted exactly once, even when it is deleted or the controller
//! restarts in between: a finalizer keeps it until its uid stands in the job's status
//! ([`tally`]), the uid stands there until the finalizer is gone, and only then it moves
//! into a counter. [`decide`] says which pods to make and delete, [`finish`] when a job
//! has come to its end. What a failure means is up to the job ([`failure_policy`]), as is
//! whether its indexes fail one by one ([`per_index`]) and which are enough
//! ([`success_policy`]). All of it is pure; [`shell`] carries it out.

mod backoff;
mod failure_policy;
mod indexes;
mod orphans;
mod per_index;
mod shell;
mod success_policy;
mod tally;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use api::{Condition, Job};
use jiff::{SignedDuration, Timestamp};

use crate::claims::Claims;
use crate::facts::{IndexFailures, Packed, PodFact, TRACKING_FINALIZER};
use crate::pods::{BURST_MAX, count};
use crate::replica_set::rank;

use failure_policy::{Verdict, judge};

pub use backoff::Backoff;
pub use indexes::Indexes;
pub use per_index::PerIndex;
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// As many pods as asked for have succeeded.
    Reached,
    /// The indexes of this rule of its success policy have succeeded.
    SuccessPolicy(usize),
    /// Too many pods have failed.
    BackoffLimit,
    /// It has taken too long.
    Deadline,
    /// A pod has failed in a way that its failure policy does not bear, which is told here.
    FailurePolicy(String),
    /// Too many indexes have failed.
    MaxFailedIndexes,
    /// Every index has ended, and some have failed.
    FailedIndexes,
    /// An earlier look found it; its words stand in the status.
    Succeeding,
    /// An earlier look found it; its words stand in the status.
    Failing,
}

impl Ending {
    /// Whether the job has failed.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Reached | Self::SuccessPolicy(_) | Self::Succeeding)
    }

    /// Reason and message, where they do not stand in the status yet.
    fn words(&self) -> Option<(&'static str, Cow<'_, str>)> {
        let (reason, message) = match self {
            Self::Reached => ("CompletionsReached", "Reached expected number of succeeded pods"),
            Self::SuccessPolicy(rule) => {
                let message = format!("Matched rules at index {rule}");
                return Some(("SuccessPolicy", message.into()));
            }
            Self::BackoffLimit => {
                ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
            }
            Self::Deadline => ("DeadlineExceeded", "Job was active longer than specified deadline"),
            Self::FailurePolicy(message) => ("PodFailurePolicy", message.as_str()),
            Self::MaxFailedIndexes => (
                "MaxFailedIndexesExceeded",
                "Job has exceeded the specified maximal number of failed indexes",
            ),
            Self::FailedIndexes => ("FailedIndexes", "Job has failed indexes"),
            Self::Succeeding | Self::Failing => return None,
        };
        Some((reason, message.into()))
    }
}

/// The place of a new pod in its job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// Its index, where the job has indexes.
    pub index: Option<u32>,
    /// The failures before it, where they count for each index.
    pub failures: Option<IndexFailures>,
}

/// What to do to the pods of a job.
#[derive(Debug, Default)]
pub struct Actions<'a> {
    /// Pods to make.
    pub create: Vec<Place>,
    /// Pods to delete.
    pub delete: Vec<&'a PodFact>,
    /// How the job ends, where it does.
    pub ending: Option<Ending>,
    /// How its indexes stand, where each may fail by itself.
    pub per_index: Option<PerIndex<'a>>,
    /// When to look again though nothing changes.
    pub look_again: Option<Duration>,
}

impl Actions<'_> {
    /// Whether pods that are deleted count as failed. Those of a job that goes on were not
    /// wanted any more: they are let go first, and nobody counts them.
    #[must_use]
    pub fn counts_deleted(&self) -> bool {
        self.ending.is_some()
    }

    fn look_within(&mut self, wait: Duration) {
        self.look_again = Some(self.look_again.map_or(wait, |other| other.min(wait)));
    }
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

    /// Whether a pod is replaced only once it has ended: how it does has to be known where
    /// that makes a difference.
    fn waits_for_end(&self) -> bool {
        let spec = &self.job.spec;
        spec.pod_replacement_policy.as_deref() == Some("Failed")
            || spec.pod_failure_policy.is_some()
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

    /// What the failure of a pod means.
    fn verdict(&self, pod: &PodFact) -> Verdict {
        judge(self.job.spec.pod_failure_policy.as_ref(), pod)
    }

    /// Whether the failure of a pod does not count.
    fn is_ignored(&self, pod: &PodFact) -> bool {
        self.verdict(pod) == Verdict::Ignore
    }

    /// Why the job fails with one of its pods.
    fn job_failure(&self) -> Option<String> {
        self.job.spec.pod_failure_policy.as_ref()?;
        let failed = self.pods.iter().filter(|pod| self.is_failed(pod));
        failed.map(|pod| self.verdict(pod)).find_map(|verdict| match verdict {
            Verdict::FailJob(message) => Some(message),
            _ => None,
        })
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
        let counts = |pod: &PodFact| self.is_failed(pod) && !self.is_ignored(pod);
        let new = self.newly(counts, &noted).count();
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

/// The condition that says that a job has come to its end.
fn end_of(job: &Job) -> Option<&Condition> {
    job.status.conditions.iter().find(|condition| {
        matches!(condition.r#type.as_str(), "Complete" | "Failed") && condition.is_true()
    })
}

/// Whether a job has come to its end and nothing more is done for it.
#[must_use]
pub fn is_finished(job: &Job) -> bool {
    end_of(job).is_some()
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
    let since = end_of(job)?.last_transition_time?.timestamp();
    since.saturating_add(SignedDuration::from_secs(seconds.max(0).into())).ok()
}

/// How the job ends, judged before its pods are touched.
#[must_use]
pub fn finish(facts: &Facts<'_>, per_index: Option<&PerIndex<'_>>) -> Option<Ending> {
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
    if let Some(message) = facts.job_failure() {
        return Some(Ending::FailurePolicy(message));
    }
    let limit = job.spec.backoff_limit.unwrap_or(6);
    if facts.failed() > limit || restarts_beyond(facts, limit) {
        return Some(Ending::BackoffLimit);
    }
    if deadline(facts).is_some_and(|due| due <= facts.now) {
        return Some(Ending::Deadline);
    }
    let completions = facts.completions().filter(|_| facts.is_indexed())?;
    let done = facts.done_indexes();
    if let Some(ending) = per_index.and_then(|per_index| per_index.ending(facts, &done)) {
        return Some(ending);
    }
    let policy = job.spec.success_policy.as_ref();
    success_policy::met(policy, &done, completions).map(Ending::SuccessPolicy)
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
    let per_index = PerIndex::of(facts);
    let ending = finish(facts, per_index.as_ref());
    let mut actions = Actions { ending, per_index, ..Actions::default() };
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
    create(facts, missing, &mut actions);
    actions
}

/// Makes pods, where there is nothing to wait for.
fn create(facts: &Facts<'_>, missing: usize, actions: &mut Actions<'_>) {
    let per_index = actions.per_index.take();
    // Indexes that fail one by one wait one by one.
    let wait = if per_index.is_some() { None } else { backoff(facts).wait(facts.now) };
    if let Some(wait) = wait {
        actions.look_within(wait);
    } else if let Some(completions) = facts.completions().filter(|_| facts.is_indexed()) {
        for index in free_indexes(facts, per_index.as_ref(), completions, missing) {
            let wait = per_index.as_ref().and_then(|standing| standing.wait(index, facts.now));
            if let Some(wait) = wait {
                actions.look_within(wait);
                continue;
            }
            let failures = per_index.as_ref().map(|standing| standing.failures(facts, index));
            actions.create.push(Place { index: Some(index), failures });
        }
    } else {
        actions.create = vec![Place::default(); missing];
    }
    actions.per_index = per_index;
}

/// The failures, with those of pods that have ended since the last count.
#[must_use]
pub fn backoff(facts: &Facts<'_>) -> Backoff {
    let noted = facts.uncounted();
    let ended = |pod: &PodFact| pod.ended;
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

/// The lowest indexes that are neither done nor failed nor worked on.
fn free_indexes(
    facts: &Facts<'_>,
    per_index: Option<&PerIndex<'_>>,
    completions: u32,
    missing: usize,
) -> Vec<u32> {
    let done = facts.done_indexes();
    let mut busy: BTreeSet<u32> = facts.active().filter_map(|pod| pod.completion_index).collect();
    busy.extend(facts.claims.unseen_indexes());
    if facts.waits_for_end() {
        busy.extend(facts.terminating().filter_map(|pod| pod.completion_index));
    }
    let has_failed = |index| per_index.is_some_and(|standing| standing.failed.contains(index));
    let is_free =
        |index: &u32| !done.contains(*index) && !busy.contains(index) && !has_failed(*index);
    (0..completions).filter(is_free).take(missing).collect()
}
