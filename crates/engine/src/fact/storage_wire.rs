//! Facts of storage from objects as the API server sends them.

use api::node_selector::NodeSelector;
use api::persistent_volume::{AccessMode, VolumeMode, VolumePhase};
use api::persistent_volume_claim::ClaimPhase;
use api::pod::{Pod, VolumeSource};
use api::storage_class::VolumeBindingMode;
use api::{CsiStorageCapacity, ObjectMeta, PersistentVolumeClaim, StorageClass, VolumeAttachment};
use object::quantity::Quantity;
use object::selector::label::{LabelSelector, Selector};

use super::in_tree;
use super::in_tree::{TOPOLOGY_LABELS, aws_handle, azure_handle, gce_handle, reach_taken_over};
use super::storage::{
    Attachment, Capacity, Claim, ClaimReference, Class, CsiDriver, CsiNode, InTree,
    PersistentVolume, Source, StorageFact, TopologyRequirement, Version, Zone,
};
use super::wire::term;
use crate::needs::{Disk, NodeTerm, Volume, Volumes};

const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const TAKEN_OVER: &str = "storage.alpha.kubernetes.io/migrated-plugins";

impl Version {
    /// The version of an object; 0 where it cannot be told.
    #[must_use]
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self(metadata.resource_version.parse().unwrap_or(0))
    }
}

fn name(metadata: &ObjectMeta) -> Box<str> {
    metadata.name.as_str().into()
}

/// The class of a volume or claim: the annotation goes first.
fn class(metadata: &ObjectMeta, own: &str) -> Box<str> {
    metadata.annotations.get(CLASS).map_or(own, String::as_str).into()
}

fn words(modes: &[AccessMode]) -> Box<[Box<str>]> {
    modes.iter().map(|mode| mode.as_str().into()).collect()
}

/// The nodes that a selector means; one that nobody understands means none.
fn selector(wire: &LabelSelector) -> Selector {
    wire.to_selector().unwrap_or_else(|_| Selector::nothing())
}

fn terms(wire: &NodeSelector) -> Box<[NodeTerm]> {
    wire.node_selector_terms.iter().filter_map(term).collect()
}

impl From<&api::PersistentVolume> for StorageFact {
    fn from(volume: &api::PersistentVolume) -> Self {
        let (metadata, spec) = (&volume.metadata, &volume.spec);
        let source = source(volume);
        let reach = spec.node_affinity.as_ref().and_then(|all| all.required.as_ref());
        let reach_taken_over = match &source {
            Source::InTree { kind, .. } => reach_taken_over(volume, *kind),
            _ => None,
        };
        let labels = metadata.labels.iter();
        let zones = TOPOLOGY_LABELS.into_iter().filter_map(|label| {
            Some(Zone { label, values: in_tree::zones(metadata.labels.get(label)?)? })
        });
        let fact = PersistentVolume {
            version: Version::of(metadata),
            class: class(metadata, &spec.storage_class_name),
            capacity: spec.capacity.get("storage").cloned().unwrap_or(Quantity::ZERO),
            access_modes: words(&spec.access_modes),
            is_block: spec.volume_mode == Some(VolumeMode::Block),
            attributes_class: spec.volume_attributes_class_name.clone().unwrap_or_default(),
            claim: spec.claim_ref.as_ref().map(|claim| ClaimReference {
                namespace: claim.namespace.clone(),
                name: claim.name.clone(),
                uid: claim.uid.clone(),
            }),
            is_available: volume.status.phase == VolumePhase::Available,
            is_going: metadata.is_going(),
            labels: labels.map(|(key, value)| (&**key, &**value)).map(boxed).collect(),
            reach: reach.map(terms),
            reach_taken_over: reach_taken_over.as_ref().map(terms),
            zones: zones.collect(),
            source,
        };
        Self::Volume(name(metadata), Some(Box::new(fact)))
    }
}

fn boxed((key, value): (&str, &str)) -> (Box<str>, Box<str>) {
    (key.into(), value.into())
}

fn source(volume: &api::PersistentVolume) -> Source {
    let spec = &volume.spec;
    let in_tree = |kind, handle| Source::InTree { kind, handle };
    if let Some(csi) = &spec.csi {
        Source::Csi { driver: csi.driver.clone(), handle: csi.volume_handle.clone() }
    } else if let Some(disk) = &spec.aws_elastic_block_store {
        in_tree(InTree::Aws, aws_handle(&disk.volume_id))
    } else if let Some(disk) = &spec.gce_persistent_disk {
        in_tree(InTree::Gce, gce_handle(volume, &disk.pd_name))
    } else if let Some(disk) = &spec.azure_disk {
        in_tree(InTree::Azure, azure_handle(disk))
    } else if let Some(disk) = &spec.cinder {
        in_tree(InTree::Cinder, Some(disk.volume_id.clone()))
    } else if let Some(disk) = &spec.portworx_volume {
        in_tree(InTree::Portworx, Some(disk.volume_id.clone()))
    } else {
        Source::Other
    }
}

