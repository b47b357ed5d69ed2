//! The event, the scheduler's own page and the objects of the cluster say the same of a pod that no
//! node can take, and of a Reservation.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use api::reservation::AFFINITY;
use bytes::Bytes;
use chassis::client::{Call, Client, Options, Source};
use chassis::clock::Clock;
use chassis::serve::{Health, Metrics, Server, Site};
use chassis::shutdown::Shutdown;
use http::Method;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use scenarios::backend::{BACKENDS, Backend};
use scenarios::running::Running;
use scenarios::system::{Cluster, Controllers, PATIENCE};
use scheduler::State;
use scheduler::config::Configuration;
use scheduler::debug::{Desk, pages};
use scheduler::why::{Answer, AnsweredBy, NodesTold, from_objects, reservation_from_objects};
use serde_json::{Value, json};

use crate::yard::{Yard, alone, configured, merge, on_both};

/// Pods that no node can take: for want of CPU, and for a label, with a priority that might help.
const PODS: &str = r#"
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: reason}
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {name: large}
spec: {containers: [{name: main, image: "registry.example/web:1", resources: {requests: {cpu: 1k}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: choosy}
spec:
  priorityClassName: reason
  nodeSelector: {disk: fast}
  containers: [{name: main, image: "registry.example/web:1"}]
---
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec:
  schedulingGates: [{name: example.com/gate}]
  containers: [{name: main, image: "registry.example/web:1"}]
"#;

/// Starts a scheduler and the port on which it is asked.
async fn schedule(
    source: &Source,
    shutdown: &Shutdown,
    configuration: Configuration,
) -> Result<(Running, SocketAddr)> {
    let desk = Desk::default();
    let options = scheduler::Options::new(configuration, "why");
    let options = scheduler::Options { desk: desk.clone(), ..options };
    let mut running = Running::connect(source, options).await?;
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let address = server.address();
    let site = pages(Site::new(&Metrics::new(), &Health::new()), &desk);
    shutdown.spawn("pages", server.run(site, shutdown.token()));
    running.until(State::Deciding).await?;
    Ok((running, address))
}

async fn get(address: SocketAddr, path: &str) -> Result<(u16, Value)> {
    let client = legacy::Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let response = client.get(format!("http://{address}{path}").parse()?).await?;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((code, serde_json::from_slice(&body)?))
}

/// What the event of a pod says.
async fn told(cluster: &Cluster, namespace: &str, pod: &str) -> Result<String> {
    let which = format!("--field-selector=involvedObject.name={pod},reason=FailedScheduling");
    let wait = ["wait", "events", &which, "--for=create", "--timeout=30s", "-n", namespace];
    cluster.kubectl(&wait).await?;
    let read = ["get", "events", &which, "--output=jsonpath={.items[0].message}", "-n", namespace];
    cluster.kubectl(&read).await
}

async fn all_say_the_same(backend: Backend) -> Result<()> {
    let staged = Cluster::unscheduled("kube-reason", backend, Controllers::Ours, 2);
    let (cluster, namespace) = staged.await?;
    let source = Source::from_flags(Some(cluster.kubeconfig().to_owned()), None);
    let client = Client::connect(&source, &Options::new("why")).await?;
    let shutdown = Shutdown::new();
    let (running, address) = schedule(&source, &shutdown, alone()).await?;
    cluster.kubectl_with(&["apply", "-n", &namespace, "--filename", "-"], PODS).await?;

    let configuration = Configuration::default();
    for pod in ["large", "choosy"] {
        let message = told(&cluster, &namespace, pod).await?;
        ensure!(message.starts_with("0/2 nodes are available: 2 "), "{message}");
        let objects = from_objects(&client, &configuration, &namespace, pod).await?;
        ensure!(objects.message.as_deref() == Some(&message), "{objects} is not {message}");
        let (code, page) =
            get(address, &format!("/debug/why?namespace={namespace}&pod={pod}")).await?;
        ensure!(code == 200, "{page}");
        let page: Answer = serde_json::from_value(page)?;
        ensure!(page.answered_by == AnsweredBy::Scheduler, "{page:?}");
        ensure!(page.message == objects.message, "{page} is not {objects}");
        ensure!(page.nodes == objects.nodes, "{page} is not {objects}");
        let nodes = page.nodes.context("nodes were asked")?;
        ensure!(nodes.nearest.len() == 2 && nodes.changes.len() == 1, "{nodes}");
    }
    let gated = from_objects(&client, &configuration, &namespace, "gated").await?.to_string();
    ensure!(gated.contains("is held back by scheduling gate example.com/gate"), "{gated}");
    let none = from_objects(&client, &configuration, &namespace, "nobody").await;
    let none = none.err().context("there is no such pod")?.to_string();
    ensure!(none.starts_with("there is no pod nobody in namespace kube-reason-"), "{none}");
    let (code, page) = get(address, &format!("/debug/why?namespace={namespace}&pod=no")).await?;
    ensure!(code == 404 && page["message"].is_string(), "{page}");
    let (_, queue) = get(address, &format!("/debug/queue?namespace={namespace}")).await?;
    ensure!(queue["counts"]["waiting"] == 2 && queue["counts"]["gated"] == 1, "{queue}");
    let (_, ledger) = get(address, "/debug/ledger?node=node-0001").await?;
    ensure!(ledger["nodes"][0]["pods"] == 0, "{ledger}");
    let (_, decisions) = get(address, "/debug/decisions").await?;
    ensure!(decisions[0]["verdict"] == "wait", "{decisions}");
    running.end().await?;
    shutdown.begin();
    shutdown.join(&Clock::system(), PATIENCE).await?;
    cluster.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_event_the_scheduler_and_the_objects_say_the_same() {
    for backend in BACKENDS {
        all_say_the_same(*backend).await.with_context(|| backend.name()).unwrap();
    }
}

const RESERVATIONS: &str = "/apis/scheduling.koordinator.sh/v1alpha1/reservations";
const METRICS: &str = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics";
const LAYOUTS: &str = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies";

/// A scheduler that looks at loads, CPUs and reservations.
fn koordinated() -> Result<Configuration> {
    let names = ["LoadAwareScheduling", "NodeNUMAResource", "Reservation"];
    let enabled = names.map(|name| json!({ "name": name }));
    configured(&json!({ "profiles": [{ "schedulerName": "default-scheduler",
                                       "plugins": { "filter": { "enabled": enabled } } }] }))
}

/// A Reservation of so much CPU for pods of this name.
async fn reserve(yard: &Yard, name: &str, cpu: &str, owner: &str, more: &Value) -> Result<String> {
    let name = format!("{}-{name}", yard.namespace);
    let mut own = json!({
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": { "name": name },
        "spec": {
            "allocateOnce": false, "allocatePolicy": "Restricted",
            "owners": [{ "labelSelector": { "matchLabels": { "app": owner } } }],
            "template": { "spec": {
                "schedulerName": "default-scheduler",
                "containers": [{ "name": "hold", "image": "none",
                                 "resources": { "requests": { "cpu": cpu } } }] } } },
    });
    merge(&mut own, more);
    yard.create(RESERVATIONS, &own).await?;
    Ok(name)
}

/// Two nodes: one that is hot, and one of which most is held.
async fn furnish(yard: &Yard) -> Result<()> {
    yard.define("nodemetrics.slo.koordinator.sh", METRICS).await?;
    yard.define("noderesourcetopologies.topology.node.k8s.io", LAYOUTS).await?;
    yard.define("reservations.scheduling.koordinator.sh", RESERVATIONS).await?;
    yard.node("hot", 8).await?;
    yard.node("held", 8).await?;
    let metric = json!({ "apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric",
                         "metadata": { "name": "hot" } });
    yard.create(METRICS, &metric).await?;
    let usage = json!({ "nodeUsage": { "resources": { "cpu": "7", "memory": "1Gi" } } });
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = json!({ "status": { "updateTime": now, "nodeMetric": usage } });
    yard.patch_status(&format!("{METRICS}/hot"), status).await
}

/// The same without how old reports are, which grows while two are asked.
fn ageless(mut nodes: NodesTold) -> NodesTold {
    for lack in nodes.nearest.iter_mut().flat_map(|one| &mut one.lacks) {
        if let Some(load) = &mut lack.load {
            load.reported_seconds_ago = None;
            lack.text.truncate(lack.text.find(", reported ").unwrap_or(lack.text.len()));
        }
    }
    nodes
}

/// What the scheduler and the objects say alike.
async fn agreed(address: SocketAddr, query: &str, objects: Answer) -> Result<String> {
    let (code, page) = get(address, &format!("/debug/why?{query}")).await?;
    ensure!(code == 200, "{page}");
    let page: Answer = serde_json::from_value(page)?;
    ensure!(page.message == objects.message, "{page} is not {objects}");
    let text = objects.to_string();
    let nodes = (page.nodes.map(ageless), objects.nodes.map(ageless));
    ensure!(nodes.0 == nodes.1, "{nodes:?}");
    Ok(text)
}

/// What is told of a pod and of a Reservation, by the scheduler and by the objects alike.
async fn pod_told(yard: &Yard, address: SocketAddr, pod: &str) -> Result<String> {
    yard.until_waits(pod, "Unschedulable").await?;
    let (configuration, namespace) = (koordinated()?, &yard.namespace);
    let objects = from_objects(&yard.client, &configuration, namespace, pod).await?;
    agreed(address, &format!("namespace={namespace}&pod={pod}"), objects).await
}

async fn reservation_told(yard: &Yard, address: SocketAddr, name: &str) -> Result<String> {
    yard.until_object(&format!("{RESERVATIONS}/{name}"), |own| {
        let conditions = own["status"]["conditions"].as_array()?;
        conditions.iter().any(|one| one["reason"] == "Unschedulable").then_some(())
    })
    .await?;
    let objects = reservation_from_objects(&yard.client, &koordinated()?, name).await?;
    agreed(address, &format!("reservation={name}"), objects).await
}

fn has(text: &str, lines: &[&str]) -> Result<()> {
    let missing = lines.iter().find(|line| !text.contains(**line));
    ensure!(missing.is_none(), "{missing:?} is not in {text}");
    Ok(())
}

/// Refusals for load, CPUs and reservations.
async fn pods_are_explained(yard: &Yard, address: SocketAddr, six: &str) -> Result<()> {
    let on = |node: &str| json!({ "spec": { "nodeSelector": { "kubernetes.io/hostname": node } } });
    yard.pod_like("warm", "1", on("hot")).await?;
    let text = pod_told(yard, address, "warm").await?;
    let load =
        "would use 98 % of its cpu, of which at most 65 % may be: by what it uses now, reported";
    has(&text, &[load])?;
    let mut own = on("held");
    merge(&mut own, &json!({ "metadata": { "labels": { "koordinator.sh/qosClass": "LSR" } } }));
    yard.pod_like("own", "1", own).await?;
    has(&pod_told(yard, address, "own").await?, &["  held  does not report which CPUs it has\n"])?;
    let must = json!({ "metadata": { "labels": { "app": "guest" },
                                     "annotations": { AFFINITY: "{}" } } });
    yard.pod_like("inside", "7", must).await?;
    let told = format!("  {six} on held  is short of cpu by 1: 7 asked, 6 of 6 left\n");
    let text = pod_told(yard, address, "inside").await?;
    has(&text, &[&told, "  request 6 of cpu, not 7  to 1 node\n"])
}

/// Reservations that have no node.
async fn reservations_are_explained(yard: &Yard, address: SocketAddr) -> Result<Vec<String>> {
    let large = reserve(yard, "large", "9", "guest", &json!({})).await?;
    let text = reservation_told(yard, address, &large).await?;
    let first = format!("Reservation {large} waits for a node.");
    has(&text, &[&first, "  held  is short of cpu by 8: 9 asked, 1 of 8 free\n"])?;
    let takes = json!({ "spec": { "preAllocation": true } });
    let taking = reserve(yard, "taking", "9", "runs", &takes).await?;
    let text = reservation_told(yard, address, &taking).await?;
    let told = format!("  {}/runs on held  its node is short of cpu by 7: ", yard.namespace);
    has(&text, &["Pods that it could take over", &told])?;
    let nobody = json!({ "spec": { "template": { "spec": { "schedulerName": "another" } } } });
    let strange = reserve(yard, "strange", "1", "guest", &nobody).await?;
    let objects = reservation_from_objects(&yard.client, &koordinated()?, &strange).await?;
    let text = agreed(address, &format!("reservation={strange}"), objects).await?;
    has(&text, &["waits for scheduler \"another\", and no ", " of default-scheduler does: "])?;
    let (code, page) = get(address, "/debug/why?reservation=nobody").await?;
    ensure!(code == 404 && page["message"].is_string(), "{page}");
    Ok(vec![large, taking, strange])
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_for_load_cpus_and_reservations_are_explained_alike() {
    on_both("explained", async |yard| {
        furnish(yard).await?;
        let source = Source::from_flags(Some(yard.kubeconfig().to_owned()), None);
        let shutdown = Shutdown::new();
        let (running, address) = schedule(&source, &shutdown, koordinated()?).await?;
        let six = reserve(yard, "six", "6", "guest", &json!({})).await?;
        yard.until_object(&format!("{RESERVATIONS}/{six}"), |own| {
            (own["status"]["phase"] == "Available").then_some(())
        })
        .await?;
        yard.pod("runs", "1").await?;
        yard.until_on("runs", "held").await?;
        pods_are_explained(yard, address, &six).await?;
        let mut made = reservations_are_explained(yard, address).await?;
        running.end().await?;
        shutdown.begin();
        shutdown.join(&Clock::system(), PATIENCE).await?;
        made.push(six);
        let made = made.iter().map(|name| format!("{RESERVATIONS}/{name}"));
        for path in made.chain([format!("{METRICS}/hot")]) {
            yard.client.call_unread(Call::new(Method::DELETE, path)).await?;
        }
        Ok(())
    })
    .await;
}
