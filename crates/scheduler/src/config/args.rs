//! Arguments of plugins: what was written, checked and complete.
//!
//! Where the engine has the plugin, the outcome is the engine's own value, so that nothing is
//! described twice.

mod affinity;
mod cpus;
mod gangs;
mod load;
mod quotas;
mod reservations;
mod resources;
mod spread;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use engine::plugin::Plugin;
use engine::plugins::inter_pod_affinity::InterPodAffinity;
use engine::plugins::load_aware::LoadAware;
use engine::plugins::node_affinity::NodeAffinity;
use engine::plugins::node_numa_resource::NodeNuma;
use engine::plugins::node_resources::{BalancedAllocation, Fit, FitPlus};
use engine::plugins::pod_topology_spread::PodTopologySpread;
use engine::plugins::scarce_resource_avoidance::ScarceResources;
use engine::plugins::scheduling_hint::{SchedulingHint, TRIED_MAX};
use engine::preemption::Settings as DefaultPreemption;
use object::field::{Error, Errors, Fault, Path};
use object::time;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::file;
use super::plugin;
use super::{API_VERSION, seconds};
pub use gangs::GangArgs;
pub use quotas::QuotaArgs;
pub use reservations::{ReservationConfig, TakeoverKey};

/// Arguments of all plugins that take some.
#[derive(Debug, Clone, Default)]
pub struct PluginArgs {
    /// Of NodeResourcesFit.
    pub node_resources_fit: Fit,
    /// Of NodeResourcesBalancedAllocation.
    pub balanced_allocation: BalancedAllocation,
    /// Of NodeAffinity.
    pub node_affinity: NodeAffinity,
    /// Of PodTopologySpread.
    pub pod_topology_spread: PodTopologySpread,
    /// Of InterPodAffinity.
    pub inter_pod_affinity: InterPodAffinity,
    /// Of VolumeBinding.
    pub volume_binding: VolumeBinding,
    /// Of DefaultPreemption.
    pub default_preemption: DefaultPreemption,
    /// Of DynamicResources.
    pub dynamic_resources: DynamicResources,
    /// Of LoadAwareScheduling.
    pub load_aware: LoadAware,
    /// Of NodeNUMAResource.
    pub node_numa: NodeNuma,
    /// Of NodeResourcesFitPlus.
    pub fit_plus: FitPlus,
    /// Of ScarceResourceAvoidance.
    pub scarce: ScarceResources,
    /// Of SchedulingHint.
    pub scheduling_hint: SchedulingHint,
    /// Of Reservation.
    pub reservation: ReservationConfig,
    /// Of Coscheduling.
    pub coscheduling: GangArgs,
    /// Of ElasticQuota.
    pub elastic_quota: QuotaArgs,
    /// What was asked for in vain.
    pub vain: Vec<VainArgument>,
}

/// An argument that is taken and changes nothing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VainArgument {
    /// Whose it is.
    pub plugin: Plugin,
    /// The field, as it is written.
    pub field: &'static str,
    /// Why it changes nothing.
    pub why: &'static str,
}

impl fmt::Display for VainArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plugin, field, why } = self;
        write!(f, "argument {field} of plugin {plugin} changes nothing: {why}")
    }
}

/// How volumes are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeBinding {
    /// For how long a pod waits until its volumes are bound.
    pub bind_timeout: Duration,
}

impl Default for VolumeBinding {
    fn default() -> Self {
        Self { bind_timeout: Duration::from_mins(10) }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SchedulingHintArgs {
    max_hint_nodes: Option<i32>,
}

impl Args for SchedulingHint {
    type Written = SchedulingHintArgs;
}

impl Written for SchedulingHintArgs {
    type Outcome = SchedulingHint;

    fn check(self, path: &Path, errors: &mut Errors) -> SchedulingHint {
        let Some(most) = self.max_hint_nodes else { return SchedulingHint::default() };
        if most <= 0 {
            let fix = "must be greater than 0";
            errors.push(Error::invalid(&path.child("maxHintNodes"), most, fix));
        }
        SchedulingHint { tried_max: usize::try_from(most).unwrap_or(TRIED_MAX) }
    }
}

/// How devices are allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DynamicResources {
    /// For how long an allocation is looked for on a node; none means for ever.
    pub filter_timeout: Option<Duration>,
}

impl Default for DynamicResources {
    fn default() -> Self {
        Self { filter_timeout: Some(Duration::from_secs(10)) }
    }
}

/// Reads the arguments of a profile.
pub(super) fn read(wire: &[file::PluginConfig], path: &Path, errors: &mut Errors) -> PluginArgs {
    let mut args = PluginArgs::default();
    let mut seen = BTreeMap::new();
    for (index, entry) in wire.iter().enumerate() {
        let path = path.index(index);
        if entry.name.is_empty() {
            errors.push(Error::required(&path.child("name"), "which plugin?"));
            continue;
        }
        if seen.insert(&entry.name, index).is_some() {
            errors.push(Error::duplicate(&path, entry.name.as_str()));
            continue;
        }
        match plugin::named(&entry.name) {
            Ok(plugin) => Reader { plugin, path: path.child("args"), errors }
                .read(entry.args.as_ref(), &mut args),
            Err(fix) => errors.push(Error::invalid(&path, entry.name.as_str(), fix)),
        }
    }
    args
}

/// What of the arguments of one plugin was understood.
struct Reader<'a> {
    plugin: Plugin,
    path: Path,
    errors: &'a mut Errors,
}

