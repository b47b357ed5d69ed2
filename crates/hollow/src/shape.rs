//! Shapes: what is the same for all pods of one template, kept once.
//!
//! Fifty thousand pods of a few Deployments differ in name, node and state, but not in
//! what they run and how it behaves. A pod holds a reference to its shape; a shape lives
//! as long as a pod has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::pod::{Container, PodSpec, ResourceRequirements, RestartPolicy};
use api::{Pod, ResourceList};
use object::quantity::Quantity;

use crate::behaviour::{Behaviour, CPU_SCALE, Fault, FaultKind, MEMORY_SCALE};

/// Amounts as integers: CPU in thousandths, all else in units.
pub(crate) type Amounts = BTreeMap<Box<str>, i64>;

/// Everything about a pod that is not its name or its state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    /// Init containers and sidecars in their order, then the containers.
    pub(crate) containers: Vec<ContainerShape>,
    pub(crate) restart: Restart,
    /// Seconds after its start at which the pod fails.
    pub(crate) deadline_seconds: Option<u64>,
    pub(crate) host_network: bool,
    /// The types of the conditions without which the pod is not ready.
    pub(crate) readiness_gates: Box<[Box<str>]>,
    /// What the node sets aside for it.
    pub(crate) requests: Amounts,
    /// From being bound to the first container.
    pub(crate) start_ms: Option<u64>,
    pub(crate) stop_ms: u64,
    /// Usage that the annotations ask for.
    pub(crate) cpu_millis: Option<u64>,
    pub(crate) memory_bytes: Option<u64>,
    /// What is wrong with the annotations.
    pub(crate) faults: Box<[Fault]>,
}

/// Whether containers start again, as `restartPolicy` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Restart {
    Always,
    OnFailure,
    Never,
}

impl Restart {
    /// Whether a container of this role is started again after it ended so.
    pub(crate) fn follows(self, role: Role, exit_code: i32) -> bool {
        match (role, self) {
            (Role::Sidecar, _) | (Role::Main, Self::Always) => true,
            (Role::Init, Self::Always) | (_, Self::OnFailure) => exit_code != 0,
            (_, Self::Never) => false,
        }
    }
}

impl From<Option<&RestartPolicy>> for Restart {
    fn from(policy: Option<&RestartPolicy>) -> Self {
        match policy {
            Some(RestartPolicy::OnFailure) => Self::OnFailure,
            Some(RestartPolicy::Never) => Self::Never,
            // A kubelet, too, starts again whom it is not told to leave.
            None | Some(RestartPolicy::Always | RestartPolicy::Other(_)) => Self::Always,
        }
    }
}

/// When a container has its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Before the containers, to its end.
    Init,
    /// Before the containers, and beside them.
    Sidecar,
    /// Last, all at once.
    Main,
}

/// One container of a shape.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ContainerShape {
    pub(crate) name: Box<str>,
    pub(crate) image: Box<str>,
    pub(crate) role: Role,
    pub(crate) requests: ResourceList,
    pub(crate) limits: ResourceList,
    /// How long it runs; none for ever.
    pub(crate) run_ms: Option<u64>,
    pub(crate) ready_ms: u64,
    pub(crate) exit_code: i32,
}

impl Shape {
    /// The shape of a pod; a pod of a Job runs `job_run_ms` unless it says otherwise.
    pub(crate) fn of(pod: &Pod, job_run_ms: u64) -> Self {
        let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
        let names: Vec<&str> = containers.map(|container| container.name.as_str()).collect();
        let faults = Behaviour::of(&pod.metadata.annotations).faults(&names);
        let shape = if faults.iter().any(|fault| fault.kind == FaultKind::Unreadable) {
            let mut plain = Pod { spec: pod.spec.clone(), ..Pod::default() };
            plain.metadata.owner_references.clone_from(&pod.metadata.owner_references);
            Self::read(&plain, job_run_ms)
        } else {
            Self::read(pod, job_run_ms)
        };
        let mut shape = shape.expect("what is read here was found readable");
        shape.faults = faults.into();
        shape
    }

    /// Why the containers cannot be created.
    pub(crate) fn fault(&self) -> Option<&str> {
        let first = self.faults.iter().find(|fault| fault.kind == FaultKind::Unreadable);
        first.map(|fault| &*fault.message)
    }