impl From<&PersistentVolumeClaim> for StorageFact {
    fn from(claim: &PersistentVolumeClaim) -> Self {
        let (metadata, spec) = (&claim.metadata, &claim.spec);
        let selected_node = metadata.annotations.get(SELECTED_NODE);
        let own_class = spec.storage_class_name.as_deref().unwrap_or_default();
        let fact = Claim {
            uid: metadata.uid.as_str().into(),
            version: Version::of(metadata),
            class: class(metadata, own_class),
            request: spec.resources.requests.get("storage").cloned(),
            access_modes: words(&spec.access_modes),
            is_block: spec.volume_mode == Some(VolumeMode::Block),
            attributes_class: spec.volume_attributes_class_name.clone().unwrap_or_default(),
            selector: spec.selector.as_ref().map_or_else(Selector::everything, selector),
            volume: Some(spec.volume_name.clone()).filter(|name| !name.is_empty()),
            bind_completed: metadata.annotations.contains_key(BIND_COMPLETED),
            is_lost: claim.status.phase == ClaimPhase::Lost,
            is_going: metadata.is_going(),
            selected_node: selected_node.map(|node| node.as_str().into()),
            controller: metadata.controller().map(|owner| owner.uid.as_str().into()),
        };
        let namespace = metadata.namespace.as_str().into();
        Self::Claim(namespace, name(metadata), Some(Box::new(fact)))
    }
}

impl From<&StorageClass> for StorageFact {
    fn from(class: &StorageClass) -> Self {
        let requirement = |one: &api::storage_class::TopologySelectorRequirement| {
            TopologyRequirement { key: one.key.clone(), values: one.values.as_slice().into() }
        };
        let topologies = class.allowed_topologies.iter();
        let fact = Class {
            provisioner: class.provisioner.clone(),
            waits: class.volume_binding_mode == Some(VolumeBindingMode::WaitForFirstConsumer),
            topologies: topologies
                .map(|term| term.match_label_expressions.iter().map(requirement).collect())
                .collect(),
        };
        Self::Class(name(&class.metadata), Some(fact))
    }
}

impl From<&api::CsiNode> for StorageFact {
    fn from(node: &api::CsiNode) -> Self {
        let drivers = node.spec.drivers.iter();
        let taken_over = node.metadata.annotations.get(TAKEN_OVER);
        let taken_over = taken_over.into_iter().flat_map(|names| names.split(','));
        let fact = CsiNode {
            limits: drivers
                .filter_map(|driver| Some((driver.name.clone(), driver.limit()?)))
                .collect(),
            taken_over: taken_over.map(Into::into).collect(),
        };
        Self::CsiNode(name(&node.metadata), Some(fact))
    }
}

impl From<&api::CsiDriver> for StorageFact {
    fn from(driver: &api::CsiDriver) -> Self {
        let fact = CsiDriver { tells_capacity: driver.spec.storage_capacity == Some(true) };
        Self::CsiDriver(name(&driver.metadata), Some(fact))
    }
}

impl From<&CsiStorageCapacity> for StorageFact {
    fn from(capacity: &CsiStorageCapacity) -> Self {
        let largest = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
        let fact = Capacity {
            class: capacity.storage_class_name.clone(),
            largest_bytes: largest.map(Quantity::value),
            nodes: capacity.node_topology.as_ref().map_or_else(Selector::nothing, selector),
        };
        let namespace = capacity.metadata.namespace.as_str().into();
        Self::Capacity(namespace, name(&capacity.metadata), Some(fact))
    }
}

impl From<&VolumeAttachment> for StorageFact {
    fn from(attachment: &VolumeAttachment) -> Self {
        let spec = &attachment.spec;
        let fact = Attachment {
            node: spec.node_name.clone(),
            attacher: spec.attacher.clone(),
            volume: spec.source.persistent_volume_name.clone(),
        };
        Self::Attachment(name(&attachment.metadata), Some(fact))
    }
}

/// The volumes of a pod that its place depends on.
pub(super) fn volumes(pod: &Pod) -> Volumes {
    let all = pod.spec.volumes.iter();
    let volumes: Box<[Volume]> = all.filter_map(|volume| one(pod, volume)).collect();
    let namespace = if volumes.is_empty() { "" } else { pod.metadata.namespace.as_str() };
    Volumes { namespace: namespace.into(), volumes }
}

fn one(pod: &Pod, volume: &api::pod::Volume) -> Option<Volume> {
    let shared = |kind, handle| Disk::Shared { kind, handle };
    let disk = match &volume.source {
        VolumeSource::PersistentVolumeClaim(claim) => {
            return Some(Volume::Claim(claim.claim_name.clone()));
        }
        VolumeSource::Ephemeral => {
            let claim = volume.claim_name(&pod.metadata.name)?.into();
            let pod = &pod.metadata;
            let (pod, uid) = (pod.name.as_str().into(), pod.uid.as_str().into());
            return Some(Volume::Ephemeral { claim, pod, uid });
        }
        // The driver makes it up on whichever node the pod is.
        VolumeSource::Csi(_) => return None,
        VolumeSource::GcePersistentDisk(disk) => {
            Disk::Gce { name: disk.pd_name.clone(), read_only: disk.read_only }
        }
        VolumeSource::AwsElasticBlockStore(disk) => {
            Disk::Aws { id: disk.volume_id.clone(), handle: aws_handle(&disk.volume_id) }
        }
        VolumeSource::AzureDisk(disk) => shared(InTree::Azure, azure_handle(disk)),
        VolumeSource::Cinder(disk) => shared(InTree::Cinder, Some(disk.volume_id.clone())),
        VolumeSource::PortworxVolume(disk) => {
            shared(InTree::Portworx, Some(disk.volume_id.clone()))
        }
        VolumeSource::Iscsi(disk) => {
            Disk::Iscsi { iqn: disk.iqn.clone(), read_only: disk.read_only }
        }
        VolumeSource::Rbd(disk) => Disk::Rbd {
            monitors: disk.monitors.as_slice().into(),
            pool: disk.pool.clone(),
            image: disk.image.clone(),
            read_only: disk.read_only,
        },
    };
    Some(Volume::Disk(disk))
}
