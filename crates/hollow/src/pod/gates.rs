//! Readiness gates: conditions that others set, without which a pod whose containers are
//! ready is not.
//!
//! What they said last is kept, no more than the pod's own gates name. A gate may also name
//! a condition that is the node's own: what the kubelet finds out before it asks for `Ready`
//! counts as it is, what it finds out afterwards is not there yet, so such a gate never opens.

use api::{Condition, Pod, condition};

use super::{PodRun, Since, drift};
use crate::shape::Shape;
use crate::time::Now;

/// The readiness gates of a pod, and what follows from them.
#[derive(Debug)]
pub(super) struct Gated {
    /// Whether the pod is ready; without gates it is when its containers are.
    ready: Since,
    /// What others say under the gates, in the order of the shape.
    told: Vec<Gate>,
}

/// What somebody else's condition says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Gate {
    /// There is no such condition.
    Missing,
    /// It holds.
    Open,
    /// It has another status.
    Closed(Box<str>),
}

impl Gated {
    /// The gates of a pod with these conditions, where it has any.
    pub(super) fn of(shape: &Shape, conditions: &[Condition]) -> Option<Box<Self>> {
        let told = told(shape, conditions);
        (!told.is_empty()).then(|| Box::new(Self { ready: Since::default(), told }))
    }
}

fn told(shape: &Shape, conditions: &[Condition]) -> Vec<Gate> {
    let said = |name: &str| match condition::find(conditions, name) {
        None => Gate::Missing,
        Some(own) if own.is_true() => Gate::Open,
        Some(own) => Gate::Closed(own.status.as_str().into()),
    };
    shape.readiness_gates.iter().map(|name| said(name)).collect()
}

impl PodRun {
    /// Whether the pod is ready, and since when.
    pub(super) fn ready(&self) -> Since {
        self.gated.as_ref().map_or(self.containers_ready, |gated| gated.ready)
    }

    /// Sets whether a pod with gates is ready, from what was so before.
    pub(super) fn set_gated(&mut self, ready: impl FnOnce(Since) -> Since) {
        if let Some(gated) = &mut self.gated {
            gated.ready = ready(gated.ready);
        }
    }

    /// Takes in what others say under the gates. What the watch shows from before the last
    /// report is passed over: the report itself comes by with what holds then.
    pub(crate) fn heed_gates(&mut self, now: Now, pod: &Pod) {
        let is_late = drift::number(&pod.metadata.resource_version) < self.told_version;
        if is_late || self.is_finished() {
            return;
        }
        let Some(gated) = &mut self.gated else { return };
        let told = told(&self.shape, &pod.status.conditions);
        if told != gated.told {
            gated.told = told;
            self.note(now);
            if self.containers_ready.on {
                self.touch();
            }
        }
    }

    /// Which gates are closed, in the kubelet's words; none where the pod may be ready.
    pub(super) fn closed_gates(&self) -> Option<String> {
        let gates = self.shape.readiness_gates.iter().zip(&self.gated.as_ref()?.told);
        let closed: Vec<String> = gates
            .filter_map(|(name, told)| match self.own_gate(name).unwrap_or_else(|| told.clone()) {
                Gate::Open => None,
                Gate::Missing => Some(format!(
                    "corresponding condition of pod readiness gate {name:?} does not exist."
                )),
                Gate::Closed(status) => Some(format!(
                    "the status of pod readiness gate {name:?} is not \"True\", but {status}"
                )),
            })
            .collect();
        (!closed.is_empty()).then(|| closed.join(", "))
    }

    /// What the node itself says under a gate, where the condition is its own.
    fn own_gate(&self, name: &str) -> Option<Gate> {
        let said = |on: bool| if on { Gate::Open } else { Gate::Closed("False".into()) };
        match name {
            "PodReadyToStartContainers" => Some(said(self.sandbox.on)),
            "Initialized" => Some(said(self.initialized.on)),
            "PodScheduled" | "Ready" | "ContainersReady" => Some(Gate::Missing),
            _ => None,
        }
    }
}
