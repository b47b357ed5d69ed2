//! A profile: which plugins run, with which arguments, and the engine's profile that this makes.

use engine::gangs;
use engine::plugin::Plugin;
use engine::plugins::dynamic_resources::DynamicResources;
use engine::plugins::image_locality::ImageLocality;
use engine::plugins::node_ports::NodePorts;
use engine::plugins::node_unschedulable::NodeUnschedulable;
use engine::plugins::node_volume_limits::NodeVolumeLimits;
use engine::plugins::taint_toleration::TaintToleration;
use engine::plugins::volume_binding::VolumeBinding;
use engine::plugins::volume_restrictions::VolumeRestrictions;
use engine::plugins::volume_zone::VolumeZone;
use engine::profile::{LastResort, Profile, Weight};
use engine::quota;
use object::field::{Error, Errors, Path};

use super::args::{self, GangArgs, PluginArgs};
use super::lineup::{Lineup, lineup};
use super::plugin::{ExtensionPoint, is_to_come};
use super::{file, percent};

/// The name of the only profile, where the file gives it none.
const DEFAULT_NAME: &str = "default-scheduler";

/// A way to schedule.
#[derive(Debug, Clone)]
pub struct ProfileConfig {
    /// What pods name to be scheduled this way.
    pub scheduler_name: String,
    /// Goes before the number for all profiles.
    pub percentage_of_nodes_to_score: Option<u8>,
    /// Which plugins run where.
    pub lineup: Lineup,
    /// Their arguments.
    pub args: PluginArgs,
}

/// A profile of the engine, and what of the file it does not have.
#[derive(Default)]
pub struct Assembled {
    /// What the engine runs.
    pub profile: Profile,
    /// Plugins that are on and that the engine does not have as a filter or a score: what they do
    /// is done elsewhere, or not yet.
    pub elsewhere: Vec<(ExtensionPoint, Plugin)>,
}

impl ProfileConfig {
    /// The profile of the engine: each plugin of the file at its place, with its arguments.
    #[must_use]
    pub fn assemble(&self) -> Assembled {
        let args = &self.args;
        let mut elsewhere = Vec::new();
        let prepares = self.lineup.at(ExtensionPoint::PreBind).contains(&Plugin::VolumeBinding);
        let volume_wait_max = prepares.then_some(args.volume_binding.bind_timeout);
        let mut profile = Profile { volume_wait_max, ..Profile::default() };
        if self.lineup.at(ExtensionPoint::PreFilter).contains(&Plugin::SchedulingHint) {
            profile = profile.filter(args.scheduling_hint);
        }
        for plugin in self.lineup.at(ExtensionPoint::Filter) {
            profile = match plugin {
                Plugin::NodeUnschedulable => profile.filter(NodeUnschedulable),
                Plugin::TaintToleration => profile.filter(TaintToleration),
                Plugin::NodeAffinity => profile.filter(args.node_affinity.clone()),
                Plugin::NodePorts => profile.filter(NodePorts),
                Plugin::NodeResourcesFit => profile.filter(args.node_resources_fit.clone()),
                Plugin::VolumeRestrictions => profile.filter(VolumeRestrictions),
                Plugin::NodeVolumeLimits => profile.filter(NodeVolumeLimits),
                Plugin::VolumeBinding => profile.filter(VolumeBinding),
                Plugin::VolumeZone => profile.filter(VolumeZone),
                Plugin::PodTopologySpread => profile.filter(args.pod_topology_spread.clone()),
                Plugin::InterPodAffinity => profile.filter(args.inter_pod_affinity),
                Plugin::DynamicResources => profile.filter(DynamicResources),
                Plugin::LoadAwareScheduling => profile.filter(args.load_aware.clone()),
                Plugin::NodeNUMAResource => profile.filter(args.node_numa.clone()),
                Plugin::Reservation => profile.filter(args.reservation.plugin.clone()),
                other => {
                    elsewhere.push((ExtensionPoint::Filter, *other));
                    profile
                }
            };
        }
        for (plugin, weight) in self.lineup.scores() {
            let weight = Weight(i64::from(weight));
            profile = match plugin {
                Plugin::TaintToleration => profile.score(TaintToleration, weight),
                Plugin::NodeAffinity => profile.score(args.node_affinity.clone(), weight),
                Plugin::NodeResourcesFit => profile.score(args.node_resources_fit.clone(), weight),
                Plugin::NodeResourcesBalancedAllocation => {
                    profile.score(args.balanced_allocation.clone(), weight)
                }
                Plugin::PodTopologySpread => {
                    profile.score(args.pod_topology_spread.clone(), weight)
                }
                Plugin::InterPodAffinity => profile.score(args.inter_pod_affinity, weight),
                Plugin::ImageLocality => profile.score(ImageLocality, weight),
                Plugin::LoadAwareScheduling => profile.score(args.load_aware.clone(), weight),
                Plugin::NodeNUMAResource => profile.score(args.node_numa.clone(), weight),
                Plugin::NodeResourcesFitPlus => profile.score(args.fit_plus.clone(), weight),
                Plugin::ScarceResourceAvoidance => profile.score(args.scarce.clone(), weight),
                other => {
                    elsewhere.push((ExtensionPoint::Score, other));
                    profile
                }
            };
        }
        profile = profile.admitting_by(self.lineup.at(ExtensionPoint::PreFilter));
        (profile.gangs, profile.quota) = (self.gangs(), self.quota());
        profile.last_resorts = self.last_resorts();
        // Filters and scores of the engine prepare themselves; what runs at the other points is
        // the work of the queue, of preemption and of the writers.
        let prepared = [
            ExtensionPoint::Filter,
            ExtensionPoint::Score,
            ExtensionPoint::PreFilter,
            ExtensionPoint::PreScore,
            ExtensionPoint::PostFilter,
        ];
        for point in ExtensionPoint::ALL.into_iter().filter(|point| !prepared.contains(point)) {
            elsewhere.extend(self.lineup.at(point).iter().map(|plugin| (point, *plugin)));
        }
        Assembled { profile, elsewhere }
    }

