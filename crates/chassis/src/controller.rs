//! The loop of a controller: watches → keys → reconcile, as often as it takes.
//!
//! A controller names what it watches, which keys an object concerns, and how one key is
//! set right. The rest is here: stores are filled before the first key is looked at, keys
//! are looked at side by side but never the same one twice at once, failures come again
//! after a growing wait, and a shutdown waits for what is under way.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::client::Object;
use crate::clock::Clock;
use crate::key::Key;
use crate::queue::WorkQueue;
use crate::reflector::{Delta, Reflector};
use crate::store::SharedStore;

/// How many notes of the watches may wait for the loop.
const NOTES_MAX: usize = 1024;
/// How many notes are taken in before keys are given out again.
const NOTES_PER_TURN_MAX: usize = 4096;
/// How many keys are looked at side by side, unless told otherwise.
const WORKERS: usize = 4;

/// When a key that was set right should be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// When something changes.
    OnChange,
    /// When something changes, or after this long.
    After(Duration),
}

/// What a watch tells the loop.
enum Note {
    Keys(Vec<Key>),
    Synced(usize),
}

type Feed = Box<dyn FnOnce(mpsc::Sender<Note>, CancellationToken) -> BoxFuture<'static, ()> + Send>;

/// A controller before it runs.
pub struct Controller {
    name: &'static str,
    clock: Clock,
    feeds: Vec<Feed>,
    workers: usize,
    seed: u64,
}

impl Controller {
    /// A controller that watches nothing yet.
    #[must_use]
    pub fn new(name: &'static str, clock: &Clock) -> Self {
        Self { name, clock: clock.clone(), feeds: Vec::new(), workers: WORKERS, seed: 0 }
    }

    /// How many keys are looked at side by side.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// What spreads the waits after failures.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Watches the objects of a kind into `store`. Each change of an object asks for the
    /// keys that `keys` names for its state before and its state after.
    #[must_use]
    pub fn watch<T: Object + Sync>(
        mut self,
        reflector: Reflector<T>,
        store: &SharedStore<T>,
        keys: impl Fn(&T) -> Vec<Key> + Send + 'static,
    ) -> Self {
        let (store, feed) = (store.clone(), self.feeds.len());
        let seed = self.seed.wrapping_add(feed as u64);
        let note = move |delta: Delta<T>| {
            let synced = matches!(delta, Delta::Synced);
            let replaced = store.write().apply(delta);
            if synced {
                return Note::Synced(feed);
            }
            let both = [replaced.old, replaced.new];
            let mut concerned: Vec<Key> =
                both.iter().flatten().flat_map(|object| keys(object)).collect();
            concerned.sort_unstable();
            concerned.dedup();
            Note::Keys(concerned)
        };
        self.feeds
            .push(Box::new(move |sink, stop| reflector.seed(seed).run(sink, note, stop).boxed()));
        self
    }

    /// Runs until `stop` is cancelled, then waits for the keys under way.
    ///
    /// # Panics
    /// When a reconciliation panics: the panic goes on, so that the process ends.
    pub async fn run<F, R, E>(self, stop: CancellationToken, reconcile: F)
    where
        F: Fn(Key) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Requeue, E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let (sink, mut notes) = mpsc::channel(NOTES_MAX);
        let mut watches = JoinSet::new();
        let mut running = Running {
            name: self.name,
            clock: self.clock,
            workers: self.workers,
            queue: WorkQueue::new(self.seed),
            unsynced: (0..self.feeds.len()).collect(),
            tasks: JoinSet::new(),
            reconcile: Arc::new(reconcile),
        };
        for feed in self.feeds {
            watches.spawn(feed(sink.clone(), stop.clone()));
        }
        drop(sink);
        while !stop.is_cancelled() {
            running.give_out();
            let due = running.next_due();
            tokio::select! {
                // In a fixed order, so that one seed gives one run.
                biased;
                () = stop.cancelled() => break,
                Some(ended) = running.tasks.join_next() => running.settle(ended),
                note = notes.recv() => match note {
                    Some(note) => running.take_notes(note, &mut notes),
                    // All watches have ended, which only a shutdown makes them do.
                    None => stop.cancelled().await,
                },
                Some(Err(broken)) = watches.join_next() => go_on_panicking(broken),
                () = running.clock.sleep_until(due.unwrap_or_default()), if due.is_some() => {}
            }
        }
        while let Some(ended) = running.tasks.join_next().await {
            running.settle(ended);
        }
        while watches.join_next().await.is_some() {}
    }
}

/// A task that panicked takes its controller along; one that was aborted does not.
fn go_on_panicking(error: tokio::task::JoinError) {
    if let Ok(panic) = error.try_into_panic() {
        std::panic::resume_unwind(panic);
    }
}

type Ended<E> = Result<(Key, Result<Requeue, E>), tokio::task::JoinError>;

struct Running<F, E> {
    name: &'static str,
    clock: Clock,
    workers: usize,
    queue: WorkQueue<Key>,
    /// The watches whose first list is not in yet.
    unsynced: BTreeSet<usize>,
    tasks: JoinSet<(Key, Result<Requeue, E>)>,
    reconcile: Arc<F>,
}

impl<F, R, E> Running<F, E>
where
    F: Fn(Key) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Requeue, E>> + Send + 'static,
    E: Display + Send + 'static,
{
    fn has_room(&self) -> bool {
        self.unsynced.is_empty() && self.tasks.len() < self.workers
    }

    fn give_out(&mut self) {
        while self.has_room()
            && let Some(key) = self.queue.take(self.clock.monotonic())
        {
            let reconcile = self.reconcile.clone();
            self.tasks.spawn(async move {
                let outcome = reconcile(key.clone()).await;
                (key, outcome)
            });
        }
    }

    /// When to look at the clock again; never while nothing could be given out.
    fn next_due(&self) -> Option<Duration> {
        if self.has_room() { self.queue.next_due() } else { None }
    }

    fn take_notes(&mut self, first: Note, notes: &mut mpsc::Receiver<Note>) {
        self.take_note(first);
        for _ in 0..NOTES_PER_TURN_MAX {
            let Ok(note) = notes.try_recv() else { return };
            self.take_note(note);
        }
    }

    fn take_note(&mut self, note: Note) {
        match note {
            Note::Keys(keys) => keys.into_iter().for_each(|key| self.queue.add(key)),
            Note::Synced(feed) => {
                if self.unsynced.remove(&feed) && self.unsynced.is_empty() {
                    tracing::debug!(controller = self.name, keys = self.queue.ready(), "synced");
                }
            }
        }
    }

    fn settle(&mut self, ended: Ended<E>) {
        let (key, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => return go_on_panicking(error),
        };
        let now = self.clock.monotonic();
        match outcome {
            Ok(Requeue::OnChange) => self.queue.done(&key),
            Ok(Requeue::After(delay)) => {
                self.queue.done(&key);
                self.queue.add_at(key, now.saturating_add(delay));
            }
            Err(error) => {
                let wait = self.queue.failed(&key, now, None);
                tracing::warn!(controller = self.name, %key, %error, ?wait, "reconcile failed");
            }
        }
    }
}

#[cfg(test)]
mod tests;
