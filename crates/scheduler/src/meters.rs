//! What the scheduler counts, under kube-scheduler's names and with its buckets where a number
//! means the same.

use std::sync::Arc;
use std::time::Duration;

use chassis::metrics::Metrics;
use engine::Engine;
use engine::queue::{Moment, Standing};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Attempts from here on are counted together.
const ATTEMPTS_TOLD_MAX: u32 = 15;
const UNSCHEDULABLE: &str = "unschedulable";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
    profile: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptsLabel {
    attempts: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TypeLabel {
    r#type: &'static str,
}

/// Buckets that double.
#[derive(Debug, Clone, Copy)]
struct Doubling {
    first: f64,
    count: u16,
}

impl Doubling {
    fn histogram(self) -> Histogram {
        Histogram::new(exponential_buckets(self.first, 2.0, self.count))
    }
}

impl MetricConstructor<Histogram> for Doubling {
    fn new_metric(&self) -> Histogram {
        self.histogram()
    }
}

/// From a millisecond to 16 seconds.
const LATENCY: Doubling = Doubling { first: 0.001, count: 15 };
/// From ten milliseconds to an hour and a half.
const SLI: Doubling = Doubling { first: 0.01, count: 20 };
const ATTEMPTS: Doubling = Doubling { first: 1.0, count: 5 };

/// An attempt to schedule a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// In whose name.
    pub profile: Arc<str>,
    /// Which one of this pod's.
    pub number: u32,
    /// When the pod was first tried.
    pub tried: Moment,
}

/// The counters of one scheduler; clones share them.
#[derive(Debug, Clone)]
pub struct Meters {
    attempts: Family<ResultLabels, Counter>,
    durations: Family<ResultLabels, Histogram, Doubling>,
    algorithm: Histogram,
    pending: Family<QueueLabel, Gauge>,
    sli: Family<AttemptsLabel, Histogram, Doubling>,
    tries: Histogram,
    cached: Family<TypeLabel, Gauge>,
    missed_wakes: Gauge,
    unclear: Gauge,
    exceeded: Gauge,
}

impl Meters {
    /// Registers the counters; once for a process.
    #[must_use]
    pub fn register(metrics: &Metrics) -> Self {
        let own = Self {
            attempts: Family::default(),
            durations: Family::new_with_constructor(LATENCY),
            algorithm: LATENCY.histogram(),
            pending: Family::default(),
            sli: Family::new_with_constructor(SLI),
            tries: ATTEMPTS.histogram(),
            cached: Family::default(),
            missed_wakes: Gauge::default(),
            unclear: Gauge::default(),
            exceeded: Gauge::default(),
        };
        metrics.register(|registry| own.enter(registry));
        own
    }

    fn enter(&self, registry: &mut Registry) {
        let help = "Number of attempts to schedule pods, by the result. 'unschedulable' means a \
                    pod could not be scheduled, while 'error' means an internal scheduler problem";
        registry.register("scheduler_schedule_attempts", help, self.attempts.clone());
        let help = "Scheduling attempt latency in seconds (scheduling algorithm + binding)";
        registry.register(
            "scheduler_scheduling_attempt_duration_seconds",
            help,
            self.durations.clone(),
        );
        let help = "Scheduling algorithm latency in seconds";
        registry.register(
            "scheduler_scheduling_algorithm_duration_seconds",
            help,
            self.algorithm.clone(),
        );
        let help = "Number of pending pods, by the queue type";
        registry.register("scheduler_pending_pods", help, self.pending.clone());
        let help = "E2e latency for a pod being scheduled, from the time the pod enters the \
                    scheduling queue and might involve multiple scheduling attempts";
        registry.register("scheduler_pod_scheduling_sli_duration_seconds", help, self.sli.clone());
        let help = "Number of attempts to successfully schedule a pod";
        registry.register("scheduler_pod_scheduling_attempts", help, self.tries.clone());
        let help = "Number of nodes, pods, and assumed (bound) pods in the scheduler cache";
        registry.register("scheduler_cache_size", help, self.cached.clone());
        let help = "Pods that got a node only because time had passed: a change that should have \
                    woken them was overlooked";
        registry.register("gantry_scheduler_missed_wakes", help, self.missed_wakes.clone());
        let help = "Bindings of which nobody knows yet what became of them";
        registry.register("gantry_scheduler_unclear_bindings", help, self.unclear.clone());
        let help = "Nodes whose pods take more than they have; nothing more is put there";
        registry.register("gantry_scheduler_overcommitted_nodes", help, self.exceeded.clone());
    }

