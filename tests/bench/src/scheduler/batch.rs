//! Gangs and quotas, against a writer that knows neither.
//!
//! Gantry has Koordinator's profile. Everything is there before a row begins, and nobody schedules it: one
//! large gang, many gangs, or many more pods than their quotas let in. The writer binds the same number of
//! pods of the same objects. The clock is that of [`throughput`](super::throughput), but for how events are
//! counted: a watch sees each as it is made, since a row may be shorter than it takes to count, and since
//! Gantry also tells of gangs and of pods that are to wait. Each row of each round has a server of its own:
//! a gang that has started is no longer one that waits, and quotas keep what was written of them.
//!
//! When the clock has stopped, pods of full quotas go, and Gantry is asked how many others it has woken in
//! vain.

mod freed;
mod tree;
mod work;

use std::path::Path;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use super::cluster::Cluster;
use super::contender::{Contender, Entrant, Lineup, Programs, Row};
use super::samples::{Comparison, Named as _, Samples, in_round};
use super::sights::Sights;
use super::throughput::{self, REST, Sample};
use super::workload::Size;
use crate::report::{self, Bar, median};
use tree::Tree;
use work::{Kind, WITHIN_OF, Work};

/// At most one for each quota.
const IN_VAIN: Bar = Bar::TimesAtMost(1.0);
/// Who takes part.
const ROWS: [Row; 2] = [Row::Gantry, Row::BindEvent];

/// What is run, and how large.
#[derive(clap::Args)]
pub struct Arguments {
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// What is measured.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "gang,gangs,quotas")]
    parts: Vec<Part>,
    /// One gang: nodes x members.
    #[arg(long, default_value = "500x512")]
    gang: Size,
    /// Gangs: nodes x pods.
    #[arg(long, default_value = "5000x10000")]
    gangs: Size,
    /// Gangs: members of each.
    #[arg(long, default_value_t = 100, value_parser = at_least_one)]
    members: usize,
    /// Quotas: nodes x pods, of which a tenth is let in.
    #[arg(long, default_value = "5000x50000")]
    quotas: Size,
    /// Quotas: how many, those above others included.
    #[arg(long, default_value_t = 1_000, value_parser = at_least_one)]
    tree: usize,
    /// Ends well whichever bars are missed: it is only to be seen that everything can be measured.
    #[arg(long)]
    unjudged: bool,
}

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// One large gang.
    Gang,
    /// Many gangs.
    Gangs,
    /// Many quotas, and ten times as many pods as they let in.
    Quotas,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "write a number above 0".to_owned())
}

impl Part {
    fn work(self, arguments: &Arguments) -> Result<Work> {
        let Arguments { gang, gangs, members, quotas, tree, .. } = *arguments;
        let (size, kind) = match self {
            Self::Gang => (gang, Kind::Gangs(gang.pods)),
            Self::Gangs => (gangs, Kind::Gangs(members)),
            Self::Quotas => (quotas, Kind::Quotas(Tree(tree))),
        };
        // A gang that is not whole never starts, and of no pods there is no rate.
        match kind {
            Kind::Gangs(members) => {
                ensure!(size.pods.is_multiple_of(members), "{size} are no gangs of {members}");
            }
            Kind::Quotas(_) => ensure!(size.pods >= WITHIN_OF, "a tenth of {size} is no pod"),
        }
        Ok(Work { size, kind })
    }

    /// What Gantry must come to of what the writer does.
    fn bar(self) -> Bar {
        match self {
            Self::Gang | Self::Quotas => Bar::PercentAtLeast(85.0),
            Self::Gangs => Bar::PercentAtLeast(80.0),
        }
    }
}

