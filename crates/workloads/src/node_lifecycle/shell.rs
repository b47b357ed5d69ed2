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
use super::zones::{Pace, Turn, Zones, zone_of};
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
    zones: Mutex<Zones>,
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
        zones: Mutex::default(),
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
        heard.zones().change(old, new);
        if new.is_none() {
            heard.step_out(change.key.name());
        }
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
        let mut trouble = Trouble::default();
        if let Some(taints) = wanted(&node, leave, now) {
            let meta = &node.meta;
            let patch = json!({
                "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
                "spec": { "taints": taints },
            });
            let access = self.client.access::<Value>(ResourceType::of::<Node>(), "");
            let answer = access.patch(key.name(), &Patch::Merge(patch)).await;
            trouble.keep(unless_gone(answer, format!("taint node {key}")));
        }
        let is_silent = ready(&node.conditions)
            .is_some_and(|ready| ready.status == "Unknown" && ready.reason == "NodeStatusUnknown");
        if is_silent {
            self.unready_pods(&key, now, &mut trouble).await;
        }
        looks.extend(self.evict(&node, now, &mut trouble).await);
        trouble.first.map_or(Ok(looks.into_iter().min().into()), Err)
    }
}

impl Shell {
    fn zones(&self) -> MutexGuard<'_, Zones> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reported(&self, node: &NodeFact) {
        let age = self.client.clock().now().duration_since(node.meta.created);
        self.beats(|beats, now| beats.reported(node, age, now));
    }

    /// When the last node is lost, or the first one is back, all of them are looked at.
    fn look_around(&self) {
        let Some(turn) = self.zones().turn() else { return };
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
        let (name, zone) = (node.meta.key.name(), zone_of(node));
        let (is_dark, health) = {
            let zones = self.zones();
            (zones.is_dark(), zones.health(&zone))
        };
        if is_dark || !needs_leave(node) {
            self.step_out(name);
            return if is_dark { Leave::Revoked } else { Leave::Withheld };
        }
        match self.pace().ask(name, &zone, health, self.client.clock().monotonic()) {
            Ok(()) => Leave::Given,
            Err(wait) => {
                looks.push(wait);
                Leave::Withheld
            }
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node waits for leave no longer; who was behind it is looked at.
    fn step_out(&self, node: &str) {
        if let Some(next) = self.pace().step_out(node) {
            self.mailbox.add(Key::cluster(&next));
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
    async fn unready_pods(&self, node: &Key, now: Timestamp, trouble: &mut Trouble) {
        for pod in self.pods_of(node.name()).iter().filter(|pod| pod.is_ready()) {
            let time = object::time::Time::from(now);
            let unready = json!({ "type": "Ready", "status": "False", "lastTransitionTime": time });
            let patched = self.patch_pod(pod, unready, "mark as not ready").await;
            if trouble.keep(patched).is_some() {
                let subject = Subject::of::<Pod>(pod.meta.identity());
                self.events.warning(&subject, "NodeNotReady", "Node is not ready".to_owned());
            }
        }
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
    async fn evict(
        &self,
        node: &NodeFact,
        now: Timestamp,
        trouble: &mut Trouble,
    ) -> Option<Duration> {
        let mut next: Option<Duration> = None;
        if !node.drives_pods_off() {
            return None;
        }
        for pod in self.pods_of(node.meta.key.name()) {
            let Fate::Goes(due) = fate(node, &pod, now) else { continue };
            if due > now {
                let wait = Duration::try_from(due.duration_since(now)).unwrap_or_default();
                next = Some(next.map_or(wait, |next| next.min(wait)));
                continue;
            }
            trouble.keep(self.evict_one(&pod, now).await);
        }
        next.map(|next| next + SLACK)
    }

    async fn evict_one(&self, pod: &PodFact, now: Timestamp) -> Result<(), Failure> {
        let told = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": object::time::Time::from(now),
        });
        self.patch_pod(pod, told, "tell of its deletion").await?;
        let key = &pod.meta.key;
        let who = Identity { resource_version: "", ..pod.meta.identity() };
        let message = format!("Marking for deletion Pod {key}");
        self.eviction_events.normal(&Subject::of::<Pod>(who), "TaintManagerEviction", message);
        let options = DeleteOptions::of(&pod.meta.uid);
        let access = self.client.access::<Value>(ResourceType::of::<Pod>(), key.namespace());
        let answer = access.delete(key.name(), &options).await;
        unless_gone(answer, format!("delete pod {key}")).map(|_| ())
    }
}

/// What failed first of several things that are all tried: one pod that cannot be written
/// keeps none of the others from it.
#[derive(Default)]
struct Trouble {
    first: Option<Failure>,
}

impl Trouble {
    /// What came out, unless it failed.
    fn keep<T>(&mut self, outcome: Result<T, Failure>) -> Option<T> {
        match outcome {
            Ok(done) => Some(done),
            Err(failure) => {
                self.first.get_or_insert(failure);
                None
            }
        }
    }
}
