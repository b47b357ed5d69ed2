//! What is held on a node, and who uses it.

use std::sync::Arc;

use api::reservation::ReservationOwner;
use api::{Reservation, ResourceList};
use engine::fact::{ReservationPolicy, quantities};
use engine::ledger::{self, Ledger, NodeIndex, PodRow};
use serde::Serialize;

use super::wire::{Ports, Resource, ports};

/// The reservations on a node.
#[derive(Default, Serialize)]
pub(in crate::debug) struct NodeReservations {
    items: Vec<ReservationItem>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReservationItem {
    /// Only of pods: reservations are in none.
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    uid: String,
    kind: &'static str,
    available: bool,
    allocate_once: bool,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    allocatable: ResourceList,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    reserved: ResourceList,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    allocated: ResourceList,
    #[serde(skip_serializing_if = "Ports::is_empty")]
    allocatable_ports: Ports,
    #[serde(skip_serializing_if = "Ports::is_empty")]
    allocated_ports: Ports,
    available_resource: Resource,
    allocated_resource: Resource,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owners: Vec<ReservationOwner>,
    #[serde(skip_serializing_if = "str::is_empty")]
    allocate_policy: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assigned_pods: Vec<AssignedPod>,
}

/// A pod that uses a reservation, as Go writes a structure without names of its own.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AssignedPod {
    namespace: String,
    name: String,
    #[serde(rename = "UID")]
    uid: String,
    requests: ResourceList,
    ports: Ports,
}

/// What is shown of a node whose reservations have these objects.
pub(super) fn shown(
    ledger: &Ledger,
    node: NodeIndex,
    objects: &[Arc<Reservation>],
) -> NodeReservations {
    let items = ledger.reservations.on(node).map(|own| {
        let object = objects.iter().find(|object| *object.metadata.uid == *own.uid.0);
        item(ledger, own, object.map(|object| &**object))
    });
    let mut items: Vec<ReservationItem> = items.collect();
    items.sort_unstable_by(|a, b| (&a.name, &a.namespace).cmp(&(&b.name, &b.namespace)));
    NodeReservations { items }
}

fn item(
    ledger: &Ledger,
    own: ledger::Reservation<'_>,
    object: Option<&Reservation>,
) -> ReservationItem {
    let (rules, used) = (own.rules, own.used);
    let row = ledger.pod(own.uid);
    let held = row.map(|row| &*ledger.asks.ports.get(row.ask.ports).0);
    // Pods that run can be reservations as well.
    let pod = row.filter(|row| !row.is_reservation());
    let mut available = rules.amounts.clone();
    available.reduce(&rules.kept_back);
    available.reduce(&used.amounts);
    let pods = ledger.users(own).into_iter().map(|(uid, row)| AssignedPod {
        namespace: row.namespace.to_string(),
        name: row.name.to_string(),
        uid: uid.0.to_string(),
        requests: quantities(&ledger.asks.requests.get(row.ask.taken).charged),
        ports: ports(&ledger.asks.ports.get(row.ask.ports).0),
    });
    ReservationItem {
        namespace: pod.map(|pod| pod.namespace.to_string()).unwrap_or_default(),
        name: rules.name.to_string(),
        uid: own.uid.0.to_string(),
        kind: if pod.is_some() { "Pod" } else { "Reservation" },
        // What is only decided may not come to be.
        available: row.is_some_and(PodRow::is_bound),
        allocate_once: rules.is_for_one_pod,
        allocatable: quantities(&rules.amounts),
        reserved: quantities(&rules.kept_back),
        allocated: quantities(&used.amounts),
        allocatable_ports: ports(held.unwrap_or_default()),
        allocated_ports: ports(&used.ports),
        available_resource: Resource::of(&available, rules.pods.unwrap_or_default()),
        allocated_resource: Resource::of(&used.amounts, 0),
        owners: object.map(|object| object.spec.owners.clone()).unwrap_or_default(),
        allocate_policy: match rules.policy {
            ReservationPolicy::Default => "",
            ReservationPolicy::Aligned => "Aligned",
            ReservationPolicy::Restricted => "Restricted",
        },
        assigned_pods: pods.collect(),
    }
}
