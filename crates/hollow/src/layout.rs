//! How the CPUs and the memory of a node lie on its sockets and NUMA nodes: what a type of nodes says of
//! it, and the NodeResourceTopology in which the node reports it.
//!
//! Everything is dealt out evenly, and what lies together is numbered in a row: the threads of a core,
//! the cores of a NUMA node, the NUMA nodes of a socket.

use api::cpus::{CPU_TOPOLOGY, CpuInfo, NumaTopologyPolicy};
use api::node_resource_topology::{NodeResourceTopology, Zone, ZoneResource};
use api::object_meta::{ObjectMeta, OwnerReference};
use object::quantity::{Format, Quantity};
use serde_json::json;

/// How many CPUs a layout may have: all of them are named in one annotation.
const CPUS_MAX: u32 = 1024;
/// How many threads a core has where nothing is said, and the CPUs make up such cores.
const THREADS: u32 = 2;

/// Where the CPUs of a node are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// CPUs in all.
    pub cpus: u32,
    /// Threads of each core.
    pub threads: u32,
    /// NUMA nodes in all.
    pub numas: u32,
    /// Sockets in all.
    pub sockets: u32,
    /// How the kubelet lays out what pods get; none where it does not care.
    pub policy: Option<NumaTopologyPolicy>,
}

/// What a type of nodes says of its layout, piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Wish {
    numas: Option<Numas>,
    sockets: Option<u32>,
    threads: Option<u32>,
    /// What the kubelet is told, where that is said.
    policy: Option<Option<NumaTopologyPolicy>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numas {
    /// The node reports no layout.
    Untold,
    Of(u32),
}

/// A piece that does not go with the others, and why.
pub(crate) type Misfit = (String, String);

