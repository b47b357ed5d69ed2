//! Everything that scheduling depends on, as messages: watched for ever, or listed once.
//!
//! Objects are turned into facts here, so that the engine's thread reads no JSON. Every list is
//! taken from the store and not from a cache: what it shows is not older than the moment at which
//! it was asked for. One who waits to lead watches behind a fence: it is told apart what was known
//! before, and when all is known that happened before it began to lead.

mod layouts;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use api::condition;
use api::cpus::RESOURCE_STATUS;
use api::reservation::ALLOCATED;
use api::{
    CsiDriver, CsiNode, CsiStorageCapacity, ElasticQuota, Namespace, Node, NodeMetric,
    NodeResourceTopology, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget,
    PodGroup, ReplicaSet, ReplicationController, Reservation, Resource, Service, StatefulSet,
    StorageClass, VolumeAttachment,
};
use chassis::client::{Client, Error, ListOptions, Object, ResourceType};
use chassis::controller::go_on_panicking;
use chassis::key::Key;
use chassis::metrics::Metrics;
use chassis::reflector::{Delta, Fence, Reflector};
use engine::fact::{Fact, NodeFact, PodFact, ReservationFact, StorageFact, Uid};
use engine::needs::{Owner, OwnerKind};
use engine::profile::Consulting;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::awaited::Awaited;
use crate::complaints::Complaints;
use crate::config::{Configuration, TakeoverKey};
use crate::extenders;
use crate::message::{Kind, Message, PodNews, ReservationNews, Scheduled, Unreadable, Written};
use layouts::LastLayout;

/// How many objects are asked for at once when they are listed.
const PAGE: u32 = 500;
/// Pods that have ended take no room: nobody needs to hear of them.
const PODS_THAT_LIVE: &str = "status.phase!=Succeeded,status.phase!=Failed";
const POD_SCHEDULED: &str = "PodScheduled";

/// Whoever reads every kind.
pub(crate) trait Reader {
    /// Who is told what of objects cannot be read; nobody where they are read once.
    fn complaints(&self) -> Option<Arc<Complaints>>;

    /// Reads all objects of a kind with these fields, where it is read at all: what is told of each,
    /// and of one that is gone.
    fn read<T: Resource + Object>(
        &mut self,
        kind: Kind,
        fields: &str,
        message: impl Fn(T) -> Message + Send + 'static,
        gone: impl Fn(&Key, &str) -> Message + Send + 'static,
    );
}

/// What of nodes and pods is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Whether it is also seen that anything is another than before by which the engine does not go:
    /// extenders may.
    is_whole: bool,
    /// The annotation by which pods say which of several goes first that a reservation takes over, where
    /// that is another than usual.
    takeover_key: Option<Arc<str>>,
}

impl Sight {
    /// What is needed with these extenders.
    pub(crate) fn of(configuration: &Configuration) -> Self {
        let mut profiles = configuration.profiles.iter();
        let key = profiles.find_map(|own| {
            let key = &own.args.reservation.takeover_key;
            (*key != TakeoverKey::default()).then(|| key.0.as_str().into())
        });
        Self {
            is_whole: extenders::consulting(&configuration.extenders) != Consulting::Never,
            takeover_key: key,
        }
    }

    fn node(&self) -> fn(&Node) -> Fact {
        match self.is_whole {
            false => |node| Fact::Node(NodeFact::from(node)),
            true => |node| Fact::Node(NodeFact::from(node).with_rest(node)),
        }
    }

    fn pod(&self) -> impl Fn(Pod) -> Message + use<> {
        let Self { is_whole, takeover_key } = self.clone();
        move |pod| {
            news_of(&pod, |mut fact| {
                if let Some(key) = &takeover_key {
                    fact = fact.ranked_by(&pod, key);
                }
                if is_whole { fact.with_rest(&pod) } else { fact }
            })
        }
    }
}

