//! The limit: a writer that binds every pod it sees to the next node, without thinking, and may
//! write the event that a scheduler writes.
//!
//! It does what no scheduler can leave out (lists nodes and pods, watches pods, binds with the
//! pod's uid) and nothing else. It ends with an error at the first request that fails.

use std::collections::VecDeque;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use chassis::client::{
    Access, Binding, Call, Client, Event, ListOptions, Nameplate, Page, ResourceType, UnderWay,
    WatchOptions,
};
use futures::stream::{FuturesUnordered, StreamExt as _};
use http::Method;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::load::NAMESPACE;
use crate::subjects::{IN_FLIGHT, client_with};

/// Objects a page.
const PAGE: u32 = 500;

/// What the writer writes.
#[derive(clap::Args)]
pub struct Arguments {
    /// The server.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Writes the event of each pod after its binding.
    #[arg(long)]
    events: bool,
    /// Lets answers gather while many are awaited.
    #[arg(long)]
    gather: bool,
    /// Of the pods that are there, binds so many and no more, by their names.
    #[arg(long, default_value_t = usize::MAX)]
    first: usize,
}

#[derive(Deserialize)]
struct Pod {
    metadata: PodMeta,
    spec: PodSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMeta {
    name: Box<str>,
    uid: Box<str>,
    resource_version: Box<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[serde(default)]
    node_name: Box<str>,
}

/// Binds until it is killed.
///
/// # Errors
/// When a request fails.
pub async fn run(arguments: &Arguments, under_way: &UnderWay) -> Result<()> {
    // Where they do not gather, nobody who would wait for them sees how many there are.
    let apart = UnderWay::default();
    let under_way = if arguments.gather { under_way } else { &apart };
    let client = client_with(&arguments.kubeconfig, IN_FLIGHT, under_way).await?;
    let node_access = client.access(ResourceType::cluster("", "v1", "nodes"), "");
    let pod_access = client.access(crate::load::pods(), "");
    let (nodes, pods) =
        tokio::try_join!(list::<Nameplate>(&node_access), list::<Pod>(&pod_access))?;
    ensure!(!nodes.items.is_empty(), "there are no nodes");
    let nodes: Vec<String> = nodes.items.into_iter().map(|node| node.metadata.name).collect();
    let resource_version = pods.resource_version;
    let waits = |pod: &Pod| pod.spec.node_name.is_empty();
    let waiting = pods.items.into_iter().filter(waits).take(arguments.first);
    let mut backlog: VecDeque<PodMeta> = waiting.map(|pod| pod.metadata).collect();
    let mut options = WatchOptions { resource_version, ..WatchOptions::default() };
    let mut watch = pod_access.watch(&options).await?;
    let mut writes = FuturesUnordered::new();
    let mut next = nodes.iter().cycle();
    loop {
        while writes.len() < IN_FLIGHT
            && let Some(pod) = backlog.pop_front()
        {
            let node = next.next().context("there are nodes")?;
            writes.push(write(&client, pod, node, arguments.events));
        }
        tokio::select! {
            Some(written) = writes.next() => written?,
            event = watch.next() => match event? {
                Some(Event::Applied(pod)) => {
                    pod.metadata.resource_version.as_ref().clone_into(&mut options.resource_version);
                    // Nobody changes a pod before it is bound, so this is a new one.
                    if waits(&pod) {
                        backlog.push_back(pod.metadata);
                    }
                }
                Some(Event::Bookmark { resource_version }) => {
                    options.resource_version = resource_version;
                }
                Some(Event::Deleted(_)) => {}
                Some(_) => bail!("the watch of pods brought something else than pods"),
                None => watch = pod_access.watch(&options).await?,
            },
        }
    }
}

/// A whole list, page by page, with the version to watch from.
async fn list<T: DeserializeOwned>(access: &Access<T>) -> Result<Page<T>> {
    let mut options = ListOptions { limit: PAGE, ..ListOptions::default() };
    let mut whole = access.list(&options).await?;
    while let Some(token) = whole.next.take() {
        options.continue_token = Some(token);
        let page = access.list(&options).await?;
        whole.items.extend(page.items);
        (whole.next, whole.resource_version) = (page.next, page.resource_version);
    }
    Ok(whole)
}

async fn write(client: &Client, pod: PodMeta, node: &str, events: bool) -> Result<()> {
    let binding = Binding { pod: &pod.name, uid: Some(&pod.uid), node, ..Binding::default() };
    client.access::<Pod>(crate::load::pods(), NAMESPACE).bind(&binding).await?;
    if events {
        let call = Call::new(Method::POST, "/apis/events.k8s.io/v1/namespaces/bench/events");
        client.call_bytes(call.json(&Told::of(&pod, node))?).await?;
    }
    Ok(())
}

/// The event `Scheduled` as kube-scheduler writes it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: ToldMeta,
    event_time: String,
    reporting_controller: &'static str,
    reporting_instance: &'static str,
    action: &'static str,
    reason: &'static str,
    r#type: &'static str,
    note: String,
    regarding: Regarding<'a>,
}

#[derive(Serialize)]
struct ToldMeta {
    name: String,
    namespace: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Regarding<'a> {
    api_version: &'static str,
    kind: &'static str,
    name: &'a str,
    namespace: &'static str,
    resource_version: &'a str,
    uid: &'a str,
}

impl<'a> Told<'a> {
    fn of(pod: &'a PodMeta, node: &str) -> Self {
        let (name, now) = (&pod.name, Timestamp::now());
        Self {
            api_version: "events.k8s.io/v1",
            kind: "Event",
            metadata: ToldMeta {
                name: format!("{name}.{:x}", now.as_nanosecond()),
                namespace: NAMESPACE,
            },
            event_time: now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            reporting_controller: "default-scheduler",
            reporting_instance: "default-scheduler-bench",
            action: "Binding",
            reason: "Scheduled",
            r#type: "Normal",
            note: format!("Successfully assigned {NAMESPACE}/{name} to {node}"),
            regarding: Regarding {
                api_version: "v1",
                kind: "Pod",
                name,
                namespace: NAMESPACE,
                resource_version: &pod.resource_version,
                uid: &pod.uid,
            },
        }
    }
}
