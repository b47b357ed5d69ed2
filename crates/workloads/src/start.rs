//! What every controller is started with.

use std::sync::Arc;

use chassis::client::Client;
use chassis::controller::{Mailbox, Reconciler, Worker};
use chassis::events::Recorder;
use chassis::metrics::Metrics;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::informer::Informers;

/// The ground that controllers are started on.
pub struct Start<'a> {
    /// The server.
    pub client: &'a Client,
    /// The watches, which controllers share.
    pub informers: &'a mut Informers,
    /// What runs.
    pub tasks: &'a mut JoinSet<()>,
    /// Cancelled when everything is to end.
    pub stop: &'a CancellationToken,
    /// What spreads waits.
    pub seed: u64,
    /// Where what happens is counted.
    pub metrics: &'a Metrics,
    /// What all controllers together wait for before they work.
    pub waits: &'a mut Vec<CancellationToken>,
}

impl Start<'_> {
    /// The empty mailbox of the controller called `name`.
    #[must_use]
    pub fn mailbox(&self, name: &'static str) -> Arc<Mailbox> {
        Mailbox::new(name, self.client.clock(), self.seed, self.metrics)
    }

    /// A recorder that tells users in the name of `component`, and whose writer runs.
    #[must_use]
    pub fn recorder(&mut self, component: &'static str) -> Recorder {
        let (recorder, writer) = Recorder::new(component, self.client, self.seed, self.metrics);
        self.tasks.spawn(writer.run(self.stop.clone()));
        recorder
    }

    /// Starts the loop of a controller, which looks at keys once all of `synced` are in.
    pub fn run<R: Reconciler>(
        &mut self,
        mailbox: Arc<Mailbox>,
        synced: Vec<CancellationToken>,
        workers: usize,
        reconciler: Arc<R>,
    ) {
        self.waits.extend(synced.iter().cloned());
        let worker = Worker { mailbox, synced, workers };
        self.tasks.spawn(worker.run(self.stop.clone(), reconciler));
    }
}
