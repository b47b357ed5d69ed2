//! How the checks of a process went whenever somebody asked for all of an endpoint, on whichever
//! port: `/metrics/slis`, under the names that Kubernetes' own programs tell it by.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::health::Report;
use crate::metrics::Metrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckLabels {
    name: &'static str,
    r#type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    name: &'static str,
    status: &'static str,
    r#type: &'static str,
}

/// How checks went.
#[derive(Debug)]
pub(super) struct Slis {
    last: Family<CheckLabels, Gauge>,
    all: Family<OutcomeLabels, Counter>,
    metrics: Metrics,
}

impl Default for Slis {
    /// Nobody has asked yet.
    fn default() -> Self {
        let own = Self { last: Family::default(), all: Family::default(), metrics: Metrics::new() };
        own.metrics.register(|registry| {
            let help = "This metric records the result of a single healthcheck";
            registry.register("kubernetes_healthcheck", help, own.last.clone());
            let help = "This metric records the results of all healthcheck";
            registry.register("kubernetes_healthchecks", help, own.all.clone());
        });
        own
    }
}

impl Slis {
    /// What there is to show.
    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// All checks of an endpoint were run.
    pub(super) fn ran(&self, r#type: &'static str, report: &Report) {
        for (name, outcome) in &report.0 {
            let (name, is_ok) = (*name, outcome.is_ok());
            let status = if is_ok { "success" } else { "error" };
            self.all.get_or_create(&OutcomeLabels { name, status, r#type }).inc();
            self.last.get_or_create(&CheckLabels { name, r#type }).set(i64::from(is_ok));
        }
    }
}
