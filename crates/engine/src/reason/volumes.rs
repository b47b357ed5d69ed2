//! Why the volumes of a pod keep it from a node, or from all.

use std::fmt;

/// What is wrong with a volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeReason {
    /// A pod on the node has a disk that cannot be shared.
    DiskTaken,
    /// Another pod uses a claim that is for one pod.
    InUse {
        /// The claim.
        claim: Box<str>,
    },
    /// The node would have more volumes of a driver than it may.
    TooMany {
        /// The driver.
        driver: Box<str>,
        /// How many it may have.
        limit: i32,
        /// How many it has.
        attached: usize,
        /// How many the pod would add.
        added: usize,
    },
    /// The node is in another zone or region than a volume.
    OtherZone {
        /// The volume.
        volume: Box<str>,
        /// The label of the zone or region.
        label: Box<str>,
    },
    /// The node does not reach a volume.
    NotReached {
        /// The volume.
        volume: Box<str>,
    },
    /// No volume for a claim is there or can be made for the node.
    NoVolume {
        /// The claim.
        claim: Box<str>,
    },
    /// There is too little room to make a volume for the node.
    NoRoom {
        /// The claim.
        claim: Box<str>,
    },
    /// The volume that a claim is bound to is not there.
    VolumeGone {
        /// The volume.
        volume: Box<str>,
    },
    /// There is no such claim.
    NoClaim {
        /// The claim.
        claim: Box<str>,
    },
    /// A claim whose volumes are to be counted is not there.
    NotCounted {
        /// The namespace of the claim.
        namespace: Box<str>,
        /// The claim.
        claim: Box<str>,
    },
    /// The claim of an ephemeral volume is not there yet.
    NoEphemeralClaim {
        /// The claim.
        claim: Box<str>,
    },
    /// A claim lost its volume.
    Lost {
        /// The claim.
        claim: Box<str>,
        /// The volume.
        volume: Box<str>,
    },
    /// A claim is being deleted.
    Deleting {
        /// The claim.
        claim: Box<str>,
    },
    /// The claim of an ephemeral volume was made by somebody else.
    NotOwned {
        /// Namespace of claim and pod.
        namespace: Box<str>,
        /// The claim.
        claim: Box<str>,
        /// The pod.
        pod: Box<str>,
    },
    /// Claims that do not wait for the pod have no volume yet.
    Unbound {
        /// The first such claim.
        claim: Box<str>,
    },
    /// There is no such volume.
    NoSuchVolume {
        /// The volume.
        volume: Box<str>,
    },
    /// There is no such class.
    NoClass {
        /// The class.
        class: Box<str>,
    },
    /// A claim has neither volume nor class.
    NeitherVolumeNorClass {
        /// The claim.
        claim: Box<str>,
    },
    /// A claim that does not wait for the pod names no volume.
    NoVolumeName {
        /// The claim.
        claim: Box<str>,
    },
}

impl fmt::Display for VolumeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DiskTaken => "node(s) had no available disk",
            Self::InUse { .. } => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            }
            Self::TooMany { .. } => "node(s) exceed max volume count",
            Self::OtherZone { .. } => "node(s) had no available volume zone",
            Self::NotReached { .. } => "node(s) didn't match PersistentVolume's node affinity",
            Self::NoVolume { .. } => "node(s) didn't find available persistent volumes to bind",
            Self::NoRoom { .. } => "node(s) did not have enough free storage",
            Self::VolumeGone { .. } => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            }
            Self::Unbound { .. } => "pod has unbound immediate PersistentVolumeClaims",
            Self::NeitherVolumeNorClass { .. } => {
                "PersistentVolumeClaim had no pv name and storageClass name"
            }
            Self::NoVolumeName { .. } => "PersistentVolume had no name",
            other => return other.write(f),
        })
    }
}

impl VolumeReason {
    /// The texts that name something.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClaim { claim } => write!(f, "persistentvolumeclaim {claim:?} not found"),
            Self::NotCounted { namespace, claim } => write!(
                f,
                "looking up PVC {namespace}/{claim}: persistentvolumeclaim {claim:?} not found"
            ),
            Self::NoEphemeralClaim { claim } => write!(
                f,
                "waiting for ephemeral volume controller to create the persistentvolumeclaim {claim:?}"
            ),
            Self::Lost { claim, volume } => write!(
                f,
                "persistentvolumeclaim {claim:?} bound to non-existent persistentvolume {volume:?}"
            ),
            Self::Deleting { claim } => {
                write!(f, "persistentvolumeclaim {claim:?} is being deleted")
            }
            Self::NotOwned { namespace, claim, pod } => write!(
                f,
                "PVC {namespace}/{claim} was not created for pod {namespace}/{pod} (pod is not owner)"
            ),
            Self::NoSuchVolume { volume } => write!(f, "persistentvolume {volume:?} not found"),
            Self::NoClass { class } => write!(f, "storageclass.storage.k8s.io {class:?} not found"),
            _ => Ok(()),
        }
    }
}
