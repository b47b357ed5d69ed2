//! What nodes report of their load, and what is said of it on nodes and pods.

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use api::NodeMetric;
use api::load::{self, UsageThresholds};
use api::node::Node;
use api::node_metric::{PodMetric, PodName, ResourceMap};
use api::pod::Pod;
use api::priority::PriorityBand;
use object::condition;
use rustc_hash::FxBuildHasher;

use super::amounts::{amounts, named, used};
use super::{Fact, LoadTimes};
use crate::moment::Moment;
use crate::needs::{Amounts, LoadNeeds};

/// How many seconds are between two reports where nobody says so.
const REPORT_SECONDS: u64 = 60;

/// What a node reports of its load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// When; a report that never was one has no time.
    pub at: Option<Moment>,
    /// How much later the next one comes.
    pub interval: Duration,
    /// What the node uses, where it says so.
    pub node: Option<NodeUsage>,
    /// What its pods use.
    pub pods: PodUsages,
}

/// Which pod, and what it uses.
type UsageOfPod = (PodName, PodUsage);

/// What pods use.
///
/// Every pod that comes to a node is looked for among those that it reports, and is mostly not there:
/// hashes that lie side by side say so, where names would have to be fetched from all over memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodUsages {
    /// Of namespaces and names, in order.
    hashes: Box<[u64]>,
    /// Of those with one hash, in the order of their namespaces and names.
    pods: Box<[UsageOfPod]>,
}

fn hash(namespace: &str, name: &str) -> u64 {
    FxBuildHasher.hash_one((namespace, name))
}

fn hash_of((pod, _): &UsageOfPod) -> u64 {
    hash(pod.namespace(), pod.name())
}

impl PodUsages {
    /// What the pod of this namespace and name uses.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<&PodUsage> {
        let hash = hash(namespace, name);
        let first = self.hashes.partition_point(|own| *own < hash);
        let count = self.hashes[first..].iter().take_while(|own| **own == hash).count();
        let mut alike = self.pods[first..first + count].iter();
        let found = alike.find(|(own, _)| (own.namespace(), own.name()) == (namespace, name));
        found.map(|(_, usage)| usage)
    }

    /// What each of them uses.
    pub fn values(&self) -> impl Iterator<Item = &PodUsage> {
        self.pods.iter().map(|(_, usage)| usage)
    }

    /// What these use, each put where it stays: they are large, and come in an order of their own.
    fn sorted<T>(
        mut all: Vec<T>,
        pod: impl Fn(&T) -> &PodName,
        usage: impl Fn(&mut T) -> UsageOfPod,
    ) -> Self {
        let hashed = |(at, own): (usize, &T)| (hash(pod(own).namespace(), pod(own).name()), at);
        let mut order: Vec<(u64, usize)> = all.iter().enumerate().map(hashed).collect();
        order.sort_unstable();
        // Slices, so that each is as large from the beginning as it will be.
        let mut pods: Box<[UsageOfPod]> =
            order.iter().map(|(_, at)| usage(&mut all[*at])).collect();
        let mut hashes: Box<[u64]> = order.iter().map(|(hash, _)| *hash).collect();
        if hashes.windows(2).any(|two| two[0] == two[1]) {
            let mut alike = pods.into_vec();
            sort_alike(&mut alike);
            hashes = alike.iter().map(hash_of).collect();
            pods = alike.into();
        }
        Self { hashes, pods }
    }
}

impl From<Vec<PodMetric>> for PodUsages {
    /// Of several with one name, the last counts.
    fn from(all: Vec<PodMetric>) -> Self {
        let usage = |own: &mut PodMetric| {
            let band = PriorityBand::parse(&own.priority).ok();
            (std::mem::take(&mut own.pod), PodUsage { now: in_use(&own.pod_usage), band })
        };
        Self::sorted(all, |own| &own.pod, usage)
    }
}

impl FromIterator<UsageOfPod> for PodUsages {
    /// Of several with one name, the last counts.
    fn from_iter<I: IntoIterator<Item = UsageOfPod>>(all: I) -> Self {
        Self::sorted(all.into_iter().collect(), |(pod, _)| pod, std::mem::take)
    }
}

/// Sorts pods of which some have one hash, and leaves the last of those that have one name.
fn sort_alike(pods: &mut Vec<UsageOfPod>) {
    fn key(own: &UsageOfPod) -> (u64, &str, &str) {
        (hash_of(own), own.0.namespace(), own.0.name())
    }
    object::list::sort(pods, |one, other| key(one).cmp(&key(other)));
}

impl LoadReport {
    /// It was made when it came, at the latest: a clock that is ahead does not keep it from getting old.
    pub(crate) fn received(self: &mut Arc<Self>, now: Moment) {
        if self.at.is_some_and(|at| at > now) {
            Arc::make_mut(self).at = Some(now);
        }
    }
}

