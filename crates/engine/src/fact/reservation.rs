//! What is said of reservations: by themselves, and by pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cpus::node_reservation;
use api::pod::{Pod, PodPhase};
use api::reservation::{
    self as wire, AllocatePolicy, Allocated, PreAllocationMode, Reservation, ReservationOwner,
};
use api::{Malformed, ObjectMeta, OwnerReference, ResourceList};
use object::names::qualified_name;
use object::quantity::Quantity;
use object::selector::label::Selector;
use object::taint::Taint;

use super::amounts::{amounts, is_scalar, named, pods};
use super::wire::term;
use super::{Allotment, Fact, PodFact, Uid};
use crate::needs::{
    Amounts, OwnReservation, Requests, ReservationAffinity, ReservationNeeds, TakeOver,
    Tolerations, Volumes,
};

/// A reservation that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationFact {
    /// The pod in whose stead it gets a node. What that asks for is what it holds.
    pub pod: PodFact,
    /// Who may use it, and how.
    pub rules: Arc<ReservationRules>,
}

/// Who may use a reservation, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReservationRules {
    /// Its name.
    pub name: Box<str>,
    /// Its labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Pods that one of these means may use it.
    pub owners: Box<[OwnerRule]>,
    /// Whether the first pod that uses it has all of it.
    pub is_for_one_pod: bool,
    /// Whether they may use more than it holds.
    pub policy: ReservationPolicy,
    /// Of these resources no more is used than it holds, where that is its policy; of all where none is
    /// named.
    pub restricted: Box<[Box<str>]>,
    /// Which goes first of several, the lowest number first; those without come last.
    pub order: Option<i64>,
    /// Whether no more pods may use it.
    pub is_closed: bool,
    /// What keeps pods from using it.
    pub taints: Box<[Taint]>,
    /// What it holds.
    pub amounts: Amounts,
    /// For how many pods, where it says so.
    pub pods: Option<i64>,
    /// What of it nobody may use.
    pub kept_back: Amounts,
}

/// How much a reservation holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Size {
    /// Amounts.
    pub amounts: Amounts,
    /// For how many pods, where it says so.
    pub pods: Option<i64>,
}

impl Size {
    /// What one of these rules holds.
    #[must_use]
    pub fn of(rules: &ReservationRules) -> Self {
        Self { amounts: rules.amounts.clone(), pods: rules.pods }
    }

    /// As much as either of two.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let mut amounts = self.amounts.clone();
        for name in other.amounts.names() {
            amounts.put(name, self.amounts.of(name).max(other.amounts.of(name)));
        }
        Self { amounts, pods: self.pods.max(other.pods) }
    }
}

/// Whether pods may use more than their reservation holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ReservationPolicy {
    /// They may; a node has only such reservations, or none such.
    #[default]
    Default,
    /// They may.
    Aligned,
    /// They may not.
    Restricted,
}

/// Pods of which all that is said here is true.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnerRule {
    /// The pod; what is empty may be anything.
    pub pod: Option<PodRule>,
    /// Who made the pod; what is empty may be anything.
    pub controller: Option<ControllerRule>,
    /// Its labels.
    pub labels: Option<Selector>,
}

/// A pod, as far as it is named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodRule {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its uid.
    pub uid: Box<str>,
}

/// Who makes pods, as far as it is named, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerRule {
    /// As the pod's reference to it says.
    pub reference: OwnerReference,
    /// The namespace of the pods.
    pub namespace: Box<str>,
}

/// The reservation that a pod uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationRef {
    /// Its name.
    pub name: Box<str>,
    /// What the API server calls it.
    pub uid: Uid,
}

impl ReservationRef {
    /// The one that a pod says it uses.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Self> {
        let Allocated { name, uid } = Allocated::of(pod)?;
        Some(Self { name, uid: Uid::new(&uid) })
    }

    /// The annotation by which a pod says so.
    #[must_use]
    pub fn stamp(&self) -> (&'static str, String) {
        let own = Allocated { name: self.name.clone(), uid: (*self.uid.0).into() };
        (wire::ALLOCATED, own.to_text())
    }
}

/// Who a pod is, as far as it decides whether it may use a reservation.
#[derive(Debug, Clone, Copy)]
pub struct Visitor<'a> {
    /// Its uid.
    pub uid: &'a Uid,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<Box<str>, Box<str>>,
    /// Who made it.
    pub owners: &'a [OwnerReference],
}

fn is_like(rule: &str, own: &str) -> bool {
    rule.is_empty() || rule == own
}

