//! Which CPUs a machine has and which of them are given away by others, as annotations of its
//! [`NodeResourceTopology`] say.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::node::{AMPLIFICATION_RATIO, amplification_ratios, node_reservation};
use crate::cpu_set::CpuSet;
use crate::malformed::{Malformed, annotation, list_annotation};
use crate::node_resource_topology::NodeResourceTopology;

/// Annotation: which CPUs there are.
pub const CPU_TOPOLOGY: &str = "node.koordinator.sh/cpu-topology";
/// Annotation: which CPUs the kubelet gave to pods.
pub const POD_CPU_ALLOCS: &str = "node.koordinator.sh/pod-cpu-allocs";
/// Annotation: how the kubelet gives CPUs to pods.
pub const CPU_MANAGER_POLICY: &str = "kubelet.koordinator.sh/cpu-manager-policy";
/// Annotation: which CPUs daemons of the machine have.
pub const SYSTEM_QOS_RESOURCE: &str = "node.koordinator.sh/system-qos-resource";

/// A CPU and where it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CpuInfo {
    /// Its number.
    pub id: u32,
    /// The core of its socket that it is a thread of.
    pub core: u32,
    /// Its socket.
    pub socket: u32,
    /// Its NUMA node.
    pub node: u32,
}

#[derive(Deserialize)]
struct CpuTopologyWire {
    detail: Vec<CpuInfo>,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct PodCpuAlloc {
    uid: String,
    cpuset: String,
    managed_by_kubelet: bool,
}

/// How the kubelet gives CPUs to pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CpuManagerPolicy {
    /// Its name.
    pub policy: String,
    /// Further words.
    pub options: std::collections::BTreeMap<String, String>,
    /// CPUs that it keeps, as Linux writes them.
    #[serde(rename = "reservedCPUs")]
    pub reserved_cpus: String,
}

/// Whether the kubelet gives pods CPUs of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum KubeletStatic {
    /// It does not.
    #[default]
    No,
    /// It does.
    Yes,
    /// It does, and only whole cores.
    FullCores,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SystemQos {
    cpuset: String,
    cpuset_exclusive: bool,
}

impl Default for SystemQos {
    fn default() -> Self {
        Self { cpuset: String::new(), cpuset_exclusive: true }
    }
}

/// Which CPUs a machine has and which of them nobody gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// All of them; none where nothing is known.
    pub cpus: Vec<CpuInfo>,
    /// Those that others give away or keep.
    pub reserved: CpuSet,
    /// Whether the kubelet gives pods CPUs of their own.
    pub kubelet: KubeletStatic,
    /// Whether amounts of zones are larger than what is there already, where a node offers more than it
    /// has.
    pub is_amplified: bool,
    /// What could not be read, and is left out.
    pub malformed: Vec<Malformed>,
}

fn cpus(key: &'static str, text: &str) -> Result<CpuSet, Malformed> {
    CpuSet::parse(text).map_err(|error| error.at(key))
}

impl Layout {
    /// What annotations say. Whatever cannot be read is left out, and told.
    #[must_use]
    pub fn of(wire: &NodeResourceTopology) -> Self {
        let mut malformed = Vec::new();
        let mut layout = Self::default();
        let metadata = &wire.metadata;
        layout.is_amplified = metadata.annotations.contains_key(AMPLIFICATION_RATIO);
        malformed.extend(amplification_ratios(metadata).err());
        let fix = r#"write JSON such as {"detail":[{"id":0,"core":0,"socket":0,"node":0}]}"#;
        match annotation::<CpuTopologyWire>(&metadata.annotations, CPU_TOPOLOGY, fix) {
            Ok(own) => layout.cpus = own.map(|own| own.detail).unwrap_or_default(),
            Err(error) => malformed.push(error),
        }
        malformed.extend(repeated(&mut layout.cpus));
        malformed.extend(odd_zones(wire));
        malformed.extend(homeless(wire, &layout.cpus));
        malformed.extend(odd_policies(wire));
        let mut keep = |reserved: Result<CpuSet, Malformed>| match reserved {
            Ok(cpus) => layout.reserved = layout.reserved.and(&cpus),
            Err(error) => malformed.push(error),
        };
        kubelet_pods(wire).into_iter().for_each(&mut keep);
        keep(node_reservation(metadata).map(|own| own.map(|(_, cpus)| cpus).unwrap_or_default()));
        keep(system(wire));
        match manager(wire) {
            Ok(Manager { kubelet, reserved, odd }) => {
                keep(reserved);
                layout.kubelet = kubelet;
                malformed.extend(odd);
            }
            Err(error) => malformed.push(error),
        }
        layout.malformed = malformed;
        layout
    }
}