/// The watches, before they run.
pub(crate) struct Feed<'a> {
    pub(crate) client: &'a Client,
    pub(crate) sink: &'a mpsc::Sender<Message>,
    pub(crate) seed: u64,
    pub(crate) metrics: &'a Metrics,
    /// What is not read yet.
    pub(crate) awaited: &'a Awaited,
    /// How much of nodes and pods is looked at.
    pub(crate) sight: Sight,
    /// What is read; of other kinds nothing is.
    pub(crate) kinds: &'a BTreeSet<Kind>,
    /// Put up when this process leads; none where it need not.
    pub(crate) fence: Option<&'a Fence>,
    pub(crate) stop: &'a CancellationToken,
    pub(crate) tasks: &'a mut JoinSet<()>,
}

impl Feed<'_> {
    /// Starts the watches; they run until `stop` is cancelled.
    pub(crate) fn start(mut self) {
        let sight = self.sight.clone();
        read_all(&mut self, &sight);
    }
}

impl Reader for Feed<'_> {
    fn complaints(&self) -> Option<Arc<Complaints>> {
        Some(Arc::default())
    }

    fn read<T: Resource + Object>(
        &mut self,
        kind: Kind,
        fields: &str,
        message: impl Fn(T) -> Message + Send + 'static,
        gone: impl Fn(&Key, &str) -> Message + Send + 'static,
    ) {
        if !self.kinds.contains(&kind) {
            return;
        }
        let access = self.client.access::<T>(ResourceType::of::<T>(), "");
        let reflector = Reflector::new(access).fields(fields).seed(self.seed).metrics(self.metrics);
        let reflector = if kind.may_be_absent() { reflector.may_be_absent() } else { reflector };
        let (awaited, resource) = (self.awaited.clone(), reflector.resource().to_string());
        awaited.begin(&resource);
        let (heard, named) = (awaited.clone(), resource.clone());
        let reflector = reflector.troubles(move |what| heard.trouble(&named, what));
        let read = move || {
            awaited.end(&resource);
            Message::Synced(kind)
        };
        let passed = read.clone();
        let (listed, named) = (self.awaited.clone(), reflector.resource().to_string());
        let fence = self.fence.cloned();
        let is_behind = fence.is_some();
        let map = move |delta: Delta<T>| match delta {
            Delta::Upserted(object) => message(object),
            Delta::Deleted { key, uid } => gone(&key, &uid),
            Delta::Synced if is_behind => {
                listed.listed(&named);
                Message::Listed(kind)
            }
            Delta::Synced => read(),
            Delta::Malformed { key, error, .. } => {
                Message::Unreadable(Box::new(Unreadable { kind, key, error }))
            }
        };
        let (sink, stop) = (self.sink.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            match &fence {
                None => reflector.run(sink, map, stop).await,
                Some(fence) => reflector.run_fenced(sink, map, (fence, passed), stop).await,
            }
        });
    }
}

/// Lists of every kind, each read once, in pages.
struct Lists<'a> {
    client: &'a Client,
    kinds: &'a BTreeSet<Kind>,
    tasks: JoinSet<Result<(Kind, Vec<Message>), Error>>,
}

/// What is told of everything there is: of pods last, so that whatever they refer to is known.
///
/// # Errors
/// When a kind cannot be listed.
pub(crate) async fn list(client: &Client, kinds: &BTreeSet<Kind>) -> Result<Vec<Message>, Error> {
    let mut lists = Lists { client, kinds, tasks: JoinSet::new() };
    read_all(&mut lists, &Sight::default());
    let mut all = Vec::new();
    while let Some(ended) = lists.tasks.join_next().await {
        match ended {
            Ok(listed) => all.push(listed?),
            Err(error) => go_on_panicking(error),
        }
    }
    all.sort_by_key(|(kind, _)| (*kind == Kind::Pod, *kind));
    Ok(all.into_iter().flat_map(|(_, messages)| messages).collect())
}

