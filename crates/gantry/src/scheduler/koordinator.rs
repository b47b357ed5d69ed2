//! Flags of Koordinator's scheduler, as its chart passes them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use chassis::serve::{Health, Metrics, Server, Site};
use chassis::shutdown::Shutdown;
use object::time;
use scheduler::config::Gates;
use scheduler::debug::Flags;
use scheduler::{Controllers, Options, Patience};

use crate::output;

/// What Koordinator's scheduler is told beyond kube-scheduler's flags.
#[derive(clap::Args)]
pub(super) struct KoordinatorArguments {
    /// Serve /metrics, /metrics/slis, /healthz, /livez and /readyz here over plain HTTP, to anyone who
    /// can reach it; 0 serves nothing
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,

    /// The address of --port
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    address: IpAddr,

    /// Feature gates of Koordinator's scheduler, as in CrossSchedulerNomination=true
    #[arg(long, value_name = "GATES")]
    feature_gates: Vec<String>,

    /// Which plugins look after objects: a name, -NAME for one that does not, and * for all others
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "*",
        allow_hyphen_values = true
    )]
    controller_plugins: Vec<String>,

    /// How often it is looked for decisions that last too long [default: 10s]
    #[arg(long, value_name = "DURATION")]
    scheduler_monitor_period: Option<time::Duration>,

    /// How long a decision may last before the log tells of it [default: 30s]
    #[arg(long, value_name = "DURATION")]
    scheduling_timeout: Option<time::Duration>,

    /// Tell in the log, of each attempt, so many of the best nodes with what each plugin gives them
    #[arg(long, short = 's', value_name = "COUNT", default_value_t = 0)]
    debug_scores: usize,

    /// Tell in the log, of each attempt, who refuses which nodes and why
    #[arg(
        long,
        short = 'f',
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    debug_filters: bool,

    /// Tell in the log all that is known of why a pod has no node
    #[arg(
        long,
        short = 'd',
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    debug_diagnosis: bool,

    /// Taken for Koordinator's manifests: trees of network topology are not built yet
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide = true
    )]
    enable_network_topology_manager: Option<bool>,

    /// Taken for Koordinator's manifests: no pod is taken from the queue and not decided about
    #[arg(long, value_name = "DURATION", hide = true)]
    scheduling_drop_unhandled_timeout: Option<time::Duration>,

    /// Taken for Koordinator's manifests: a new leader decides when it has seen what there was
    #[arg(long, value_name = "NAME", hide = true)]
    sync_barrier_pod_namespace: Option<String>,

    /// Taken for Koordinator's manifests: a new leader decides when it has seen what there was
    #[arg(long, value_name = "NAME", hide = true)]
    sync_barrier_pod_name: Option<String>,

    /// Taken for Koordinator's manifests: a new leader decides when it has seen what there was
    #[arg(long, value_name = "DURATION", hide = true)]
    sync_hard_timeout: Option<time::Duration>,
}

/// What these flags say.
pub(super) struct Told {
    gates: Gates,
    controllers: Controllers,
    patience: Patience,
}

impl Told {
    /// The options as the flags want them.
    pub(super) fn over(self, options: Options) -> Options {
        let Self { gates, controllers, patience } = self;
        Options { gates, controllers, patience, ..options }
    }
}

impl KoordinatorArguments {
    /// How the switches stand that tell more of decisions.
    pub(super) fn flags(&self) -> Flags {
        let (filters, diagnosis) = (self.debug_filters, self.debug_diagnosis);
        Flags { scores: self.debug_scores, filters, diagnosis }
    }

    /// What the flags say.
    ///
    /// # Errors
    /// When one of them cannot be so.
    pub(super) fn told(&self) -> Result<Told> {
        let gates = Gates::parse(&self.feature_gates.join(",")).context("--feature-gates")?;
        let names = self.controller_plugins.iter().map(String::as_str);
        let controllers = Controllers::parse(names).context("--controller-plugins")?;
        let Patience { period, timeout } = Patience::default();
        let period = given("--scheduler-monitor-period", self.scheduler_monitor_period, period)?;
        let timeout = given("--scheduling-timeout", self.scheduling_timeout, timeout)?;
        if self.enable_network_topology_manager == Some(true) {
            let flag = "--enable-network-topology-manager";
            output::note(&format!("{flag}: trees of network topology are not built yet"));
        }
        Ok(Told { gates, controllers, patience: Patience { period, timeout } })
    }

    /// Serves metrics and health over plain HTTP until shutdown begins, where that is asked for: pages
    /// that name pods are for those who are let in.
    pub(super) async fn start(
        &self,
        metrics: &Metrics,
        health: &Health,
        shutdown: &Shutdown,
    ) -> Result<()> {
        if self.port == 0 {
            return Ok(());
        }
        let address = SocketAddr::new(self.address, self.port);
        let server = Server::bind(address).await.context("--port (0 serves nothing)")?;
        output::note(&format!("health and metrics are on http://{}", server.address()));
        let site = Site::new(metrics, health);
        shutdown.spawn("plain port", server.run(site, shutdown.token()));
        Ok(())
    }
}

/// A duration that was given, which must be longer than none, or else this one.
pub(super) fn given(
    flag: &str,
    given: Option<time::Duration>,
    standard: Duration,
) -> Result<Duration> {
    let Some(given) = given else { return Ok(standard) };
    let nanos = u64::try_from(given.as_nanos()).ok().filter(|nanos| *nanos > 0);
    let nanos = nanos.with_context(|| format!("{flag} must be greater than zero"))?;
    Ok(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        own: KoordinatorArguments,
    }

    fn told(arguments: &[&str]) -> Result<Told, String> {
        let line = Line::try_parse_from(["test"].iter().chain(arguments)).unwrap();
        line.own.told().map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn what_flags_say_is_heeded_and_what_cannot_be_is_refused_with_the_flag() {
        let own = told(&[]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((own.gates, own.patience), (Gates::default(), Patience::default()));
        let flags = [
            "--controller-plugins=*,-Reservation",
            "--feature-gates=CrossSchedulerNomination=true",
            "--feature-gates=SyncBarrier=true",
            "--scheduling-timeout=1m",
        ];
        let own = told(&flags).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(Ok(own.controllers), Controllers::parse(["*", "-Reservation"]));
        assert!(own.gates.cross_scheduler_nomination);
        assert_eq!(own.patience.timeout, Duration::from_mins(1));
        let check = |flag: &str, begin: &str| {
            let error = told(&[flag]).err().unwrap_or_default();
            assert!(error.starts_with(begin), "{error}");
        };
        check("--feature-gates=Foo=true", "--feature-gates: there is no feature gate Foo; ");
        check("--controller-plugins=Foo", "--controller-plugins: there is no plugin \"Foo\": ");
        check("--scheduling-timeout=0s", "--scheduling-timeout must be greater than zero");
        check("--scheduler-monitor-period=-1s", "--scheduler-monitor-period must be greater");
    }
}
