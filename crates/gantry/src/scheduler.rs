//! `gantry scheduler`: pods get nodes, on any API server.

mod koordinator;
mod port;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use chassis::client::{Source, UnderWay};
use chassis::clock::Clock;
use chassis::serve::{Health, Site};
use chassis::shutdown::Shutdown;
use object::time;
use scheduler::config::{Configuration, LeaderElection};
use scheduler::debug::Desk;
use scheduler::{Clients, Ending, Options, State};
use tokio::sync::watch;

use crate::metrics::MetricsArguments;
use crate::{machine, output};
use koordinator::{KoordinatorArguments, given};
use port::PortArguments;

/// How long tasks may take to end; longer than a Binding may go unanswered.
const GRACE: Duration = Duration::from_secs(20);
/// The name of the check whether it works.
pub(crate) const CHECK: &str = "scheduler";

/// Give pods their nodes, in kube-scheduler's place
///
/// It takes kube-scheduler's configuration file and contends for the same lease, so that of the
/// two only one works. Without --config it does what kube-scheduler does by default.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  gantry scheduler --kubeconfig ~/.kube/config
  gantry scheduler --config scheduler.yaml --secure-port 0 --metrics localhost:10251
  gantry scheduler --kubeconfig ~/.kube/config --leader-elect=false")]
pub(crate) struct Arguments {
    /// A KubeSchedulerConfiguration, version kubescheduler.config.k8s.io/v1
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The kubeconfig of the API server; otherwise that of the configuration file, KUBECONFIG,
    /// ~/.kube/config, or the pod's own
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    #[command(flatten)]
    election: ElectionArguments,

    #[command(flatten)]
    port: PortArguments,

    #[command(flatten)]
    metrics: MetricsArguments,

    /// Answer ScheduleExplanations: say in the status of each why the pod that it names has no node,
    /// and delete it when it has lived its time. It needs rights that kube-scheduler's role does not
    /// give
    #[arg(long)]
    explanations: bool,

    #[command(flatten)]
    koordinator: KoordinatorArguments,

    /// What ties between nodes that are equally good are drawn from [default: a number of its own
    /// for every run]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Taken for kube-scheduler's manifests: --log says what is logged
    #[arg(long, short = 'v', value_name = "LEVEL", hide = true)]
    v: Option<u8>,

    /// Taken for kube-scheduler's manifests: no profiles of the process are served
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide = true
    )]
    profiling: Option<bool>,

    /// Not supported: name the server in a kubeconfig
    #[arg(long, value_name = "URL", hide = true)]
    master: Option<String>,
}

/// How one of several schedulers becomes the one that works. What is given here goes before the
/// configuration file.
#[derive(clap::Args)]
struct ElectionArguments {
    /// Whether to contend for a lease before scheduling [default: true]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    leader_elect: Option<bool>,

    /// How long others leave a leader alone that does not renew, as in 15s
    #[arg(long, value_name = "DURATION")]
    leader_elect_lease_duration: Option<time::Duration>,

    /// How long a leader tries to renew before it gives up, as in 10s
    #[arg(long, value_name = "DURATION")]
    leader_elect_renew_deadline: Option<time::Duration>,

    /// How long to wait between tries, as in 2s
    #[arg(long, value_name = "DURATION")]
    leader_elect_retry_period: Option<time::Duration>,

    /// The name of the lease [default: kube-scheduler]
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,

    /// The namespace of the lease [default: kube-system]
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_namespace: Option<String>,

    /// The kind of lock: leases is the only one
    #[arg(long, value_name = "KIND", value_parser = ["leases"])]
    leader_elect_resource_lock: Option<String>,
}

impl ElectionArguments {
    /// The election as the flags want it.
    fn over(&self, file: Option<LeaderElection>) -> Result<Option<LeaderElection>> {
        let wanted = self.leader_elect.unwrap_or(file.is_some());
        if !wanted {
            return Ok(None);
        }
        let standard = || Configuration::default().leader_election;
        let mut election = file.or_else(standard).context("there is a default election")?;
        let durations = [
            (
                "--leader-elect-lease-duration",
                self.leader_elect_lease_duration,
                &mut election.lease_duration,
            ),
            (
                "--leader-elect-renew-deadline",
                self.leader_elect_renew_deadline,
                &mut election.renew_deadline,
            ),
            (
                "--leader-elect-retry-period",
                self.leader_elect_retry_period,
                &mut election.retry_period,
            ),
        ];
        for (flag, wanted, own) in durations {
            *own = given(flag, wanted, *own)?;
        }
        if let Some(name) = &self.leader_elect_resource_name {
            election.name.clone_from(name);
        }
        if let Some(namespace) = &self.leader_elect_resource_namespace {
            election.namespace.clone_from(namespace);
        }
        Ok(Some(election))
    }
}

