//! What pods want of CPUs and NUMA nodes, and what they got.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::node::NumaTopologyPolicy;
use crate::cpu_set::CpuSet;
use crate::malformed::{Malformed, annotation, known_keys};
use crate::pod::{Pod, ResourceList};

/// Pod annotation: how its CPUs are to lie to each other.
pub const RESOURCE_SPEC: &str = "scheduling.koordinator.sh/resource-spec";
/// Pod annotation: how what it gets is to lie on NUMA nodes.
pub const NUMA_TOPOLOGY_SPEC: &str = "scheduling.koordinator.sh/numa-topology-spec";
/// Pod annotation: which CPUs and what of which NUMA nodes it got.
pub const RESOURCE_STATUS: &str = "scheduling.koordinator.sh/resource-status";

/// How the CPUs of a pod lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum CpuBindPolicy {
    /// As the scheduler's profile says.
    Default,
    /// Whole cores.
    FullPCPUs,
    /// As few of a core as can be.
    SpreadByPCPUs,
}

/// What a pod with CPUs of its own does not share with others who want the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum CpuExclusivePolicy {
    /// Nothing.
    #[default]
    None,
    /// Its cores.
    PCPULevel,
    /// Its NUMA nodes.
    NUMANodeLevel,
}

/// How the CPUs of a pod are to lie to each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default)]
pub struct ResourceSpec {
    /// So, or not at all.
    #[serde(rename = "requiredCPUBindPolicy", skip_serializing_if = "Option::is_none")]
    pub required: Option<CpuBindPolicy>,
    /// So, if that can be.
    #[serde(rename = "preferredCPUBindPolicy", skip_serializing_if = "Option::is_none")]
    pub preferred: Option<CpuBindPolicy>,
    /// What they do not share, if that can be.
    #[serde(rename = "preferredCPUExclusivePolicy", skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<CpuExclusivePolicy>,
}

impl ResourceSpec {
    /// What a pod says; nothing where it says nothing.
    ///
    /// # Errors
    /// When it cannot be read, or asks for what nobody does.
    pub fn of(pod: &Pod) -> Result<Self, Malformed> {
        let fix = "write JSON such as {\"preferredCPUBindPolicy\":\"FullPCPUs\"}; the keys are \
                   requiredCPUBindPolicy, preferredCPUBindPolicy and preferredCPUExclusivePolicy; bind \
                   policies are Default, FullPCPUs and SpreadByPCPUs (ConstrainedBurst is not supported), \
                   exclusive policies None, PCPULevel and NUMANodeLevel";
        let known =
            ["requiredCPUBindPolicy", "preferredCPUBindPolicy", "preferredCPUExclusivePolicy"];
        words(pod, RESOURCE_SPEC, &known, fix)
    }

    /// The annotation.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("words are written")
    }
}

/// An annotation of a pod with words under these keys, of which an empty one is the same as none.
fn words<T: Default + DeserializeOwned>(
    pod: &Pod,
    key: &'static str,
    known: &[&str],
    fix: &'static str,
) -> Result<T, Malformed> {
    let Some(text) = pod.metadata.annotations.get(key) else { return Ok(T::default()) };
    let wrong = || Malformed::new(key, text, fix);
    let all = serde_json::from_str(text).map_err(|_| wrong())?;
    let (mut all, has_others) = known_keys(all, known);
    // What a pod got that has its node counts, whatever else was written there.
    if has_others && pod.spec.node_name.is_empty() {
        return Err(wrong());
    }
    all.retain(|_, value| value != "");
    T::deserialize(Value::Object(all)).map_err(|_| wrong())
}

/// How NUMA nodes are used together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum NumaExclusive {
    /// It does not keep away, as it otherwise would where it asks for a policy itself.
    Preferred,
    /// A NUMA node with pods that span several takes none that wants to be on it alone, and the other
    /// way round.
    Required,
}

/// How what a pod gets is to lie on NUMA nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NumaTopologySpec {
    /// How.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_topology_policy: Option<NumaTopologyPolicy>,
    /// Whether pods on one NUMA node and pods on several are kept apart.
    #[serde(rename = "singleNUMANodeExclusive", skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<NumaExclusive>,
}

impl NumaTopologySpec {
    /// What a pod says; nothing where it says nothing.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(pod: &Pod) -> Result<Self, Malformed> {
        let fix = "write JSON such as {\"numaTopologyPolicy\":\"SingleNUMANode\"}; policies are \
                   BestEffort, Restricted and SingleNUMANode, singleNUMANodeExclusive is Preferred \
                   or Required";
        words(pod, NUMA_TOPOLOGY_SPEC, &["numaTopologyPolicy", "singleNUMANodeExclusive"], fix)
    }
}

/// What a pod got.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceStatus {
    /// Its CPUs, as Linux writes them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cpuset: String,
    /// What it has of NUMA nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub numa_node_resources: Vec<NumaResources>,
}