impl OwnerRule {
    /// Whether it means a pod.
    #[must_use]
    pub fn means(&self, pod: Visitor<'_>) -> bool {
        let is_pod = |rule: &PodRule| {
            is_like(&rule.namespace, pod.namespace)
                && is_like(&rule.name, pod.name)
                && is_like(&rule.uid, &pod.uid.0)
        };
        let made = |rule: &ControllerRule| {
            let told = &rule.reference;
            let is_it = |own: &OwnerReference| {
                is_like(&told.api_version, &own.api_version)
                    && is_like(&told.kind, &own.kind)
                    && is_like(&told.name, &own.name)
                    && is_like(&told.uid, &own.uid)
                    && told.controller.is_none_or(|told| told == own.controller.unwrap_or(false))
            };
            is_like(&rule.namespace, pod.namespace) && pod.owners.iter().any(is_it)
        };
        let label = |key: &str| pod.labels.get(key).map(|value| &**value);
        self.pod.as_ref().is_none_or(is_pod)
            && self.controller.as_ref().is_none_or(made)
            && self.labels.as_ref().is_none_or(|labels| labels.matches(label))
    }
}

impl ReservationRules {
    /// Whether it is for a pod.
    #[must_use]
    pub fn means(&self, pod: Visitor<'_>) -> bool {
        self.owners.iter().any(|owner| owner.means(pod))
    }

    /// Whether of a resource no more is used than it holds.
    #[must_use]
    pub fn restricts(&self, resource: &str) -> bool {
        let is_named = |names: &[Box<str>]| names.iter().any(|name| **name == *resource);
        // Where none of those that are named is held, all that is held counts.
        let all = !self.restricted.iter().any(|name| self.amounts.of(name) > 0);
        self.policy == ReservationPolicy::Restricted
            && self.amounts.of(resource) > 0
            && (all || is_named(&self.restricted))
    }
}

/// Whom an owner means that is written at this key.
fn owner_rule(key: &'static str, owner: &ReservationOwner) -> Result<OwnerRule, Malformed> {
    let labels = owner.label_selector.as_ref().map(|told| {
        let fix = "write a label selector as in a Deployment";
        told.to_selector().map_err(|error| Malformed::new(key, &error.to_string(), fix))
    });
    Ok(OwnerRule {
        pod: owner.object.as_ref().map(|told| PodRule {
            namespace: told.namespace.clone(),
            name: told.name.clone(),
            uid: told.uid.clone(),
        }),
        controller: owner.controller.as_ref().map(|told| ControllerRule {
            reference: told.reference.clone(),
            namespace: told.namespace.as_str().into(),
        }),
        labels: labels.transpose()?,
    })
}

/// What a reservation says that it keeps back.
fn kept_back(metadata: &ObjectMeta) -> Result<Amounts, Malformed> {
    let Some((own, cpus)) = node_reservation(metadata)? else {
        return Ok(Amounts::default());
    };
    let mut kept = amounts(named(&own.resources));
    if !cpus.is_empty() {
        kept.cpu_millis = i64::try_from(cpus.len()).unwrap_or(i64::MAX).saturating_mul(1_000);
    }
    Ok(kept)
}

/// What is always readable of who may use a reservation, and how: nobody, so far.
fn plain_rules(reservation: &Reservation) -> ReservationRules {
    let labels = reservation.metadata.labels.iter();
    ReservationRules {
        name: reservation.metadata.name.as_str().into(),
        labels: labels.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
        is_for_one_pod: reservation.is_for_one_pod(),
        policy: match reservation.spec.allocate_policy {
            AllocatePolicy::Aligned => ReservationPolicy::Aligned,
            AllocatePolicy::Restricted => ReservationPolicy::Restricted,
            AllocatePolicy::Other(_) => ReservationPolicy::Default,
        },
        order: reservation.order(),
        is_closed: reservation.spec.unschedulable || reservation.metadata.is_going(),
        taints: reservation.spec.taints.as_slice().into(),
        ..ReservationRules::default()
    }
}

/// How many pods containers ask for places for, where they do.
fn places(pod: &Pod) -> Option<i64> {
    let lists = pod.spec.containers.iter().map(|own| &own.resources.requests);
    lists.filter(|list| list.contains_key("pods")).map(pods).reduce(i64::saturating_add)
}

/// Refuses amounts that nobody can hold: no server has looked at them, as it would at those of a pod.
fn countable(key: &'static str, list: &ResourceList) -> Result<(), Malformed> {
    let is_named = |name: &str| {
        let is_plain = matches!(name, "cpu" | "memory" | "ephemeral-storage" | "pods");
        is_plain || (is_scalar(name) && qualified_name(name).is_empty())
    };
    let odd =
        list.iter().find(|(name, amount)| !is_named(name.as_str()) || **amount < Quantity::ZERO);
    odd.map_or(Ok(()), |(name, amount)| {
        let fix = "write 0 or more of cpu, memory, ephemeral-storage, pods, or a name such as example.com/gpu";
        Err(Malformed::new(key, &format!("{name}: {amount}"), fix))
    })
}

