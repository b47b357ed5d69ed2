//! How the checks of a process went whenever somebody asked for all of them: `/metrics/slis`, under
//! the names that Kubernetes' own programs tell it by.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::metrics::Metrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckLabels {
    name: &'static str,
    r#type: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    name: &'static str,
    status: &'static str,
    r#type: String,
}

/// How checks went; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Slis {
    last: Family<CheckLabels, Gauge>,
    all: Family<OutcomeLabels, Counter>,
    metrics: Metrics,
}

impl Slis {
    pub(super) fn new() -> Self {
        let own = Self::default();
        own.metrics.register(|registry| {
            let help = "This metric records the result of a single healthcheck";
            registry.register("kubernetes_healthcheck", help, own.last.clone());
            let help = "This metric records the results of all healthcheck";
            registry.register("kubernetes_healthchecks", help, own.all.clone());
        });
        own
    }

    /// What there is to show.
    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// All checks of an endpoint were run.
    pub(super) fn ran(&self, endpoint: &str, checks: &[(&'static str, bool)]) {
        for (name, is_ok) in checks {
            let (name, r#type) = (*name, endpoint.to_owned());
            let status = if *is_ok { "success" } else { "error" };
            self.all.get_or_create(&OutcomeLabels { name, status, r#type: r#type.clone() }).inc();
            self.last.get_or_create(&CheckLabels { name, r#type }).set(i64::from(*is_ok));
        }
    }
}
