//! The plugins there are, by the names that users write.

use std::fmt;

/// One list, from which everything that goes by it is made.
macro_rules! plugins {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A plugin, by its name in profiles, reports and counters.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Plugin {
            $($(#[$doc])* $name,)*
            /// A program outside that was asked; it is in no profile.
            Extender,
            /// Somebody else who is in no profile.
            Other,
        }

        impl Plugin {
            /// Those that profiles can name.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name that users write.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                    Self::Extender => "Extender",
                    Self::Other => "Other",
                }
            }
        }
    };
}

plugins! {
    /// A pod that has gates is not tried.
    SchedulingGates,
    /// Pods of higher priority go first.
    PrioritySort,
    /// Nodes may be cordoned.
    NodeUnschedulable,
    /// A pod may name its node.
    NodeName,
    /// Nodes may have taints.
    TaintToleration,
    /// A pod may ask for nodes that are so and so.
    NodeAffinity,
    /// Ports may be taken.
    NodePorts,
    /// Nodes may be full.
    NodeResourcesFit,
    /// Volumes may be in use.
    VolumeRestrictions,
    /// Nodes may have as many volumes as they take.
    NodeVolumeLimits,
    /// Volumes have to be had.
    VolumeBinding,
    /// Volumes may be elsewhere.
    VolumeZone,
    /// Pods are spread evenly.
    PodTopologySpread,
    /// Pods are near each other, or are not.
    InterPodAffinity,
    /// Devices have to be had.
    DynamicResources,
    /// Pods of lower priority make room.
    DefaultPreemption,
    /// What a node has is used up evenly.
    NodeResourcesBalancedAllocation,
    /// Nodes may have images already.
    ImageLocality,
    /// Pods are bound.
    DefaultBinder,
    /// Nodes may be in use more than is requested of them.
    LoadAwareScheduling,
    /// CPUs are given to pods, and lie as they should.
    NodeNUMAResource,
    /// Nodes may have been chosen before.
    SchedulingHint,
    /// Capacity may be held for pods that are still to come.
    Reservation,
    /// Each resource has a strategy of its own.
    NodeResourcesFitPlus,
    /// Scarce resources are left to those who ask for them.
    ScarceResourceAvoidance,
    /// Devices are shared.
    DeviceShare,
    /// Pods of a group start together, or none does.
    Coscheduling,
    /// Teams have their shares.
    ElasticQuota,
    /// What plugins have to say of a pod is written at once.
    DefaultPreBind,
    /// Nodes say what they can do.
    NodeDeclaredFeatures,
    /// Pods that belong together start together.
    GangScheduling,
}

impl Plugin {
    /// The plugin that profiles name so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|plugin| plugin.name() == name)
    }
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of plugins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plugins(u64);

/// Each has a bit of its own, and so have the two that are in no profile.
const _: () = assert!((Plugin::Other as u32) < u64::BITS, "a set has no place for so many");

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

    /// Every plugin, and those that are in no profile.
    #[must_use]
    pub fn all() -> Self {
        Plugin::ALL.iter().copied().chain([Plugin::Extender, Plugin::Other]).collect()
    }

    /// Those that are among others, too.
    #[must_use]
    pub fn among(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        let all = Plugin::ALL.iter().copied().chain([Plugin::Extender, Plugin::Other]);
        all.filter(move |plugin| self.contains(*plugin))
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
    fn a_plugin_is_found_by_its_name_and_a_set_holds_what_was_put_in() {
        for plugin in Plugin::ALL.iter().copied() {
            assert_eq!(Plugin::named(plugin.name()), Some(plugin));
            assert_eq!(format!("{plugin:>40}").trim_start(), plugin.name());
        }
        for name in ["Extender", "Other", "MyOwn", ""] {
            assert_eq!(Plugin::named(name), None);
        }
        let outside = [Plugin::Extender, Plugin::Other];
        let every: Vec<Plugin> = Plugin::ALL.iter().copied().chain(outside).collect();
        for plugin in &every {
            let set = Plugins::from_iter([*plugin]);
            assert!(!set.is_empty());
            assert_eq!(set.iter().collect::<Vec<_>>(), [*plugin]);
        }
        assert_eq!(every.into_iter().collect::<Plugins>().iter().count(), Plugin::ALL.len() + 2);
    }
}
