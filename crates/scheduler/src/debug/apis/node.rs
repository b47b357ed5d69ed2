//! A node as the scheduler counts it.

use std::collections::BTreeMap;

use api::ResourceList;
use engine::fact::{Uid, quantities};
use engine::ledger::{Ledger, NodeIndex, PodRow};
use engine::needs::Amounts;
use object::taint::Taint;
use serde::Serialize;

use super::wire::{Pod, Ports, Resource, ports};
use crate::debug::views::requested;

/// A node, its pods and what these take of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::debug) struct NodeInfo {
    node: Node,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pods: Vec<PodInfo>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pods_with_affinity: Vec<PodInfo>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pods_with_required_anti_affinity: Vec<PodInfo>,
    #[serde(skip_serializing_if = "Ports::is_empty")]
    used_ports: Ports,
    requested: Resource,
    non_zero_requested: Resource,
    remaining: Resource,
    allocatable: Resource,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    image_states: BTreeMap<String, ImageState>,
    #[serde(rename = "pvcRefCounts", skip_serializing_if = "BTreeMap::is_empty")]
    claims: BTreeMap<String, usize>,
}

/// The object, as far as it is kept.
#[derive(Serialize)]
struct Node {
    metadata: NodeMeta,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Serialize)]
struct NodeMeta {
    name: String,
    labels: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct NodeSpec {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taints: Vec<Taint>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unschedulable: bool,
}

#[derive(Serialize)]
struct NodeStatus {
    allocatable: ResourceList,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PodInfo {
    pod: Pod,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ImageState {
    size: i64,
    num_nodes: u32,
}

/// What is shown of a node.
pub(super) fn shown(ledger: &Ledger, node: NodeIndex) -> NodeInfo {
    let (nodes, at) = (&ledger.nodes, node.get());
    let pods: Vec<(&Uid, &PodRow)> = super::pods_on(ledger, node).collect();
    let infos = |counts: &dyn Fn(&PodRow) -> bool| {
        let own = pods.iter().filter(|(_, row)| counts(row));
        own.map(|(uid, row)| PodInfo { pod: Pod::of(uid, row) }).collect()
    };
    let affinity = |row: &PodRow| ledger.terms.told_affinity(row.ask.pod_affinity);
    let (allocatable, requested) = (nodes.resources.allowed(node), requested(ledger, node));
    let scored = Amounts {
        cpu_millis: nodes.resources.cpu_scored[at],
        memory_bytes: nodes.resources.memory_scored[at],
        ..Amounts::default()
    };
    let mut remaining = allocatable.clone();
    remaining.add(&requested, -1);
    let image = |(name, size): &(Box<str>, i64)| {
        let num_nodes = nodes.nodes_with_image(name);
        (name.to_string(), ImageState { size: *size, num_nodes })
    };
    NodeInfo {
        node: object(ledger, node, &allocatable),
        pods: infos(&|_| true),
        pods_with_affinity: infos(&|row| *affinity(row) != Default::default()),
        pods_with_required_anti_affinity: infos(&|row| !affinity(row).away.is_empty()),
        used_ports: ports(nodes.ports(node)),
        requested: Resource::of(&requested, 0),
        non_zero_requested: Resource::of(&scored, 0),
        remaining: Resource::of(&remaining, nodes.pods_allowed[at]),
        allocatable: Resource::of(&allocatable, nodes.pods_allowed[at]),
        image_states: nodes.images(node).iter().map(image).collect(),
        claims: claims(ledger, &pods),
    }
}

fn object(ledger: &Ledger, node: NodeIndex, allocatable: &Amounts) -> Node {
    let (nodes, symbols) = (&ledger.nodes, &ledger.symbols);
    let labels = nodes.labels(node).iter();
    let labels = labels.map(|(key, value)| (symbols.text(*key), symbols.text(*value)));
    Node {
        metadata: NodeMeta {
            name: nodes.name(node).to_owned(),
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        },
        spec: NodeSpec {
            taints: nodes.taints(node).to_vec(),
            unschedulable: nodes.unschedulable().contains(node),
        },
        status: NodeStatus { allocatable: quantities(allocatable) },
    }
}

/// By how many pods each claim is used.
fn claims(ledger: &Ledger, pods: &[(&Uid, &PodRow)]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for volumes in pods.iter().filter_map(|(_, row)| row.ask.volumes) {
        let own = ledger.asks.volumes.get(volumes);
        for claim in own.volumes.iter().filter_map(|volume| volume.claim()) {
            *counts.entry(format!("{}/{claim}", own.namespace)).or_default() += 1;
        }
    }
    counts
}
