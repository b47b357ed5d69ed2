//! A server with nodes, pods and schedulers on it and nothing else, and one who watches every pod.
//!
//! Whatever a story does, no pod may ever change its node: that is looked at when it ends.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use api::{Event, Pod, condition};
use chassis::client::{Call, Client, DeleteOptions, Options, Patch, ResourceType, Source};
use chassis::reflector::{Delta, Reflector};
use futures::future::join_all;
use http::Method;
use scenarios::backend::{BACKENDS, Backend, Lease, Scope};
use scenarios::running::{Running, identity};
use scenarios::system::{PATIENCE, mark};
use scheduler::State;
use scheduler::config::{self, Configuration};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::way::Way;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How long a server may take to serve a kind.
const SERVED_WITHIN: Duration = Duration::from_secs(40);
/// How often an object is looked at of which there is no watch.
const OBJECT_POLL: Duration = Duration::from_millis(20);

/// What was seen of pods and events so far.
#[derive(Debug, Default)]
pub struct Seen {
    /// Pods that are there, by name.
    pub pods: BTreeMap<String, Pod>,
    /// The nodes of each pod, by uid, in the order in which it had them.
    homes: BTreeMap<String, Vec<String>>,
    /// How many pods ever had a node.
    pub bound: usize,
    /// Events, by name.
    pub events: BTreeMap<String, Event>,
}

impl Seen {
    fn take(&mut self, delta: Delta<Pod>) {
        match delta {
            Delta::Upserted(pod) => {
                let homes = self.homes.entry(pod.metadata.uid.clone()).or_default();
                let node = &pod.spec.node_name;
                if !node.is_empty() && homes.last() != Some(node) {
                    self.bound += usize::from(homes.is_empty());
                    homes.push(node.clone());
                }
                self.pods.insert(pod.metadata.name.clone(), pod);
            }
            Delta::Deleted { key, .. } => drop(self.pods.remove(key.name())),
            Delta::Malformed { .. } | Delta::Synced => {}
        }
    }

    /// The node of a pod; empty where it has none.
    pub fn node(&self, pod: &str) -> &str {
        self.pods.get(pod).map_or("", |pod| &pod.spec.node_name)
    }

    /// Why a pod has no node, as it is told in its condition.
    pub fn condition(&self, pod: &str) -> Option<(&str, &str)> {
        let pod = self.pods.get(pod)?;
        let told = condition::find(&pod.status.conditions, "PodScheduled")?;
        (told.status == "False").then_some((told.reason.as_str(), told.message.as_str()))
    }

    /// What events of a reason say of a pod.
    pub fn told(&self, pod: &str, reason: &str) -> Vec<&str> {
        let events = self.events.values();
        let own = events.filter(|one| *one.reason == *reason && *one.regarding.name == *pod);
        own.map(|event| &*event.note).collect()
    }

    /// How things stand, for somebody who waits in vain.
    fn shown(&self) -> String {
        let pods = self.pods.iter().filter(|(_, pod)| pod.spec.node_name.is_empty()).take(5);
        let left: Vec<String> =
            pods.map(|(name, _)| format!("{name} {:?}", self.condition(name))).collect();
        format!("{} pods, {} bound; without a node {left:?}", self.pods.len(), self.bound)
    }
}

/// A server that a story has for itself.
pub struct Yard {
    lease: Lease,
    /// A client of the server that nothing happens to.
    pub client: Client,
    /// Where the pods of the story are.
    pub namespace: String,
    seen: Arc<watch::Sender<Seen>>,
    _stop: DropGuard,
}

impl Yard {
    /// A server of this sort for the story `name`.
    pub async fn open(name: &str, backend: Backend, scope: Scope) -> Result<Self> {
        static OPENED: AtomicU32 = AtomicU32::new(0);
        let lease = Lease::take(backend, scope, name).await?;
        let source = Source::from_flags(Some(lease.kubeconfig.clone()), None);
        let client = Client::connect(&source, &Options::new("yard")).await?;
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("{name}-{}-{number}", mark());
        let stop = CancellationToken::new();
        let seen = Arc::new(watch::Sender::new(Seen::default()));
        let yard = Self { lease, client, namespace, seen, _stop: stop.clone().drop_guard() };
        let own = json!({ "metadata": { "name": yard.namespace } });
        yard.create("/api/v1/namespaces", &own).await?;
        let account = json!({ "metadata": { "name": "default" } });
        yard.create(&yard.path("serviceaccounts"), &account).await?;
        yard.watch::<Pod>(&stop, Seen::take);
        yard.watch::<Event>(&stop, |seen, delta| {
            if let Delta::Upserted(event) = delta {
                seen.events.insert(event.metadata.name.clone(), event);
            }
        });
        Ok(yard)
    }

