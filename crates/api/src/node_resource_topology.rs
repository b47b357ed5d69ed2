//! How the resources of a machine are laid out over its NUMA nodes, as its agent reports it.

use object::quantity::Quantity;
use serde::{Deserialize, Serialize};

use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire;

/// The layout of one node; it has the node's name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeResourceTopology {
    /// Who it is. Its annotations say which CPUs there are ([`crate::cpus`]).
    pub metadata: ObjectMeta,
    /// What the kubelet of the node is told to do.
    #[serde(deserialize_with = "wire::or_default")]
    pub topology_policies: Vec<String>,
    /// Parts of the machine.
    #[serde(deserialize_with = "wire::or_default")]
    pub zones: Vec<Zone>,
}

resource!(
    NodeResourceTopology,
    "topology.node.k8s.io",
    "v1alpha1",
    "NodeResourceTopology",
    "noderesourcetopologies",
    false
);

/// A part of a machine.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Zone {
    /// Its name: that of a NUMA node is `node-` and its number.
    pub name: String,
    /// What it is.
    pub r#type: String,
    /// What it has.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ZoneResource>,
}

impl Zone {
    /// The number of the NUMA node; none where it is no NUMA node.
    #[must_use]
    pub fn numa(&self) -> Option<u32> {
        let number = self.name.strip_prefix("node-").filter(|_| self.r#type == "Node")?;
        number.parse().ok()
    }
}

/// What a part of a machine has of one resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ZoneResource {
    /// Which one.
    pub name: String,
    /// What is there.
    pub capacity: Quantity,
    /// What pods may use.
    pub allocatable: Quantity,
    /// What is free.
    pub available: Quantity,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_a_numa_node_where_type_and_name_say_so() {
        let check = |r#type: &str, name: &str, expected: Option<u32>| {
            let (r#type, name) = (r#type.to_owned(), name.to_owned());
            let zone = Zone { r#type, name, ..Zone::default() };
            assert_eq!(zone.numa(), expected, "{zone:?}");
        };
        check("Node", "node-0", Some(0));
        check("Node", "node-12", Some(12));
        check("Socket", "node-0", None);
        check("Node", "node-", None);
        check("Node", "node-a", None);
        check("Node", "node-1-2", None);
        check("Node", "0", None);
    }
}
