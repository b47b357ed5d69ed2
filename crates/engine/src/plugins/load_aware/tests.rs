//! Scenarios of the specification, on a node of 96 CPUs and 512Gi that reports once a minute.

use std::time::Duration;

use api::{Node, NodeMetric, Pod};
use serde_json::{Value, json};

use super::*;
use crate::decide::Decider;
use crate::fact::{Aggregation, Fact, NodeFact, Percents, Uid, WindowLimits};
use crate::ledger::Stale;
use crate::moment::Moment;
use crate::profile::{Profile, Weight};
use crate::reason::Reason;

/// When the node reports.
const REPORTED: &str = "2026-01-01T12:00:00Z";

fn moment(text: &str) -> Moment {
    let time: object::time::Time = text.parse().unwrap();
    Moment(u64::try_from(time.timestamp().as_nanosecond()).unwrap())
}

struct World {
    ledger: Ledger,
    decider: Decider,
    settings: Arc<LoadSettings>,
    pods: usize,
}

fn world(settings: LoadSettings) -> World {
    let settings = Arc::new(settings);
    let plugin = LoadAware { settings: Arc::clone(&settings) };
    let profile = Profile::default().filter(plugin.clone()).score(plugin, Weight(1));
    let mut ledger = Ledger::default();
    let decider = Decider::new(profile, &mut ledger, 0);
    let mut world = World { ledger, decider, settings, pods: 0 };
    world.node(json!({}));
    world
}

fn standard() -> World {
    world(LoadSettings::default())
}

fn percents(list: &[(&str, i64)]) -> Percents {
    list.iter().map(|(name, percent)| ((*name).into(), *percent)).collect()
}

/// What a node uses in all, and nothing else.
fn using(cpu: &str, memory: &str) -> Value {
    json!({ "nodeMetric": { "nodeUsage": { "resources": { "cpu": cpu, "memory": memory } } } })
}

/// A pod that requests this, with limits or without.
fn asking(requests: Value, limits: Value) -> Value {
    json!({ "spec": { "containers": [
        { "name": "c", "resources": { "requests": requests, "limits": limits } }] } })
}

fn requesting(cpu: &str, memory: &str) -> Value {
    asking(json!({ "cpu": cpu, "memory": memory }), json!({}))
}

