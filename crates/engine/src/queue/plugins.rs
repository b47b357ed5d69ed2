//! Who refused a pod.

use std::fmt;

/// A plugin that may refuse a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Plugin {
    /// The pod has gates.
    SchedulingGates,
    /// Nodes are cordoned.
    NodeUnschedulable,
    /// The pod names a node.
    NodeName,
    /// Nodes have taints.
    TaintToleration,
    /// Nodes are not as asked.
    NodeAffinity,
    /// Ports are taken.
    NodePorts,
    /// Nodes are full.
    NodeResourcesFit,
    /// Volumes are in use.
    VolumeRestrictions,
    /// Nodes have as many volumes as they take.
    NodeVolumeLimits,
    /// Volumes cannot be had.
    VolumeBinding,
    /// Volumes are elsewhere.
    VolumeZone,
    /// Pods would be spread unevenly.
    PodTopologySpread,
    /// Other pods are near, or are not.
    InterPodAffinity,
    /// Devices cannot be had.
    DynamicResources,
    /// Room is being made for the pod.
    DefaultPreemption,
    /// Somebody outside was asked, and said no.
    Extender,
    /// Somebody of whom nothing is known.
    Other,
}

/// Every plugin.
pub(super) const ALL: [Plugin; 17] = [
    Plugin::SchedulingGates,
    Plugin::NodeUnschedulable,
    Plugin::NodeName,
    Plugin::TaintToleration,
    Plugin::NodeAffinity,
    Plugin::NodePorts,
    Plugin::NodeResourcesFit,
    Plugin::VolumeRestrictions,
    Plugin::NodeVolumeLimits,
    Plugin::VolumeBinding,
    Plugin::VolumeZone,
    Plugin::PodTopologySpread,
    Plugin::InterPodAffinity,
    Plugin::DynamicResources,
    Plugin::DefaultPreemption,
    Plugin::Extender,
    Plugin::Other,
];

impl Plugin {
    /// The plugin with this name in profiles; one of which nothing is known where there is none.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let known = ALL.into_iter().find(|plugin| plugin.to_string() == name);
        known.unwrap_or(Self::Other)
    }
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A set of plugins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plugins(u32);

impl Plugins {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a plugin is one of them.
    #[must_use]
    pub fn contains(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u8) != 0
    }

    /// They, and others.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        ALL.into_iter().filter(move |plugin| self.contains(*plugin))
    }
}

impl FromIterator<Plugin> for Plugins {
    fn from_iter<I: IntoIterator<Item = Plugin>>(plugins: I) -> Self {
        plugins.into_iter().fold(Self::default(), |set, plugin| Self(set.0 | 1 << plugin as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        for plugin in ALL {
            assert_eq!(Plugin::named(&plugin.to_string()), plugin);
            let set = Plugins::from_iter([plugin]);
            assert!(!set.is_empty());
            assert_eq!(set.iter().collect::<Vec<_>>(), [plugin]);
        }
        assert_eq!(Plugin::named("MyOwn"), Plugin::Other);
        assert_eq!(Plugins::from_iter(ALL).iter().count(), ALL.len());
    }
}
