//! Leader election: of several processes that could do a work, one does.
//!
//! The contest is a Lease, played by [`machine`] as client-go plays it, so that Gantry's
//! components and those they replace exclude each other. An [`Election`] is the shell around
//! it that reads and writes. What leads gets a [`Leadership`] and asks it before each write
//! whether it still counts.
//!
//! The Lease is written whole (PUT), since the stock roles of Kubernetes' components allow
//! `update` on their Lease and not `patch`. What is written is what was read, with another
//! `spec`: labels, annotations and whatever else this crate does not know stay as they are.
//! Within `spec` client-go's rule holds: fields of coordinated leader election are ignored,
//! and dropped by whoever writes.
//!
//! What leading means is the component's business.

pub mod machine;

mod leadership;
mod lease;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api::Lease;
use futures::future::{BoxFuture, FutureExt as _};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use leadership::{Leadership, Watchdog};
pub use machine::Loss;

use crate::client::Client;
use crate::clock::Clock;
use crate::metrics::Metrics;
use leadership::Term;
use lease::{Answer, Desk};
use machine::{Effect, Event, Machine, Now};

/// The shortest time that a request gets.
const REQUEST_MIN: Duration = Duration::from_secs(1);

/// Which Lease to contend for, in whose name and how patiently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The name of this process, which no other may have.
    pub identity: String,
    /// How long others wait for a leader that is silent; whole seconds are written.
    pub lease_duration: Duration,
    /// How long a leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// How long to wait between tries.
    pub retry_period: Duration,
    /// Whether the Lease is given back at a clean end, so that others need not wait.
    pub is_released_on_stop: bool,
    /// What the spread of tries is drawn from.
    pub seed: u64,
}

impl Config {
    /// A candidate with the durations of Kubernetes' components: 15 s, 10 s and 2 s.
    #[must_use]
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            is_released_on_stop: true,
            seed: 0,
        }
    }

    /// The lease duration in the whole seconds that are written.
    fn check(&self) -> Result<i32, ConfigError> {
        if self.identity.is_empty() {
            return Err(ConfigError::NoIdentity);
        }
        if self.name.is_empty() || self.namespace.is_empty() {
            return Err(ConfigError::NoName);
        }
        let zero = [
            ("leaseDuration", self.lease_duration),
            ("renewDeadline", self.renew_deadline),
            ("retryPeriod", self.retry_period),
        ];
        if let Some((field, _)) = zero.iter().find(|(_, duration)| duration.is_zero()) {
            return Err(ConfigError::Zero { field });
        }
        if self.lease_duration <= self.renew_deadline {
            return Err(ConfigError::LeaseTooShort);
        }
        let jittered = self.retry_period.saturating_add(self.retry_period / 5);
        if self.renew_deadline <= jittered {
            return Err(ConfigError::DeadlineTooShort);
        }
        let seconds = i32::try_from(self.lease_duration.as_secs()).ok().filter(|&s| s > 0);
        seconds.ok_or(ConfigError::NotSeconds { duration: self.lease_duration })
    }
}

