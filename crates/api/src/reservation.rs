//! Capacity that is held on a node for pods that are still to come.

mod pod;

use std::collections::BTreeMap;
use std::time::Duration;

use object::selector::label::LabelSelector;
use object::taint::Taint;
use object::time::{self, Time};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

pub use pod::{
    AFFINITY, ALLOCATED, Allocated, CURRENT_OWNER, EXACT_MATCH, IGNORED_LABEL,
    OPERATING_MODE_LABEL, OWNERS, PRE_ALLOCATABLE_LABEL, PRE_ALLOCATABLE_PRIORITY,
    ReservationAffinity, ReservationSelector, SPARED_LABEL, exact_match, has_current_owner,
    is_ignored, is_operating, is_spared, owners, takeover_rank,
};

use crate::condition::Condition;
use crate::cpus::RESOURCE_STATUS;
use crate::malformed::{Malformed, annotation};
use crate::object_meta::{ObjectMeta, OwnerReference};
use crate::object_reference::ObjectReference;
use crate::pod::{Pod, ResourceList};
use crate::pod_template::PodTemplate;
use crate::resource::resource;
use crate::wire;

/// Label: of several reservations, the one with the lowest number that is not 0 is used first.
pub const ORDER_LABEL: &str = "scheduling.koordinator.sh/reservation-order";
/// Label: the priority where its template has none.
pub const PRIORITY_LABEL: &str = "koordinator.sh/priority";
/// Annotation: of which resources no more is used than is held.
pub const RESTRICTED_OPTIONS: &str = "scheduling.koordinator.sh/reservation-restricted-options";
/// Annotation: amounts that it holds in the end, in place of those of its template.
pub const RESIZE_ALLOCATABLE: &str = "scheduling.koordinator.sh/reservation-resize-allocatable";
/// Label: it holds nothing unless it takes over a pod that runs.
pub const PRE_ALLOCATION_REQUIRED_LABEL: &str = "scheduling.koordinator.sh/pre-allocation-required";
/// The condition that says whether it has a node.
pub const SCHEDULED: &str = "Scheduled";
/// The condition that says whether pods can use it.
pub const READY: &str = "Ready";
const TTL: &str = "spec.ttl";
/// The priority of one that says nothing of it: nobody makes it go.
const PRIORITY_UNLESS_TOLD: i32 = i32::MAX;
/// Where its template lives that does not say where.
const NAMESPACE_UNLESS_TOLD: &str = "default";

/// Capacity that is held on a node for pods that are still to come.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Reservation {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// What it holds, and for whom.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: ReservationSpec,
    /// What became of it.
    #[serde(deserialize_with = "wire::or_default")]
    pub status: ReservationStatus,
}

resource!(
    Reservation,
    "scheduling.koordinator.sh",
    "v1alpha1",
    "Reservation",
    "reservations",
    false
);

/// What is held, and for whom.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReservationSpec {
    /// The pod in whose stead it gets a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplate>,
    /// Pods that one of these means may use it.
    #[serde(deserialize_with = "wire::or_default")]
    pub owners: Vec<ReservationOwner>,
    /// How long it lives, as it is written: a server takes any text here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// Until when it lives, as it is written: a server takes times that nobody can read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Whether it takes over pods that run.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_default")]
    pub pre_allocation: bool,
    /// Which pods, and how many.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_default")]
    pub pre_allocation_policy: PreAllocationPolicy,
    /// Whether the first pod that uses it has all of it; so it is where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocate_once: Option<bool>,
    /// Whether pods that use it may use more than it holds.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_default")]
    pub allocate_policy: AllocatePolicy,
    /// Whether no more pods may use it.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_default")]
    pub unschedulable: bool,
    /// What keeps pods from using it.
    #[serde(deserialize_with = "timeless", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

