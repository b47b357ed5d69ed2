//! The plugins, one folder or file each: algorithm, reasons and tests together.

pub mod dynamic_resources;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod load_aware;
pub mod node_affinity;
pub mod node_numa_resource;
pub mod node_ports;
pub mod node_resources;
pub mod node_unschedulable;
pub mod node_volume_limits;
pub mod pod_topology_spread;
pub mod reservation;
pub mod scarce_resource_avoidance;
pub mod scheduling_hint;
pub mod taint_toleration;
mod terms;
pub mod volume_binding;
pub mod volume_restrictions;
pub mod volume_zone;
