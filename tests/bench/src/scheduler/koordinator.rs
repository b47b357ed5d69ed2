//! Gantry as Koordinator's users have it, against itself with Kubernetes' own plugins and against a
//! writer that does not think.
//!
//! Every node says how its CPUs lie and reports its load once a minute, whoever takes part: the reports
//! are written beside all rows alike, and none is late when a row begins. Each row of each round has a
//! server of its own, since one that takes in reports becomes slower from minute to minute: of a server
//! that rows shared, the first would have more than the last. What is measured is what
//! [`throughput`](super::throughput) measures, once with pods of which there is nothing to say and once
//! with pods that get CPUs of their own.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::cluster::Cluster;
use super::contender::{Entrant, Lineup, Programs, Row};
use super::reports::{self, Reports};
use super::samples::{Comparison, Named, Samples, in_round};
use super::throughput::{self, REST, Sample};
use super::workload::{Size, Workload, pod};
use crate::report::Bar;

/// What is run, and how large.
#[derive(clap::Args)]
pub struct Arguments {
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Nodes x pods.
    #[arg(long, value_delimiter = ',', default_value = "5000x10000")]
    sizes: Vec<Size>,
    /// How often each node reports its load, in seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    report_seconds: u64,
    /// Ends well whichever bars are missed: it is only to be seen that everything can be measured.
    #[arg(long)]
    unjudged: bool,
}

/// One who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    /// Gantry with all plugins, and pods of which there is nothing to say.
    Full,
    /// The same, and pods that get CPUs of their own.
    FullOwn,
    /// Gantry with Kubernetes' own plugins.
    Vanilla,
    /// Binds each pod to the next node and writes the event.
    BindEvent,
}

impl Entry {
    const ALL: [Self; 4] = [Self::Full, Self::FullOwn, Self::Vanilla, Self::BindEvent];

    fn who(self) -> Entrant {
        match self {
            Self::Full | Self::FullOwn => {
                Entrant { lineup: Lineup::Koordinator, ..Row::Gantry.into() }
            }
            Self::Vanilla => Row::Gantry.into(),
            Self::BindEvent => Row::BindEvent.into(),
        }
    }

    fn workload(self) -> Workload {
        match self {
            Self::FullOwn => Workload::Own,
            _ => Workload::Plain,
        }
    }
}

impl Named for Entry {
    fn name(self) -> &'static str {
        match self {
            Self::Full => "Gantry, Koordinator's profile, plain pods",
            Self::FullOwn => "Gantry, Koordinator's profile, pods with CPUs of their own",
            Self::Vanilla => "Gantry, Kubernetes' profile, plain pods",
            Self::BindEvent => "limit: bind + event, plain pods",
        }
    }
}

/// Runs all sizes and says whether every bar is met.
///
/// # Errors
/// When a program does not start, a request fails, pods stay unbound, or nodes do not report.
pub async fn run(gantry: &Path, arguments: &Arguments) -> Result<bool> {
    let programs = Programs::locate(gantry)?;
    println!("{}", super::machine());
    let every = Duration::from_secs(arguments.report_seconds);
    let mut met = true;
    for size in &arguments.sizes {
        let (mut samples, mut told) = (Samples::new(), String::new());
        for round in 0..arguments.rounds {
            for entry in in_round(Entry::ALL, round) {
                let (sample, reported) = measure(&programs, entry, *size, every).await?;
                let name = entry.name();
                eprintln!("{size}, round {}: {name}: {sample:.2?}; {reported}", round + 1);
                samples.add(entry, sample);
                told = reported;
            }
        }
        println!("\n{size}, median of {} rounds; {told}\n", arguments.rounds);
        throughput::print(&samples);
        met &= judge(&samples);
    }
    Ok(met || arguments.unjudged)
}

/// Lets one bind its pods on a server of its own while nodes report, none of them late at first. Tells
/// how often they did, too.
async fn measure(
    programs: &Programs,
    entry: Entry,
    size: Size,
    every: Duration,
) -> Result<(Sample, String)> {
    let (who, workload) = (entry.who(), entry.workload());
    let cluster = Cluster::start(programs, &[]).await?;
    cluster.resize(size.nodes).await?;
    cluster.create_pods(size.pods, |index| pod(workload, index)).await?;
    // Last, so that what nodes have reported is young when the row begins.
    reports::prepare(&cluster.client, size.nodes).await?;
    let reports = Reports::begin(&cluster.client, size.nodes, every);
    tokio::time::sleep(REST).await;
    reports.catch_up().await?;
    let sample = throughput::measure(&cluster, programs, who, size, workload).await?;
    reports.check()?;
    let late = reports.late();
    let told = reports.end().await?;
    Ok((sample, format!("{told}, {late:.0} late at the end")))
}

/// Prints how the rows compare, and says whether every bar is met.
fn judge(samples: &Samples<Entry, Sample>) -> bool {
    let throughput = |percent: f64| Comparison {
        what: "throughput to the last event",
        than: Entry::BindEvent,
        of: |sample: &Sample| sample.to_last_event,
        bar: Bar::PercentAtLeast(percent),
    };
    let cpu = |bar: Bar| Comparison {
        what: "CPU per pod",
        than: Entry::Vanilla,
        of: |sample: &Sample| sample.cpu,
        bar,
    };
    let plain = samples.judge(Entry::Full, &[throughput(85.0), cpu(Bar::TimesAtMost(1.5))]);
    let own = samples.judge(Entry::FullOwn, &[throughput(80.0), cpu(Bar::TimesAtMost(1.5))]);
    plain && own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_too_slow_or_too_dear_misses_its_bar() {
        let check = |full: [f64; 2], own: [f64; 2], met: bool| {
            let sample = |[to_last_event, cpu]: [f64; 2]| Sample {
                to_last_event,
                cpu,
                first_bind: 1.0,
                to_last_bind: 1.0,
                binds: 1.0,
                peak: 1.0,
            };
            let mut samples = Samples::new();
            samples.add(Entry::Full, sample(full));
            samples.add(Entry::FullOwn, sample(own));
            samples.add(Entry::Vanilla, sample([100.0, 1.0]));
            samples.add(Entry::BindEvent, sample([100.0, 0.5]));
            assert_eq!(judge(&samples), met, "{full:?} {own:?}");
        };
        check([85.0, 1.5], [80.0, 1.5], true);
        check([84.0, 1.5], [80.0, 1.5], false);
        check([85.0, 1.6], [80.0, 1.5], false);
        check([85.0, 1.5], [79.0, 1.5], false);
        check([85.0, 1.5], [80.0, 1.6], false);
    }
}
