//! What is said of reservations: by themselves, and by pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cpus::node_reservation;
use api::pod::Pod;
use api::reservation::{self as wire, AllocatePolicy, Allocated, Reservation, ReservationOwner};
use api::{Malformed, OwnerReference, ResourceList};
use object::quantity::Quantity;
use object::selector::label::Selector;
use object::taint::Taint;

use super::amounts::{amounts, named, pods};
use super::wire::term;
use super::{Allotment, Fact, PodFact, Uid};
use crate::needs::{
    Amounts, OwnReservation, Requests, ReservationAffinity, ReservationNeeds, Tolerations, Volumes,
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

fn owner_rule(owner: &ReservationOwner) -> Result<OwnerRule, Malformed> {
    let labels = owner.label_selector.as_ref().map(|told| {
        told.to_selector().map_err(|error| Malformed {
            key: "spec.owners[].labelSelector",
            value: error.to_string(),
            fix: "write a label selector as in a Deployment",
        })
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
fn kept_back(reservation: &Reservation) -> Result<Amounts, Malformed> {
    let Some((own, cpus)) = node_reservation(&reservation.metadata)? else {
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
        if reservation.spec.pre_allocation {
            let fix = "leave it out: to take over pods that run is not supported yet";
            return Err(Malformed { key: "spec.preAllocation", value: "true".to_owned(), fix });
        }
        let template = reservation.as_pod()?;
        let owners = reservation.spec.owners.iter().map(owner_rule);
        let rules = ReservationRules {
            owners: owners.collect::<Result<_, _>>()?,
            restricted: reservation.restricted()?.into_iter().map(Into::into).collect(),
            kept_back: kept_back(reservation)?,
            ..plain_rules(reservation)
        };
        let resized = reservation.resized()?;
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
        let template = reservation.as_pod().unwrap_or_else(|_| bare());
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
        (pod.extended, pod.owners, pod.may_preempt) = (Box::default(), Box::default(), false);
        // It uses none itself, whatever its template says.
        let node = reservation.wanted_node().map(Into::into);
        let own = Some(OwnReservation { policy: rules.policy, node });
        pod.needs.reservation = Some(ReservationNeeds { own, ..ReservationNeeds::default() });
        let mut held_pods = places(template);
        let held = if reservation.is_held() { &reservation.status.allocatable } else { resized };
        let charged = &mut pod.needs.requests.charged;
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

/// What a pod wants of reservations; none where it wants nothing of the kind.
pub(super) fn reservation_needs(pod: &Pod) -> Option<ReservationNeeds> {
    let read = || Ok((wire::ReservationAffinity::of(pod)?, wire::exact_match(pod)?));
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
    let is_ignoring = wire::is_ignored(pod);
    let exact = exact.into();
    let needs = ReservationNeeds { affinity, exact, is_ignoring, own: None, malformed: None };
    (needs != ReservationNeeds::default()).then_some(needs)
}

#[cfg(test)]
mod tests;
