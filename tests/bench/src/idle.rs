//! `gantry up` with many nodes and pods when nothing changes: memory and CPU.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::load;
use crate::report::{self, Bar};
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

/// How long the cluster rests before it is measured.
const REST: Duration = Duration::from_secs(20);
/// The bars: a GiB, and thirty percent of a core.
const MEMORY_MIB: Bar = Bar::Under(1024.0);
const CPU_PERCENT: Bar = Bar::Under(30.0);

/// Runs the measurement and says whether the bars are met.
///
/// # Errors
/// When the program does not start or a request fails.
pub async fn run(gantry: &Path, arguments: &Arguments) -> Result<bool> {
    let nodes = arguments.nodes.to_string();
    let up = Gantry::start(gantry, &["--nodes", &nodes])?;
    eprintln!("up with {nodes} nodes after {:.1} s", up.ready_after().as_secs_f64());
    let client = client(&up.kubeconfig).await?;
    load::fill(&client, arguments.pods).await?;
    tokio::time::sleep(REST).await;
    let before = up.cost()?;
    tokio::time::sleep(Duration::from_secs(arguments.seconds)).await;
    let after = up.cost()?;
    let cpu = (after.cpu - before.cpu).as_secs_f64() / arguments.seconds as f64 * 100.0;
    let title = format!("{nodes} nodes, {} running pods, at rest", arguments.pods);
    report::head(&[&title, "measured", "bar"]);
    let memory = after.memory_bytes as f64 / 1024.0 / 1024.0;
    let memory = report::amount("resident MiB", memory, MEMORY_MIB);
    let cpu = report::amount("percent of one core", cpu, CPU_PERCENT);
    Ok(memory && cpu)
}
