//! How the CPUs and NUMA nodes of a node are given away.

use std::collections::BTreeMap;

use object::quantity::Quantity;
use serde::{Deserialize, Serialize};

use crate::cpu_set::CpuSet;
use crate::malformed::{Malformed, annotation};
use crate::object_meta::ObjectMeta;
use crate::pod::ResourceList;

/// Node label: how the CPUs of every pod on it lie to each other.
pub const CPU_BIND_POLICY_LABEL: &str = "node.koordinator.sh/cpu-bind-policy";
/// Node label: which of its NUMA nodes are filled first.
pub const NUMA_ALLOCATE_STRATEGY_LABEL: &str = "node.koordinator.sh/numa-allocate-strategy";
/// Node label: how what its pods get lies on NUMA nodes.
pub const NUMA_TOPOLOGY_POLICY_LABEL: &str = "node.koordinator.sh/numa-topology-policy";
/// Annotation of nodes and layouts: how much more than it has a node offers, by resource.
pub const AMPLIFICATION_RATIO: &str = "node.koordinator.sh/resource-amplification-ratio";
/// Annotation of nodes and layouts: what is kept from pods.
pub const NODE_RESERVATION: &str = "node.koordinator.sh/reservation";

/// The word of a label, where it is one of these.
fn word<T: for<'de> Deserialize<'de>>(
    metadata: &ObjectMeta,
    key: &'static str,
    fix: &'static str,
) -> Result<Option<T>, Malformed> {
    let own = metadata.labels.get(key).filter(|own| !own.is_empty());
    let read = |text: &String| {
        let word = serde_json::Value::String(text.clone());
        T::deserialize(word).map_err(|_| Malformed::new(key, text, fix))
    };
    own.map(read).transpose()
}

/// How the CPUs of every pod on a node lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum NodeCpuBindPolicy {
    /// As each pod wants.
    None,
    /// Whole cores.
    FullPCPUsOnly,
    /// As few of a core as can be.
    SpreadByPCPUs,
}

impl NodeCpuBindPolicy {
    /// What the label of a node says; none where there is none.
    ///
    /// # Errors
    /// When it is no such word.
    pub fn of(metadata: &ObjectMeta) -> Result<Option<Self>, Malformed> {
        word(metadata, CPU_BIND_POLICY_LABEL, "use one of None, FullPCPUsOnly or SpreadByPCPUs")
    }
}

/// Which NUMA nodes are filled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum NumaAllocateStrategy {
    /// The fuller one.
    MostAllocated,
    /// The emptier one.
    LeastAllocated,
}

impl NumaAllocateStrategy {
    /// What the label of a node says; none where there is none.
    ///
    /// # Errors
    /// When it is no such word.
    pub fn of(metadata: &ObjectMeta) -> Result<Option<Self>, Malformed> {
        let fix = "use MostAllocated or LeastAllocated (DistributeEvenly is not supported)";
        word(metadata, NUMA_ALLOCATE_STRATEGY_LABEL, fix)
    }
}

/// How what a pod gets lies on NUMA nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum NumaTopologyPolicy {
    /// On as few as can be.
    BestEffort,
    /// On as few as would do if nobody else was there.
    Restricted,
    /// On one.
    SingleNUMANode,
}

impl NumaTopologyPolicy {
    /// What the label of a node says; none where there is none.
    ///
    /// # Errors
    /// When it is no such word.
    pub fn of(metadata: &ObjectMeta) -> Result<Option<Self>, Malformed> {
        let fix = "use one of BestEffort, Restricted or SingleNUMANode";
        word(metadata, NUMA_TOPOLOGY_POLICY_LABEL, fix)
    }

    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BestEffort => "BestEffort",
            Self::Restricted => "Restricted",
            Self::SingleNUMANode => "SingleNUMANode",
        }
    }
}

/// How much more than it has a node offers, by resource, in thousandths: 1,500 is half as much again.
pub type Ratios = BTreeMap<Box<str>, u32>;

/// The largest ratio that means anything.
const RATIO_MAX: f64 = 1_000.0;

/// How much more than it has a node offers; none where nothing is said.
///
/// # Errors
/// When it cannot be read.
pub fn amplification_ratios(metadata: &ObjectMeta) -> Result<Option<Ratios>, Malformed> {
    let fix = r#"write JSON such as {"cpu":1.5}, with ratios from 0 to 1000"#;
    let key = AMPLIFICATION_RATIO;
    let read: Option<BTreeMap<Box<str>, f64>> = annotation(&metadata.annotations, key, fix)?;
    let Some(read) = read else { return Ok(None) };
    let mut ratios = Ratios::new();
    for (name, ratio) in read {
        if !(0.0..=RATIO_MAX).contains(&ratio) {
            return Err(Malformed::new(key, &metadata.annotations[key], fix));
        }
        ratios.insert(name, (ratio * 1_000.0).round() as u32);
    }
    Ok(Some(ratios))
}

/// What is kept from pods.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeReservation {
    /// Amounts.
    pub resources: ResourceList,
    /// CPUs, as Linux writes them.
    #[serde(rename = "reservedCPUs")]
    pub reserved_cpus: String,
    /// Whether that makes what the node offers less.
    pub apply_policy: Option<ReservationApplyPolicy>,
}

