//! Watches nodes and leases, and carries out what the cores decide.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::{Condition, Node, Pod};
use chassis::client::{Client, DeleteOptions, Identity, Patch, ResourceType};
use chassis::controller::{Mailbox, Reconciler, Requeue};
use chassis::events::{Recorder, Subject};
use chassis::informer::Change;
use chassis::key::Key;
use chassis::store::{IndexId, SharedStore};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::eviction::{Fate, fate};
use super::health::{Heartbeats, PULSE, ready, silenced};
use super::taints::{Leave, needs_leave, wanted};
use super::zones::{Darkness, Pace, Turn, survey, zone_of};
use crate::facts::{NodeFact, PodFact};
use crate::failure::{Failure, unless_gone};
use crate::server;
use crate::start::Start;

/// How many nodes are looked at side by side.
const WORKERS: usize = 4;
/// The namespace of the leases that nodes renew.
const LEASES: &str = "kube-node-lease";
/// A look is taken this long after a time has come, since times in objects are whole
/// seconds.
const SLACK: Duration = Duration::from_millis(100);

/// How long a node may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Graces {
    /// One that has reported before.
    pub monitor: Duration,
    /// One that is new.
    pub startup: Duration,
}

struct Shell {
    client: Client,
    nodes: SharedStore<NodeFact>,
    pods: SharedStore<PodFact>,
    pods_by_node: IndexId,
    beats: Mutex<Heartbeats>,
    pace: Mutex<Pace>,
    darkness: Mutex<Darkness>,
    mailbox: Arc<Mailbox>,
    graces: Graces,
    events: Recorder,
    eviction_events: Recorder,
}

/// Subscribes the controller and starts its loop.
pub fn start(start: &mut Start<'_>, graces: Graces) {
    let events = start.recorder("node-controller");
    let eviction_events = start.recorder("taint-eviction-controller");
    let mailbox = start.mailbox("node-lifecycle");
    let informers = &mut *start.informers;
    let mut synced = Vec::new();
    let _leases = informers.leases.store(&mut synced);
    let shell = Arc::new(Shell {
        client: start.client.clone(),
        nodes: informers.nodes.store(&mut synced),
        pods: informers.pods.store(&mut synced),
        pods_by_node: informers.pods_by_node,
        beats: Mutex::new(Heartbeats::new(start.client.clock().monotonic())),
        pace: Mutex::default(),
        darkness: Mutex::default(),
        mailbox: mailbox.clone(),
        graces,
        events,
        eviction_events,
    });
    let (inbox, heard) = (mailbox.clone(), shell.clone());
    informers.nodes.subscribe(move |change| {
        match change.new {
            Some(node) => heard.reported(node),
            None => heard.beats(|beats, _| beats.forget(change.key.name())),
        }
        let (old, new) = (change.old.map(|old| &**old), change.new.map(|new| &**new));
        heard.darkness().change(old, new);
        heard.tell(change);
        inbox.add(change.key.clone());
    });
    // A renewal is only noted: thousands come every second, and none of them asks for more.
    let heard = shell.clone();
    informers.leases.subscribe(move |change| {
        if change.key.namespace() == LEASES
            && let Some(renewed) = change.new.and_then(|lease| lease.renewed)
        {
            heard.beats(|beats, now| beats.renewed(change.key.name(), renewed, now));
        }
    });
    let (inbox, nodes) = (mailbox.clone(), shell.nodes.clone());
    informers.pods.subscribe(move |change| {
        let Some(pod) = change.new.filter(|pod| !pod.node.is_empty()) else { return };
        let arrived =
            change.old.is_none_or(|old| old.node != pod.node || old.tolerations != pod.tolerations);
        let node = Key::cluster(&pod.node);
        if arrived && nodes.get(&node).is_some_and(|node| node.drives_pods_off()) {
            inbox.add(node);
        }
    });
    start.tasks.spawn(pulse(shell.clone(), start.stop.clone()));
    start.run(mailbox, synced, WORKERS, shell);
}

