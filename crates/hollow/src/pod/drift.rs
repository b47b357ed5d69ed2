//! Whether the API server shows another status than the pod has, because somebody else
//! wrote it.
//!
//! The node is the truth about its pods: what others write over its report is written over
//! again, as the kubelet does. A pod that ended is left as it is. What the watch tells may
//! be older than the last report, so versions are compared: only a status that was written
//! after ours is another's.

use api::Pod;
use api::pod::{ContainerState, ContainerStatus};
use serde::Deserialize;

use super::status::Condition;
use super::{PodRun, State};
use crate::shape::Role;

/// What is read of the answer to a status.
#[derive(Deserialize)]
struct Answered {
    metadata: AnsweredMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnsweredMeta {
    resource_version: Box<str>,
}

/// A version as a number that grows; zero where it is none.
pub(super) fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

impl PodRun {
    /// Takes in what the watch shows.
    pub(crate) fn compare(&mut self, pod: &Pod) {
        let differs = !self.is_finished() && self.differs(pod);
        self.drift_version = if differs { number(&pod.metadata.resource_version) } else { 0 };
    }

    /// Takes in the answer to a status that was written.
    pub(crate) fn note_version(&mut self, answer: &[u8]) {
        if let Ok(Answered { metadata }) = serde_json::from_slice(answer) {
            self.told_version = number(&metadata.resource_version);
        }
    }

    /// Whether somebody wrote another status after us.
    pub(crate) fn has_drifted(&self) -> bool {
        self.drift_version > self.told_version && !self.is_finished()
    }

    fn differs(&self, pod: &Pod) -> bool {
        let status = &pod.status;
        status.phase != self.phase()
            || status.start_time != Some(self.start.time())
            || self.conditions().iter().any(|own| !own.is_among(&status.conditions))
            || self.containers_differ(pod)
    }

    fn containers_differ(&self, pod: &Pod) -> bool {
        let (mut inits, mut mains) =
            (pod.status.init_container_statuses.iter(), pod.status.container_statuses.iter());
        let all = self.containers.iter().zip(&self.shape.containers);
        let differ = all.into_iter().any(|(run, shape)| {
            let told = if shape.role == Role::Main { mains.next() } else { inits.next() };
            let alike = |told: &ContainerStatus| {
                *told.name == *shape.name
                    && told.ready == run.ready
                    && u32::try_from(told.restart_count) == Ok(run.restarts)
                    && shows(&told.state, run.state)
            };
            !told.is_some_and(alike)
        });
        differ || inits.next().is_some() || mains.next().is_some()
    }
}

fn shows(told: &ContainerState, state: State) -> bool {
    match state {
        State::Running => told.running.is_some(),
        State::Ended => told.terminated.is_some(),
        State::Waiting | State::BackingOff => told.running.is_none() && told.terminated.is_none(),
    }
}

impl Condition<'_> {
    /// Whether a list says the same. Who gave the pod its node is not the node's to say,
    /// and a condition that is to go was told to.
    fn is_among(&self, told: &[api::Condition]) -> bool {
        let Self::Set(own) = self else { return true };
        let message = own.message.as_ref().and_then(serde_json::Value::as_str);
        own.r#type == "PodScheduled"
            || api::condition::find(told, own.r#type).is_some_and(|told| {
                told.status == own.status
                    && told.reason == own.reason.unwrap_or_default()
                    && told.message == message.unwrap_or_default()
                    && told.last_transition_time == Some(own.last_transition_time)
            })
    }
}