/// Why an election cannot be held as configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The candidate has no name.
    #[error("lock identity is empty; give each process a name of its own")]
    NoIdentity,
    /// The Lease has no name or no namespace.
    #[error("the lease needs a namespace and a name")]
    NoName,
    /// A duration is zero.
    #[error("{field} must be greater than zero")]
    Zero {
        /// The duration.
        field: &'static str,
    },
    /// Others would not wait for the leader's last tries.
    #[error("leaseDuration must be greater than renewDeadline")]
    LeaseTooShort,
    /// A round of renewals would hold a single try.
    #[error("renewDeadline must be greater than retryPeriod*JitterFactor")]
    DeadlineTooShort,
    /// The duration cannot be written as a Lease's seconds.
    #[error("leaseDuration must be from 1 s to {} s, not {duration:?}", i32::MAX)]
    NotSeconds {
        /// The duration.
        duration: Duration,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameLabel {
    name: String,
}

/// The counters of a process's elections, under the names of Kubernetes' components.
#[derive(Debug, Clone, Default)]
pub struct Meters {
    status: Family<NameLabel, Gauge>,
    slow_paths: Family<NameLabel, Counter>,
}

impl Meters {
    /// Registers the counters; once for a process, however many elections it holds.
    #[must_use]
    pub fn register(metrics: &Metrics) -> Self {
        let own = Self::default();
        metrics.register(|registry| {
            let help = "Gauge of if the reporting system is master of the relevant lease, \
                        0 indicates backup, 1 indicates master";
            registry.register("leader_election_master_status", help, own.status.clone());
            let help = "Total number of slow path exercised in renewing leader leases";
            registry.register("leader_election_slowpath", help, own.slow_paths.clone());
        });
        own
    }
}

/// What an election has to tell, for events and logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Another than before holds the Lease; empty for nobody.
    Holder(String),
    /// This process leads.
    BecameLeader,
    /// This process leads no more.
    StoppedLeading(Loss),
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was asked to stop before it led.
    NeverLed,
    /// It led and was asked to stop, or the work was done.
    Done,
    /// It led and lost; the work has ended since.
    Lost(Loss),
}

type Tell = Arc<dyn Fn(&News, &Lease) + Send + Sync>;

/// One process's part in an election.
pub struct Election {
    clock: Clock,
    machine: Machine,
    desk: Desk,
    label: NameLabel,
    meters: Meters,
    watchdog: Watchdog,
    tell: Option<Tell>,
}

impl Election {
    /// A part in the election that `config` names, and no request yet.
    ///
    /// The client should be one of its own: a renewal that waits behind a thousand writes, or
    /// for their rate limit, comes too late.
    ///
    /// # Errors
    /// When the configuration cannot work.
    pub fn new(client: &Client, config: &Config, meters: &Meters) -> Result<Self, ConfigError> {
        let machine = Machine::new(config)?;
        let clock = client.clock().clone();
        let limit = (config.renew_deadline / 2).max(REQUEST_MIN);
        let label = NameLabel { name: config.name.clone() };
        meters.status.get_or_create(&label).set(0);
        Ok(Self {
            watchdog: Watchdog::new(&config.name, clock.clone(), config.lease_duration),
            desk: Desk::new(client, config, limit),
            clock,
            machine,
            label,
            meters: meters.clone(),
            tell: None,
        })
    }

    /// The same, telling what happens to `tell`, which must not block. Kubernetes' components
    /// make events of reason `LeaderElection` on the Lease of it.
    #[must_use]
    pub fn telling(mut self, tell: impl Fn(&News, &Lease) + Send + Sync + 'static) -> Self {
        self.tell = Some(Arc::new(tell));
        self
    }

    /// The check that fails when this process should have renewed its Lease and has not.
    #[must_use]
    pub fn watchdog(&self) -> Watchdog {
        self.watchdog.clone()
    }

    /// Contends until it leads, then runs `work` until it ends, the leadership is lost, or
    /// `stop` is cancelled.
    ///
    /// Work gets its leadership and a token that asks it to end. After `stop` the Lease is
    /// renewed until the work has ended, and only then given back; after a loss the work is
    /// waited for as well. Whoever wants to lead again starts a new election. When this future
    /// is dropped the work is aborted and the Lease is left to expire.
    ///
    /// # Panics
    /// When the work panics.
    pub async fn run<W, F>(self, stop: CancellationToken, work: W) -> Ending
    where
        W: FnOnce(Leadership, CancellationToken) -> F + Send,
        F: Future<Output = ()> + Send + 'static,
    {
        let run = Run {
            election: self,
            work: Some(work),
            running: JoinSet::new(),
            end_work: CancellationToken::new(),
            term: None,
            ending: Ending::NeverLed,
        };
        run.drive(stop).await
    }
}

struct Run<W> {
    election: Election,
    /// Until it is started.
    work: Option<W>,
    running: JoinSet<()>,
    end_work: CancellationToken,
    term: Option<Term>,
    ending: Ending,
}

