//! Which native kind has which strategy.

use std::sync::Arc;

use super::{Conversion, Plain, Strategy, config, events, policy, service, storage};

/// The strategy of a native kind; plain data where it needs none.
#[must_use]
pub fn of(group: &str, plural: &str) -> Arc<dyn Strategy> {
    match (group, plural) {
        ("apiextensions.k8s.io", "customresourcedefinitions") => Arc::new(super::crd::Definition),
        ("", "pods") => Arc::new(super::pod::Pod),
        ("", "podtemplates") => Arc::new(super::pod_template::PodTemplate),
        ("", "nodes") => Arc::new(super::node::Node),
        ("", "namespaces") => Arc::new(super::namespace::Namespace),
        ("", "configmaps") => Arc::new(config::ConfigMap),
        ("", "secrets") => Arc::new(config::Secret),
        ("", "events") => Arc::new(events::Event),
        ("events.k8s.io", "events") => Arc::new(events::NewEvent),
        ("", "services") => Arc::new(service::Service),
        ("", "persistentvolumes") => Arc::new(storage::PersistentVolume),
        ("", "persistentvolumeclaims") => Arc::new(storage::PersistentVolumeClaim),
        ("storage.k8s.io", "storageclasses") => Arc::new(storage::StorageClass),
        ("storage.k8s.io", "volumeattributesclasses") => Arc::new(storage::VolumeAttributesClass),
        ("storage.k8s.io", "csinodes") => Arc::new(storage::CsiNode),
        ("storage.k8s.io", "csidrivers") => Arc::new(storage::CsiDriver),
        ("storage.k8s.io", "csistoragecapacities") => Arc::new(storage::CsiStorageCapacity),
        ("storage.k8s.io", "volumeattachments") => Arc::new(storage::VolumeAttachment),
        ("scheduling.k8s.io", "priorityclasses") => Arc::new(policy::PriorityClass),
        ("policy", "poddisruptionbudgets") => Arc::new(policy::PodDisruptionBudget),
        ("coordination.k8s.io", "leases") => Arc::new(policy::Lease),
        _ => Arc::new(Plain),
    }
}

/// The table a native kind's objects are kept in: two groups can show the same objects.
#[must_use]
pub fn table_of(group: &str, plural: &str) -> String {
    match (group, plural) {
        ("" | "events.k8s.io", "events") => "events".to_owned(),
        ("", plural) => plural.to_owned(),
        (group, plural) => format!("{plural}.{group}"),
    }
}

/// How a version's objects differ from the stored form, where they do.
#[must_use]
pub fn conversion_of(group: &str, _version: &str, plural: &str) -> Option<Conversion> {
    match (group, plural) {
        ("events.k8s.io", "events") => Some(events::CONVERSION),
        _ => None,
    }
}