    /// How pods start together, where they do.
    fn gangs(&self) -> Option<gangs::Settings> {
        let GangArgs { wait, match_policy, tells_all, .. } = self.args.coscheduling;
        let is_on = self.lineup.plugins().contains(&Plugin::Coscheduling);
        is_on.then_some(gangs::Settings { wait, policy: match_policy, tells_all })
    }

    /// How pods are held to their quotas, where they are.
    fn quota(&self) -> Option<quota::Settings> {
        let is_on = self.lineup.at(ExtensionPoint::PreFilter).contains(&Plugin::ElasticQuota);
        is_on.then_some(self.args.elastic_quota.settings)
    }

    /// Plugins that the file names and that do nothing here yet.
    pub(crate) fn to_come(&self) -> impl Iterator<Item = Plugin> {
        self.lineup.plugins().into_iter().filter(|plugin| is_to_come(*plugin))
    }

    /// What is tried for a pod that no node can take.
    fn last_resorts(&self) -> Vec<LastResort> {
        let plugins = self.lineup.at(ExtensionPoint::PostFilter).iter();
        let last_resort = |plugin: &Plugin| match plugin {
            Plugin::DynamicResources => Some(LastResort::DynamicResources),
            Plugin::Reservation => Some(LastResort::Reservation(self.args.reservation.preemption)),
            Plugin::DefaultPreemption => {
                Some(LastResort::DefaultPreemption(self.args.default_preemption))
            }
            Plugin::Coscheduling => {
                self.args.coscheduling.preempts.then_some(LastResort::Coscheduling)
            }
            Plugin::ElasticQuota => Some(LastResort::ElasticQuota),
            _ => None,
        };
        plugins.filter_map(last_resort).collect()
    }
}

/// All profiles of a file.
pub(super) fn profiles(wire: &[file::Profile], errors: &mut Errors) -> Vec<ProfileConfig> {
    let standard = [file::Profile::default()];
    let wire = if wire.is_empty() { &standard } else { wire };
    let path = Path::new("profiles");
    let mut profiles: Vec<ProfileConfig> = Vec::new();
    for (index, one) in wire.iter().enumerate() {
        let path = path.index(index);
        let alone = (wire.len() == 1).then(|| DEFAULT_NAME.to_owned());
        let name = one.scheduler_name.clone().or(alone).unwrap_or_default();
        let name_path = path.child("schedulerName");
        if name.is_empty() {
            errors.push(Error::required(&name_path, ""));
        } else if let Some(other) = profiles.iter().position(|other| other.scheduler_name == name) {
            let other = format!("{name}, as of profiles[{other}]");
            errors.push(Error::duplicate(&name_path, other));
        }
        profiles.push(profile(one, name, &path, errors));
    }
    check_reservations(&profiles, &path, errors);
    check_gangs(&profiles, &path, errors);
    check_quotas(&profiles, &path, errors);
    for (index, one) in wire.iter().enumerate().skip(1) {
        if !same(&wire[0].plugins.queue_sort, &one.plugins.queue_sort) {
            let path = path.index(index).child("plugins").child("queueSort");
            let names = one.plugins.queue_sort.enabled.iter().map(|entry| entry.name.as_str());
            let names: Vec<&str> = names.collect();
            errors.push(Error::invalid(&path, names, "must be the same for all profiles"));
        }
    }
    profiles
}