impl<W, F> Run<W>
where
    W: FnOnce(Leadership, CancellationToken) -> F + Send,
    F: Future<Output = ()> + Send + 'static,
{
    async fn drive(mut self, stop: CancellationToken) -> Ending {
        let clock = self.election.clock.clone();
        let mut request: Option<BoxFuture<'static, Answer>> = None;
        let (mut is_asked_to_stop, mut is_over) = (false, false);
        let mut event = Event::Tick;
        loop {
            let now = Now { monotonic: clock.monotonic(), wall: clock.now() };
            let effects = self.election.machine.step(now, event);
            let mut wake = None;
            for effect in effects {
                match effect {
                    Effect::WakeAt(due) => wake = Some(due),
                    Effect::End => {
                        self.election.watchdog.gave_up();
                        return self.ending;
                    }
                    effect => request = self.carry_out(effect).or(request),
                }
            }
            event = tokio::select! {
                biased;
                ended = self.running.join_next(), if !self.running.is_empty() => {
                    if let Some(Err(error)) = ended && error.is_panic() {
                        std::panic::resume_unwind(error.into_panic());
                    }
                    is_over = true;
                    Event::Stop
                }
                () = stop.cancelled(), if !is_asked_to_stop => {
                    is_asked_to_stop = true;
                    self.end_work.cancel();
                    // Work that runs is waited for; the Lease is renewed meanwhile.
                    if self.running.is_empty() && !is_over { Event::Stop } else { Event::Tick }
                }
                answer = answer_of(&mut request) => {
                    request = None;
                    self.election.desk.note(answer)
                }
                () = clock.sleep_until(wake.unwrap_or_default()), if wake.is_some() => Event::Tick,
            };
        }
    }

    /// Does what the machine asks; requests are begun and returned.
    fn carry_out(&mut self, effect: Effect) -> Option<BoxFuture<'static, Answer>> {
        let election = &self.election;
        match effect {
            Effect::Read => return Some(election.desk.read().boxed()),
            Effect::Create(record) => return Some(election.desk.create(record).boxed()),
            Effect::Update { record, version } => {
                return Some(election.desk.update(record, version).boxed());
            }
            Effect::WakeAt(_) | Effect::End => {}
            Effect::Observed(holder) => {
                tracing::info!(lease = %election.desk.describe(), holder, "new leader");
                self.tell(&News::Holder(holder));
            }
            Effect::Lead { epoch, until } => {
                tracing::info!(lease = %election.desk.describe(), epoch, "acquired lease");
                election.meters.status.get_or_create(&election.label).set(1);
                election.watchdog.renewed();
                let term = Term::new(epoch, until);
                if let Some(work) = self.work.take() {
                    self.running.spawn(work(term.leadership(), self.end_work.clone()));
                }
                self.term = Some(term);
                self.ending = Ending::Done;
                self.tell(&News::BecameLeader);
            }
            Effect::Renewed { until } => {
                election.watchdog.renewed();
                if let Some(term) = &self.term {
                    term.renew(until);
                }
            }
            Effect::SlowPath => {
                election.meters.slow_paths.get_or_create(&election.label).inc();
            }
            Effect::Lose(loss) => self.lose(loss),
        }
        None
    }

    fn lose(&mut self, loss: Loss) {
        let election = &self.election;
        if let Some(term) = self.term.take() {
            term.revoke();
        }
        self.end_work.cancel();
        election.meters.status.get_or_create(&election.label).set(0);
        match loss {
            Loss::Stopped => {}
            Loss::Deadline | Loss::Taken => {
                tracing::error!(lease = %election.desk.describe(), ?loss, "leadership lost");
                self.ending = Ending::Lost(loss);
            }
        }
        // A leader that only failed to renew, and does not end, is for the watchdog.
        if loss != Loss::Deadline {
            election.watchdog.gave_up();
        }
        self.tell(&News::StoppedLeading(loss));
    }

    fn tell(&self, news: &News) {
        if let Some(tell) = &self.election.tell {
            tell(news, self.election.desk.lease());
        }
    }
}

async fn answer_of(request: &mut Option<BoxFuture<'static, Answer>>) -> Answer {
    match request {
        Some(request) => request.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
