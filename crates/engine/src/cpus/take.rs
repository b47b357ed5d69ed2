//! Which CPUs a pod gets.
//!
//! Whole cores, or one thread of each; within one NUMA node if that can be, else within one socket,
//! else wherever; and away from those who want a core or a NUMA node for themselves, as long as there
//! is another way.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use api::CpuSet;
use rustc_hash::FxHashSet;

use super::topology::{Cpu, CpuTopology};

/// How CPUs of one pod lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binding {
    /// Whole cores.
    FullCores,
    /// As few of a core as can be.
    SpreadByCores,
}

impl Binding {
    /// The name that users write.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FullCores => "FullPCPUs",
            Self::SpreadByCores => "SpreadByPCPUs",
        }
    }
}

/// What a pod does not share with others who want the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Exclusive {
    /// Nothing.
    #[default]
    None,
    /// Its cores.
    Core,
    /// Its NUMA nodes.
    Numa,
}

/// Which of several places is better.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The fuller one.
    MostAllocated,
    /// The emptier one.
    #[default]
    LeastAllocated,
}

impl Strategy {
    /// A number that is lower for a better place with so much free.
    fn rank(self, free: usize) -> isize {
        let free = isize::try_from(free).unwrap_or(isize::MAX);
        match self {
            Self::MostAllocated => free,
            Self::LeastAllocated => -free,
        }
    }
}

/// How often a CPU is held, and what those who hold it do not share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hold {
    /// How often.
    pub times: u32,
    /// How often by one who shares its core with nobody of his sort.
    pub core: u32,
    /// The same of its NUMA node.
    pub numa: u32,
}

/// What is held of a node's CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// By CPU.
    pub holds: BTreeMap<u32, Hold>,
    /// Nobody gets these.
    pub reserved: CpuSet,
}

impl Held {
    /// Somebody holds these CPUs.
    pub fn hold(&mut self, cpus: &CpuSet, exclusive: Exclusive) {
        for cpu in cpus.iter() {
            let hold = self.holds.entry(cpu).or_default();
            hold.times += 1;
            hold.core += u32::from(exclusive == Exclusive::Core);
            hold.numa += u32::from(exclusive == Exclusive::Numa);
        }
    }

    /// Somebody who held these CPUs holds them no longer.
    pub fn release(&mut self, cpus: &CpuSet, exclusive: Exclusive) {
        for cpu in cpus.iter() {
            let Some(hold) = self.holds.get_mut(&cpu) else { continue };
            hold.times = hold.times.saturating_sub(1);
            hold.core = hold.core.saturating_sub(u32::from(exclusive == Exclusive::Core));
            hold.numa = hold.numa.saturating_sub(u32::from(exclusive == Exclusive::Numa));
            if hold.times == 0 {
                self.holds.remove(&cpu);
            }
        }
    }

    /// CPUs that cannot be given to anybody: those that are held, and those that nobody gets.
    #[must_use]
    pub fn taken(&self) -> CpuSet {
        let mut taken = self.reserved.clone();
        for (cpu, _) in self.holds.iter().filter(|(_, own)| own.times > 0) {
            taken.insert(*cpu);
        }
        taken
    }

    /// How often a CPU is held.
    fn times(&self, cpu: u32) -> u32 {
        self.holds.get(&cpu).map_or(0, |hold| hold.times)
    }
}

/// How many CPUs of a node nobody holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Free {
    /// In all.
    pub all: u32,
    /// On cores of which nobody holds any.
    pub of_whole_cores: u32,
    /// Cores that have any.
    pub cores: u32,
}

impl Free {
    /// How many there are besides these.
    #[must_use]
    pub fn besides(taken: &CpuSet, topology: &CpuTopology) -> Self {
        Self::of(topology.by_core(), taken, topology.threads())
    }

    /// The same on one NUMA node.
    #[must_use]
    pub fn within(numa: u32, taken: &CpuSet, topology: &CpuTopology) -> Self {
        Self::of(topology.of_numa_by_core(numa), taken, topology.threads())
    }

