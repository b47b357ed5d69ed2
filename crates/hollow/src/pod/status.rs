//! What the API server is told of a pod: a strategic merge patch of its status, as the
//! kubelet writes it.
//!
//! The patch names the uid, so that a later pod of the same name refuses it. Conditions
//! merge by type: those that others own are not touched. Lists of container statuses are
//! replaced as a whole.

use std::net::Ipv4Addr;

use api::ResourceList;
use object::time::Time;
use serde::Serialize;
use serde_json::Value;

use super::{ContainerRun, Ended, Final, PodRun, Since, Stage, State};
use crate::seed::{Seed, digest};
use crate::shape::{ContainerShape, Role};

/// What a status needs to know beyond the pod itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings {
    pub(crate) seed: Seed,
    pub(crate) host: Ipv4Addr,
    /// Address of the pod, once it has one.
    pub(crate) address: Option<Ipv4Addr>,
}

#[derive(Serialize)]
struct Patch<'a> {
    metadata: Meta,
    status: Status<'a>,
}

#[derive(Serialize)]
struct Meta {
    uid: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    phase: api::pod::PodPhase,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    start_time: Time,
    #[serde(rename = "hostIP")]
    host_ip: Ipv4Addr,
    #[serde(rename = "hostIPs")]
    host_ips: [Ip; 1],
    #[serde(rename = "podIP", skip_serializing_if = "Option::is_none")]
    pod_ip: Option<Ipv4Addr>,
    #[serde(rename = "podIPs", skip_serializing_if = "Option::is_none")]
    pod_ips: Option<[Ip; 1]>,
    conditions: Vec<Condition<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_container_statuses: Vec<ContainerStatus<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    container_statuses: Vec<ContainerStatus<'a>>,
}

#[derive(Serialize)]
struct Ip {
    ip: Ipv4Addr,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Condition<'a> {
    Set(Set<'a>),
    Remove(Remove),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Set<'a> {
    pub(super) r#type: &'static str,
    pub(super) status: &'static str,
    pub(super) last_transition_time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<u32>,
    // Written as null where there is none: what was there before must go.
    pub(super) reason: Option<&'a str>,
    pub(super) message: Option<Value>,
}

#[derive(Serialize)]
pub(super) struct Remove {
    #[serde(rename = "$patch")]
    patch: &'static str,
    r#type: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus<'a> {
    name: &'a str,
    image: &'a str,
    #[serde(rename = "imageID")]
    image_id: String,
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    container_id: String,
    ready: bool,
    started: bool,
    restart_count: u32,
    state: ContainerState<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_state: Option<ContainerState<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocated_resources: Option<&'a ResourceList>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<Resources<'a>>,
}

#[derive(Serialize)]
struct Resources<'a> {
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    requests: &'a ResourceList,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    limits: &'a ResourceList,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum ContainerState<'a> {
    #[serde(rename_all = "camelCase")]
    Waiting {
        reason: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<std::borrow::Cow<'a, str>>,
    },
    #[serde(rename_all = "camelCase")]
    Running { started_at: Time },
    #[serde(rename_all = "camelCase")]
    Terminated {
        exit_code: i32,
        reason: &'static str,
        started_at: Time,
        finished_at: Time,
        #[serde(rename = "containerID")]
        container_id: String,
    },
}

impl PodRun {
    /// The patch that tells the API server how the pod is.
    pub(crate) fn patch(&self, around: Surroundings) -> Vec<u8> {
        let address = around.address.filter(|_| self.sandbox.on || self.is_finished());
        let (mut inits, mut mains) = (Vec::new(), Vec::new());
        for (run, shape) in self.containers.iter().zip(&self.shape.containers) {
            let list = if shape.role == Role::Main { &mut mains } else { &mut inits };
            list.push(self.container(run, shape, around.seed));
        }
        let patch = Patch {
            metadata: Meta { uid: self.uid.to_string() },
            status: Status {
                phase: self.phase(),
                observed_generation: self.observed(),
                reason: self.verdict.as_ref().map(|verdict| &*verdict.reason),
                message: self.verdict.as_ref().map(|verdict| &*verdict.message),
                start_time: self.start.time(),
                host_ip: around.host,
                host_ips: [Ip { ip: around.host }],
                pod_ip: address,
                pod_ips: address.map(|ip| [Ip { ip }]),
                conditions: self.conditions(),
                init_container_statuses: inits,
                container_statuses: mains,
            },
        };
        serde_json::to_vec(&patch).expect("structs with text keys become JSON")
    }

    /// Notes that the last patch told of a resize that waits, or of its end.
    pub(crate) fn told_resize(&mut self) {
        self.resize_told = self.resize.is_some();
    }

    fn observed(&self) -> Option<u32> {
        Some(self.generation).filter(|generation| *generation > 0)
    }

