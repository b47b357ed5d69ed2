//! What nodes and layouts say that cannot be read: it is left out, and told once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use api::cpus::Layout;
use api::load::{UsageThresholds, raw_allocatable};
use api::{Malformed, Node, NodeResourceTopology};
use engine::fact::CpuRules;

const NODE: &str = "Node";
const LAYOUT: &str = "NodeResourceTopology";

/// What a node says that cannot be read.
fn of_node(node: &Node) -> Vec<Malformed> {
    let mut malformed = CpuRules::malformed(node);
    malformed.extend(UsageThresholds::of(node).err());
    malformed.extend(raw_allocatable(node).err());
    malformed
}

/// What was told already, so that it is not told each time that an object is seen.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<BTreeMap<(&'static str, String), Vec<Malformed>>>);

impl Complaints {
    /// Tells what a node says that cannot be read.
    pub(crate) fn hear_node(&self, node: &Node) {
        self.tell(NODE, &node.metadata.name, of_node(node));
    }

    /// Tells what a layout says that cannot be read.
    pub(crate) fn hear_layout(&self, layout: &NodeResourceTopology) {
        self.tell(LAYOUT, &layout.metadata.name, Layout::of(layout).malformed);
    }

    /// A node is gone, and nothing of it stays.
    pub(crate) fn forget_node(&self, name: &str) {
        self.news(NODE, name, Vec::new());
    }

    /// A layout is gone, and nothing of it stays.
    pub(crate) fn forget_layout(&self, name: &str) {
        self.news(LAYOUT, name, Vec::new());
    }

    fn tell(&self, kind: &'static str, name: &str, malformed: Vec<Malformed>) {
        for error in self.news(kind, name, malformed) {
            tracing::warn!(kind, name, %error, "a label or annotation cannot be read and is left out");
        }
    }

    /// What of it was not told yet. What is right again may be told again.
    fn news(&self, kind: &'static str, name: &str, malformed: Vec<Malformed>) -> Vec<Malformed> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kind, name.to_owned());
        let old = match malformed.is_empty() {
            true => told.remove(&key),
            false => told.insert(key, malformed.clone()),
        };
        let old = old.unwrap_or_default();
        malformed.into_iter().filter(|error| !old.contains(error)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_cannot_be_read_is_told_once_until_it_is_right_again() {
        let complaints = Complaints::default();
        let keys = |annotations: Value| {
            let node = json!({ "metadata": { "name": "n", "annotations": annotations } });
            let node: Node = serde_json::from_value(node).unwrap();
            let news = complaints.news(NODE, "n", of_node(&node));
            news.into_iter().map(|error| error.key).collect::<Vec<_>>()
        };
        let (load, cpus) = (api::load::USAGE_THRESHOLDS, api::cpus::NODE_RESERVATION);
        assert_eq!(keys(json!({ load: "?" })), [load]);
        assert_eq!(keys(json!({ load: "?" })), Vec::<&str>::new());
        assert_eq!(keys(json!({ load: "?", cpus: "?" })), [cpus]);
        assert_eq!(keys(json!({})), Vec::<&str>::new());
        assert_eq!(keys(json!({ load: "?" })), [load]);
        complaints.forget_node("n");
        assert_eq!(keys(json!({ load: "?" })), [load]);
        assert_eq!(keys(json!({ api::load::RAW_ALLOCATABLE: "?" })), [api::load::RAW_ALLOCATABLE]);
        assert_eq!(complaints.0.lock().unwrap().len(), 1);
    }
}
