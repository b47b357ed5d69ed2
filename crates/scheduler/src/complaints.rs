//! What nodes and layouts say that cannot be read, or cannot be: it is left out, and told once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use api::cpus::{CPU_TOPOLOGY, Layout};
use api::load::{UsageThresholds, raw_allocatable};
use api::{Malformed, Node};
use engine::fact::CpuRules;
use object::quantity::{Format, Quantity};

const NODE: &str = "Node";
const LAYOUT: &str = "NodeResourceTopology";
/// What a layout says that its node denies.
const BOTH: &str = "NodeResourceTopology and Node";

/// What a node says that cannot be read.
fn of_node(node: &Node) -> Vec<Malformed> {
    let mut malformed = CpuRules::malformed(node);
    malformed.extend(UsageThresholds::of(node).err());
    malformed.extend(raw_allocatable(node).err());
    malformed
}

/// What was told already, so that it is not told each time that an object is seen.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    told: Mutex<BTreeMap<(&'static str, String), Vec<Malformed>>>,
    cpus: Mutex<BTreeMap<String, Cpus>>,
}

/// How many CPUs there are of one name.
#[derive(Debug, Clone, Default, PartialEq)]
struct Cpus {
    /// By the capacity of the node, where it says so.
    of_node: Option<Quantity>,
    /// By the layout; none where there is none.
    of_layout: usize,
}

impl Cpus {
    /// What the layout says that the node denies.
    fn contradiction(&self) -> Option<Malformed> {
        let has = self.of_node.as_ref()?;
        let count = i64::try_from(self.of_layout).unwrap_or(i64::MAX);
        let what = || format!("{count} CPUs, and status.capacity of the node {has}");
        let fix = "name the CPUs that the node has; all that are named are given away";
        let is_more = Quantity::from_units(count, Format::DecimalSi) > *has;
        is_more.then(|| Malformed::naming(CPU_TOPOLOGY, what(), fix))
    }
}

impl Complaints {
    /// Tells what a node says that cannot be read.
    pub(crate) fn hear_node(&self, node: &Node) {
        let name = &node.metadata.name;
        self.tell(NODE, name, of_node(node));
        let cpus = node.status.capacity.get("cpu").cloned();
        self.compare(name, |own| own.of_node = cpus);
    }

    /// Tells what a layout says that cannot be read.
    pub(crate) fn hear_layout(&self, name: &str, layout: &Layout) {
        self.tell(LAYOUT, name, layout.malformed.clone());
        self.compare(name, |cpus| cpus.of_layout = layout.cpus.len());
    }

    /// A node is gone, and nothing of it stays.
    pub(crate) fn forget_node(&self, name: &str) {
        self.news(NODE, name, Vec::new());
        self.compare(name, |own| own.of_node = None);
    }

    /// A layout is gone, and nothing of it stays.
    pub(crate) fn forget_layout(&self, name: &str) {
        self.news(LAYOUT, name, Vec::new());
        self.compare(name, |own| own.of_layout = 0);
    }

    /// Tells where a layout names more CPUs than its node has, as both are now.
    fn compare(&self, name: &str, change: impl FnOnce(&mut Cpus)) {
        for error in self.contradictions(name, change) {
            let kind = LAYOUT;
            tracing::warn!(kind, name, %error, "a layout contradicts its node and counts as it is");
        }
    }

    fn contradictions(&self, name: &str, change: impl FnOnce(&mut Cpus)) -> Vec<Malformed> {
        let mut all = self.cpus.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = all.remove(name).unwrap_or_default();
        change(&mut own);
        let found = own.contradiction();
        if own != Cpus::default() {
            all.insert(name.to_owned(), own);
        }
        self.news(BOTH, name, Vec::from_iter(found))
    }

    fn tell(&self, kind: &'static str, name: &str, malformed: Vec<Malformed>) {
        for error in self.news(kind, name, malformed) {
            tracing::warn!(kind, name, %error, "a label, annotation or field cannot be read and is left out");
        }
    }

    /// What of it was not told yet. What is right again may be told again.
    fn news(&self, kind: &'static str, name: &str, malformed: Vec<Malformed>) -> Vec<Malformed> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
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
        assert_eq!(complaints.told.lock().unwrap().len(), 1);
    }

    #[test]
    fn thresholds_and_amounts_that_cannot_be_are_told_by_key_and_value() {
        let check = |key: &str, text: &str, value: &str| {
            let node = json!({ "metadata": { "name": "n", "annotations": { key: text } } });
            let told = of_node(&serde_json::from_value(node).unwrap());
            let told: Vec<_> = told.iter().map(|error| (error.key, error.value())).collect();
            assert_eq!(told, [(key, value)]);
        };
        let load = api::load::USAGE_THRESHOLDS;
        check(load, r#"{"usageThresholds":{"cpu":900}}"#, "cpu: 900");
        check(load, r#"{"aggregatedUsage":{"usageAggregationType":"p101"}}"#, "p101");
        check(api::load::RAW_ALLOCATABLE, r#"{"cpu":"-5"}"#, "cpu: -5");
        check(api::cpus::AMPLIFICATION_RATIO, r#"{"cpu":-5}"#, r#"{"cpu":-5}"#);
        check(api::cpus::NODE_RESERVATION, r#"{"reservedCPUs":"99-0"}"#, "99-0");
        check(api::cpus::NODE_RESERVATION, r#"{"resources":{"cpu":"-2"}}"#, "cpu: -2");
    }

    #[test]
    fn more_cpus_than_the_node_has_are_told_once_whichever_comes_first() {
        let complaints = Complaints::default();
        let has = |cpu: &str| Some(serde_json::from_value(json!(cpu)).unwrap());
        let node = |cpu: &str| complaints.contradictions("n", |own| own.of_node = has(cpu));
        let layout = |count: usize| complaints.contradictions("n", |own| own.of_layout = count);
        assert_eq!(layout(8), []);
        let told = node("4");
        assert_eq!(told[0].key, CPU_TOPOLOGY);
        let words =
            "node.koordinator.sh/cpu-topology names 8 CPUs, and status.capacity of the node 4: ";
        assert!(told[0].to_string().starts_with(words), "{}", told[0]);
        assert_eq!(node("4"), []);
        assert_eq!(layout(4), []);
        assert_eq!(node("8"), []);
        assert_eq!(layout(9).len(), 1);
        complaints.forget_layout("n");
        complaints.forget_node("n");
        assert!(complaints.cpus.lock().unwrap().is_empty());
        assert!(complaints.told.lock().unwrap().is_empty());
    }
}