/// Adds the check whether a scheduler works, or waits for its turn and could take over: one that
/// cannot read what there is must not be taken for a stand-in of the one that works.
pub(crate) fn readiness(options: &Options) {
    let (state, awaited) = (options.state.subscribe(), options.awaited.clone());
    options.health.add_ready(CHECK, move || match *state.borrow() {
        State::Reading => Err(format!("it has not read what there is: {awaited}")),
        State::Standby => awaited.in_the_way().map_or(Ok(()), Err),
        State::Deciding => Ok(()),
    });
}

/// Runs the command.
///
/// One thread talks to the API server, beside that of the engine.
pub(crate) fn run(arguments: Arguments) -> Result<()> {
    let writes = UnderWay::default();
    let runtime = chassis::runtime::of_one_thread(&writes)
        .context("cannot start what waits for input and output")?;
    runtime.block_on(serve(arguments, &writes))
}

async fn serve(arguments: Arguments, writes: &UnderWay) -> Result<()> {
    if let Some(master) = &arguments.master {
        bail!(
            "--master {master} is not supported: write a kubeconfig with that server and its \
             certificate, and name it with --kubeconfig"
        );
    }
    let mut configuration = match &arguments.config {
        Some(file) => scheduler::config::load(file)?,
        None => Configuration::default(),
    };
    scheduler::tell_of_plugins_to_come(&configuration);
    configuration.leader_election = arguments.election.over(configuration.leader_election)?;
    let told = arguments.koordinator.told()?;
    let clock = Clock::system();
    let shutdown = Shutdown::new();
    shutdown.listen_for_signals()?;
    let connection = &configuration.client_connection;
    let kubeconfig = arguments.kubeconfig.clone().or_else(|| connection.kubeconfig.clone());
    let source = Source::from_flags(kubeconfig, arguments.context.clone());
    let clients = Clients::connect(connection, &source, writes).await?;
    let health = Health::new();
    let desk = Desk::default();
    desk.switches().set_to(arguments.koordinator.flags());
    let metrics = arguments.metrics.start_with(&health, &shutdown, Some(&desk)).await?;
    arguments.koordinator.start(&metrics, &health, &shutdown).await?;
    let site = scheduler::debug::pages(Site::new(&metrics, &health), &desk);
    arguments.port.start(&clients.read.counted(&metrics), site, &shutdown).await?;
    let seed = arguments.seed.map_or_else(drydock::serve::seed, Ok)?;
    let host = machine::host_name().unwrap_or_else(|| "localhost".to_owned());
    let identity = format!("{host}_{:016x}", drydock::serve::seed()?);
    let explains = arguments.explanations;
    let own = Options::new(configuration, &identity);
    let options = Options { seed, host, metrics, health, desk, explains, ..own };
    let options = told.over(options);
    readiness(&options);
    shutdown
        .spawn("progress", progress(options.state.subscribe(), shutdown.clone(), names(&options)));
    let ended = scheduler::run(clients, options, shutdown.token()).await;
    shutdown.begin();
    let joined = shutdown.join(&clock, GRACE).await;
    let ended = ended?;
    joined?;
    match ended {
        Ending::Stopped => Ok(()),
        Ending::LeadershipLost => {
            bail!("the lease was lost: another scheduler may work by now; start this one again")
        }
    }
}

fn names(options: &Options) -> String {
    let profiles = options.configuration.profiles.iter();
    profiles.map(|profile| profile.scheduler_name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Tells how far the scheduler is.
async fn progress(mut state: watch::Receiver<State>, shutdown: Shutdown, names: String) {
    loop {
        match *state.borrow_and_update() {
            State::Standby => output::note("waiting for the lease"),
            State::Reading => output::note("reading what there is"),
            State::Deciding => output::note(&format!("giving nodes to pods of {names}")),
        }
        tokio::select! {
            changed = state.changed() => if changed.is_err() { return },
            () = shutdown.begun() => return,
        }
    }
}
