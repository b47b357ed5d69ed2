//! The watches of metadata: one for each resource that no other controller watches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::{ObjectMeta, OwnerReference};
use chassis::client::{Client, ResourceType};
use chassis::clock::Clock;
use chassis::controller::{Mailbox, go_on_panicking};
use chassis::informer::Change;
use chassis::key::Key;
use chassis::metrics::Metrics;
use chassis::reflector::{Delta, Reflector};
use futures::future::join_all;
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::graph::{Entry, FOREGROUND, Graph, ORPHAN, ResourceId, Stage, Uid};
use crate::discovery::{Resources, Served};
use crate::facts::{Meta, Owned, owned};

/// How often discovery is looked at though no CRD changed: aggregated APIs come and go
/// without one.
const LOOK_AT_LEAST: Duration = Duration::from_mins(5);
/// How long after a change of a CRD the server serves it; looked at after each.
const LOOKS_AFTER_CHANGE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// How long until discovery that failed is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// How long the first lists may take before objects are collected without them.
const LISTS_TAKE_MAX: Duration = Duration::from_secs(30);

/// The resources that no object is collected of.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// An object of any kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Wire")]
pub struct AnyObject {
    meta: Meta,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Wire {
    metadata: Slim,
}

/// Metadata without what this controller never reads: labels and annotations.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Slim {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<object::time::Time>,
}

impl From<Wire> for AnyObject {
    fn from(wire: Wire) -> Self {
        let slim = wire.metadata;
        let meta = ObjectMeta {
            name: slim.name,
            namespace: slim.namespace,
            uid: slim.uid,
            resource_version: slim.resource_version,
            owner_references: slim.owner_references.unwrap_or_default(),
            finalizers: slim.finalizers.unwrap_or_default(),
            deletion_timestamp: slim.deletion_timestamp,
            ..ObjectMeta::default()
        };
        Self { meta: meta.into() }
    }
}

owned!(AnyObject);

/// What the collector knows, and where it hears that it should look.
pub struct Ground {
    graph: Mutex<Graph>,
    resources: Mutex<Known>,
    mailbox: Arc<Mailbox>,
    crds_changed: Notify,
}

/// The resources that are watched, and those that discovery showed.
#[derive(Default)]
struct Known {
    ids: Vec<ResourceType>,
    served: Resources,
    watched: BTreeMap<ResourceType, Watch>,
    shared: Vec<FirstList>,
}

/// A resource, and what is cancelled when its first list is in.
type FirstList = (ResourceType, CancellationToken);

struct Watch {
    stop: CancellationToken,
    synced: CancellationToken,
}

impl Ground {
    /// Nothing is known yet.
    pub fn new(mailbox: &Arc<Mailbox>) -> Arc<Self> {
        Arc::new(Self {
            graph: Mutex::default(),
            resources: Mutex::default(),
            mailbox: mailbox.clone(),
            crds_changed: Notify::new(),
        })
    }

