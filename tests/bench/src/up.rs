//! `gantry up` as a newcomer starts it: how soon it is ready, how large it is then, and how soon a
//! Deployment runs that `kubectl apply` brings.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chassis::client::ListOptions;
use serde::Deserialize;
use serde_json::json;
use truth::{Binaries, Program};

use crate::report::{self, Bar, median};
use crate::subjects::{Gantry, client};

/// How often it is started.
#[derive(clap::Args)]
pub struct Arguments {
    /// Starts; the median counts.
    #[arg(long, default_value_t = 5)]
    starts: usize,
}

/// After this long nothing of the start is still under way.
const SETTLED: Duration = Duration::from_secs(5);
/// The bars: a second, sixty megabytes, and half a second.
const READY_SECONDS: Bar = Bar::Under(1.0);
const MEMORY_MB: Bar = Bar::Under(60.0);
const RUNNING_SECONDS: Bar = Bar::Under(0.5);
/// Pods of the Deployment.
const REPLICAS: usize = 3;
/// How often it is looked whether they run.
const LOOK: Duration = Duration::from_millis(5);
/// When it is given up.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct Pod {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: String,
}

/// Runs the measurement and says whether the bars are met.
///
/// # Errors
/// When the program does not start.
pub async fn run(gantry: &Path, arguments: &Arguments) -> Result<bool> {
    let kubectl = Binaries::locate(&|line: &str| eprintln!("{line}")).path(Program::Kubectl)?;
    let (mut ready, mut memory, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..arguments.starts {
        let up = Gantry::start(gantry, &[])?;
        ready.push(up.ready_after().as_secs_f64());
        tokio::time::sleep(SETTLED).await;
        memory.push(up.cost()?.memory_bytes as f64 / 1e6);
        runs.push(deploy(&kubectl, &up).await?.as_secs_f64());
    }
    let title = format!("gantry up, median of {} starts", arguments.starts);
    report::head(&[&title, "measured", "bar"]);
    let ready = report::amount("seconds until it is ready", median(&ready), READY_SECONDS);
    let memory = report::amount("resident MB", median(&memory), MEMORY_MB);
    let what = "seconds from the start of `kubectl apply` of a Deployment of 3 until all run";
    let runs = report::amount(what, median(&runs), RUNNING_SECONDS);
    Ok(ready && memory && runs)
}

/// From the start of `kubectl apply` until all pods of a Deployment run.
async fn deploy(kubectl: &PathBuf, up: &Gantry) -> Result<Duration> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let file = folder.path().join("deployment.json");
    let labels = json!({ "app": "web" });
    let containers = json!([{ "name": "web", "image": "web:1" }]);
    let template =
        json!({ "metadata": { "labels": labels }, "spec": { "containers": containers } });
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "replicas": REPLICAS, "selector": { "matchLabels": labels },
            "template": template } });
    std::fs::write(&file, deployment.to_string())?;
    let client = client(&up.kubeconfig).await?;
    let pods = client.access::<Pod>(crate::load::pods(), "default");
    let begun = Instant::now();
    let mut applying = Command::new(kubectl)
        .args(["apply", "-f"])
        .arg(&file)
        .env("KUBECONFIG", &up.kubeconfig)
        .env("HOME", folder.path())
        .stdout(Stdio::null())
        .spawn()
        .context("kubectl does not start")?;
    loop {
        let all = pods.list_all(&ListOptions::default()).await?;
        let running = all.iter().filter(|pod| pod.status.phase == "Running").count();
        if running == REPLICAS {
            break;
        }
        ensure!(begun.elapsed() < PATIENCE, "{running} of {REPLICAS} pods run");
        tokio::time::sleep(LOOK).await;
    }
    let took = begun.elapsed();
    ensure!(applying.wait()?.success(), "kubectl apply failed");
    Ok(took)
}