    fn of(by_core: &[Cpu], taken: &CpuSet, threads: usize) -> Self {
        let (mut all, mut whole, mut cores) = (0_usize, 0_usize, 0_usize);
        for core in cores_of(by_core) {
            let free = core.iter().filter(|cpu| !taken.contains(cpu.id)).count();
            all += free;
            cores += usize::from(free > 0);
            whole += usize::from(free > 0 && free == threads);
        }
        let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            all: small(all),
            of_whole_cores: small(whole.saturating_mul(threads)),
            cores: small(cores),
        }
    }

    /// How many of them can be given to one who must have them so; to anybody where it does not matter.
    #[must_use]
    pub fn lying(self, required: Option<Binding>) -> u32 {
        match required {
            None => self.all,
            Some(Binding::FullCores) => self.of_whole_cores,
            Some(Binding::SpreadByCores) => self.cores,
        }
    }
}

/// What a pod wants.
#[derive(Debug, Clone, Default)]
pub struct Want {
    /// How many CPUs.
    pub count: usize,
    /// How they lie to each other.
    pub binding: Option<Binding>,
    /// Whether it is so or not at all.
    pub is_required: bool,
    /// What it does not share.
    pub exclusive: Exclusive,
    /// Which places are better.
    pub strategy: Strategy,
    /// How many may hold a CPU; none means one.
    pub times_max: Option<u32>,
    /// CPUs that are taken before others, where they are free.
    pub preferred: CpuSet,
}

/// Why there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// There are too few.
    #[error("not enough cpus available to satisfy request")]
    TooFew,
    /// They do not lie as they must.
    #[error("insufficient CPUs to satisfy required cpu bind policy {}", .0.name())]
    Unbindable(Binding),
}

/// The CPUs that a pod gets.
///
/// # Errors
/// Why it gets none.
pub fn take(topology: &CpuTopology, held: &Held, want: &Want) -> Result<CpuSet, NotTaken> {
    let mut free = match want.times_max.unwrap_or(1) {
        1 => topology.all().without(&held.taken()),
        times_max => {
            let all = topology.all().without(&held.reserved);
            all.iter().filter(|cpu| held.times(*cpu) < times_max).collect()
        }
    };
    if let Some(binding) = want.binding.filter(|_| want.is_required) {
        free = suitable(topology, &free, binding);
    }
    let take = |preferred: CpuSet, rest: CpuSet| {
        let first = want.count.min(preferred.len());
        let mut taken = Taking::new(topology, held, want, rest).take(want.count - first)?;
        if first > 0 {
            taken = taken.and(&Taking::new(topology, held, want, preferred).take(first)?);
        }
        match want.binding.filter(|_| want.is_required) {
            Some(binding) if !is_bound(topology, &taken, binding) => {
                Err(NotTaken::Unbindable(binding))
            }
            _ => Ok(taken),
        }
    };
    let preferred = free.among(&want.preferred);
    if preferred.is_empty() {
        return take(preferred, free);
    }
    // Where those do not lie as they must, others do.
    take(preferred, free.without(&want.preferred)).or_else(|_| take(CpuSet::new(), free))
}

/// CPUs that can be taken where it must be done like this.
fn suitable(topology: &CpuTopology, free: &CpuSet, binding: Binding) -> CpuSet {
    let free = by_core(topology, free);
    let cores = cores_of(&free);
    let chosen: Vec<&[Cpu]> = match binding {
        Binding::FullCores => cores.filter(|cpus| cpus.len() == topology.threads()).collect(),
        Binding::SpreadByCores => cores.map(|cpus| &cpus[..1]).collect(),
    };
    chosen.into_iter().flatten().map(|cpu| cpu.id).collect()
}

fn is_bound(topology: &CpuTopology, taken: &CpuSet, binding: Binding) -> bool {
    let cores = cores_of(&by_core(topology, taken)).count();
    match binding {
        Binding::FullCores => cores * topology.threads() == taken.len(),
        Binding::SpreadByCores => cores == taken.len(),
    }
}

