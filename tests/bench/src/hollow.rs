//! `gantry hollow-nodes` with many nodes on one core: do all heartbeats come in time?

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::Lease;
use chassis::client::{Client, ListOptions};
use jiff::Timestamp;

use crate::load;
use crate::report::{self, Bar};
use crate::subjects::{Cores, Gantry, HollowNodes, client};

/// Sizes of the cluster.
#[derive(clap::Args)]
pub struct Arguments {
    /// Hollow nodes.
    #[arg(long, default_value_t = 5_000)]
    nodes: usize,
    /// Pods, spread evenly.
    #[arg(long, default_value_t = 50_000)]
    pods: usize,
    /// How long the running nodes are watched, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// How long the cluster rests before it is measured.
const REST: Duration = Duration::from_secs(20);
/// How often the leases are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A lease is renewed every 10 s; twice that is late, and after 40 s a node counts as lost.
const RENEWED_SECONDS: Bar = Bar::Under(20.0);
/// One core, less what shows that it keeps up.
const CPU_PERCENT: Bar = Bar::Under(80.0);

/// Runs the measurement and says whether the bars are met.
///
/// # Errors
/// When a program does not start or a request fails.
pub async fn run(gantry: &Path, arguments: &Arguments) -> Result<bool> {
    let up = Gantry::start(gantry, &["--nodes", "0"])?;
    let hollow = HollowNodes::start(gantry, &up.kubeconfig, arguments.nodes, "", Cores::One)?;
    let registered = hollow.ready_after().as_secs_f64();
    eprintln!("{} nodes registered after {registered:.1} s", arguments.nodes);
    let client = client(&up.kubeconfig).await?;
    load::fill(&client, arguments.pods).await?;
    tokio::time::sleep(REST).await;
    let before = hollow.cost()?;
    let mut oldest = 0.0_f64;
    for _ in 0..arguments.seconds / LOOK_EVERY.as_secs() {
        tokio::time::sleep(LOOK_EVERY).await;
        oldest = oldest.max(oldest_lease_seconds(&client, arguments.nodes).await?);
    }
    let after = hollow.cost()?;
    let cpu = (after.cpu - before.cpu).as_secs_f64() / arguments.seconds as f64 * 100.0;
    let (nodes, pods) = (arguments.nodes, arguments.pods);
    let title = format!("{nodes} hollow nodes, {pods} running pods, kept to one core");
    report::head(&[&title, "measured", "bar"]);
    report::row(&["seconds until all were registered", &format!("{registered:.1}"), "none"]);
    let cpu = report::amount("percent of the core at rest", cpu, CPU_PERCENT);
    let oldest = report::amount("oldest heartbeat seen, seconds", oldest, RENEWED_SECONDS);
    let memory = after.memory_bytes as f64 / 1024.0 / 1024.0;
    report::row(&["resident MiB", &format!("{memory:.0}"), "none"]);
    Ok(cpu && oldest)
}

async fn oldest_lease_seconds(client: &Client, nodes: usize) -> Result<f64> {
    let leases = client.within::<Lease>("kube-node-lease");
    let leases = leases.list_all(&ListOptions { limit: 500, ..ListOptions::default() }).await?;
    ensure!(leases.len() == nodes, "there are {} leases for {nodes} nodes", leases.len());
    let renewed = leases.iter().map(|lease| lease.spec.renew_time).min().flatten();
    let renewed = renewed.context("a lease was never renewed")?;
    Ok(Timestamp::now().duration_since(renewed.timestamp()).as_secs_f64())
}
