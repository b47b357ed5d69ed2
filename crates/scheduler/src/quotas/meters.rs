//! What is shown of quotas, under Koordinator's names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::elastic_quota::ROOT_QUOTA;
use chassis::metrics::exponential_buckets;
use engine::Engine;
use engine::quota::ByResource;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::status::{STANDS, Seen};

/// How many series there are of quotas at most: thousands of quotas of some resources each have them.
pub(super) const SERIES_MAX: usize = 100_000;
/// Resources that are shown of each quota that names them, also while there are no nodes.
const ALWAYS: [&str; 2] = ["cpu", "memory"];

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
    left_out: Gauge,
    writes: Histogram,
}

impl Default for QuotaMeters {
    fn default() -> Self {
        Self {
            status: Family::default(),
            spec: Family::default(),
            left_out: Gauge::default(),
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
        let help = "Series of ElasticQuotas that are not shown, since there are too many";
        let name = "gantry_scheduler_elastic_quota_series_left_out";
        registry.register(name, help, self.left_out.clone());
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

/// Which resources anybody can have of each tree of quotas: those that its nodes have, or that somebody uses. Whoever
/// writes a quota may make up dozens of others.
#[derive(Debug, Default)]
pub(super) struct Reach {
    version: u64,
    trees: BTreeMap<Box<str>, Arc<BTreeSet<Box<str>>>>,
}

impl Reach {
    /// The resources that anybody can have of a tree.
    pub(super) fn of(&mut self, engine: &mut Engine, tree: &str) -> Arc<BTreeSet<Box<str>>> {
        let version = engine.ledger().quotas.forest().version();
        if self.version != version {
            (self.version, self.trees) = (version, BTreeMap::new());
        }
        if let Some(own) = self.trees.get(tree) {
            return own.clone();
        }
        let root = engine.quota_view(tree).and_then(|view| view.standing(ROOT_QUOTA));
        let root = root.unwrap_or_default();
        let some = root.runtime.into_iter().chain(root.used).filter(|(_, amount)| *amount != 0);
        let own: BTreeSet<Box<str>> =
            some.map(|(name, _)| name).chain(ALWAYS.map(Box::from)).collect();
        let own = Arc::new(own);
        self.trees.insert(tree.into(), own.clone());
        own
    }
}

/// How many series there are of quotas.
#[derive(Debug, Default)]
pub(super) struct Series {
    shown: usize,
    left_out: usize,
}

/// What is shown of one quota.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    name: String,
    tree: String,
    is_parent: bool,
    parent: String,
    fields: Vec<(Which, &'static str, ByResource)>,
    /// How many series are not shown, since there are too many.
    left_out: usize,
}

impl Shown {
    /// What is to be shown of a quota of whose tree anybody can have these resources; nothing where it does not count.
    pub(super) fn of(seen: &Seen, reach: &BTreeSet<Box<str>>) -> Self {
        let fact = seen.fact.as_ref().filter(|fact| fact.excess().is_none());
        let (Some(fact), standing) = (fact, &seen.standing) else { return Self::default() };
        let said = [("min", &fact.min), ("max", &fact.max), ("sharedWeight", &fact.weight)];
        let stands = STANDS.iter().map(|own| (own.field, (own.of)(standing)));
        let stands = stands.chain([("used", &standing.used)]);
        let within = |list: &ByResource| -> ByResource {
            let own = list.iter().filter(|(name, _)| reach.contains(*name));
            own.map(|(name, amount)| (name.clone(), *amount)).collect()
        };
        let owned =
            |which| move |(field, list): (&'static str, &ByResource)| (which, field, within(list));
        let mut fields: Vec<_> = stands.chain(said).map(owned(Which::Status)).collect();
        fields.extend(said.map(owned(Which::Spec)));
        if fact.is_root {
            fields.push((Which::Status, "unschedulable-resource", within(&fact.unschedulable)));
        }
        Self {
            name: fact.name.to_string(),
            tree: seen.tree.to_string(),
            is_parent: fact.is_parent,
            parent: fact.parent.to_string(),
            fields,
            left_out: 0,
        }
    }

    /// How many series it has.
    fn count(&self) -> usize {
        self.fields.iter().map(|(.., list)| list.len()).sum()
    }

    /// The same, or none of it where it is too much beside what else is shown.
    fn within(mut self, room: usize) -> Self {
        let count = self.count();
        if count > room {
            (self.fields, self.left_out) = (Vec::new(), count);
        }
        self
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

    /// Shows this in the place of what was shown, where there is room for all of it; what did not change is not touched.
    pub(super) fn follow(&mut self, new: Self, meters: &QuotaMeters, series: &mut Series) {
        let beside = series.shown.saturating_sub(self.count());
        let new = new.within(SERIES_MAX.saturating_sub(beside));
        if *self == new {
            return;
        }
        series.shown = beside + new.count();
        series.left_out = (series.left_out + new.left_out).saturating_sub(self.left_out);
        meters.left_out.set(i64::try_from(series.left_out).unwrap_or(i64::MAX));
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