/// Where CPUs are, those of one core beside each other.
fn by_core(topology: &CpuTopology, cpus: &CpuSet) -> Vec<Cpu> {
    let mut all = Vec::with_capacity(cpus.len());
    all.extend(topology.by_core().iter().filter(|cpu| cpus.contains(cpu.id)));
    all
}

/// Those of each core, of CPUs that lie like this.
fn cores_of(by_core: &[Cpu]) -> impl Iterator<Item = &[Cpu]> {
    by_core.chunk_by(|one, next| one.core == next.core)
}

/// CPUs while some are being taken.
struct Taking<'a> {
    topology: &'a CpuTopology,
    held: &'a Held,
    want: &'a Want,
    /// Those that are left.
    free: CpuSet,
    taken: CpuSet,
    /// Cores and NUMA nodes of others that share them with nobody of the pod's sort.
    cores_apart: BTreeSet<u32>,
    numas_apart: BTreeSet<u32>,
}

/// What CPUs are grouped by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Numa,
    Socket,
}

impl Group {
    fn of(self, cpu: &Cpu) -> u32 {
        match self {
            Self::Numa => cpu.numa,
            Self::Socket => cpu.socket,
        }
    }
}

impl<'a> Taking<'a> {
    fn new(topology: &'a CpuTopology, held: &'a Held, want: &'a Want, free: CpuSet) -> Self {
        let apart =
            |sort: Exclusive, is: fn(&Hold) -> bool, of: fn(&Cpu) -> u32| -> BTreeSet<u32> {
                if want.exclusive != sort {
                    return BTreeSet::new();
                }
                let holds = held.holds.iter().filter(|(_, hold)| is(hold));
                holds.filter_map(|(cpu, _)| topology.find(*cpu).map(of)).collect()
            };
        Self {
            cores_apart: apart(Exclusive::Core, |hold| hold.core > 0, |cpu| cpu.core),
            numas_apart: apart(Exclusive::Numa, |hold| hold.numa > 0, |cpu| cpu.numa),
            topology,
            held,
            want,
            free,
            taken: CpuSet::new(),
        }
    }

    fn take(mut self, count: usize) -> Result<CpuSet, NotTaken> {
        if count == 0 {
            return Ok(CpuSet::new());
        }
        if count > self.free.len() {
            return Err(NotTaken::TooFew);
        }
        let threads = self.topology.threads();
        match self.want.binding {
            Some(Binding::FullCores) => self.take_cores(count),
            _ if threads <= 1 => self.take_cores(count),
            _ => self.take_threads(count),
        }
        self.take_any(count);
        Ok(self.taken)
    }

    fn left(&self, count: usize) -> usize {
        count - self.taken.len()
    }

    fn give(&mut self, cpus: impl IntoIterator<Item = u32>) {
        for cpu in cpus {
            self.free.remove(cpu);
            self.taken.insert(cpu);
        }
    }

    fn is_apart(&self, cpu: &Cpu) -> bool {
        self.cores_apart.contains(&cpu.core) || self.numas_apart.contains(&cpu.numa)
    }

    /// How many are free of those of which this holds.
    fn count(&self, is: impl Fn(&Cpu) -> bool) -> usize {
        self.topology.cpus().iter().filter(|cpu| self.free.contains(cpu.id) && is(cpu)).count()
    }

    /// How often the CPUs of a core are held, where several may hold one.
    fn times(&self, cpus: &[Cpu]) -> u32 {
        match self.want.times_max.unwrap_or(1) {
            0 | 1 => 0,
            _ => cpus.iter().map(|cpu| self.held.times(cpu.id)).sum(),
        }
    }

