//! How the CPUs of a machine are laid out.

use std::collections::BTreeMap;

use api::CpuSet;

/// A CPU and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cpu {
    /// Its number.
    pub id: u32,
    /// The core that it is a thread of. Cores of different sockets have different numbers.
    pub core: u32,
    /// The NUMA node.
    pub numa: u32,
    /// The socket.
    pub socket: u32,
}

/// How the CPUs of a machine are laid out: sorted by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuTopology {
    cpus: Box<[Cpu]>,
    /// The same, those of one core beside each other.
    by_core: Box<[Cpu]>,
    cores: usize,
    /// The CPUs of each NUMA node, by its number.
    numas: Box<[(u32, CpuSet)]>,
    sockets: usize,
}

impl CpuTopology {
    /// The layout of these CPUs; of several with one number the first counts.
    pub fn new(cpus: impl IntoIterator<Item = Cpu>) -> Self {
        // What no set of CPUs can name cannot be given to anybody.
        let mut cpus: Vec<Cpu> = cpus.into_iter().filter(|cpu| CpuSet::can_hold(cpu.id)).collect();
        cpus.sort_by_key(|cpu| cpu.id);
        cpus.dedup_by_key(|cpu| cpu.id);
        let count = |of: fn(&Cpu) -> u32| {
            let mut all: Vec<u32> = cpus.iter().map(of).collect();
            all.sort_unstable();
            all.dedup();
            all.len()
        };
        let (cores, sockets) = (count(|cpu| cpu.core), count(|cpu| cpu.socket));
        let mut numas = BTreeMap::<u32, CpuSet>::new();
        cpus.iter().for_each(|cpu| numas.entry(cpu.numa).or_default().insert(cpu.id));
        let mut by_core = cpus.clone();
        by_core.sort_by_key(|cpu| (cpu.core, cpu.id));
        let (cpus, by_core) = (cpus.into(), by_core.into());
        Self { cpus, by_core, cores, numas: numas.into_iter().collect(), sockets }
    }

    /// Whether anything is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// The CPUs.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The CPUs, those of one core beside each other.
    #[must_use]
    pub fn by_core(&self) -> &[Cpu] {
        &self.by_core
    }

    /// Their numbers.
    #[must_use]
    pub fn all(&self) -> CpuSet {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// Those of one NUMA node.
    #[must_use]
    pub fn of_numa(&self, numa: u32) -> CpuSet {
        let place = self.numas.binary_search_by_key(&numa, |(own, _)| *own);
        place.map(|place| self.numas[place].1.clone()).unwrap_or_default()
    }

    /// Where a CPU is.
    #[must_use]
    pub fn find(&self, id: u32) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().map(|place| &self.cpus[place])
    }

    /// How many threads a core has.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.cpus.len() / self.cores.max(1)
    }

    /// How many CPUs a NUMA node has.
    #[must_use]
    pub fn per_numa(&self) -> usize {
        self.cpus.len() / self.numas.len().max(1)
    }

    /// How many CPUs a socket has.
    #[must_use]
    pub fn per_socket(&self) -> usize {
        self.cpus.len() / self.sockets.max(1)
    }
}