impl Reader<'_> {
    fn read(&mut self, wire: Option<&Value>, args: &mut PluginArgs) {
        let Some(fields) = self.fields(wire) else { return };
        let errors = &mut Errors::new();
        let path = &self.path;
        let vain = match self.plugin {
            Plugin::NodeResourcesFit => put(&mut args.node_resources_fit, &fields, path, errors),
            Plugin::NodeResourcesBalancedAllocation => {
                put(&mut args.balanced_allocation, &fields, path, errors)
            }
            Plugin::NodeAffinity => put(&mut args.node_affinity, &fields, path, errors),
            Plugin::PodTopologySpread => put(&mut args.pod_topology_spread, &fields, path, errors),
            Plugin::InterPodAffinity => put(&mut args.inter_pod_affinity, &fields, path, errors),
            Plugin::VolumeBinding => put(&mut args.volume_binding, &fields, path, errors),
            Plugin::DefaultPreemption => put(&mut args.default_preemption, &fields, path, errors),
            Plugin::DynamicResources => put(&mut args.dynamic_resources, &fields, path, errors),
            Plugin::LoadAwareScheduling => put(&mut args.load_aware, &fields, path, errors),
            Plugin::NodeNUMAResource => put(&mut args.node_numa, &fields, path, errors),
            Plugin::NodeResourcesFitPlus => put(&mut args.fit_plus, &fields, path, errors),
            Plugin::ScarceResourceAvoidance => put(&mut args.scarce, &fields, path, errors),
            Plugin::SchedulingHint => put(&mut args.scheduling_hint, &fields, path, errors),
            Plugin::Reservation => put(&mut args.reservation, &fields, path, errors),
            Plugin::Coscheduling => put(&mut args.coscheduling, &fields, path, errors),
            Plugin::ElasticQuota => put(&mut args.elastic_quota, &fields, path, errors),
            // What they are told means nothing before they are there.
            plugin if plugin::is_to_come(plugin) => Vec::new(),
            _ if fields.is_empty() => Vec::new(),
            plugin => {
                let reason = format!("plugin {plugin} takes no arguments");
                errors.push(Error::forbidden(path, reason));
                Vec::new()
            }
        };
        args.vain.extend(vain);
        self.errors.append(errors);
    }

    /// The fields of the arguments, without those that say what they are.
    fn fields(&mut self, wire: Option<&Value>) -> Option<Map<String, Value>> {
        let mut fields = match wire {
            None | Some(Value::Null) => return None,
            Some(Value::Object(fields)) => fields.clone(),
            Some(other) => {
                let error = Error::invalid(&self.path, other.clone(), "must be an object");
                self.errors.push(error);
                return None;
            }
        };
        let kind = format!("{}Args", self.plugin);
        for (field, expected) in [("apiVersion", API_VERSION), ("kind", &kind)] {
            match fields.remove(field) {
                Some(Value::String(found)) if found == expected || found.is_empty() => {}
                None | Some(Value::Null) => {}
                Some(other) => {
                    let path = self.path.child(field);
                    self.errors.push(Error::invalid(&path, other, format!("must be {expected}")));
                }
            }
        }
        Some(fields)
    }
}

/// Arguments of a plugin, as written.
trait Written: DeserializeOwned {
    /// What the program runs on.
    type Outcome;

    /// Checks, and fills in what is missing.
    fn check(self, path: &Path, errors: &mut Errors) -> Self::Outcome;

    /// What is taken and changes nothing, where somebody has written it.
    fn vain(&self) -> Vec<VainArgument> {
        Vec::new()
    }
}

/// What arguments are written as.
trait Args {
    type Written: Written<Outcome = Self>;
}

/// Puts arguments where they belong, and says what of them changes nothing.
fn put<T: Args>(
    args: &mut T,
    fields: &Map<String, Value>,
    path: &Path,
    errors: &mut Errors,
) -> Vec<VainArgument> {
    let value = Value::Object(fields.clone());
    match chassis::config::from_value::<T::Written>(&value) {
        Ok(written) => {
            let vain = written.vain();
            *args = written.check(path, errors);
            vain
        }
        Err(fault) => {
            let text = fault.to_string();
            let inside = fault.path();
            let detail = text.strip_prefix(inside).and_then(|text| text.strip_prefix(": "));
            errors.push(Error {
                path: path.join(&Path::new(inside)),
                fault: Fault::Invalid,
                value: None,
                detail: detail.unwrap_or(&text).to_owned(),
            });
            Vec::new()
        }
    }
}

