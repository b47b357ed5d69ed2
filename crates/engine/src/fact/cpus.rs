//! What is said of CPUs and NUMA nodes: by layouts, on nodes and on pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cpus::{
    self as wire, CpuBindPolicy, CpuExclusivePolicy, KubeletStatic, Layout, NUMA_NODES_MAX, Ratios,
};
use api::node::Node;
use api::pod::Pod;
use api::priority::PriorityBand;
use api::qos::QosClass;
use api::resource_names::KnownResource;
use api::{CpuSet, Malformed, NodeResourceTopology};

use super::amounts::{amounts, named, offered_by, quantities};
use super::{Fact, ReservationRef};
use crate::cpus::{Binding, Cpu, CpuTopology, Exclusive, Strategy};
use crate::needs::{Amounts, CpuNeeds, Wish};

/// Cores of different sockets may have one number; sockets have fewer cores than this.
const CORES_MAX: u32 = 1 << 16;

/// What is known of the CPUs and NUMA nodes of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuLayout {
    /// Its CPUs; none where nothing is known.
    pub topology: CpuTopology,
    /// CPUs that nobody gets.
    pub reserved: CpuSet,
    /// Whether the kubelet gives pods whole cores only.
    pub is_full_only: bool,
    /// How what pods get lies on NUMA nodes, as the kubelet does it.
    pub policy: Option<NumaPolicy>,
    /// What pods may use of each NUMA node, by its number.
    pub zones: Vec<(u32, Amounts)>,
    /// Whether that is more than the machine has already, where the node offers more than it has.
    pub is_amplified: bool,
}

/// How what a pod gets lies on NUMA nodes.
pub type NumaPolicy = wire::NumaTopologyPolicy;

/// What is said on a node of how its CPUs are given away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuRules {
    /// How the CPUs of every pod on it lie to each other.
    pub binding: Option<Binding>,
    /// Which NUMA nodes are filled first.
    pub strategy: Option<Strategy>,
    /// How what pods get lies on NUMA nodes.
    pub policy: Option<NumaPolicy>,
    /// CPUs that nobody gets.
    pub reserved: CpuSet,
    /// How much more than it has it offers, in thousandths, of resources of which it does.
    pub ratios: Ratios,
}

/// What a pod got besides amounts: of CPUs, NUMA nodes and reservations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Allotment {
    /// CPUs that are its own.
    pub cpus: CpuSet,
    /// How they had to lie to each other.
    pub required: Option<Wish>,
    /// How they would best lie to each other.
    pub preferred: Option<Wish>,
    /// What they do not share.
    pub exclusive: Exclusive,
    /// How much of each NUMA node.
    pub zones: Box<[(u32, Amounts)]>,
    /// The reservation that it uses.
    pub reservation: Option<ReservationRef>,
}

fn binding(policy: wire::NodeCpuBindPolicy) -> Option<Binding> {
    match policy {
        wire::NodeCpuBindPolicy::None => None,
        wire::NodeCpuBindPolicy::FullPCPUsOnly => Some(Binding::FullCores),
        wire::NodeCpuBindPolicy::SpreadByPCPUs => Some(Binding::SpreadByCores),
    }
}

fn strategy(wire: wire::NumaAllocateStrategy) -> Strategy {
    match wire {
        wire::NumaAllocateStrategy::MostAllocated => Strategy::MostAllocated,
        wire::NumaAllocateStrategy::LeastAllocated => Strategy::LeastAllocated,
    }
}

impl CpuRules {
    /// What a node says; none where it says nothing, or nothing that can be read.
    #[must_use]
    pub fn of(node: &Node) -> Option<Arc<Self>> {
        let metadata = &node.metadata;
        let reservation = wire::node_reservation(metadata).ok().flatten();
        let ratios = wire::amplification_ratios(metadata).ok().flatten().unwrap_or_default();
        let policy = wire::NodeCpuBindPolicy::of(metadata).ok().flatten();
        let rules = Self {
            binding: policy.and_then(binding),
            strategy: wire::NumaAllocateStrategy::of(metadata).ok().flatten().map(strategy),
            policy: wire::NumaTopologyPolicy::of(metadata).ok().flatten(),
            reserved: reservation.map(|(_, cpus)| cpus).unwrap_or_default(),
            ratios: ratios.into_iter().filter(|(_, ratio)| *ratio > 1_000).collect(),
        };
        (rules != Self::default()).then(|| Arc::new(rules))
    }

