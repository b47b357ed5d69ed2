//! Schedulers against each other and against writers that do not think, on one kube-apiserver.
//!
//! Three questions, each with its own part: how many pods a second at what cost
//! ([`throughput`]), how soon a pod is bound while pods come and go ([`steady`]), and how soon a
//! fresh scheduler binds in a full cluster ([`first_bind`]). What all of Koordinator's plugins cost,
//! and what gangs and quotas do, are benchmarks of their own ([`koordinator`], [`batch`]).

mod audit;
mod batch;
mod cluster;
mod contender;
mod fetch;
mod first_bind;
mod koordinator;
mod reports;
mod samples;
mod sights;
mod steady;
mod throughput;
mod workload;
mod writer;

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;

use contender::{Programs, Row};
use samples::in_round;
use workload::{Size, Workload};

pub use batch::{Arguments as BatchArguments, run as run_batch};
pub use fetch::{Arguments as FetchArguments, run as fetch};
pub use koordinator::{Arguments as KoordinatorArguments, run as run_koordinators};
pub use writer::{Arguments as WriterArguments, run as write};

/// What is run, and how large.
#[derive(clap::Args)]
pub struct Arguments {
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// What is measured.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "throughput,steady,first-bind")]
    parts: Vec<Part>,
    /// Who takes part; a bar is judged where both of its sides do.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "kube-scheduler,gantry,bind,bind-event,bind-event-gathering"
    )]
    only: Vec<Row>,
    /// Throughput: nodes x pods.
    #[arg(long, value_delimiter = ',', default_value = "1000x5000,5000x10000")]
    sizes: Vec<Size>,
    /// Throughput: what the pods ask for.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "plain,mixed")]
    workloads: Vec<Workload>,
    /// Steady load: how long pods arrive, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Steady load: pods that the limit is found with.
    #[arg(long, default_value_t = 3_000)]
    limit_pods: usize,
    /// Steady load: hollow nodes.
    #[arg(long, default_value_t = 1_000)]
    hollow_nodes: usize,
    /// First bind: nodes x pods that are bound already.
    #[arg(long, default_value = "5000x50000")]
    bound: Size,
    /// Ends well whichever bars are missed: it is only to be seen that everything can be measured.
    #[arg(long)]
    unjudged: bool,
}

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Pods a second, CPU and memory.
    Throughput,
    /// From creation to bound while pods come and go.
    Steady,
    /// From the start of the process in a full cluster.
    FirstBind,
}

impl Arguments {
    fn has(&self, row: Row) -> bool {
        self.only.contains(&row)
    }

    /// Those who take part, in the order of a round.
    fn rows(&self, round: usize) -> Vec<Row> {
        in_round(Row::ALL.into_iter().filter(|row| self.has(*row)), round)
    }
}

/// Runs the parts and says whether every bar that was judged is met.
///
/// # Errors
/// When a program does not start, a request fails, or pods stay unbound.
pub async fn run(gantry: &Path, arguments: &Arguments) -> Result<bool> {
    let programs = Programs::locate(gantry)?;
    println!("{}", machine());
    let mut met = true;
    for part in &arguments.parts {
        met &= match part {
            Part::Throughput => throughput::run(&programs, arguments).await?,
            Part::Steady => steady::run(&programs, arguments).await?,
            Part::FirstBind => first_bind::run(&programs, arguments).await?,
        };
    }
    if Row::ALL.into_iter().any(|row| !arguments.has(row)) {
        eprintln!("not everybody took part: the bars between the others were not judged");
    }
    Ok(met || arguments.unjudged)
}

/// Where and when this runs: absolute figures mean nothing without it.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = memory.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    let gigabytes = kilobytes.unwrap_or_default() / (1 << 20);
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d");
    format!(
        "{cores} cores and {gigabytes} GiB, shared by etcd, kube-apiserver {}, the scheduler and \
         the observer; {date}",
        truth::KUBERNETES_VERSION
    )
}