    /// Lists of CPUs by NUMA node or socket, of these cores, those with more CPUs first.
    fn gathered(&self, by: Group, mut cores: Vec<impl AsRef<[Cpu]>>) -> Vec<(u32, Vec<Cpu>)> {
        cores.sort_by_key(|cpus| {
            let cpus = cpus.as_ref();
            (Reverse(cpus.len()), self.times(cpus), cpus.first().map(|cpu| cpu.core))
        });
        let all = cores.iter().map(|cpus| cpus.as_ref().len()).sum();
        let mut groups = BTreeMap::<u32, Vec<Cpu>>::new();
        for cpus in &cores {
            let cpus = cpus.as_ref();
            let group = cpus.first().map_or(0, |cpu| by.of(cpu));
            groups.entry(group).or_insert_with(|| Vec::with_capacity(all)).extend(cpus);
        }
        groups.into_iter().collect()
    }

    /// The same, better ones first.
    fn grouped(&self, by: Group, cores: Vec<impl AsRef<[Cpu]>>) -> Vec<(u32, Vec<Cpu>)> {
        let mut groups = self.gathered(by, cores);
        let strategy = self.want.strategy;
        groups.sort_by_cached_key(|(group, cpus)| match by {
            Group::Numa => {
                let socket = cpus.first().map_or(0, |cpu| cpu.socket);
                let own = self.count(|cpu| cpu.numa == *group);
                let around = self.count(|cpu| cpu.socket == socket);
                (strategy.rank(own), strategy.rank(around), *group)
            }
            Group::Socket => (strategy.rank(cpus.len()), 0, *group),
        });
        groups
    }