    /// Looks at the graph, or changes it.
    pub fn with<R>(&self, use_it: impl FnOnce(&mut Graph) -> R) -> R {
        use_it(&mut self.graph.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn known<R>(&self, use_it: impl FnOnce(&mut Known) -> R) -> R {
        use_it(&mut self.resources.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks for a look at objects.
    pub fn look_at(&self, uids: Vec<Uid>) {
        uids.into_iter().for_each(|uid| self.mailbox.add(Key::cluster(&uid)));
    }

    /// The number of a resource.
    pub fn id_of(&self, resource: &ResourceType) -> ResourceId {
        self.known(|known| {
            let found = known.ids.iter().position(|own| own == resource);
            let id = found.unwrap_or_else(|| {
                known.ids.push(resource.clone());
                known.ids.len() - 1
            });
            ResourceId::try_from(id).unwrap_or(ResourceId::MAX)
        })
    }

    /// The resource of a number.
    pub fn resource(&self, id: ResourceId) -> Option<ResourceType> {
        self.known(|known| known.ids.get(usize::try_from(id).ok()?).cloned())
    }

    /// The resource of a kind.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<Served> {
        self.known(|known| known.served.of_kind(api_version, kind).cloned())
    }

    /// A resource whose informer tells of its objects: it needs no watch of its own.
    /// `synced` is cancelled when its first list is in.
    pub fn share(&self, resource: ResourceType, synced: CancellationToken) -> ResourceId {
        let id = self.id_of(&resource);
        self.known(|known| known.shared.push((resource, synced)));
        id
    }

    fn first_lists(&self) -> Vec<FirstList> {
        self.known(|known| {
            let own = known.watched.iter();
            let own = own.map(|(resource, watch)| (resource.clone(), watch.synced.clone()));
            known.shared.iter().cloned().chain(own).collect()
        })
    }

    /// Takes in a change that a shared informer tells.
    pub fn take<T: Owned>(&self, resource: ResourceId, change: &Change<'_, T>) {
        let looks = match (change.old, change.new) {
            (Some(old), None) => self.with(|graph| graph.forget(old.identity().uid)),
            (old, Some(new)) => {
                let uid = new.identity().uid;
                let replaced = old.map(|old| old.identity().uid).filter(|old| *old != uid);
                self.with(|graph| {
                    let mut looks = replaced.map(|old| graph.forget(old)).unwrap_or_default();
                    looks.extend(graph.observe(uid, entry_of(resource, &**new)));
                    looks
                })
            }
            // One that could never be read is known only as the owner of others.
            (None, None) => self.with(|graph| graph.forget(change.uid)),
        };
        self.look_at(looks);
    }

    fn take_delta(&self, resource: ResourceId, delta: Delta<AnyObject>) {
        let looks = match delta {
            Delta::Upserted(object) => {
                let entry = entry_of(resource, &object);
                self.with(|graph| graph.observe(&object.meta.uid, entry))
            }
            Delta::Deleted { uid, .. } => self.with(|graph| graph.forget(&uid)),
            // Metadata that cannot be read is no reason to call an object gone.
            Delta::Malformed { .. } | Delta::Synced => return,
        };
        self.look_at(looks);
    }
}

fn entry_of<T: Owned>(resource: ResourceId, object: &T) -> Entry {
    let stage = Stage::of(
        object.is_going(),
        object.has_finalizer(FOREGROUND),
        object.has_finalizer(ORPHAN),
    );
    let owners = object.owners().into();
    Entry { resource, key: object.identity().key(), owners, stage }
}

/// Lets the collector begin: when these first lists are in, or after [`LISTS_TAKE_MAX`]. A
/// resource that cannot be listed must not keep all others from being collected; an owner
/// that no list told of is asked for by name.
async fn begin(clock: &Clock, lists: Vec<FirstList>, ready: &CancellationToken) {
    let all = join_all(lists.iter().map(|(_, synced)| synced.cancelled()));
    if clock.timeout(LISTS_TAKE_MAX, all).await.is_none() {
        for (resource, _) in lists.iter().filter(|(_, synced)| !synced.is_cancelled()) {
            tracing::warn!(%resource, "not listed yet: garbage is collected without it");
        }
    }
    ready.cancel();
}

/// Keeps one watch for each resource that discovery shows, as long as it shows it. `ready`
/// is cancelled when the first lists of all are in, or have been waited for long enough.
pub async fn keep(
    ground: Arc<Ground>,
    client: Client,
    how: (u64, Metrics),
    ready: CancellationToken,
    stop: CancellationToken,
) {
    let mut tasks = JoinSet::new();
    let mut looks: Vec<Duration> = Vec::new();
    let mut is_known = false;
    loop {
        let wait = match Resources::discover(&client).await {
            Ok(resources) => {
                adjust(&ground, &client, &how, resources, &mut tasks, &stop);
                looks.pop().unwrap_or(LOOK_AT_LEAST)
            }
            Err(error) => {
                tracing::warn!(%error, "cannot find out which resources there are");
                TRY_AGAIN
            }
        };
        if !is_known && ground.known(|known| !known.served.served.is_empty()) {
            is_known = true;
            let lists = ground.first_lists();
            let (clock, ready, stop) = (client.clock().clone(), ready.clone(), stop.clone());
            tasks.spawn(async move {
                tokio::select! {
                    () = begin(&clock, lists, &ready) => {}
                    () = stop.cancelled() => {}
                }
            });
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = ground.crds_changed.notified() => {
                looks = LOOKS_AFTER_CHANGE.into_iter().rev().collect();
                let wait = looks.pop().unwrap_or_default();
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = client.clock().sleep(wait) => {}
                }
            }
            () = client.clock().sleep(wait) => {}
        }
        while let Some(ended) = tasks.try_join_next() {
            if let Err(error) = ended {
                go_on_panicking(error);
            }
        }
    }
    while tasks.join_next().await.is_some() {}
}

/// Starts watches for what is new, and ends those of what is gone.
fn adjust(
    ground: &Arc<Ground>,
    client: &Client,
    (seed, metrics): &(u64, Metrics),
    resources: Resources,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
) {
    let is_wanted = |served: &&Served| {
        let name = (served.resource.group.as_str(), served.resource.plural.as_str());
        served.can(&["delete", "list", "watch"]) && !IGNORED.contains(&name)
    };
    let wanted: Vec<ResourceType> =
        resources.served.iter().filter(is_wanted).map(|served| served.resource.clone()).collect();
    let kinds = resources.served.iter().filter(|served| served.resource.namespaced);
    let kinds = kinds.map(|served| (served.resource.group.clone(), served.kind.clone())).collect();
    ground.with(|graph| graph.learn_namespaced(kinds));
    let complete = resources.unknown.is_empty();
    let (mut start, mut end) = (Vec::new(), Vec::new());
    ground.known(|known| {
        known.served = resources;
        for resource in &wanted {
            let is_shared = known.shared.iter().any(|(shared, _)| shared == resource);
            if !known.watched.contains_key(resource) && !is_shared {
                let watch = Watch { stop: stop.child_token(), synced: CancellationToken::new() };
                start.push((resource.clone(), watch.stop.clone(), watch.synced.clone()));
                known.watched.insert(resource.clone(), watch);
            }
        }
        // While part of the server does not answer, what is missing may be there.
        if complete {
            known.watched.retain(|resource, watch| {
                let stays = wanted.contains(resource);
                if !stays {
                    watch.stop.cancel();
                    end.push(resource.clone());
                }
                stays
            });
        }
    });
    for resource in end {
        let id = ground.id_of(&resource);
        ground.with(|graph| graph.drop_resource(id));
    }
    for (resource, stop, synced) in start {
        let id = ground.id_of(&resource);
        let is_crds = resource.plural == "customresourcedefinitions";
        let access = client.access::<AnyObject>(resource, "").metadata_only();
        let ground = ground.clone();
        let take = move |delta: Delta<AnyObject>| {
            if matches!(delta, Delta::Synced) {
                synced.cancel();
            } else if is_crds {
                ground.crds_changed.notify_one();
            }
            ground.take_delta(id, delta);
        };
        let reflector = Reflector::new(access).seed(*seed).metrics(metrics);
        tasks.spawn(reflector.run_with(take, stop));
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[tokio::test]
    async fn what_cannot_be_listed_holds_the_collector_up_for_a_while_only() {
        let check = async |is_listed: [bool; 2], waits: Duration| {
            let (clock, hand) = Clock::manual(Timestamp::UNIX_EPOCH);
            let lists = ["pods", "widgets"].map(|plural| {
                (ResourceType::namespaced("", "v1", plural), CancellationToken::new())
            });
            for ((_, synced), _) in lists.iter().zip(is_listed).filter(|(_, listed)| *listed) {
                synced.cancel();
            }
            let ready = CancellationToken::new();
            let begun = ready.clone();
            let task = tokio::spawn(async move { begin(&clock, lists.into(), &begun).await });
            let mut waited = Duration::ZERO;
            while !ready.is_cancelled() && waited < LISTS_TAKE_MAX * 2 {
                tokio::task::yield_now().await;
                if let Some(due) = hand.next_due() {
                    waited += due;
                    hand.advance(due);
                }
            }
            task.await.unwrap();
            assert_eq!(waited, waits, "{is_listed:?}");
        };
        check([true, true], Duration::ZERO).await;
        check([true, false], LISTS_TAKE_MAX).await;
        check([false, false], LISTS_TAKE_MAX).await;
    }
}
