//! The plugins there are, and where each can run.

use std::fmt;

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

/// A plugin that profiles can name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those that users write")]
pub enum Plugin {
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    GangScheduling,
}

/// One line for each plugin: its name, and the extension points it has.
const TABLE: [(Plugin, &str, &[ExtensionPoint]); 21] = [
    (Plugin::SchedulingGates, "SchedulingGates", &[At::PreEnqueue]),
    (Plugin::PrioritySort, "PrioritySort", &[At::QueueSort]),
    (Plugin::NodeUnschedulable, "NodeUnschedulable", &[At::Filter]),
    (Plugin::NodeName, "NodeName", &[At::Filter]),
    (Plugin::TaintToleration, "TaintToleration", &[At::Filter, At::PreScore, At::Score]),
    (Plugin::NodeAffinity, "NodeAffinity", &[At::PreFilter, At::Filter, At::PreScore, At::Score]),
    (Plugin::NodePorts, "NodePorts", &[At::PreFilter, At::Filter]),
    (
        Plugin::NodeResourcesFit,
        "NodeResourcesFit",
        &[At::PreFilter, At::Filter, At::PreScore, At::Score],
    ),
    (Plugin::VolumeRestrictions, "VolumeRestrictions", &[At::PreFilter, At::Filter]),
    (Plugin::NodeVolumeLimits, "NodeVolumeLimits", &[At::PreFilter, At::Filter]),
    (
        Plugin::VolumeBinding,
        "VolumeBinding",
        &[At::PreFilter, At::Filter, At::Reserve, At::PreBind, At::PreScore, At::Score],
    ),
    (Plugin::VolumeZone, "VolumeZone", &[At::PreFilter, At::Filter]),
    (
        Plugin::PodTopologySpread,
        "PodTopologySpread",
        &[At::PreFilter, At::Filter, At::PreScore, At::Score],
    ),
    (
        Plugin::InterPodAffinity,
        "InterPodAffinity",
        &[At::PreFilter, At::Filter, At::PreScore, At::Score],
    ),
    (
        Plugin::DynamicResources,
        "DynamicResources",
        &[
            At::PreEnqueue,
            At::PreFilter,
            At::Filter,
            At::PostFilter,
            At::Score,
            At::Reserve,
            At::PreBind,
        ],
    ),
    (Plugin::DefaultPreemption, "DefaultPreemption", &[At::PreEnqueue, At::PostFilter]),
    (
        Plugin::NodeResourcesBalancedAllocation,
        "NodeResourcesBalancedAllocation",
        &[At::PreScore, At::Score],
    ),
    (Plugin::ImageLocality, "ImageLocality", &[At::Score]),
    (Plugin::DefaultBinder, "DefaultBinder", &[At::Bind]),
    (Plugin::NodeDeclaredFeatures, "NodeDeclaredFeatures", &[At::PreFilter, At::Filter]),
    (Plugin::GangScheduling, "GangScheduling", &[At::PreEnqueue, At::Reserve, At::Permit]),
];

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

impl Plugin {
    fn row(self) -> &'static (Self, &'static str, &'static [ExtensionPoint]) {
        TABLE.iter().find(|row| row.0 == self).expect("every plugin has a line in the table")
    }

    /// The name that users write.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Whether it has a say there.
    #[must_use]
    pub fn runs_at(self, point: ExtensionPoint) -> bool {
        self.row().2.contains(&point)
    }

    /// The plugin of a name.
    ///
    /// # Errors
    /// Where there is none, with a sentence that says what to write.
    pub fn named(name: &str) -> Result<Self, String> {
        if let Some(row) = TABLE.iter().find(|row| row.1 == name) {
            return Ok(row.0);
        }
        if is_removed(name) {
            return Err(format!(
                "was invalid in version \"v1\" (KubeSchedulerConfiguration is version {:?})",
                super::API_VERSION
            ));
        }
        let known = TABLE.map(|row| row.1);
        Err(match chassis::config::nearest(name, &known) {
            Some(nearest) => format!("there is no such plugin; did you mean {nearest}?"),
            None => format!("there is no such plugin; there are {}", known.join(", ")),
        })
    }
}

/// Whether Kubernetes once had a plugin of this name: to turn it off is no mistake.
pub(super) fn is_removed(name: &str) -> bool {
    REMOVED.contains(&name)
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