/// A length of time, which is not below nothing.
fn length(
    told: Option<time::Duration>,
    field: &str,
    path: &Path,
    errors: &mut Errors,
) -> Option<Duration> {
    let told = told?;
    let nanos = u64::try_from(told.as_nanos()).ok();
    if nanos.is_none() {
        let fix = "must not be negative";
        errors.push(Error::invalid(&path.child(field), told.to_string(), fix));
    }
    nanos.map(Duration::from_nanos)
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct InterPodAffinityArgs {
    hard_pod_affinity_weight: Option<i32>,
    #[serde(deserialize_with = "file::or_default")]
    ignore_preferred_terms_of_existing_pods: bool,
}

impl Args for InterPodAffinity {
    type Written = InterPodAffinityArgs;
}

impl Written for InterPodAffinityArgs {
    type Outcome = InterPodAffinity;

    fn check(self, path: &Path, errors: &mut Errors) -> InterPodAffinity {
        let hard_weight = self.hard_pod_affinity_weight.unwrap_or(1);
        if !(0..=100).contains(&hard_weight) {
            let path = path.child("hardPodAffinityWeight");
            errors.push(Error::invalid(&path, hard_weight, "not in valid range [0, 100]"));
        }
        let ignores_wishes_of_others = self.ignore_preferred_terms_of_existing_pods;
        InterPodAffinity { hard_weight, ignores_wishes_of_others }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeBindingArgs {
    bind_timeout_seconds: Option<i64>,
    shape: Option<Value>,
}

impl Args for VolumeBinding {
    type Written = VolumeBindingArgs;
}

impl Written for VolumeBindingArgs {
    type Outcome = VolumeBinding;

    fn check(self, path: &Path, errors: &mut Errors) -> VolumeBinding {
        let timeout = self.bind_timeout_seconds.unwrap_or(600);
        if timeout < 0 {
            let path = path.child("bindTimeoutSeconds");
            let fix = "invalid BindTimeoutSeconds, should not be a negative value";
            errors.push(Error::invalid(&path, timeout, fix));
        }
        if let Some(shape) = self.shape {
            let fix = "unexpected field `shape`, remove it or turn on the feature gate \
                       StorageCapacityScoring";
            errors.push(Error::invalid(&path.child("shape"), shape, fix));
        }
        VolumeBinding { bind_timeout: seconds(timeout) }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DefaultPreemptionArgs {
    min_candidate_nodes_percentage: Option<i32>,
    min_candidate_nodes_absolute: Option<i32>,
}

impl Args for DefaultPreemption {
    type Written = DefaultPreemptionArgs;
}

impl Written for DefaultPreemptionArgs {
    type Outcome = DefaultPreemption;

    fn check(self, path: &Path, errors: &mut Errors) -> DefaultPreemption {
        let percent = self.min_candidate_nodes_percentage.unwrap_or(10);
        let absolute = self.min_candidate_nodes_absolute.unwrap_or(100);
        let percent_path = path.child("minCandidateNodesPercentage");
        let absolute_path = path.child("minCandidateNodesAbsolute");
        if !(0..=100).contains(&percent) {
            errors.push(Error::invalid(&percent_path, percent, "not in valid range [0, 100]"));
        }
        if absolute < 0 {
            errors.push(Error::invalid(&absolute_path, absolute, "not in valid range [0, inf)"));
        }
        if percent == 0 && absolute == 0 {
            let fix = |other: &str| format!("cannot be zero at the same time as {other}");
            let other = fix("minCandidateNodesAbsolute");
            errors.push(Error::invalid(&percent_path, percent, other));
            let other = fix("minCandidateNodesPercentage");
            errors.push(Error::invalid(&absolute_path, absolute, other));
        }
        DefaultPreemption {
            candidate_nodes_percent_min: u8::try_from(percent).unwrap_or_default(),
            candidate_nodes_min: u32::try_from(absolute).unwrap_or_default(),
            ..DefaultPreemption::default()
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DynamicResourcesArgs {
    filter_timeout: Option<time::Duration>,
    binding_timeout: Option<time::Duration>,
}

impl Args for DynamicResources {
    type Written = DynamicResourcesArgs;
}

impl Written for DynamicResourcesArgs {
    type Outcome = DynamicResources;

    fn check(self, path: &Path, errors: &mut Errors) -> DynamicResources {
        let timeout = self.filter_timeout.unwrap_or(time::Duration::from_secs(10));
        if timeout.as_nanos() < 0 {
            let path = path.child("filterTimeout");
            errors.push(Error::invalid(&path, timeout.to_string(), "must be zero or positive"));
        }
        if self.binding_timeout.is_some() {
            let reason = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate \
                          is disabled";
            errors.push(Error::forbidden(&path.child("bindingTimeout"), reason));
        }
        let timeout = Duration::from_nanos(u64::try_from(timeout.as_nanos()).unwrap_or_default());
        DynamicResources { filter_timeout: (!timeout.is_zero()).then_some(timeout) }
    }
}