    fn watch<T: api::Resource + chassis::client::Object>(
        &self,
        stop: &CancellationToken,
        take: fn(&mut Seen, Delta<T>),
    ) {
        let access = self.client.access::<T>(ResourceType::of::<T>(), &self.namespace);
        let (seen, stop) = (self.seen.clone(), stop.clone());
        let take = move |delta| seen.send_modify(|seen| take(seen, delta));
        tokio::spawn(Reflector::new(access).run_with(take, stop));
    }

    /// The kubeconfig, for programs that need a file.
    pub fn kubeconfig(&self) -> &Path {
        &self.lease.kubeconfig
    }

    /// Kills the server and starts it again with what it had stored.
    pub async fn restart_server(&mut self) -> Result<()> {
        self.lease.restart().await
    }

    fn path(&self, plural: &str) -> String {
        format!("/api/v1/namespaces/{}/{plural}", self.namespace)
    }

    /// Makes an object.
    pub async fn create(&self, path: &str, object: &Value) -> Result<()> {
        let call = Call::new(Method::POST, path).json(object)?;
        self.client.call_unread(call).await.with_context(|| format!("{path}: {object}"))
    }

    /// Makes a node with so many CPUs, which takes pods at once.
    pub async fn node(&self, name: &str, cpu: u32) -> Result<()> {
        self.node_like(name, cpu, json!({})).await
    }