/// What a reservation on a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ReservationApplyPolicy {
    /// The node offers less, and nobody gets the CPUs.
    Default,
    /// Nobody gets the CPUs.
    ReservedCPUsOnly,
}

/// What is kept from the pods of a node, and which CPUs; none where nothing is said.
///
/// # Errors
/// When it cannot be read.
pub fn node_reservation(
    metadata: &ObjectMeta,
) -> Result<Option<(NodeReservation, CpuSet)>, Malformed> {
    let fix =
        r#"write JSON such as {"reservedCPUs":"0-5"}; applyPolicy is Default or ReservedCPUsOnly"#;
    let own: Option<NodeReservation> = annotation(&metadata.annotations, NODE_RESERVATION, fix)?;
    let Some(own) = own else { return Ok(None) };
    let cpus = CpuSet::parse(&own.reserved_cpus).map_err(|error| error.at(NODE_RESERVATION))?;
    let mut amounts = own.resources.iter();
    if let Some((name, amount)) = amounts.find(|(_, amount)| **amount < Quantity::ZERO) {
        let fix = "write amounts of 0 or more as resources";
        return Err(Malformed::new(NODE_RESERVATION, &format!("{name}: {amount}"), fix));
    }
    Ok(Some((own, cpus)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labelled(key: &str, word: &str) -> ObjectMeta {
        serde_json::from_value(json!({ "labels": { key: word } })).unwrap()
    }

    fn annotated(key: &str, text: &str) -> ObjectMeta {
        serde_json::from_value(json!({ "annotations": { key: text } })).unwrap()
    }

    #[test]
    fn words_of_nodes_are_read_or_refused() {
        let policy = |word: &str| NodeCpuBindPolicy::of(&labelled(CPU_BIND_POLICY_LABEL, word));
        assert_eq!(policy("FullPCPUsOnly"), Ok(Some(NodeCpuBindPolicy::FullPCPUsOnly)));
        assert_eq!(policy("None"), Ok(Some(NodeCpuBindPolicy::None)));
        assert_eq!(policy(""), Ok(None));
        assert!(policy("FullPCPUs").is_err());
        assert_eq!(NodeCpuBindPolicy::of(&ObjectMeta::default()), Ok(None));
        let strategy =
            |word: &str| NumaAllocateStrategy::of(&labelled(NUMA_ALLOCATE_STRATEGY_LABEL, word));
        assert_eq!(strategy("MostAllocated"), Ok(Some(NumaAllocateStrategy::MostAllocated)));
        let even = strategy("DistributeEvenly").unwrap_err().to_string();
        assert!(even.contains("DistributeEvenly is not supported"), "{even}");
        let numa = |word: &str| NumaTopologyPolicy::of(&labelled(NUMA_TOPOLOGY_POLICY_LABEL, word));
        for policy in ["BestEffort", "Restricted", "SingleNUMANode"] {
            assert_eq!(numa(policy).unwrap().map(NumaTopologyPolicy::as_str), Some(policy));
        }
        assert!(numa("SingleNUMANodePodLevel").is_err());
    }

    #[test]
    fn ratios_are_thousandths_and_those_that_cannot_be_are_refused() {
        let check = |text: &str, expected: Option<&[(&str, u32)]>| {
            let read = amplification_ratios(&annotated(AMPLIFICATION_RATIO, text)).ok().flatten();
            let expected = expected
                .map(|all| all.iter().map(|(name, ratio)| ((*name).into(), *ratio)).collect());
            assert_eq!(read, expected, "{text}");
        };
        check(r#"{"cpu":1.5,"memory":1.23}"#, Some(&[("cpu", 1_500), ("memory", 1_230)]));
        check(r#"{"cpu":0.5}"#, Some(&[("cpu", 500)]));
        check(r#"{"cpu":-1}"#, None);
        check(r#"{"cpu":1e300}"#, None);
        check(r#"{"cpu":"2"}"#, None);
        check("", None);
    }

    #[test]
    fn what_is_kept_from_pods_is_read_or_refused() {
        let read = |text: &str| node_reservation(&annotated(NODE_RESERVATION, text));
        let (own, cpus) =
            read(r#"{"reservedCPUs":"0-5","resources":{"memory":"1Gi"}}"#).unwrap().unwrap();
        assert_eq!((cpus.len(), own.resources.len(), own.apply_policy), (6, 1, None));
        let (own, _) =
            read(r#"{"reservedCPUs":"0","applyPolicy":"ReservedCPUsOnly"}"#).unwrap().unwrap();
        assert_eq!(own.apply_policy, Some(ReservationApplyPolicy::ReservedCPUsOnly));
        for wrong in [r#"{"reservedCPUs":"9-1"}"#, r#"{"applyPolicy":"Often"}"#, "7"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let negative = read(r#"{"resources":{"memory":"1Gi","cpu":"-2"}}"#).unwrap_err();
        assert_eq!((negative.key, negative.value()), (NODE_RESERVATION, "cpu: -2"));
    }
}
