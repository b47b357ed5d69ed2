//! How evenly pods of a group are spread over places.

use object::selector::label::LabelSelector;
use serde::{Deserialize, Serialize};

use crate::wire::{self, wire_enum};

/// One rule for the spread of pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// How many pods one place may have more than the least filled one.
    #[serde(deserialize_with = "wire::or_default")]
    pub max_skew: i32,
    /// Label of nodes: nodes of one value are one place.
    #[serde(deserialize_with = "wire::or_default")]
    pub topology_key: Box<str>,
    /// Whether the rule binds.
    #[serde(deserialize_with = "wire::or_default")]
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// The pods that are counted; absent means none, empty means all of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// With fewer places than this, the least filled one counts as empty; absent means 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_domains: Option<i32>,
    /// Whether nodes that the pod's selector and affinity rule out count as places; absent
    /// means `Honor`: they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity_policy: Option<NodeInclusionPolicy>,
    /// Whether nodes with taints that the pod does not tolerate count as places; absent
    /// means `Ignore`: they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_taints_policy: Option<NodeInclusionPolicy>,
    /// Labels whose value the counted pods must share with the pod.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<Box<str>>,
}

wire_enum! {
    /// What happens to a pod for which a spread rule cannot hold.
    WhenUnsatisfiable {
        /// It waits.
        DoNotSchedule,
        /// It goes where the rule is broken least.
        ScheduleAnyway,
    }
}

wire_enum! {
    /// Whether affinity or taints decide which nodes count as places.
    NodeInclusionPolicy {
        /// They do.
        Honor,
        /// They do not: all nodes count.
        Ignore,
    }
}