    fn read(pod: &Pod, job_run_ms: u64) -> Result<Self, String> {
        let behaviour = Behaviour::of(&pod.metadata.annotations);
        let owner = pod.metadata.controller();
        let of_job = owner.is_some_and(|owner| owner.kind == "Job");
        let run_ms = of_job.then_some(job_run_ms);
        let spec = &pod.spec;
        let gates = spec.readiness_gates.iter();
        let mut containers = Vec::with_capacity(spec.init_containers.len() + spec.containers.len());
        for container in &spec.init_containers {
            let sidecar = container.restart_policy == Some(RestartPolicy::Always);
            let role = if sidecar { Role::Sidecar } else { Role::Init };
            containers.push(container_of(container, role, None, &behaviour)?);
        }
        for container in &spec.containers {
            containers.push(container_of(container, Role::Main, run_ms, &behaviour)?);
        }
        Ok(Self {
            containers,
            restart: spec.restart_policy.as_ref().into(),
            deadline_seconds: spec.active_deadline_seconds.and_then(|n| u64::try_from(n).ok()),
            host_network: spec.host_network,
            readiness_gates: gates.map(|gate| gate.condition_type.as_str().into()).collect(),
            requests: requests_of(spec),
            start_ms: behaviour.millis("start-seconds", "")?,
            stop_ms: behaviour.millis("stop-seconds", "")?.unwrap_or(0),
            cpu_millis: behaviour.amount("cpu-usage", CPU_SCALE)?,
            memory_bytes: behaviour.amount("memory-usage", MEMORY_SCALE)?,
            faults: Box::default(),
        })
    }

    /// Whether two shapes have the same containers, so that one can become the other by a
    /// change of amounts or annotations.
    pub(crate) fn has_containers_of(&self, other: &Self) -> bool {
        self.containers.len() == other.containers.len()
            && self
                .containers
                .iter()
                .zip(&other.containers)
                .all(|(a, b)| a.name == b.name && a.role == b.role)
    }

    /// Whether containers ask for the same and may use the same.
    pub(crate) fn has_amounts_of(&self, other: &Self) -> bool {
        self.requests == other.requests
            && self
                .containers
                .iter()
                .zip(&other.containers)
                .all(|(a, b)| a.requests == b.requests && a.limits == b.limits)
    }
}

fn container_of(
    container: &Container,
    role: Role,
    run_ms: Option<u64>,
    behaviour: &Behaviour<'_>,
) -> Result<ContainerShape, String> {
    let name = container.name.as_str();
    let (run_ms, exit_code) = match role {
        Role::Init => (
            Some(behaviour.millis("init-seconds", name)?.unwrap_or(0)),
            behaviour.code("init-exit-code", name)?,
        ),
        // What ends the containers does not end what runs beside them.
        Role::Sidecar => (None, 0),
        Role::Main => {
            (behaviour.millis("run-seconds", name)?.or(run_ms), behaviour.code("exit-code", name)?)
        }
    };
    let ready_ms = behaviour.millis("ready-seconds", name)?.unwrap_or(0);
    let ResourceRequirements { requests, limits } = container.resources.clone();
    Ok(ContainerShape {
        name: name.into(),
        image: container.image.as_str().into(),
        role,
        requests,
        limits,
        run_ms,
        ready_ms: if role == Role::Init { 0 } else { ready_ms },
        exit_code,
    })
}

/// An amount as the integer that nodes count in.
pub(crate) fn integer_of(name: &str, amount: &Quantity) -> i64 {
    let scale = if name == "cpu" { -3 } else { 0 };
    amount.checked_scaled_value(scale).unwrap_or(i64::MAX).max(0)
}