    /// A pod is bound.
    pub(crate) fn scheduled(&self, attempt: &Attempt, decided: Moment, now: Moment) {
        self.ended("scheduled", attempt, decided, now);
        let attempts = match attempt.number {
            many if many >= ATTEMPTS_TOLD_MAX => format!("{ATTEMPTS_TOLD_MAX}+"),
            few => few.to_string(),
        };
        let since = now.since(attempt.tried).as_secs_f64();
        self.sli.get_or_create(&AttemptsLabel { attempts }).observe(since);
        self.tries.observe(attempt.number.into());
    }

    /// A pod could not be bound.
    pub(crate) fn failed(&self, attempt: &Attempt, decided: Moment, now: Moment) {
        self.ended("error", attempt, decided, now);
    }

    /// No node can take a pod.
    pub(crate) fn unschedulable(&self, profile: &Arc<str>) {
        let labels = ResultLabels { result: UNSCHEDULABLE, profile: (**profile).to_owned() };
        self.attempts.get_or_create(&labels).inc();
    }

    /// A decision took so long; for one that no node can take the pod, that is the whole attempt.
    pub(crate) fn decided(&self, took: Duration, unschedulable: Option<&Arc<str>>) {
        self.algorithm.observe(took.as_secs_f64());
        if let Some(profile) = unschedulable {
            let labels = ResultLabels { result: UNSCHEDULABLE, profile: (**profile).to_owned() };
            self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }

    fn ended(&self, result: &'static str, attempt: &Attempt, decided: Moment, now: Moment) {
        let labels = ResultLabels { result, profile: (*attempt.profile).to_owned() };
        self.attempts.get_or_create(&labels).inc();
        self.durations.get_or_create(&labels).observe(now.since(decided).as_secs_f64());
    }

    /// Shows how many nodes carry more than they have.
    pub(crate) fn exceeded(&self, nodes: usize) {
        self.exceeded.set(count(nodes));
    }

    /// Shows how much there is of everything.
    pub(crate) fn measure(&self, engine: &Engine, flights: usize, unclear: usize) {
        let (mut active, mut backoff, mut waiting, mut gated) = (0, 0, 0, 0);
        for (_, standing) in engine.queue().standings() {
            match standing {
                Standing::Active | Standing::InFlight => active += 1,
                Standing::Backoff(_) | Standing::ErrorBackoff(_) => backoff += 1,
                Standing::Waiting => waiting += 1,
                Standing::Gated => gated += 1,
            }
        }
        let queues = [
            ("active", active),
            ("backoff", backoff),
            ("unschedulable", waiting),
            ("gated", gated),
        ];
        for (queue, count) in queues {
            self.pending.get_or_create(&QueueLabel { queue }).set(count);
        }
        let ledger = engine.ledger();
        let sizes = [
            ("nodes", ledger.nodes.present().len()),
            ("pods", ledger.pod_count()),
            ("assumed_pods", flights),
        ];
        for (r#type, size) in sizes {
            self.cached.get_or_create(&TypeLabel { r#type }).set(count(size));
        }
        self.missed_wakes.set(i64::try_from(engine.queue().missed_wakes()).unwrap_or(i64::MAX));
        self.unclear.set(count(unclear));
    }
}

fn count(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
