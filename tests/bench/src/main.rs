//! Benchmarks that compare running programs: the same client, the same load, one
//! run, ratios. `cargo xtask bench` builds what is needed and runs this.

mod drydock;
mod hollow;
mod idle;
mod load;
mod processes;
mod subjects;
mod up;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Bench {
    /// The `gantry` program to measure.
    #[arg(long)]
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
}

#[tokio::main]
async fn main() -> ExitCode {
    let bench = Bench::parse();
    let result = match &bench.what {
        What::Drydock(arguments) => drydock::run(&bench.gantry, arguments).await,
        What::Idle(arguments) => idle::run(&bench.gantry, arguments).await,
        What::Up(arguments) => up::run(&bench.gantry, arguments).await,
        What::Hollow(arguments) => hollow::run(&bench.gantry, arguments).await,
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
