//! Arguments of LoadAwareScheduling.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::fact::{Aggregation, Percents, WindowLimits};
use engine::ledger::{EstimateSettings, LoadSettings, ScoreSettings, Stale};
use engine::plugins::load_aware::LoadAware;
use object::field::{Error, Errors, Path};
use object::time;
use serde::Deserialize;

use super::super::file::or_default;
use super::{Args, Written};

/// The only way to estimate what pods use.
const ESTIMATOR: &str = "defaultEstimator";

type Numbers = BTreeMap<Box<str>, i64>;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct LoadAwareArgs {
    filter_expired_node_metrics: Option<bool>,
    node_metric_expiration_seconds: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    enable_schedule_when_node_metrics_expired: bool,
    #[serde(deserialize_with = "or_default")]
    resource_weights: Numbers,
    #[serde(deserialize_with = "or_default")]
    dominant_resource_weight: i64,
    #[serde(deserialize_with = "or_default")]
    usage_thresholds: Numbers,
    #[serde(deserialize_with = "or_default")]
    prod_usage_thresholds: Numbers,
    #[serde(deserialize_with = "or_default")]
    prod_usage_include_sys: bool,
    #[serde(deserialize_with = "or_default")]
    score_according_prod_usage: bool,
    #[serde(deserialize_with = "or_default")]
    estimator: String,
    #[serde(deserialize_with = "or_default")]
    estimated_scaling_factors: Numbers,
    estimated_seconds_after_pod_scheduled: Option<i64>,
    estimated_seconds_after_initialized: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    allow_customize_estimation: bool,
    aggregated: Option<AggregatedArgs>,
    #[serde(deserialize_with = "or_default")]
    supported_resources: Vec<Box<str>>,
    /// Ours: no node is refused for its load, only scored.
    #[serde(deserialize_with = "or_default")]
    soft: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AggregatedArgs {
    #[serde(deserialize_with = "or_default")]
    usage_thresholds: Numbers,
    #[serde(deserialize_with = "or_default")]
    usage_aggregation_type: String,
    usage_aggregated_duration: Option<time::Duration>,
    #[serde(deserialize_with = "or_default")]
    score_aggregation_type: String,
    score_aggregated_duration: Option<time::Duration>,
}

impl Args for LoadAware {
    type Written = LoadAwareArgs;
}

/// Collects what is wrong.
struct Check<'a> {
    path: &'a Path,
    errors: &'a mut Errors,
}

impl Check<'_> {
    fn within(&mut self, field: &str, numbers: &Numbers, least: i64, range: &str) {
        for (name, number) in numbers {
            if !(least..=100).contains(number) {
                let path = self.path.child(field).key(name);
                let fix = format!("{name} must be in {range}");
                self.errors.push(Error::invalid(&path, *number, fix));
            }
        }
    }

    fn figure(&mut self, field: &str, name: &str) -> Option<Aggregation> {
        if name.is_empty() {
            return None;
        }
        let figure = Aggregation::named(name);
        if figure.is_none() {
            let known = Aggregation::ALL.map(Aggregation::name).join(", ");
            let fix = format!("must be one of {known}");
            self.errors.push(Error::invalid(&self.path.child(field), name, fix));
        }
        figure
    }

    fn seconds(&mut self, field: &str, seconds: Option<i64>) -> Option<u64> {
        let seconds = seconds?;
        if seconds < 0 {
            let fix = "must be zero or positive";
            self.errors.push(Error::invalid(&self.path.child(field), seconds, fix));
        }
        u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)
    }

    fn expiration(&mut self, seconds: Option<i64>) -> Option<Duration> {
        let seconds = seconds?;
        if seconds <= 0 {
            let path = self.path.child("nodeMetricExpirationSeconds");
            self.errors.push(Error::invalid(&path, seconds, "must be greater than 0"));
        }
        u64::try_from(seconds).ok().map(Duration::from_secs)
    }

    /// What means nothing without another field is not left out in silence.
    fn needs(&mut self, field: &str, is_set: bool, other: &str, has_other: bool) {
        if is_set && !has_other {
            let fix = format!("means nothing without {other}; add that or leave this out");
            self.errors.push(Error::forbidden(&self.path.child(field), fix));
        }
    }

    fn length(&mut self, field: &str, length: Option<time::Duration>) -> Duration {
        let nanos = length.map_or(0, time::Duration::as_nanos);
        if nanos < 0 {
            let told = length.map(|length| length.to_string()).unwrap_or_default();
            let fix = "must be zero or positive";
            self.errors.push(Error::invalid(&self.path.child(field), told, fix));
        }
        Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())
    }
}

impl Written for LoadAwareArgs {
    type Outcome = LoadAware;

