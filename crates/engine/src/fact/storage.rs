//! What the engine is told of storage.

use std::collections::BTreeMap;

use object::quantity::Quantity;
use object::selector::label::Selector;

use crate::needs::NodeTerm;

/// Something of storage is there, or is now this; nothing when it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageFact {
    /// A persistent volume, by name.
    Volume(Box<str>, Option<Box<PersistentVolume>>),
    /// A claim, by namespace and name.
    Claim(Box<str>, Box<str>, Option<Box<Claim>>),
    /// A class, by name.
    Class(Box<str>, Option<Class>),
    /// What CSI drivers say of a node, by the node's name.
    CsiNode(Box<str>, Option<CsiNode>),
    /// A CSI driver, by name.
    CsiDriver(Box<str>, Option<CsiDriver>),
    /// How much room there is for volumes of a class, by namespace and name.
    Capacity(Box<str>, Box<str>, Option<Capacity>),
    /// A volume is attached to a node, or is to be, by name of the attachment.
    Attachment(Box<str>, Option<Attachment>),
}

impl StorageFact {
    /// Whether what it tells of is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Volume(_, own) => own.is_none(),
            Self::Claim(_, _, own) => own.is_none(),
            Self::Class(_, own) => own.is_none(),
            Self::CsiNode(_, own) => own.is_none(),
            Self::CsiDriver(_, own) => own.is_none(),
            Self::Capacity(_, _, own) => own.is_none(),
            Self::Attachment(_, own) => own.is_none(),
        }
    }
}

/// A persistent volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistentVolume {
    /// Which version of it this is.
    pub version: Version,
    /// The class; empty where it has none.
    pub class: Box<str>,
    /// How much it holds.
    pub capacity: Quantity,
    /// How it can be mounted.
    pub access_modes: Box<[Box<str>]>,
    /// Whether it is a device and not a folder.
    pub is_block: bool,
    /// The class of its attributes; empty where it has none.
    pub attributes_class: Box<str>,
    /// The claim that it is bound to or kept for.
    pub claim: Option<ClaimReference>,
    /// Whether it can be bound.
    pub is_available: bool,
    /// Whether it is being deleted.
    pub is_going: bool,
    /// Its labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Nodes that reach it: one of these must hold. None admits every node.
    pub reach: Option<Box<[NodeTerm]>>,
    /// The same on nodes where a driver has taken over the source, where that differs.
    pub reach_taken_over: Option<Box<[NodeTerm]>>,
    /// Zones and regions that nodes must be in, where they are in any.
    pub zones: Box<[Zone]>,
    /// Where its data is.
    pub source: Source,
}

/// A label that a node must have, with one of some values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// The label.
    pub label: &'static str,
    /// The values.
    pub values: Box<[Box<str>]>,
}

/// The claim that a persistent volume is bound to or kept for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimReference {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its uid; empty where any claim of the name is meant.
    pub uid: Box<str>,
}

/// Where the data of a persistent volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// With a CSI driver.
    Csi {
        /// Name of the driver.
        driver: Box<str>,
        /// What the driver knows it by.
        handle: Box<str>,
    },
    /// In a disk that Kubernetes knew itself and a CSI driver takes over.
    InTree {
        /// What it is.
        kind: InTree,
        /// What the driver knows it by; none where the driver cannot take it over.
        handle: Option<Box<str>>,
    },
    /// Somewhere else.
    Other,
}

/// Disks that Kubernetes knew itself before there were CSI drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InTree {
    /// Of AWS.
    Aws,
    /// Of GCE.
    Gce,
    /// Of Azure.
    Azure,
    /// Of OpenStack.
    Cinder,
    /// Of Portworx.
    Portworx,
}

/// A disk as a driver that has taken it over knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// What it is.
    pub kind: InTree,
    /// What the driver knows it by.
    pub handle: Box<str>,
}

/// Which version of an object was told: of two, the higher one is later. Nothing else follows from it,
/// so that objects which differ in nothing else are equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Version(pub u64);

impl PartialEq for Version {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Version {}

/// A claim on a persistent volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Which claim it is.
    pub uid: Box<str>,
    /// Which version of it this is.
    pub version: Version,
    /// The class; empty where it has none.
    pub class: Box<str>,
    /// How much it must hold; nothing where it does not say.
    pub request: Option<Quantity>,
    /// How the volume has to be mountable.
    pub access_modes: Box<[Box<str>]>,
    /// Whether it wants a device and not a folder.
    pub is_block: bool,
    /// The class of attributes; empty where it has none.
    pub attributes_class: Box<str>,
    /// Labels that the volume must have.
    pub selector: Selector,
    /// The volume that it is bound to, or is to be bound to.
    pub volume: Option<Box<str>>,
    /// Whether binding is complete.
    pub bind_completed: bool,
    /// Whether its volume is gone.
    pub is_lost: bool,
    /// Whether it is being deleted.
    pub is_going: bool,
    /// The node for which a volume is being made.
    pub selected_node: Option<Box<str>>,
    /// Uid of the object that manages it.
    pub controller: Option<Box<str>>,
}

impl Claim {
    /// The volume that it is bound to; being told which is not enough.
    #[must_use]
    pub fn bound(&self) -> Option<&str> {
        self.volume.as_deref().filter(|_| self.bind_completed)
    }

    /// Whether any pod may use it at a time, but only one.
    #[must_use]
    pub fn is_for_one_pod(&self) -> bool {
        self.access_modes.iter().any(|mode| **mode == *"ReadWriteOncePod")
    }
}

/// A storage class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Who makes its volumes; none where nobody does.
    pub provisioner: Box<str>,
    /// Whether a claim is bound when a pod that uses it is given a node.
    pub waits: bool,
    /// Nodes for which volumes can be made: all requirements of one of these hold. Empty means
    /// all nodes.
    pub topologies: Box<[Box<[TopologyRequirement]>]>,
}

/// A requirement on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyRequirement {
    /// The label.
    pub key: Box<str>,
    /// Values, of which the label has to have one.
    pub values: Box<[Box<str>]>,
}

/// What CSI drivers say of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsiNode {
    /// How many volumes of each driver there may be, where there is a bound.
    pub limits: BTreeMap<Box<str>, i32>,
    /// Built-in sources that drivers have taken over there, by their names.
    pub taken_over: Box<[Box<str>]>,
}

/// A CSI driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CsiDriver {
    /// Whether it says how much room it has.
    pub tells_capacity: bool,
}

/// How much room there is for volumes of a class on some nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    /// The class.
    pub class: Box<str>,
    /// The largest volume that can be made, in bytes; none where it is not known.
    pub largest_bytes: Option<i64>,
    /// The nodes.
    pub nodes: Selector,
}

/// A volume is attached to a node, or is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Name of the node.
    pub node: Box<str>,
    /// Name of the driver.
    pub attacher: Box<str>,
    /// Name of the persistent volume.
    pub volume: Option<Box<str>>,
}