impl Wish {
    /// Takes in a piece; `false` where it says nothing of a layout.
    pub(crate) fn take(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "numa" if value == "none" => self.numas = Some(Numas::Untold),
            "numa" => {
                let more = ", or numa=none for a node that does not report where its CPUs are";
                self.numas = Some(Numas::Of(count_of(key, value, more)?));
            }
            "sockets" => self.sockets = Some(count_of(key, value, "")?),
            "threads" => self.threads = Some(count_of(key, value, "")?),
            "numa-policy" => self.policy = Some(policy_of(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The layout of a node with these CPUs: as was said, or one NUMA node where nothing was. None
    /// where that was asked for, or nothing was and the CPUs are not whole ones.
    pub(crate) fn settle(&self, cpu: &Quantity) -> Result<Option<Layout>, Misfit> {
        let first = self.pieces().into_iter().flatten().next();
        if self.numas == Some(Numas::Untold) {
            let rest = self.pieces().into_iter().skip(1).flatten().next();
            return rest.map_or(Ok(None), |piece| {
                let problem = "numa=none leaves nothing to lie anywhere; remove one of the two";
                Err((piece, problem.to_owned()))
            });
        }
        match (whole(cpu), first) {
            (Some(cpus), _) => self.lay_out(cpus).map(Some),
            (None, None) => Ok(None),
            (None, Some(piece)) => {
                let problem = format!(
                    "a layout needs whole CPUs, 1 to {CPUS_MAX}, and there are {cpu}; write 8cpu, \
                     say, or remove {piece}"
                );
                Err((piece, problem))
            }
        }
    }

    fn lay_out(&self, cpus: u32) -> Result<Layout, Misfit> {
        let numas = match self.numas {
            Some(Numas::Of(numas)) => numas,
            _ => self.sockets.unwrap_or(1),
        };
        let sockets = self.sockets.unwrap_or(numas);
        if !cpus.is_multiple_of(numas) {
            // Without the one it is the other that says how many there are.
            let [numa, sockets, ..] = self.pieces();
            let below = Some(cpus - cpus % numas).filter(|below| *below > 0);
            let above = cpus.saturating_add(numas - cpus % numas);
            let fix = below.map_or(String::new(), |below| format!("{below}cpu or "));
            let problem = format!(
                "{cpus} CPUs cannot be dealt out evenly over {numas} NUMA nodes; write \
                 {fix}{above}cpu, or another number of NUMA nodes"
            );
            return Err((numa.or(sockets).unwrap_or_default(), problem));
        }
        if !numas.is_multiple_of(sockets) {
            let problem = format!(
                "numa={numas} cannot be dealt out evenly over {sockets} sockets; write \
                 sockets={numas}, or another number that divides it"
            );
            return Err((format!("sockets={sockets}"), problem));
        }
        let of_numa = cpus / numas;
        let usual = if of_numa.is_multiple_of(THREADS) { THREADS } else { 1 };
        let threads = self.threads.unwrap_or(usual);
        if !of_numa.is_multiple_of(threads) {
            let problem = format!(
                "the CPUs of a NUMA node, {of_numa}, cannot be cores of {threads} threads; write \
                 threads=1, or another number that divides {of_numa}"
            );
            return Err((format!("threads={threads}"), problem));
        }
        Ok(Layout { cpus, threads, numas, sockets, policy: self.policy.flatten() })
    }

    /// The pieces that were given, `numa=` first.
    fn pieces(&self) -> [Option<String>; 4] {
        let numa = self.numas.map(|numas| match numas {
            Numas::Untold => "numa=none".to_owned(),
            Numas::Of(count) => format!("numa={count}"),
        });
        let policy = self.policy.map(|policy| {
            let word = policy.map_or("None", NumaTopologyPolicy::as_str);
            format!("numa-policy={word}")
        });
        let sockets = self.sockets.map(|count| format!("sockets={count}"));
        let threads = self.threads.map(|count| format!("threads={count}"));
        [numa, sockets, threads, policy]
    }
}

fn count_of(key: &str, value: &str, more: &str) -> Result<u32, String> {
    let count = value.parse::<u32>().ok().filter(|count| *count > 0);
    count.ok_or_else(|| {
        format!("{value:?} is no whole number above zero; write {key}=1 or more{more}")
    })
}

fn policy_of(word: &str) -> Result<Option<NumaTopologyPolicy>, String> {
    use NumaTopologyPolicy::{BestEffort, Restricted, SingleNUMANode};
    let all = [BestEffort, Restricted, SingleNUMANode];
    if word == "None" {
        return Ok(None);
    }
    let found = all.into_iter().find(|policy| policy.as_str() == word);
    found.map(Some).ok_or_else(|| {
        format!("{word:?} is no policy; write None, BestEffort, Restricted or SingleNUMANode")
    })
}

/// How many CPUs that is; none where there is a part of one, or too many.
fn whole(cpu: &Quantity) -> Option<u32> {
    let millis = cpu.checked_scaled_value(-3).filter(|millis| millis % 1000 == 0)?;
    u32::try_from(millis / 1000).ok().filter(|cpus| (1..=CPUS_MAX).contains(cpus))
}

impl Layout {
    /// The layout of a type that says nothing of it.
    pub(crate) fn usual(cpu: &Quantity) -> Option<Self> {
        Wish::default().settle(cpu).ok().flatten()
    }

    fn cpu(self, id: u32) -> CpuInfo {
        let node = id / (self.cpus / self.numas);
        let socket = node / (self.numas / self.sockets);
        CpuInfo { id, core: id / self.threads, socket, node }
    }

    fn detail(self) -> String {
        let cpu = |id: u32| {
            let CpuInfo { id, core, socket, node } = self.cpu(id);
            json!({ "id": id, "core": core, "socket": socket, "node": node })
        };
        json!({ "detail": (0..self.cpus).map(cpu).collect::<Vec<_>>() }).to_string()
    }

    /// The word for the kubelet's policy. Of the words for one NUMA node schedulers heed this one alone.
    fn word(self) -> &'static str {
        match self.policy {
            None => "None",
            Some(NumaTopologyPolicy::SingleNUMANode) => "SingleNUMANodePodLevel",
            Some(policy) => policy.as_str(),
        }
    }

    fn zone(self, numa: u32, memory_bytes: i64) -> Zone {
        let resource = |name: &str, amount: Quantity| ZoneResource {
            name: name.to_owned(),
            capacity: amount.clone(),
            allocatable: amount.clone(),
            available: amount,
        };
        let cpus = Quantity::from_units((self.cpus / self.numas).into(), Format::DecimalSi);
        let memory = memory_bytes / i64::from(self.numas);
        let memory = Quantity::from_units(memory, Format::BinarySi);
        Zone {
            name: format!("node-{numa}"),
            r#type: "Node".to_owned(),
            resources: vec![resource("cpu", cpus), resource("memory", memory)],
        }
    }

    /// What a node with this memory reports, which ends with the node.
    pub(crate) fn report(self, owner: OwnerReference, memory: &Quantity) -> NodeResourceTopology {
        let metadata = ObjectMeta {
            name: owner.name.clone(),
            annotations: [(CPU_TOPOLOGY.to_owned(), self.detail())].into(),
            owner_references: vec![owner],
            ..ObjectMeta::default()
        };
        let memory_bytes = memory.checked_scaled_value(0).unwrap_or(i64::MAX);
        NodeResourceTopology {
            metadata,
            topology_policies: vec![self.word().to_owned()],
            zones: (0..self.numas).map(|numa| self.zone(numa, memory_bytes)).collect(),
        }
    }
}

/// Whether an object says what a node reports. What others say besides, in annotations or of resources
/// that are not ours, is theirs.
pub(crate) fn says(seen: &NodeResourceTopology, own: &NodeResourceTopology) -> bool {
    let cpus = |one: &NodeResourceTopology| api::cpus::Layout::of(one).cpus;
    let owners = &seen.metadata.owner_references;
    let says_zone = |zone: &Zone| {
        let found = seen.zones.iter().find(|other| other.name == zone.name);
        found.is_some_and(|other| {
            other.r#type == zone.r#type
                && zone.resources.iter().all(|resource| other.resources.contains(resource))
        })
    };
    own.metadata.owner_references.iter().all(|owner| owners.contains(owner))
        && cpus(seen) == cpus(own)
        && seen.topology_policies == own.topology_policies
        && seen.zones.len() == own.zones.len()
        && own.zones.iter().all(says_zone)
}

#[cfg(test)]
mod tests;
