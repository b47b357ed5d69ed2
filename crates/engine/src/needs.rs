//! What a pod asks of a node and takes from it, as far as plugins read it.
//!
//! This is the wire's pod after parsing: nothing here is optional that the API server fills in,
//! and nothing is kept that no plugin reads. Pods that ask the same share one [`Needs`], in parts
//! that plugins know by number.

mod cpus;
mod hint;
mod load;
mod node_affinity;
mod pod_selector;
mod ports;
mod requests;
mod reservation;
mod volumes;

pub use cpus::{CpuNeeds, Wish};
pub use hint::Hint;
pub use load::LoadNeeds;
pub use node_affinity::{Field, NodeAffinity, NodeTerm, Operator, Preference, Requirement};
pub use pod_selector::{Clause, Constraint, PodAffinity, PodSelector, PodTerm, Reach, Spread};
pub use ports::{HostPort, Ports};
pub use requests::{Amounts, Named, Requests};
pub use reservation::{Makers, OwnReservation, ReservationAffinity, ReservationNeeds, TakeOver};
pub use volumes::{Disk, Volume, Volumes};

use object::taint::Toleration;

/// What a pod asks of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Needs {
    /// What it asks for.
    pub requests: Requests,
    /// What it takes once it is there, which differs while it is resized.
    pub taken: Requests,
    /// Ports of the node.
    pub ports: Ports,
    /// Taints it puts up with.
    pub tolerations: Tolerations,
    /// Which nodes it must and would rather run on.
    pub node_affinity: NodeAffinity,
    /// Images of its containers.
    pub images: Images,
    /// Which pods it must or would rather be near to or away from.
    pub pod_affinity: PodAffinity,
    /// How it and its like are spread.
    pub spread: Spread,
    /// How many terms it has about other pods, where these are too many. Then it is known without any
    /// of them, and no node takes it.
    pub too_many_terms: Option<u32>,
    /// The controller that made it.
    pub owner: Option<Owner>,
    /// Volumes that its place depends on.
    pub volumes: Volumes,
    /// What its load is estimated by, where that does not follow from its requests.
    pub load: Option<LoadNeeds>,
    /// What it wants of CPUs and NUMA nodes, where it wants anything.
    pub cpus: Option<CpuNeeds>,
    /// Nodes that were chosen for it before.
    pub hint: Option<Hint>,
    /// What it wants of reservations, where it wants anything.
    pub reservation: Option<ReservationNeeds>,
    /// Whether it claims devices and the like.
    pub resource_claims: bool,
}

/// What makes pods, or leads to them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Its kind.
    pub kind: OwnerKind,
    /// Its name.
    pub name: Box<str>,
}

/// Kinds of which the pods are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnerKind {
    /// A service: it leads to pods and makes none.
    Service,
    /// The elder sibling of the next.
    ReplicationController,
    /// What deployments make.
    ReplicaSet,
    /// Pods with an identity.
    StatefulSet,
}

/// Taints a pod puts up with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Tolerations(pub Box<[Toleration]>);

/// Images of a pod's containers, init containers first, as the pod names them but with a tag.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Images(pub Box<[Box<str>]>);

impl Images {
    /// Images under the names that nodes report: a name without a tag means `latest`.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let with_tag = |name: &str| match name.rfind(':') > name.rfind('/') {
            true => name.into(),
            false => format!("{name}:latest").into(),
        };
        Self(names.into_iter().map(with_tag).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_is_the_latest() {
        let check = |name: &str, expected: &str| {
            assert_eq!(&*Images::new([name]).0[0], expected);
        };
        check("nginx", "nginx:latest");
        check("nginx:1.27", "nginx:1.27");
        check("registry.example:5000/nginx", "registry.example:5000/nginx:latest");
        check("registry.example:5000/nginx:1", "registry.example:5000/nginx:1");
        check("nginx@sha256:abc", "nginx@sha256:abc");
    }
}