/// How many ports a template has, of all containers together.
const PORTS_MAX: usize = 256;

/// The same of all that a template asks for.
fn countable_template(template: &Pod) -> Result<(), Malformed> {
    let spec = &template.spec;
    let containers = spec.init_containers.iter().chain(&spec.containers);
    let ports: usize = containers.map(|one| one.ports.len()).sum();
    if ports > PORTS_MAX {
        let (key, fix) = ("spec.template.spec.containers[].ports", "name at most 256 ports");
        return Err(Malformed::new(key, &ports.to_string(), fix));
    }
    for one in spec.init_containers.iter().chain(&spec.containers) {
        countable("spec.template.spec.containers[].resources.requests", &one.resources.requests)?;
        countable("spec.template.spec.containers[].resources.limits", &one.resources.limits)?;
    }
    if let Some(whole) = &spec.resources {
        countable("spec.template.spec.resources.requests", &whole.requests)?;
        countable("spec.template.spec.resources.limits", &whole.limits)?;
    }
    countable("spec.template.spec.overhead", &spec.overhead)
}

impl ReservationFact {
    /// What a reservation says; none where it has ended.
    ///
    /// # Errors
    /// When something of it cannot be read: nobody uses it then.
    pub fn of(reservation: &Reservation) -> Result<Option<Self>, Malformed> {
        if reservation.has_ended() {
            return Ok(None);
        }
        reservation.check()?;
        let template = reservation.as_pod()?;
        countable_template(&template)?;
        let owners = reservation.spec.owners.iter();
        let owners = owners.map(|owner| owner_rule("spec.owners[].labelSelector", owner));
        let rules = ReservationRules {
            owners: owners.collect::<Result<_, _>>()?,
            restricted: reservation.restricted()?.into_iter().map(Into::into).collect(),
            kept_back: kept_back(&reservation.metadata)?,
            ..plain_rules(reservation)
        };
        let resized = reservation.resized()?;
        countable(wire::RESIZE_ALLOCATABLE, &resized)?;
        Ok(Some(Self::holding(reservation, &template, &resized, rules)))
    }

    /// One that holds something and cannot be read: it is for nobody, and what it holds is held.
    fn mute(reservation: &Reservation) -> Self {
        let bare = || {
            let mut pod = Pod::default();
            pod.metadata.name.clone_from(&reservation.metadata.name);
            pod.metadata.uid.clone_from(&reservation.metadata.uid);
            "default".clone_into(&mut pod.metadata.namespace);
            pod.spec.node_name.clone_from(&reservation.status.node_name);
            pod.spec.priority = Some(i32::MAX);
            pod
        };
        let is_countable = |template: &Pod| countable_template(template).is_ok();
        let template = reservation.as_pod().ok().filter(is_countable).unwrap_or_else(bare);
        Self::holding(reservation, &template, &ResourceList::new(), plain_rules(reservation))
    }

    /// One that holds what its template asks for, in so far as nothing else is said.
    fn holding(
        reservation: &Reservation,
        template: &Pod,
        resized: &ResourceList,
        rules: ReservationRules,
    ) -> Self {
        let mut pod = PodFact::from(template);
        // Nothing of it runs: it has no volumes, and uses nothing that anybody could report.
        (pod.needs.volumes, pod.needs.load) = (Volumes::default(), None);
        (pod.extended, pod.owners) = (Box::default(), Box::default());
        // It uses none itself, whatever its template says.
        let node = reservation.wanted_node().map(Into::into);
        let takes_over = (reservation.spec.pre_allocation && !reservation.is_held())
            .then(|| takeover(reservation));
        let own = Some(OwnReservation { policy: rules.policy, node, takes_over });
        pod.needs.reservation = Some(ReservationNeeds { own, ..ReservationNeeds::default() });
        let mut held_pods = places(template);
        let is_told = reservation.is_held();
        let held = if is_told { &reservation.status.allocatable } else { resized };
        let charged = &mut pod.needs.requests.charged;
        // What its template asks for by now is another question.
        if is_told {
            (*charged, held_pods) = (Amounts::default(), None);
        }
        for (name, quantity) in named(held) {
            let one: BTreeMap<String, Quantity> = [(name.to_owned(), quantity.clone())].into();
            match name {
                "pods" => held_pods = Some(pods(&one)),
                _ => charged.put(name, amounts(named(&one)).of(name)),
            }
        }
        charged.scalars.retain(|(_, amount)| *amount != 0);
        let amounts = charged.clone();
        pod.needs.requests = Requests {
            cpu_millis_scored: amounts.cpu_millis,
            memory_bytes_scored: amounts.memory_bytes,
            charged: amounts.clone(),
        };
        pod.needs.taken = pod.needs.requests.clone();
        pod.allotment = Allotment::of(template).filter(|own| own.is_within(&amounts));
        let rules = ReservationRules { amounts, pods: held_pods, ..rules };
        Self { pod, rules: Arc::new(rules) }
    }

