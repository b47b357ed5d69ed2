//! The loop of one controller: keys in, reconciliations side by side, retries.
//!
//! `chassis` has such a loop for a controller that owns its watches. Here the watches are
//! shared, so the keys come through a [`Mailbox`] that informers fill, and a loop starts
//! when the first lists of all that it reads are in.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chassis::clock::Clock;
use chassis::controller::Requeue;
use chassis::key::Key;
use chassis::queue::WorkQueue;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// The keys that a controller has to look at. Adding one never waits: a key is in line
/// once, so the mailbox is no larger than the number of objects.
pub struct Mailbox {
    queue: Mutex<WorkQueue<Key>>,
    bell: Notify,
    clock: Clock,
}

impl Mailbox {
    /// An empty mailbox; `seed` spreads the waits after failures.
    #[must_use]
    pub fn new(clock: &Clock, seed: u64) -> Arc<Self> {
        let queue = Mutex::new(WorkQueue::new(seed));
        Arc::new(Self { queue, bell: Notify::new(), clock: clock.clone() })
    }

    /// Asks for a key to be looked at.
    pub fn add(&self, key: Key) {
        self.with(|queue| queue.add(key));
        self.bell.notify_one();
    }

    /// Asks for a key to be looked at after a while.
    pub fn add_after(&self, key: Key, delay: Duration) {
        let due = self.clock.monotonic().saturating_add(delay);
        self.with(|queue| queue.add_at(key, due));
        self.bell.notify_one();
    }

    fn with<R>(&self, use_it: impl FnOnce(&mut WorkQueue<Key>) -> R) -> R {
        use_it(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A controller that is ready to run.
pub struct Worker {
    /// Its name in the log.
    pub name: &'static str,
    /// Where its keys come from.
    pub mailbox: Arc<Mailbox>,
    /// What must be in before it starts.
    pub synced: Vec<CancellationToken>,
    /// How many keys are looked at side by side.
    pub workers: usize,
}

impl Worker {
    /// Runs until `stop` is cancelled, then waits for the keys under way.
    pub async fn run<F, R>(self, stop: CancellationToken, reconcile: F)
    where
        F: Fn(Key) -> R,
        R: Future<Output = Result<Requeue, Failure>> + Send + 'static,
    {
        for synced in &self.synced {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = synced.cancelled() => {}
            }
        }
        tracing::debug!(controller = self.name, "synced");
        let clock = self.mailbox.clock.clone();
        let mut tasks = JoinSet::new();
        while !stop.is_cancelled() {
            while tasks.len() < self.workers
                && let Some(key) = self.mailbox.with(|queue| queue.take(clock.monotonic()))
            {
                let work = reconcile(key.clone());
                tasks.spawn(async move { (key, work.await) });
            }
            let has_room = tasks.len() < self.workers;
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

    fn settle(&self, ended: Result<(Key, Result<Requeue, Failure>), JoinError>) {
        let (key, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => return go_on_panicking(error),
        };
        let now = self.mailbox.clock.monotonic();
        match outcome {
            Ok(Requeue::OnChange) => self.mailbox.with(|queue| queue.done(&key)),
            Ok(Requeue::After(delay)) => self.mailbox.with(|queue| {
                queue.done(&key);
                queue.add_at(key, now.saturating_add(delay));
            }),
            Err(failure) => {
                let wait = self.mailbox.with(|queue| queue.failed(&key, now, failure.wait()));
                let (controller, told) = (self.name, failure.told());
                // A conflict means that someone else was faster: the next look sees it.
                if failure.is_conflict() {
                    tracing::debug!(controller, %key, error = told, ?wait, "will look again");
                } else {
                    tracing::warn!(controller, %key, error = told, ?wait, "reconcile failed");
                }
            }
        }
    }
}

/// A task that panicked takes the others along; one that was aborted does not.
pub fn go_on_panicking(error: JoinError) {
    if let Ok(panic) = error.try_into_panic() {
        std::panic::resume_unwind(panic);
    }
}
