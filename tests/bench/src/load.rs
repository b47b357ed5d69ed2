//! What is asked of each server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chassis::client::{
    Access, Binding, Call, Client, Error, Event, EventStream, ListOptions, Nameplate, ResourceType,
    WatchOptions,
};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use http::Method;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::subjects::IN_FLIGHT;

/// The namespace of the load.
pub const NAMESPACE: &str = "bench";
/// How many pods a node takes.
pub const PODS_PER_NODE_MAX: usize = 110;
/// Thousandths of a CPU that a pod asks for.
pub const POD_CPU_MILLIS: usize = 100;
/// MiB of memory that a pod asks for.
pub const POD_MEMORY_MIB: usize = 128;
/// The zones that nodes are dealt out to.
const ZONES: usize = 3;
/// How often a request is sent whose connection ends before the answer has come.
const TRIES_MAX: usize = 5;
/// How long bound pods may take to run.
const RUNNING_WITHIN: Duration = Duration::from_secs(600);
/// How long every watcher may take to see everything.
const WATCHERS_PATIENCE: Duration = Duration::from_secs(300);

/// The resource that all is about.
pub fn pods() -> ResourceType {
    ResourceType::namespaced("", "v1", "pods")
}

/// What is told of them.
pub fn events() -> ResourceType {
    ResourceType::namespaced("events.k8s.io", "v1", "events")
}

fn config_maps() -> ResourceType {
    ResourceType::namespaced("", "v1", "configmaps")
}

/// Makes the namespace, its service account and some nodes.
///
/// # Errors
/// When the server refuses.
pub async fn prepare(client: &Client, nodes: usize) -> Result<()> {
    let namespaces = client.access::<Value>(ResourceType::cluster("", "v1", "namespaces"), "");
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    unless_there(namespaces.create(&namespace).await)?;
    let accounts =
        client.access::<Value>(ResourceType::namespaced("", "v1", "serviceaccounts"), NAMESPACE);
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    unless_there(accounts.create(&account).await)?;
    let registry = &client.access::<IgnoredAny>(ResourceType::cluster("", "v1", "nodes"), "");
    each(0..nodes, |index| async move {
        let node = node(index);
        unless_there(answered(|| registry.create(&node)).await)
    })
    .await
}

/// Does something for each number, [`IN_FLIGHT`] at a time.
///
/// # Errors
/// The first one, after which nothing new is begun: a failing run is not measured.
pub async fn each<F, E>(
    numbers: impl Iterator<Item = usize>,
    work: impl FnMut(usize) -> F,
) -> Result<()>
where
    F: Future<Output = Result<(), E>>,
    E: Into<anyhow::Error>,
{
    let work = stream::iter(numbers).map(work).buffer_unordered(IN_FLIGHT);
    work.map_err(Into::into).try_for_each(|()| async { Ok(()) }).await
}

/// Sends a request until an answer comes, a bounded number of times: a server that is loaded as it is
/// here may close a connection on which a request is under way. That a repeated one finds what it is
/// to make says that an earlier one was done.
///
/// # Errors
/// What the server answers, or why no answer comes.
pub async fn answered<T, F>(mut send: impl FnMut() -> F) -> Result<(), Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut tries = 1;
    loop {
        match send().await {
            Err(Error::Unreachable { .. }) if tries < TRIES_MAX => tries += 1,
            Err(error) if tries > 1 && error.is_already_exists() => return Ok(()),
            answer => return answer.map(|_| ()),
        }
    }
}

/// The name of a node of the load.
pub fn node_name(index: usize) -> String {
    format!("bench-{index:05}")
}

/// A node as a kubelet registers it, in one of three zones.
fn node(index: usize) -> Value {
    let name = node_name(index);
    let amounts = json!({
        "cpu": "32",
        "memory": "256Gi",
        "ephemeral-storage": "100Gi",
        "pods": PODS_PER_NODE_MAX.to_string(),
    });
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": format!("kubelet says {reason}"),
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m5.8xlarge",
                "topology.kubernetes.io/region": "local",
                "topology.kubernetes.io/zone": format!("zone-{}", index % ZONES),
            },
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady"),
            ],
            "addresses": [{"type": "Hostname", "address": name}],
        },
    })
}

