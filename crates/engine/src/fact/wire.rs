//! Facts from objects as the API server sends them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher as _;
use std::sync::Arc;

use api::elastic_quota::{is_preemptible, quota_name};
use api::node::Node;
use api::node_selector::{NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm};
use api::pod::{Pod, PodPhase, PreemptionPolicy, RestartPolicy};
use api::reservation::is_spared;
use api::scheduling_hint::SchedulingHint;
use api::{
    ObjectMeta, PodDisruptionBudget, ReplicaSet, ReplicationController, Service, StatefulSet,
};
use object::selector::label::Selector;
use rustc_hash::FxBuildHasher;

use super::amounts::{amounts, limits, named, pods, requests};
use super::cpus::{cpu_needs, offered};
use super::load::load_needs;
use super::pod_terms::{pod_affinity, spread, too_many_terms};
use super::reservation::{operating_rules, reservation_needs};
use super::storage_wire::volumes;
use super::{
    Allotment, Budget, CpuRules, Fact, LoadRules, LoadTimes, NodeFact, NodeRest, PodFact, Uid,
    Version,
};
use crate::gangs::Membership;
use crate::moment::Moment;
use crate::needs::{
    Field, Hint, HostPort, Images, Needs, NodeAffinity, NodeTerm, Operator, Owner, OwnerKind,
    Ports, Preference, Requirement, Tolerations,
};
use crate::quota::Preemptible;

/// The condition by which a scheduler tells of a pod.
const POD_SCHEDULED: &str = "PodScheduled";

impl From<&Node> for NodeFact {
    fn from(node: &Node) -> Self {
        let status = &node.status;
        let images = status.images.iter();
        let mut images: Vec<(Box<str>, i64)> = images
            .flat_map(|image| image.names.iter().map(|name| (name.clone(), image.size_bytes)))
            .collect();
        images.sort_unstable();
        images.dedup_by(|a, b| a.0 == b.0);
        let labels = node.metadata.labels.iter();
        Self {
            name: node.metadata.name.as_str().into(),
            labels: labels
                .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
                .collect(),
            taints: node.spec.taints.as_slice().into(),
            unschedulable: node.spec.unschedulable,
            allocatable: offered(node, amounts(named(&status.allocatable))),
            pods_allowed: pods(&status.allocatable),
            images: images.into(),
            load: LoadRules::of(node),
            cpus: CpuRules::of(node),
            rest: NodeRest::default(),
        }
    }
}