    fn check(self, path: &Path, errors: &mut Errors) -> LoadAware {
        let plain = LoadSettings::default();
        let mut factors = self.estimated_scaling_factors;
        for (name, factor) in &plain.estimate.factors {
            factors.entry(name.clone()).or_insert(*factor);
        }
        let weights = match self.resource_weights.is_empty() && self.dominant_resource_weight == 0 {
            true => plain.score.weights,
            false => self.resource_weights,
        };
        let usage: Percents = match self.usage_thresholds.is_empty() {
            true => plain.usage,
            false => self.usage_thresholds,
        };
        for name in weights.keys().filter(|name| !factors.contains_key(*name)) {
            let path = path.child("resourceWeights").key(name);
            let fix = "has no estimatedScalingFactors; add one or leave the weight out";
            errors.push(Error::invalid(&path, weights[name], fix));
        }
        if !self.estimator.is_empty() && self.estimator != ESTIMATOR {
            let fix = format!("there is only {ESTIMATOR}");
            errors.push(Error::invalid(&path.child("estimator"), self.estimator.as_str(), fix));
        }
        let dominant = self.dominant_resource_weight;
        if !(0..=100).contains(&dominant) {
            let path = path.child("dominantResourceWeight");
            errors.push(Error::invalid(&path, dominant, "must be in [0, 100]"));
        }
        let mut check = Check { path, errors };
        let expiration = self.node_metric_expiration_seconds;
        let expires_after = check.expiration(expiration).unwrap_or(plain.expires_after);
        check.within("estimatedScalingFactors", &factors, 1, "(0, 100]");
        check.within("resourceWeights", &weights, 1, "(0, 100]");
        check.within("usageThresholds", &usage, 0, "[0, 100]");
        check.within("prodUsageThresholds", &self.prod_usage_thresholds, 0, "[0, 100]");
        let scheduled = self.estimated_seconds_after_pod_scheduled;
        let after_scheduled = check.seconds("estimatedSecondsAfterPodScheduled", scheduled);
        let initialized = self.estimated_seconds_after_initialized;
        let after_initialized = check.seconds("estimatedSecondsAfterInitialized", initialized);
        let (window, score_window) = windows(self.aggregated, path, errors);
        let (filters, schedules) =
            (self.filter_expired_node_metrics, self.enable_schedule_when_node_metrics_expired);
        let stale = match (filters.unwrap_or(true), schedules) {
            (false, _) => Stale::Believed,
            (true, true) => Stale::Forgotten,
            (true, false) => Stale::Refused,
        };
        LoadAware {
            settings: Arc::new(LoadSettings {
                usage,
                prod: self.prod_usage_thresholds,
                window,
                expires_after,
                stale,
                is_soft: self.soft,
                score: ScoreSettings {
                    weights,
                    dominant,
                    by_prod: self.score_according_prod_usage,
                    window: score_window,
                },
                estimate: EstimateSettings {
                    factors,
                    after_scheduled,
                    after_initialized,
                    allows_own: self.allow_customize_estimation,
                    prod_with_system: self.prod_usage_include_sys,
                },
                more: self.supported_resources,
            }),
        }
    }
}

type Windows = (Option<WindowLimits>, Option<(Aggregation, Duration)>);

/// Which figures of a while count in filters and in scores.
fn windows(written: Option<AggregatedArgs>, path: &Path, errors: &mut Errors) -> Windows {
    let Some(written) = written else { return (None, None) };
    let path = &path.child("aggregated");
    let mut check = Check { path, errors };
    let percents = written.usage_thresholds;
    check.within("usageThresholds", &percents, 0, "[0, 100]");
    let (has_type, has_limits) = (!written.usage_aggregation_type.is_empty(), !percents.is_empty());
    let (usage, score) = ("usageAggregationType", "scoreAggregationType");
    check.needs("usageThresholds", has_limits, usage, has_type);
    check.needs(usage, has_type, "usageThresholds", has_limits);
    let has_score = !written.score_aggregation_type.is_empty();
    let score_length = written.score_aggregated_duration.is_some();
    check.needs(
        "usageAggregatedDuration",
        written.usage_aggregated_duration.is_some(),
        usage,
        has_type,
    );
    check.needs("scoreAggregatedDuration", score_length, score, has_score);
    let figure = check.figure("usageAggregationType", &written.usage_aggregation_type);
    let window = check.length("usageAggregatedDuration", written.usage_aggregated_duration);
    let limits = figure.filter(|_| !percents.is_empty());
    let limits = limits.map(|figure| WindowLimits { percents, figure, window });
    let figure = check.figure("scoreAggregationType", &written.score_aggregation_type);
    let window = check.length("scoreAggregatedDuration", written.score_aggregated_duration);
    (limits, figure.map(|figure| (figure, window)))
}