/// That it is there already is no failure.
///
/// # Errors
/// When it could not be made for another reason.
pub fn unless_there<T>(result: Result<T, chassis::client::Error>) -> Result<()> {
    match result {
        Err(error) if error.is_already_exists() => Ok(()),
        result => Ok(result.map(|_| ())?),
    }
}

/// Creates pods and binds each to a node, and says how many pods a second that was.
///
/// # Errors
/// When any request fails: a failing run is not measured.
pub async fn create_and_bind(
    client: &Client,
    prefix: &str,
    count: usize,
    node: impl Fn(usize) -> String,
) -> Result<f64> {
    let access = client.access::<Value>(pods(), NAMESPACE);
    let began = Instant::now();
    each(0..count, |index| {
        let (access, node) = (&access, node(index));
        async move {
            let name = format!("{prefix}-{index}");
            access.create(&pod(&name)).await?;
            let binding = Binding { pod: &name, node: &node, ..Binding::default() };
            access.bind(&binding).await
        }
    })
    .await?;
    Ok(count as f64 / began.elapsed().as_secs_f64())
}

/// A pod as a small service has them.
pub fn pod(name: &str) -> Value {
    let (cpu, memory) = (format!("{POD_CPU_MILLIS}m"), format!("{POD_MEMORY_MIB}Mi"));
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench", "pod-template-hash": "6c7d8f9b5"}},
        "spec": {
            // The benchmark binds it: no scheduler may be quicker.
            "schedulerName": "bench",
            "containers": [{
                "name": "main",
                "image": "registry.example/app:1.2.3",
                "ports": [{"containerPort": 8080}],
                "env": [{"name": "MODE", "value": "bench"}],
                "resources": {"requests": {"cpu": cpu, "memory": memory}},
            }],
        },
    })
}

/// Binds pods evenly to the nodes there are and waits until all of them run.
///
/// # Errors
/// When a request fails or the pods do not run in time.
pub async fn fill(client: &Client, count: usize) -> Result<()> {
    prepare(client, 0).await?;
    let nodes = client.access::<Value>(ResourceType::cluster("", "v1", "nodes"), "");
    let nodes = nodes.list_all(&ListOptions { limit: 500, ..ListOptions::default() }).await?;
    let name = |node: &Value| node["metadata"]["name"].as_str().map(str::to_owned);
    let names: Vec<String> = nodes.iter().filter_map(name).collect();
    ensure!(!names.is_empty(), "there are no nodes");
    let node = |index: usize| names[index % names.len()].clone();
    let rate = create_and_bind(client, "pod", count, node).await?;
    eprintln!("{count} pods created and bound, {rate:.0} a second");
    tokio::time::timeout(RUNNING_WITHIN, all_running(client))
        .await
        .context("the pods do not run")?
}

async fn all_running(client: &Client) -> Result<()> {
    loop {
        if has_pods(client, "status.phase=Running").await?
            && !has_pods(client, "status.phase!=Running").await?
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Whether the load has pods of which this holds.
///
/// # Errors
/// When the request fails.
pub async fn has_pods(client: &Client, field_selector: &str) -> Result<bool> {
    let field_selector = field_selector.to_owned();
    let options = ListOptions { field_selector, limit: 1, ..ListOptions::default() };
    let pods = client.access::<Nameplate>(pods(), NAMESPACE).metadata_only();
    Ok(!pods.list(&options).await?.items.is_empty())
}

/// Lists all pods and says how many lists a second that would be.
///
/// # Errors
/// When there are not as many pods as expected.
pub async fn list(client: &Client, expected: usize) -> Result<f64> {
    let began = Instant::now();
    let call = Call::new(Method::GET, format!("/api/v1/namespaces/{NAMESPACE}/pods"));
    let body = client.call_bytes(call).await?;
    let seconds = began.elapsed().as_secs_f64();
    // Counted after the clock has stopped: decoding is the client's work.
    let list: Value = serde_json::from_slice(&body).context("the list is not JSON")?;
    let count = list["items"].as_array().map_or(0, Vec::len);
    ensure!(count == expected, "the list has {count} pods instead of {expected}");
    Ok(1.0 / seconds)
}

/// Events a second that reached all watchers together.
pub struct FanOut {
    /// While the writes were made: the time of the writes is in it.
    pub live: f64,
    /// Of the same writes, to watchers that begin before them: delivery alone.
    pub replayed: f64,
}

/// Writes while watchers watch; then lets as many watchers read the same events again.
///
/// # Errors
/// When a watcher misses an event.
pub async fn fan_out(client: &Client, watchers: usize, writes: usize) -> Result<FanOut> {
    let access = client.access::<Value>(config_maps(), NAMESPACE);
    let start = access.list(&ListOptions::default()).await?.resource_version;
    let events = (watchers * writes) as f64;
    let following = watch_from(&access, &start, watchers, writes).await?;
    let began = Instant::now();
    write_config_maps(&access, writes).await?;
    all_seen(following).await?;
    let live = events / began.elapsed().as_secs_f64();
    let began = Instant::now();
    all_seen(watch_from(&access, &start, watchers, writes).await?).await?;
    Ok(FanOut { live, replayed: events / began.elapsed().as_secs_f64() })
}

async fn write_config_maps(access: &Access<Value>, writes: usize) -> Result<()> {
    each(0..writes, |index| async move {
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"generateName": "event-"},
            "data": {"index": index.to_string(), "payload": "x".repeat(1024)},
        });
        access.create(&map).await.map(|_| ())
    })
    .await
}