    /// What a node says that cannot be read.
    #[must_use]
    pub fn malformed(node: &Node) -> Vec<Malformed> {
        let metadata = &node.metadata;
        let all = [
            wire::node_reservation(metadata).err(),
            wire::amplification_ratios(metadata).err(),
            wire::NodeCpuBindPolicy::of(metadata).err(),
            wire::NumaAllocateStrategy::of(metadata).err(),
            wire::NumaTopologyPolicy::of(metadata).err(),
        ];
        all.into_iter().flatten().collect()
    }
}

/// What a node offers to pods, of what it says that it has: less what is kept from them. What pods of
/// the band batch may use is less already.
pub(super) fn offered(node: &Node, has: Amounts) -> Amounts {
    let reservation = wire::node_reservation(&node.metadata).ok().flatten();
    let applies = |own: &wire::NodeReservation| {
        own.apply_policy != Some(wire::ReservationApplyPolicy::ReservedCPUsOnly)
    };
    let Some((own, cpus)) = reservation.filter(|(own, _)| applies(own)) else { return has };
    let mut kept = amounts(named(&own.resources));
    if !cpus.is_empty() {
        kept.cpu_millis = i64::try_from(cpus.len()).unwrap_or(i64::MAX).saturating_mul(1_000);
    }
    let less = |has: i64, kept: i64| has.saturating_sub(kept).max(0);
    let batch = [KnownResource::BatchCpu, KnownResource::BatchMemory];
    let is_batch = |name: &str| batch.iter().any(|own| own.as_str() == name);
    let scalars = has.scalars.into_iter().map(|(name, amount)| {
        let kept = if is_batch(&name) { 0 } else { kept.scalar(&name) };
        (name, less(amount, kept))
    });
    Amounts {
        cpu_millis: less(has.cpu_millis, kept.cpu_millis),
        memory_bytes: less(has.memory_bytes, kept.memory_bytes),
        storage_bytes: less(has.storage_bytes, kept.storage_bytes),
        scalars: scalars.collect(),
    }
}

/// How the kubelet of a node lays out what pods get: the first of its words that we know.
fn kubelet_policy(words: &[String]) -> Option<NumaPolicy> {
    words.iter().find_map(|word| match word.as_str() {
        "BestEffort" | "BestEffortPodLevel" => Some(NumaPolicy::BestEffort),
        "Restricted" | "RestrictedPodLevel" => Some(NumaPolicy::Restricted),
        "SingleNUMANodePodLevel" => Some(NumaPolicy::SingleNUMANode),
        _ => None,
    })
}

impl CpuLayout {
    /// What an object says whose annotations were read.
    #[must_use]
    pub fn new(wire: &NodeResourceTopology, layout: Layout) -> Self {
        let cpus = layout.cpus.iter().map(|cpu| Cpu {
            id: cpu.id,
            core: cpu.socket.wrapping_mul(CORES_MAX).wrapping_add(cpu.core),
            numa: cpu.node,
            socket: cpu.socket,
        });
        let topology = CpuTopology::new(cpus);
        let zones = wire.zones.iter().filter_map(|zone| {
            let list = zone.resources.iter();
            let list = list.map(|own| (own.name.as_str(), &own.allocatable)).collect();
            Some((zone.numa()?, amounts(offered_by(&list))))
        });
        let mut zones: Vec<(u32, Amounts)> = zones.collect();
        zones.sort_by_key(|(numa, _)| *numa);
        zones.dedup_by_key(|(numa, _)| *numa);
        zones.truncate(NUMA_NODES_MAX);
        Self {
            topology,
            reserved: layout.reserved,
            is_full_only: layout.kubelet == KubeletStatic::FullCores,
            policy: kubelet_policy(&wire.topology_policies),
            zones,
            is_amplified: layout.is_amplified,
        }
    }
}

impl From<&NodeResourceTopology> for Fact {
    fn from(wire: &NodeResourceTopology) -> Self {
        let node = wire.metadata.name.as_str().into();
        Self::Layout { node, layout: Some(Arc::new(CpuLayout::new(wire, Layout::of(wire)))) }
    }
}

fn wish(policy: CpuBindPolicy) -> Wish {
    match policy {
        CpuBindPolicy::Default => Wish::Default,
        CpuBindPolicy::FullPCPUs => Wish::So(Binding::FullCores),
        CpuBindPolicy::SpreadByPCPUs => Wish::So(Binding::SpreadByCores),
    }
}

fn exclusive(policy: CpuExclusivePolicy) -> Exclusive {
    match policy {
        CpuExclusivePolicy::None => Exclusive::None,
        CpuExclusivePolicy::PCPULevel => Exclusive::Core,
        CpuExclusivePolicy::NUMANodeLevel => Exclusive::Numa,
    }
}

