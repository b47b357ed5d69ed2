//! What the engine's thread is told, and what it asks to be written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{Condition, ElasticQuota, PodGroup, Reservation, ResourceList};
use chassis::key::Key;
use engine::fact::{Fact, PodFact, PodRef, Uid};
use engine::ledger::{Ledger, Stale};
use engine::moment::Moment;
use engine::plugins::volume_binding::Write;
use engine::turn::{Advice, Ticket};
use tokio_util::sync::CancellationToken;

use crate::bind::Outcome;
use crate::debug::Look;
use crate::dismissals::{DismissOrder, Dismissal};
use crate::extenders::Binder;
use crate::gangs::GroupOrder;
use crate::quotas::QuotaOrder;
use crate::reservations::Step;

/// A kind of object that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Nodes.
    Node,
    /// Pods that have not ended.
    Pod,
    /// Namespaces.
    Namespace,
    /// Services.
    Service,
    /// Replication controllers.
    ReplicationController,
    /// Replica sets.
    ReplicaSet,
    /// Stateful sets.
    StatefulSet,
    /// Persistent volumes.
    PersistentVolume,
    /// Claims on persistent volumes.
    PersistentVolumeClaim,
    /// Classes of storage.
    StorageClass,
    /// What CSI drivers say of nodes.
    CsiNode,
    /// CSI drivers.
    CsiDriver,
    /// Room for volumes.
    CsiStorageCapacity,
    /// Volumes on nodes.
    VolumeAttachment,
    /// Disruption budgets.
    PodDisruptionBudget,
    /// Loads of nodes.
    NodeMetric,
    /// Layouts of nodes.
    NodeResourceTopology,
    /// Capacity that is held for pods that are still to come.
    Reservation,
    /// Shares of the cluster.
    ElasticQuota,
    /// Pods that start together.
    PodGroup,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::Node,
        Self::Pod,
        Self::Namespace,
        Self::Service,
        Self::ReplicationController,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::PersistentVolume,
        Self::PersistentVolumeClaim,
        Self::StorageClass,
        Self::CsiNode,
        Self::CsiDriver,
        Self::CsiStorageCapacity,
        Self::VolumeAttachment,
        Self::PodDisruptionBudget,
        Self::NodeMetric,
        Self::NodeResourceTopology,
        Self::Reservation,
        Self::ElasticQuota,
        Self::PodGroup,
    ];

    /// Those that a ledger has to know: nobody reads what no profile looks at.
    #[must_use]
    pub fn read_by(ledger: &Ledger) -> BTreeSet<Self> {
        let is_read = |kind: &Self| match kind {
            Self::NodeMetric => ledger.loads.are_kept(),
            Self::NodeResourceTopology => ledger.cpus.are_kept(),
            Self::Reservation => ledger.reservations.are_kept(),
            Self::ElasticQuota => ledger.quotas.are_kept(),
            Self::PodGroup => ledger.gangs.are_kept(),
            _ => true,
        };
        Self::ALL.into_iter().filter(is_read).collect()
    }

    /// Whether a server may not know it: it is none of Kubernetes' own.
    #[must_use]
    pub fn may_be_absent(self) -> bool {
        matches!(
            self,
            Self::NodeMetric
                | Self::NodeResourceTopology
                | Self::Reservation
                | Self::ElasticQuota
                | Self::PodGroup
        )
    }
}

/// Something that happened outside the engine's thread.
#[derive(Debug)]
pub enum Message {
    /// Something other than a pod is there, changed or is gone; or a pod is gone.
    Fact(Fact),
    /// A pod is there, or is now this.
    Pod(Box<PodNews>),
    /// A reservation is there, or is now this.
    Reservation(Box<ReservationNews>),
    /// A gang is described by an object, or is described like this now.
    Group(Arc<PodGroup>),
    /// The object that describes a gang is gone.
    GroupGone(Key),
    /// What was to be written on this group is written, or cannot be for now.
    GroupWritten(Box<Receipt<PodGroup>>),
    /// A quota is there, or is now this.
    Quota(Arc<ElasticQuota>),
    /// A quota is gone.
    QuotaGone(Key),
    /// What was to be written on a quota is written, or cannot be for now.
    QuotaWritten(Box<Receipt<ElasticQuota>>),
    /// What came of asking this pod to go.
    Dismissed(Uid, Dismissal),
    /// What was to be written on this reservation is written, or cannot be for now.
    Lived(Uid, Wrote),
    /// All objects of a kind have been told, as they were when this process began to lead or later.
    Synced(Kind),
    /// All objects of a kind have been told, as they are while another process leads.
    Listed(Kind),
    /// What came of a Binding, or of what prepares a pod for one.
    Answered(Errand, Answer),
    /// That a reservation takes over a pod is written on the pod.
    Adopted(Adopted),
    /// What extenders said.
    Advised(Ticket, Advice),
    /// Nobody knows yet what became of a Binding; it is being asked for.
    Unclear(Errand),
    /// A Binding waits behind others in its namespace that have no clear answer.
    Held(Errand),
    /// What was to be told of this pod is told, and whoever has to go for it was asked to.
    Told(Uid),
    /// This pod waits for a node no longer, as the API server says: nothing was told, and nobody was asked to go for it.
    Needless(Uid),
    /// That an object cannot be read, or a node does not report, is told.
    Complained,
    /// The condition of this pod could not be written, or no room could be made for it.
    Untold(Uid),
    /// An object cannot be read. What was known of it stays.
    Unreadable(Box<Unreadable>),
    /// Somebody wants to know how things stand.
    Look(Look),
    /// No more decisions: what is under way is finished.
    Stop,
}

