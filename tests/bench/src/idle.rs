//! `gantry up` with many nodes and pods when nothing changes: memory and CPU.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use chassis::client::{Client, ListOptions, ResourceType};
use serde_json::Value;

use crate::load;
use crate::processes::cost_of;
use crate::subjects::{Gantry, client};

/// Sizes of the cluster.
#[derive(clap::Args)]
pub struct Arguments {
    /// Hollow nodes.
    #[arg(long, default_value_t = 5_000)]
    nodes: usize,
    /// Pods, spread evenly.
    #[arg(long, default_value_t = 50_000)]
    pods: usize,
    /// How long the idle cluster is measured, in seconds.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
}

/// How long the pods may take to run.
const RUNNING_WITHIN: Duration = Duration::from_secs(600);
/// How long the cluster rests before it is measured.
const REST: Duration = Duration::from_secs(20);
/// The bars: a GiB, and thirty percent of a core.
const MEMORY_BYTES_MAX: f64 = 1024.0 * 1024.0 * 1024.0;
const CPU_PERCENT_MAX: f64 = 30.0;

/// Runs the measurement and says whether the bars are met.
///
/// # Errors
/// When the program does not start or a request fails.
pub async fn run(gantry: &Path, arguments: &Arguments) -> Result<bool> {
    let nodes = arguments.nodes.to_string();
    let up = Gantry::start(gantry, &["--nodes", &nodes])?;
    eprintln!("up with {nodes} nodes after {:.1} s", up.ready_after.as_secs_f64());
    let client = client(&up.kubeconfig).await?;
    load::prepare(&client, 0).await?;
    let names = node_names(&client).await?;
    let node = |index: usize| names[index % names.len()].clone();
    let rate = load::create_and_bind(&client, "pod", arguments.pods, node).await?;
    eprintln!("{} pods created and bound, {rate:.0} a second", arguments.pods);
    tokio::time::timeout(RUNNING_WITHIN, all_running(&client))
        .await
        .context("the pods do not run")??;
    tokio::time::sleep(REST).await;
    let before = cost_of(&["gantry"])?;
    tokio::time::sleep(Duration::from_secs(arguments.seconds)).await;
    let after = cost_of(&["gantry"])?;
    let cpu = (after.cpu - before.cpu).as_secs_f64() / arguments.seconds as f64 * 100.0;
    let memory = after.memory_bytes as f64;
    println!("| {nodes} nodes, {} running pods, at rest | measured | bar |", arguments.pods);
    println!("|---|---|---|");
    println!("| resident MiB | {:.0} | under 1024 |", memory / 1024.0 / 1024.0);
    println!("| percent of one core | {cpu:.1} | under {CPU_PERCENT_MAX:.0} |");
    Ok(memory < MEMORY_BYTES_MAX && cpu < CPU_PERCENT_MAX)
}

async fn node_names(client: &Client) -> Result<Vec<String>> {
    let nodes = client.access::<Value>(ResourceType::cluster("", "v1", "nodes"), "");
    let nodes = nodes.list_all(&ListOptions { limit: 500, ..ListOptions::default() }).await?;
    let name = |node: &Value| node["metadata"]["name"].as_str().map(str::to_owned);
    Ok(nodes.iter().filter_map(name).collect())
}

async fn all_running(client: &Client) -> Result<()> {
    let pods = client.access::<Value>(ResourceType::namespaced("", "v1", "pods"), load::NAMESPACE);
    loop {
        let options = ListOptions {
            field_selector: "status.phase=Running".to_owned(),
            limit: 1,
            ..ListOptions::default()
        };
        let rest =
            ListOptions { field_selector: "status.phase!=Running".to_owned(), ..options.clone() };
        let some_run = !pods.list(&options).await?.items.is_empty();
        if some_run && pods.list(&rest).await?.items.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
