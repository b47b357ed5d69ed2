//! What the scheduler counts, under kube-scheduler's names and with its buckets where a number
//! means the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chassis::metrics::{Metrics, exponential_buckets};
use engine::Engine;
use engine::decide::Looked;
use engine::moment::Moment;
use engine::plugin::Plugin;
use engine::queue::{Cause, Line, Standing};
use engine::turn::Waiting;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::gangs::GangMeters;
use crate::quotas::QuotaMeters;
use crate::reservations::ReservationMeters;

/// Attempts from here on are counted together.
const ATTEMPTS_TOLD_MAX: u32 = 15;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
    profile: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProfileLabel {
    profile: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IncomingLabels {
    queue: &'static str,
    event: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabels {
    plugin: &'static str,
    profile: String,
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
const VICTIMS: Doubling = Doubling { first: 1.0, count: 7 };
const NODES: Doubling = Doubling { first: 1.0, count: 24 };

/// Why an attempt came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No node can take the pod.
    Unschedulable,
    /// The attempt itself failed.
    Error,
}

impl Failure {
    fn name(self) -> &'static str {
        match self {
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        }
    }

    fn labels(self, profile: &Arc<str>) -> ResultLabels {
        ResultLabels { result: self.name(), profile: (**profile).to_owned() }
    }
}

/// An attempt to schedule a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// In whose name.
    pub profile: Arc<str>,
    /// Which one of this pod's.
    pub number: u32,
    /// When the pod could first be tried.
    pub since: Moment,
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
    evaluated: Histogram,
    feasible: Histogram,
    cached: Family<TypeLabel, Gauge>,
    incoming: Family<IncomingLabels, Counter>,
    refused: Family<PluginLabels, Gauge>,
    preemptions: Counter,
    victims: Histogram,
    missed_wakes: Gauge,
    gangs_waiting: Gauge,
    unclear: Gauge,
    exceeded: Gauge,
    stale: Gauge,
    /// The name of a counter would end otherwise than upstream's.
    timeouts: Family<ProfileLabel, Gauge>,
    pub(crate) reservations: ReservationMeters,
    pub(crate) quotas: QuotaMeters,
    pub(crate) gangs: GangMeters,
}

