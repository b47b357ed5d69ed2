//! Schedulers that stand by: they know what there is, write nothing, and take over at once.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use scenarios::backend::{BACKENDS, Backend};
use scenarios::running::Running;
use scenarios::system::{Cluster, Controllers};
use scheduler::State;
use scheduler::config::{Configuration, LeaderElection};

use crate::scheduling::{all_ready, create};

/// How long a candidate waits between tries.
const RETRY: Duration = Duration::from_millis(100);
/// For how long a leader that says nothing more is waited for.
const LEASE: Duration = Duration::from_secs(8);

/// A scheduler that contends for the lease.
async fn contender(cluster: &Cluster) -> Result<Running> {
    let standard = Configuration::default();
    let election = standard.leader_election.clone().context("there is an election")?;
    let leader_election = Some(LeaderElection {
        lease_duration: LEASE,
        renew_deadline: Duration::from_secs(6),
        retry_period: RETRY,
        ..election
    });
    Running::start(Configuration { leader_election, ..standard }, cluster.kubeconfig()).await
}

async fn take_over(backend: Backend) -> Result<()> {
    let staged = Cluster::unscheduled("standby", backend, Controllers::Ours, 2);
    let (cluster, namespace) = staged.await?;
    let mut first = contender(&cluster).await?;
    first.until(State::Deciding).await?;
    let mut second = contender(&cluster).await?;
    create(&cluster, &namespace, &["a", "b"]).await?;
    all_ready(&cluster, &namespace).await?;
    // It knows the nodes and both pods while the other one works, and has decided nothing.
    second.counts("scheduler_cache_size{type=\"nodes\"} 2").await?;
    second.counts("scheduler_cache_size{type=\"pods\"} 2").await?;
    ensure!(*second.state.borrow() == State::Standby, "only one works");
    ensure!(!second.metrics.render().contains("result=\"scheduled\""), "it decides nothing");
    first.end().await?;
    let begun = Instant::now();
    second.until(State::Deciding).await?;
    let took = begun.elapsed();
    eprintln!("{}: taken over in {took:?}", backend.name());
    ensure!(took < LEASE, "it waited for the lease to run out: {took:?}");
    create(&cluster, &namespace, &["c", "d"]).await?;
    all_ready(&cluster, &namespace).await?;
    let scheduled = "scheduler_schedule_attempts_total{result=\"scheduled\",\
                     profile=\"default-scheduler\"} 2";
    second.counts(scheduled).await?;
    second.end().await?;
    cluster.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_stands_by_knows_what_there_is_and_takes_over() {
    for backend in BACKENDS {
        take_over(*backend).await.with_context(|| backend.name()).unwrap();
    }
}
