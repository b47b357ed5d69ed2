//! `gantry hollow-nodes`: simulated nodes on any API server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use chassis::client::{Client, Options, Source};
use chassis::clock::Clock;
use chassis::serve::{Health, Metrics};
use chassis::shutdown::Shutdown;
use hollow::{GroupError, Hollow, NodeGroup, Progress, RunError, Setup};
use tokio::sync::{oneshot, watch};

use crate::metrics::MetricsArguments;
use crate::progress::Line;

/// How long tasks may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// Run nodes whose kubelet is simulated, against any API server
///
/// The nodes register, send heartbeats, run the pods that are bound to them through their life
/// and report load. They go on until Ctrl-C; their Node objects stay, and another run takes
/// them up again.
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

    #[command(flatten)]
    metrics: MetricsArguments,
}

/// Which nodes to simulate.
#[derive(clap::Args)]
pub(crate) struct NodeArguments {
    /// Nodes: a count, or COUNTxTYPE such as 100x32cpu,256Gi; repeatable
    #[arg(long, value_name = "NODES", default_value = "5", value_parser = parse_nodes)]
    nodes: Vec<Option<NodeGroup>>,

    /// What every choice that looks random is drawn from: load, delays, and with `up` also uids
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// A group of nodes; none where somebody wants no nodes, as one may with `up`.
fn parse_nodes(text: &str) -> Result<Option<NodeGroup>, GroupError> {
    if text == "0" { Ok(None) } else { text.parse().map(Some) }
}

impl NodeArguments {
    /// How many nodes that makes.
    pub(crate) fn count(&self) -> usize {
        self.nodes.iter().flatten().map(|group| group.count as usize).sum()
    }

    /// Starts the nodes, which go on until shutdown begins.
    pub(crate) fn start(
        &self,
        client: &Client,
        shown: (&Metrics, &Health),
        shutdown: &Shutdown,
    ) -> Result<Registration> {
        let (metrics, health) = shown;
        let groups = self.nodes.iter().flatten().cloned().collect();
        let setup = Setup { groups, seed: self.seed, ..Setup::default() };
        let options =
            hollow::Options { setup, metrics: metrics.clone(), ..hollow::Options::default() };
        let hollow = Hollow::new(client.clone(), options)?;
        let progress = hollow.progress();
        let seen = progress.clone();
        health.add_ready("nodes", move || {
            let progress = *seen.borrow();
            match progress.is_ready() {
                true => Ok(()),
                false => Err(format!("{} of {} registered", progress.registered, progress.total)),
            }
        });
        let (failed, failure) = oneshot::channel();
        let ending = shutdown.clone();
        shutdown.spawn("hollow nodes", async move {
            if let Err(error) = hollow.run(&ending).await {
                // Whoever waited for the nodes tells; without nodes the rest is of no use.
                let _ = failed.send(error);
                ending.begin();
            }
        });
        Ok(Registration { progress, failure })
    }
}

/// Nodes that are being registered.
pub(crate) struct Registration {
    progress: watch::Receiver<Progress>,
    failure: oneshot::Receiver<RunError>,
}

impl Registration {
    /// Waits until the API server knows every node, telling how far it is.
    pub(crate) async fn finish(&mut self, line: &Line) -> Result<()> {
        loop {
            let progress = *self.progress.borrow_and_update();
            if progress.is_ready() {
                return Ok(());
            }
            line.say(&format!("registering nodes: {} of {}", progress.registered, progress.total));
            tokio::select! {
                changed = self.progress.changed() => {
                    changed.context("the nodes ended before they were registered")?;
                }
                failure = &mut self.failure => {
                    return Err(failure.map_or_else(|_| anyhow!("the nodes ended"), Into::into));
                }
            }
        }
    }

    /// The failure that ended the nodes, where one did.
    pub(crate) fn failure(&mut self) -> Option<RunError> {
        self.failure.try_recv().ok()
    }
}

/// Runs the command.
#[tokio::main]
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let clock = Clock::system();
    let shutdown = Shutdown::new();
    shutdown.listen_for_signals()?;
    if arguments.nodes.count() == 0 {
        bail!("there is nothing to run without nodes: ask for some with --nodes");
    }
    let line = Line::new();
    let source = Source::from_flags(arguments.kubeconfig.clone(), arguments.context.clone());
    let client = Client::connect(&source, &Options::new("hollow-nodes")).await?;
    let (metrics, health) = arguments.metrics.start(&shutdown).await?;
    let mut nodes = arguments.nodes.start(&client, (&metrics, &health), &shutdown)?;
    tokio::select! {
        registered = nodes.finish(&line) => {
            registered?;
            line.end(&format!("{} nodes are registered. Ctrl-C ends them.", arguments.nodes.count()));
        }
        () = shutdown.begun() => {}
    }
    shutdown.begun().await;
    shutdown.join(&clock, GRACE).await?;
    nodes.failure().map_or(Ok(()), |error| Err(error.into()))
}
