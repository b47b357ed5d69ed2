//! What is shown of quotas, under Koordinator's names.

use std::time::Duration;

use chassis::metrics::exponential_buckets;
use engine::quota::ByResource;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::status::Seen;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QuotaLabels {
    name: String,
    resource: String,
    tree: String,
    is_parent: &'static str,
    parent: String,
    field: &'static str,
}

/// What is shown of quotas; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct QuotaMeters {
    status: Family<QuotaLabels, Gauge>,
    spec: Family<QuotaLabels, Gauge>,
    writes: Histogram,
}

impl Default for QuotaMeters {
    fn default() -> Self {
        Self {
            status: Family::default(),
            spec: Family::default(),
            writes: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
        }
    }
}

impl QuotaMeters {
    /// Registers what is shown.
    pub(crate) fn enter(&self, registry: &mut Registry) {
        let help = "How each ElasticQuota stands, by field and resource; CPU in thousandths";
        registry.register("scheduler_elastic_quota_status", help, self.status.clone());
        let help = "What each ElasticQuota says, by field and resource; CPU in thousandths";
        registry.register("scheduler_elastic_quota_spec", help, self.spec.clone());
        let help = "How long it takes to write how an ElasticQuota stands";
        let name = "scheduler_update_elastic_quota_status_duration_seconds";
        registry.register(name, help, self.writes.clone());
    }

    /// To write how a quota stands took so long.
    pub(super) fn took(&self, duration: Duration) {
        self.writes.observe(duration.as_secs_f64());
    }

    fn of(&self, family: Which) -> &Family<QuotaLabels, Gauge> {
        match family {
            Which::Status => &self.status,
            Which::Spec => &self.spec,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Status,
    Spec,
}

/// What is shown of one quota.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    name: String,
    tree: String,
    is_parent: bool,
    parent: String,
    fields: Vec<(Which, &'static str, ByResource)>,
}

impl Shown {
    /// What is to be shown of a quota; nothing where it does not count.
    pub(super) fn of(seen: &Seen) -> Self {
        let fact = seen.fact.as_ref().filter(|fact| fact.excess().is_none());
        let (Some(fact), standing) = (fact, &seen.standing) else { return Self::default() };
        let said = [("min", &fact.min), ("max", &fact.max), ("sharedWeight", &fact.weight)];
        let stands = [
            ("runtime", &standing.runtime),
            ("request", &standing.request),
            ("child-request", &standing.child_request),
            ("guaranteed", &standing.guaranteed),
            ("allocated", &standing.allocated),
            ("non-preemptible-request", &standing.non_preemptible_request),
            ("non-preemptible-used", &standing.non_preemptible_used),
            ("used", &standing.used),
        ];
        let owned =
            |which| move |(field, list): (&'static str, &ByResource)| (which, field, list.clone());
        let mut fields: Vec<_> = stands.into_iter().chain(said).map(owned(Which::Status)).collect();
        fields.extend(said.map(owned(Which::Spec)));
        if fact.is_root {
            fields.push((Which::Status, "unschedulable-resource", fact.unschedulable.clone()));
        }
        Self {
            name: fact.name.to_string(),
            tree: fact.tree_id.to_string(),
            is_parent: fact.is_parent,
            parent: fact.parent.to_string(),
            fields,
        }
    }

    fn labels(&self, field: &'static str, resource: &str) -> QuotaLabels {
        QuotaLabels {
            name: self.name.clone(),
            resource: resource.to_owned(),
            tree: self.tree.clone(),
            is_parent: if self.is_parent { "true" } else { "false" },
            parent: self.parent.clone(),
            field,
        }
    }

    /// Shows this in the place of what was shown; what did not change is not touched.
    pub(super) fn follow(&mut self, new: Self, meters: &QuotaMeters) {
        if *self == new {
            return;
        }
        let old = std::mem::replace(self, new);
        let is_same_quota = (&old.name, &old.tree, old.is_parent, &old.parent)
            == (&self.name, &self.tree, self.is_parent, &self.parent);
        for (which, field, list) in &old.fields {
            let mut now = self.fields.iter().filter(|own| (own.0, own.1) == (*which, *field));
            let now = now.next().map(|(.., list)| list).filter(|_| is_same_quota);
            let gone = list.keys().filter(|name| now.is_none_or(|now| !now.contains_key(*name)));
            for resource in gone {
                meters.of(*which).remove(&old.labels(field, resource));
            }
        }
        for (which, field, list) in &self.fields {
            for (resource, amount) in list {
                meters.of(*which).get_or_create(&self.labels(field, resource)).set(*amount);
            }
        }
    }
}
