//! What annotations say of load: of nodes, how much of them may be in use; of pods, how much they use.

use std::collections::BTreeMap;

use object::quantity::Quantity;
use object::time::Duration;
use serde::Deserialize;

use crate::malformed::{Malformed, annotation};
use crate::node::Node;
use crate::pod::{Pod, ResourceList};

/// Node annotation: what the machine has, where the node offers more than that.
pub const RAW_ALLOCATABLE: &str = "node.koordinator.sh/raw-allocatable";
/// Node annotation: how much may be in use.
pub const USAGE_THRESHOLDS: &str = "scheduling.koordinator.sh/usage-thresholds";
/// Pod annotation: how much of what it requests it is taken to use, in percent, by resource.
pub const SCALING_FACTORS: &str = "scheduling.koordinator.sh/load-estimated-scaling-factors";
/// Pod annotation: for how many seconds after it got its node it is taken to use that, whatever is
/// reported.
pub const SECONDS_AFTER_SCHEDULED: &str =
    "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled";
/// Pod annotation: the same after its init containers ended.
pub const SECONDS_AFTER_INITIALIZED: &str =
    "scheduling.koordinator.sh/load-estimated-seconds-after-initialized";

/// Figures of a while that nodes report.
pub const AGGREGATION_TYPES: [&str; 5] = ["avg", "p50", "p90", "p95", "p99"];

/// Percentages by resource.
pub type Percents = BTreeMap<Box<str>, i64>;

/// How much of a node may be in use, in place of what the scheduler's profile says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UsageThresholds {
    /// Now.
    pub usage_thresholds: Option<Percents>,
    /// Now, by pods of the production band.
    pub prod_usage_thresholds: Option<Percents>,
    /// For a while.
    pub aggregated_usage: Option<AggregatedThresholds>,
}

/// How much of a node may have been in use for a while.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AggregatedThresholds {
    /// How much.
    pub usage_thresholds: Percents,
    /// By which figure, such as `p95`.
    pub usage_aggregation_type: String,
    /// For how long; none means the longest time that is reported.
    pub usage_aggregated_duration: Option<Duration>,
}

impl UsageThresholds {
    /// What a node says; none where it says nothing.
    ///
    /// # Errors
    /// When it cannot be read, or says what cannot be.
    pub fn of(node: &Node) -> Result<Option<Self>, Malformed> {
        let fix = r#"write JSON such as {"usageThresholds":{"cpu":65}}"#;
        let own: Option<Self> = annotation(&node.metadata.annotations, USAGE_THRESHOLDS, fix)?;
        if let Some(own) = &own {
            own.check()?;
        }
        Ok(own)
    }

    fn check(&self) -> Result<(), Malformed> {
        let wrong = |value: String, fix| Err(Malformed::new(USAGE_THRESHOLDS, &value, fix));
        let lately = self.aggregated_usage.as_ref();
        let lists = [self.usage_thresholds.as_ref(), self.prod_usage_thresholds.as_ref()];
        let lists = lists.into_iter().chain([lately.map(|own| &own.usage_thresholds)]);
        let mut percents = lists.flatten().flatten();
        if let Some((name, percent)) = percents.find(|(_, percent)| !(0..=100).contains(*percent)) {
            return wrong(format!("{name}: {percent}"), "write percentages from 0 to 100");
        }
        let Some(own) = lately else { return Ok(()) };
        let figure = own.usage_aggregation_type.as_str();
        if !figure.is_empty() && !AGGREGATION_TYPES.contains(&figure) {
            let fix = "use one of avg, p50, p90, p95 or p99 as usageAggregationType";
            return wrong(figure.to_owned(), fix);
        }
        match own.usage_aggregated_duration.filter(|length| length.as_nanos() < 0) {
            Some(length) => {
                wrong(length.to_string(), "write 0s or more as usageAggregatedDuration")
            }
            None => Ok(()),
        }
    }
}

/// What the machine has, where a node offers more than that.
///
/// # Errors
/// When it cannot be read.
pub fn raw_allocatable(node: &Node) -> Result<Option<ResourceList>, Malformed> {
    let fix = r#"write JSON such as {"cpu":"32"}, with amounts of 0 or more"#;
    let own: Option<ResourceList> = annotation(&node.metadata.annotations, RAW_ALLOCATABLE, fix)?;
    let mut amounts = own.iter().flatten();
    match amounts.find(|(_, amount)| **amount < Quantity::ZERO) {
        Some((name, amount)) => {
            Err(Malformed::new(RAW_ALLOCATABLE, &format!("{name}: {amount}"), fix))
        }
        None => Ok(own),
    }
}

/// How much of what it requests a pod is taken to use, where it says so.
///
/// # Errors
/// When it cannot be read.
pub fn scaling_factors(pod: &Pod) -> Result<Option<Percents>, Malformed> {
    annotation(&pod.metadata.annotations, SCALING_FACTORS, r#"write JSON such as {"cpu":85}"#)
}

/// A number of seconds of a pod, where it says one.
#[must_use]
pub fn seconds(pod: &Pod, key: &'static str) -> Option<u64> {
    pod.metadata.annotations.get(key)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_machine_has_nothing_less_than_nothing() {
        let of = |text: &str| {
            let node = json!({ "metadata": { "annotations": { RAW_ALLOCATABLE: text } } });
            raw_allocatable(&serde_json::from_value(node).unwrap())
                .map_err(|error| error.value().to_owned())
        };
        assert_eq!(of(r#"{"cpu":"-5"}"#), Err("cpu: -5".to_owned()));
        assert_eq!(of(r#"{"cpu":"5"}"#).map(|own| own.map(|own| own.len())), Ok(Some(1)));
    }

    #[test]
    fn what_a_node_says_is_read_or_an_error_that_repeats_it() {
        let check = |text: &str, expected: Result<Option<i64>, &str>| {
            let node = json!({ "metadata": { "annotations": { USAGE_THRESHOLDS: text } } });
            let node: Node = serde_json::from_value(node).unwrap();
            let read = UsageThresholds::of(&node);
            let read = read.map(|own| own?.usage_thresholds?.get("cpu").copied());
            assert_eq!(
                read.map_err(|error| error.value().to_owned()),
                expected.map_err(str::to_owned),
                "{text}"
            );
        };
        check(r#"{"usageThresholds":{"cpu":65}}"#, Ok(Some(65)));
        check("{}", Ok(None));
        check("65", Err("65"));
        check(r#"{"usageThresholds":{"cpu":101}}"#, Err("cpu: 101"));
        check(r#"{"prodUsageThresholds":{"cpu":-1}}"#, Err("cpu: -1"));
        check(r#"{"aggregatedUsage":{"usageThresholds":{"cpu":900}}}"#, Err("cpu: 900"));
        check(r#"{"aggregatedUsage":{"usageAggregationType":"p101"}}"#, Err("p101"));
        check(r#"{"aggregatedUsage":{"usageAggregatedDuration":"-5m0s"}}"#, Err("-5m0s"));
        check(
            r#"{"usageThresholds":{"cpu":100},"aggregatedUsage":{"usageAggregationType":"p99"}}"#,
            Ok(Some(100)),
        );
        check("", Err(""));
    }
}