    /// Cores of which as many threads are free as a core has.
    fn whole_cores(&self) -> Vec<Cow<'a, [Cpu]>> {
        let (topology, free) = (self.topology, &self.free);
        let threads = topology.threads();
        let whole = cores_of(topology.by_core()).filter_map(|cpus: &'a [Cpu]| {
            let is_free = |cpu: &&Cpu| free.contains(cpu.id);
            let is_whole = cpus.iter().filter(is_free).count() == threads;
            is_whole.then(|| match cpus.len() == threads {
                true => Cow::Borrowed(cpus),
                // Machines may have cores of several sorts.
                false => cpus.iter().filter(is_free).copied().collect(),
            })
        });
        let mut cores = Vec::with_capacity(free.len() / threads.max(1));
        cores.extend(whole);
        cores
    }

    fn take_cores(&mut self, count: usize) {
        if count <= self.topology.per_numa() {
            for heeds in [true, false] {
                let mut cores = self.whole_cores();
                cores.retain(|cpus| {
                    !heeds || cpus.iter().all(|cpu| !self.numas_apart.contains(&cpu.numa))
                });
                let groups = self.numa_groups_of(cores);
                if let Some((_, cpus)) = groups.into_iter().find(|(_, cpus)| cpus.len() >= count) {
                    return self.give(cpus[..count].iter().map(|cpu| cpu.id));
                }
            }
        }
        if count <= self.topology.per_socket() {
            let groups = self.grouped(Group::Socket, self.whole_cores());
            if let Some((_, cpus)) = groups.into_iter().find(|(_, cpus)| cpus.len() >= count) {
                return self.give(cpus[..count].iter().map(|cpu| cpu.id));
            }
        }
        let mut groups = self.grouped(Group::Socket, self.whole_cores());
        groups.sort_by_key(|(group, cpus)| (Reverse(cpus.len()), *group));
        let mut kept = Vec::new();
        for (_, cpus) in groups {
            if cpus.len() <= self.left(count) {
                self.give(cpus.into_iter().map(|cpu| cpu.id));
            } else {
                kept.push(cpus);
            }
        }
        kept.sort_by_key(Vec::len);
        let threads = self.topology.threads().max(1);
        for cpus in kept {
            for core in cpus.chunks(threads) {
                if self.left(count) >= core.len() {
                    self.give(core.iter().map(|cpu| cpu.id));
                }
            }
        }
    }

    /// NUMA nodes with the whole cores that they have, better ones first by what these are.
    fn numa_groups_of(&self, cores: Vec<Cow<'_, [Cpu]>>) -> Vec<(u32, Vec<Cpu>)> {
        let mut groups = self.gathered(Group::Numa, cores);
        let mut sockets = BTreeMap::<u32, usize>::new();
        for cpu in groups.iter().flat_map(|(_, cpus)| cpus) {
            *sockets.entry(cpu.socket).or_default() += 1;
        }
        let strategy = self.want.strategy;
        groups.sort_by_key(|(group, cpus)| {
            let around = cpus.first().and_then(|cpu| sockets.get(&cpu.socket));
            (strategy.rank(cpus.len()), strategy.rank(around.copied().unwrap_or(0)), *group)
        });
        groups
    }

    fn take_threads(&mut self, count: usize) {
        let free = by_core(self.topology, &self.free);
        for (by, most) in
            [(Group::Numa, self.topology.per_numa()), (Group::Socket, self.topology.per_socket())]
        {
            if count > most {
                continue;
            }
            for heeds in [true, false] {
                let is_apart = |cpu: &Cpu| match by {
                    Group::Numa => self.is_apart(cpu),
                    Group::Socket => self.cores_apart.contains(&cpu.core),
                };
                let mut cores: Vec<&[Cpu]> = cores_of(&free).collect();
                if heeds {
                    cores.retain(|cpus| !cpus.iter().any(is_apart));
                }
                let mut groups = self.grouped(by, cores);
                for (_, cpus) in &mut groups {
                    cpus.sort_by_key(|cpu| (self.times(&[*cpu]), cpu.id));
                    if heeds {
                        let mut seen = FxHashSet::default();
                        cpus.retain(|cpu| seen.insert(cpu.core));
                    }
                }
                if let Some((_, cpus)) = groups.into_iter().find(|(_, cpus)| cpus.len() >= count) {
                    let spread = spread(cpus, self.topology.threads());
                    return self.give(spread[..count].iter().map(|cpu| cpu.id));
                }
            }
        }
    }

    /// Takes what is still missing, wherever it is.
    fn take_any(&mut self, count: usize) {
        for heeds in [true, false] {
            if self.left(count) == 0 {
                return;
            }
            let free = by_core(self.topology, &self.free);
            let mut cores: Vec<&[Cpu]> = cores_of(&free).collect();
            if heeds {
                cores.retain(|cpus| !cpus.iter().any(|cpu| self.is_apart(cpu)));
            }
            let begun: BTreeSet<u32> = self
                .taken
                .iter()
                .filter_map(|cpu| self.topology.find(cpu).map(|cpu| cpu.socket))
                .collect();
            let strategy = self.want.strategy;
            cores.sort_by_cached_key(|cpus| {
                let first = cpus[0];
                (
                    !begun.contains(&first.socket),
                    strategy.rank(self.count(|cpu| cpu.socket == first.socket)),
                    strategy.rank(self.count(|cpu| cpu.numa == first.numa)),
                    cpus.len(),
                    first.socket,
                    self.times(cpus),
                    first.core,
                )
            });
            let cpus: Vec<Cpu> = cores.into_iter().flatten().copied().collect();
            let left = self.left(count);
            let spread = spread(cpus, self.topology.threads());
            self.give(spread.iter().take(left).map(|cpu| cpu.id));
        }
    }
}

/// The same CPUs, first one of each core, then another of each, and so on.
fn spread(cpus: Vec<Cpu>, threads: usize) -> Vec<Cpu> {
    if cpus.len() <= threads {
        return cpus;
    }
    let (mut spread, mut left) = (Vec::with_capacity(cpus.len()), cpus);
    while !left.is_empty() {
        let mut seen = FxHashSet::default();
        let (now, later): (Vec<Cpu>, Vec<Cpu>) =
            left.into_iter().partition(|cpu| seen.insert(cpu.core));
        spread.extend(now);
        left = later;
    }
    spread
}

#[cfg(test)]
mod tests;