/// What a pod wants of CPUs and NUMA nodes; none where it wants nothing of the kind.
pub(super) fn cpu_needs(pod: &Pod) -> Option<CpuNeeds> {
    let read = || Ok((wire::ResourceSpec::of(pod)?, wire::NumaTopologySpec::of(pod)?));
    let (spec, numa) = match read() {
        Ok(read) => read,
        Err(error) => {
            let error: Malformed = error;
            let malformed = Some(error.to_string().into());
            return Some(CpuNeeds { malformed, ..CpuNeeds::default() });
        }
    };
    let class = QosClass::of_labels(&pod.metadata.labels).ok().flatten();
    let is_sensitive = matches!(class, Some(QosClass::Lse | QosClass::Lsr))
        && PriorityBand::of_pod(pod) == PriorityBand::Prod;
    let needs = CpuNeeds {
        is_sensitive,
        required: spec.required.map(wish),
        preferred: spec.preferred.map(wish),
        exclusive: spec.exclusive.map(exclusive).unwrap_or_default(),
        numa: numa.numa_topology_policy,
        is_apart: numa.exclusive.map(|own| own == wire::NumaExclusive::Required),
        malformed: None,
    };
    (needs != CpuNeeds::default()).then_some(needs)
}

/// What a pod got of a NUMA node, as it says itself.
fn told((node, amounts): &(u32, Amounts)) -> wire::NumaResources {
    wire::NumaResources { node: *node, resources: quantities(amounts) }
}

impl Allotment {
    /// What a pod got, as it says itself; none where it says nothing, or nothing that can be read.
    #[must_use]
    pub fn of(pod: &Pod) -> Option<Self> {
        let reservation = ReservationRef::of(pod);
        let told = wire::ResourceStatus::of(pod).ok().flatten();
        if told.is_none() && reservation.is_none() {
            return None;
        }
        let (status, cpus) = told.unwrap_or_default();
        let spec = wire::ResourceSpec::of(pod).unwrap_or_default();
        let zones = status.numa_node_resources.iter();
        let zones: BTreeMap<u32, Amounts> =
            zones.map(|own| (own.node, amounts(named(&own.resources)))).collect();
        let zones: Vec<(u32, Amounts)> = zones.into_iter().collect();
        let own = Self {
            cpus,
            required: spec.required.map(wish),
            preferred: spec.preferred.map(wish),
            exclusive: spec.exclusive.map(exclusive).unwrap_or_default(),
            zones: zones.into(),
            reservation,
        };
        (!own.is_shared() || own.reservation.is_some()).then_some(own)
    }

    /// Whether it has no CPUs and nothing of NUMA nodes that it could be told of.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.cpus.is_empty() && self.zones.is_empty()
    }

    /// Whether it is no more than was asked for. Anybody can write an annotation; what nobody gave counts
    /// for nothing.
    #[must_use]
    pub fn is_within(&self, requests: &Amounts) -> bool {
        let cpus = i64::try_from(self.cpus.len()).unwrap_or(i64::MAX).saturating_sub(1);
        self.cpus.is_empty() || cpus.saturating_mul(1_000) < requests.cpu_millis
    }

    /// The annotations by which the pod says so.
    #[must_use]
    pub fn stamps(&self) -> Vec<(&'static str, String)> {
        let reservation = self.reservation.as_ref().map(ReservationRef::stamp);
        if self.is_shared() {
            return reservation.into_iter().collect();
        }
        let policy = |wish: Wish| match wish {
            Wish::Default => CpuBindPolicy::Default,
            Wish::So(Binding::FullCores) => CpuBindPolicy::FullPCPUs,
            Wish::So(Binding::SpreadByCores) => CpuBindPolicy::SpreadByPCPUs,
        };
        let spec = wire::ResourceSpec {
            required: self.required.map(policy),
            preferred: self.preferred.map(policy),
            exclusive: match self.exclusive {
                Exclusive::None => None,
                Exclusive::Core => Some(CpuExclusivePolicy::PCPULevel),
                Exclusive::Numa => Some(CpuExclusivePolicy::NUMANodeLevel),
            },
        };
        let status = wire::ResourceStatus {
            cpuset: self.cpus.to_string(),
            numa_node_resources: self.zones.iter().map(told).collect(),
        };
        let cpus =
            [(wire::RESOURCE_SPEC, spec.to_text()), (wire::RESOURCE_STATUS, status.to_text())];
        cpus.into_iter().chain(reservation).collect()
    }
}
