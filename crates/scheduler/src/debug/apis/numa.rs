//! CPUs and NUMA nodes of a node, and whose they are.

use std::collections::BTreeMap;

use api::{CpuSet, ResourceList};
use engine::cpus::{Cpu, Exclusive, Hold};
use engine::fact::{CpuLayout, quantities};
use engine::ledger::{Ledger, NodeCpus, NodeIndex};
use engine::needs::Amounts;
use engine::plugins::node_numa_resource::room_named;
use serde::Serialize;

/// Nobody shares a CPU of his own.
const HOLDERS_MAX: u32 = 1;

/// What is known of the CPUs of a node, and who has which.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::debug) struct NodeNuma {
    name: String,
    cpu_topology: Topology,
    #[serde(rename = "reservedCPUs")]
    reserved: String,
    max_ref_count: u32,
    numa_topology_policy: &'static str,
    numa_node_resources: Vec<ZoneResources>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    amplification_ratios: BTreeMap<String, f64>,
    #[serde(rename = "remainingNUMANodeResources")]
    remaining: Vec<ZoneResources>,
    #[serde(rename = "allocatedNUMANodeResources")]
    allocated: Vec<ZoneResources>,
    #[serde(rename = "availableCPUs")]
    available_cpus: String,
    #[serde(rename = "allocatedCPUs")]
    allocated_cpus: BTreeMap<String, CpuInfo>,
    allocated_pods: Vec<PodAllocation>,
}

#[derive(Serialize)]
struct Topology {
    #[serde(rename = "numCPUs")]
    cpus: usize,
    #[serde(rename = "numCores")]
    cores: usize,
    #[serde(rename = "numNodes")]
    nodes: usize,
    #[serde(rename = "numSockets")]
    sockets: usize,
    #[serde(rename = "cpuDetails")]
    details: BTreeMap<String, CpuInfo>,
}

#[derive(Serialize)]
struct CpuInfo {
    #[serde(rename = "cpuID")]
    cpu: u32,
    #[serde(rename = "coreID")]
    core: u32,
    #[serde(rename = "nodeID")]
    node: u32,
    #[serde(rename = "socketID")]
    socket: u32,
    #[serde(rename = "refCount")]
    holders: u32,
    #[serde(rename = "exclusivePolicy")]
    exclusive: &'static str,
}

#[derive(Serialize)]
struct ZoneResources {
    node: u32,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    resources: ResourceList,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PodAllocation {
    uid: String,
    namespace: String,
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    cpuset: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    cpu_exclusive_policy: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    numa_node_resources: Vec<ZoneResources>,
}

/// What is shown of a node; none where nobody knows which CPUs it has.
pub(super) fn shown(ledger: &Ledger, node: NodeIndex) -> Option<NodeNuma> {
    let own = ledger.cpus.of(node)?;
    let layout = own.layout.as_ref().filter(|layout| !layout.topology.is_empty())?;
    let all = layout.topology.cpus();
    let is_held = |cpu: &&Cpu| own.held.holds.contains_key(&cpu.id);
    let is_free = |cpu: &&Cpu| !is_held(cpu) && !own.held.reserved.contains(cpu.id);
    let free: CpuSet = all.iter().filter(is_free).map(|cpu| cpu.id).collect();
    let [totals, remaining, allocated] = zones(own, layout);
    let ratios = own.ratios.iter();
    Some(NodeNuma {
        name: ledger.nodes.name(node).to_owned(),
        cpu_topology: topology(all, own),
        reserved: own.held.reserved.to_string(),
        max_ref_count: HOLDERS_MAX,
        numa_topology_policy: own.policy.map(|policy| policy.as_str()).unwrap_or_default(),
        numa_node_resources: totals,
        amplification_ratios: ratios
            .map(|(name, ratio)| (name.to_string(), f64::from(*ratio) / 1_000.0))
            .collect(),
        remaining,
        allocated,
        available_cpus: free.to_string(),
        allocated_cpus: details(all.iter().filter(is_held), own),
        allocated_pods: pods(ledger, node),
    })
}

fn topology(all: &[Cpu], own: &NodeCpus) -> Topology {
    let count = |of: fn(&Cpu) -> u32| {
        let mut numbers: Vec<u32> = all.iter().map(of).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len()
    };
    Topology {
        cpus: all.len(),
        cores: count(|cpu| cpu.core),
        nodes: count(|cpu| cpu.numa),
        sockets: count(|cpu| cpu.socket),
        details: details(all.iter(), own),
    }
}

fn details<'a>(cpus: impl Iterator<Item = &'a Cpu>, own: &NodeCpus) -> BTreeMap<String, CpuInfo> {
    let info = |cpu: &Cpu| {
        let Hold { times, core, numa } = own.held.holds.get(&cpu.id).copied().unwrap_or_default();
        let exclusive = match (core, numa) {
            (0, 0) => Exclusive::None,
            (0, _) => Exclusive::Numa,
            _ => Exclusive::Core,
        };
        let Cpu { id, core, numa, socket } = *cpu;
        let exclusive = word(exclusive);
        CpuInfo { cpu: id, core, node: numa, socket, holders: times, exclusive }
    };
    cpus.map(|cpu| (cpu.id.to_string(), info(cpu))).collect()
}

fn word(exclusive: Exclusive) -> &'static str {
    match exclusive {
        Exclusive::None => "",
        Exclusive::Core => "PCPULevel",
        Exclusive::Numa => "NUMANodeLevel",
    }
}

/// What NUMA nodes have, what is free of them, and what is not.
fn zones(own: &NodeCpus, layout: &CpuLayout) -> [Vec<ZoneResources>; 3] {
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    for (id, has) in &layout.zones {
        let mut amounts = [Amounts::default(), Amounts::default(), Amounts::default()];
        for name in has.names() {
            let Some(room) = room_named(own, layout, *id, name) else { continue };
            let used = room.total.saturating_sub(room.free);
            for (sums, amount) in amounts.iter_mut().zip([room.total, room.free, used]) {
                sums.put(name, amount);
            }
        }
        for (zones, own) in all.iter_mut().zip(amounts) {
            zones.push(ZoneResources { node: *id, resources: quantities(&own) });
        }
    }
    all
}

/// Pods and reservations that have CPUs or parts of NUMA nodes of their own.
fn pods(ledger: &Ledger, node: NodeIndex) -> Vec<PodAllocation> {
    let allotted = super::pods_on(ledger, node).filter_map(|(uid, row)| {
        let own = ledger.allotment(row).filter(|own| !own.is_shared())?;
        let zones = own.zones.iter();
        let zones =
            zones.map(|(node, own)| ZoneResources { node: *node, resources: quantities(own) });
        Some(PodAllocation {
            uid: uid.0.to_string(),
            namespace: row.namespace.to_string(),
            name: row.name.to_string(),
            cpuset: own.cpus.to_string(),
            cpu_exclusive_policy: word(own.exclusive),
            numa_node_resources: zones.collect(),
        })
    });
    allotted.collect()
}
