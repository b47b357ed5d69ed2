//! Volumes of a pod that its place depends on.

use crate::fact::{Driver, InTree};

/// Volumes of a pod, by what they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Volumes {
    /// The pod's namespace, in which its claims are; empty where it has no volume.
    pub namespace: Box<str>,
    /// The volumes, in the order of the pod.
    pub volumes: Box<[Volume]>,
}

/// A volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Volume {
    /// What a claim with this name is bound to.
    Claim(Box<str>),
    /// What a claim that is made for the pod is bound to.
    Ephemeral {
        /// Name of the claim.
        claim: Box<str>,
        /// Name of the pod.
        pod: Box<str>,
        /// The pod that must own the claim.
        uid: Box<str>,
    },
    /// A disk that the pod names itself.
    Disk(Disk),
}

impl Volume {
    /// The name of the claim behind the volume.
    #[must_use]
    pub fn claim(&self) -> Option<&str> {
        match self {
            Self::Claim(claim) | Self::Ephemeral { claim, .. } => Some(claim),
            Self::Disk(_) => None,
        }
    }
}

/// A disk that pods name themselves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Disk {
    /// A disk of GCE.
    Gce {
        /// Its name.
        name: Box<str>,
        /// Whether it is only read.
        read_only: bool,
    },
    /// A disk of AWS.
    Aws {
        /// Its id, as the pod has it.
        id: Box<str>,
        /// The id that the driver knows; none where the pod's id is no such thing.
        handle: Option<Box<str>>,
    },
    /// A target of iSCSI.
    Iscsi {
        /// Its qualified name.
        iqn: Box<str>,
        /// Whether it is only read.
        read_only: bool,
    },
    /// An image of a Ceph cluster.
    Rbd {
        /// Monitors of the cluster: two that share one are the same cluster.
        monitors: Box<[Box<str>]>,
        /// The pool.
        pool: Box<str>,
        /// The image.
        image: Box<str>,
        /// Whether it is only read.
        read_only: bool,
    },
    /// A disk that others may have at the same time.
    Shared {
        /// What it is.
        kind: InTree,
        /// What the driver knows it by; none where the driver has not taken it over.
        handle: Option<Box<str>>,
    },
}

impl Disk {
    /// Whether pods with these two cannot be on one node.
    #[must_use]
    pub fn collides_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Gce { name, read_only }, Self::Gce { name: same, read_only: also }) => {
                name == same && !(*read_only && *also)
            }
            (Self::Aws { id, .. }, Self::Aws { id: same, .. }) => id == same,
            (Self::Iscsi { iqn, read_only }, Self::Iscsi { iqn: same, read_only: also }) => {
                iqn == same && !(*read_only && *also)
            }
            (
                Self::Rbd { monitors, pool, image, read_only },
                Self::Rbd { monitors: others, pool: same_pool, image: same, read_only: also },
            ) => {
                monitors.iter().any(|monitor| others.contains(monitor))
                    && pool == same_pool
                    && image == same
                    && !(*read_only && *also)
            }
            _ => false,
        }
    }

    /// Whether drivers have taken such disks over, if perhaps not this one.
    #[must_use]
    pub fn is_taken_over(&self) -> bool {
        matches!(self, Self::Gce { .. } | Self::Aws { .. } | Self::Shared { .. })
    }

    /// The driver that has taken such disks over, and what it knows this one by.
    #[must_use]
    pub fn driver(&self) -> Option<Driver> {
        let (kind, handle) = match self {
            Self::Gce { name, .. } => {
                (InTree::Gce, Some(format!("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{name}")))
            }
            Self::Aws { handle, .. } => (InTree::Aws, handle.as_deref().map(str::to_owned)),
            Self::Shared { kind, handle } => (*kind, handle.as_deref().map(str::to_owned)),
            Self::Iscsi { .. } | Self::Rbd { .. } => return None,
        };
        Some(Driver { kind, handle: handle?.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_collide_unless_both_only_read() {
        let gce = |name: &str, read_only| Disk::Gce { name: name.into(), read_only };
        let aws = |id: &str| Disk::Aws { id: id.into(), handle: Some(id.into()) };
        let iscsi = |iqn: &str, read_only| Disk::Iscsi { iqn: iqn.into(), read_only };
        let rbd = |monitors: &[&str], read_only| Disk::Rbd {
            monitors: monitors.iter().map(|monitor| (*monitor).into()).collect(),
            pool: "rbd".into(),
            image: "image".into(),
            read_only,
        };
        let check = |a: Disk, b: Disk, collide: bool| {
            assert_eq!(a.collides_with(&b), collide, "{a:?} {b:?}");
            assert_eq!(b.collides_with(&a), collide, "{b:?} {a:?}");
        };
        check(gce("a", false), gce("a", true), true);
        check(gce("a", true), gce("a", true), false);
        check(gce("a", false), gce("b", false), false);
        check(aws("a"), aws("a"), true);
        check(aws("a"), aws("b"), false);
        check(iscsi("a", false), iscsi("a", true), true);
        check(iscsi("a", true), iscsi("a", true), false);
        check(rbd(&["1", "2"], false), rbd(&["2", "3"], false), true);
        check(rbd(&["1"], false), rbd(&["2"], false), false);
        check(rbd(&["1"], true), rbd(&["1"], true), false);
        check(gce("a", false), aws("a"), false);
    }
}
