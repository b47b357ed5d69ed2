//! The loop of a controller: keys in, reconciliations side by side, retries.
//!
//! Keys come through a [`Mailbox`], which watches fill; a [`Worker`] hands them to a
//! [`Reconciler`]. It begins when all that the reconciler reads is there, looks at several
//! keys side by side but never at one twice at once, comes again to what failed after a
//! growing wait, and at shutdown waits for what is under way.
//!
//! What a key means and how it is set right is the reconciler's business alone.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::key::Key;
use crate::metrics::{Ending, Metrics, QueueMeters};
use crate::queue::WorkQueue;
use crate::random::seed_for;

/// When a key that was set right should be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// When something changes.
    OnChange,
    /// When something changes, or after this long.
    After(Duration),
}

impl From<Option<Duration>> for Requeue {
    fn from(wait: Option<Duration>) -> Self {
        wait.map_or(Self::OnChange, Self::After)
    }
}

/// Why a key has to be looked at again.
pub trait Failure: Send + 'static {
    /// What failed and why, on one line.
    fn told(&self) -> String;

    /// How long the server asks to wait.
    fn retry_after(&self) -> Option<Duration>;

    /// Whether somebody else was faster, so that the next look sees what is there now.
    fn is_conflict(&self) -> bool;
}

/// What a controller does with a key.
pub trait Reconciler: Send + Sync + 'static {
    /// How it can fail.
    type Failure: Failure;

    /// Sets right what the key names.
    fn reconcile(&self, key: Key) -> impl Future<Output = Result<Requeue, Self::Failure>> + Send;
}

/// The keys that a controller has to look at. Adding one never waits: a key is in line
/// once, so the mailbox is no larger than the number of objects.
pub struct Mailbox {
    name: &'static str,
    queue: Mutex<WorkQueue<Key>>,
    bell: Notify,
    clock: Clock,
    meters: QueueMeters,
}

impl Mailbox {
    /// The empty mailbox of the controller called `name`. The waits after failures are
    /// spread by `seed` and the name together.
    #[must_use]
    pub fn new(name: &'static str, clock: &Clock, seed: u64, metrics: &Metrics) -> Arc<Self> {
        Arc::new(Self {
            name,
            queue: Mutex::new(WorkQueue::new(seed_for(seed, &["queue", name]))),
            bell: Notify::new(),
            clock: clock.clone(),
            meters: metrics.queue(name),
        })
    }

    /// Asks for a key to be looked at.
    pub fn add(&self, key: Key) {
        if self.with(|queue| queue.add(key)) {
            self.meters.added();
            self.bell.notify_one();
        }
    }

    fn with<R>(&self, use_it: impl FnOnce(&mut WorkQueue<Key>) -> R) -> R {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let result = use_it(&mut queue);
        self.meters.depth(queue.ready());
        result
    }
}

/// A controller that is ready to run.
pub struct Worker {
    /// Where its keys come from.
    pub mailbox: Arc<Mailbox>,
    /// What must be in before it starts.
    pub synced: Vec<CancellationToken>,
    /// How many keys are looked at side by side.
    pub workers: usize,
}

/// A look at a key that has ended, and how long it took.
type Ended<E> = Result<(Key, Duration, Result<Requeue, E>), JoinError>;

impl Worker {
    /// Runs until `stop` is cancelled, then waits for the keys under way.
    ///
    /// # Panics
    /// When a reconciliation panics: the panic goes on, so that the process ends.
    pub async fn run<R: Reconciler>(self, stop: CancellationToken, reconciler: Arc<R>) {
        for synced in &self.synced {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = synced.cancelled() => {}
            }
        }
        tracing::debug!(controller = self.mailbox.name, "synced");
        let clock = self.mailbox.clock.clone();
        let workers = self.workers.max(1);
        let mut tasks = JoinSet::new();
        while !stop.is_cancelled() {
            while tasks.len() < workers
                && let Some(key) = self.mailbox.with(|queue| queue.take(clock.monotonic()))
            {
                let (reconciler, clock) = (reconciler.clone(), clock.clone());
                tasks.spawn(async move {
                    let begun = clock.monotonic();
                    let outcome = reconciler.reconcile(key.clone()).await;
                    (key, clock.monotonic().saturating_sub(begun), outcome)
                });
            }
            let has_room = tasks.len() < workers;
            let due = self.mailbox.with(|queue| queue.next_due()).filter(|_| has_room);
            tokio::select! {
                // In a fixed order, so that one seed gives one run.
                biased;
                () = stop.cancelled() => break,
                Some(ended) = tasks.join_next() => self.settle(ended),
                () = self.mailbox.bell.notified() => {}
                () = clock.sleep_until(due.unwrap_or_default()), if due.is_some() => {}
            }
        }
        while let Some(ended) = tasks.join_next().await {
            self.settle(ended);
        }
    }

    fn settle<E: Failure>(&self, ended: Ended<E>) {
        let (key, took, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => return go_on_panicking(error),
        };
        let mailbox = &self.mailbox;
        let now = mailbox.clock.monotonic();
        let ending = match outcome {
            Ok(again) => {
                mailbox.with(|queue| {
                    queue.done(&key);
                    if let Requeue::After(delay) = again {
                        queue.add_at(key, now.saturating_add(delay));
                    }
                });
                Ending::Done
            }
            Err(failure) => {
                let wait = mailbox.with(|queue| queue.failed(&key, now, failure.retry_after()));
                let (controller, error) = (mailbox.name, failure.told());
                if failure.is_conflict() {
                    tracing::debug!(controller, %key, error, ?wait, "will look again");
                    Ending::Conflict
                } else {
                    tracing::warn!(controller, %key, error, ?wait, "reconcile failed");
                    Ending::Failure
                }
            }
        };
        mailbox.meters.looked(took, ending);
    }
}

/// A task that panicked takes its caller along; one that was aborted does not.
pub fn go_on_panicking(error: JoinError) {
    if let Ok(panic) = error.try_into_panic() {
        std::panic::resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests;
