//! Schedulers that stand by: they know what there is, write nothing, and take over at once.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use chassis::client::Source;
use chassis::serve::Metrics;
use chassis::shutdown::Shutdown;
use scenarios::backend::{BACKENDS, Backend};
use scenarios::system::{Cluster, PATIENCE};
use scheduler::config::{Configuration, LeaderElection};
use scheduler::{Clients, State};
use tokio::sync::watch;

use crate::scheduling::{all_ready, create, end, unscheduled, until};

/// How long a candidate waits between tries.
const RETRY: Duration = Duration::from_millis(100);
/// How long it may take from the end of a leader to the next one's decisions, of which the tries
/// take a part; the rest is for a machine that does other things.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(3);

/// A scheduler that contends for the lease.
struct Contender {
    state: watch::Receiver<State>,
    metrics: Metrics,
    shutdown: Shutdown,
}

impl Contender {
    async fn start(cluster: &Cluster, name: &str) -> Result<Self> {
        let standard = Configuration::default();
        let election = standard.leader_election.clone().context("there is an election")?;
        let leader_election = Some(LeaderElection {
            lease_duration: Duration::from_secs(8),
            renew_deadline: Duration::from_secs(6),
            retry_period: RETRY,
            ..election
        });
        let configuration = Configuration { leader_election, ..standard };
        let source = Source::from_flags(Some(cluster.kubeconfig().to_owned()), None);
        let clients = Clients::connect(&configuration.client_connection, &source).await?;
        let (metrics, shutdown) = (Metrics::new(), Shutdown::new());
        let options = scheduler::Options::new(configuration, name);
        let options = scheduler::Options { metrics: metrics.clone(), ..options };
        let (state, token) = (options.state.subscribe(), shutdown.token());
        shutdown.spawn("scheduler", async move {
            if let Err(error) = scheduler::run(clients, options, token).await {
                eprintln!("scheduler: {error}");
            }
        });
        Ok(Self { state, metrics, shutdown })
    }

    /// Waits until it counts so many of something.
    async fn counts(&self, line: &str) -> Result<()> {
        let begun = Instant::now();
        while !self.metrics.render().lines().any(|own| own == line) {
            ensure!(begun.elapsed() < PATIENCE, "no {line} in\n{}", self.metrics.render());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

async fn take_over(backend: Backend) -> Result<()> {
    let (cluster, namespace) = unscheduled("standby", backend).await?;
    let mut first = Contender::start(&cluster, "first").await?;
    until(&mut first.state, State::Deciding).await?;
    let mut second = Contender::start(&cluster, "second").await?;
    create(&cluster, &namespace, &["a", "b"]).await?;
    all_ready(&cluster, &namespace).await?;
    // It knows the nodes and both pods while the other one works, and has decided nothing.
    second.counts("scheduler_cache_size{type=\"nodes\"} 2").await?;
    second.counts("scheduler_cache_size{type=\"pods\"} 2").await?;
    ensure!(*second.state.borrow() == State::Standby, "only one works");
    ensure!(!second.metrics.render().contains("result=\"scheduled\""), "it decides nothing");
    end(first.shutdown).await?;
    let begun = Instant::now();
    create(&cluster, &namespace, &["c", "d"]).await?;
    until(&mut second.state, State::Deciding).await?;
    let took = begun.elapsed();
    eprintln!("{}: taken over in {took:?}", backend.name());
    ensure!(took < TAKEN_OVER_WITHIN, "taken over in {took:?}");
    all_ready(&cluster, &namespace).await?;
    let scheduled = "scheduler_schedule_attempts_total{result=\"scheduled\",\
                     profile=\"default-scheduler\"} 2";
    second.counts(scheduled).await?;
    end(second.shutdown).await?;
    cluster.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_stands_by_knows_what_there_is_and_takes_over() {
    for backend in BACKENDS {
        take_over(*backend).await.with_context(|| backend.name()).unwrap();
    }
}
