//! `cargo xtask parity`: the engine compared with the real scheduler's own code.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::repository;

/// Play random clusters to the real scheduler's own code and to the engine, and compare every value
///
/// Builds the oracle, a Go program that links Kubernetes' scheduler, on its first run. A seed that
/// differs prints the smallest cluster, pod and configuration that still do.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask parity --seeds 1000")]
pub struct Arguments {
    /// How many seeds to play [default: 1000, and 20 with --binary]
    #[arg(long)]
    seeds: Option<u64>,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Let kube-scheduler itself decide, on a real kube-apiserver, instead
    #[arg(long)]
    binary: bool,
}

/// How many seeds are played where nothing is said.
const SEEDS: u64 = 1000;
/// How many of them kube-scheduler itself plays.
pub const BINARY_SEEDS: u64 = 20;

/// Runs the chore.
pub fn run(arguments: &Arguments) -> Result<()> {
    let first = arguments.first_seed;
    if arguments.binary {
        return binary(arguments.seeds.unwrap_or(BINARY_SEEDS), first);
    }
    seeds(arguments.seeds.unwrap_or(SEEDS), first)
}

/// Plays so many seeds of each suite that needs no API server.
pub fn seeds(seeds: u64, first_seed: u64) -> Result<()> {
    suites(&["decisions", "queue", "safety"], seeds, first_seed)
}

/// Plays so many seeds with kube-scheduler itself.
pub fn binary(seeds: u64, first_seed: u64) -> Result<()> {
    suites(&["binary"], seeds, first_seed)
}

fn suites(suites: &[&str], seeds: u64, first_seed: u64) -> Result<()> {
    for suite in suites {
        let mut command: Command = repository::cargo();
        command.args(["run", "--quiet", "--package", "parity", "--", suite]);
        command.args(["--seeds", &seeds.to_string(), "--first-seed", &first_seed.to_string()]);
        let ran = command.status().context("cannot run cargo")?;
        ensure!(ran.success(), "the suite `{suite}` failed: what it printed says why");
    }
    Ok(())
}
