//! Disruption budgets: how many pods of a group may be missing at will, right now.
//!
//! The API server counts a budget down when it allows an eviction; this controller says
//! how much there is to count down from. [`status`] is the arithmetic; the shell finds the
//! pods and asks how many there should be.
//!
//! Left out: warnings of pods that nobody manages, and the removal of stale `DisruptionTarget` conditions from pods.

mod shell;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use api::pod_disruption_budget::PodDisruptionBudgetStatus;
use api::{Condition, IntOrString, PodDisruptionBudget, Rounding};
use jiff::{SignedDuration, Timestamp};

use crate::facts::PodFact;
use crate::pods::count;

pub use shell::start;

/// How long an allowed eviction may take to show as a deletion.
const EVICTION_TAKES: SignedDuration = SignedDuration::from_mins(2);
/// The condition that says whether a pod may be evicted.
const ALLOWED: &str = "DisruptionAllowed";

/// The sizes of the controllers of some pods, by uid; `None` for one that has none.
pub type Scales = BTreeMap<String, Option<i32>>;

/// When to look at a budget again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    OnChange,
    /// When something changes, or after this long.
    After(Duration),
    /// Soon: what is needed could not be found out, and nothing tells when it can be.
    Retry(String),
}

/// What to report of a budget, and when to look again.
#[must_use]
pub fn status(
    budget: &PodDisruptionBudget,
    pods: &[&PodFact],
    scales: &Scales,
    now: Timestamp,
) -> (PodDisruptionBudgetStatus, Next) {
    let old = &budget.status;
    let generation = budget.metadata.generation;
    let (expected, desired) = match expectation(budget, pods, scales) {
        Ok(counts) => counts,
        Err(what) => return (failed(old, what.clone(), now), Next::Retry(what)),
    };
    let (disrupted_pods, look_again) = disrupted(old, pods, now);
    let is_healthy = |pod: &&&PodFact| {
        !pod.is_going() && pod.is_ready() && !disrupted_pods.contains_key(pod.meta.key.name())
    };
    let healthy = count(pods.iter().filter(is_healthy).count());
    let allowed = if expected > 0 { healthy.saturating_sub(desired).max(0) } else { 0 };
    let mut status = PodDisruptionBudgetStatus {
        observed_generation: generation,
        disruptions_allowed: allowed,
        current_healthy: healthy,
        desired_healthy: desired,
        expected_pods: expected,
        disrupted_pods,
        conditions: old.conditions.clone(),
    };
    let (value, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    tell(&mut status, value, reason, String::new(), now);
    (status, look_again.map_or(Next::OnChange, Next::After))
}

fn tell(
    status: &mut PodDisruptionBudgetStatus,
    value: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let condition = Condition {
        r#type: ALLOWED.to_owned(),
        status: value.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: Some(status.observed_generation),
        ..Condition::default()
    };
    api::condition::set(&mut status.conditions, condition, now.into());
}

/// Nothing is allowed while the count is not known.
fn failed(
    old: &PodDisruptionBudgetStatus,
    what: String,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let mut status = PodDisruptionBudgetStatus { disruptions_allowed: 0, ..old.clone() };
    tell(&mut status, "False", "SyncFailed", what, now);
    status
}

/// How many pods there should be, and how many of them healthy.
fn expectation(
    budget: &PodDisruptionBudget,
    pods: &[&PodFact],
    scales: &Scales,
) -> Result<(i32, i32), String> {
    let of = |amount: &IntOrString, expected: i32| {
        amount.of(expected, Rounding::Up).map_err(|error| error.to_string())
    };
    if let Some(missing) = &budget.spec.max_unavailable {
        let expected = scale(pods, scales)?;
        return Ok((expected, expected.saturating_sub(of(missing, expected)?).max(0)));
    }
    match &budget.spec.min_available {
        Some(IntOrString::Int(desired)) => Ok((count(pods.len()), *desired)),
        Some(percent) => {
            let expected = scale(pods, scales)?;
            Ok((expected, of(percent, expected)?))
        }
        None => Ok((0, 0)),
    }
}

/// The sizes of the controllers of all pods, added up. Pods without one do not count.
fn scale(pods: &[&PodFact], scales: &Scales) -> Result<i32, String> {
    let mut sizes = BTreeMap::new();
    for pod in pods {
        let Some(owner) = pod.meta.controller() else { continue };
        let Some(Some(size)) = scales.get(&owner.uid) else {
            return Err(format!("found no controllers for pod \"{}\"", pod.meta.key.name()));
        };
        sizes.insert(&owner.uid, *size);
    }
    Ok(sizes.values().fold(0, |sum: i32, size| sum.saturating_add(*size)))
}

/// The pods whose eviction was allowed and is not seen yet, and when the first of these
/// evictions counts as not done.
fn disrupted(
    old: &PodDisruptionBudgetStatus,
    pods: &[&PodFact],
    now: Timestamp,
) -> (BTreeMap<String, object::time::Time>, Option<Duration>) {
    let mut kept = BTreeMap::new();
    let mut first = None;
    for pod in pods.iter().filter(|pod| !pod.is_going()) {
        let name = pod.meta.key.name();
        let Some(allowed) = old.disrupted_pods.get(name) else { continue };
        let due = allowed.timestamp().saturating_add(EVICTION_TAKES).unwrap_or(Timestamp::MAX);
        if due < now {
            continue;
        }
        kept.insert(name.to_owned(), *allowed);
        first = Some(first.map_or(due, |first: Timestamp| first.min(due)));
    }
    let wait = first.map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
    (kept, wait.map(|wait| wait + Duration::from_secs(1)))
}
