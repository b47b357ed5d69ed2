//! Programs outside have a say in where pods go, as they have with kube-scheduler.

mod server;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::future::join_all;
use scenarios::backend::{BACKENDS, Backend};
use scenarios::running::Running;
use scenarios::system::{Cluster, Controllers, PATIENCE, Scheduler};
use scheduler::State;
use serde_json::{Value, json};
use truth::{Binaries, Companion};

use crate::story::differing;
use crate::yard::{configured, on_both};
use server::Server;

/// An extender that looks after the resource of its own name, which no node has to have.
fn extender(address: &str, name: &str, more: Value) -> Value {
    let mut extender = json!({
        "urlPrefix": format!("http://{address}/{name}"),
        "managedResources": [{ "name": format!("example.com/{name}"), "ignoredByScheduler": true }],
    });
    extender.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    extender
}

/// All extenders. At the second address nobody listens.
fn extenders(address: &str, nobody: &str) -> Value {
    let filter = || json!({ "filterVerb": "filter" });
    let with = |more: Value| object::patch::merge::apply(filter(), more).unwrap();
    json!([
        extender(address, "narrow", filter()),
        extender(address, "narrow-names", with(json!({ "nodeCacheCapable": true }))),
        extender(address, "score", json!({ "prioritizeVerb": "prioritize", "weight": 100 })),
        extender(
            address,
            "both",
            json!({ "filterVerb": "filter", "prioritizeVerb": "prioritize",
            "weight": 100, "nodeCacheCapable": true })
        ),
        extender(nobody, "optional", with(json!({ "ignorable": true }))),
        extender(nobody, "needed", filter()),
        extender(nobody, "unscored", json!({ "prioritizeVerb": "prioritize", "weight": 1 })),
        extender(address, "lie", with(json!({ "nodeCacheCapable": true }))),
        extender(address, "mute", with(json!({ "nodeCacheCapable": true }))),
        extender(address, "error", filter()),
        extender(address, "broken", filter()),
        extender(address, "hang", with(json!({ "httpTimeout": "500ms" }))),
        extender(address, "bind", json!({ "bindVerb": "bind" })),
    ])
}

/// A pod that asks for one of a resource of `example.com`.
fn pod(name: &str, resource: &str) -> String {
    let one = format!("{{example.com/{resource}: 1}}");
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {{name: main, image: registry.example/web:1, resources: {{requests: {one}, limits: {one}}}}}
---
"
    )
}

struct Stage {
    backend: Backend,
    scheduler: Scheduler,
}

impl Stage {
    /// A cluster where nobody schedules yet, with a namespace that may have pods.
    async fn set(&self, name: &str) -> Result<(Cluster, String)> {
        let controllers = match self.backend {
            Backend::KubeApiServer => Controllers::Theirs,
            Backend::Drydock => Controllers::Ours,
        };
        Cluster::unscheduled(name, self.backend, controllers, 2).await
    }
}

/// A scheduler of ours that asks these extenders.
async fn ours(extenders: &Value, cluster: &Cluster) -> Result<Running> {
    let configuration = configured(&json!({ "extenders": extenders }))?;
    let mut running = Running::start(configuration, cluster.kubeconfig()).await?;
    running.until(State::Deciding).await?;
    Ok(running)
}

async fn apply(cluster: &Cluster, namespace: &str, manifest: &str) -> Result<()> {
    cluster.kubectl_with(&["apply", "-n", namespace, "--filename", "-"], manifest).await.map(drop)
}

async fn shown(cluster: &Cluster, namespace: &str, what: &[&str], path: &str) -> Result<String> {
    let output = format!("--output=jsonpath={path}");
    cluster.kubectl(&[&["get", "-n", namespace], what, &[&output]].concat()).await
}

/// Where a pod is, once it has a node.
async fn placed(cluster: &Cluster, namespace: &str, name: &str) -> Result<String> {
    let pod = format!("pod/{name}");
    let wait = ["wait", &pod, "--for=condition=PodScheduled", "--timeout=30s", "-n", namespace];
    cluster.kubectl(&wait).await?;
    let node = shown(cluster, namespace, &["pod", name], "{.spec.nodeName}").await?;
    Ok(format!("{name}: {node}\n"))
}

