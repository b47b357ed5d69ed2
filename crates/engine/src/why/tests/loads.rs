//! Nodes that are refused for their load.

use std::time::Duration;

use api::NodeMetric;

use super::*;
use crate::fact::{Aggregation, Percents, WindowLimits};
use crate::ledger::LoadSettings;
use crate::plugins::load_aware::LoadAware;

/// What is told of a pod that asks for 2 of 10 CPUs, where the node reported at this time.
fn told_by(settings: LoadSettings, reported: &str) -> String {
    let mut ledger = Ledger::default();
    let plugin = LoadAware { settings: settings.into() };
    let mut decider = Decider::new(Profile::default().filter(plugin), &mut ledger, 0);
    ledger.apply(node("n", &json!({}), &json!({}), "10"));
    let window =
        json!([{ "duration": "5m0s", "usage": { "p95": { "resources": { "cpu": "7" } } } }]);
    let metric = json!({ "metadata": { "name": "n" }, "status": {
        "updateTime": reported,
        "nodeMetric": { "nodeUsage": { "resources": { "cpu": "6" } },
                        "aggregatedNodeUsages": window } } });
    let metric: NodeMetric = serde_json::from_value(metric).unwrap();
    ledger.apply(Fact::from(metric));
    ledger.catch_up(NOW);
    told_of(&mut ledger, &mut decider, &pod("new", &asking("2", &json!({ "priority": 9500 }))))
}

#[test]
fn a_node_that_is_used_too_much_says_by_which_figure_and_how_old_that_is() {
    let check = |settings: LoadSettings, reported: &str, expected: &str| {
        assert_eq!(told_by(settings, reported), format!("0 of 1 fit\nn {expected}\n"));
    };
    let lately = "1970-01-01T00:16:28Z";
    let cpu = |percent: i64| -> Percents { [("cpu".into(), percent)].into() };
    let window = |seconds: u64, most: i64| LoadSettings {
        window: Some(WindowLimits {
            percents: cpu(most),
            figure: Aggregation::P95,
            window: Duration::from_secs(seconds),
        }),
        ..LoadSettings::default()
    };
    check(
        LoadSettings::default(),
        lately,
        "would use 77 % of its cpu, of which at most 65 % may be: by what it uses now, reported 12 s \
         ago",
    );
    check(
        window(300, 70),
        lately,
        "would use 87 % of its cpu, of which at most 70 % may be: by p95 of the last 300 s, reported \
         12 s ago",
    );
    check(
        window(0, 70),
        lately,
        "would use 87 % of its cpu, of which at most 70 % may be: by p95 of the longest window, \
         reported 12 s ago",
    );
    check(
        LoadSettings { prod: cpu(10), ..LoadSettings::default() },
        lately,
        "would use 17 % of its cpu, of which at most 10 % may be: by what its prod pods use now, \
         reported 12 s ago",
    );
    check(
        LoadSettings::default(),
        "1970-01-01T00:10:00Z",
        "has not reported for 400 s how much is used, which is too long",
    );
}