/// What of one engine is shown already.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    arrivals: BTreeMap<(Line, Cause), u64>,
    refused: BTreeSet<(Arc<str>, Plugin)>,
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
            evaluated: NODES.histogram(),
            feasible: NODES.histogram(),
            cached: Family::default(),
            incoming: Family::default(),
            refused: Family::default(),
            preemptions: Counter::default(),
            victims: VICTIMS.histogram(),
            missed_wakes: Gauge::default(),
            gangs_waiting: Gauge::default(),
            unclear: Gauge::default(),
            exceeded: Gauge::default(),
            stale: Gauge::default(),
            timeouts: Family::default(),
            reservations: ReservationMeters::default(),
            quotas: QuotaMeters::default(),
            gangs: GangMeters::default(),
        };
        metrics.register(|registry| {
            own.enter(registry);
            own.enter_queue(registry);
            own.reservations.enter(registry);
            own.quotas.enter(registry);
            own.gangs.enter(registry);
        });
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
        let help = "E2e latency for a pod being scheduled, from the time the pod enters the \
                    scheduling queue and might involve multiple scheduling attempts";
        registry.register("scheduler_pod_scheduling_sli_duration_seconds", help, self.sli.clone());
        let help = "Number of attempts to successfully schedule a pod";
        registry.register("scheduler_pod_scheduling_attempts", help, self.tries.clone());
        let help = "Number of nodes that were looked at for a pod that got one";
        registry.register("scheduler_pod_scheduling_evaluated_nodes", help, self.evaluated.clone());
        let help = "Number of nodes that could take a pod that got one of them";
        registry.register("scheduler_pod_scheduling_feasible_nodes", help, self.feasible.clone());
        let help = "Total preemption attempts in the cluster till now";
        registry.register("scheduler_preemption_attempts", help, self.preemptions.clone());
        let help = "How often a scheduling attempt was found to last longer than it should";
        registry.register("scheduler_scheduling_timeout", help, self.timeouts.clone());
        let help = "Number of selected preemption victims";
        registry.register("scheduler_preemption_victims", help, self.victims.clone());
    }

    fn enter_queue(&self, registry: &mut Registry) {
        let help = "Number of pending pods, by the queue type";
        registry.register("scheduler_pending_pods", help, self.pending.clone());
        let help = "Number of pods added to scheduling queues by event and queue type";
        registry.register("scheduler_queue_incoming_pods", help, self.incoming.clone());
        let help = "The number of unschedulable pods broken down by plugin name. A pod counts for \
                    every plugin that refused it";
        registry.register("scheduler_unschedulable_pods", help, self.refused.clone());
        let help = "Number of nodes, pods, and assumed (bound) pods in the scheduler cache";
        registry.register("scheduler_cache_size", help, self.cached.clone());
        let help = "Pods that got a node only because time had passed: a change that should have \
                    woken them was overlooked";
        registry.register("gantry_scheduler_missed_wakes", help, self.missed_wakes.clone());
        let help = "Groups of gangs whose members have nodes and are not all bound";
        registry.register("scheduler_waiting_gang_group_number", help, self.gangs_waiting.clone());
        let help = "Bindings of which nobody knows yet what became of them";
        registry.register("gantry_scheduler_unclear_bindings", help, self.unclear.clone());
        let help = "Nodes whose pods take more than they have; nothing more is put there";
        registry.register("gantry_scheduler_overcommitted_nodes", help, self.exceeded.clone());
        let help = "Nodes that have not reported their load for too long";
        registry.register("gantry_scheduler_stale_node_metrics", help, self.stale.clone());
    }

    /// A pod is bound.
    pub(crate) fn scheduled(&self, attempt: &Attempt, decided: Moment, now: Moment) {
        self.ended("scheduled", attempt, decided, now);
        let attempts = match attempt.number {
            many if many >= ATTEMPTS_TOLD_MAX => format!("{ATTEMPTS_TOLD_MAX}+"),
            few => few.to_string(),
        };
        let since = now.since(attempt.since).as_secs_f64();
        self.sli.get_or_create(&AttemptsLabel { attempts }).observe(since);
        self.tries.observe(attempt.number.into());
    }

    /// A pod gets a node, for which so many were looked at.
    pub(crate) fn looked(&self, looked: Looked) {
        let told = |nodes: usize| f64::from(u32::try_from(nodes).unwrap_or(u32::MAX));
        self.evaluated.observe(told(looked.nodes));
        self.feasible.observe(told(looked.feasible));
    }

    /// A pod could not be bound.
    pub(crate) fn failed(&self, attempt: &Attempt, decided: Moment, now: Moment) {
        self.ended(Failure::Error.name(), attempt, decided, now);
    }

    /// An attempt is over as soon as it was decided. How long that took is said later.
    pub(crate) fn came_to_nothing(&self, profile: &Arc<str>, failure: Failure) {
        self.attempts.get_or_create(&failure.labels(profile)).inc();
    }

    /// An attempt that came to nothing took so long in all.
    pub(crate) fn took(&self, profile: &Arc<str>, failure: Failure, took: Duration) {
        self.durations.get_or_create(&failure.labels(profile)).observe(took.as_secs_f64());
    }

    /// No node can take a pod.
    pub(crate) fn unschedulable(&self, waiting: &Waiting) {
        // Where there is no node, upstream does not come to it.
        if waiting.last_resorts.preemption.is_some() && waiting.examination.nodes > 0 {
            self.preemptions.inc();
        }
        if let Some(room) = waiting.room() {
            let victims = u32::try_from(room.victims.len()).unwrap_or(u32::MAX);
            self.victims.observe(victims.into());
        }
    }

    /// A decision took so long.
    pub(crate) fn decided(&self, took: Duration) {
        self.algorithm.observe(took.as_secs_f64());
    }

    fn ended(&self, result: &'static str, attempt: &Attempt, decided: Moment, now: Moment) {
        let labels = ResultLabels { result, profile: (*attempt.profile).to_owned() };
        self.attempts.get_or_create(&labels).inc();
        self.durations.get_or_create(&labels).observe(now.since(decided).as_secs_f64());
    }

    /// An attempt lasts longer than it should.
    pub(crate) fn timed_out(&self, profile: &Arc<str>) {
        self.timeouts.get_or_create(&ProfileLabel { profile: (**profile).to_owned() }).inc();
    }

    /// Shows how many nodes carry more than they have.
    pub(crate) fn exceeded(&self, nodes: usize) {
        self.exceeded.set(count(nodes));
    }

    /// Shows how many nodes have not reported their load for too long.
    pub(crate) fn silent(&self, nodes: usize) {
        self.stale.set(count(nodes));
    }

    /// Shows how much there is of everything.
    pub(crate) fn measure(
        &self,
        engine: &Engine,
        flights: usize,
        unclear: usize,
        shown: &mut Shown,
    ) {
        self.measure_queue(engine, shown);
        let ledger = engine.ledger();
        let placed = ledger.nodes.pods.iter().sum();
        let sizes = [
            ("nodes", count(ledger.nodes.present().len())),
            ("pods", placed),
            ("assumed_pods", count(flights)),
        ];
        for (r#type, size) in sizes {
            self.cached.get_or_create(&TypeLabel { r#type }).set(size);
        }
        self.missed_wakes.set(i64::try_from(engine.queue().missed_wakes()).unwrap_or(i64::MAX));
        self.unclear.set(count(unclear));
    }

    fn measure_queue(&self, engine: &Engine, shown: &mut Shown) {
        let (of_gangs, incomplete) = engine.gang_standings();
        let (mut active, mut backoff, mut waiting, mut gated) = (0, 0, 0, count(incomplete));
        let of_gangs = of_gangs.into_iter().map(|(standing, pods)| (standing, count(pods)));
        let single = engine.queue().standings().map(|(_, standing)| (standing, 1));
        for (standing, pods) in single.chain(of_gangs) {
            match standing {
                Standing::Active => active += pods,
                // It is in no queue while it is being decided.
                Standing::InFlight => {}
                Standing::Backoff(_) | Standing::ErrorBackoff(_) => backoff += pods,
                Standing::Waiting => waiting += pods,
                Standing::Gated => gated += pods,
            }
        }
        self.gangs_waiting.set(count(engine.gangs_released()));
        let queues = [
            ("active", active),
            ("backoff", backoff),
            ("unschedulable", waiting),
            ("gated", gated),
        ];
        for (queue, count) in queues {
            self.pending.get_or_create(&QueueLabel { queue }).set(count);
        }
        for (line, cause, times) in engine.queue().arrivals().iter() {
            let old = shown.arrivals.insert((line, cause), times).unwrap_or_default();
            let labels = IncomingLabels { queue: line.name(), event: cause };
            self.incoming.get_or_create(&labels).inc_by(times - old);
        }
        let refused = engine.refused();
        // Who refuses nobody any longer is shown with nothing, as upstream does.
        for key in shown.refused.iter().filter(|key| !refused.contains_key(key)) {
            self.refused.get_or_create(&plugin_labels(key)).set(0);
        }
        for (key, pods) in refused.into_iter().filter(|((_, plugin), _)| *plugin != Plugin::Other) {
            self.refused.get_or_create(&plugin_labels(&key)).set(count(pods));
            shown.refused.insert(key);
        }
    }
}

fn plugin_labels((profile, plugin): &(Arc<str>, Plugin)) -> PluginLabels {
    PluginLabels { plugin: plugin.name(), profile: (**profile).to_owned() }
}

fn count(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}