    /// The same as a fact: one that has ended, or that cannot be read and holds nothing, is as good as gone.
    #[must_use]
    pub fn told(reservation: &Reservation) -> Fact {
        match Self::of(reservation) {
            Ok(Some(own)) => Fact::Reservation(Box::new(own)),
            Err(_) if reservation.is_held() => Fact::Reservation(Box::new(Self::mute(reservation))),
            Ok(None) | Err(_) => Fact::PodGone(Uid::new(&reservation.metadata.uid)),
        }
    }
}

/// Pods that run and that a reservation takes over.
fn takeover(reservation: &Reservation) -> TakeOver {
    let policy = &reservation.spec.pre_allocation_policy;
    TakeOver {
        uid: Uid::new(&reservation.metadata.uid),
        is_of_anyone: policy.mode == PreAllocationMode::Cluster,
        may_be_many: policy.enable_multiple,
        is_required: reservation.must_take_over(),
    }
}

/// Who may use a pod that is a reservation and has a node; nobody before it is ready, nor while somebody
/// outside says that it is used.
pub(super) fn operating_rules(pod: &Pod, taken: &Amounts) -> Option<Arc<ReservationRules>> {
    if pod.spec.node_name.is_empty() || !wire::is_operating(pod) {
        return None;
    }
    let metadata = &pod.metadata;
    let is_ready = pod.status.phase == PodPhase::Running
        && pod.status.conditions.iter().any(|one| one.r#type == "Ready" && one.is_true());
    let is_open = is_ready && !wire::has_current_owner(pod);
    let rule = |owner: &ReservationOwner| owner_rule(wire::OWNERS, owner);
    let read = || wire::owners(pod)?.iter().map(rule).collect::<Result<_, _>>();
    let owners = is_open.then(|| read().ok()).flatten();
    let labels = metadata.labels.iter();
    Some(Arc::new(ReservationRules {
        name: metadata.name.as_str().into(),
        labels: labels.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
        owners: owners.unwrap_or_default(),
        is_for_one_pod: true,
        policy: ReservationPolicy::Aligned,
        is_closed: metadata.is_going(),
        amounts: taken.clone(),
        kept_back: kept_back(metadata).unwrap_or_default(),
        ..ReservationRules::default()
    }))
}

impl PodFact {
    /// The same, where this is the annotation by which pods say which of several goes first that a
    /// reservation takes over.
    #[must_use]
    pub fn ranked_by(mut self, pod: &Pod, key: &str) -> Self {
        let takeover_rank = wire::takeover_rank(pod, key);
        let needs = self.needs.reservation.take().unwrap_or_default();
        let needs = ReservationNeeds { takeover_rank, ..needs };
        self.needs.reservation = (needs != ReservationNeeds::default()).then_some(needs);
        self
    }
}

/// What a pod wants of reservations; none where it wants nothing of the kind.
pub(super) fn reservation_needs(pod: &Pod) -> Option<ReservationNeeds> {
    let read = || {
        let rule = |owner: &ReservationOwner| owner_rule(wire::OWNERS, owner).map(drop);
        wire::owners(pod)?.iter().try_for_each(rule)?;
        Ok((wire::ReservationAffinity::of(pod)?, wire::exact_match(pod)?))
    };
    let (affinity, exact) = match read() {
        Ok(read) => read,
        Err(error) => {
            let error: Malformed = error;
            let malformed = Some(error.to_string().into());
            return Some(ReservationNeeds { malformed, ..ReservationNeeds::default() });
        }
    };
    let affinity = affinity.map(|told| {
        let labels = told.reservation_selector.into_iter();
        let terms = told.required.as_ref().map(|own| &own.reservation_selector_terms);
        ReservationAffinity {
            name: (!told.name.is_empty()).then(|| told.name.into()),
            labels: labels.map(|(key, value)| (key.into(), value.into())).collect(),
            terms: terms.map(|terms| terms.iter().filter_map(term).collect()),
            tolerations: Tolerations(told.tolerations.into()),
        }
    });
    let own = wire::is_operating(pod).then(|| OwnReservation {
        policy: ReservationPolicy::Aligned,
        ..OwnReservation::default()
    });
    let needs = ReservationNeeds {
        affinity,
        exact: exact.into(),
        is_ignoring: wire::is_ignored(pod),
        takeover_rank: wire::takeover_rank(pod, wire::PRE_ALLOCATABLE_PRIORITY),
        own,
        malformed: None,
    };
    (needs != ReservationNeeds::default()).then_some(needs)
}

#[cfg(test)]
mod tests;