/// Shows the heartbeats that the controller runs, so that its own pauses are not held
/// against the nodes.
async fn pulse(shell: Arc<Shell>, stop: CancellationToken) {
    let clock = shell.client.clock();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.sleep(PULSE) => shell.beats(Heartbeats::pulse),
        }
    }
}

impl Reconciler for Shell {
    type Failure = Failure;

    async fn reconcile(&self, key: Key) -> Result<Requeue, Failure> {
        self.look_around();
        let Some(node) = self.nodes.get(&key) else { return Ok(Requeue::OnChange) };
        let grace = match ready(&node.conditions) {
            Some(_) => self.graces.monitor,
            None => self.graces.startup,
        };
        let left = self.beats(|beats, now| beats.left(key.name(), grace, now));
        let now = self.client.clock().now();
        if left.is_none()
            && let Some(conditions) = silenced(&node, now)
        {
            self.silence(&node, conditions).await?;
            return Ok(Requeue::OnChange);
        }
        // A node that is silent already is looked at when it speaks again.
        let mut looks: Vec<Duration> = left.into_iter().map(|left| left + SLACK).collect();
        let leave = self.ask_leave(&node, &mut looks);
        if let Some(taints) = wanted(&node, leave, now) {
            let meta = &node.meta;
            let patch = json!({
                "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
                "spec": { "taints": taints },
            });
            let access = self.client.access::<Value>(ResourceType::of::<Node>(), "");
            let answer = access.patch(key.name(), &Patch::Merge(patch)).await;
            unless_gone(answer, format!("taint node {key}"))?;
        }
        let is_silent = ready(&node.conditions)
            .is_some_and(|ready| ready.status == "Unknown" && ready.reason == "NodeStatusUnknown");
        if is_silent {
            self.unready_pods(&key, now).await?;
        }
        looks.extend(self.evict(&node, now).await?);
        Ok(looks.into_iter().min().into())
    }
}

impl Shell {
    fn darkness(&self) -> MutexGuard<'_, Darkness> {
        self.darkness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reported(&self, node: &NodeFact) {
        let age = self.client.clock().now().duration_since(node.meta.created);
        self.beats(|beats, now| beats.reported(node, age, now));
    }

    /// When the last node is lost, or the first one is back, all of them are looked at.
    fn look_around(&self) {
        let Some(turn) = self.darkness().turn() else { return };
        match turn {
            Turn::Fell => tracing::warn!("no node is ready: pods stay where they are"),
            Turn::Lifted => {
                tracing::info!("a node is ready again");
                self.beats(Heartbeats::forgive);
            }
        }
        let keys: Vec<Key> = self.nodes.read().iter().map(|(key, _)| key.clone()).collect();
        keys.into_iter().for_each(|key| self.mailbox.add(key));
    }

