//! What processes cost, read from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Linux counts CPU time for `/proc` in hundredths of a second on every architecture.
const TICKS_PER_SECOND: u64 = 100;

/// The resident memory and the CPU time of some processes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// Bytes of resident memory.
    pub memory_bytes: u64,
    /// The most bytes that each of them ever had resident, added up.
    pub memory_bytes_peak: u64,
    /// CPU time since the processes began.
    pub cpu: Duration,
}

/// The cost of one process, without its children.
///
/// # Errors
/// When it has ended.
pub fn cost_of_process(pid: u32) -> Result<Cost> {
    let stat = Stat::read(pid).with_context(|| format!("process {pid} has ended"))?;
    let (memory_bytes, memory_bytes_peak) = resident_bytes(pid)?;
    Ok(Cost { memory_bytes, memory_bytes_peak, cpu: stat.cpu })
}

/// The cost of the one program that runs below a shell.
///
/// # Errors
/// When it has ended.
pub fn cost_below(shell: u32) -> Result<Cost> {
    let all = all()?;
    let mut below = all.iter().filter(|(_, stat)| stat.parent == shell && stat.name != "sh");
    let (pid, _) = below.next().with_context(|| format!("no program runs below {shell}"))?;
    cost_of_process(*pid)
}

/// The cost of every descendant of this process whose program has one of these names.
///
/// # Errors
/// When `/proc` cannot be read or a name is not found.
pub fn cost_of(names: &[&str]) -> Result<Cost> {
    let parents = all()?;
    let own = std::process::id();
    let mut cost = Cost::default();
    for name in names {
        let found: Vec<u32> = parents
            .iter()
            .filter(|(pid, stat)| stat.name == *name && descends(&parents, **pid, own))
            .map(|(pid, _)| *pid)
            .collect();
        ensure!(!found.is_empty(), "no process named {name} runs below this one");
        for pid in found {
            let one = cost_of_process(pid)?;
            cost.memory_bytes += one.memory_bytes;
            cost.memory_bytes_peak += one.memory_bytes_peak;
            cost.cpu += one.cpu;
        }
    }
    Ok(cost)
}

/// Every process there is.
fn all() -> Result<BTreeMap<u32, Stat>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc").context("cannot read /proc: this needs Linux")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if let Some(stat) = Stat::read(pid) {
            all.insert(pid, stat);
        }
    }
    Ok(all)
}

struct Stat {
    name: String,
    parent: u32,
    cpu: Duration,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in parentheses and may hold spaces; the fields follow the last one.
        let (head, tail) = text.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        let cpu = Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND);
        Some(Self { name, parent: fields.get(1)?.parse().ok()?, cpu })
    }
}

fn descends(parents: &BTreeMap<u32, Stat>, mut pid: u32, ancestor: u32) -> bool {
    while let Some(stat) = parents.get(&pid) {
        if stat.parent == ancestor {
            return true;
        }
        pid = stat.parent;
    }
    false
}

/// What a process has resident, and the most it ever had.
fn resident_bytes(pid: u32) -> Result<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} has ended"))?;
    let bytes = |field: &str| -> Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kilobytes.with_context(|| format!("process {pid} has no memory"))? * 1024)
    };
    Ok((bytes("VmRSS:")?, bytes("VmHWM:")?))
}
