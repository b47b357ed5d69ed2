//! What the hollow nodes tell of themselves.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::kubelets::Counts;
use crate::request::{Answer, Subject};

/// Upper bounds, in seconds, of how late a heartbeat is.
const LATE_SECONDS: [f64; 8] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 40.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    subject: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabels {
    phase: &'static str,
}

/// The metrics of one set of hollow nodes.
#[derive(Debug)]
pub(crate) struct HollowMetrics {
    nodes: Gauge,
    registered: Gauge,
    pods: Family<PhaseLabels, Gauge>,
    writes: Family<WriteLabels, Counter>,
    late: Histogram,
    told: Option<Counts>,
}

impl HollowMetrics {
    pub(crate) fn register(metrics: &chassis::serve::Metrics) -> Self {
        let own = Self {
            nodes: Gauge::default(),
            registered: Gauge::default(),
            pods: Family::default(),
            writes: Family::default(),
            late: Histogram::new(LATE_SECONDS),
            told: None,
        };
        metrics.register(|registry| {
            let registry = registry.sub_registry_with_prefix("gantry_hollow");
            registry.register("nodes", "Hollow nodes that this process runs", own.nodes.clone());
            let help = "Hollow nodes that the API server knows";
            registry.register("nodes_registered", help, own.registered.clone());
            registry.register("pods", "Pods on hollow nodes by phase", own.pods.clone());
            let help = "Requests to the API server by subject and outcome";
            registry.register("requests", help, own.writes.clone());
            let help = "How much later than due heartbeats were sent, in seconds";
            registry.register("heartbeat_late_seconds", help, own.late.clone());
        });
        own
    }

    pub(crate) fn count(&mut self, counts: Counts) {
        if self.told == Some(counts) {
            return;
        }
        let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.nodes.set(gauge(counts.nodes));
        self.registered.set(gauge(counts.registered));
        for (phase, number) in
            ["Pending", "Running", "Succeeded", "Failed"].into_iter().zip(counts.pods)
        {
            self.pods.get_or_create(&PhaseLabels { phase }).set(gauge(number));
        }
        self.told = Some(counts);
    }

    pub(crate) fn sent(&self, late: Option<Duration>) {
        if let Some(late) = late {
            self.late.observe(late.as_secs_f64());
        }
    }

    pub(crate) fn answered(&self, subject: Subject, answer: &Answer) {
        let outcome = match answer {
            Answer::Done(_) => "done",
            Answer::NotFound => "not_found",
            Answer::Exists => "exists",
            Answer::Later { .. } => "later",
            Answer::Refused(_) => "refused",
        };
        self.writes.get_or_create(&WriteLabels { subject: subject.as_str(), outcome }).inc();
    }
}
