//! `cargo xtask bench`: what the figures of this repository are measured with.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Subcommand;
use progress::Progress;

use crate::repository;

/// Measure against bars, as ratios taken in one run
///
/// Builds the release programs first. Exits with an error when a bar is not met.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask bench drydock")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The embedded API server against kube-apiserver and etcd, with the same client
    #[command(after_help = "Example:\n  cargo xtask bench drydock --pods 10000 --rounds 3")]
    Drydock(Passed),
    /// `gantry up` with 5,000 nodes and 50,000 pods when nothing changes
    #[command(after_help = "Example:\n  cargo xtask bench idle --nodes 5000 --pods 50000")]
    Idle(Passed),
    /// `gantry up` as a newcomer starts it: time until ready and memory
    #[command(after_help = "Example:\n  cargo xtask bench up --starts 5")]
    Up(Passed),
    /// `gantry hollow-nodes` with 5,000 nodes kept to one core
    #[command(after_help = "Example:\n  cargo xtask bench hollow --nodes 5000 --pods 50000")]
    Hollow(Passed),
    /// Gantry's scheduler against kube-scheduler and writers that do not think
    #[command(after_help = "Examples:\n  cargo xtask bench scheduler\n  \
                            cargo xtask bench scheduler --rounds 1 --sizes 200x500 --parts throughput")]
    Scheduler(Passed),
    /// Gantry's scheduler with the profile of Koordinator's chart, while nodes report their load
    #[command(after_help = "Examples:\n  cargo xtask bench koordinator\n  \
                            cargo xtask bench koordinator --rounds 1 --sizes 200x500")]
    Koordinator(Passed),
    /// The same profile with pods in gangs, and with ten times as many pods as their quotas let in
    #[command(after_help = "Examples:\n  cargo xtask bench batch\n  \
                            cargo xtask bench batch --rounds 1 --parts gang --gang 50x64")]
    Batch(Passed),
}

#[derive(clap::Args)]
struct Passed {
    /// Sizes, such as `--pods 1000`; `--help` after `--` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    sizes: Vec<String>,
}

/// Runs the chore.
pub fn run(arguments: &Arguments) -> Result<()> {
    let (name, passed) = match &arguments.what {
        What::Drydock(passed) => ("drydock", passed),
        What::Idle(passed) => ("idle", passed),
        What::Up(passed) => ("up", passed),
        What::Hollow(passed) => ("hollow", passed),
        What::Scheduler(passed) => ("scheduler", passed),
        What::Koordinator(passed) => ("koordinator", passed),
        What::Batch(passed) => ("batch", passed),
    };
    measure("release", name, &passed.sizes)
}

/// Plays all parts of the scheduler's benchmarks in small, unoptimised, to see that each of them works.
pub fn rehearse() -> Result<()> {
    let scheduler = "--rounds 1 --sizes 5x20 --limit-pods 20 --seconds 1 --hollow-nodes 5 --bound 5x20 \
                     --unjudged";
    let koordinator = "--rounds 1 --sizes 5x20 --report-seconds 1 --unjudged";
    let batch =
        "--rounds 1 --gang 5x20 --gangs 5x20 --members 5 --quotas 5x200 --tree 12 --unjudged";
    for (name, words) in [("scheduler", scheduler), ("koordinator", koordinator), ("batch", batch)]
    {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        measure("dev", name, &words)?;
    }
    Ok(())
}

/// Builds the programs in a profile of cargo's and runs a benchmark.
fn measure(profile: &str, name: &str, words: &[String]) -> Result<()> {
    let progress = Progress::new();
    progress.say("building the programs");
    let built = repository::cargo()
        .args(["build", "--quiet", "--locked", "--package", "gantry", "--package", "bench"])
        .args(["--profile", profile])
        .status()
        .context("cannot run cargo")?;
    ensure!(built.success(), "the programs do not build");
    progress.clear();
    let metadata = repository::metadata()?;
    let target = metadata["target_directory"].as_str().context("cargo names no target folder")?;
    let folder = PathBuf::from(target).join(if profile == "dev" { "debug" } else { profile });
    let ran = Command::new(folder.join("bench"))
        .arg("--gantry")
        .arg(folder.join("gantry"))
        .arg(name)
        .args(words)
        .status()
        .context("cannot run the benchmark")?;
    ensure!(ran.success(), "the benchmark failed");
    Ok(())
}
