//! How the CPUs of a machine are laid out.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

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
#[derive(Debug, Clone, Default)]
pub struct CpuTopology {
    cpus: Box<[Cpu]>,
    /// The same, those of one core beside each other.
    by_core: Box<[Cpu]>,
    /// Their numbers.
    all: CpuSet,
    cores: usize,
    /// By their numbers.
    numas: Box<[Numa]>,
    sockets: usize,
}

/// The CPUs of a NUMA node.
#[derive(Debug, Clone, Default)]
struct Numa {
    number: u32,
    cpus: CpuSet,
    /// The same, those of one core beside each other.
    by_core: Vec<Cpu>,
}

// All the rest follows from which CPUs there are.
impl PartialEq for CpuTopology {
    fn eq(&self, other: &Self) -> bool {
        self.cpus == other.cpus
    }
}

impl Eq for CpuTopology {}

impl Hash for CpuTopology {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.cpus.hash(state);
    }
}

/// What is said of a NUMA node that is not there.
static NO_CPUS: CpuSet = CpuSet::new();

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
        let mut by_core = cpus.clone();
        by_core.sort_by_key(|cpu| (cpu.core, cpu.id));
        let mut numas = BTreeMap::<u32, Numa>::new();
        for cpu in &by_core {
            let new = || Numa { number: cpu.numa, ..Numa::default() };
            let numa = numas.entry(cpu.numa).or_insert_with(new);
            numa.cpus.insert(cpu.id);
            numa.by_core.push(*cpu);
        }
        let (numas, all) = (numas.into_values().collect(), cpus.iter().map(|cpu| cpu.id).collect());
        Self { cpus: cpus.into(), by_core: by_core.into(), all, cores, numas, sockets }
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
    pub fn all(&self) -> &CpuSet {
        &self.all
    }

    fn numa(&self, number: u32) -> Option<&Numa> {
        let place = self.numas.binary_search_by_key(&number, |own| own.number).ok()?;
        Some(&self.numas[place])
    }

    /// Those of one NUMA node.
    #[must_use]
    pub fn of_numa(&self, numa: u32) -> &CpuSet {
        self.numa(numa).map_or(&NO_CPUS, |own| &own.cpus)
    }

    /// The CPUs of one NUMA node, those of one core beside each other.
    #[must_use]
    pub fn of_numa_by_core(&self, numa: u32) -> &[Cpu] {
        self.numa(numa).map_or(&[], |own| &own.by_core)
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