/// What came of a Binding, or of what prepares a pod for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// What became of the Binding is definite.
    Definite(Outcome),
    /// All that prepares the pod is written, and made these versions of the objects; 0 is one that
    /// cannot be told.
    Prepared(Box<[u64]>),
    /// What prepares the pod cannot be written, for this reason.
    Unprepared(Box<str>),
    /// This process no longer leads, or ends: whoever leads next will see what became of it.
    Abandoned,
}

/// That a reservation takes over a pod is written on the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// The reservation.
    pub by: Uid,
    /// The pod.
    pub pod: Uid,
    /// The version of the pod that says so; 0 is one that cannot be told.
    pub version: u64,
}

/// A Binding, or a preparation for one, that somebody was sent to write. A pod may be decided about
/// anew while he is on his way; what he then says is about no more than his own errand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand {
    /// Whose it is.
    pub uid: Uid,
    /// Which of all that this process has sent.
    pub number: u64,
}

/// A pod as the engine sees it, and what is written on it already.
#[derive(Debug)]
pub struct PodNews {
    /// What the engine is told.
    pub fact: PodFact,
    /// What is written on it.
    pub written: Written,
}

/// A reservation, and what is written on it already.
#[derive(Debug)]
pub struct ReservationNews {
    /// What the engine is told.
    pub fact: Fact,
    /// The object.
    pub object: Arc<Reservation>,
}

/// What came of what was to be written on an object.
#[derive(Debug)]
pub struct Receipt<T> {
    /// Which.
    pub key: Key,
    /// What it is by now, where the server took it.
    pub object: Option<Arc<T>>,
    /// Whether it is written.
    pub wrote: Wrote,
}

impl<T> Receipt<T> {
    /// Of what was not written, and is to be tried again.
    pub(crate) fn of_nothing(key: Key) -> Self {
        Self { key, object: None, wrote: Wrote::Nothing }
    }
}

/// Whether something is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrote {
    /// It is, or it need not be any longer.
    All,
    /// It is not, or nobody knows, and is to be tried again.
    Nothing,
    /// The server refused it for good, and it is tried again all the same.
    Refused,
}

/// What is written on a pod that has no node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// The version of the pod.
    pub version: Box<str>,
    /// The generation of its spec.
    pub generation: i64,
    /// Whether it has a node, and why not.
    pub scheduled: Option<Scheduled>,
    /// The node on which room is made for it; empty for none.
    pub nominated: Box<str>,
    /// Annotations by which pods say what they got, though this one got nothing yet: its author wrote
    /// them.
    pub forged: Box<[&'static str]>,
}

/// The condition `PodScheduled`, or `Scheduled` of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// Whether it says that there is no node yet.
    pub is_false: bool,
    /// Why, as one word.
    pub reason: Box<str>,
    /// Why, in words. Pods that wait for the same share them.
    pub message: Arc<str>,
}

impl From<&Condition> for Scheduled {
    fn from(condition: &Condition) -> Self {
        Self {
            is_false: condition.status == "False",
            reason: condition.reason.as_str().into(),
            message: condition.message.as_str().into(),
        }
    }
}

/// A Binding to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct BindOrder {
    /// Which pod.
    pub pod: PodRef,
    /// Which of all errands it is.
    pub number: u64,
    /// The version of it that was decided about.
    pub version: Box<str>,
    /// Where to.
    pub node: Box<str>,
    /// In whose name.
    pub scheduler: Arc<str>,
    /// By whom.
    pub binder: Binder,
    /// Annotations that the pod gets with it.
    pub stamps: BTreeMap<String, String>,
    /// What is held, where it is a reservation.
    pub held: Option<HoldOrder>,
}

