//! Benchmarks that compare running programs: the same client, the same load, one
//! run, ratios. `cargo xtask bench` builds what is needed and runs this.

mod drydock;
mod hollow;
mod idle;
mod load;
mod processes;
mod report;
mod scheduler;
mod subjects;
mod up;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use chassis::client::UnderWay;
use clap::{Parser, Subcommand};

// What the product uses: the limit writers are measured beside it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
struct Bench {
    /// The `gantry` program to measure.
    #[arg(long, default_value = "gantry")]
    gantry: PathBuf,

    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// drydock against kube-apiserver with etcd.
    Drydock(drydock::Arguments),
    /// `gantry up` with many nodes and pods when nothing changes.
    Idle(idle::Arguments),
    /// `gantry up` as a newcomer starts it: how soon it is ready and how large it is.
    Up(up::Arguments),
    /// `gantry hollow-nodes` with many nodes on one core.
    Hollow(hollow::Arguments),
    /// Gantry against kube-scheduler and writers that do not think.
    Scheduler(scheduler::Arguments),
    /// Gantry with Koordinator's profile, while nodes report their load.
    Koordinator(scheduler::KoordinatorArguments),
    /// Gantry with Koordinator's profile, and pods in gangs or under quotas.
    Batch(scheduler::BatchArguments),
    /// One of those writers.
    #[command(hide = true)]
    LimitWriter(scheduler::WriterArguments),
    /// A client that reads lists and throws them away.
    #[command(hide = true)]
    Fetch(scheduler::FetchArguments),
}

fn main() -> ExitCode {
    let bench = Bench::parse();
    let under_way = UnderWay::default();
    let runtime = match &bench.what {
        // One thread talks to the server, as in Gantry: it costs least.
        What::LimitWriter(_) | What::Fetch(_) => chassis::runtime::of_one_thread(&under_way),
        _ => tokio::runtime::Runtime::new(),
    };
    let result = match runtime {
        Ok(runtime) => runtime.block_on(run(&bench, &under_way)),
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("a bar is not met");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(bench: &Bench, under_way: &UnderWay) -> Result<bool> {
    match &bench.what {
        What::Drydock(arguments) => drydock::run(&bench.gantry, arguments).await,
        What::Idle(arguments) => idle::run(&bench.gantry, arguments).await,
        What::Up(arguments) => up::run(&bench.gantry, arguments).await,
        What::Hollow(arguments) => hollow::run(&bench.gantry, arguments).await,
        What::Scheduler(arguments) => scheduler::run(&bench.gantry, arguments).await,
        What::Koordinator(arguments) => scheduler::run_koordinators(&bench.gantry, arguments).await,
        What::Batch(arguments) => scheduler::run_batch(&bench.gantry, arguments).await,
        What::LimitWriter(arguments) => scheduler::write(arguments, under_way).await.map(|()| true),
        What::Fetch(arguments) => scheduler::fetch(arguments).await.map(|()| true),
    }
}