/// Runs the parts and says whether every bar is met.
///
/// # Errors
/// When a program does not start, a request fails, pods stay unbound, or others are bound than should be.
pub async fn run(gantry: &Path, arguments: &Arguments) -> Result<bool> {
    let programs = Programs::locate(gantry)?;
    println!("{}", super::machine());
    let parts = arguments.parts.iter().map(|part| Ok((*part, part.work(arguments)?)));
    let parts: Vec<(Part, Work)> = parts.collect::<Result<_>>()?;
    let mut met = true;
    for (part, work) in parts {
        let (mut samples, mut in_vain) = (Samples::new(), Vec::new());
        for round in 0..arguments.rounds {
            for row in in_round(ROWS, round) {
                let (sample, woken) = measure(&programs, work, row).await?;
                eprintln!("{work}, round {}: {}: {sample:.2?}", round + 1, row.name());
                samples.add(row, sample);
                in_vain.extend(woken);
            }
        }
        println!("\n{work}, median of {} rounds\n", arguments.rounds);
        throughput::print(&samples);
        met &= judge(&samples, part, &in_vain);
    }
    Ok(met || arguments.unjudged)
}

/// Lets a row bind what is to be bound, on a server of its own. Where it knows quotas, it also tells how
/// many pods were woken in vain for each that a pod has left.
async fn measure(programs: &Programs, work: Work, row: Row) -> Result<(Sample, Option<f64>)> {
    let cluster = Cluster::start(programs, &[]).await?;
    work.create(&cluster).await?;
    tokio::time::sleep(REST).await;
    let mut binds = Sights::of_bound(&cluster.client).await?;
    let mut tellings = Sights::of_told(&cluster.client).await?;
    let entrant = Entrant { row, lineup: Lineup::Koordinator, pods: Some(work.bound()) };
    let mut contender = Contender::start(entrant, programs, cluster.kubeconfig())?;
    let both = async { tokio::try_join!(binds.come(work.bound()), tellings.come(work.bound())) };
    let (bound, told) = contender.until(both).await?;
    let sample = Sample::of(&contender, &bound, Some(told.last))?;
    ensure!(bound.pods == told.pods, "events tell of other pods than those that are bound");
    let in_vain = match (work.kind, row) {
        (Kind::Quotas(_), Row::Gantry) => {
            Some(freed::woken_in_vain(&cluster, &mut contender, &mut binds, work).await?)
        }
        _ => None,
    };
    drop(contender);
    work.verify(row, &cluster.pods().await?)?;
    Ok((sample, in_vain))
}

/// Prints how the rows compare, and how many pods each round has woken in vain where there were any to
/// wake, and says whether the bars are met.
fn judge(samples: &Samples<Row, Sample>, part: Part, in_vain: &[f64]) -> bool {
    let than = Row::BindEvent;
    let rate = Comparison {
        what: "throughput to the last event",
        than,
        of: |sample: &Sample| sample.to_last_event,
        bar: part.bar(),
    };
    let cpu = Comparison {
        what: "CPU per pod",
        than,
        of: |sample: &Sample| sample.cpu,
        bar: Bar::ToldTimes,
    };
    let met = samples.judge(Row::Gantry, &[rate, cpu]);
    let what = "pods woken in vain, to quotas that a pod has left";
    // It is a line of the same table.
    let woken = in_vain.is_empty() || report::judged(what, median(in_vain), IN_VAIN);
    met && woken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_too_slow_or_wakes_too_many_misses_its_bar() {
        let check = |part: Part, to_last_event: f64, in_vain: &[f64], met: bool| {
            let sample = |to_last_event: f64| Sample {
                to_last_event,
                cpu: 1.0,
                first_bind: 1.0,
                to_last_bind: 1.0,
                binds: 1.0,
                peak: 1.0,
            };
            let mut samples = Samples::new();
            samples.add(Row::Gantry, sample(to_last_event));
            samples.add(Row::BindEvent, sample(100.0));
            let is_met = judge(&samples, part, in_vain);
            assert_eq!(is_met, met, "{part:?} {to_last_event} {in_vain:?}");
        };
        check(Part::Gang, 85.0, &[], true);
        check(Part::Gang, 84.0, &[], false);
        check(Part::Gangs, 80.0, &[], true);
        check(Part::Gangs, 79.0, &[], false);
        check(Part::Quotas, 85.0, &[0.0, 1.0, 2.0], true);
        check(Part::Quotas, 85.0, &[0.0, 2.0, 2.0], false);
        check(Part::Quotas, 84.0, &[0.0], false);
    }
}
