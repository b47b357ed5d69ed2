//! Who gives pods their nodes.

use chassis::client::{Client, Options};
use chassis::serve::{Health, Metrics};
use chassis::shutdown::Shutdown;
use clap::ValueEnum;
use scheduler::config::Configuration;
use scheduler::debug::Desk;
use scheduler::{Clients, State};
use tokio::sync::watch;

use crate::scheduler::readiness;
use crate::{machine, output};

/// The name of the check whether it works.
pub(super) const CHECK: &str = crate::scheduler::CHECK;

/// Who gives pods their nodes.
#[derive(clap::Args)]
pub(crate) struct SchedulerArguments {
    /// Who gives pods their nodes
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Choice::Gantry)]
    scheduler: Choice,
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

    /// Where it will be asked what goes on inside; none where it is not us.
    pub(super) fn desk(&self) -> Option<Desk> {
        self.is_any().then(Desk::default)
    }

    /// Starts the scheduler, which goes on until shutdown begins. Nobody else is let in, so it
    /// contends for no lease.
    pub(super) fn start(
        &self,
        make: impl Fn(&Options) -> Client,
        (seed, metrics, health): (u64, &Metrics, &Health),
        desk: Option<Desk>,
        shutdown: &Shutdown,
    ) -> Scheduling {
        let Some(desk) = desk else { return Scheduling(None) };
        let configuration = Configuration { leader_election: None, ..Configuration::default() };
        let clients = Clients::made(&configuration.client_connection, make);
        let (metrics, health) = (metrics.clone(), health.clone());
        let options = scheduler::Options {
            seed,
            host: machine::host_name().unwrap_or_else(|| "localhost".to_owned()),
            metrics,
            health,
            desk,
            ..scheduler::Options::new(configuration, "gantry up")
        };
        let state = options.state.subscribe();
        readiness(&options);
        let (token, ending) = (shutdown.token(), shutdown.clone());
        shutdown.spawn("scheduler", async move {
            if let Err(error) = scheduler::run(clients, options, token).await {
                output::note(&format!("the scheduler cannot run: {error}"));
                ending.begin();
            }
        });
        Scheduling(Some(state))
    }
}

/// A scheduler that has been started, where one was asked for.
pub(super) struct Scheduling(Option<watch::Receiver<State>>);

impl Scheduling {
    /// Comes when it decides.
    pub(super) async fn ready(&mut self) {
        if let Some(state) = &mut self.0 {
            // It ends before that only when everything does.
            let _ = state.wait_for(|state| *state == State::Deciding).await;
        }
    }
}