/// Watchers that each read `writes` events after a revision.
async fn watch_from(
    access: &Access<Value>,
    revision: &str,
    watchers: usize,
    writes: usize,
) -> Result<Vec<JoinHandle<Result<()>>>> {
    let mut tasks = Vec::new();
    for _ in 0..watchers {
        let options =
            WatchOptions { resource_version: revision.to_owned(), ..WatchOptions::default() };
        let events = access.watch(&options).await?;
        tasks.push(tokio::spawn(follow(access.clone(), events, options, writes)));
    }
    Ok(tasks)
}

async fn all_seen(watchers: Vec<JoinHandle<Result<()>>>) -> Result<()> {
    for task in watchers {
        tokio::time::timeout(WATCHERS_PATIENCE, task).await.context("a watcher is stuck")???;
    }
    Ok(())
}

/// Reads `writes` events, going on from the last one where the server ends the watch, as
/// kube-apiserver does to watchers that fall behind.
async fn follow(
    access: Access<Value>,
    mut events: EventStream<Value>,
    mut options: WatchOptions,
    writes: usize,
) -> Result<()> {
    let mut left = writes;
    while left > 0 {
        match events.next().await? {
            Some(Event::Applied(object)) => {
                let revision = object["metadata"]["resourceVersion"].as_str();
                revision
                    .context("an object has no revision")?
                    .clone_into(&mut options.resource_version);
                left -= 1;
            }
            Some(Event::Refused(refusal)) => anyhow::bail!("a watch was refused: {refusal}"),
            Some(_) => {}
            None => events = access.watch(&options).await?,
        }
    }
    Ok(())
}

/// Deletes what the load has made, so that rounds begin alike.
///
/// # Errors
/// When the server refuses.
pub async fn clean(client: &Client) -> Result<()> {
    for path in ["configmaps", "pods", "events"] {
        let call = Call::new(Method::DELETE, format!("/api/v1/namespaces/{NAMESPACE}/{path}"))
            .query("gracePeriodSeconds", "0");
        client.call_bytes(call).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use chassis::client::Refusal;

    use super::*;

    fn lost() -> Error {
        let (verb, server) = (Method::POST, "here".to_owned());
        Error::Unreachable { verb, path: "/".to_owned(), server, source: "closed".into() }
    }

    fn there() -> Error {
        let body = br#"{"status": "Failure", "reason": "AlreadyExists", "code": 409}"#;
        let refusal = Box::new(Refusal::parse(409, None, body));
        Error::Refused { verb: Method::POST, path: "/".to_owned(), refusal }
    }

    #[tokio::test]
    async fn a_request_without_an_answer_is_sent_again_and_may_have_been_done_before() {
        let check = async |mut answers: Vec<Result<(), Error>>, sent: usize, is_done: bool| {
            answers.reverse();
            let mut count = 0;
            let answer = answered(|| {
                count += 1;
                std::future::ready(answers.pop().unwrap_or_else(|| Err(lost())))
            })
            .await;
            assert_eq!((count, answer.is_ok()), (sent, is_done), "{answer:?}");
        };
        check(vec![Ok(())], 1, true).await;
        check(vec![Err(there())], 1, false).await;
        check(vec![Err(lost()), Ok(())], 2, true).await;
        check(vec![Err(lost()), Err(there())], 2, true).await;
        check(vec![], TRIES_MAX, false).await;
    }
}
