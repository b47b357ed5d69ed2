//! The metrics of a process, and those that every component has.
//!
//! Every name begins with `gantry_` and a word for who counts, but for what means the same in
//! Kubernetes' own programs (work queues, requests, what a process takes of its machine, and what
//! the scheduler counts of its pods): that is counted under the names and in the
//! [buckets](exponential_buckets) that those use, so that dashboards made for them show ours.
//!
//! A component registers what it counts with [`Metrics::register`], each metric once, under its
//! whole name; `_total` is added to the names of counters. Labels come from closed sets. What is
//! counted often is looked up once, by `Family::get_or_create_owned`, and kept.

mod plain;
mod process;
mod requests;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use process::Process;
pub(crate) use requests::RequestMeters;
use requests::RequestMetrics;

/// Upper bounds, in seconds, of how long a reconciliation takes.
const WORK_SECONDS: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// The upper bounds of a histogram's buckets: `start`, and `count - 1` more, each `factor` times
/// the one before.
///
/// They are the very numbers that Go's `prometheus.ExponentialBuckets` gives, to the last bit:
/// a bucket's bound is part of its name, and sums over programs need equal names.
///
/// ```
/// use chassis::metrics::exponential_buckets;
/// assert_eq!(exponential_buckets(0.001, 2.0, 4), [0.001, 0.002, 0.004, 0.008]);
/// assert_eq!(exponential_buckets(0.00001, 1.5, 2)[1], 1.5000000000000002e-05);
/// ```
#[must_use]
pub fn exponential_buckets(start: f64, factor: f64, count: u16) -> Vec<f64> {
    // One by one, as Go does: a power would round otherwise.
    std::iter::successors(Some(start), |bound| Some(bound * factor)).take(count.into()).collect()
}

/// The metrics of a process; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    registry: Mutex<Registry>,
    queues: OnceLock<QueueMetrics>,
    reflectors: OnceLock<ReflectorMetrics>,
    events: OnceLock<EventMeters>,
    requests: OnceLock<RequestMetrics>,
    process: OnceLock<()>,
}