/// What a reservation is to hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HoldOrder {
    /// How much.
    pub amounts: ResourceList,
    /// The same in words.
    pub told: Box<str>,
    /// Pods of its node that use it from now on.
    pub adopts: Vec<PodRef>,
    /// Pods elsewhere that say that they do, and do not.
    pub leaves: Vec<PodRef>,
}

impl BindOrder {
    /// What is answered.
    #[must_use]
    pub fn errand(&self) -> Errand {
        Errand { uid: self.pod.uid.clone(), number: self.number }
    }
}

/// What extenders are to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsultOrder {
    /// Which question it is.
    pub ticket: Ticket,
    /// The pod.
    pub pod: PodRef,
    /// The nodes that could take it.
    pub nodes: Vec<Box<str>>,
}

/// What has to be written before a pod can be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrepareOrder {
    /// Which pod.
    pub pod: PodRef,
    /// Which of all errands it is.
    pub number: u64,
    /// One after the other.
    pub writes: Vec<Write>,
    /// Whether it is still wanted.
    pub recall: Recall,
}

impl PrepareOrder {
    /// What is answered.
    #[must_use]
    pub fn errand(&self) -> Errand {
        Errand { uid: self.pod.uid.clone(), number: self.number }
    }
}

/// Whether an errand is still wanted: whoever is sent hears of it, whatever he is at. Clones are the
/// same.
#[derive(Debug, Clone, Default)]
pub struct Recall(CancellationToken);

impl Recall {
    /// It is not wanted any longer.
    pub fn recall(&self) {
        self.0.cancel();
    }

    /// Whether it is not wanted any longer.
    #[must_use]
    pub fn is_recalled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Comes when it is not wanted any longer.
    pub async fn recalled(&self) {
        self.0.cancelled().await;
    }
}

impl PartialEq for Recall {
    fn eq(&self, other: &Self) -> bool {
        self.is_recalled() == other.is_recalled()
    }
}

impl Eq for Recall {}

/// Room that is made for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomOrder {
    /// Where.
    pub node: Box<str>,
    /// Who has to go.
    pub victims: Vec<PodRef>,
    /// Who waited for that room before, and does not any longer.
    pub passed_over: Vec<PodRef>,
}

/// That a pod got no node, to be told to users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TellOrder {
    /// Which pod.
    pub pod: PodRef,
    /// The version of it that was decided about.
    pub version: Box<str>,
    /// In whose name.
    pub scheduler: Arc<str>,
    /// Why, in words. Pods that wait for the same share them.
    pub message: Arc<str>,
    /// The condition to be written, where it is not written already.
    pub condition: Option<ConditionOrder>,
    /// The node that is to be written as the one on which room is made, or empty for none; nothing
    /// where it is written already.
    pub nominated: Option<Box<str>>,
    /// The room that is to be made.
    pub room: Option<Box<RoomOrder>>,
    /// What is in the way of the reservations that it must use one of, in words.
    pub reservations: Option<Box<str>>,
}

impl TellOrder {
    /// Whether it is to be told at once: room is made for the pod, or no longer, and others depend on it.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.room.is_some() || self.nominated.is_some()
    }
}

/// A condition `PodScheduled` that is `False`, to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionOrder {
    /// Why, as one word.
    pub reason: &'static str,
    /// The generation of the spec that it speaks of.
    pub generation: i64,
    /// Whether it was not `False` before.
    pub is_transition: bool,
}

/// Something to be written.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// A Binding.
    Bind(BindOrder),
    /// What has to be there before a Binding.
    Prepare(PrepareOrder),
    /// A question.
    Consult(ConsultOrder),
    /// That a pod got no node.
    Tell(Box<TellOrder>),
    /// That an object cannot be read.
    Complain(Unreadable),
    /// Where a reservation stands in its life.
    Live(Box<LifeOrder>),
    /// That a node does not report its load, or does again.
    Report(ReportOrder),
    /// How a quota stands.
    Quota(Box<QuotaOrder>),
    /// Why a gang has not started.
    Group(Box<GroupOrder>),
    /// A pod has to go for its quota, or for its gang.
    Dismiss(Box<DismissOrder>),
}

/// What is to be told of the reports of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportOrder {
    /// There was none for too long.
    Silent {
        /// The node.
        node: Box<str>,
        /// When it last reported; none where it never did.
        since: Option<Moment>,
        /// What becomes of it.
        stale: Stale,
    },
    /// They come again.
    Reported {
        /// The node.
        node: Box<str>,
    },
}

/// Where a reservation stands in its life, to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct LifeOrder {
    /// What the API server calls it.
    pub uid: Uid,
    /// Its name.
    pub name: Box<str>,
    /// What is to be written.
    pub step: Step,
}

/// An object that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its kind.
    pub kind: Kind,
    /// Which.
    pub key: Key,
    /// What is wrong with it.
    pub error: String,
}