/// What condition and event of a pod say, once it was refused for this reason.
async fn refused(cluster: &Cluster, namespace: &str, name: &str, reason: &str) -> Result<String> {
    let pod = format!("pod/{name}");
    let path = "{.status.conditions[?(@.type=='PodScheduled')]";
    let wanted = format!("--for=jsonpath={path}.reason}}={reason}");
    cluster.kubectl(&["wait", &pod, &wanted, "--timeout=30s", "-n", namespace]).await?;
    let said = format!("{path}['reason','message']}}");
    let condition = shown(cluster, namespace, &["pod", name], &said).await?;
    let which = format!("--field-selector=reason=FailedScheduling,involvedObject.name={name}");
    let wait = ["wait", "events", &which, "--for=create", "--timeout=30s", "-n", namespace];
    cluster.kubectl(&wait).await?;
    let message = shown(cluster, namespace, &["events", &which], "{.items[0].message}").await?;
    Ok(format!("{name}: {condition}\n{name} is told: {message}\n"))
}

/// Has a scheduler place all sorts of pods, and tells what came of each.
async fn played(stage: &Stage) -> Result<String> {
    let (cluster, namespace) = stage.set("extended").await?;
    let server = Server::start(cluster.kubeconfig()).await?;
    let (_held, nobody) = server::nobody()?;
    let extenders = extenders(&server.address, &nobody);
    let (mut running, mut theirs) = (None, None);
    match stage.scheduler {
        Scheduler::Theirs => {
            let binaries = Binaries::locate(&|line: &str| eprintln!("{line}"));
            let extra = json!({ "extenders": extenders });
            theirs = Some(Companion::kube_scheduler(&binaries, cluster.kubeconfig(), &extra)?);
        }
        _ => running = Some(ours(&extenders, &cluster).await?),
    }
    let placing =
        ["narrow", "narrow-names", "score", "both", "optional", "unscored", "bind", "others"];
    let failing = ["needed", "lie", "error", "broken", "hang"];
    let refusing = [("none", "narrow"), ("no-names", "narrow-names"), ("mute", "mute")];
    let own = placing.iter().chain(&failing).map(|name| (*name, *name));
    let manifest: String = own.chain(refusing).map(|(name, own)| pod(name, own)).collect();
    let manifest = manifest.replace("example.com/others", "cpu");
    apply(&cluster, &namespace, &manifest).await?;
    let mut told = String::new();
    for name in placing {
        told += &placed(&cluster, &namespace, name).await?;
    }
    for (name, _) in refusing {
        told += &refused(&cluster, &namespace, name, "Unschedulable").await?;
    }
    for name in failing {
        told += &refused(&cluster, &namespace, name, "SchedulerError").await?;
    }
    told += &format!("asked to bind: {}\n", server.bound());
    if let Some(theirs) = &mut theirs {
        theirs.check()?;
    }
    if let Some(running) = running {
        running.end().await?;
    }
    drop(theirs);
    cluster.end().await?;
    // What does not matter is where pods are that may be anywhere.
    let told = told.replace(&server.address, "{extender}").replace(&nobody, "{nobody}");
    let anywhere = |line: &str| {
        let name = line.split(':').next().unwrap_or_default();
        let free = ["optional", "unscored", "bind", "others"].contains(&name);
        if free { format!("{name}: somewhere\n") } else { format!("{line}\n") }
    };
    Ok(told.lines().map(anywhere).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn extenders_are_asked_as_kube_scheduler_asks_them() {
    let stages = [
        Stage { backend: Backend::KubeApiServer, scheduler: Scheduler::Theirs },
        Stage { backend: Backend::KubeApiServer, scheduler: Scheduler::Ours },
        Stage { backend: Backend::Drydock, scheduler: Scheduler::Ours },
    ];
    let mut played = join_all(stages.iter().map(played)).await.into_iter();
    let truth = played.next().unwrap().context("kube-scheduler").unwrap();
    eprintln!("{truth}");
    for (stage, ours) in stages[1..].iter().zip(played) {
        let ours = ours.with_context(|| stage.backend.name()).unwrap();
        let differing = differing(&ours, &truth);
        assert!(differing.is_empty(), "on {}:\n{differing}", stage.backend.name());
    }
    for line in ["narrow: node-0001", "score: node-0000", "both: node-0001", "asked to bind: bind"]
    {
        assert!(truth.contains(&format!("{line}\n")), "{line} is missing:\n{truth}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_that_hangs_holds_up_only_its_own_pods() {
    for backend in BACKENDS {
        let told = async {
            let stage = Stage { backend: *backend, scheduler: Scheduler::Ours };
            let (cluster, namespace) = stage.set("hanging").await?;
            let server = Server::start(cluster.kubeconfig()).await?;
            let slow = json!({ "filterVerb": "filter", "httpTimeout": "60s" });
            let extenders = json!([extender(&server.address, "hang", slow)]);
            let running = ours(&extenders, &cluster).await?;
            let more: String = ["hang-1", "hang-2"].map(|name| pod(name, "hang")).concat();
            apply(&cluster, &namespace, &more).await?;
            server.until_hanging().await?;
            let plain = pod("plain", "hang").replace("example.com/hang", "cpu");
            apply(&cluster, &namespace, &plain).await?;
            placed(&cluster, &namespace, "plain").await?;
            let nodes = shown(&cluster, &namespace, &["pods"], "{.items[*].spec.nodeName}").await?;
            ensure!(nodes.split_whitespace().count() == 1, "only one has a node: {nodes}");
            // A pod that is deleted while it is asked about makes room for the next question.
            let asked = server.hanging();
            let first = asked.first().context("somebody is asked about")?;
            cluster.kubectl(&["delete", "pod", first, "-n", &namespace]).await?;
            let begun = tokio::time::Instant::now();
            while server.hanging().len() < 2 {
                ensure!(begun.elapsed() < PATIENCE, "nobody asks about the other one");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            running.end_within(Duration::from_secs(10)).await?;
            cluster.end().await
        };
        let told: Result<()> = told.await;
        told.with_context(|| backend.name()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_extenders_can_see_wakes_the_pods_that_they_refused() {
    on_both("outside", async |yard| {
        let server = Server::start(yard.kubeconfig()).await?;
        let picky = json!({ "urlPrefix": format!("http://{}/picky", server.address),
            "filterVerb": "filter" });
        yard.node("a", 64).await?;
        let ours = yard.schedule(configured(&json!({ "extenders": [picky] }))?).await?;
        let signed = |sign: &str| {
            json!({ "metadata": { "annotations": {
            "example.com/sign": sign } } })
        };
        yard.pod_like("neighbour", "1", signed("anything")).await?;
        yard.until_on("neighbour", "a").await?;
        // One at a time, so that nothing else can wake it; each waits until it was told so.
        for wants in ["annotation", "condition", "neighbour", "nothing"] {
            let pod = format!("wants-{wants}");
            yard.pod_like(&pod, "1", signed(wants)).await?;
            yard.until_waits(&pod, "Unschedulable").await?;
            match wants {
                "annotation" => yard.patch_node("a", signed("free")).await?,
                "condition" => {
                    let holds = json!({ "type": "example.com/sign", "status": "True" });
                    let status = json!({ "status": { "conditions": [holds] } });
                    yard.patch_status("/api/v1/nodes/a", status).await?;
                }
                "neighbour" => {
                    let moved = json!({ "metadata": { "annotations": {
                        "example.com/moved": "yes" } } });
                    yard.patch_pod("neighbour", moved).await?;
                }
                _ => yard.patch_pod(&pod, signed("anything")).await?,
            }
            yard.until_on(&pod, "a").await?;
        }
        ours.end().await
    })
    .await;
}
