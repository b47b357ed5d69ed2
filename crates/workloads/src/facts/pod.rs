//! What is kept of a pod.

use api::pod::{ContainerStatus, PodPhase};
use api::{Condition, ObjectMeta, OwnerReference};
use jiff::{SignedDuration, Timestamp};
use object::taint::{Effect, Toleration};
use object::time::Time;
use serde::Deserialize;

use super::job_pod::JobPod;
use super::meta::{Meta, owned};

/// The finalizer that keeps a job's pod until it has been counted.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// What a pod asks to be deleted before or after its siblings.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// The index of a pod in a job with indexes.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// A pod, as far as controllers read it.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Wire")]
pub struct PodFact {
    /// Who it is.
    pub meta: Meta,
    /// The node it is bound to; empty while it waits.
    pub node: Box<str>,
    /// Where it is in its life.
    pub phase: PodPhase,
    /// Whether it failed because its node threw it out.
    pub is_evicted: bool,
    /// Since when it is ready.
    pub ready_since: Option<Timestamp>,
    /// How often its containers restarted; of the one that did most.
    pub restarts_max: i32,
    /// How often its containers restarted, all together.
    pub restarts: i32,
    /// When it ended, as far as that is known of a pod that has; of no meaning in others.
    pub ended: Timestamp,
    /// What it asks to be deleted before or after its siblings; lower goes first.
    pub deletion_cost: i32,
    /// Its index in a job with indexes.
    pub completion_index: Option<u32>,
    /// What else a job asks of a pod; kept only of a job's pods, for they are few.
    pub job: Option<Box<JobPod>>,
    /// The tolerations that can keep it on a node with `NoExecute` taints.
    pub tolerations: Box<[Toleration]>,
}

impl PodFact {
    /// Whether the pod is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready_since.is_some()
    }

    /// Whether its deletion has begun.
    #[must_use]
    pub fn is_going(&self) -> bool {
        self.meta.deleting.is_some()
    }

    /// Whether it has neither ended nor is going.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.phase.is_terminal() && !self.is_going()
    }

    /// Whether it is going and has not ended yet.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        !self.phase.is_terminal() && self.is_going()
    }

    /// When the pod counts as available, having been ready for so long.
    #[must_use]
    pub fn available_at(&self, min_ready_seconds: i32) -> Option<Timestamp> {
        let wait = SignedDuration::from_secs(min_ready_seconds.max(0).into());
        Some(self.ready_since?.saturating_add(wait).unwrap_or(Timestamp::MAX))
    }

    /// Whether the pod has been ready for long enough.
    #[must_use]
    pub fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        self.available_at(min_ready_seconds).is_some_and(|at| at <= now)
    }

    /// The owner that manages it, where that is of the given kind.
    #[must_use]
    pub fn controller_of(&self, group: &str, kind: &str) -> Option<&OwnerReference> {
        let is_it = |owner: &&OwnerReference| {
            let own_group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
            owner.kind == kind && own_group == group
        };
        self.meta.controller().filter(is_it)
    }
}

owned!(PodFact);

/// The fields of the wire form that are read; the rest is skipped, not parsed.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Wire {
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
    init_containers: Option<Vec<InitContainer>>,
    tolerations: Option<Vec<Toleration>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct InitContainer {
    name: String,
    restart_policy: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: PodPhase,
    reason: String,
    conditions: Option<Vec<Condition>>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
}

impl From<Wire> for PodFact {
    fn from(wire: Wire) -> Self {
        let Wire { metadata, spec, status } = wire;
        let number = |key: &str| metadata.annotations.get(key).and_then(|text| text.parse().ok());
        let deletion_cost = number(DELETION_COST).unwrap_or(0);
        let completion_index = number(INDEX).and_then(|index| index.try_into().ok());
        let conditions = status.conditions.unwrap_or_default();
        let ready = api::condition::find(&conditions, "Ready").filter(|ready| ready.is_true());
        let created = metadata.creation_timestamp;
        let ready_since = ready.map(|ready| {
            ready.last_transition_time.or(created).map_or(Timestamp::MIN, Time::timestamp)
        });
        let containers = status.container_statuses.unwrap_or_default();
        let init = status.init_container_statuses.unwrap_or_default();
        let counts = || containers.iter().map(|container| container.restart_count);
        let init_counts = init.iter().map(|container| container.restart_count);
        let sidecars: Vec<&str> = spec
            .init_containers
            .iter()
            .flatten()
            .filter(|container| container.restart_policy == "Always")
            .map(|container| container.name.as_str())
            .collect();
        let beside = |status: &&ContainerStatus| sidecars.contains(&status.name.as_str());
        let ended = last_end(containers.iter(), init.iter().filter(beside));
        let ended = ended.or_else(|| gone_since(&metadata, &conditions));
        let job = JobPod::of(&metadata, &conditions, &containers, &init);
        let bears = |toleration: &Toleration| {
            toleration.effect.is_none() || toleration.effect == Some(Effect::NoExecute)
        };
        let tolerations = spec.tolerations.unwrap_or_default().into_iter().filter(bears).collect();
        Self {
            node: spec.node_name.into(),
            phase: status.phase,
            is_evicted: status.phase == PodPhase::Failed && status.reason == "Evicted",
            ready_since,
            restarts_max: counts().max().unwrap_or(0),
            restarts: counts().chain(init_counts).fold(0, i32::saturating_add),
            ended: ended.or(created).map_or(Timestamp::MIN, Time::timestamp),
            deletion_cost,
            completion_index,
            job,
            tolerations,
            meta: metadata.into(),
        }
    }
}

/// When the last container ended: none, while any of those that count still runs.
fn last_end<'a>(
    containers: impl Iterator<Item = &'a ContainerStatus>,
    sidecars: impl Iterator<Item = &'a ContainerStatus>,
) -> Option<Time> {
    let end = |status: &ContainerStatus| status.state.terminated.as_ref()?.finished_at;
    let all: Option<Vec<Time>> = containers.map(end).collect();
    // Containers that still run are passed over where sidecars have all ended.
    let beside: Option<Vec<Time>> = sidecars.map(end).collect();
    all.into_iter().flatten().chain(beside?).max()
}

/// When a pod whose containers do not tell ceased to be ready, else when its deletion began.
fn gone_since(metadata: &ObjectMeta, conditions: &[Condition]) -> Option<Time> {
    let unready = api::condition::find(conditions, "Ready")
        .filter(|ready| ready.status == "False")
        .and_then(|ready| ready.last_transition_time);
    let grace = SignedDuration::from_secs(metadata.deletion_grace_period_seconds.unwrap_or(0));
    let deleted = || metadata.deletion_timestamp?.timestamp().checked_sub(grace).ok();
    unready.or_else(|| deleted().map(Time::from))
}