    fn beats<R>(&self, use_them: impl FnOnce(&mut Heartbeats, Duration) -> R) -> R {
        let now = self.client.clock().monotonic();
        use_them(&mut self.beats.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    fn ask_leave(&self, node: &NodeFact, looks: &mut Vec<Duration>) -> Leave {
        if self.darkness().is_dark() {
            return Leave::Revoked;
        }
        if !needs_leave(node) {
            return Leave::Withheld;
        }
        let zones = {
            let nodes = self.nodes.read();
            survey(nodes.iter().map(|(_, node)| &**node))
        };
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        match pace.ask(&zone_of(node), &zones, self.client.clock().monotonic()) {
            Ok(()) => Leave::Given,
            Err(wait) => {
                looks.push(wait);
                Leave::Withheld
            }
        }
    }

    async fn silence(&self, node: &NodeFact, conditions: Vec<Condition>) -> Result<(), Failure> {
        let patch = json!({ "status": { "conditions": conditions } });
        server::report::<Node>(&self.client, node.meta.identity(), patch).await.map(|_| ())
    }

    /// Tells users that a node came, went, or is no longer ready.
    fn tell(&self, change: &Change<'_, NodeFact>) {
        let name = change.key.name();
        let is_ready =
            |node: &Arc<NodeFact>| ready(&node.conditions).is_some_and(Condition::is_true);
        let (reason, message) = match (change.old, change.new) {
            (None, Some(_)) => (
                "RegisteredNode",
                format!("Node {name} event: Registered Node {name} in Controller"),
            ),
            (Some(_), None) => {
                ("RemovingNode", format!("Node {name} event: Removing Node {name} from Controller"))
            }
            (Some(old), Some(new)) if is_ready(old) && !is_ready(new) => {
                ("NodeNotReady", format!("Node {name} status is now: NodeNotReady"))
            }
            _ => return,
        };
        let Some(node) = change.states().last() else { return };
        // The reference of a node has no version: all its events are told of the same thing.
        let who = Identity { resource_version: "", ..node.meta.identity() };
        self.events.normal(&Subject::of::<Node>(who), reason, message);
    }

    fn pods_of(&self, node: &str) -> Vec<Arc<PodFact>> {
        let pods = self.pods.read();
        pods.find(self.pods_by_node, node).map(|(_, pod)| pod.clone()).collect()
    }

    /// Pods of a silent node cannot be counted on: they are no longer ready.
    async fn unready_pods(&self, node: &Key, now: Timestamp) -> Result<(), Failure> {
        for pod in self.pods_of(node.name()).iter().filter(|pod| pod.is_ready()) {
            let time = object::time::Time::from(now);
            let unready = json!({ "type": "Ready", "status": "False", "lastTransitionTime": time });
            self.patch_pod(pod, unready, "mark as not ready").await?;
            let subject = Subject::of::<Pod>(pod.meta.identity());
            self.events.warning(&subject, "NodeNotReady", "Node is not ready".to_owned());
        }
        Ok(())
    }

    async fn patch_pod(&self, pod: &PodFact, condition: Value, doing: &str) -> Result<(), Failure> {
        let key = &pod.meta.key;
        let patch = json!({ "metadata": { "uid": pod.meta.uid },
                            "status": { "conditions": [condition] } });
        let access = self.client.access::<Value>(ResourceType::of::<Pod>(), key.namespace());
        let answer = access.patch_sub(key.name(), "status", &Patch::Strategic(patch)).await;
        unless_gone(answer, format!("{doing}: pod {key}")).map(|_| ())
    }

    /// Deletes the pods whose time on the node is over, and says when the next one's is.
    async fn evict(&self, node: &NodeFact, now: Timestamp) -> Result<Option<Duration>, Failure> {
        let mut next: Option<Duration> = None;
        if !node.drives_pods_off() {
            return Ok(None);
        }
        for pod in self.pods_of(node.meta.key.name()) {
            let Fate::Goes(due) = fate(node, &pod, now) else { continue };
            if due > now {
                let wait = Duration::try_from(due.duration_since(now)).unwrap_or_default();
                next = Some(next.map_or(wait, |next| next.min(wait)));
                continue;
            }
            let told = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
                "message": "Taint manager: deleting due to NoExecute taint",
                "lastTransitionTime": object::time::Time::from(now),
            });
            self.patch_pod(&pod, told, "tell of its deletion").await?;
            let key = &pod.meta.key;
            let who = Identity { resource_version: "", ..pod.meta.identity() };
            let message = format!("Marking for deletion Pod {key}");
            let events = self.events.of("taint-eviction-controller");
            events.normal(&Subject::of::<Pod>(who), "TaintManagerEviction", message);
            let options = DeleteOptions::of(&pod.meta.uid);
            let access = self.client.access::<Value>(ResourceType::of::<Pod>(), key.namespace());
            unless_gone(access.delete(key.name(), &options).await, format!("delete pod {key}"))?;
        }
        Ok(next.map(|next| next + SLACK))
    }
}
