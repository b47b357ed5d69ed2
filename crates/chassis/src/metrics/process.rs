//! What this process takes of its machine, under the names that programs in Go tell it by.
//!
//! It is read from `/proc` whenever it is asked for. What cannot be read is left out, as on a
//! system that has no `/proc`.

use std::fs;
use std::path::{Path, PathBuf};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// How many ticks the kernel counts in a second for programs, whatever its own clock does.
const TICKS_PER_SECOND: f64 = 100.0;
/// Where times begin in `/proc/self/stat`, counted from what comes after the program's name.
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;
const START_TICKS: usize = 19;
const VIRTUAL_BYTES: usize = 20;

/// The process that asks.
#[derive(Debug)]
pub(super) struct Process {
    /// `/proc`.
    root: PathBuf,
}

impl Process {
    pub(super) fn this() -> Self {
        Self { root: "/proc".into() }
    }
}

/// A name, what it means, of which sort it is, and the number.
type Told = (&'static str, &'static str, MetricType, Option<f64>);

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        for (name, help, kind, value) in told(&self.root) {
            let Some(value) = value else { continue };
            let metric = encoder.encode_descriptor(name, help, None, kind)?;
            match kind {
                MetricType::Counter => ConstCounter::new(value).encode(metric)?,
                _ => ConstGauge::new(value).encode(metric)?,
            }
        }
        Ok(())
    }
}

fn told(root: &Path) -> [Told; 9] {
    use MetricType::{Counter, Gauge};
    let own = root.join("self");
    let read = |path: &str| fs::read_to_string(own.join(path)).unwrap_or_default();
    let (stat, status, limits, net) =
        (read("stat"), read("status"), read("limits"), read("net/netstat"));
    let ticks = |place: usize| Some(field(&stat, place)? / TICKS_PER_SECOND);
    let machine = fs::read_to_string(root.join("stat")).unwrap_or_default();
    let seconds = || Some(ticks(USER_TICKS)? + ticks(SYSTEM_TICKS)?);
    let started = || Some(after(&machine, "btime ")? + ticks(START_TICKS)?);
    let resident = || Some(after(&status, "VmRSS:")? * 1024.0);
    #[allow(clippy::cast_precision_loss, reason = "nobody has that many files open")]
    let open = || fs::read_dir(own.join("fd")).ok().map(|files| files.count() as f64);
    let limit = |name: &str| match limits.lines().find_map(|line| line.strip_prefix(name)) {
        // As the kernel has it: all bits are set.
        Some(words) if words.trim_start().starts_with("unlimited") => {
            Some(18_446_744_073_709_551_615.0)
        }
        Some(words) => first(words),
        None => None,
    };
    [
        (
            "process_cpu_seconds",
            "Total user and system CPU time spent in seconds.",
            Counter,
            seconds(),
        ),
        (
            "process_max_fds",
            "Maximum number of open file descriptors.",
            Gauge,
            limit("Max open files"),
        ),
        (
            "process_network_receive_bytes",
            "Number of bytes received by the process over the network.",
            Counter,
            octets(&net, "InOctets"),
        ),
        (
            "process_network_transmit_bytes",
            "Number of bytes sent by the process over the network.",
            Counter,
            octets(&net, "OutOctets"),
        ),
        ("process_open_fds", "Number of open file descriptors.", Gauge, open()),
        ("process_resident_memory_bytes", "Resident memory size in bytes.", Gauge, resident()),
        (
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            Gauge,
            started(),
        ),
        (
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            Gauge,
            field(&stat, VIRTUAL_BYTES),
        ),
        (
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            Gauge,
            limit("Max address space"),
        ),
    ]
}

/// A field of `/proc/self/stat`, counted from what comes after the program's name, which may have
/// anything in it.
fn field(stat: &str, place: usize) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(place)?.parse().ok()
}

fn first(words: &str) -> Option<f64> {
    words.split_whitespace().next()?.parse().ok()
}

/// The number on the line that begins with these letters.
fn after(text: &str, begin: &str) -> Option<f64> {
    first(text.lines().find_map(|line| line.strip_prefix(begin))?)
}

/// A number of the network by its name: names and numbers are on a line each.
fn octets(net: &str, name: &str) -> Option<f64> {
    let mut lines = net.lines().filter_map(|line| line.strip_prefix("IpExt:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|own| own == name)?;
    numbers.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(root: &Path) -> Vec<(&'static str, Option<f64>)> {
        told(root).map(|(name, _, _, value)| (name, value)).to_vec()
    }

    #[test]
    fn what_proc_says_is_told_and_what_it_does_not_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("self");
        fs::create_dir_all(own.join("net")).unwrap();
        assert!(numbers(root.path()).iter().all(|(_, value)| value.is_none()));
        let mut stat = "7 (a) b) S".to_owned();
        for number in 1..30 {
            stat += &format!(" {}", number * 100);
        }
        let write = |path: &str, text: &str| fs::write(root.path().join(path), text).unwrap();
        write("self/stat", &stat);
        write("stat", "cpu 1 2\nbtime 1000\nprocesses 3\n");
        write("self/status", "VmPeak:\t 9 kB\nVmRSS:\t    2048 kB\n");
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files   1024   4096   files\n\
            Max address space   unlimited   unlimited   bytes\n";
        write("self/limits", limits);
        let net = "TcpExt: A B\nTcpExt: 1 2\nIpExt: X InOctets OutOctets\nIpExt: 1 20 30\n";
        write("self/net/netstat", net);
        fs::create_dir(own.join("fd")).unwrap();
        write("self/fd/0", "");
        let expected = [
            ("process_cpu_seconds", 23.0),
            ("process_max_fds", 1024.0),
            ("process_network_receive_bytes", 20.0),
            ("process_network_transmit_bytes", 30.0),
            ("process_open_fds", 1.0),
            ("process_resident_memory_bytes", 2048.0 * 1024.0),
            ("process_start_time_seconds", 1019.0),
            ("process_virtual_memory_bytes", 2000.0),
            ("process_virtual_memory_max_bytes", 18_446_744_073_709_551_615.0),
        ];
        let expected = expected.map(|(name, value)| (name, Some(value)));
        assert_eq!(numbers(root.path()), expected);
    }

    #[test]
    fn this_process_has_used_some_of_everything() {
        let own = numbers(Path::new("/proc"));
        let positive = |name: &str| {
            own.iter().any(|(known, value)| *known == name && value.is_some_and(|own| own > 0.0))
        };
        for name in ["process_open_fds", "process_resident_memory_bytes", "process_max_fds"] {
            assert!(positive(name), "{name}: {own:?}");
        }
    }
}
