//! What annotations say of load: of nodes, how much of them may be in use; of pods, how much they use.

use std::collections::BTreeMap;

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
    /// When it cannot be read.
    pub fn of(node: &Node) -> Result<Option<Self>, Malformed> {
        let fix = r#"write JSON such as {"usageThresholds":{"cpu":65}}"#;
        annotation(&node.metadata.annotations, USAGE_THRESHOLDS, fix)
    }
}

/// What the machine has, where a node offers more than that.
///
/// # Errors
/// When it cannot be read.
pub fn raw_allocatable(node: &Node) -> Result<Option<ResourceList>, Malformed> {
    annotation(&node.metadata.annotations, RAW_ALLOCATABLE, r#"write JSON such as {"cpu":"32"}"#)
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
    fn what_a_node_says_is_read_or_an_error_that_repeats_it() {
        let check = |text: &str, expected: Result<Option<i64>, &str>| {
            let node = json!({ "metadata": { "annotations": { USAGE_THRESHOLDS: text } } });
            let node: Node = serde_json::from_value(node).unwrap();
            let read = UsageThresholds::of(&node);
            let read = read.map(|own| own?.usage_thresholds?.get("cpu").copied());
            assert_eq!(
                read.map_err(|error| error.value),
                expected.map_err(str::to_owned),
                "{text}"
            );
        };
        check(r#"{"usageThresholds":{"cpu":65}}"#, Ok(Some(65)));
        check("{}", Ok(None));
        check("65", Err("65"));
        check("", Err(""));
    }
}