    /// The same with more fields.
    pub async fn node_like(&self, name: &str, cpu: u32, more: Value) -> Result<()> {
        let amounts = json!({ "cpu": cpu.to_string(), "memory": "64Gi", "pods": "400" });
        let mut node = json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
            "status": { "capacity": amounts, "allocatable": amounts,
                        "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        merge(&mut node, &more);
        self.create("/api/v1/nodes", &node).await?;
        // A new node is taken for not ready until a controller sees that it is.
        let taints = node["spec"]["taints"].clone();
        self.patch_node(name, json!({ "spec": { "taints": taints } })).await
    }

    /// Has the server know one of our own kinds, and waits until it serves it at this path.
    pub async fn define(&self, kind: &str, path: &str) -> Result<()> {
        let own = api::crds::all().find(|crd| crd.name == kind).context("it is ours")?;
        let call = Call::new(Method::POST, DEFINITIONS).body("application/yaml", own.yaml);
        match self.client.call_unread(call).await {
            // A server that stories share has it already.
            Err(error) if error.is_already_exists() => {}
            made => made?,
        }
        let begun = Instant::now();
        while let Err(error) = self.client.call_unread(Call::new(Method::GET, path)).await {
            ensure!(begun.elapsed() < SERVED_WITHIN, "the kind is not served: {error}");
            tokio::time::sleep(OBJECT_POLL).await;
        }
        Ok(())
    }

    /// Makes a node while a scheduler is at work, and waits until that has seen it: a pod that asks
    /// for nothing gets it. What happened to nodes before is seen by then, too.
    pub async fn node_seen(&self, name: &str, cpu: u32, more: Value) -> Result<()> {
        let none = Vec::new();
        let taints = more["spec"]["taints"].as_array().unwrap_or(&none);
        let tolerate = |taint: &Value| json!({ "key": taint["key"], "operator": "Exists" });
        let scout = json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": name },
            "tolerations": taints.iter().map(tolerate).collect::<Vec<_>>() } });
        self.node_like(name, cpu, more).await?;
        let own_name = format!("scout-{name}");
        self.pod_like(&own_name, "0", scout).await?;
        self.until_on(&own_name, name).await
    }

    /// Changes a node.
    pub async fn patch_node(&self, name: &str, patch: Value) -> Result<()> {
        let nodes = self.client.all::<api::Node>();
        nodes.patch(name, &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Deletes a node.
    pub async fn delete_node(&self, name: &str) -> Result<()> {
        Ok(self.client.all::<api::Node>().delete(name, &DeleteOptions::default()).await?)
    }

    /// Makes a pod that asks for so much CPU.
    pub async fn pod(&self, name: &str, cpu: &str) -> Result<()> {
        self.pod_like(name, cpu, json!({})).await
    }

    /// The same with more fields.
    pub async fn pod_like(&self, name: &str, cpu: &str, more: Value) -> Result<()> {
        let requests = json!({ "cpu": cpu });
        let container = json!({ "name": "main", "image": "registry.example/web:1",
            "resources": { "requests": requests } });
        let mut pod = json!({
            "metadata": { "name": name, "labels": { "app": name } },
            "spec": { "terminationGracePeriodSeconds": 0, "containers": [container] },
        });
        merge(&mut pod, &more);
        self.create(&self.path("pods"), &pod).await
    }

    /// Deletes a pod.
    pub async fn delete_pod(&self, name: &str) -> Result<()> {
        let pods = self.client.within::<Pod>(&self.namespace);
        Ok(pods.delete(name, &DeleteOptions::default()).await?)
    }

    /// Changes a pod.
    pub async fn patch_pod(&self, name: &str, patch: Value) -> Result<()> {
        let pods = self.client.within::<Pod>(&self.namespace);
        pods.patch(name, &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Changes the status of the object at this path.
    pub async fn patch_status(&self, path: &str, patch: Value) -> Result<()> {
        self.patch(&format!("{path}/status"), patch).await
    }

    /// Changes the object at this path.
    pub async fn patch(&self, path: &str, patch: Value) -> Result<()> {
        let call = Call::new(Method::PATCH, path).json(&patch)?;
        let call = call.content_type("application/merge-patch+json");
        self.client.call_unread(call).await.with_context(|| format!("{path}: {patch}"))
    }

    /// Binds a pod, as another scheduler would.
    pub async fn bind(&self, pod: &str, node: &str) -> Result<()> {
        let pods = self.client.within::<Pod>(&self.namespace);
        let binding = chassis::client::Binding { pod, node, ..Default::default() };
        Ok(pods.bind(&binding).await?)
    }

    /// Waits until what was seen is so.
    pub async fn until(&self, what: &str, is_so: impl FnMut(&Seen) -> bool) -> Result<()> {
        self.until_within(PATIENCE, what, is_so).await
    }

    /// The same with a bound of one's own.
    pub async fn until_within(
        &self,
        bound: Duration,
        what: &str,
        is_so: impl FnMut(&Seen) -> bool,
    ) -> Result<()> {
        let mut seen = self.seen.subscribe();
        if tokio::time::timeout(bound, seen.wait_for(is_so)).await.is_err() {
            bail!("{what}: not within {bound:?}; {}", self.seen.borrow().shown());
        }
        Ok(())
    }

    /// Waits until there is something to be found in what is at this path, of which the yard has no
    /// watch, and gives it.
    pub async fn until_object<T>(
        &self,
        path: &str,
        find: impl Fn(&Value) -> Option<T>,
    ) -> Result<T> {
        let begun = Instant::now();
        loop {
            let object: Value = self.client.call(Call::new(Method::GET, path)).await?;
            if let Some(found) = find(&object) {
                return Ok(found);
            }
            ensure!(begun.elapsed() < PATIENCE, "{path}: not within {PATIENCE:?}; {object}");
            tokio::time::sleep(OBJECT_POLL).await;
        }
    }

    /// Waits until a pod has this node.
    pub async fn until_on(&self, pod: &str, node: &str) -> Result<()> {
        self.until(&format!("{pod} on {node}"), |seen| seen.node(pod) == node).await
    }

    /// Waits until there is something to be found in what was seen, and gives it.
    async fn until_found<T>(
        &self,
        what: &str,
        mut find: impl FnMut(&Seen) -> Option<T>,
    ) -> Result<T> {
        let mut found = None;
        self.until(what, |seen| {
            found = find(seen);
            found.is_some()
        })
        .await?;
        found.with_context(|| what.to_owned())
    }

    /// Waits until a pod has a node, and says which.
    pub async fn until_bound(&self, pod: &str) -> Result<String> {
        let node = |seen: &Seen| Some(seen.node(pod).to_owned()).filter(|node| !node.is_empty());
        self.until_found(&format!("{pod} bound"), node).await
    }

    /// Waits until a pod is told for this reason why it waits, and says in which words.
    pub async fn until_waits(&self, pod: &str, reason: &str) -> Result<String> {
        let words = |seen: &Seen| {
            let told = seen.condition(pod).filter(|(own, _)| *own == reason);
            told.map(|(_, words)| words.to_owned())
        };
        self.until_found(&format!("{pod} waits"), words).await
    }

    /// Waits until an event of this reason tells of a pod, and says in which words.
    pub async fn until_told(&self, pod: &str, reason: &str) -> Result<String> {
        let words = |seen: &Seen| seen.told(pod, reason).first().map(|words| (*words).to_owned());
        self.until_found(&format!("{pod} {reason}"), words).await
    }

    /// Looks at what was seen.
    pub fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.borrow())
    }

    /// Starts a scheduler and waits until it decides.
    pub async fn schedule(&self, configuration: Configuration) -> Result<Running> {
        let mut running = Running::start(configuration, self.kubeconfig()).await?;
        running.until(State::Deciding).await?;
        Ok(running)
    }

    /// Starts a scheduler that may have to wait for its turn.
    pub fn schedule_through(&self, way: &Way, configuration: Configuration) -> Running {
        let clients = way.clients(&configuration.client_connection);
        Running::through(clients, scheduler::Options::new(configuration, &identity()))
    }

    /// Ends the story. No pod may have had two nodes.
    pub async fn close(self) -> Result<()> {
        let moved = self.seen(|seen| {
            let mut homes = seen.homes.iter();
            homes.find(|(_, homes)| homes.len() > 1).map(|(uid, homes)| format!("{uid} {homes:?}"))
        });
        self.client
            .within::<Pod>(&self.namespace)
            .delete_all(&Default::default(), &DeleteOptions::default())
            .await?;
        self.lease.give_back().await?;
        ensure!(moved.is_none(), "a pod was bound twice: {moved:?}");
        Ok(())
    }
}

/// What a scheduler is told that nobody else stands in for.
pub fn alone() -> Configuration {
    Configuration { leader_election: None, ..Configuration::default() }
}

/// What a scheduler is told, with these members more.
pub fn configured(more: &Value) -> Result<Configuration> {
    let mut file = json!({ "apiVersion": config::API_VERSION, "kind": config::KIND,
        "leaderElection": { "leaderElect": false } });
    merge(&mut file, more);
    Ok(config::parse(Path::new("story"), &file.to_string())?)
}

/// Puts the members of `more` into `object`; lists are replaced.
pub fn merge(object: &mut Value, more: &Value) {
    match (object, more) {
        (Value::Object(object), Value::Object(more)) => {
            for (name, value) in more {
                merge(object.entry(name).or_insert(Value::Null), value);
            }
        }
        (object, more) => object.clone_from(more),
    }
}

/// Plays a story on both servers at the same time.
pub async fn on_both(name: &'static str, story: impl AsyncFn(&mut Yard) -> Result<()>) {
    on_both_with(name, Scope::Exclusive, story).await;
}

/// The same on servers that the story has to this extent for itself.
pub async fn on_both_with(
    name: &'static str,
    scope: Scope,
    story: impl AsyncFn(&mut Yard) -> Result<()>,
) {
    let story = &story;
    let plays = BACKENDS.iter().map(async |backend| {
        let mut yard = Yard::open(name, *backend, scope).await?;
        let begun = Instant::now();
        let told = story(&mut yard).await;
        let closed = yard.close().await;
        eprintln!("{name} on {}: {:.1} s", backend.name(), begun.elapsed().as_secs_f64());
        told?;
        closed
    });
    let ended: Vec<Result<()>> = join_all(plays).await;
    let faults: Vec<String> = BACKENDS
        .iter()
        .zip(ended)
        .filter_map(|(backend, ended)| Some(format!("{}: {:#}", backend.name(), ended.err()?)))
        .collect();
    assert!(faults.is_empty(), "{name}\n{}", faults.join("\n"));
}

#[test]
fn members_are_merged_and_lists_replaced() {
    let check = |object: Value, more: Value, expected: Value| {
        let mut merged = object;
        merge(&mut merged, &more);
        assert_eq!(merged, expected);
    };
    check(json!({}), json!({ "a": { "b": 1 } }), json!({ "a": { "b": 1 } }));
    check(
        json!({ "a": { "b": 1 } }),
        json!({ "a": { "c": 2 } }),
        json!({ "a": { "b": 1, "c": 2 } }),
    );
    check(json!({ "a": [1, 2] }), json!({ "a": [3] }), json!({ "a": [3] }));
}
