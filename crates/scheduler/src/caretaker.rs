//! Caretakers: what those share that look after objects beside the engine, while this process leads.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::Resource;
use chassis::client::{Client, Error, Object, ResourceType};
use chassis::controller;
use chassis::informer::{How, Informer};
use chassis::key::Key;
use chassis::metrics::Metrics;
use chassis::reflector::Reflector;
use engine::moment::Moment;
use tokio_util::sync::CancellationToken;

use crate::writers::License;

/// How somebody runs who looks after objects beside the engine.
pub(crate) struct Caretaker {
    /// With limits of its own.
    pub(crate) client: Client,
    pub(crate) license: License,
    /// Cancelled when this process begins to lead; none where it need not.
    pub(crate) begun: Option<CancellationToken>,
    pub(crate) metrics: Metrics,
    pub(crate) seed: u64,
    pub(crate) stop: CancellationToken,
}

impl Caretaker {
    /// The same where this process leads, which may take a while: every write is allowed at the moment at
    /// which it is sent. None where it never does.
    pub(crate) async fn leading(self) -> Option<Self> {
        if let Some(begun) = &self.begun {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                () = begun.cancelled() => {}
            }
        }
        let (license, clock) = (self.license.clone(), self.client.clock().clone());
        let client = self.client.guarded(move || license.is_valid(clock.monotonic()));
        Some(Self { client, ..self })
    }

    /// A watch of all objects of a kind, read as `T`. The server need not know the kind.
    pub(crate) fn watch<K: Resource, T: Object + Sync>(&self, labels: &str) -> Informer<T> {
        let reflector = Reflector::new(self.client.access(ResourceType::of::<K>(), ""));
        Informer::new(reflector.labels(labels).may_be_absent())
    }

    /// Works until this process is to stop, which does not wait for what is under way: it is safe to be cut
    /// off, since whoever looks next sees what was done.
    pub(crate) async fn work(&self, work: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = work => {}
        }
    }

    /// How its watches run.
    pub(crate) fn how(&self) -> How {
        How { seed: self.seed, metrics: self.metrics.clone(), stop: self.stop.clone() }
    }
}

/// What is kept of objects that are there, for all who look at them.
pub(crate) struct Kept<T>(Mutex<BTreeMap<Key, T>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Kept<T> {
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut BTreeMap<Key, T>) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The time, from when this process began.
pub(crate) fn now(client: &Client) -> Moment {
    Moment::default().after(client.clock().monotonic())
}

/// A request that has to be made again.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}")]
pub(crate) struct Failure {
    /// What it was for.
    doing: String,
    /// How it failed.
    source: Box<Error>,
}

impl Failure {
    /// For `map_err`: the request was for `doing`.
    pub(crate) fn of(doing: impl Into<String>) -> impl FnOnce(Error) -> Self {
        |source| Self { doing: doing.into(), source: Box::new(source) }
    }
}

impl controller::Failure for Failure {
    fn told(&self) -> String {
        format!("cannot {}: {}", self.doing, self.source.told())
    }

    fn retry_after(&self) -> Option<Duration> {
        self.source.retry_after()
    }

    fn is_conflict(&self) -> bool {
        self.source.is_conflict()
    }
}
