//! `gantry hollow-nodes`: simulated nodes on any API server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use chassis::client::{Client, Options, Source};
use chassis::clock::Clock;
use chassis::shutdown::Shutdown;
use hollow::NodeGroup;

/// How long tasks may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// Run nodes whose kubelet is simulated, against any API server
///
/// The nodes register, send heartbeats, run the pods that are bound to them through their life
/// and report load. They go on until Ctrl-C; their Node objects stay.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  gantry hollow-nodes --kubeconfig ~/.kube/config --nodes 100
  gantry hollow-nodes --nodes 100x32cpu,256Gi --nodes 8x96cpu,1Ti,8nvidia.com/gpu")]
pub(crate) struct Arguments {
    /// The kubeconfig of the API server; otherwise KUBECONFIG, ~/.kube/config, or the pod's own
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    #[command(flatten)]
    nodes: NodeArguments,
}

/// Which nodes to simulate.
#[derive(clap::Args)]
pub(crate) struct NodeArguments {
    /// Nodes: a count, or COUNTxTYPE such as 100x32cpu,256Gi; repeatable
    #[arg(long, value_name = "NODES", default_value = "5")]
    nodes: Vec<NodeGroup>,

    /// What the simulated load is drawn from
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

impl NodeArguments {
    /// How many nodes that makes.
    pub(crate) fn count(&self) -> usize {
        self.nodes.iter().map(NodeGroup::count).sum()
    }

    /// The options that run them.
    pub(crate) fn options(&self, clock: &Clock) -> hollow::Options {
        hollow::Options::new(self.nodes.clone(), self.seed, clock.clone())
    }

    /// The seed.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }
}

/// Runs the command.
#[tokio::main]
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let clock = Clock::system();
    let shutdown = Shutdown::new();
    shutdown.listen_for_signals()?;
    let source = Source::from_flags(arguments.kubeconfig.clone(), arguments.context.clone());
    let client = Client::connect(&source, &Options::new("hollow-nodes")).await?;
    let count = arguments.nodes.count();
    println!("registering {count} nodes");
    let nodes = hollow::start(&client, arguments.nodes.options(&clock), &shutdown);
    tokio::select! {
        ready = nodes.ready() => {
            ready?;
            println!("{count} nodes are ready; Ctrl-C ends them");
        }
        () = shutdown.begun() => {}
    }
    shutdown.begun().await;
    Ok(shutdown.join(&clock, GRACE).await?)
}