/// Leaves out of CPUs whatever has the number of one before it, and tells which that were.
fn repeated(cpus: &mut Vec<CpuInfo>) -> Option<Malformed> {
    if cpus.is_sorted_by(|one, next| one.id < next.id) {
        return None;
    }
    let (mut seen, mut twice) = (BTreeSet::new(), CpuSet::new());
    cpus.retain(|cpu| {
        let is_new = seen.insert(cpu.id);
        if !is_new {
            twice.insert(cpu.id);
        }
        is_new
    });
    let fix = "name each CPU once; the first of a number counts";
    let what = || format!("id {twice} more than once");
    (!twice.is_empty()).then(|| Malformed::naming(CPU_TOPOLOGY, what(), fix))
}

/// How many NUMA nodes of a machine count.
pub const NUMA_NODES_MAX: usize = 64;

/// NUMA nodes that have no number, or the number of one before them, or are too many.
fn odd_zones(wire: &NodeResourceTopology) -> Vec<Malformed> {
    let fix = "name each NUMA node once: node- and its number";
    let mut seen = BTreeSet::new();
    let nodes = wire.zones.iter().filter(|zone| zone.r#type == "Node");
    let odd = nodes.filter(|zone| !zone.numa().is_some_and(|numa| seen.insert(numa)));
    let mut odd: Vec<Malformed> =
        odd.map(|zone| Malformed::new("zones[].name", &zone.name, fix)).collect();
    odd.truncate(NUMA_NODES_MAX);
    if seen.len() > NUMA_NODES_MAX {
        let fix = "name at most 64 NUMA nodes: those of the lowest numbers count";
        odd.push(Malformed::naming("zones", format!("{} NUMA nodes", seen.len()), fix));
    }
    odd
}

/// CPUs on NUMA nodes that are not told, where others are.
fn homeless(wire: &NodeResourceTopology, cpus: &[CpuInfo]) -> Option<Malformed> {
    let nodes = wire.zones.iter().filter(|zone| zone.r#type == "Node");
    let told: BTreeSet<u32> = nodes.filter_map(|zone| zone.numa()).collect();
    let mut others = CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| !told.contains(&cpu.node)) {
        others.insert(cpu.id);
    }
    let fix = "name a zone for each NUMA node that has CPUs: where NUMA nodes are chosen, these are no pod's";
    let what = || format!("CPUs {others} on NUMA nodes that zones do not name");
    (!told.is_empty() && !others.is_empty()).then(|| Malformed::naming(CPU_TOPOLOGY, what(), fix))
}

/// Words for what the kubelet is told to do that nobody here knows, or does for single containers.
fn odd_policies(wire: &NodeResourceTopology) -> Vec<Malformed> {
    let fix = "use None, BestEffort, Restricted, or these or SingleNUMANode with PodLevel; any other, also \
               with ContainerLevel, counts as None";
    let is_known = |word: &str| {
        let of_pods = word.strip_suffix("PodLevel");
        matches!(word, "None" | "BestEffort" | "Restricted")
            || matches!(of_pods, Some("BestEffort" | "Restricted" | "SingleNUMANode"))
    };
    let odd = wire.topology_policies.iter().filter(|word| !is_known(word));
    odd.map(|word| Malformed::new("topologyPolicies[]", word, fix)).collect()
}

/// CPUs of each pod that the kubelet gave them.
fn kubelet_pods(wire: &NodeResourceTopology) -> Vec<Result<CpuSet, Malformed>> {
    let fix = r#"write JSON such as [{"uid":"…","cpuset":"0-1","managedByKubelet":true}]"#;
    match list_annotation::<Vec<PodCpuAlloc>>(&wire.metadata.annotations, POD_CPU_ALLOCS, fix) {
        Ok(all) => {
            let all = all.unwrap_or_default().into_iter();
            let own = all.filter(|own| own.managed_by_kubelet && !own.uid.is_empty());
            own.map(|own| cpus(POD_CPU_ALLOCS, &own.cpuset)).collect()
        }
        Err(error) => vec![Err(error)],
    }
}

/// CPUs of daemons that share theirs with nobody.
fn system(wire: &NodeResourceTopology) -> Result<CpuSet, Malformed> {
    let fix = r#"write JSON such as {"cpuset":"0-1","cpusetExclusive":true}"#;
    let own: Option<SystemQos> = annotation(&wire.metadata.annotations, SYSTEM_QOS_RESOURCE, fix)?;
    match own.filter(|own| own.cpuset_exclusive) {
        Some(own) => cpus(SYSTEM_QOS_RESOURCE, &own.cpuset),
        None => Ok(CpuSet::new()),
    }
}

/// How the kubelet gives CPUs away, and which it keeps.
struct Manager {
    kubelet: KubeletStatic,
    reserved: Result<CpuSet, Malformed>,
    /// What it does that nobody here reckons with.
    odd: Option<Malformed>,
}

fn manager(wire: &NodeResourceTopology) -> Result<Manager, Malformed> {
    let fix = r#"write JSON such as {"policy":"static","options":{"full-pcpus-only":"true"}}"#;
    let own = annotation::<CpuManagerPolicy>(&wire.metadata.annotations, CPU_MANAGER_POLICY, fix)?;
    let own = own.unwrap_or_default();
    let is_on = |option: &str| own.options.get(option).is_some_and(|word| word == "true");
    let kubelet = match (own.policy.as_str(), is_on("full-pcpus-only")) {
        ("static", true) => KubeletStatic::FullCores,
        ("static", false) => KubeletStatic::Yes,
        _ => KubeletStatic::No,
    };
    let odd = match own.policy.as_str() {
        "" | "static" | "none" if is_on("distribute-cpus-across-numa") => {
            let fix = "turn distribute-cpus-across-numa off: CPUs are given away as if it were";
            Some(Malformed::new(CPU_MANAGER_POLICY, "distribute-cpus-across-numa", fix))
        }
        "" | "static" | "none" => None,
        other => Some(Malformed::new(CPU_MANAGER_POLICY, other, "use the policy static or none")),
    };
    Ok(Manager { kubelet, reserved: cpus(CPU_MANAGER_POLICY, &own.reserved_cpus), odd })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::NODE_RESERVATION;
    use super::*;

    fn layout(annotations: Value) -> Layout {
        let wire = json!({ "metadata": { "annotations": annotations } });
        Layout::of(&serde_json::from_value(wire).unwrap())
    }

    #[test]
    fn whoever_keeps_cpus_keeps_them_from_everybody() {
        let own = layout(json!({
            CPU_TOPOLOGY: r#"{"detail":[{"id":0,"core":0,"socket":0,"node":0},{"id":1,"core":0,"socket":1,"node":1}]}"#,
            POD_CPU_ALLOCS: r#"[{"uid":"a","cpuset":"0-1","managedByKubelet":true},
                {"uid":"b","cpuset":"2","managedByKubelet":false},{"cpuset":"3","managedByKubelet":true}]"#,
            CPU_MANAGER_POLICY: r#"{"policy":"static","options":{"full-pcpus-only":"true"},"reservedCPUs":"4"}"#,
            NODE_RESERVATION: r#"{"reservedCPUs":"5"}"#,
            SYSTEM_QOS_RESOURCE: r#"{"cpuset":"6"}"#,
        }));
        assert_eq!(own.reserved.to_string(), "0-1,4-6");
        assert_eq!((own.kubelet, own.is_amplified), (KubeletStatic::FullCores, false));
        assert_eq!(own.cpus[1], CpuInfo { id: 1, core: 0, socket: 1, node: 1 });
        assert_eq!(own.malformed, []);
        let shared =
            layout(json!({ SYSTEM_QOS_RESOURCE: r#"{"cpuset":"6","cpusetExclusive":false}"# }));
        assert!(shared.reserved.is_empty());
    }

    #[test]
    fn what_contradicts_itself_is_told_and_the_first_counts() {
        let topology = r#"{"detail":[{"id":0,"node":0},{"id":1,"node":0},{"id":1,"node":1},{"id":2,"node":7}]}"#;
        let zone = |name: &str| json!({ "name": name, "type": "Node" });
        let wire = json!({
            "metadata": { "annotations": { CPU_TOPOLOGY: topology } },
            "topologyPolicies": ["SingleNUMANodePodLevel", "None", "Closely", "SingleNUMANode",
                                 "SingleNUMANodeContainerLevel"],
            "zones": [zone("node-0"), zone("numa1"), zone("node-00"), zone("node-1"),
                      { "name": "socket", "type": "Socket" }],
        });
        let own = Layout::of(&serde_json::from_value(wire).unwrap());
        let told = own
            .malformed
            .iter()
            .map(|error| error.to_string().split(": ").next().unwrap().to_owned());
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                format!("{CPU_TOPOLOGY} names id 1 more than once"),
                r#"zones[].name has the value "numa1""#.to_owned(),
                r#"zones[].name has the value "node-00""#.to_owned(),
                format!("{CPU_TOPOLOGY} names CPUs 2 on NUMA nodes that zones do not name"),
                r#"topologyPolicies[] has the value "Closely""#.to_owned(),
                r#"topologyPolicies[] has the value "SingleNUMANode""#.to_owned(),
                r#"topologyPolicies[] has the value "SingleNUMANodeContainerLevel""#.to_owned(),
            ]
        );
        assert_eq!(
            own.cpus.iter().map(|cpu| (cpu.id, cpu.node)).collect::<Vec<_>>(),
            [(0, 0), (1, 0), (2, 7)]
        );
    }

    #[test]
    fn what_cannot_be_read_is_told_and_the_rest_counts() {
        let own = layout(json!({
            CPU_TOPOLOGY: r#"{"cpus":[0]}"#, POD_CPU_ALLOCS: r#"[{"uid":"a","cpuset":"x","managedByKubelet":true},{"uid":"b","cpuset":"9","managedByKubelet":true}]"#,
            CPU_MANAGER_POLICY: r#"{"policy":"static","reservedCPUs":"7-"}"#, NODE_RESERVATION: "no",
            SYSTEM_QOS_RESOURCE: r#"{"cpuset":"6"}"#, AMPLIFICATION_RATIO: "2",
        }));
        let keys: Vec<&str> = own.malformed.iter().map(|error| error.key).collect();
        assert_eq!(
            keys,
            [
                AMPLIFICATION_RATIO,
                CPU_TOPOLOGY,
                POD_CPU_ALLOCS,
                NODE_RESERVATION,
                CPU_MANAGER_POLICY
            ]
        );
        assert_eq!((own.reserved.to_string().as_str(), own.kubelet), ("6,9", KubeletStatic::Yes));
        assert_eq!(layout(json!({})), Layout::default());
    }

    #[test]
    fn what_the_kubelet_does_that_nobody_reckons_with_is_told() {
        let policy = |on: &str| {
            let own = format!(r#"{{"options":{{"distribute-cpus-across-numa":"{on}"}}}}"#);
            layout(json!({ CPU_MANAGER_POLICY: own })).malformed.len()
        };
        assert_eq!((policy("true"), policy("false")), (1, 0));
        let told = |policy: &str| {
            let own = json!({ "policy": policy }).to_string();
            layout(json!({ CPU_MANAGER_POLICY: own })).malformed.len()
        };
        assert_eq!((told("static"), told("none"), told("dynamic")), (0, 0, 1));
    }

    #[test]
    fn more_numa_nodes_than_any_machine_has_are_told() {
        let told = |count: usize| {
            let zone = |id: usize| json!({ "name": format!("node-{id}"), "type": "Node" });
            let wire = json!({ "zones": (0..count).map(zone).collect::<Vec<_>>() });
            Layout::of(&serde_json::from_value(wire).unwrap()).malformed
        };
        assert_eq!(told(NUMA_NODES_MAX), []);
        let words = told(NUMA_NODES_MAX + 1)[0].to_string();
        assert!(words.starts_with("zones names 65 NUMA nodes: "), "{words}");
    }
}
