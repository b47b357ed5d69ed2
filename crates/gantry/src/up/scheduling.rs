//! Who gives pods their nodes.

use std::path::PathBuf;

use anyhow::{Result, bail};
use chassis::client::{Client, Options};
use chassis::serve::{Health, Metrics};
use chassis::shutdown::Shutdown;
use clap::ValueEnum;
use scheduler::config::Configuration;
use scheduler::debug::Desk;
use scheduler::{Clients, RunError, State};
use tokio::sync::{oneshot, watch};

use crate::machine;
use crate::scheduler::readiness;

/// The name of the check whether it works.
pub(super) const CHECK: &str = crate::scheduler::CHECK;

/// Who gives pods their nodes.
#[derive(clap::Args)]
pub(crate) struct SchedulerArguments {
    /// Who gives pods their nodes
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Choice::Gantry)]
    scheduler: Choice,

    /// A KubeSchedulerConfiguration, version kubescheduler.config.k8s.io/v1 [default: pods of
    /// default-scheduler get nodes as from kube-scheduler, and those of koord-scheduler as
    /// Koordinator's chart has it]
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// Gantry's own scheduler
    Gantry,
    /// Nobody: bind pods yourself, or run another scheduler
    None,
}

impl SchedulerArguments {
    /// Whether it is us.
    pub(super) fn is_any(&self) -> bool {
        self.scheduler == Choice::Gantry
    }

    /// What it is told to do; none where it is not us. Nobody else is let in, so it contends for no
    /// lease.
    ///
    /// # Errors
    /// When the file cannot be used, or nobody would read it.
    pub(super) fn configuration(&self) -> Result<Option<Configuration>> {
        let configuration = match (&self.scheduler_config, self.scheduler) {
            (None, Choice::None) => return Ok(None),
            (Some(file), Choice::None) => bail!(
                "--scheduler-config {} is for Gantry's own scheduler, and --scheduler none leaves it \
                 out: remove one of the two",
                file.display()
            ),
            (None, Choice::Gantry) => Configuration::of_both(),
            (Some(file), Choice::Gantry) => {
                let own = scheduler::config::load(file)?;
                // What does nothing yet is told to who asked for it.
                scheduler::tell_of_plugins_to_come(&own);
                own
            }
        };
        Ok(Some(Configuration { leader_election: None, ..configuration }))
    }
}

/// Starts a scheduler that is told this, which goes on until shutdown begins.
pub(super) fn start(
    configuration: Configuration,
    make: impl Fn(&Options) -> Client,
    (seed, metrics, health): (u64, &Metrics, &Health),
    desk: Desk,
    shutdown: &Shutdown,
) -> Scheduling {
    let clients = Clients::made(&configuration.client_connection, make);
    let options = scheduler::Options {
        seed,
        host: machine::host_name().unwrap_or_else(|| "localhost".to_owned()),
        metrics: metrics.clone(),
        health: health.clone(),
        desk,
        // Its server knows the kind, and lets it read all of them.
        explains: true,
        ..scheduler::Options::new(configuration, "gantry up")
    };
    let state = options.state.subscribe();
    readiness(&options);
    let (token, ending) = (shutdown.token(), shutdown.clone());
    let (failed, failure) = oneshot::channel();
    shutdown.spawn("scheduler", async move {
        if let Err(error) = scheduler::run(clients, options, token).await {
            // Whoever waited for it tells; without it the rest is of no use.
            let _ = failed.send(error);
            ending.begin();
        }
    });
    Scheduling { state, failure }
}

/// A scheduler that has been started.
pub(super) struct Scheduling {
    state: watch::Receiver<State>,
    failure: oneshot::Receiver<RunError>,
}

impl Scheduling {
    /// Comes when it decides.
    pub(super) async fn ready(&mut self) {
        if self.state.wait_for(|state| *state == State::Deciding).await.is_err() {
            // It ends before that only when everything does.
            std::future::pending::<()>().await;
        }
    }

    /// What ended it, where something did.
    pub(super) fn failure(&mut self) -> Option<RunError> {
        self.failure.try_recv().ok()
    }
}
