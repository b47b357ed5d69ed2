//! Indexes that fail one by one, by `backoffLimitPerIndex`.
//!
//! How often the pods of an index have failed stands in annotations of its latest pod. A pod
//! that failed is therefore held by its finalizer until its replacement, which takes the
//! count over, is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::failure_policy::Verdict;
use super::{Backoff, Ending, Facts, Indexes};
use crate::facts::{IndexFailures, PodFact, TRACKING_FINALIZER};

/// How the indexes of a job stand.
#[derive(Debug, Default)]
pub struct PerIndex<'a> {
    /// Those that have failed for good.
    pub failed: Indexes,
    /// Of those that are to be tried again, the pod that failed last.
    held: BTreeMap<u32, &'a PodFact>,
}

fn failures(pod: &PodFact) -> IndexFailures {
    pod.job.as_ref().map(|kept| kept.failures).unwrap_or_default()
}

impl<'a> PerIndex<'a> {
    /// How the indexes of a job stand; `None` for a job that does not limit them each.
    #[must_use]
    pub fn of(facts: &Facts<'a>) -> Option<Self> {
        let limit = facts.job.spec.backoff_limit_per_index.filter(|_| facts.is_indexed())?;
        let done = facts.done_indexes();
        let told = facts.job.status.failed_indexes.as_deref().unwrap_or_default();
        let mut failed = Indexes::parse(told, facts.completions().unwrap_or(0));
        let new = facts.pods.iter().filter(|pod| {
            pod.meta.has_finalizer(TRACKING_FINALIZER)
                && facts.has_valid_index(pod)
                && fails_index(facts, pod, limit)
        });
        // The server lets no index be both; what has succeeded has not failed.
        new.filter_map(|pod| pod.completion_index)
            .filter(|index| !done.contains(*index))
            .for_each(|index| failed.insert(index));
        let held = held(facts, &done, &failed);
        Some(Self { failed, held })
    }

    /// How the job ends with its indexes, where it does.
    #[must_use]
    pub fn ending(&self, facts: &Facts<'_>, done: &Indexes) -> Option<Ending> {
        let failed = self.failed.len();
        let beyond = |most: i32| usize::try_from(most).is_ok_and(|most| failed > most);
        if facts.job.spec.max_failed_indexes.is_some_and(beyond) {
            return Some(Ending::MaxFailedIndexes);
        }
        let completions = facts.completions().unwrap_or(0) as usize;
        (failed > 0 && failed + done.len() >= completions).then_some(Ending::FailedIndexes)
    }

    /// Whether the count of failures would be lost with this pod.
    #[must_use]
    pub fn holds(&self, pod: &PodFact) -> bool {
        let held = pod.completion_index.and_then(|index| self.held.get(&index));
        held.is_some_and(|held| held.meta.uid == pod.meta.uid)
    }

    /// How long to wait before the next pod of an index; `None` when there is no need.
    #[must_use]
    pub fn wait(&self, index: u32, now: Timestamp) -> Option<Duration> {
        let last = self.held.get(&index)?;
        let before = u32::try_from(failures(last).all()).unwrap_or(0);
        Backoff::new(before.saturating_add(1), last.ended).wait(now)
    }

    /// The failures before the next pod of an index.
    #[must_use]
    pub fn failures(&self, facts: &Facts<'_>, index: u32) -> IndexFailures {
        let Some(last) = self.held.get(&index) else { return IndexFailures::default() };
        let IndexFailures { counted, ignored } = failures(last);
        if facts.is_ignored(last) {
            IndexFailures { counted, ignored: ignored.saturating_add(1) }
        } else {
            IndexFailures { counted: counted.saturating_add(1), ignored }
        }
    }
}

/// Whether an index is not tried again after this pod.
fn fails_index(facts: &Facts<'_>, pod: &PodFact, limit: i32) -> bool {
    facts.is_failed(pod)
        && match facts.verdict(pod) {
            Verdict::FailIndex => true,
            Verdict::Ignore => false,
            Verdict::Count | Verdict::FailJob(_) => failures(pod).counted >= limit,
        }
}

fn held<'a>(facts: &Facts<'a>, done: &Indexes, failed: &Indexes) -> BTreeMap<u32, &'a PodFact> {
    let mut held: BTreeMap<u32, &PodFact> = BTreeMap::new();
    // A pod that is there has the count already.
    let active: BTreeSet<u32> = facts.active().filter_map(|pod| pod.completion_index).collect();
    for pod in facts.newly(|pod| facts.is_failed(pod), &[]) {
        let Some(index) = pod.completion_index else { continue };
        if done.contains(index) || failed.contains(index) || active.contains(&index) {
            continue;
        }
        let is_later = |last: &&PodFact| {
            failures(last).all() <= failures(pod).all() && last.ended <= pod.ended
        };
        if held.get(&index).is_none_or(is_later) {
            held.insert(index, pod);
        }
    }
    held
}