/// What counts for all reservations is the same wherever there are any.
fn check_reservations(profiles: &[ProfileConfig], path: &Path, errors: &mut Errors) {
    let reserves = |own: &&ProfileConfig| own.lineup.plugins().contains(&Plugin::Reservation);
    let Some(first) = profiles.iter().find(reserves).map(|own| &own.args.reservation) else {
        return;
    };
    for (index, profile) in profiles.iter().enumerate().filter(|(_, own)| reserves(own)) {
        let own = &profile.args.reservation;
        if (own.lives, &own.takeover_key) != (first.lives, &first.takeover_key) {
            let path = path.index(index).child("pluginConfig");
            let fix = "gcDurationSeconds, disableGarbageCollection and \
                       preAllocationConfig.clusterPriorityAnnotationKey must be the same for all \
                       profiles";
            errors.push(Error::invalid(&path, Plugin::Reservation.name(), fix));
        }
    }
}

/// A gang may have pods of several profiles: what counts for it where it does not say is the same in all.
fn check_gangs(profiles: &[ProfileConfig], path: &Path, errors: &mut Errors) {
    let mut all = profiles
        .iter()
        .enumerate()
        .filter_map(|(index, own)| Some((index, &own.scheduler_name, own.gangs()?)));
    let Some((_, first_name, first)) = all.next() else { return };
    for (index, name, own) in all {
        let fields = [
            ("defaultTimeout", own.wait == first.wait),
            ("defaultMatchPolicy", own.policy == first.policy),
        ];
        for (field, _) in fields.into_iter().filter(|(_, is_same)| !is_same) {
            let path = path.index(index).child("pluginConfig");
            let fix = format!(
                "{field} must be the same for profiles {first_name} and {name}, since a gang may have \
                 pods of both"
            );
            errors.push(Error::invalid(&path, Plugin::Coscheduling.name(), fix));
        }
    }
}

/// There are quotas for the whole cluster, whichever profile a pod is of.
fn check_quotas(profiles: &[ProfileConfig], path: &Path, errors: &mut Errors) {
    let shares = |own: &ProfileConfig| own.lineup.plugins().contains(&Plugin::ElasticQuota);
    let mut all = profiles.iter().enumerate().filter(|(_, own)| shares(own));
    let Some((_, first)) = all.next() else { return };
    for (index, _) in all.filter(|(_, own)| own.args.elastic_quota != first.args.elastic_quota) {
        let path = path.index(index).child("pluginConfig");
        let fix = "must be the same for all profiles";
        errors.push(Error::invalid(&path, Plugin::ElasticQuota.name(), fix));
    }
}

fn profile(wire: &file::Profile, name: String, path: &Path, errors: &mut Errors) -> ProfileConfig {
    let score_path = path.child("percentageOfNodesToScore");
    let percentage = wire.percentage_of_nodes_to_score;
    let percentage_of_nodes_to_score = percentage.map(|value| percent(value, &score_path, errors));
    let plugins_path = path.child("plugins");
    let before = errors.len();
    let lineup = lineup(&wire.plugins, &plugins_path, errors);
    // A name that is not understood is enough to say.
    if errors.len() == before {
        check_points(&lineup, &name, &plugins_path, errors);
    }
    let args = args::read(&wire.plugin_config, &path.child("pluginConfig"), errors);
    let profile =
        ProfileConfig { scheduler_name: name, percentage_of_nodes_to_score, lineup, args };
    if errors.len() == before
        && let Err(error) = profile.assemble().profile.check()
    {
        let weights = profile.lineup.scores().map(|(plugin, weight)| format!("{plugin}: {weight}"));
        let weights: Vec<String> = weights.collect();
        errors.push(Error::invalid(&plugins_path.child("score"), weights, error.to_string()));
    }
    profile
}

/// Some extension points cannot do without a plugin, and some plugins do not work here.
fn check_points(lineup: &Lineup, name: &str, path: &Path, errors: &mut Errors) {
    let sorts = lineup.at(ExtensionPoint::QueueSort).len();
    if sorts != 1 {
        let reason = format!(
            "only one queue sort plugin required for profile with scheduler name {name:?}, but got \
             {sorts}"
        );
        errors.push(Error::invalid(&path.child("queueSort"), sorts, reason));
    }
    if lineup.at(ExtensionPoint::Bind).is_empty() {
        let reason =
            format!("at least one bind plugin is needed for profile with scheduler name {name:?}");
        errors.push(Error::required(&path.child("bind"), reason));
    }
    if lineup.plugins().contains(&Plugin::GangScheduling) {
        let reason = "plugin GangScheduling is behind a feature gate that is off; leave it out";
        errors.push(Error::forbidden(path, reason));
    }
}

/// Whether two lists say the same; a weight that is left out is 0.
fn same(a: &file::PluginSet, b: &file::PluginSet) -> bool {
    fn said(set: &file::PluginSet) -> (Vec<(&str, i32)>, Vec<&str>) {
        let enabled = set.enabled.iter();
        let enabled = enabled.map(|entry| (entry.name.as_str(), entry.weight.unwrap_or(0)));
        let disabled = set.disabled.iter().map(|entry| entry.name.as_str());
        (enabled.collect(), disabled.collect())
    }
    said(a) == said(b)
}