/// What a pod has of one NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct NumaResources {
    /// Which one.
    pub node: u32,
    /// How much.
    pub resources: ResourceList,
}

impl ResourceStatus {
    /// What a pod got; none where nobody wrote it down.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(pod: &Pod) -> Result<Option<(Self, CpuSet)>, Malformed> {
        let fix = r#"the scheduler writes it; it is JSON such as {"cpuset":"0-3,8"}"#;
        let Some(own) = annotation::<Self>(&pod.metadata.annotations, RESOURCE_STATUS, fix)? else {
            return Ok(None);
        };
        let cpus = CpuSet::parse(&own.cpuset).map_err(|error| error.at(RESOURCE_STATUS))?;
        Ok(Some((own, cpus)))
    }

    /// The annotation.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("words and amounts are written")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(key: &str, text: &str) -> Pod {
        serde_json::from_value(json!({ "metadata": { "annotations": { key: text } } })).unwrap()
    }

    #[test]
    fn what_a_pod_wants_is_read_or_refused_in_words() {
        let check = |text: &str, expected: Result<ResourceSpec, &str>| {
            let read = ResourceSpec::of(&pod(RESOURCE_SPEC, text));
            assert_eq!(
                read.map_err(|error| error.value().to_owned()),
                expected.map_err(str::to_owned),
                "{text}"
            );
        };
        let full = Some(CpuBindPolicy::FullPCPUs);
        let none = ResourceSpec::default();
        check(
            r#"{"requiredCPUBindPolicy":"FullPCPUs"}"#,
            Ok(ResourceSpec { required: full, ..none }),
        );
        check(
            r#"{"preferredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}"#,
            Ok(ResourceSpec {
                required: None,
                preferred: Some(CpuBindPolicy::SpreadByPCPUs),
                exclusive: Some(CpuExclusivePolicy::PCPULevel),
            }),
        );
        check(
            r#"{"requiredCPUBindPolicy":"","preferredCPUBindPolicy":"FullPCPUs"}"#,
            Ok(ResourceSpec { preferred: full, ..none }),
        );
        check("{}", Ok(none));
        check(
            r#"{"requiredCpuBindPolicy":"FullPCPUs"}"#,
            Ok(ResourceSpec { required: full, ..none }),
        );
        for wrong in [
            "",
            r#"{"numaTopologyPolicy":"Restricted"}"#,
            r#"{"requiredBindPolicy":"FullPCPUs"}"#,
            "FullPCPUs",
            r#"{"requiredCPUBindPolicy":"ConstrainedBurst"}"#,
            r#"{"preferredCPUExclusivePolicy":"Socket"}"#,
        ] {
            check(wrong, Err(wrong));
        }
        assert_eq!(ResourceSpec::of(&Pod::default()), Ok(none));
        let mut bound = pod(RESOURCE_SPEC, r#"{"x":1,"preferredCPUBindPolicy":"FullPCPUs"}"#);
        assert!(ResourceSpec::of(&bound).is_err());
        bound.spec.node_name = "n".to_owned();
        assert_eq!(ResourceSpec::of(&bound), Ok(ResourceSpec { preferred: full, ..none }));
        let words = ResourceSpec::of(&pod(
            RESOURCE_SPEC,
            r#"{"requiredCPUBindPolicy":"ConstrainedBurst"}"#,
        ));
        assert!(words.unwrap_err().to_string().contains("ConstrainedBurst is not supported"));
    }

    #[test]
    fn what_a_pod_got_is_written_as_it_is_read() {
        let text = r#"{"cpuset":"0-3,8","numaNodeResources":[{"node":0,"resources":{"cpu":"4"}}]}"#;
        let (status, cpus) = ResourceStatus::of(&pod(RESOURCE_STATUS, text)).unwrap().unwrap();
        assert_eq!(cpus.len(), 5);
        assert_eq!(status.to_text(), text);
        assert_eq!(ResourceStatus::default().to_text(), "{}");
        assert_eq!(ResourceStatus::of(&Pod::default()), Ok(None));
        for wrong in ["", r#"{"cpuset":"a-b"}"#, r#"{"cpuset":7}"#] {
            assert!(ResourceStatus::of(&pod(RESOURCE_STATUS, wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn where_a_pod_wants_to_lie_is_read_or_refused() {
        let read = |text: &str| NumaTopologySpec::of(&pod(NUMA_TOPOLOGY_SPEC, text));
        let own =
            read(r#"{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Required"}"#);
        let own = own.unwrap();
        assert_eq!(own.numa_topology_policy, Some(NumaTopologyPolicy::SingleNUMANode));
        assert_eq!(own.exclusive, Some(NumaExclusive::Required));
        assert_eq!(read(r#"{"numaTopologyPolicy":""}"#), Ok(NumaTopologySpec::default()));
        assert!(read(r#"{"numaTopologyPolicy":"Some"}"#).is_err());
        assert!(read(r#"{"numaPolicy":"SingleNUMANode"}"#).is_err());
        assert!(read("[]").is_err());
    }
}
