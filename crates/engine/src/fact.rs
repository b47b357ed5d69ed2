//! What the engine is told: things that happened, each of them parsed.
//!
//! Facts of one kind arrive in the order of the API server; facts of different kinds arrive in any
//! order, late or twice. The ledger is a function of the latest object of each kind and of the
//! open claims, whatever the order was.

mod amounts;
mod cpus;
mod in_tree;
mod load;
mod pod_terms;
mod reservation;
mod storage;
mod storage_wire;
mod uid;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::OwnerReference;
use api::pod_group::{GangId, GangTerms};
use object::selector::label::Selector;
use object::taint::Taint;

pub use amounts::quantities;
pub use cpus::{Allotment, CpuLayout, CpuRules, NumaPolicy};
pub use in_tree::{TOPOLOGY_LABELS, successor};
pub use load::{
    Aggregation, LoadReport, LoadRules, NodeUsage, Percents, PodUsage, PodUsages, UsageWindow,
    WindowLimits,
};
pub(crate) use pod_terms::TERMS_MAX;
pub use reservation::{
    ControllerRule, OwnerRule, PodRule, ReservationFact, ReservationPolicy, ReservationRef,
    ReservationRules, Size, Visitor,
};
pub use storage::{
    Attachment, Capacity, Claim, ClaimReference, Class, CsiDriver, CsiNode, Driver, InTree,
    PersistentVolume, Source, StorageFact, TopologyRequirement, Version, Zone,
};
pub use uid::Uid;

use crate::gangs::Membership;
use crate::ledger::PodRow;
use crate::moment::Moment;
use crate::needs::{Amounts, Needs, Owner};
use crate::quota::{Preemptible, QuotaFact};

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Fact {
    /// A node is there, or is now this.
    Node(NodeFact),
    /// A node is gone.
    NodeGone(Box<str>),
    /// A pod is there, or is now this.
    Pod(Box<PodFact>),
    /// A namespace is there, or has these labels now.
    Namespace {
        /// Its name.
        name: Box<str>,
        /// Its labels.
        labels: BTreeMap<Box<str>, Box<str>>,
    },
    /// A namespace is gone.
    NamespaceGone(Box<str>),
    /// A service or a controller is there, or selects these pods now; none when it is gone.
    Owner {
        /// Its namespace.
        namespace: Box<str>,
        /// Its kind and name.
        owner: Owner,
        /// The pods it selects.
        selector: Option<Selector>,
    },
    /// Something of storage is there, is now this, or is gone.
    Storage(StorageFact),
    /// A node reports this load now; none when it does not any longer.
    Load {
        /// The node.
        node: Box<str>,
        /// What it reports.
        report: Option<Arc<LoadReport>>,
    },
    /// The CPUs and NUMA nodes of a node are laid out like this; none when nobody knows any longer.
    Layout {
        /// The node.
        node: Box<str>,
        /// How.
        layout: Option<Arc<CpuLayout>>,
    },
    /// A reservation is there, or is now this.
    Reservation(Box<ReservationFact>),
    /// A pod is gone, or has ended and takes nothing of its node any longer; or a reservation.
    PodGone(Uid),
    /// A pod has failed: it takes nothing of its node any longer, and its gang lacks it.
    PodFailed(Uid),
    /// A quota is there, or is now this.
    Quota(Box<QuotaFact>),
    /// A quota is gone.
    QuotaGone {
        /// Its namespace.
        namespace: Box<str>,
        /// Its name.
        name: Box<str>,
    },
    /// A gang is described by an object, or is described like this now; none when the object is gone.
    Gang {
        /// Which gang.
        id: GangId,
        /// What is said of it.
        terms: Option<Box<GangTerms>>,
        /// Whether the object says that members were bound before, of whom nobody may be there any longer. It counts
        /// where nothing was known of the object before.
        has_started: bool,
    },
    /// A disruption budget is there, or is now this; none when it is gone.
    Budget {
        /// Its namespace.
        namespace: Box<str>,
        /// Its name.
        name: Box<str>,
        /// What it allows.
        budget: Option<Budget>,
    },
}

impl Fact {
    /// The pod, or the reservation, that is there no longer by this.
    #[must_use]
    pub fn gone(&self) -> Option<&Uid> {
        match self {
            Self::PodGone(uid) | Self::PodFailed(uid) => Some(uid),
            _ => None,
        }
    }
}