/// The same, on the node since then.
fn placed(pod: Value, scheduled: &str) -> Value {
    let more = json!({ "spec": { "nodeName": "n" }, "status": { "conditions": [
        { "type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled }] } });
    object::patch::merge::apply(pod, more).unwrap()
}

const LONG_AGO: &str = "2026-01-01T10:00:00Z";

fn reported(name: &str, cpu: &str, memory: &str) -> Value {
    json!({ "namespace": "ns", "name": name, "priority": "koord-prod",
            "podUsage": { "resources": { "cpu": cpu, "memory": memory } } })
}

impl World {
    fn node(&mut self, annotations: Value) {
        self.node_of("96", annotations);
    }

    fn node_of(&mut self, cpu: &str, annotations: Value) {
        let amounts = json!({ "cpu": cpu, "memory": "512Gi", "pods": "110" });
        let node = json!({ "metadata": { "name": "n", "annotations": annotations },
                           "status": { "allocatable": amounts } });
        let node: Node = serde_json::from_value(node).unwrap();
        self.ledger.apply(Fact::Node(NodeFact::from(&node)));
    }

    fn report(&mut self, status: Value) {
        self.report_at(REPORTED, status);
    }

    fn report_at(&mut self, time: &str, mut status: Value) {
        status["updateTime"] = time.into();
        let metric = json!({ "metadata": { "name": "n" }, "status": status });
        let metric: NodeMetric = serde_json::from_value(metric).unwrap();
        self.ledger.apply(Fact::from(metric));
    }

    fn pod(&mut self, name: &str, mut pod: Value) -> Ask {
        let metadata = json!({ "metadata": { "name": name, "namespace": "ns", "uid": name } });
        pod = object::patch::merge::apply(pod, metadata).unwrap();
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.ledger.apply(Fact::from(&pod));
        self.ledger.pod(&Uid::new(name)).unwrap().ask
    }

    fn pass(&mut self, seconds: u64) {
        let now = moment(REPORTED).after(Duration::from_secs(seconds));
        self.ledger.catch_up(now);
    }

    /// What becomes of a pod: its score, or why it is refused.
    fn said(&mut self, pod: Value) -> String {
        self.pods += 1;
        let ask = self.pod(&format!("asked-{}", self.pods), pod);
        let node = self.ledger.nodes.find("n").unwrap();
        let scores = self.decider.scores(&self.ledger, ask);
        let refusal = self.decider.refusal(&self.ledger, ask, node);
        assert_eq!(scores.is_empty(), refusal.is_some(), "{refusal:?}");
        match refusal {
            Some((_, refusal)) => refusal.reasons[0].to_string(),
            None => scores[0].total.to_string(),
        }
    }

    #[track_caller]
    fn passes(&mut self, pod: Value) {
        let said = self.said(pod);
        assert!(said.parse::<i64>().is_ok(), "{said}");
    }

    #[track_caller]
    fn says(&mut self, pod: Value, expected: &str) {
        assert_eq!(self.said(pod), expected);
    }

    /// How much would be in use, and how much may be, in percent.
    fn overload(&mut self) -> Option<(i64, i64)> {
        let ask = self.pod("overloading", empty());
        let node = self.ledger.nodes.find("n").unwrap();
        let (_, refusal) = self.decider.refusal(&self.ledger, ask, node)?;
        match refusal.reasons[0] {
            Reason::Overloaded { percent, most, .. } => Some((percent, most)),
            _ => None,
        }
    }

    fn estimate(&mut self, pod: Value) -> Vec<i64> {
        let ask = self.pod("estimated", pod);
        let book = self.ledger.loads.book(&self.settings).unwrap();
        self.ledger.estimate(book, ask).amounts.to_vec()
    }

    /// How much CPU counts as used.
    fn cpu_used(&self) -> i64 {
        let book = self.ledger.loads.book(&self.settings).unwrap();
        book.scored(false).0[0][0]
    }
}

const CPU: &str = "node(s) cpu usage exceed threshold";
const MEMORY: &str = "node(s) memory usage exceed threshold";
const CPU_WINDOW: &str = "node(s) cpu aggregated usage exceed threshold";
const EXPIRED: &str = "node(s) nodeMetric expired";

fn empty() -> Value {
    asking(json!({}), json!({}))
}

#[test]
fn s10_1_a_node_below_its_thresholds_takes_a_pod() {
    let mut world = standard();
    world.report(using("60", "256Gi"));
    world.passes(empty());
}

#[test]
fn s10_2_a_node_beyond_its_threshold_of_cpu_takes_none() {
    let mut world = standard();
    world.report(using("70", "0"));
    world.says(empty(), CPU);
    world.says(requesting("1", "1Gi"), CPU);
}

#[test]
fn s10_3_a_node_beyond_its_threshold_of_memory_takes_none() {
    let mut world = standard();
    world.report(using("30", "500Gi"));
    world.says(empty(), MEMORY);
}

#[test]
fn s10_4_what_counts_is_more_than_the_threshold_after_rounding() {
    let mut world = standard();
    world.report(using("62150m", "0"));
    world.passes(empty());
    world.report(using("62650m", "0"));
    world.says(empty(), CPU);
}

#[test]
fn s10_5_thresholds_of_a_node_replace_those_of_the_profile() {
    let mut world = standard();
    let rules = r#"{"usageThresholds":{"memory":60}}"#;
    world.node(json!({ "scheduling.koordinator.sh/usage-thresholds": rules }));
    world.report(using("90", "316Gi"));
    world.says(empty(), MEMORY);
    world.report(using("90", "200Gi"));
    world.passes(empty());
}

/// 30 CPUs now, and 70 of all but five samples of a hundred in five minutes.
fn busy_before() -> Value {
    let mut status = using("30", "0");
    status["nodeMetric"]["aggregatedNodeUsages"] = json!([
        { "duration": "5m0s", "usage": { "p95": { "resources": { "cpu": "70" } } } }]);
    status
}

#[test]
fn s10_6_a_figure_of_a_while_goes_before_what_is_used_now() {
    let window = WindowLimits {
        percents: percents(&[("cpu", 60)]),
        figure: Aggregation::P95,
        window: Duration::from_secs(300),
    };
    let mut world = world(LoadSettings { window: Some(window), ..LoadSettings::default() });
    world.report(busy_before());
    world.says(empty(), CPU_WINDOW);
}

#[test]
fn s10_7_a_node_may_ask_for_the_figure_of_a_while() {
    let mut world = standard();
    let rules = r#"{"aggregatedUsage":{"usageThresholds":{"cpu":60},
                    "usageAggregationType":"p95","usageAggregatedDuration":"5m"}}"#;
    world.node(json!({ "scheduling.koordinator.sh/usage-thresholds": rules }));
    world.report(busy_before());
    world.says(empty(), CPU_WINDOW);
}

#[test]
fn s10_8_a_threshold_of_zero_is_none() {
    let usage = percents(&[("memory", 0)]);
    let mut world = world(LoadSettings { usage, ..LoadSettings::default() });
    world.report(using("0", "500Gi"));
    world.passes(empty());
}

#[test]
fn s10_9_pods_of_daemon_sets_are_never_refused() {
    let mut world = standard();
    world.report(using("96", "512Gi"));
    let owner = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d" });
    let mut pod = empty();
    pod["metadata"] = json!({ "ownerReferences": [owner] });
    world.passes(pod);
    world.says(empty(), CPU);
}

/// Two pods that earn money are reported with 30 and 23 CPUs.
fn with_two_prod_pods(settings: LoadSettings) -> World {
    let mut world = world(settings);
    for name in ["a", "b"] {
        world.pod(name, placed(requesting("1", "1Gi"), LONG_AGO));
    }
    let mut status = using("53", "0");
    status["podsMetric"] = json!([reported("a", "30", "0"), reported("b", "23", "0")]);
    world.report(status);
    world
}

#[test]
fn s10_10_pods_that_earn_money_have_thresholds_of_their_own() {
    let usage = percents(&[("cpu", 100), ("memory", 100)]);
    let prod = percents(&[("cpu", 60)]);
    let mut world = with_two_prod_pods(LoadSettings { usage, prod, ..LoadSettings::default() });
    world.says(requesting("20", "0"), CPU);
}

#[test]
fn s10_11_without_such_thresholds_what_they_use_is_not_looked_at() {
    let usage = percents(&[("cpu", 100), ("memory", 100)]);
    let mut world = with_two_prod_pods(LoadSettings { usage, ..LoadSettings::default() });
    world.passes(requesting("20", "0"));
}

#[test]
fn s10_12_a_mid_pod_is_estimated_by_its_own_resources() {
    let mut world = standard();
    world.report(using("53", "0"));
    let mut pod = asking(json!({ "kubernetes.io/mid-cpu": "12k" }), json!({}));
    pod["spec"]["priority"] = json!(7500);
    world.says(pod, CPU);
}

#[test]
fn s10_13_what_is_not_reported_yet_is_estimated() {
    let prod = percents(&[("memory", 70)]);
    let mut world = world(LoadSettings { prod, ..LoadSettings::default() });
    world.pod("a", placed(requesting("1", "1Gi"), LONG_AGO));
    world.pod("b", placed(requesting("0", "200Gi"), LONG_AGO));
    let mut status = using("0", "100Gi");
    status["podsMetric"] = json!([reported("a", "0", "100Gi")]);
    world.report(status);
    world.says(requesting("0", "200Gi"), MEMORY);
    world.passes(requesting("0", "150Gi"));
}

#[test]
fn s10_14_a_node_that_never_reported_is_taken_and_worth_nothing() {
    standard().says(requesting("1", "1Gi"), "0");
}

#[test]
fn s10_15_an_old_report_is_refused_or_forgotten_or_believed() {
    let check = |stale: Stale, expected: &str| {
        let mut world = world(LoadSettings { stale, ..LoadSettings::default() });
        world.report(using("70", "0"));
        world.pass(179);
        world.says(empty(), CPU);
        world.pass(180);
        world.says(empty(), expected);
        // One that is as old changes nothing of that; a new one does.
        world.report(using("1", "0"));
        let old = if stale == Stale::Refused { EXPIRED } else { "0" };
        world.says(empty(), old);
        world.report_at("2026-01-01T12:03:00Z", using("1", "0"));
        world.says(empty(), "98");
    };
    check(Stale::Refused, EXPIRED);
    check(Stale::Forgotten, "0");
    check(Stale::Believed, CPU);
}

#[test]
fn s10_17_requests_count_in_part() {
    let both = json!({ "cpu": "4", "memory": "8Gi" });
    assert_eq!(standard().estimate(asking(both.clone(), both)), [3400, 6_012_954_214]);
}

#[test]
fn s10_18_limits_count_before_requests() {
    let pod = asking(json!({ "cpu": "4" }), json!({ "cpu": "8" }));
    assert_eq!(standard().estimate(pod)[0], 6800);
}

fn with_own_factors(mut pod: Value, factors: &str) -> Value {
    let key = "scheduling.koordinator.sh/load-estimated-scaling-factors";
    pod["metadata"] = json!({ "annotations": { key: factors } });
    pod
}

#[test]
fn s10_19_no_pod_uses_more_than_it_may() {
    let mut settings = LoadSettings::default();
    settings.estimate.allows_own = true;
    let both = json!({ "cpu": "4" });
    let pod = with_own_factors(asking(both.clone(), both), r#"{"cpu":110}"#);
    assert_eq!(world(settings).estimate(pod.clone())[0], 4000);
    assert_eq!(standard().estimate(pod)[0], 3400, "where it may not say so");
}

#[test]
fn s10_20_a_pod_may_say_how_much_it_uses() {
    let mut settings = LoadSettings::default();
    settings.estimate.allows_own = true;
    settings.estimate.factors = percents(&[("cpu", 80), ("memory", 80)]);
    let pod = with_own_factors(requesting("4", "8Gi"), r#"{"cpu":100}"#);
    assert_eq!(world(settings).estimate(pod), [4000, 6_871_947_674]);
}

#[test]
fn s10_21_who_says_nothing_uses_something() {
    assert_eq!(standard().estimate(empty()), [250, 209_715_200]);
    let batch = |requests: Value, priority: i32| {
        let mut pod = asking(requests, json!({}));
        pod["spec"]["priority"] = priority.into();
        standard().estimate(pod)[0]
    };
    assert_eq!(batch(json!({ "kubernetes.io/batch-cpu": "4000" }), 5500), 3400);
    // Those of every band do, and whoever has no resources of his own uses those of everybody.
    assert_eq!(batch(json!({}), 7500), 250);
    assert_eq!(batch(json!({}), 3500), 250);
    assert_eq!(batch(json!({ "cpu": "4" }), 3500), 3400);
}

#[test]
fn s10_22_an_idle_node_is_scored_by_what_the_pod_will_use() {
    let mut world = standard();
    world.report(using("0", "0"));
    world.says(requesting("16", "32Gi"), "90");
}

#[test]
fn s10_23_what_is_used_lowers_the_score() {
    let mut world = standard();
    world.report(using("32", "10Gi"));
    world.says(requesting("16", "32Gi"), "72");
}

#[test]
fn s10_24_so_does_what_pods_will_use_that_have_just_come() {
    for scheduled in ["2026-01-01T11:59:50Z", "2026-01-01T12:00:10Z"] {
        let mut world = standard();
        world.report(using("32", "10Gi"));
        world.pod("a", placed(requesting("16", "32Gi"), scheduled));
        world.says(requesting("16", "32Gi"), "63");
    }
    // One that we only decided on counts as well, once.
    let mut world = standard();
    world.report(using("32", "10Gi"));
    world.pod("a", requesting("16", "32Gi"));
    let node = world.ledger.nodes.find("n").unwrap();
    world.ledger.claim(&Uid::new("a"), node, None).unwrap();
    world.says(requesting("16", "32Gi"), "63");
    world.pod("a", placed(requesting("16", "32Gi"), REPORTED));
    world.says(requesting("16", "32Gi"), "63");
    world.ledger.apply(Fact::PodGone(Uid::new("a")));
    world.says(requesting("16", "32Gi"), "72");
}

#[test]
fn s10_25_where_the_figure_of_a_while_is_missing_all_pods_are_estimated() {
    let mut settings = LoadSettings::default();
    settings.score.window = Some((Aggregation::P95, Duration::from_secs(300)));
    let mut world = world(settings);
    world.pod("a", placed(requesting("16", "32Gi"), LONG_AGO));
    let mut status = using("0", "0");
    status["podsMetric"] = json!([reported("a", "1", "1Gi")]);
    world.report(status);
    world.says(requesting("16", "32Gi"), "81");
}

#[test]
fn s10_26_the_fullest_resource_may_count_alone() {
    let mut settings = LoadSettings::default();
    (settings.score.weights, settings.score.dominant) = (percents(&[]), 10);
    // What the node does not have is not full.
    settings.more = vec!["example.com/chip".into()];
    let mut world = world(settings);
    world.report(using("0", "0"));
    world.says(requesting("16", "32Gi"), "85");
}

#[test]
fn s10_27_pods_that_earn_money_may_be_scored_by_their_like() {
    let mut settings = LoadSettings::default();
    settings.score.by_prod = true;
    settings.usage = percents(&[("cpu", 0)]);
    let mut world = world(settings);
    world.pod("a", placed(requesting("1", "1Gi"), LONG_AGO));
    let mut status = using("90", "400Gi");
    status["podsMetric"] = json!([reported("a", "30", "100Gi")]);
    world.report(status);
    world.says(requesting("16000", "32Gi"), "38");
}

#[test]
fn s10_28_an_old_report_is_worth_nothing() {
    let mut world = world(LoadSettings { stale: Stale::Believed, ..LoadSettings::default() });
    world.report(using("1", "0"));
    world.pass(179);
    assert_ne!(world.said(empty()), "0");
    world.pass(180);
    world.says(empty(), "0");
}

#[test]
fn s10_29_a_pod_may_be_estimated_for_a_while_whatever_is_reported() {
    let check = |scheduled: &str, expected: i64| {
        let mut settings = LoadSettings::default();
        settings.estimate.after_scheduled = Some(600);
        let mut world = world(settings);
        world.pod("a", placed(requesting("8", "0"), scheduled));
        let mut status = using("2", "0");
        status["podsMetric"] = json!([reported("a", "2", "0")]);
        world.report(status);
        assert_eq!(world.cpu_used(), expected, "{scheduled}");
    };
    check("2026-01-01T11:55:00Z", 6800);
    check("2026-01-01T11:48:20Z", 2000);
}

#[test]
fn a_soft_profile_refuses_nobody() {
    let mut world = world(LoadSettings { is_soft: true, ..LoadSettings::default() });
    world.report(using("96", "0"));
    world.says(empty(), "49");
}

#[test]
fn s10_64_what_the_machine_has_counts_where_the_node_offers_more() {
    let mut world = standard();
    world.node_of("64", json!({}));
    world.report(using("24", "0"));
    world.passes(empty());
    let raw = r#"{"cpu":"32"}"#;
    world.node_of("64", json!({ "node.koordinator.sh/raw-allocatable": raw }));
    world.says(empty(), CPU);
    let overload = world.overload();
    assert!(overload.is_some_and(|(percent, most)| (75..=76).contains(&percent) && most == 65));
    world.node(json!({ "node.koordinator.sh/raw-allocatable": "what?" }));
    world.passes(empty());
}

#[test]
fn loads_do_not_depend_on_what_came_first() {
    type Step = fn(&mut World);
    let steps: [Step; 4] = [
        |world| world.node(json!({})),
        |world| {
            world.pod("a", placed(requesting("16", "32Gi"), LONG_AGO));
        },
        |world| {
            let mut status = using("32", "10Gi");
            status["podsMetric"] = json!([reported("a", "1", "1Gi")]);
            world.report(status);
        },
        |world| {
            world.pod("b", placed(requesting("16", "32Gi"), REPORTED));
        },
    ];
    let mut expected = None;
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1], [1, 0, 3, 2]] {
        let mut world = standard();
        world.ledger.apply(Fact::NodeGone("n".into()));
        for step in order {
            steps[step](&mut world);
        }
        let used = world.said(requesting("16", "32Gi"));
        assert_eq!(*expected.get_or_insert(used.clone()), used, "{order:?}");
    }
}

#[test]
fn a_speculation_that_is_dropped_leaves_no_trace_in_loads() {
    let mut world = standard();
    world.report(using("32", "10Gi"));
    world.pod("a", placed(requesting("16", "32Gi"), REPORTED));
    world.pod("b", requesting("8", "8Gi"));
    let node = world.ledger.nodes.find("n").unwrap();
    let before = world.cpu_used();
    world.ledger.speculate(|thought| {
        thought.evict(&Uid::new("a")).unwrap();
        thought.place(&Uid::new("b"), node, None).unwrap();
    });
    assert_eq!(world.cpu_used(), before);
    let gone = world.ledger.speculate(|thought| {
        thought.evict(&Uid::new("a")).unwrap();
        let book = thought.ledger().loads.book(&world.settings).unwrap();
        book.scored(false).0[0][0]
    });
    assert_eq!((gone, world.cpu_used()), (32_000, before));
}

#[test]
fn what_annotations_say_stays_within_bounds() {
    let mut world = standard();
    let rules = r#"{"usageThresholds":{"cpu":9223372036854775807}}"#;
    world.node(json!({ "scheduling.koordinator.sh/usage-thresholds": rules }));
    world.report(using("90", "0"));
    // What cannot be is left out, and the profile's word counts.
    world.says(empty(), CPU);
    // What nobody looks at limits nothing, not even reports that are old.
    let rules = r#"{"usageThresholds":{"example.com/chip":1}}"#;
    world.node(json!({ "scheduling.koordinator.sh/usage-thresholds": rules }));
    world.pass(1000);
    world.passes(empty());
    let mut settings = LoadSettings::default();
    settings.estimate.allows_own = true;
    let pod = with_own_factors(requesting("4", "8Gi"), r#"{"cpu":-100000}"#);
    assert_eq!(super::tests::world(settings).estimate(pod)[0], 3400);
}

#[test]
fn what_a_sandbox_takes_makes_nobody_earn_money() {
    let mut pod = empty();
    pod["spec"]["overhead"] = json!({ "cpu": "250m" });
    let mut world = standard();
    let ask = world.pod("p", pod);
    let book = world.ledger.loads.book(&world.settings).unwrap();
    assert!(!world.ledger.estimate(book, ask).is_prod);
}

#[test]
fn profiles_that_judge_alike_share_a_book() {
    let mut world = standard();
    let plugin = LoadAware { settings: Arc::new(LoadSettings::default()) };
    drop(Decider::new(Profile::default().filter(plugin), &mut world.ledger, 0));
    assert_eq!(world.ledger.loads.books().count(), 1);
}
