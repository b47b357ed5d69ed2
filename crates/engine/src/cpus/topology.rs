//! How the CPUs of a machine are laid out.

use std::collections::BTreeSet;

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
    cores: usize,
    numas: usize,
    sockets: usize,
}

impl CpuTopology {
    /// The layout of these CPUs; of several with one number the first counts.
    pub fn new(cpus: impl IntoIterator<Item = Cpu>) -> Self {
        // What no set of CPUs can name cannot be given to anybody.
        let can_be_named = |cpu: &Cpu| CpuSet::from_iter([cpu.id]).contains(cpu.id);
        let mut cpus: Vec<Cpu> = cpus.into_iter().filter(can_be_named).collect();
        cpus.sort_by_key(|cpu| cpu.id);
        cpus.dedup_by_key(|cpu| cpu.id);
        let count = |of: fn(&Cpu) -> u32| cpus.iter().map(of).collect::<BTreeSet<u32>>().len();
        let (cores, numas, sockets) =
            (count(|cpu| cpu.core), count(|cpu| cpu.numa), count(|cpu| cpu.socket));
        Self { cpus: cpus.into(), cores, numas, sockets }
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

    /// Their numbers.
    #[must_use]
    pub fn all(&self) -> CpuSet {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// Those of one NUMA node.
    #[must_use]
    pub fn of_numa(&self, numa: u32) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.numa == numa).map(|cpu| cpu.id).collect()
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
        self.cpus.len() / self.numas.max(1)
    }

    /// How many CPUs a socket has.
    #[must_use]
    pub fn per_socket(&self) -> usize {
        self.cpus.len() / self.sockets.max(1)
    }
}