/// What a node uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeUsage {
    /// In all.
    pub now: Amounts,
    /// What of it is used by the system itself.
    pub system: Amounts,
    /// What was used during some time before, the longest first.
    pub windows: Vec<UsageWindow>,
}

/// What a node used for a while.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageWindow {
    /// For how long.
    pub length: Duration,
    /// How much, in the order of [`Aggregation::ALL`]; nothing where that is not told.
    figures: [Amounts; Aggregation::ALL.len()],
}

impl UsageWindow {
    /// What was used by this figure, where that is told and not nothing.
    #[must_use]
    pub fn figure(&self, figure: Aggregation) -> Option<&Amounts> {
        Some(&self.figures[figure as usize]).filter(|used| !used.is_nothing())
    }
}

/// What a pod uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodUsage {
    /// How much.
    pub now: Amounts,
    /// The band that the node takes it to be in; none where it says none.
    pub band: Option<PriorityBand>,
}

/// Which figure of a while is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Aggregation {
    /// The mean.
    Avg,
    /// What half of all samples do not exceed.
    P50,
    /// What nine of ten do not exceed.
    P90,
    /// What all but five of a hundred do not exceed.
    P95,
    /// What all but one of a hundred do not exceed.
    P99,
}

impl Aggregation {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Avg, Self::P50, Self::P90, Self::P95, Self::P99];

    /// The name that users write.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Avg => "avg",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == name)
    }
}

/// Percentages by resource; 0 means that it is not looked at.
pub type Percents = load::Percents;

/// What of a window must not be exceeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowLimits {
    /// In percent of what the node has.
    pub percents: Percents,
    /// Which figure.
    pub figure: Aggregation,
    /// Of how long; zero means the longest there is.
    pub window: Duration,
}

/// What is said on a node of how its load is judged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadRules {
    /// What the machine has of some resources, where the node offers more than that.
    pub capacity: Amounts,
    /// Which resources those are.
    pub capacity_of: Vec<Box<str>>,
    /// In place of what the profile says.
    pub usage: Option<Percents>,
    /// The same for what pods use that earn money.
    pub prod: Option<Percents>,
    /// The same for a while.
    pub window: Option<WindowLimits>,
}

/// Percentages; none where there are none.
fn some(percents: Option<Percents>) -> Option<Percents> {
    percents.filter(|percents| !percents.is_empty())
}

impl LoadRules {
    /// What a node says; none where it says nothing, or nothing that can be read.
    #[must_use]
    pub fn of(node: &Node) -> Option<Arc<Self>> {
        let raw = load::raw_allocatable(node).ok().flatten().unwrap_or_default();
        let own = UsageThresholds::of(node).ok().flatten().unwrap_or_default();
        let window = own.aggregated_usage.and_then(|own| {
            let figure = Aggregation::named(&own.usage_aggregation_type)?;
            let window = own.usage_aggregated_duration.map(length).unwrap_or_default();
            let percents = some(Some(own.usage_thresholds))?;
            Some(WindowLimits { percents, figure, window })
        });
        let rules = Self {
            capacity: amounts(named(&raw)),
            capacity_of: raw.keys().map(|name| name.as_str().into()).collect(),
            usage: some(own.usage_thresholds),
            prod: some(own.prod_usage_thresholds),
            window,
        };
        (rules != Self::default()).then(|| Arc::new(rules))
    }
}

/// A length of time, which is none where it is negative.
fn length(duration: object::time::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or_default())
}

fn in_use(map: &ResourceMap) -> Amounts {
    used(&map.resources)
}

impl From<NodeMetric> for Fact {
    fn from(wire: NodeMetric) -> Self {
        let policy = wire.spec.metric_collect_policy.as_ref();
        let seconds = policy.and_then(|policy| policy.report_interval_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let status = wire.status;
        let node = status.node_metric.as_ref().map(|own| {
            let window = |one: &api::node_metric::AggregatedUsage| {
                let figure = |own: Aggregation| one.usage.get(own.name()).map(in_use);
                let figures = Aggregation::ALL.map(|own| figure(own).unwrap_or_default());
                UsageWindow { length: one.duration.map(length).unwrap_or_default(), figures }
            };
            let mut windows: Vec<UsageWindow> =
                own.aggregated_node_usages.iter().map(window).collect();
            windows.sort_by_key(|window| std::cmp::Reverse(window.length));
            NodeUsage { now: in_use(&own.node_usage), system: in_use(&own.system_usage), windows }
        });
        let report = LoadReport {
            at: status.update_time.map(Moment::from),
            interval: Duration::from_secs(seconds.unwrap_or(REPORT_SECONDS)),
            node,
            pods: status.pods_metric.into(),
        };
        Self::Load { node: wire.metadata.name.into(), report: Some(report.into()) }
    }
}

impl LoadTimes {
    /// When a pod got its node, and when its init containers ended.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        let since = |name: &str| {
            let condition = condition::find(&pod.status.conditions, name)?;
            condition.last_transition_time.filter(|_| condition.is_true()).map(Moment::from)
        };
        let scheduled = since("PodScheduled").or_else(|| pod.status.start_time.map(Moment::from));
        Self { scheduled, initialized: since("Initialized") }
    }
}