/// What a pod asks of its node: the most that runs at one time, and the overhead.
fn requests_of(spec: &PodSpec) -> Amounts {
    let mut beside = Amounts::new();
    let mut before = Amounts::new();
    for container in &spec.init_containers {
        let requests = &container.resources.requests;
        if container.restart_policy == Some(RestartPolicy::Always) {
            add(&mut beside, requests);
            raise(&mut before, &beside);
        } else {
            let mut alone = beside.clone();
            add(&mut alone, requests);
            raise(&mut before, &alone);
        }
    }
    let mut total = beside;
    for container in &spec.containers {
        add(&mut total, &container.resources.requests);
    }
    raise(&mut total, &before);
    if let Some(resources) = &spec.resources {
        for (name, amount) in &resources.requests {
            total.insert(name.as_str().into(), integer_of(name, amount));
        }
    }
    add(&mut total, &spec.overhead);
    total.retain(|_, amount| *amount > 0);
    total
}

fn add(sum: &mut Amounts, list: &ResourceList) {
    for (name, amount) in list {
        let own = sum.entry(name.as_str().into()).or_default();
        *own = own.saturating_add(integer_of(name, amount));
    }
}

fn raise(least: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let own = least.entry(name.clone()).or_default();
        *own = (*own).max(*amount);
    }
}

/// The shapes in use.
#[derive(Debug, Default)]
pub(crate) struct Shapes(BTreeSet<Arc<Shape>>);

impl Shapes {
    /// The one shape that equals this one.
    pub(crate) fn share(&mut self, shape: Shape) -> Arc<Shape> {
        if let Some(known) = self.0.get(&shape) {
            return known.clone();
        }
        let shared = Arc::new(shape);
        self.0.insert(shared.clone());
        shared
    }

    /// Gives a shape back; the last one to do so ends it.
    pub(crate) fn release(&mut self, shape: &Arc<Shape>) {
        // The set's own and the caller's.
        if Arc::strong_count(shape) == 2 {
            self.0.remove(shape);
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value, annotations: Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "annotations": annotations }, "spec": spec }))
            .unwrap()
    }

    #[test]
    fn a_pod_asks_for_the_most_that_runs_at_one_time() {
        let container =
            |cpu: &str| json!({ "name": "c", "resources": { "requests": { "cpu": cpu } } });
        let sidecar = |cpu: &str| json!({ "name": "s", "restartPolicy": "Always", "resources": { "requests": { "cpu": cpu } } });
        let check = |init: Value, main: Value, more: Value, cpu: i64| {
            let mut spec = json!({ "initContainers": init, "containers": main });
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let shape = Shape::of(&pod(spec.clone(), json!({})), 0);
            assert_eq!(shape.requests.get("cpu").copied().unwrap_or(0), cpu, "{spec}");
        };
        check(json!([]), json!([container("1"), container("500m")]), json!({}), 1500);
        check(json!([container("2")]), json!([container("1")]), json!({}), 2000);
        check(json!([sidecar("1"), container("2")]), json!([container("1")]), json!({}), 3000);
        check(json!([container("2"), sidecar("1")]), json!([container("1")]), json!({}), 2000);
        check(json!([]), json!([container("1")]), json!({ "overhead": { "cpu": "250m" } }), 1250);
        let whole = json!({ "resources": { "requests": { "cpu": "4" } } });
        check(json!([]), json!([container("1")]), whole, 4000);
        check(json!([]), json!([container("1e99")]), json!({}), i64::MAX);
    }

    #[test]
    fn a_shape_lives_as_long_as_a_pod_has_it() {
        let mut shapes = Shapes::default();
        let one = || Shape::of(&pod(json!({ "containers": [{ "name": "a" }] }), json!({})), 0);
        let other = Shape::of(&pod(json!({ "containers": [{ "name": "b" }] }), json!({})), 0);
        let (first, second) = (shapes.share(one()), shapes.share(one()));
        let third = shapes.share(other);
        assert!(Arc::ptr_eq(&first, &second) && shapes.len() == 2);
        shapes.release(&first);
        drop(first);
        assert_eq!(shapes.len(), 2);
        shapes.release(&second);
        shapes.release(&third);
        assert_eq!(shapes.len(), 0);
    }

    #[test]
    fn a_malformed_annotation_is_told_and_the_rest_is_as_without_it() {
        let spec = json!({ "containers": [{ "name": "a" }] });
        let shape = Shape::of(&pod(spec, json!({ "hollow.gantry.dev/run-seconds": "soon" })), 0);
        assert!(shape.fault().is_some_and(|fault| fault.contains("run-seconds: \"soon\"")));
        assert_eq!(shape.containers.len(), 1);
    }
}
