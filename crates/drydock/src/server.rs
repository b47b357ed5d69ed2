//! The one value that everything else is about.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use arc_swap::ArcSwap;

use crate::answer::Failure;
use crate::apart::apart;
use crate::env::Env;
use crate::health::HealthCheck;
use crate::inflight::InFlight;
use crate::kinds::{Found, Kind, Registry};
use crate::metrics::Metrics;
use crate::request::Target;
use crate::request::authenticate::Credential;
use crate::store::{Memory, Store};
use crate::write::expiry::Expiries;

/// How a drydock behaves.
#[derive(Debug, Clone)]
pub struct Config {
    /// Who may enter.
    pub credentials: Vec<Credential>,
    /// How much of the past each resource remembers.
    pub memory: Memory,
    /// The largest body that is read, in bytes.
    pub body_bytes_max: usize,
    /// How many requests are answered at once.
    pub in_flight: InFlight,
    /// What `/readyz` asks for beside the server itself.
    pub checks: Vec<HealthCheck>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            credentials: Vec::new(),
            memory: Memory::default(),
            // kube-apiserver's own limit.
            body_bytes_max: 3 * 1024 * 1024,
            checks: Vec::new(),
            in_flight: InFlight::default(),
        }
    }
}

/// The state of a server and what it knows.
pub struct Server {
    store: Store,
    registry: ArcSwap<Registry>,
    env: Box<dyn Env>,
    config: Config,
    /// Held while definitions change, so that two changes cannot undo each other.
    defining: Mutex<()>,
    /// Held while a service draws addresses and ports, until it is stored.
    pub(crate) pools: Mutex<()>,
    /// What goes by itself, and when.
    pub(crate) expiries: Expiries,
    metrics: Metrics,
}

impl Server {
    /// A server that holds nothing but its native kinds.
    #[must_use]
    pub fn new(config: Config, env: Box<dyn Env>) -> Self {
        let store = Store::new(config.memory);
        let registry = crate::kinds::native::registry(&store);
        let expiries = Expiries::of(registry.kinds());
        Self {
            store,
            registry: ArcSwap::from_pointee(registry),
            env,
            config,
            defining: Mutex::new(()),
            pools: Mutex::new(()),
            expiries,
            metrics: Metrics::new(),
        }
    }

    /// Where everything is kept.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The kinds known now.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// Puts another set of kinds in place.
    pub(crate) fn replace_registry(&self, registry: Registry) {
        self.registry.store(Arc::new(registry));
    }

    /// Returns when the registry knows of every table that was closed before: whoever replaces one
    /// holds the lock until then.
    pub(crate) fn wait_for_definitions(&self) {
        drop(self.defining());
    }

    /// The outside world.
    #[must_use]
    pub fn env(&self) -> &dyn Env {
        &*self.env
    }

    /// How this server behaves.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The resource a path names.
    ///
    /// # Errors
    /// When there is none, or the path gives a namespace to what has none.
    pub fn find(&self, target: &Target) -> Result<Found, Failure> {
        let registry = self.registry.load();
        let found = registry.find(&target.group, &target.version, &target.resource);
        let found = found.ok_or_else(Failure::no_such_path)?;
        let placed = target.namespace.is_some();
        let lists_all = target.namespace.is_none() && target.name.is_none();
        if found.kind.namespaced != placed && !(found.kind.namespaced && lists_all) {
            return Err(Failure::no_such_path());
        }
        Ok(found)
    }

    /// Waits until no definition changes, and lets none change until what this gives is dropped.
    /// A definition may take long to change, so whoever has to wait does so apart.
    pub(crate) fn defining(&self) -> MutexGuard<'_, ()> {
        match self.defining.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                apart(|| self.defining.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    /// A native kind that every server has.
    ///
    /// # Panics
    /// When there is no such kind, which only a change of the generated table could cause.
    #[must_use]
    pub fn native(&self, group: &str, plural: &str) -> Arc<Kind> {
        let registry = self.registry.load();
        Arc::clone(registry.resource(group, plural).expect("a native kind is always registered"))
    }

    /// What this server counts.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
