//! What labels and annotations say of CPUs and NUMA nodes: of pods, what they want and got; of nodes,
//! how theirs are given away; of layouts, which there are.

mod layout;
mod node;
mod pod;

pub use layout::{
    CPU_MANAGER_POLICY, CPU_TOPOLOGY, CpuInfo, CpuManagerPolicy, KubeletStatic, Layout,
    NUMA_NODES_MAX, POD_CPU_ALLOCS, SYSTEM_QOS_RESOURCE,
};
pub use node::{
    AMPLIFICATION_RATIO, CPU_BIND_POLICY_LABEL, NODE_RESERVATION, NUMA_ALLOCATE_STRATEGY_LABEL,
    NUMA_TOPOLOGY_POLICY_LABEL, NodeCpuBindPolicy, NodeReservation, NumaAllocateStrategy,
    NumaTopologyPolicy, Ratios, ReservationApplyPolicy, amplification_ratios, node_reservation,
};
pub use pod::{
    CpuBindPolicy, CpuExclusivePolicy, NUMA_TOPOLOGY_SPEC, NumaExclusive, NumaResources,
    NumaTopologySpec, RESOURCE_SPEC, RESOURCE_STATUS, ResourceSpec, ResourceStatus,
};
