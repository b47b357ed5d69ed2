//! Arguments of ElasticQuota.

use std::time::Duration;

use api::pod::ResourceList;
use engine::plugin::Plugin;
use engine::quota::{Limit, Options, Settings, Shared};
use object::field::{Error, Errors, Path};
use object::names;
use object::quantity::{Format, Quantity};
use object::time;
use serde::Deserialize;
use serde_json::Value;

use super::super::file::or_default;
use super::{Args, VainArgument, Written, length};

/// As much as nobody has.
const UNLIMITED: i64 = i64::MAX / 5;
/// Where quotas are that belong to no team.
const NAMESPACE: &str = "koordinator-system";

/// How quotas are shared out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaArgs {
    /// For how long a quota may use more than it may before pods have to go.
    pub overuse_wait: Duration,
    /// How often that is looked at.
    pub revoke_interval: Duration,
    /// The ceiling of pods that belong to no quota.
    pub default_max: ResourceList,
    /// The ceiling of pods that the cluster itself needs.
    pub system_max: ResourceList,
    /// Where the quotas are that every cluster has.
    pub namespace: Box<str>,
    /// Whether pods of quotas that use more than they may have to go.
    pub monitors_all: bool,
    /// How quotas are read and reckoned.
    pub settings: Settings,
}

fn unlimited() -> ResourceList {
    let amount = Quantity::from_units(UNLIMITED, Format::DecimalSi);
    ["cpu", "memory"].map(|resource| (resource.to_owned(), amount.clone())).into()
}

impl Default for QuotaArgs {
    fn default() -> Self {
        Self {
            overuse_wait: Duration::from_mins(2),
            revoke_interval: Duration::from_secs(1),
            default_max: unlimited(),
            system_max: unlimited(),
            namespace: NAMESPACE.into(),
            monitors_all: false,
            settings: Settings { spares_default: true, ..Settings::default() },
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ElasticQuotaArgs {
    delay_evict_time: Option<time::Duration>,
    revoke_pod_interval: Option<time::Duration>,
    #[serde(deserialize_with = "or_default")]
    default_quota_group_max: ResourceList,
    #[serde(deserialize_with = "or_default")]
    system_quota_group_max: ResourceList,
    #[serde(deserialize_with = "or_default")]
    quota_group_namespace: String,
    #[serde(deserialize_with = "or_default")]
    monitor_all_quotas: bool,
    enable_check_parent_quota: Option<bool>,
    enable_runtime_quota: Option<bool>,
    enable_min_quota_scale: Option<bool>,
    disable_default_quota_preemption: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    ignore_unschedulable_nodes: bool,
    #[serde(deserialize_with = "or_default")]
    enable_queue_hint: bool,
    quota_snapshot_update_interval: Option<time::Duration>,
    #[serde(deserialize_with = "or_default")]
    hook_plugins: Vec<Value>,
}

impl Args for QuotaArgs {
    type Written = ElasticQuotaArgs;
}

impl Written for ElasticQuotaArgs {
    type Outcome = QuotaArgs;

    fn check(self, path: &Path, errors: &mut Errors) -> QuotaArgs {
        let plain = QuotaArgs::default();
        let overuse_wait = length(self.delay_evict_time, "delayEvictTime", path, errors);
        let revoke_interval = length(self.revoke_pod_interval, "revokePodInterval", path, errors);
        let snapshot = self.quota_snapshot_update_interval;
        length(snapshot, "quotaSnapshotUpdateInterval", path, errors);
        let default_max = self.default_quota_group_max;
        check_amounts(&default_max, &path.child("defaultQuotaGroupMax"), errors);
        let system_max = self.system_quota_group_max;
        check_amounts(&system_max, &path.child("systemQuotaGroupMax"), errors);
        let namespace = self.quota_group_namespace;
        if !namespace.is_empty() {
            let at = path.child("quotaGroupNamespace");
            let faults = names::dns1123_label(&namespace).into_iter();
            errors.extend(faults.map(|fault| Error::invalid(&at, namespace.as_str(), fault)));
        }
        if !self.hook_plugins.is_empty() {
            let reason = "hooks are Go code of Koordinator's own program, which cannot be loaded \
                          here; leave them out";
            errors.push(Error::forbidden(&path.child("hookPlugins"), reason));
        }
        let or_plain = |told: ResourceList, plain| if told.is_empty() { plain } else { told };
        QuotaArgs {
            overuse_wait: overuse_wait.unwrap_or(plain.overuse_wait),
            revoke_interval: revoke_interval.unwrap_or(plain.revoke_interval),
            default_max: or_plain(default_max, plain.default_max),
            system_max: or_plain(system_max, plain.system_max),
            namespace: if namespace.is_empty() { plain.namespace } else { namespace.into() },
            monitors_all: self.monitor_all_quotas,
            settings: Settings {
                options: Options {
                    limit: match self.enable_runtime_quota {
                        Some(false) => Limit::Max,
                        _ => Limit::Runtime,
                    },
                    scales_min: self.enable_min_quota_scale.unwrap_or(true),
                    ..Options::default()
                },
                spares_default: self.disable_default_quota_preemption.unwrap_or(true),
                shared: match self.ignore_unschedulable_nodes {
                    true => Shared::NodesInUse,
                    false => Shared::AllNodes,
                },
                ..plain.settings
            },
        }
    }

    fn vain(&self) -> Vec<VainArgument> {
        let outside = "pods over their quota wait outside the queue and wake exactly when they fit";
        let told = [
            (
                self.enable_check_parent_quota == Some(false),
                "enableCheckParentQuota",
                "a pod is held against every quota above its own, whatever is said",
            ),
            (self.enable_queue_hint, "enableQueueHint", outside),
            (self.quota_snapshot_update_interval.is_some(), "quotaSnapshotUpdateInterval", outside),
        ];
        let told = told.into_iter().filter(|(is_told, ..)| *is_told);
        told.map(|(_, field, why)| VainArgument { plugin: Plugin::ElasticQuota, field, why })
            .collect()
    }
}

fn check_amounts(amounts: &ResourceList, path: &Path, errors: &mut Errors) {
    for (resource, amount) in amounts.iter().filter(|(_, amount)| amount.sign() < 0) {
        let fix = "must not be negative";
        errors.push(Error::invalid(&path.key(resource), amount.to_string(), fix));
    }
}