impl Reader for Lists<'_> {
    fn complaints(&self) -> Option<Arc<Complaints>> {
        None
    }

    fn read<T: Resource + Object>(
        &mut self,
        kind: Kind,
        fields: &str,
        message: impl Fn(T) -> Message + Send + 'static,
        _gone: impl Fn(&Key, &str) -> Message + Send + 'static,
    ) {
        if !self.kinds.contains(&kind) {
            return;
        }
        let access = self.client.access::<T>(ResourceType::of::<T>(), "");
        let field_selector = fields.to_owned();
        let mut options = ListOptions { field_selector, limit: PAGE, ..ListOptions::default() };
        self.tasks.spawn(async move {
            let mut told = Vec::new();
            loop {
                let page = match access.list(&options).await {
                    Err(error) if error.is_not_found() && kind.may_be_absent() => {
                        return Ok((kind, Vec::new()));
                    }
                    page => page?,
                };
                told.extend(page.items.into_iter().map(&message));
                told.extend(page.malformed.into_iter().map(|(nameplate, error)| {
                    let key = nameplate.identity().key();
                    Message::Unreadable(Box::new(Unreadable { kind, key, error }))
                }));
                match page.next {
                    Some(next) => options.continue_token = Some(next),
                    None => return Ok((kind, told)),
                }
            }
        });
    }
}

/// Has every kind read.
fn read_all(reader: &mut impl Reader, sight: &Sight) {
    let gone = |uid: &str| Message::Fact(Fact::PodGone(Uid::new(uid)));
    reader.read(Kind::Pod, PODS_THAT_LIVE, sight.pod(), move |_, uid| gone(uid));
    // What a node and its layout say is held against each other.
    let complaints = reader.complaints();
    nodes(reader, sight, complaints.clone());
    fact(reader, Kind::Namespace, namespace, |key| Fact::NamespaceGone(key.name().into()));
    fact(reader, Kind::PodDisruptionBudget, |one: &PodDisruptionBudget| one.into(), budgetless);
    owners(reader);
    storage(reader);
    let reported = |one: NodeMetric| Message::Fact(one.into());
    reader.read(Kind::NodeMetric, "", reported, |key, _| Message::Fact(loadless(key)));
    layouts(reader, complaints);
    let gone = |uid: &str| Message::Fact(Fact::PodGone(Uid::new(uid)));
    reader.read(Kind::Reservation, "", reservation, move |_, uid| gone(uid));
    let quota = |own: ElasticQuota| Message::Quota(Arc::new(own));
    reader.read(Kind::ElasticQuota, "", quota, |key, _| Message::QuotaGone(key.clone()));
    let group = |own: PodGroup| Message::Group(Arc::new(own));
    reader.read(Kind::PodGroup, "", group, |key, _| Message::GroupGone(key.clone()));
}

fn nodes(reader: &mut impl Reader, sight: &Sight, complaints: Option<Arc<Complaints>>) {
    let fact = sight.node();
    let heard = complaints.clone();
    let message = move |node: Node| {
        if let Some(complaints) = &complaints {
            complaints.hear_node(&node);
        }
        Message::Fact(fact(&node))
    };
    let gone = move |key: &Key, _: &str| {
        if let Some(heard) = &heard {
            heard.forget_node(key.name());
        }
        Message::Fact(Fact::NodeGone(key.name().into()))
    };
    reader.read(Kind::Node, "", message, gone);
}

fn layouts(reader: &mut impl Reader, complaints: Option<Arc<Complaints>>) {
    let heard = complaints.clone();
    let last = RefCell::<LastLayout>::default();
    let message = move |wire: NodeResourceTopology| {
        let (name, mut last) = (wire.metadata.name.clone(), last.borrow_mut());
        let (layout, told) = last.read(wire);
        if let Some(complaints) = &complaints {
            complaints.hear_layout(&name, layout);
        }
        Message::Fact(Fact::Layout { node: name.into(), layout: Some(told.clone()) })
    };
    let gone = move |key: &Key, _: &str| {
        if let Some(heard) = &heard {
            heard.forget_layout(key.name());
        }
        Message::Fact(Fact::Layout { node: key.name().into(), layout: None })
    };
    reader.read(Kind::NodeResourceTopology, "", message, gone);
}