/// Taints without when they were added: nobody reads that, and what cannot be read of it is no reason not
/// to read the rest.
fn timeless<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Taint>, D::Error> {
    let all: Option<Vec<Map<String, Value>>> = Option::deserialize(deserializer)?;
    let taint = |mut own: Map<String, Value>| {
        own.remove("timeAdded");
        Taint::deserialize(Value::Object(own)).map_err(D::Error::custom)
    };
    all.unwrap_or_default().into_iter().map(taint).collect()
}

/// Which pods that run a reservation takes over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PreAllocationPolicy {
    /// Which ones.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_default")]
    pub mode: PreAllocationMode,
    /// Whether it may be more than one.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_default")]
    pub enable_multiple: bool,
}

wire::wire_enum! {
    /// Which pods that run a reservation takes over. Where nothing is said, its owners.
    PreAllocationMode {
        /// Its owners.
        Default,
        /// All that may be taken over.
        Cluster,
    }
}

wire::wire_enum! {
    /// Whether pods that use a reservation may use more than it holds. The word where nothing is said is
    /// empty, and means the same as `Aligned`.
    AllocatePolicy {
        /// They may use of the node what the reservation has not.
        Aligned,
        /// They may not.
        Restricted,
    }
}

/// How many owners a reservation has: each is held against every pod that waits.
const OWNERS_MAX: usize = 256;
/// How many taints.
const TAINTS_MAX: usize = 64;

/// Who may use a reservation: pods of which all that is said here is true.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReservationOwner {
    /// This pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectReference>,
    /// Pods of this controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<ReservationController>,
    /// Pods with these labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

/// Whether so many may own a reservation, and each means some pods; they are written at this key.
fn check_owners(key: &'static str, owners: &[ReservationOwner]) -> Result<(), Malformed> {
    if owners.len() > OWNERS_MAX {
        let fix = "write at most 256 owners; a labelSelector means many pods";
        return Err(Malformed::new(key, &owners.len().to_string(), fix));
    }
    owners.iter().try_for_each(|owner| owner.check(key))
}

impl ReservationOwner {
    /// Whether it means some pods and not all there are; it is written at this key.
    ///
    /// # Errors
    /// What of it means nothing.
    pub fn check(&self, key: &'static str) -> Result<(), Malformed> {
        let told = || serde_json::to_string(self).unwrap_or_default();
        let version = self.object.as_ref().map_or("", |object| &object.api_version);
        if !matches!(version, "" | "v1") {
            let fix = "name a pod: the apiVersion of an object is v1";
            return Err(Malformed::new(key, &told(), fix));
        }
        let is_any = |parts: &[&str]| parts.iter().all(|part| part.is_empty());
        let object = self.object.as_ref();
        let of_any_pod = object.is_none_or(|own| is_any(&[&own.namespace, &own.name, &own.uid]));
        let controller = self.controller.as_ref();
        let of_anybody = controller.is_none_or(|own| {
            let OwnerReference { api_version, kind, name, uid, controller, .. } = &own.reference;
            is_any(&[api_version, kind, name, uid, &own.namespace]) && controller.is_none()
        });
        let with_any_label = self.label_selector.as_ref().is_none_or(|own| {
            own.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
                && own.match_expressions.as_ref().is_none_or(Vec::is_empty)
        });
        if of_any_pod && of_anybody && with_any_label {
            let fix = "say of each owner which object, controller or labelSelector it is: this one is every \
                       pod of the cluster";
            return Err(Malformed::new(key, &told(), fix));
        }
        Ok(())
    }
}

/// A controller whose pods may use a reservation. What is empty may be anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReservationController {
    /// The controller, as its pods refer to it.
    #[serde(flatten)]
    pub reference: OwnerReference,
    /// Namespace of the pods.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// What became of a reservation.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReservationStatus {
    /// Where it stands in its life.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "wire::is_default")]
    pub phase: ReservationPhase,
    /// What is so, and since when.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Pods that use it.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub current_owners: Vec<ObjectReference>,
    /// The node that it is on.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// What it holds.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: ResourceList,
    /// What of it pods use.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub allocated: ResourceList,
}

