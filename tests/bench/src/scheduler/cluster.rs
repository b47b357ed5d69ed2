//! The server of a race, and what is asked of it besides the race.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use api::Pod;
use api::cpus::ResourceStatus;
use chassis::client::{Call, Client, DeleteOptions, ListOptions, Nameplate, ResourceType};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::contender::Programs;
use super::workload::{Workload, pod, pod_name};
use crate::load::{self, NAMESPACE};
use crate::subjects::{Truth, client};

/// Objects an answer: what clients of Go and ours ask for.
const PAGE: u32 = 500;
/// How often deletion of everything is asked for.
const CLEANINGS_MAX: usize = 5;
/// Where the events of the load are.
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/bench/events";

/// A kube-apiserver on etcd and a client of it.
pub struct Cluster {
    truth: Truth,
    /// Who prepares, observes and tidies up.
    pub client: Client,
}

/// The head of a list.
#[derive(Deserialize)]
struct Counted {
    metadata: CountedMeta,
    items: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CountedMeta {
    #[serde(default)]
    remaining_item_count: usize,
}

#[derive(Deserialize)]
struct Told {
    reason: String,
    regarding: Regarding,
}

#[derive(Deserialize)]
struct Regarding {
    #[serde(default)]
    name: String,
}

impl Cluster {
    /// Starts the server, with some flags more than every race has, and makes the namespace.
    ///
    /// # Errors
    /// When a program is missing or does not start.
    pub async fn start(programs: &Programs, flags: &[String]) -> Result<Self> {
        let truth = Truth::start_for_race(&programs.gantry, flags)?;
        let client = client(truth.kubeconfig()).await?;
        load::prepare(&client, 0).await?;
        Ok(Self { truth, client })
    }

    /// Its kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        self.truth.kubeconfig()
    }

    /// Makes nodes, or deletes them, until there are so many.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn resize(&self, nodes: usize) -> Result<()> {
        let access = self.client.access::<Nameplate>(ResourceType::cluster("", "v1", "nodes"), "");
        let access = &access.metadata_only();
        let there = access.list_all(&pages()).await?.len();
        load::each(nodes..there, |index| async move {
            access.delete(&load::node_name(index), &DeleteOptions::default()).await
        })
        .await?;
        load::prepare(&self.client, nodes).await
    }

    /// Creates the pods of a load, which nobody schedules yet.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn create_pods(&self, count: usize, pod: impl Fn(usize) -> Value) -> Result<()> {
        load::each(0..count, |index| self.create_pod(pod(index))).await
    }

    /// Creates pods that have their nodes already.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn create_bound_pods(&self, count: usize, nodes: usize) -> Result<()> {
        self.create_pods(count, |index| {
            let mut pod = pod(Workload::Mixed, index);
            pod["spec"]["nodeName"] = json!(load::node_name(index % nodes));
            pod
        })
        .await
    }

    /// Creates one pod.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn create_pod(&self, pod: Value) -> Result<()> {
        let call = Call::new(Method::POST, format!("/api/v1/namespaces/{NAMESPACE}/pods"));
        let call = call.json(&pod)?;
        Ok(load::answered(|| self.client.call_bytes(call.clone())).await?)
    }

    /// Deletes one pod, with so many seconds to end.
    ///
    /// # Errors
    /// When the request fails; that it is gone already is no failure.
    pub async fn delete_pod(&self, name: &str, grace_period_seconds: Option<u32>) -> Result<()> {
        let access = self.client.access::<Nameplate>(load::pods(), NAMESPACE);
        let options = DeleteOptions { grace_period_seconds, ..DeleteOptions::default() };
        match access.delete(name, &options).await {
            Err(error) if error.is_not_found() => Ok(()),
            answer => Ok(answer?),
        }
    }

    /// How many events the load has. The store counts them, so that one is read and not all.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn event_count(&self) -> Result<usize> {
        let call = Call::new(Method::GET, EVENTS).query("limit", "1");
        let head: Counted = self.client.call(call).await?;
        Ok(head.items.len() + head.metadata.remaining_item_count)
    }

    /// Whether there are pods that nobody has begun to run.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn has_pending(&self) -> Result<bool> {
        load::has_pods(&self.client, "status.phase=Pending").await
    }

    /// Makes sure that each of the pods `0..count` has a node, and an event that says so.
    ///
    /// # Errors
    /// When one has not: such a run is not measured.
    pub async fn verify(&self, count: usize, events: bool) -> Result<()> {
        let unbound = ListOptions { field_selector: "spec.nodeName=".to_owned(), ..pages() };
        let pods = self.client.access::<Nameplate>(load::pods(), NAMESPACE).metadata_only();
        let left = pods.list_all(&unbound).await?.len();
        ensure!(left == 0, "{left} of {count} pods have no node");
        if !events {
            return Ok(());
        }
        let told = self.client.access::<Told>(load::events(), NAMESPACE);
        let told = told.list_all(&pages()).await?;
        let scheduled = told.into_iter().filter(|event| event.reason == "Scheduled");
        let told: BTreeSet<String> = scheduled.map(|event| event.regarding.name).collect();
        let silent = (0..count).map(pod_name).find(|name| !told.contains(name));
        ensure!(silent.is_none(), "no event tells of pod {silent:?}; {} do", told.len());
        Ok(())
    }

    /// All pods as they are now.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        Ok(self.client.access::<Pod>(load::pods(), NAMESPACE).list_all(&pages()).await?)
    }

    /// Makes sure that every pod has as many CPUs of its own as it asks for, and no CPU is two pods' own.
    ///
    /// # Errors
    /// When one has not: such a run is not measured.
    pub async fn verify_cpus(&self) -> Result<()> {
        let mut given = BTreeSet::new();
        for pod in self.pods().await? {
            let (name, node) = (&pod.metadata.name, &pod.spec.node_name);
            let told = ResourceStatus::of(&pod).ok().flatten();
            let (_, cpus) = told.with_context(|| format!("pod {name} does not say its CPUs"))?;
            let asked =
                pod.spec.containers.first().and_then(|one| one.resources.requests.get("cpu"));
            let asked = asked.with_context(|| format!("pod {name} requests no CPU"))?.to_string();
            ensure!(cpus.len().to_string() == asked, "pod {name} has CPUs {cpus} and not {asked}");
            for cpu in cpus.iter() {
                ensure!(given.insert((node.clone(), cpu)), "CPU {cpu} of {node:?} is given twice");
            }
        }
        Ok(())
    }

    /// Deletes all pods and events and the memory of them, so that rows begin alike.
    ///
    /// # Errors
    /// When something stays.
    pub async fn clean(&self) -> Result<()> {
        let pods = self.client.access::<Nameplate>(load::pods(), NAMESPACE).metadata_only();
        let mut cleaned = Ok(());
        for _ in 0..CLEANINGS_MAX {
            // The server gives up on a request after a minute, however many it has deleted.
            cleaned = load::clean(&self.client).await;
            let left = pods.list_all(&pages()).await?.len() + self.event_count().await?;
            if left == 0 {
                return self.truth.compact();
            }
        }
        cleaned?;
        bail!("pods or events are left over that should be deleted")
    }
}

fn pages() -> ListOptions {
    ListOptions { limit: PAGE, ..ListOptions::default() }
}
