//! Deployments: pods of the newest template, reached without losing too many on the way.
//!
//! A deployment owns replica sets, one for each template it has had. [`plan`] looks at them
//! and decides one step: make the newest set, move a few replicas from old sets to the new
//! one, or clean up. Each step shows in the watch, which asks for the next.
//!
//! The arithmetic is in [`rolling`] and [`proportion`], revisions and annotations in
//! [`revision`], what is reported in [`status`].
//!
//! Left out: the rollback annotation that `kubectl` has not written since 1.16.

mod proportion;
mod revision;
mod rolling;
mod shell;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use api::deployment::DeploymentStatus;
use api::{Deployment, IntOrString, ReplicaSet, Resource as _, Rounding};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::facts::{Packed, TEMPLATE_HASH_LABEL};
use crate::write;

pub use shell::start;

/// How many replicas more, or fewer, than asked for a rollout may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Too many.
    pub surge: i32,
    /// Too few.
    pub unavailable: i32,
}

/// What is known when a deployment is looked at.
pub struct Facts<'a> {
    /// The deployment.
    pub deployment: &'a Packed<Deployment>,
    /// Its replica sets.
    pub sets: &'a [&'a Packed<ReplicaSet>],
    /// Whether pods of a set other than the newest still run; asked for `Recreate` only.
    pub old_pods_run: bool,
    /// The time.
    pub now: Timestamp,
}

/// A change of a replica set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetChange {
    /// The name of the set.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The version it was read at.
    pub resource_version: String,
    /// Its number of replicas until now.
    pub size: i32,
    /// Its new number of replicas.
    pub replicas: Option<i32>,
    /// Its new time to be ready.
    pub min_ready_seconds: Option<i32>,
    /// Annotations to set.
    pub annotations: BTreeMap<String, String>,
}

impl SetChange {
    fn of(set: &ReplicaSet) -> Self {
        Self {
            name: set.metadata.name.clone(),
            uid: set.metadata.uid.clone(),
            resource_version: set.metadata.resource_version.clone(),
            size: replicas(set),
            replicas: None,
            min_ready_seconds: None,
            annotations: BTreeMap::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.replicas.is_none() && self.min_ready_seconds.is_none() && self.annotations.is_empty()
    }

    /// The change as a merge patch.
    #[must_use]
    pub fn patch(&self) -> Value {
        let mut spec = serde_json::Map::new();
        if let Some(replicas) = self.replicas {
            spec.insert("replicas".to_owned(), replicas.into());
        }
        if let Some(seconds) = self.min_ready_seconds {
            spec.insert("minReadySeconds".to_owned(), seconds.into());
        }
        json!({ "metadata": { "uid": self.uid, "resourceVersion": self.resource_version,
                              "annotations": self.annotations },
                "spec": spec })
    }
}

/// What to do for a deployment, in this order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The replica set to make.
    pub create: Option<NewSet>,
    /// Replica sets to change.
    pub change: Vec<SetChange>,
    /// Replica sets of the past to delete.
    pub delete: Vec<SetChange>,
    /// The revision to note on the deployment.
    pub revision: Option<String>,
    /// What to report.
    pub status: DeploymentStatus,
    /// When to look again though nothing changes.
    pub look_again: Option<Duration>,
}

/// A replica set to make.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSet {
    /// Its name.
    pub name: String,
    /// Its revision.
    pub revision: String,
    /// Its number of replicas.
    pub size: i32,
    /// The set as the server takes it.
    pub body: Value,
}

/// Decides the next step of a deployment.
#[must_use]
pub fn plan(facts: &Facts<'_>) -> Plan {
    let rollout = Rollout::new(facts);
    let deployment = facts.deployment;
    let mut plan = Plan::default();
    if deployment.metadata.is_going() {
        plan.status = status::counted(&rollout);
        return plan;
    }
    let resting = deployment.spec.paused || rollout.is_scaled();
    if resting {
        if !rollout.note_revision(&mut plan) {
            plan.change.extend(proportion::scale(&rollout));
        }
        if deployment.spec.paused {
            plan.delete = rollout.cleanup();
        }
        plan.status = status::counted(&rollout);
        status::note_pause(&mut plan.status, deployment, facts.now);
        return plan;
    }
    let recreates = deployment.spec.recreates();
    if recreates && (rolling::scale_down_all(&rollout, &mut plan.change) || facts.old_pods_run) {
        rollout.note_revision(&mut plan);
    } else if rollout.newest.is_none() {
        plan.create = Some(rollout.new_set());
    } else if rollout.note_revision(&mut plan) {
        // The annotations come first: the next step reads them.
    } else if recreates {
        plan.change.extend(rolling::scale_new(&rollout));
    } else if let Some(change) = rolling::scale_new(&rollout) {
        plan.change.push(change);
    } else {
        plan.change.extend(rolling::scale_old(&rollout));
    }
    let (status, look_again) = status::rollout(&rollout, plan.create.as_ref());
    if plan.change.is_empty() && status::is_complete(deployment, &status) {
        plan.delete = rollout.cleanup();
    }
    (plan.status, plan.look_again) = (status, look_again);
    plan
}

/// The replica sets of a deployment, sorted out.
pub(crate) struct Rollout<'a> {
    pub deployment: &'a Packed<Deployment>,
    /// The set of the present template.
    pub newest: Option<&'a Packed<ReplicaSet>>,
    /// The others, oldest first.
    pub old: Vec<&'a Packed<ReplicaSet>>,
    pub bounds: Bounds,
    pub now: Timestamp,
}