/// What of a pod its load is estimated by, besides these requests; none where that follows from them.
pub(super) fn load_needs(pod: &Pod, requests: &Amounts, limits: Amounts) -> Option<LoadNeeds> {
    let factors = load::scaling_factors(pod).ok().flatten().unwrap_or_default();
    let factors = factors.into_iter().filter(|(_, factor)| *factor >= 0);
    let mut owners = pod.metadata.owner_references.iter();
    let needs = LoadNeeds {
        band: PriorityBand::of_pod(pod),
        limits,
        factors: factors.collect(),
        after_scheduled: load::seconds(pod, load::SECONDS_AFTER_SCHEDULED),
        after_initialized: load::seconds(pod, load::SECONDS_AFTER_INITIALIZED),
        is_daemon: owners.any(|owner| owner.kind == "DaemonSet"),
    };
    (needs != LoadNeeds::of_requests(requests)).then_some(needs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_figure_that_may_be_written_is_known() {
        assert_eq!(Aggregation::ALL.map(Aggregation::name), load::AGGREGATION_TYPES);
        assert_eq!(Aggregation::ALL.map(|own| own as usize), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn pods_are_found_by_name_and_the_last_of_several_counts() {
        let usage = |cpu_millis| PodUsage {
            now: Amounts { cpu_millis, ..Amounts::default() },
            ..PodUsage::default()
        };
        let all = [("b", "x", 1), ("a", "y", 2), ("b", "x", 3), ("a", "x", 4), ("b", "x", 5)];
        let all = all.map(|(namespace, name, cpu)| (PodName::new(namespace, name), usage(cpu)));
        let own: PodUsages = all.into_iter().collect();
        let of =
            |namespace: &str, name: &str| own.get(namespace, name).map(|own| own.now.cpu_millis);
        assert_eq!([of("a", "x"), of("a", "y"), of("b", "x")], [Some(4), Some(2), Some(5)]);
        assert_eq!([of("b", "y"), of("", "x"), of("c", "x")], [None; 3]);
    }

    #[test]
    fn what_is_used_is_the_same_whatever_else_is_told() {
        let check = |list: &str, expected: [i64; 2]| {
            let other = list.replace('}', r#","ephemeral-storage":"0"}"#).replace("{,", "{");
            for text in [list, &other] {
                let own = used(&serde_json::from_str(text).unwrap());
                assert_eq!([own.cpu_millis, own.memory_bytes], expected, "{text}");
                assert_eq!((own.storage_bytes, own.scalars), (0, Vec::new()), "{text}");
            }
        };
        check("{}", [0, 0]);
        check(r#"{"cpu":"1500m"}"#, [1_500, 0]);
        check(r#"{"memory":"2Ki","cpu":"0.0001"}"#, [1, 2_048]);
        check(r#"{"cpu":"-1","memory":"1m"}"#, [0, 1]);
        check(r#"{"cpu":"1e30","memory":"-1e30"}"#, [1 << 48, 0]);
    }

    #[test]
    fn figures_are_told_of_where_something_was_used() {
        let used = |cpu: &str| json!({ "resources": { "cpu": cpu } });
        let usage = json!({ "p95": used("2"), "p50": used("0"), "most": used("9") });
        let windows = json!([{ "duration": "5m0s", "usage": usage }, { "duration": "10m0s" }]);
        let wire = json!({ "status": { "nodeMetric": { "aggregatedNodeUsages": windows } } });
        let Fact::Load { report: Some(report), .. } =
            Fact::from(serde_json::from_value::<NodeMetric>(wire).unwrap())
        else {
            panic!("it is a report");
        };
        let told = report.node.as_ref().unwrap().windows.iter().map(|own| {
            let figures = Aggregation::ALL.map(|of| own.figure(of).map(|used| used.cpu_millis));
            (own.length.as_secs(), figures)
        });
        let told: Vec<_> = told.collect();
        assert_eq!(told, [(600, [None; 5]), (300, [None, None, None, Some(2_000), None])]);
    }

    #[test]
    fn a_report_from_before_1970_is_old_and_has_a_time() {
        let wire = json!({ "metadata": { "name": "n" },
                           "status": { "updateTime": "1969-12-31T23:00:00Z" } });
        let wire: NodeMetric = serde_json::from_value(wire).unwrap();
        let Fact::Load { report: Some(report), .. } = Fact::from(wire) else {
            panic!("it is a report");
        };
        assert_eq!(report.at, Some(Moment(0)));
    }
}
