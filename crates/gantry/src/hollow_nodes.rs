//! `gantry hollow-nodes`: simulated nodes on any API server.

use std::path::PathBuf;

use anyhow::{Result, bail};
use chassis::client::{Call, Client, Error, Options, Reason, Source};
use chassis::clock::Clock;
use chassis::serve::{Health, Metrics};
use chassis::shutdown::{GRACE, Shutdown};
use hollow::{GroupError, Hollow, NodeGroup, Progress, RunError, Setup};
use tokio::sync::{oneshot, watch};

use crate::machine;
use crate::metrics::MetricsArguments;
use crate::progress::Line;

/// The seed unless one is given: nodes that another run takes up stay what they were.
const SEED_DEFAULT: u64 = 1;

/// Run nodes whose kubelet is simulated, against any API server
///
/// The nodes register, send heartbeats, run the pods that are bound to them through their life
/// and report load. They go on until Ctrl-C; their Node objects stay, and another run takes
/// them up again. Nodes that another process runs are left to it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  gantry hollow-nodes --kubeconfig ~/.kube/config --nodes 100
  gantry hollow-nodes --nodes 100x32cpu,256Gi --nodes 8x96cpu,1Ti,8nvidia.com/gpu
  gantry hollow-nodes --kubeconfig ~/.kube/gantry.yaml --nodes 10xname=extra")]
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
    /// Nodes: a count, a type, which makes one node, or COUNTxTYPE such as 100x32cpu,256Gi;
    /// repeatable
    ///
    /// The pieces of a type are separated by commas. Left out, they are by default: 8cpu, 32Gi
    /// (memory), 110pods, disk=100Gi, name=node (start of the names), zone=zone-a, region=local,
    /// arch=amd64, numa=1 (NUMA nodes), sockets=1, threads=2 (of a core), numa-policy=None. There may
    /// also be: zone=a+b (in turn), type=m5.large, 2example.com/resource, numa=none (does not report
    /// where its CPUs are), label:KEY=VALUE, taint:KEY=VALUE:EFFECT
    #[arg(
        long,
        value_name = "NODES",
        default_value = "5",
        allow_negative_numbers = true,
        value_parser = parse_nodes
    )]
    nodes: Vec<Option<NodeGroup>>,

    /// What every choice that looks random is drawn from: load, delays, and with `up` also uids
    /// [default: 1; with `up` a number of its own for every run]
    #[arg(
        long,
        value_name = "NUMBER",
        allow_negative_numbers = true,
        value_parser = parse_seed
    )]
    pub(crate) seed: Option<u64>,
}

/// A group of nodes; none where somebody wants no nodes, as one may with `up`.
fn parse_nodes(text: &str) -> Result<Option<NodeGroup>, String> {
    if text.starts_with('-') {
        return Err("write a number such as 5, or a type such as 3x8cpu,32Gi".to_owned());
    }
    if text == "0" {
        return Ok(None);
    }
    // The value as a whole is named before the message.
    text.parse().map(Some).map_err(|GroupError { value, piece, problem }| match value == piece {
        true => problem,
        false => format!("{piece:?}: {problem}"),
    })
}

fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("write a whole number from 0 to {}", u64::MAX))
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
        run: &Run<'_>,
        shutdown: &Shutdown,
    ) -> Result<Registration> {
        let Run { seed, metrics, health, .. } = *run;
        let groups = self.nodes.iter().flatten().cloned().collect();
        let setup = Setup { groups, seed, holder: run.holder(), ..Setup::default() };
        let options =
            hollow::Options { setup, metrics: metrics.clone(), ..hollow::Options::default() };
        let hollow = Hollow::new(client.clone(), options)?;
        let progress = hollow.progress();
        let seen = progress.clone();
        health.add_ready(CHECK, move || {
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

/// The name of the check whether the nodes run.
pub(crate) const CHECK: &str = "nodes";

/// Who runs the nodes, and where that is told.
pub(crate) struct Run<'a> {
    /// The command.
    pub(crate) name: &'static str,
    /// What every choice is drawn from.
    pub(crate) seed: u64,
    /// Where the nodes count.
    pub(crate) metrics: &'a Metrics,
    /// Where they tell whether they run.
    pub(crate) health: &'a Health,
}

impl Run<'_> {
    /// How another process is told who runs the nodes.
    fn holder(&self) -> String {
        let host = machine::host_name().unwrap_or_else(|| "a machine without a name".to_owned());
        format!("{} on {host}, process {}", self.name, std::process::id())
    }
}

/// Nodes that are being registered.
pub(crate) struct Registration {
    progress: watch::Receiver<Progress>,
    failure: oneshot::Receiver<RunError>,
}

impl Registration {
    /// Waits until the API server knows every node or shutdown begins, telling how far it is.
    ///
    /// # Errors
    /// When the nodes end by themselves.
    pub(crate) async fn finish(&mut self, line: &Line, shutdown: &Shutdown) -> Result<()> {
        loop {
            let progress = *self.progress.borrow_and_update();
            if progress.is_ready() || shutdown.has_begun() {
                return Ok(());
            }
            match progress.suspected {
                0 => line.say(
                    "registering nodes:",
                    &format!("{} of {}", progress.registered, progress.total),
                ),
                n => line.say("waiting to see who else runs these nodes:", &format!("{n} left")),
            }
            let changed = tokio::select! {
                changed = self.progress.changed() => changed,
                () = shutdown.begun() => return Ok(()),
            };
            if changed.is_err() {
                // The nodes have ended. Why is told last, and nothing is told where they were asked to.
                return match (&mut self.failure).await {
                    Ok(failure) => Err(failure.into()),
                    Err(_) if shutdown.has_begun() => Ok(()),
                    Err(_) => bail!("the nodes ended before they were registered"),
                };
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
    let source = Source::from_flags(arguments.kubeconfig.clone(), arguments.context.clone());
    let client = Client::connect(&source, &Options::new("hollow-nodes")).await?;
    tokio::select! {
        reached = reach(&client) => reached?,
        () = shutdown.begun() => return Ok(()),
    }
    let health = Health::new();
    let metrics = arguments.metrics.start(&health, &shutdown).await?;
    let seed = arguments.nodes.seed.unwrap_or(SEED_DEFAULT);
    let run = Run { name: "gantry hollow-nodes", seed, metrics: &metrics, health: &health };
    let mut nodes = arguments.nodes.start(&client, &run, &shutdown)?;
    let result = keep_running(arguments, &mut nodes, &shutdown).await;
    shutdown.begin();
    let joined = shutdown.join(&clock, GRACE).await;
    result?;
    joined?;
    nodes.failure().map_or(Ok(()), |error| Err(error.into()))
}

/// Makes sure that there is a server which lets us in, before anything waits for one.
async fn reach(client: &Client) -> Result<()> {
    let call = Call::new(http::Method::GET, "/version");
    match client.call_bytes(call).await {
        // Not everybody may ask for it; what the nodes may do, their own requests tell.
        Err(error) if error.reason() == Some(&Reason::Forbidden) => Ok(()),
        Err(error @ (Error::Unreachable { .. } | Error::TimedOut { .. })) => {
            bail!("{error}; start that server, or name another one with --kubeconfig or --context")
        }
        answer => answer.map(|_| ()).map_err(Into::into),
    }
}

/// Tells how far the nodes are and waits until they are to end.
async fn keep_running(
    arguments: &Arguments,
    nodes: &mut Registration,
    shutdown: &Shutdown,
) -> Result<()> {
    let line = Line::new();
    nodes.finish(&line, shutdown).await?;
    if !shutdown.has_begun() {
        let count = arguments.nodes.count();
        line.end(&match count {
            1 => "1 node is registered. Ctrl-C ends it.".to_owned(),
            _ => format!("{count} nodes are registered. Ctrl-C ends them."),
        })?;
    }
    shutdown.begun().await;
    Ok(())
}
