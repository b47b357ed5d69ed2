//! What Gantry reads and writes, and how it is spelled on the wire.
//!
//! Custom resources as data ([`crds`]), lean structs that name only the fields some
//! code of Gantry reads or writes, and the labels and resource names that carry QoS
//! class and priority. The crate depends on serde and `object` alone: it knows no
//! client, no server and no clock, so that cores can take its types as facts.
//!
//! A struct is never written back whole: what it does not name would be lost.
//! Components patch the fields they own, or create objects that are all theirs.
//!
//! ```
//! use api::{Pod, priority::PriorityBand, qos::QosClass};
//! let pod: Pod = serde_json::from_str(
//!     r#"{"metadata":{"name":"train-0","labels":{"koordinator.sh/qosClass":"BE"}},
//!         "spec":{"priority":5500,"containers":[{"name":"main"}],"dnsPolicy":"Default"}}"#,
//! )?;
//! assert_eq!(QosClass::of_pod(&pod), QosClass::Be);
//! assert_eq!(PriorityBand::stated_by(&pod), Some(PriorityBand::Batch));
//! # Ok::<(), serde_json::Error>(())
//! ```

pub mod cpu_set;
pub mod cpus;
pub mod crds;
pub mod csi_driver;
pub mod csi_node;
pub mod csi_storage_capacity;
pub mod deployment;
pub mod elastic_quota;
pub mod elastic_quota_profile;
pub mod event;
pub mod int_or_string;
pub mod job;
pub mod lease;
pub mod load;
pub mod malformed;
pub mod namespace;
pub mod node;
pub mod node_metric;
pub mod node_resource_topology;
pub mod node_selector;
pub mod object_meta;
pub mod object_reference;
pub mod persistent_volume;
pub mod persistent_volume_claim;
pub mod pod;
pub mod pod_disruption_budget;
pub mod pod_group;
pub mod pod_template;
pub mod priority;
pub mod qos;
pub mod replica_set;
pub mod replication_controller;
pub mod reservation;
pub mod resource;
pub mod resource_names;
pub mod schedule_explanation;
pub mod scheduling_hint;
pub mod service;
pub mod service_account;
pub mod stateful_set;
pub mod storage_class;
pub mod volume;
pub mod volume_attachment;
mod wire;

#[cfg(test)]
mod round_trips;

pub use cpu_set::CpuSet;
pub use csi_driver::CsiDriver;
pub use csi_node::CsiNode;
pub use csi_storage_capacity::CsiStorageCapacity;
pub use deployment::Deployment;
pub use elastic_quota::ElasticQuota;
pub use elastic_quota_profile::ElasticQuotaProfile;
pub use event::Event;
pub use int_or_string::{IntOrString, Rounding};
pub use job::Job;
pub use lease::Lease;
pub use malformed::Malformed;
pub use namespace::Namespace;
pub use node::Node;
pub use node_metric::NodeMetric;
pub use node_resource_topology::NodeResourceTopology;
pub use object::condition::{self, Condition};
pub use object_meta::{ObjectMeta, OwnerReference};
pub use object_reference::ObjectReference;
pub use persistent_volume::PersistentVolume;
pub use persistent_volume_claim::PersistentVolumeClaim;
pub use pod::{Pod, ResourceList};
pub use pod_disruption_budget::PodDisruptionBudget;
pub use pod_group::PodGroup;
pub use pod_template::PodTemplate;
pub use replica_set::ReplicaSet;
pub use replication_controller::ReplicationController;
pub use reservation::Reservation;
pub use resource::Resource;
pub use schedule_explanation::ScheduleExplanation;
pub use service::Service;
pub use service_account::ServiceAccount;
pub use stateful_set::StatefulSet;
pub use storage_class::StorageClass;
pub use volume_attachment::VolumeAttachment;