wire::wire_enum! {
    /// Where a reservation stands in its life. Where nothing is said, it waits for a node.
    ReservationPhase {
        /// It waits for a node.
        Pending,
        /// It holds what it should.
        Available,
        /// The pod that it was for has it.
        Succeeded,
        /// It has expired, or its node is gone.
        Failed,
        /// It waits for pods to leave; nobody writes this.
        Waiting,
    }
}

/// Which resources of a reservation are used up to what is held, and no further.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct RestrictedOptions {
    #[serde(deserialize_with = "wire::or_default")]
    resources: Vec<String>,
}

/// Amounts that are held in the end.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct ResizeAllocatable {
    #[serde(deserialize_with = "wire::or_default")]
    resources: ResourceList,
}

impl Reservation {
    /// Whether its life is over.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.status.phase, ReservationPhase::Succeeded | ReservationPhase::Failed)
    }

    /// Whether it holds something on a node.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.status.node_name.is_empty()
            && matches!(self.status.phase, ReservationPhase::Available | ReservationPhase::Waiting)
    }

    /// Whether the first pod that uses it has all of it.
    #[must_use]
    pub fn is_for_one_pod(&self) -> bool {
        self.spec.allocate_once.unwrap_or(true)
    }

    /// How long it lives; none where that is for ever.
    ///
    /// # Errors
    /// When what is written is no length of time.
    pub fn lifetime(&self) -> Result<Option<Duration>, Malformed> {
        let Some(text) = &self.spec.ttl else { return Ok(None) };
        let length = text.parse::<time::Duration>().ok();
        let nanos = length.and_then(|length| u64::try_from(length.as_nanos()).ok());
        let fix = "write a length of time such as 24h or 90s, or 0s for ever";
        let nanos = nanos.ok_or_else(|| Malformed::new(TTL, text, fix))?;
        Ok((nanos > 0).then(|| Duration::from_nanos(nanos)))
    }

    /// Which goes first of several that a pod may use; none where it does not matter.
    #[must_use]
    pub fn order(&self) -> Option<i64> {
        let number = self.metadata.labels.get(ORDER_LABEL)?.parse().ok()?;
        Some(number).filter(|number| *number != 0)
    }

    /// Whether it holds nothing unless it takes over a pod that runs.
    #[must_use]
    pub fn must_take_over(&self) -> bool {
        self.metadata.labels.get(PRE_ALLOCATION_REQUIRED_LABEL).is_some_and(|word| word == "true")
    }

    /// The resources of which no more is used than it holds, where it names some.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn restricted(&self) -> Result<Vec<String>, Malformed> {
        let fix = r#"write JSON such as {"resources":["cpu","memory"]}"#;
        let own: Option<RestrictedOptions> =
            annotation(&self.metadata.annotations, RESTRICTED_OPTIONS, fix)?;
        Ok(own.unwrap_or_default().resources)
    }

    /// Amounts that it holds in the end, in place of those of its template.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn resized(&self) -> Result<ResourceList, Malformed> {
        let fix = r#"write JSON such as {"resources":{"cpu":"4"}}"#;
        let own: Option<ResizeAllocatable> =
            annotation(&self.metadata.annotations, RESIZE_ALLOCATABLE, fix)?;
        Ok(own.unwrap_or_default().resources)
    }

    /// Until when it lives, where it says so outright.
    ///
    /// # Errors
    /// When that is no time.
    pub fn expires(&self) -> Result<Option<Time>, Malformed> {
        let fix = "write a time such as 2030-01-02T15:04:05Z";
        let read = |text: &String| {
            text.parse::<Time>().map_err(|_| Malformed::new("spec.expires", text, fix))
        };
        self.spec.expires.as_ref().map(read).transpose()
    }

    /// Why nothing can be held for it, whatever the nodes are.
    ///
    /// # Errors
    /// What is missing.
    pub fn check(&self) -> Result<(), Malformed> {
        if self.spec.owners.is_empty() {
            let fix = "name at least one owner: an object, a controller or a labelSelector";
            return Err(Malformed::new("spec.owners", "", fix));
        }
        check_owners("spec.owners", &self.spec.owners)?;
        if self.spec.taints.len() > TAINTS_MAX {
            let count = self.spec.taints.len().to_string();
            return Err(Malformed::new("spec.taints", &count, "write at most 64 taints"));
        }
        if self.spec.template.is_none() {
            return Err(Malformed::new("spec.template", "", "say what is to be held"));
        }
        self.expires()?;
        self.lifetime().map(drop)
    }

    /// The pod in whose stead it gets a node, as a pod: what it holds is what that asks for.
    ///
    /// # Errors
    /// When its template is no template of a pod.
    pub fn as_pod(&self) -> Result<Pod, Malformed> {
        let template = self.spec.template.as_ref().map_or(&Value::Null, |template| &template.0);
        let whole = json!({ "metadata": { "name": self.metadata.name, "uid": self.metadata.uid },
                            "spec": template["spec"] });
        let read = |value: Value| serde_json::from_value::<Pod>(value);
        let told = PodTemplate(template.clone());
        let fix = "write a pod template that the API server would take";
        let mut pod = read(whole)
            .map_err(|error| Malformed::new("spec.template", &error.to_string(), fix))?;
        let own = &self.metadata;
        pod.metadata.namespace = match &template["metadata"]["namespace"] {
            Value::String(name) if !name.is_empty() => name.clone(),
            _ => NAMESPACE_UNLESS_TOLD.to_owned(),
        };
        pod.metadata.labels = told.labels();
        pod.metadata.labels.extend(own.labels.clone());
        // What the pod got that the template was taken from is not what this one gets.
        pod.metadata.annotations = told.annotations();
        pod.metadata.annotations.remove(RESOURCE_STATUS);
        pod.metadata.annotations.extend(own.annotations.clone());
        pod.metadata.annotations.remove(ALLOCATED);
        pod.metadata.resource_version.clone_from(&own.resource_version);
        pod.metadata.deletion_timestamp = own.deletion_timestamp;
        let priority = own.labels.get(PRIORITY_LABEL).and_then(|text| text.parse().ok());
        let spec = &mut pod.spec;
        spec.priority = spec.priority.or(priority).or(Some(PRIORITY_UNLESS_TOLD));
        if spec.scheduler_name.is_empty() {
            "default-scheduler".clone_into(&mut spec.scheduler_name);
        }
        // The API server gives a node to no pod of a template; one that is named there is a wish.
        spec.node_name = match self.is_held() {
            true => self.status.node_name.clone(),
            false => String::new(),
        };
        Ok(pod)
    }

    /// The node that its template names, where it names one.
    #[must_use]
    pub fn wanted_node(&self) -> Option<&str> {
        let template = &self.spec.template.as_ref()?.0;
        template["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservation(spec: Value) -> Reservation {
        let metadata = json!({ "name": "r", "uid": "u", "labels": { "a": "own", "b": "own" } });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    }

    #[test]
    fn a_reservation_gets_its_node_as_a_pod_would() {
        let template = json!({
            "metadata": { "labels": { "a": "told", "c": "told" } },
            "spec": { "nodeName": "n1", "containers": [{ "name": "hold" }] },
        });
        let own = reservation(json!({ "template": template, "owners": [{ "object": {} }] }));
        let pod = own.as_pod().unwrap();
        let labels: Vec<_> = pod.metadata.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(labels, ["a=own", "b=own", "c=told"]);
        assert_eq!((&*pod.metadata.namespace, &*pod.metadata.uid), ("default", "u"));
        assert_eq!((&*pod.spec.scheduler_name, &*pod.spec.node_name), ("default-scheduler", ""));
        assert_eq!(own.wanted_node(), Some("n1"));
        assert!(own.is_for_one_pod() && !own.has_ended() && !own.is_held());
    }

    #[test]
    fn s11_15_the_priority_is_that_of_the_template_or_of_the_label_or_the_highest() {
        let check = |spec: Value, label: Option<&str>, expected: i32| {
            let mut own = reservation(json!({ "template": { "spec": spec } }));
            let labels = &mut own.metadata.labels;
            labels.extend(label.map(|label| (PRIORITY_LABEL.to_owned(), label.to_owned())));
            assert_eq!(own.as_pod().unwrap().spec.priority, Some(expected));
        };
        check(json!({}), None, i32::MAX);
        check(json!({}), Some("9000"), 9000);
        check(json!({ "priority": 7 }), Some("9000"), 7);
        check(json!({ "priorityClassName": "high" }), None, i32::MAX);
        check(json!({}), Some("much"), i32::MAX);
    }

    #[test]
    fn s11_42_an_order_is_a_number_that_is_not_0() {
        let check = |label: &str, expected: Option<i64>| {
            let mut own = reservation(json!({}));
            own.metadata.labels.insert(ORDER_LABEL.to_owned(), label.to_owned());
            assert_eq!(own.order(), expected, "{label}");
        };
        check("10", Some(10));
        check("-1", Some(-1));
        check("0", None);
        check("abc", None);
        check("", None);
    }

    #[test]
    fn what_cannot_be_held_is_refused_by_name() {
        let check = |spec: Value, expected: Option<&str>| {
            let error = reservation(spec).check().err();
            assert_eq!(error.as_ref().map(|error| error.key), expected);
        };
        let (owners, template) = (json!([{ "object": { "name": "p" } }]), json!({ "spec": {} }));
        check(json!({ "owners": owners, "template": template }), None);
        check(json!({ "template": template }), Some("spec.owners"));
        let nothing = json!({ "apiVersion": "", "kind": "", "name": "", "uid": "" });
        for owner in [
            json!({}),
            json!({ "object": {} }),
            json!({ "object": { "kind": "Pod", "apiVersion": "v1" } }),
            json!({ "object": { "apiVersion": "apps/v1", "name": "web" } }),
            json!({ "controller": nothing }),
            json!({ "labelSelector": {} }),
            json!({ "labelSelector": { "matchLabels": {} }, "object": { "kind": "Pod" } }),
        ] {
            let one = json!({ "object": { "name": "p" } });
            check(json!({ "owners": [one, owner], "template": template }), Some("spec.owners"));
        }
        let many = |count: usize, one: Value| vec![one; count];
        let owner = json!({ "object": { "name": "p" } });
        check(json!({ "owners": many(256, owner.clone()), "template": template }), None);
        check(json!({ "owners": many(257, owner), "template": template }), Some("spec.owners"));
        let taints = many(65, json!({ "key": "k", "effect": "NoSchedule" }));
        let spec = json!({ "owners": owners, "template": template, "taints": taints });
        check(spec, Some("spec.taints"));
        let mut some = nothing.clone();
        some["kind"] = json!("ReplicaSet");
        check(json!({ "owners": [{ "controller": some }], "template": template }), None);
        check(json!({ "owners": owners }), Some("spec.template"));
        for ttl in ["abc", "", "99999999999h", "-5m"] {
            let spec = json!({ "owners": owners, "template": template, "ttl": ttl });
            check(spec.clone(), Some("spec.ttl"));
            assert_eq!(reservation(spec).check().unwrap_err().value(), ttl);
        }
        let taints = json!([{ "key": "k", "effect": "NoSchedule", "timeAdded": "soon" }]);
        check(json!({ "owners": owners, "template": template, "taints": taints }), None);
        for expires in ["2030-01-01T00:00:00x5Z", "2030-01-01T00:00:00+99:99", "soon", ""] {
            let spec = json!({ "owners": owners, "template": template, "expires": expires });
            check(spec, Some("spec.expires"));
        }
        let odd = json!({ "owners": owners, "template": { "spec": { "containers": 7 } } });
        assert_eq!(reservation(odd).as_pod().unwrap_err().key, "spec.template");
    }
}