impl Metrics {
    /// No metrics yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers metrics.
    pub fn register<R>(&self, register: impl FnOnce(&mut Registry) -> R) -> R {
        register(&mut self.0.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shows what this process takes of its machine as well (`process_…`).
    pub fn show_process(&self) {
        self.0.process.get_or_init(|| {
            self.register(|registry| registry.register_collector(Box::new(Process::this())));
        });
    }

    /// The metrics as text, in the format 0.0.4 that Kubernetes' programs use.
    #[must_use]
    pub fn render(&self) -> String {
        let registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open = String::new();
        // Writing to a string cannot fail; what a collector of ours could not write is
        // left out.
        let _ = prometheus_client::encoding::text::encode(&mut open, &registry);
        plain::plain(&open)
    }

    /// The counters of requests to a server.
    #[must_use]
    pub(crate) fn requests(&self, host: &str) -> RequestMeters {
        self.0.requests.get_or_init(|| self.register(RequestMetrics::register)).to(host)
    }

    /// The counters of one controller's queue and loop.
    #[must_use]
    pub(crate) fn queue(&self, name: &'static str) -> QueueMeters {
        self.0.queues.get_or_init(|| self.register(QueueMetrics::register)).of(name)
    }

    /// The counters of the events for users.
    #[must_use]
    pub(crate) fn events(&self) -> EventMeters {
        self.0.events.get_or_init(|| self.register(EventMeters::register)).clone()
    }

    /// The counters of one resource's reflector.
    #[must_use]
    pub(crate) fn reflector(&self, resource: String) -> ReflectorMeters {
        self.0.reflectors.get_or_init(|| self.register(ReflectorMetrics::register)).of(resource)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameLabel {
    name: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    name: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabel {
    resource: String,
}

/// How long work takes, per queue.
type Durations = Family<NameLabel, Histogram, fn() -> Histogram>;

#[derive(Debug)]
struct QueueMetrics {
    depth: Family<NameLabel, Gauge>,
    adds: Family<NameLabel, Counter>,
    retries: Family<NameLabel, Counter>,
    durations: Durations,
    results: Family<ResultLabel, Counter>,
}

impl QueueMetrics {
    fn register(registry: &mut Registry) -> Self {
        let own = Self {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            durations: Durations::new_with_constructor(|| Histogram::new(WORK_SECONDS)),
            results: Family::default(),
        };
        registry.register("workqueue_depth", "Keys that are in line", own.depth.clone());
        registry.register("workqueue_adds", "Keys that were put in line", own.adds.clone());
        let help = "Keys that were put off after a failure";
        registry.register("workqueue_retries", help, own.retries.clone());
        let help = "How long one look at a key took, in seconds";
        registry.register("workqueue_work_duration_seconds", help, own.durations.clone());
        let help = "Looks at keys by how they ended";
        registry.register("gantry_controller_reconciles", help, own.results.clone());
        own
    }

    fn of(&self, name: &'static str) -> QueueMeters {
        let label = NameLabel { name };
        let result = |result| self.results.get_or_create_owned(&ResultLabel { name, result });
        QueueMeters {
            depth: self.depth.get_or_create_owned(&label),
            adds: self.adds.get_or_create_owned(&label),
            retries: self.retries.get_or_create_owned(&label),
            durations: self.durations.get_or_create_owned(&label),
            done: result("done"),
            conflicts: result("conflict"),
            failures: result("failure"),
        }
    }
}

/// How a look at a key ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All is well.
    Done,
    /// Somebody else was faster.
    Conflict,
    /// Something else went wrong.
    Failure,
}

/// The counters of one queue and its loop.
#[derive(Debug, Clone)]
pub(crate) struct QueueMeters {
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    durations: Histogram,
    done: Counter,
    conflicts: Counter,
    failures: Counter,
}

impl QueueMeters {
    pub(crate) fn added(&self) {
        self.adds.inc();
    }

    pub(crate) fn depth(&self, keys: usize) {
        self.depth.set(i64::try_from(keys).unwrap_or(i64::MAX));
    }

    pub(crate) fn looked(&self, took: Duration, ending: Ending) {
        self.durations.observe(took.as_secs_f64());
        let counter = match ending {
            Ending::Done => &self.done,
            Ending::Conflict => &self.conflicts,
            Ending::Failure => &self.failures,
        };
        counter.inc();
        if ending != Ending::Done {
            self.retries.inc();
        }
    }
}

#[derive(Debug)]
struct ReflectorMetrics {
    lists: Family<ResourceLabel, Counter>,
    relists: Family<ResourceLabel, Counter>,
    watches: Family<ResourceLabel, Counter>,
}

impl ReflectorMetrics {
    fn register(registry: &mut Registry) -> Self {
        let own = Self {
            lists: Family::default(),
            relists: Family::default(),
            watches: Family::default(),
        };
        registry.register("gantry_reflector_lists", "Lists that were begun", own.lists.clone());
        let help = "Lists that were begun though one had been taken before";
        registry.register("gantry_reflector_relists", help, own.relists.clone());
        registry.register(
            "gantry_reflector_watches",
            "Watches that were opened",
            own.watches.clone(),
        );
        own
    }

    fn of(&self, resource: String) -> ReflectorMeters {
        let label = ResourceLabel { resource };
        ReflectorMeters {
            lists: self.lists.get_or_create_owned(&label),
            relists: self.relists.get_or_create_owned(&label),
            watches: self.watches.get_or_create_owned(&label),
        }
    }
}

/// The counters of one reflector.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReflectorMeters {
    lists: Counter,
    relists: Counter,
    watches: Counter,
}

impl ReflectorMeters {
    pub(crate) fn listed(&self, is_first: bool) {
        self.lists.inc();
        if !is_first {
            self.relists.inc();
        }
    }

    pub(crate) fn watched(&self) {
        self.watches.inc();
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FateLabel {
    result: &'static str,
}

/// The counters of the events for users.
#[derive(Debug, Clone)]
pub(crate) struct EventMeters {
    written: Counter,
    spared: Counter,
    dropped: Counter,
}

impl EventMeters {
    fn register(registry: &mut Registry) -> Self {
        let fates: Family<FateLabel, Counter> = Family::default();
        registry.register(
            "gantry_events",
            "Events for users by what became of them",
            fates.clone(),
        );
        let of = |result| fates.get_or_create_owned(&FateLabel { result });
        Self { written: of("written"), spared: of("spared"), dropped: of("dropped") }
    }

    /// An event was written.
    pub(crate) fn written(&self) {
        self.written.inc();
    }

    /// An event was spared, since its object has had its share or its count is written later.
    pub(crate) fn spared(&self) {
        self.spared.inc();
    }

    /// Events were refused, given up, or found the line full.
    pub(crate) fn dropped(&self, events: usize) {
        self.dropped.inc_by(u64::try_from(events).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_counts_under_whole_names_in_the_buckets_of_kubernetes() {
        #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
        struct Attempt {
            result: &'static str,
        }
        let metrics = Metrics::new();
        let (attempts, duration) = metrics.register(|registry| {
            let attempts: Family<Attempt, Counter> = Family::default();
            registry.register("scheduler_schedule_attempts", "Attempts", attempts.clone());
            let duration = Histogram::new(exponential_buckets(0.001, 2.0, 15));
            let name = "scheduler_scheduling_attempt_duration_seconds";
            registry.register(name, "How long an attempt took", duration.clone());
            (attempts, duration)
        });
        attempts.get_or_create_owned(&Attempt { result: "scheduled" }).inc();
        duration.observe(0.003);
        let text = metrics.render();
        for line in [
            "scheduler_schedule_attempts_total{result=\"scheduled\"} 1",
            "scheduler_scheduling_attempt_duration_seconds_bucket{le=\"0.002\"} 0",
            "scheduler_scheduling_attempt_duration_seconds_bucket{le=\"0.004\"} 1",
            "scheduler_scheduling_attempt_duration_seconds_bucket{le=\"16.384\"} 1",
            "scheduler_scheduling_attempt_duration_seconds_bucket{le=\"+Inf\"} 1",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
    }

    #[test]
    fn queues_count_under_kubernetes_names_and_the_rest_under_ours() {
        let metrics = Metrics::new();
        let queue = metrics.queue("job");
        queue.added();
        queue.depth(3);
        queue.looked(Duration::from_millis(20), Ending::Done);
        queue.looked(Duration::from_millis(20), Ending::Conflict);
        // A second one of the same name counts on, and registers nothing anew.
        metrics.queue("job").added();
        let pods = metrics.reflector("pods.v1".to_owned());
        pods.listed(true);
        pods.listed(false);
        pods.watched();
        let text = metrics.render();
        for line in [
            "workqueue_adds_total{name=\"job\"} 2",
            "workqueue_depth{name=\"job\"} 3",
            "workqueue_retries_total{name=\"job\"} 1",
            "workqueue_work_duration_seconds_count{name=\"job\"} 2",
            "gantry_controller_reconciles_total{name=\"job\",result=\"conflict\"} 1",
            "gantry_controller_reconciles_total{name=\"job\",result=\"failure\"} 0",
            "gantry_reflector_lists_total{resource=\"pods.v1\"} 2",
            "gantry_reflector_relists_total{resource=\"pods.v1\"} 1",
            "gantry_reflector_watches_total{resource=\"pods.v1\"} 1",
        ] {
            assert_eq!(text.lines().filter(|own| *own == line).count(), 1, "{line}\n{text}");
        }
        metrics.events().dropped(1);
        let text = metrics.render();
        let mut names = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let is_named = |name: &str| name.starts_with("gantry_") || name.starts_with("workqueue_");
        assert!(names.all(is_named), "{text}");
    }
}
