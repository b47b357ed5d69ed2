//! Where each plugin can run, and which run where a file says nothing.

use engine::plugin::Plugin;

/// A place in the life of a pod at which plugins have a say, in the order of that life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExtensionPoint {
    /// May it enter the queue?
    PreEnqueue,
    /// Which pod is next?
    QueueSort,
    /// What of it matters for all nodes?
    PreFilter,
    /// Which nodes can take it?
    Filter,
    /// None can: what now?
    PostFilter,
    /// What of it matters for all scores?
    PreScore,
    /// How good are the nodes?
    Score,
    /// What is set aside for it?
    Reserve,
    /// May it be bound yet?
    Permit,
    /// What comes first?
    PreBind,
    /// Who binds it?
    Bind,
    /// It was bound.
    PostBind,
}

use ExtensionPoint as At;

impl ExtensionPoint {
    /// All of them.
    pub const ALL: [Self; 12] = [
        At::PreEnqueue,
        At::QueueSort,
        At::PreFilter,
        At::Filter,
        At::PostFilter,
        At::PreScore,
        At::Score,
        At::Reserve,
        At::Permit,
        At::PreBind,
        At::Bind,
        At::PostBind,
    ];

    /// The field of the file.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            At::PreEnqueue => "preEnqueue",
            At::QueueSort => "queueSort",
            At::PreFilter => "preFilter",
            At::Filter => "filter",
            At::PostFilter => "postFilter",
            At::PreScore => "preScore",
            At::Score => "score",
            At::Reserve => "reserve",
            At::Permit => "permit",
            At::PreBind => "preBind",
            At::Bind => "bind",
            At::PostBind => "postBind",
        }
    }
}

/// Where a plugin has a say.
fn points(plugin: Plugin) -> &'static [ExtensionPoint] {
    match plugin {
        Plugin::SchedulingGates => &[At::PreEnqueue],
        Plugin::PrioritySort => &[At::QueueSort],
        Plugin::NodeUnschedulable | Plugin::NodeName => &[At::Filter],
        Plugin::TaintToleration => &[At::Filter, At::PreScore, At::Score],
        Plugin::NodePorts
        | Plugin::VolumeRestrictions
        | Plugin::NodeVolumeLimits
        | Plugin::VolumeZone
        | Plugin::NodeDeclaredFeatures => &[At::PreFilter, At::Filter],
        Plugin::NodeAffinity
        | Plugin::NodeResourcesFit
        | Plugin::PodTopologySpread
        | Plugin::InterPodAffinity => &[At::PreFilter, At::Filter, At::PreScore, At::Score],
        Plugin::VolumeBinding => {
            &[At::PreFilter, At::Filter, At::Reserve, At::PreBind, At::PreScore, At::Score]
        }
        Plugin::DynamicResources => &[
            At::PreEnqueue,
            At::PreFilter,
            At::Filter,
            At::PostFilter,
            At::Score,
            At::Reserve,
            At::PreBind,
        ],
        Plugin::DefaultPreemption => &[At::PreEnqueue, At::PostFilter],
        Plugin::NodeResourcesBalancedAllocation => &[At::PreScore, At::Score],
        Plugin::ImageLocality => &[At::Score],
        Plugin::SchedulingHint => &[At::PreFilter],
        Plugin::NodeResourcesFitPlus | Plugin::ScarceResourceAvoidance => {
            &[At::PreScore, At::Score]
        }
        Plugin::DefaultBinder => &[At::Bind],
        Plugin::GangScheduling => &[At::PreEnqueue, At::Reserve, At::Permit],
        Plugin::Reservation => &[
            At::PreFilter,
            At::Filter,
            At::PostFilter,
            At::PreScore,
            At::Score,
            At::Reserve,
            At::PreBind,
            At::Bind,
        ],
        Plugin::LoadAwareScheduling => &[At::PreFilter, At::Filter, At::Score, At::Reserve],
        Plugin::NodeNUMAResource => {
            &[At::PreFilter, At::Filter, At::Score, At::Reserve, At::PreBind]
        }
        Plugin::DeviceShare => &[At::PreFilter, At::Filter, At::Score, At::Reserve, At::PreBind],
        Plugin::Coscheduling => &[
            At::PreEnqueue,
            At::QueueSort,
            At::PreFilter,
            At::PostFilter,
            At::PreScore,
            At::Score,
            At::Reserve,
            At::Permit,
            At::PreBind,
            At::PostBind,
        ],
        Plugin::ElasticQuota => &[At::PreFilter, At::PostFilter, At::Reserve],
        Plugin::DefaultPreBind => &[At::PreBind],
        Plugin::Extender | Plugin::Other => &[],
    }
}

/// Whether a file may name a plugin that does nothing here yet.
pub(crate) fn is_to_come(plugin: Plugin) -> bool {
    plugin == Plugin::DeviceShare
}

/// Plugins that run where the file says nothing, in their order, with the weights of their scores.
pub(super) const DEFAULTS: [(Plugin, i32); 19] = [
    (Plugin::SchedulingGates, 0),
    (Plugin::PrioritySort, 0),
    (Plugin::NodeUnschedulable, 0),
    (Plugin::NodeName, 0),
    (Plugin::TaintToleration, 3),
    (Plugin::NodeAffinity, 2),
    (Plugin::NodePorts, 0),
    (Plugin::NodeResourcesFit, 1),
    (Plugin::VolumeRestrictions, 0),
    (Plugin::NodeVolumeLimits, 0),
    (Plugin::VolumeBinding, 0),
    (Plugin::VolumeZone, 0),
    (Plugin::PodTopologySpread, 2),
    (Plugin::InterPodAffinity, 2),
    // Before preemption: it is better to give back an idle claim than to evict a pod.
    (Plugin::DynamicResources, 2),
    (Plugin::DefaultPreemption, 0),
    (Plugin::NodeResourcesBalancedAllocation, 1),
    (Plugin::ImageLocality, 1),
    (Plugin::DefaultBinder, 0),
];

/// Plugins that Kubernetes once had.
const REMOVED: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// Whether a plugin has a say there.
pub(super) fn runs_at(plugin: Plugin, point: ExtensionPoint) -> bool {
    points(plugin).contains(&point)
}

/// The plugin of a name.
///
/// # Errors
/// Where there is none, with a sentence that says what to write.
pub(super) fn named(name: &str) -> Result<Plugin, String> {
    if let Some(plugin) = Plugin::named(name) {
        return Ok(plugin);
    }
    if is_removed(name) {
        return Err(format!(
            "was invalid in version \"v1\" (KubeSchedulerConfiguration is version {:?})",
            super::API_VERSION
        ));
    }
    let known: Vec<&str> = Plugin::ALL.iter().map(|plugin| plugin.name()).collect();
    Err(match chassis::config::nearest(name, &known) {
        Some(nearest) => format!("there is no such plugin; did you mean {nearest}?"),
        None => format!("there is no such plugin; there are {}", known.join(", ")),
    })
}

/// Whether Kubernetes once had a plugin of this name: to turn it off is no mistake.
pub(super) fn is_removed(name: &str) -> bool {
    REMOVED.contains(&name)
}