    pub(super) fn conditions(&self) -> Vec<Condition<'_>> {
        let set = |r#type, since: Since, reason, message: Option<String>| {
            Condition::Set(Set {
                r#type,
                status: if since.on { "True" } else { "False" },
                last_transition_time: since.at.time(),
                observed_generation: self.observed(),
                reason,
                message: message.map(Value::String),
            })
        };
        let (reason, unready) = match self.stage {
            Stage::Finished(Final::Succeeded) => (Some("PodCompleted"), None),
            Stage::Finished(Final::Failed) => (Some("PodFailed"), None),
            _ if self.containers_ready.on => (None, None),
            _ => (
                Some("ContainersNotReady"),
                self.list("unready", |run, role| role != Role::Init && !run.ready),
            ),
        };
        let ready = match self.closed_gates().filter(|_| self.containers_ready.on) {
            Some(closed) => {
                set("Ready", self.ready(), Some("ReadinessGatesNotReady"), Some(closed))
            }
            None => set("Ready", self.ready(), reason, unready.clone()),
        };
        let (init_reason, incomplete) = match self.stage {
            Stage::Finished(Final::Succeeded) => (Some("PodCompleted"), None),
            _ if self.initialized.on => (None, None),
            _ => (
                Some("ContainersNotInitialized"),
                self.list("incomplete", |run, role| match role {
                    Role::Init => !run.ready,
                    Role::Sidecar => run.started.is_none(),
                    Role::Main => false,
                }),
            ),
        };
        let mut conditions = vec![
            set("PodReadyToStartContainers", self.sandbox, None, None),
            set("Initialized", self.initialized, init_reason, incomplete),
            ready,
            set("ContainersReady", self.containers_ready, reason, unready),
        ];
        if !self.scheduled {
            conditions.push(set("PodScheduled", Since { on: true, at: self.start }, None, None));
        }
        let waits = self.resize.as_ref().filter(|_| !self.is_finished());
        if let Some(resize) = waits {
            let since = Since { on: true, at: resize.since };
            let message = Some(resize.message.to_string());
            conditions.push(set("PodResizePending", since, Some(resize.reason.as_str()), message));
        } else if self.resize_told {
            let r#type = "PodResizePending";
            conditions.push(Condition::Remove(Remove { patch: "delete", r#type }));
        }
        conditions
    }

    fn list(&self, what: &str, which: impl Fn(&ContainerRun, Role) -> bool) -> Option<String> {
        let all = self.containers.iter().zip(&self.shape.containers);
        let names: Vec<&str> = all
            .filter(|(run, shape)| which(run, shape.role))
            .map(|(_, shape)| &*shape.name)
            .collect();
        Some(format!("containers with {what} status: [{}]", names.join(" ")))
    }

    fn container<'a>(
        &'a self,
        run: &ContainerRun,
        shape: &'a ContainerShape,
        seed: Seed,
    ) -> ContainerStatus<'a> {
        let id = |restarts: u32| {
            let who = format!("{}/{}/{restarts}", self.uid, shape.name);
            format!("containerd://{}", digest(seed.of("container", &who)))
        };
        let state = match run.state {
            State::Waiting => self.waiting(),
            State::Running => ContainerState::Running { started_at: run.started.time() },
            State::Ended => terminated(&run.ended(), &id),
            State::BackingOff => ContainerState::Waiting {
                reason: "CrashLoopBackOff",
                message: Some(self.back_off(run, shape).into()),
            },
        };
        let last_state = match run.state {
            State::BackingOff => Some(terminated(&run.ended(), &id)),
            _ => run.last.as_ref().map(|last| terminated(last, &id)),
        };
        let begun = run.state != State::Waiting;
        let shown = begun && (!shape.requests.is_empty() || !shape.limits.is_empty());
        ContainerStatus {
            name: &shape.name,
            image: &shape.image,
            image_id: if begun { image_id(&shape.image) } else { String::new() },
            container_id: if begun { id(run.restarts) } else { String::new() },
            ready: run.ready,
            started: run.state == State::Running && (shape.role != Role::Init),
            restart_count: run.restarts,
            state,
            last_state,
            allocated_resources: Some(&shape.requests).filter(|list| shown && !list.is_empty()),
            resources: shown
                .then_some(Resources { requests: &shape.requests, limits: &shape.limits }),
        }
    }

    fn waiting(&self) -> ContainerState<'_> {
        if let Some(fault) = self.shape.fault() {
            let message = Some(fault.into());
            return ContainerState::Waiting { reason: "CreateContainerConfigError", message };
        }
        let has_inits = self.shape.containers.iter().any(|shape| shape.role != Role::Main);
        let reason = if has_inits { "PodInitializing" } else { "ContainerCreating" };
        ContainerState::Waiting { reason, message: None }
    }

    fn back_off(&self, run: &ContainerRun, shape: &ContainerShape) -> String {
        let (seconds, name) = (run.current_wait_seconds(), &shape.name);
        let wait = match (seconds / 60, seconds % 60) {
            (0, seconds) => format!("{seconds}s"),
            (minutes, seconds) => format!("{minutes}m{seconds}s"),
        };
        let (pod, space) = (self.key.name(), self.key.namespace());
        format!(
            "back-off {wait} restarting failed container={name} pod={pod}_{space}({})",
            self.uid
        )
    }
}

fn terminated<'a>(ended: &Ended, id: &impl Fn(u32) -> String) -> ContainerState<'a> {
    ContainerState::Terminated {
        exit_code: ended.exit_code,
        reason: if ended.exit_code == 0 { "Completed" } else { "Error" },
        started_at: ended.started.time(),
        finished_at: ended.finished.time(),
        container_id: id(ended.restarts),
    }
}

/// A digest that follows from the name of the image alone, as that of one registry would.
fn image_id(image: &str) -> String {
    let plain = image.split('@').next().unwrap_or(image);
    let slash = plain.rfind('/').map_or(0, |at| at + 1);
    let end = plain[slash..].find(':').map_or(plain.len(), |at| slash + at);
    format!("{}@sha256:{}", &plain[..end], digest(Seed(0).of("image", image)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_id_has_the_repository_and_a_digest() {
        let repository = |image: &str| image_id(image).split('@').next().unwrap().to_owned();
        assert_eq!(repository("nginx"), "nginx");
        assert_eq!(repository("nginx:1.27"), "nginx");
        assert_eq!(repository("host:5000/a/b:v1"), "host:5000/a/b");
        assert_eq!(repository("host:5000/a/b"), "host:5000/a/b");
        assert_eq!(repository("a@sha256:00"), "a");
        assert_ne!(image_id("a:1"), image_id("a:2"));
    }
}
