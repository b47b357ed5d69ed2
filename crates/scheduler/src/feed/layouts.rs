//! What layouts say of the CPUs of nodes. Machines of one kind say the same: what was read of one is not read again of
//! the next.

use std::sync::Arc;

use api::NodeResourceTopology;
use api::cpus::Layout;
use engine::fact::CpuLayout;

/// What the last layout said, and what follows from that.
#[derive(Default)]
pub(super) struct LastLayout(Option<Said>);

struct Said {
    wire: NodeResourceTopology,
    layout: Layout,
    told: Arc<CpuLayout>,
}

impl Said {
    fn of(wire: NodeResourceTopology) -> Self {
        let layout = Layout::of(&wire);
        let told = Arc::new(CpuLayout::new(&wire, layout.clone()));
        Self { wire, layout, told }
    }

    fn is_said_by(&self, other: &NodeResourceTopology) -> bool {
        let NodeResourceTopology { metadata, topology_policies, zones } = &self.wire;
        (&metadata.annotations, topology_policies, zones)
            == (&other.metadata.annotations, &other.topology_policies, &other.zones)
    }
}

impl LastLayout {
    /// What a layout says, and what the engine is told of it.
    pub(super) fn read(&mut self, wire: NodeResourceTopology) -> (&Layout, &Arc<CpuLayout>) {
        let said = match self.0.take().filter(|said| said.is_said_by(&wire)) {
            Some(said) => self.0.insert(said),
            None => self.0.insert(Said::of(wire)),
        };
        (&said.layout, &said.told)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_layout_is_read_as_it_is_whatever_the_last_one_said() {
        let layout = |name: &str, cpus: u32, policy: &str| -> NodeResourceTopology {
            let cpu = |id: u32| json!({ "id": id, "core": id, "socket": 0, "node": 0 });
            let detail = json!({ "detail": (0..cpus).map(cpu).collect::<Vec<_>>() });
            serde_json::from_value(json!({
                "metadata": { "name": name, "annotations": {
                    "node.koordinator.sh/cpu-topology": detail.to_string() } },
                "topologyPolicies": [policy],
                "zones": [{ "name": "node-0", "type": "Node", "resources": [
                    { "name": "cpu", "capacity": "4", "allocatable": "4", "available": "4" }] }],
            }))
            .unwrap()
        };
        let mut last = LastLayout::default();
        let single = "SingleNUMANodePodLevel";
        for (cpus, policy) in [(4, ""), (4, ""), (8, ""), (8, single), (8, single), (4, "")] {
            for name in ["a", "b"] {
                let own = layout(name, cpus, policy);
                let read = Layout::of(&own);
                let told = Arc::new(CpuLayout::new(&own, read.clone()));
                assert_eq!(last.read(own), (&read, &told), "{name} {cpus} {policy}");
            }
        }
    }
}
