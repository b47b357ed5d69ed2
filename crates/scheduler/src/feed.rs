//! Lists and watches of everything that scheduling depends on, as one line of messages.
//!
//! Objects are turned into facts here, so that the engine's thread reads no JSON. Every list is
//! taken from the store and not from a cache: what it shows is not older than the moment at which
//! it was asked for, which is what a new leader needs.

use api::condition;
use api::{
    CsiDriver, CsiNode, CsiStorageCapacity, Namespace, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController, Resource,
    Service, StatefulSet, StorageClass, VolumeAttachment,
};
use chassis::client::{Client, Object, ResourceType};
use chassis::key::Key;
use chassis::metrics::Metrics;
use chassis::reflector::{Delta, Reflector};
use engine::fact::{Fact, NodeFact, StorageFact, Uid};
use engine::needs::{Owner, OwnerKind};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::message::{Kind, Message, PodNews, Scheduled, Unreadable, Written};

/// Pods that have ended take no room: nobody needs to hear of them.
const PODS_THAT_LIVE: &str = "status.phase!=Succeeded,status.phase!=Failed";
const POD_SCHEDULED: &str = "PodScheduled";

/// The watches, before they run.
pub(crate) struct Feed<'a> {
    pub(crate) client: &'a Client,
    pub(crate) sink: &'a mpsc::Sender<Message>,
    pub(crate) seed: u64,
    pub(crate) metrics: &'a Metrics,
    pub(crate) stop: &'a CancellationToken,
    pub(crate) tasks: &'a mut JoinSet<()>,
}

impl Feed<'_> {
    /// Starts all watches; they run until `stop` is cancelled.
    pub(crate) fn start(mut self) {
        self.pods();
        self.kind(
            Kind::Node,
            |node: &Node| Fact::Node(NodeFact::from(node)),
            |key| Fact::NodeGone(key.name().into()),
        );
        self.kind(Kind::Namespace, namespace, |key| Fact::NamespaceGone(key.name().into()));
        self.kind(Kind::PodDisruptionBudget, |one: &PodDisruptionBudget| one.into(), budgetless);
        self.owners();
        self.storage();
    }

    fn owners(&mut self) {
        self.kind(
            Kind::Service,
            |one: &Service| one.into(),
            |key| ownerless(OwnerKind::Service, key),
        );
        self.kind(
            Kind::ReplicationController,
            |one: &ReplicationController| one.into(),
            |key| ownerless(OwnerKind::ReplicationController, key),
        );
        self.kind(
            Kind::ReplicaSet,
            |one: &ReplicaSet| one.into(),
            |key| ownerless(OwnerKind::ReplicaSet, key),
        );
        self.kind(
            Kind::StatefulSet,
            |one: &StatefulSet| one.into(),
            |key| ownerless(OwnerKind::StatefulSet, key),
        );
    }

    fn storage(&mut self) {
        use StorageFact as S;
        self.stored(
            Kind::PersistentVolume,
            |one: &PersistentVolume| one.into(),
            |key| S::Volume(name(key), None),
        );
        self.stored(
            Kind::PersistentVolumeClaim,
            |one: &PersistentVolumeClaim| one.into(),
            |key| S::Claim(key.namespace().into(), name(key), None),
        );
        self.stored(
            Kind::StorageClass,
            |one: &StorageClass| one.into(),
            |key| S::Class(name(key), None),
        );
        self.stored(Kind::CsiNode, |one: &CsiNode| one.into(), |key| S::CsiNode(name(key), None));
        self.stored(
            Kind::CsiDriver,
            |one: &CsiDriver| one.into(),
            |key| S::CsiDriver(name(key), None),
        );
        self.stored(
            Kind::CsiStorageCapacity,
            |one: &CsiStorageCapacity| one.into(),
            |key| S::Capacity(key.namespace().into(), name(key), None),
        );
        self.stored(
            Kind::VolumeAttachment,
            |one: &VolumeAttachment| one.into(),
            |key| S::Attachment(name(key), None),
        );
    }

    fn stored<T: Resource + Object>(
        &mut self,
        kind: Kind,
        fact: fn(&T) -> StorageFact,
        gone: fn(&Key) -> StorageFact,
    ) {
        let message = move |object: T| Message::Fact(Fact::Storage(fact(&object)));
        self.watch(kind, "", message, move |key, _| Message::Fact(Fact::Storage(gone(key))));
    }

    fn kind<T: Resource + Object>(
        &mut self,
        kind: Kind,
        fact: fn(&T) -> Fact,
        gone: fn(&Key) -> Fact,
    ) {
        let message = move |object: T| Message::Fact(fact(&object));
        self.watch(kind, "", message, move |key, _| Message::Fact(gone(key)));
    }

    fn pods(&mut self) {
        let gone = |uid: &str| Message::Fact(Fact::PodGone(Uid::new(uid)));
        self.watch(Kind::Pod, PODS_THAT_LIVE, news, move |_, uid| gone(uid));
    }

    fn watch<T: Resource + Object>(
        &mut self,
        kind: Kind,
        fields: &str,
        message: impl Fn(T) -> Message + Send + 'static,
        gone: impl Fn(&Key, &str) -> Message + Send + 'static,
    ) {
        let access = self.client.access::<T>(ResourceType::of::<T>(), "");
        let reflector = Reflector::new(access).fields(fields).seed(self.seed).metrics(self.metrics);
        let map = move |delta: Delta<T>| match delta {
            Delta::Upserted(object) => message(object),
            Delta::Deleted { key, uid } => gone(&key, &uid),
            Delta::Synced => Message::Synced(kind),
            Delta::Malformed { key, error, .. } => {
                Message::Unreadable(Box::new(Unreadable { kind, key, error }))
            }
        };
        self.tasks.spawn(reflector.run(self.sink.clone(), map, self.stop.clone()));
    }
}

fn name(key: &Key) -> Box<str> {
    key.name().into()
}

fn namespace(namespace: &Namespace) -> Fact {
    let labels = namespace.metadata.labels.iter();
    Fact::Namespace {
        name: namespace.metadata.name.as_str().into(),
        labels: labels.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
    }
}

fn budgetless(key: &Key) -> Fact {
    Fact::Budget { namespace: key.namespace().into(), name: name(key), budget: None }
}

fn ownerless(kind: OwnerKind, key: &Key) -> Fact {
    let owner = Owner { kind, name: name(key) };
    Fact::Owner { namespace: key.namespace().into(), owner, selector: None }
}

pub(crate) fn news(pod: Pod) -> Message {
    let fact = match Fact::from(&pod) {
        Fact::Pod(fact) => *fact,
        gone => return Message::Fact(gone),
    };
    let written = if fact.node.is_none() { written(&pod) } else { Written::default() };
    Message::Pod(Box::new(PodNews { fact, written }))
}

fn written(pod: &Pod) -> Written {
    let scheduled = condition::find(&pod.status.conditions, POD_SCHEDULED);
    Written {
        generation: pod.metadata.generation,
        scheduled: scheduled.map(|condition| Scheduled {
            is_false: condition.status == "False",
            reason: condition.reason.as_str().into(),
            message: condition.message.as_str().into(),
        }),
        nominated: pod.status.nominated_node_name.as_str().into(),
    }
}