impl<'a> Rollout<'a> {
    fn new(facts: &Facts<'a>) -> Self {
        let mut sets = facts.sets.to_vec();
        sets.sort_by(|left, right| {
            let age = |set: &ReplicaSet| set.metadata.creation_timestamp;
            (age(left), &left.metadata.name).cmp(&(age(right), &right.metadata.name))
        });
        let template = &facts.deployment.template;
        // The oldest of those with the present template: a younger one is an accident.
        let newest = sets.iter().copied().find(|set| set.template.makes_same_pods(template));
        let uid = newest.map(|set| set.metadata.uid.as_str());
        sets.retain(|set| Some(set.metadata.uid.as_str()) != uid);
        let bounds = bounds(facts.deployment);
        Self { deployment: facts.deployment, newest, old: sets, bounds, now: facts.now }
    }

    /// The number of replicas that the deployment asks for.
    pub fn wanted(&self) -> i32 {
        self.deployment.spec.replicas()
    }

    /// All sets, the newest last.
    pub fn all(&self) -> impl Iterator<Item = &'a Packed<ReplicaSet>> {
        self.old.iter().copied().chain(self.newest)
    }

    /// The sets that should have pods.
    pub fn active(&self) -> impl Iterator<Item = &'a Packed<ReplicaSet>> {
        self.all().filter(|set| replicas(set) > 0)
    }

    /// A sum over all sets.
    pub fn sum(&self, of: impl Fn(&ReplicaSet) -> i32) -> i32 {
        self.all().fold(0, |sum, set| sum.saturating_add(of(set)))
    }

    /// The most replicas that all sets may have together.
    pub fn size_max(&self) -> i32 {
        self.wanted().saturating_add(self.bounds.surge)
    }

    /// Whether the number of replicas was changed since the sets were last scaled.
    fn is_scaled(&self) -> bool {
        self.active().any(|set| revision::desired(set).is_some_and(|noted| noted != self.wanted()))
    }

    /// Old sets beyond the limit of history, the oldest first.
    fn cleanup(&self) -> Vec<SetChange> {
        let Some(limit) = self.deployment.spec.revision_history_limit else { return Vec::new() };
        let limit = usize::try_from(limit).unwrap_or(0);
        let mut alive: Vec<_> =
            self.old.iter().copied().filter(|set| !set.metadata.is_going()).collect();
        let surplus = alive.len().saturating_sub(limit);
        alive.sort_by_key(|set| revision::of(&set.metadata));
        let idle = |set: &&Packed<ReplicaSet>| {
            set.status.replicas == 0
                && replicas(set) == 0
                && set.metadata.generation <= set.status.observed_generation
        };
        alive.into_iter().take(surplus).filter(idle).map(|set| SetChange::of(set)).collect()
    }

    /// Notes the revision on the newest set, or on the deployment when the set has it.
    /// Says whether the set has to change.
    fn note_revision(&self, plan: &mut Plan) -> bool {
        let Some(newest) = self.newest else { return false };
        let mut change = SetChange::of(newest);
        change.annotations = revision::annotations_for(self, Some(&newest.metadata));
        let min_ready = self.deployment.spec.min_ready_seconds;
        change.min_ready_seconds =
            (newest.spec.min_ready_seconds != min_ready).then_some(min_ready);
        if !change.is_empty() {
            plan.change.push(change);
            return true;
        }
        let noted = newest.metadata.annotations.get(revision::REVISION);
        if let Some(noted) = noted
            && self.deployment.metadata.annotations.get(revision::REVISION) != Some(noted)
        {
            plan.revision = Some(noted.clone());
        }
        false
    }

    /// The set of the present template, to be made.
    fn new_set(&self) -> NewSet {
        let deployment = self.deployment;
        let hash = deployment.template.hash(deployment.status.collision_count.unwrap_or(0));
        let template = deployment.template.unpack().with_label(TEMPLATE_HASH_LABEL, &hash);
        let mut selector = json!(deployment.spec.selector);
        selector["matchLabels"][TEMPLATE_HASH_LABEL] = hash.as_str().into();
        let annotations = revision::annotations_for(self, None);
        let name = write::name_with(&deployment.metadata.name, &hash);
        let size = rolling::first_size(self);
        let body = json!({
            "apiVersion": ReplicaSet::api_version(), "kind": ReplicaSet::KIND,
            "metadata": {
                "name": name, "namespace": deployment.metadata.namespace,
                "labels": template.labels(), "annotations": annotations,
                "ownerReferences": [deployment.controller_reference()],
            },
            "spec": {
                "replicas": size,
                "minReadySeconds": deployment.spec.min_ready_seconds,
                "selector": selector, "template": template,
            },
        });
        let revision = annotations.get(revision::REVISION).cloned().unwrap_or_default();
        NewSet { name, revision, size, body }
    }
}

/// The number of replicas that a set asks for.
pub(crate) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.replicas()
}

/// The bounds of a deployment's strategy in replicas. A surge is rounded up, what may be
/// missing down; where both come out as nothing, one may be missing, or nothing would ever
/// move.
pub(crate) fn bounds(deployment: &Deployment) -> Bounds {
    let wanted = deployment.spec.replicas();
    if deployment.spec.recreates() {
        return Bounds { surge: 0, unavailable: 0 };
    }
    let rolling = deployment.spec.strategy.rolling_update.clone().unwrap_or_default();
    let amount = |asked: Option<IntOrString>, rounding| {
        let asked = asked.unwrap_or_else(|| IntOrString::String("25%".to_owned()));
        asked.of(wanted, rounding).unwrap_or(0).max(0)
    };
    let surge = amount(rolling.max_surge, Rounding::Up);
    let unavailable = amount(rolling.max_unavailable, Rounding::Down);
    let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
    Bounds { surge, unavailable: unavailable.min(wanted) }
}
