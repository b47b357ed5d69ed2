//! Arguments of Reservation.

use std::time::Duration;

use api::reservation::{PRE_ALLOCATABLE_LABEL, PRE_ALLOCATABLE_PRIORITY};
use engine::plugins::node_resources::IgnoredResources;
use engine::plugins::reservation::Reservation;
use engine::preemption;
use object::field::{Error, Errors, Path};
use object::names::validate_label_name;
use serde::Deserialize;
use serde_json::Value;

use super::super::file::or_default;
use super::{Args, Written};
use crate::reservations::Settings;

/// How long what has ended is kept, where nothing is said.
const KEPT_SECONDS: i64 = 86_400;

/// Those that tell upstream's parts how to work and mean nothing here are read and have no effect: what they
/// are for needs no telling.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(dead_code, reason = "what is known and means nothing here is read all the same")]
pub(super) struct ReservationArgs {
    #[serde(deserialize_with = "or_default")]
    enable_preemption: bool,
    min_candidate_nodes_percentage: Option<i64>,
    min_candidate_nodes_absolute: Option<i64>,
    controller_workers: Option<i64>,
    gc_duration_seconds: Option<i64>,
    gc_interval_seconds: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    disable_garbage_collection: bool,
    resync_interval_seconds: Option<i64>,
    pre_allocation_config: Option<PreAllocationArgs>,
    #[serde(deserialize_with = "or_default")]
    ignored_resources: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    ignored_resource_groups: Vec<String>,
    reservation_selector_index: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PreAllocationArgs {
    #[serde(deserialize_with = "or_default")]
    enable_cluster_mode: bool,
    #[serde(deserialize_with = "or_default")]
    cluster_label_key: String,
    #[serde(deserialize_with = "or_default")]
    cluster_priority_annotation_key: String,
    #[serde(deserialize_with = "or_default")]
    prefer_no_pre_allocated_pods: bool,
}

/// Arguments of Reservation, for those who read them.
#[derive(Debug, Clone, Default)]
pub struct ReservationConfig {
    /// Those of the engine's plugin.
    pub plugin: Reservation,
    /// How pods make room for reservations, and inside them, where they do.
    pub preemption: Option<preemption::Settings>,
    /// How reservations live.
    pub lives: Settings,
    /// The annotation by which pods say which of several goes first that a reservation takes over.
    pub takeover_key: TakeoverKey,
}

/// The annotation by which pods say which of several goes first that a reservation takes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeoverKey(pub String);

impl Default for TakeoverKey {
    fn default() -> Self {
        Self(PRE_ALLOCATABLE_PRIORITY.to_owned())
    }
}

impl Args for ReservationConfig {
    type Written = ReservationArgs;
}

impl Written for ReservationArgs {
    type Outcome = ReservationConfig;

    fn check(mut self, path: &Path, errors: &mut Errors) -> ReservationConfig {
        let percent = self.min_candidate_nodes_percentage;
        if let Some(percent) = percent.filter(|percent| !(0..=100).contains(percent)) {
            let path = path.child("minCandidateNodesPercentage");
            errors.push(Error::invalid(&path, percent, "not in valid range [0, 100]"));
        }
        let numbers = [
            ("minCandidateNodesAbsolute", self.min_candidate_nodes_absolute),
            ("controllerWorkers", self.controller_workers),
            ("gcDurationSeconds", self.gc_duration_seconds),
            ("gcIntervalSeconds", self.gc_interval_seconds),
            ("resyncIntervalSeconds", self.resync_interval_seconds),
        ];
        for (field, number) in numbers {
            if let Some(number) = number.filter(|number| *number < 0) {
                errors.push(Error::invalid(&path.child(field), number, "must not be negative"));
            }
        }
        let preemption = self.enable_preemption.then(|| {
            let standard = preemption::Settings::default();
            let least = self.min_candidate_nodes_absolute.map(u32::try_from);
            preemption::Settings {
                candidate_nodes_percent_min: percent
                    .and_then(|percent| u8::try_from(percent).ok())
                    .unwrap_or(standard.candidate_nodes_percent_min),
                candidate_nodes_min: least
                    .map_or(standard.candidate_nodes_min, |least| least.unwrap_or(u32::MAX)),
                spares: true,
            }
        });
        let takes_over = self.pre_allocation_config.take().unwrap_or_default();
        let (takeover_label, takeover_key) = takes_over.keys(path, errors);
        let ignored = self.ignored(path, errors);
        let kept = self.gc_duration_seconds.filter(|seconds| *seconds > 0).unwrap_or(KEPT_SECONDS);
        let kept = Duration::from_secs(u64::try_from(kept).unwrap_or_default());
        let kept = (!self.disable_garbage_collection).then_some(kept);
        let lives = Settings { kept, ..Settings::default() };
        let prefers_no_takeover = takes_over.prefer_no_pre_allocated_pods;
        // A gate says that, and no argument.
        let omits_node_labels = false;
        let plugin =
            Reservation { ignored, takeover_label, prefers_no_takeover, omits_node_labels };
        ReservationConfig { plugin, preemption, lives, takeover_key }
    }
}

impl PreAllocationArgs {
    /// The label of pods that any reservation may take over, where any may, and the annotation by which
    /// they say which goes first.
    fn keys(&self, path: &Path, errors: &mut Errors) -> (Option<Box<str>>, TakeoverKey) {
        let path = path.child("preAllocationConfig");
        let mut key = |told: &str, field: &str, standard: &str| {
            if told.is_empty() {
                return standard.to_owned();
            }
            errors.extend(validate_label_name(told, &path.child(field)));
            told.to_owned()
        };
        let label = key(&self.cluster_label_key, "clusterLabelKey", PRE_ALLOCATABLE_LABEL);
        let rank = key(
            &self.cluster_priority_annotation_key,
            "clusterPriorityAnnotationKey",
            PRE_ALLOCATABLE_PRIORITY,
        );
        (self.enable_cluster_mode.then(|| label.into()), TakeoverKey(rank))
    }
}

impl ReservationArgs {
    /// Resources that are left to others: extended ones, by name or by group.
    fn ignored(&self, path: &Path, errors: &mut Errors) -> IgnoredResources {
        let is_ours = |group: &str| group == "kubernetes.io" || group.ends_with(".kubernetes.io");
        for (index, name) in self.ignored_resources.iter().enumerate() {
            let path = path.child("ignoredResources").index(index);
            if name.split_once('/').is_none_or(|(group, _)| is_ours(group)) {
                let fix = "must be the name of an extended resource, such as example.com/chip";
                errors.push(Error::invalid(&path, name.as_str(), fix));
            } else {
                errors.extend(validate_label_name(name, &path));
            }
        }
        for (index, group) in self.ignored_resource_groups.iter().enumerate() {
            let path = path.child("ignoredResourceGroups").index(index);
            if group.contains('/') || is_ours(group) {
                let fix = "must be the group of extended resources, such as example.com";
                errors.push(Error::invalid(&path, group.as_str(), fix));
            } else {
                errors.extend(validate_label_name(group, &path));
            }
        }
        let boxed = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
        IgnoredResources {
            names: boxed(&self.ignored_resources),
            groups: boxed(&self.ignored_resource_groups),
        }
    }
}
