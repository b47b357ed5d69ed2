//! The event, the scheduler's own page and the objects of the cluster say the same of a pod that no
//! node can take.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use chassis::client::{Client, Options, Source};
use chassis::clock::Clock;
use chassis::serve::{Health, Metrics, Server, Site};
use chassis::shutdown::Shutdown;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use scenarios::backend::{BACKENDS, Backend};
use scenarios::running::Running;
use scenarios::system::{Cluster, Controllers, PATIENCE};
use scheduler::State;
use scheduler::config::Configuration;
use scheduler::debug::{Desk, pages};
use scheduler::why::{Answer, AnsweredBy, from_objects};
use serde_json::Value;

use crate::yard::alone;

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
async fn schedule(source: &Source, shutdown: &Shutdown) -> Result<(Running, SocketAddr)> {
    let desk = Desk::default();
    let options = scheduler::Options::new(alone(), "why");
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
    let (running, address) = schedule(&source, &shutdown).await?;
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
