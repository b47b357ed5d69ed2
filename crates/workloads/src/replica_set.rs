//! Replica sets: so many pods of one template, no more and no less.
//!
//! [`plan`] is the whole decision: which pods are the set's own, how many to make, which
//! to delete. [`status`] says what to report. The shell in [`shell`] carries it out.

mod shell;
#[cfg(test)]
mod tests;
mod victims;

use std::collections::BTreeMap;
use std::time::Duration;

use api::replica_set::ReplicaSetStatus;
use api::{Condition, ReplicaSet};
use jiff::Timestamp;

use crate::claims::Claims;
use crate::facts::{Packed, PodFact};
use crate::ownership::{self, Candidate, Claimant, Ownership};
use crate::pods::{BURST_MAX, count};

pub use shell::start;
pub use victims::rank;

/// What is known when a set is looked at.
pub struct Facts<'a> {
    /// The set.
    pub set: &'a Packed<ReplicaSet>,
    /// The pods that name it as their controller, and those of its namespace that have none.
    pub pods: &'a [&'a PodFact],
    /// What we did to its pods and have not seen yet.
    pub claims: &'a Claims,
    /// For each node, how many pods of this set and of its siblings run there.
    pub crowding: &'a BTreeMap<&'a str, usize>,
    /// The time.
    pub now: Timestamp,
}

/// What to do to the pods of a set.
#[derive(Debug, Default)]
pub struct Plan<'a> {
    /// Pods to take.
    pub adopt: Vec<&'a PodFact>,
    /// Pods to let go.
    pub release: Vec<&'a PodFact>,
    /// The pods of the set once that is done.
    pub own: Vec<&'a PodFact>,
    /// How many pods to make.
    pub create: usize,
    /// Pods to delete.
    pub delete: Vec<&'a PodFact>,
}

/// Why not all pods could be made or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The server refused to make one.
    Create(String),
    /// The server refused to delete one.
    Delete(String),
}

/// Decides what to do to the pods of a set.
#[must_use]
pub fn plan<'a>(facts: &Facts<'a>) -> Plan<'a> {
    let mut plan = Plan::default();
    let meta = &facts.set.metadata;
    let claimant = Claimant { uid: &meta.uid, going: meta.is_going() };
    for pod in facts.pods.iter().copied() {
        // A pod that has ended is neither counted nor taken.
        if pod.phase.is_terminal() {
            continue;
        }
        let candidate = Candidate {
            controller: pod.meta.controller(),
            matches: pod.meta.labels.match_selector(&facts.set.selector),
            going: pod.is_going(),
        };
        match ownership::decide(claimant, &candidate) {
            Ownership::Ours => plan.own.push(pod),
            Ownership::Adopt => {
                plan.adopt.push(pod);
                plan.own.push(pod);
            }
            Ownership::Release => plan.release.push(pod),
            Ownership::Foreign => {}
        }
    }
    if meta.is_going() {
        return plan;
    }
    let mut active: Vec<&PodFact> = plan
        .own
        .iter()
        .copied()
        .filter(|pod| pod.is_active() && !facts.claims.is_deleted(&pod.meta.uid))
        .collect();
    let wanted = usize::try_from(facts.set.spec.replicas()).unwrap_or(0);
    let present = active.len() + facts.claims.unseen();
    if present < wanted {
        plan.create = (wanted - present).min(BURST_MAX);
    } else if present > wanted {
        // Pods that are on their way cannot be chosen yet: they are looked at when seen.
        let surplus = (present - wanted).min(active.len()).min(BURST_MAX);
        rank(&mut active, facts.crowding, facts.now);
        plan.delete = active.into_iter().take(surplus).collect();
    }
    plan
}

/// What to report of a set with these pods, and when that changes by itself.
#[must_use]
pub fn status(
    set: &Packed<ReplicaSet>,
    own: &[&PodFact],
    trouble: Option<&Trouble>,
    now: Timestamp,
) -> (ReplicaSetStatus, Option<Duration>) {
    let min_ready = set.spec.min_ready_seconds;
    let active = || own.iter().filter(|pod| pod.is_active());
    let counted = |test: &dyn Fn(&PodFact) -> bool| count(active().filter(|pod| test(pod)).count());
    let terminating = own.iter().filter(|pod| pod.is_terminating()).count();
    let mut status = ReplicaSetStatus {
        replicas: counted(&|_| true),
        fully_labeled_replicas: counted(&|pod| pod.meta.labels.contain(set.template.labels())),
        ready_replicas: counted(&PodFact::is_ready),
        available_replicas: counted(&|pod| pod.is_available(min_ready, now)),
        terminating_replicas: Some(count(terminating)),
        observed_generation: set.metadata.generation,
        conditions: set.status.conditions.clone(),
    };
    mend_failure(&mut status.conditions, trouble, now);
    let next = active()
        .filter_map(|pod| pod.available_at(min_ready))
        .filter(|at| *at > now)
        .min()
        .map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    (status, next)
}

/// The condition is there while pods cannot be made or deleted, and only then. Its words
/// stay those of the first refusal, so that a set that is refused again and again does not
/// change each time.
fn mend_failure(conditions: &mut Vec<Condition>, trouble: Option<&Trouble>, now: Timestamp) {
    let known = api::condition::find(conditions, "ReplicaFailure").is_some();
    match trouble {
        None => {
            api::condition::remove(conditions, "ReplicaFailure");
        }
        Some(_) if known => {}
        Some(trouble) => {
            let (reason, message) = match trouble {
                Trouble::Create(message) => ("FailedCreate", message),
                Trouble::Delete(message) => ("FailedDelete", message),
            };
            let condition = Condition {
                r#type: "ReplicaFailure".to_owned(),
                status: "True".to_owned(),
                reason: reason.to_owned(),
                message: message.clone(),
                ..Condition::default()
            };
            api::condition::set(conditions, condition, now.into());
        }
    }
}