impl NodeFact {
    /// The same, and what of the node only those outside read. Of a condition that is whether it
    /// holds, for when it was last looked at changes all the time.
    #[must_use]
    pub fn with_rest(mut self, node: &Node) -> Self {
        let conditions = node.status.conditions.iter();
        let conditions: BTreeMap<&str, &str> =
            conditions.map(|one| (&*one.r#type, &*one.status)).collect();
        self.rest = NodeRest {
            annotations: FxBuildHasher.hash_one(&node.metadata.annotations),
            conditions: FxBuildHasher.hash_one(conditions),
        };
        self
    }
}

impl PodFact {
    /// The same, and what of the pod only those outside read: of one that has a node, anything. Of
    /// one that has none it is not what its scheduler writes, which would wake it for having been
    /// refused.
    #[must_use]
    pub fn with_rest(mut self, pod: &Pod) -> Self {
        let metadata = &pod.metadata;
        self.rest = if self.node.is_some() {
            FxBuildHasher.hash_one(&metadata.resource_version)
        } else {
            let conditions = pod.status.conditions.iter();
            let others = conditions.filter(|one| one.r#type != POD_SCHEDULED);
            let others: BTreeMap<&str, (&str, &str)> =
                others.map(|one| (&*one.r#type, (&*one.status, &*one.reason))).collect();
            let ObjectMeta { generation, annotations, finalizers, .. } = metadata;
            FxBuildHasher.hash_one((generation, annotations, finalizers, others))
        };
        self
    }
}

impl From<&Pod> for Fact {
    /// A pod that has ended is as good as gone.
    fn from(pod: &Pod) -> Self {
        match pod.status.phase {
            PodPhase::Succeeded => Self::PodGone(Uid::new(&pod.metadata.uid)),
            PodPhase::Failed => Self::PodFailed(Uid::new(&pod.metadata.uid)),
            _ => Self::Pod(Box::new(PodFact::from(pod))),
        }
    }
}

impl From<&Pod> for PodFact {
    fn from(pod: &Pod) -> Self {
        let (metadata, spec) = (&pod.metadata, &pod.spec);
        let nominated = pod.status.nominated_node_name.as_str();
        let needs = Needs::from(pod);
        let labels = metadata.labels.iter();
        Self {
            uid: Uid::new(&metadata.uid),
            version: Version::of(metadata),
            namespace: metadata.namespace.as_str().into(),
            name: metadata.name.as_str().into(),
            labels: labels
                .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
                .collect(),
            node: (!spec.node_name.is_empty()).then(|| spec.node_name.as_str().into()),
            nominated: (!nominated.is_empty()).then(|| nominated.into()),
            started: started(pod),
            load_times: LoadTimes::of(pod),
            allotment: Allotment::of(pod).filter(|own| own.is_within(&needs.taken.charged)),
            may_preempt: spec.preemption_policy != Some(PreemptionPolicy::Never),
            giving_way: metadata.deletion_timestamp.is_some() && is_preempted(pod),
            is_spared: is_spared(pod),
            priority: spec.priority.unwrap_or(0),
            deleting: metadata.deletion_timestamp.is_some(),
            scheduler: pod.scheduler().into(),
            gates: spec.scheduling_gates.iter().map(|gate| gate.name.as_str().into()).collect(),
            extended: extended(pod),
            owners: metadata.owner_references.as_slice().into(),
            gang: Membership::of(pod).map(Arc::new),
            quota: quota_name(pod).map(Into::into),
            preemptible: match is_preemptible(pod) {
                Ok(false) => Preemptible::No,
                Ok(true) | Err(_) => Preemptible::Yes,
            },
            holds: operating_rules(pod, &needs.taken.charged),
            needs,
            rest: 0,
        }
    }
}

/// Names of resources that are not Kubernetes' own, which containers request or are limited in.
fn extended(pod: &Pod) -> Box<[Box<str>]> {
    let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
    let lists = containers.flat_map(|one| [&one.resources.requests, &one.resources.limits]);
    let names = lists.flat_map(|list| list.keys()).filter(|name| name.contains('/'));
    let names: BTreeSet<Box<str>> = names.map(|name| name.as_str().into()).collect();
    names.into_iter().collect()
}

fn started(pod: &Pod) -> Option<Moment> {
    pod.status.start_time.map(Moment::from)
}

/// Whether a scheduler pushed the pod out for another one.
fn is_preempted(pod: &Pod) -> bool {
    let target = pod.status.conditions.iter().find(|one| one.r#type == api::pod::DISRUPTION_TARGET);
    target.is_some_and(|one| one.is_true() && one.reason == "PreemptionByScheduler")
}

impl From<&PodDisruptionBudget> for Fact {
    /// A budget whose selector cannot be read protects no pod.
    fn from(wire: &PodDisruptionBudget) -> Self {
        let selector = wire.spec.selector.as_ref().and_then(|own| own.to_selector().ok());
        let going = wire.status.disrupted_pods.keys();
        Self::Budget {
            namespace: wire.metadata.namespace.as_str().into(),
            name: wire.metadata.name.as_str().into(),
            budget: Some(Budget {
                pods: selector.unwrap_or_else(Selector::nothing),
                allowed: wire.status.disruptions_allowed,
                going: going.map(|name| name.as_str().into()).collect(),
            }),
        }
    }
}

impl From<&Pod> for Needs {
    fn from(pod: &Pod) -> Self {
        let spec = &pod.spec;
        let sidecars = spec.init_containers.iter();
        let sidecars = sidecars.filter(|one| one.restart_policy == Some(RestartPolicy::Always));
        let ports = sidecars.chain(&spec.containers).flat_map(|container| &container.ports);
        let ports = ports
            .filter(|port| port.host_port > 0)
            .map(|port| HostPort::new(&port.host_ip, &port.protocol, port.host_port));
        let containers = spec.init_containers.iter().chain(&spec.containers);
        let (requests, taken) = requests(pod);
        let too_many_terms = too_many_terms(pod);
        let of_terms = Some(pod).filter(|_| too_many_terms.is_none());
        let load = load_needs(pod, &requests.charged, limits(pod));
        Self {
            requests,
            taken,
            ports: Ports(ports.collect()),
            tolerations: Tolerations(spec.tolerations.as_slice().into()),
            node_affinity: node_affinity(pod),
            images: Images::new(containers.map(|container| container.image.as_str())),
            pod_affinity: of_terms.map(pod_affinity).unwrap_or_default(),
            spread: of_terms.map(spread).unwrap_or_default(),
            too_many_terms,
            owner: owner(pod),
            volumes: volumes(pod),
            load,
            cpus: cpu_needs(pod),
            hint: hint(pod),
            reservation: reservation_needs(pod),
            resource_claims: !spec.resource_claims.is_empty(),
        }
    }
}

/// Nodes that were chosen for a pod before.
fn hint(pod: &Pod) -> Option<Hint> {
    match SchedulingHint::of(pod) {
        Ok(hint) => hint.map(|hint| Hint {
            nodes: hint.node_names.into(),
            preferred: hint.preferred_node_names.into(),
            malformed: None,
        }),
        Err(error) => Some(Hint { malformed: Some(error.to_string().into()), ..Hint::default() }),
    }
}

/// The controller of a pod, where its kind says which pods are alike.
fn owner(pod: &Pod) -> Option<Owner> {
    let mut owners = pod.metadata.owner_references.iter();
    let controller = owners.find(|owner| owner.controller == Some(true))?;
    let kind = match (controller.api_version.as_str(), controller.kind.as_str()) {
        ("v1", "ReplicationController") => OwnerKind::ReplicationController,
        ("apps/v1", "ReplicaSet") => OwnerKind::ReplicaSet,
        ("apps/v1", "StatefulSet") => OwnerKind::StatefulSet,
        _ => return None,
    };
    Some(Owner { kind, name: controller.name.as_str().into() })
}

fn owner_fact(kind: OwnerKind, metadata: &ObjectMeta, selector: Selector) -> Fact {
    Fact::Owner {
        namespace: metadata.namespace.as_str().into(),
        owner: Owner { kind, name: metadata.name.as_str().into() },
        selector: Some(selector),
    }
}

fn pairs(labels: &BTreeMap<String, String>) -> Selector {
    Selector::from_pairs(labels.iter().map(|(key, value)| (key.as_str(), value.as_str())))
}

impl From<&Service> for Fact {
    /// A service without a selector leads to nothing, not to everything.
    fn from(service: &Service) -> Self {
        let labels = &service.spec.selector;
        let selector = if labels.is_empty() { Selector::nothing() } else { pairs(labels) };
        owner_fact(OwnerKind::Service, &service.metadata, selector)
    }
}

impl From<&ReplicationController> for Fact {
    fn from(controller: &ReplicationController) -> Self {
        let selector = pairs(&controller.spec.selector);
        owner_fact(OwnerKind::ReplicationController, &controller.metadata, selector)
    }
}

impl From<&ReplicaSet> for Fact {
    fn from(set: &ReplicaSet) -> Self {
        let selector = set.spec.selector.to_selector().unwrap_or_else(|_| Selector::nothing());
        owner_fact(OwnerKind::ReplicaSet, &set.metadata, selector)
    }
}

impl From<&StatefulSet> for Fact {
    fn from(set: &StatefulSet) -> Self {
        let selector = set.spec.selector.to_selector().unwrap_or_else(|_| Selector::nothing());
        owner_fact(OwnerKind::StatefulSet, &set.metadata, selector)
    }
}

fn node_affinity(pod: &Pod) -> NodeAffinity {
    let labels = pod.spec.node_selector.iter();
    let affinity = pod.spec.affinity.as_ref().and_then(|all| all.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    let preferred = affinity.map(|affinity| affinity.preferred.as_slice()).unwrap_or_default();
    NodeAffinity {
        labels: labels.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
        required: required
            .map(|selector| selector.node_selector_terms.iter().filter_map(term).collect()),
        preferred: preferred
            .iter()
            .filter(|one| one.weight != 0)
            .filter_map(|one| Some(Preference { weight: one.weight, term: term(&one.preference)? }))
            .collect(),
    }
}

/// A term; none where it asks for something that nobody understands, so that it holds nowhere.
pub(super) fn term(wire: &NodeSelectorTerm) -> Option<NodeTerm> {
    let labels = wire.match_expressions.iter().map(requirement).collect::<Option<_>>()?;
    let fields = wire.match_fields.iter().map(field).collect::<Option<_>>()?;
    Some(NodeTerm { labels, fields })
}

fn requirement(wire: &NodeSelectorRequirement) -> Option<Requirement> {
    let operator = match &wire.operator {
        NodeSelectorOperator::In => Operator::In,
        NodeSelectorOperator::NotIn => Operator::NotIn,
        NodeSelectorOperator::Exists => Operator::Exists,
        NodeSelectorOperator::DoesNotExist => Operator::DoesNotExist,
        NodeSelectorOperator::Gt => Operator::Gt,
        NodeSelectorOperator::Lt => Operator::Lt,
        NodeSelectorOperator::Other(_) => return None,
    };
    Some(Requirement { key: wire.key.clone(), operator, values: wire.values.as_slice().into() })
}

fn field(wire: &NodeSelectorRequirement) -> Option<Field> {
    let is = match &wire.operator {
        NodeSelectorOperator::In => true,
        NodeSelectorOperator::NotIn => false,
        _ => return None,
    };
    match (&*wire.key, wire.values.as_slice()) {
        ("metadata.name", [name]) => Some(Field { is, name: name.clone() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn s10_73_a_label_names_another_scheduler_than_the_spec() {
        let check = |labels: serde_json::Value, expected: &str| {
            let pod = json!({ "metadata": { "labels": labels },
                              "spec": { "schedulerName": "default-scheduler" } });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(&*PodFact::from(&pod).scheduler, expected);
        };
        check(
            json!({ "scheduling.koordinator.sh/scheduler-name": "koord-scheduler" }),
            "koord-scheduler",
        );
        check(json!({ "scheduling.koordinator.sh/scheduler-name": "" }), "default-scheduler");
        check(json!({}), "default-scheduler");
    }

    #[test]
    fn resources_have_the_names_of_today() {
        let pod = json!({ "spec": { "containers": [{ "name": "c", "resources": { "requests": {
            "koordinator.sh/batch-cpu": "1500", "kubernetes.io/batch-memory": "7",
            "koordinator.sh/batch-memory": "9" } } }] } });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let charged = PodFact::from(&pod).needs.requests.charged;
        let expected =
            [("kubernetes.io/batch-cpu".into(), 1_500), ("kubernetes.io/batch-memory".into(), 7)];
        assert_eq!(charged.scalars, expected);
    }
}
