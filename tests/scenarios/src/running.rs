//! A scheduler of ours that runs within a test, and how it ended.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chassis::client::{Source, UnderWay};
use chassis::metrics::Metrics;
use scheduler::config::Configuration;
use scheduler::{Clients, Ending, Options, RunError, State};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::system::PATIENCE;

/// How often it is looked whether something is counted.
const POLL: Duration = Duration::from_millis(20);

/// A scheduler that runs. Dropping it asks it to end.
pub struct Running {
    /// How far it is.
    pub state: watch::Receiver<State>,
    /// What it counts.
    pub metrics: Metrics,
    task: JoinHandle<Result<Ending, RunError>>,
    stop: DropGuard,
}

/// A name that no other scheduler of this process has.
#[must_use]
pub fn identity() -> String {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    format!("scheduler-{}", STARTED.fetch_add(1, Ordering::Relaxed))
}

impl Running {
    /// Starts one that asks this server.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub async fn start(configuration: Configuration, kubeconfig: &Path) -> Result<Self> {
        let source = Source::from_flags(Some(kubeconfig.to_owned()), None);
        Self::connect(&source, Options::new(configuration, &identity())).await
    }

    /// Starts one with options of its own.
    ///
    /// # Errors
    /// When the source cannot be used.
    pub async fn connect(source: &Source, options: Options) -> Result<Self> {
        let connection = &options.configuration.client_connection;
        let clients = Clients::connect(connection, source, &UnderWay::default()).await?;
        Ok(Self::through(clients, options))
    }

    /// Starts one with clients that are there.
    #[must_use]
    pub fn through(clients: Clients, options: Options) -> Self {
        let (state, metrics) = (options.state.subscribe(), options.metrics.clone());
        let stop = CancellationToken::new();
        let task = tokio::spawn(scheduler::run(clients, options, stop.clone()));
        Self { state, metrics, task, stop: stop.drop_guard() }
    }

    /// Waits until it is so far.
    ///
    /// # Errors
    /// When it takes too long, or has ended.
    pub async fn until(&mut self, wanted: State) -> Result<()> {
        let wait = self.state.wait_for(|state| *state == wanted);
        tokio::time::timeout(PATIENCE, wait).await.context("the scheduler is late")??;
        Ok(())
    }

    /// Waits until its metrics have this line.
    ///
    /// # Errors
    /// When it takes too long.
    pub async fn counts(&self, line: &str) -> Result<()> {
        let told = async {
            while !self.metrics.render().lines().any(|own| own == line) {
                tokio::time::sleep(POLL).await;
            }
        };
        let told = tokio::time::timeout(PATIENCE, told).await;
        told.with_context(|| format!("no {line} in\n{}", self.metrics.render()))
    }

    /// Waits until it ends by itself, and says how.
    ///
    /// # Errors
    /// When it does not, or cannot run.
    pub async fn ended(&mut self) -> Result<Ending> {
        let ended = tokio::time::timeout(PATIENCE, &mut self.task).await;
        Ok(ended.context("the scheduler does not end")???)
    }

    /// Ends it in good order.
    ///
    /// # Errors
    /// When it ends otherwise.
    pub async fn end(self) -> Result<()> {
        self.end_within(PATIENCE).await
    }

    /// The same, sooner.
    ///
    /// # Errors
    /// When it ends otherwise, or later.
    pub async fn end_within(self, time: Duration) -> Result<()> {
        drop(self.stop);
        let ended = tokio::time::timeout(time, self.task).await;
        let ending = ended.context("the scheduler does not end well")???;
        ensure!(ending == Ending::Stopped, "the scheduler ended by {ending:?}");
        Ok(())
    }
}