fn owners(reader: &mut impl Reader) {
    fact(
        reader,
        Kind::Service,
        |one: &Service| one.into(),
        |key| ownerless(OwnerKind::Service, key),
    );
    fact(
        reader,
        Kind::ReplicationController,
        |one: &ReplicationController| one.into(),
        |key| ownerless(OwnerKind::ReplicationController, key),
    );
    fact(
        reader,
        Kind::ReplicaSet,
        |one: &ReplicaSet| one.into(),
        |key| ownerless(OwnerKind::ReplicaSet, key),
    );
    fact(
        reader,
        Kind::StatefulSet,
        |one: &StatefulSet| one.into(),
        |key| ownerless(OwnerKind::StatefulSet, key),
    );
}

fn storage(reader: &mut impl Reader) {
    use StorageFact as S;
    stored(
        reader,
        Kind::PersistentVolume,
        |one: &PersistentVolume| one.into(),
        |key| S::Volume(name(key), None),
    );
    stored(
        reader,
        Kind::PersistentVolumeClaim,
        |one: &PersistentVolumeClaim| one.into(),
        |key| S::Claim(key.namespace().into(), name(key), None),
    );
    stored(
        reader,
        Kind::StorageClass,
        |one: &StorageClass| one.into(),
        |key| S::Class(name(key), None),
    );
    stored(reader, Kind::CsiNode, |one: &CsiNode| one.into(), |key| S::CsiNode(name(key), None));
    stored(
        reader,
        Kind::CsiDriver,
        |one: &CsiDriver| one.into(),
        |key| S::CsiDriver(name(key), None),
    );
    stored(
        reader,
        Kind::CsiStorageCapacity,
        |one: &CsiStorageCapacity| one.into(),
        |key| S::Capacity(key.namespace().into(), name(key), None),
    );
    stored(
        reader,
        Kind::VolumeAttachment,
        |one: &VolumeAttachment| one.into(),
        |key| S::Attachment(name(key), None),
    );
}

fn stored<T: Resource + Object>(
    reader: &mut impl Reader,
    kind: Kind,
    fact: fn(&T) -> StorageFact,
    gone: fn(&Key) -> StorageFact,
) {
    let message = move |object: T| Message::Fact(Fact::Storage(fact(&object)));
    reader.read(kind, "", message, move |key, _| Message::Fact(Fact::Storage(gone(key))));
}

fn fact<T: Resource + Object>(
    reader: &mut impl Reader,
    kind: Kind,
    fact: fn(&T) -> Fact,
    gone: fn(&Key) -> Fact,
) {
    let message = move |object: T| Message::Fact(fact(&object));
    reader.read(kind, "", message, move |key, _| Message::Fact(gone(key)));
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

pub(crate) fn reservation(own: Reservation) -> Message {
    let fact = ReservationFact::told(&own);
    Message::Reservation(Box::new(ReservationNews { fact, object: Arc::new(own) }))
}

fn budgetless(key: &Key) -> Fact {
    Fact::Budget { namespace: key.namespace().into(), name: name(key), budget: None }
}

fn loadless(key: &Key) -> Fact {
    Fact::Load { node: name(key), report: None }
}

fn ownerless(kind: OwnerKind, key: &Key) -> Fact {
    let owner = Owner { kind, name: name(key) };
    Fact::Owner { namespace: key.namespace().into(), owner, selector: None }
}

/// What is told of a pod, as far as the engine goes by it.
#[cfg(test)]
pub(crate) fn news(pod: Pod) -> Message {
    news_of(&pod, |fact| fact)
}

fn news_of(pod: &Pod, seen: impl FnOnce(PodFact) -> PodFact) -> Message {
    let fact = match Fact::from(pod) {
        Fact::Pod(fact) => seen(*fact),
        gone => return Message::Fact(gone),
    };
    let written = if fact.node.is_none() { written(pod) } else { Written::default() };
    Message::Pod(Box::new(PodNews { fact, written }))
}

fn written(pod: &Pod) -> Written {
    let scheduled = condition::find(&pod.status.conditions, POD_SCHEDULED);
    Written {
        version: pod.metadata.resource_version.as_str().into(),
        generation: pod.metadata.generation,
        scheduled: scheduled.map(Scheduled::from),
        nominated: pod.status.nominated_node_name.as_str().into(),
        forged: [RESOURCE_STATUS, ALLOCATED]
            .into_iter()
            .filter(|key| pod.metadata.annotations.contains_key(*key))
            .collect(),
    }
}