/// A disruption budget: how many pods of a group may be missing at will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// The pods. One that selects every pod protects none, for that is how preemption reads it.
    pub pods: Selector,
    /// How many of them may go now.
    pub allowed: i32,
    /// Names of pods whose going is counted already.
    pub going: BTreeSet<Box<str>>,
}

/// Which pod, or which reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    /// What the API server calls it.
    pub uid: Uid,
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Whether it is a reservation.
    pub is_reservation: bool,
}

impl PodRef {
    /// The pod, or the reservation, of a row.
    #[must_use]
    pub fn of(uid: &Uid, row: &PodRow) -> Self {
        let (namespace, name) = (row.namespace.clone(), row.name.clone());
        Self { uid: uid.clone(), namespace, name, is_reservation: row.is_reservation() }
    }
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFact {
    /// Its name.
    pub name: Box<str>,
    /// Its labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Its taints.
    pub taints: Arc<[Taint]>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// What pods may request of it.
    pub allocatable: Amounts,
    /// How many pods it takes.
    pub pods_allowed: i64,
    /// Images it has, sorted by name, with their sizes in bytes.
    pub images: Arc<[(Box<str>, i64)]>,
    /// How its load is judged, where it says so.
    pub load: Option<Arc<LoadRules>>,
    /// How its CPUs are given away, where it says so.
    pub cpus: Option<Arc<CpuRules>>,
    /// What else those outside may go by.
    pub rest: NodeRest,
}

/// What of a node only those outside read, as hashes: whether it is another than before is all that
/// anybody here asks. Nothing where nobody outside is ever asked, since to hash it costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeRest {
    /// Its annotations.
    pub annotations: u64,
    /// Which of its conditions hold.
    pub conditions: u64,
}

/// When a pod got its node and when its init containers ended, as far as the API server says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadTimes {
    /// When it got its node.
    pub scheduled: Option<Moment>,
    /// When its init containers ended.
    pub initialized: Option<Moment>,
}

/// A pod that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFact {
    /// Which pod it is.
    pub uid: Uid,
    /// Which version of it this is.
    pub version: Version,
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// The node it is bound to.
    pub node: Option<Box<str>>,
    /// The node on which room is being made for it.
    pub nominated: Option<Box<str>>,
    /// When its node accepted it.
    pub started: Option<Moment>,
    /// From when on its load is reported.
    pub load_times: LoadTimes,
    /// What it got of CPUs and NUMA nodes, where it says so.
    pub allotment: Option<Allotment>,
    /// Whether pods of lower priority may be pushed out for it.
    pub may_preempt: bool,
    /// Whether it is being deleted to make room for another pod.
    pub giving_way: bool,
    /// Whether it is not to be pushed out for a reservation, or inside one.
    pub is_spared: bool,
    /// Higher goes first.
    pub priority: i32,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Who is to find it a node.
    pub scheduler: Arc<str>,
    /// What keeps it from being tried.
    pub gates: Box<[Box<str>]>,
    /// Resources that its containers name and that are not Kubernetes' own, in order.
    pub extended: Box<[Box<str>]>,
    /// Who made it.
    pub owners: Box<[OwnerReference]>,
    /// The gang that it is of.
    pub gang: Option<Arc<Membership>>,
    /// The quota that it names.
    pub quota: Option<Box<str>>,
    /// Whether it may have to make room for others of its quota.
    pub preemptible: Preemptible,
    /// Who may use it, where it is a reservation: only once it has a node.
    pub holds: Option<Arc<ReservationRules>>,
    /// What it asks of a node and takes of it.
    pub needs: Needs,
    /// What of it only those outside read, as a hash; nothing where nobody outside is ever asked.
    pub rest: u64,
}

impl PodFact {
    /// A pod that asks for nothing and has no node.
    #[must_use]
    pub fn new(uid: &str, namespace: &str, name: &str) -> Self {
        Self {
            uid: Uid::new(uid),
            version: Version::default(),
            namespace: namespace.into(),
            name: name.into(),
            labels: BTreeMap::new(),
            node: None,
            priority: 0,
            deleting: false,
            scheduler: DEFAULT_SCHEDULER.into(),
            gates: Box::default(),
            giving_way: false,
            is_spared: false,
            may_preempt: true,
            nominated: None,
            extended: Box::default(),
            started: None,
            load_times: LoadTimes::default(),
            allotment: None,
            owners: Box::default(),
            gang: None,
            quota: None,
            preemptible: Preemptible::Yes,
            holds: None,
            needs: Needs::default(),
            rest: 0,
        }
    }
}

/// Who finds a node for pods that name nobody.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";
