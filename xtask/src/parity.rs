//! `cargo xtask parity`: the engine compared with the real scheduler's own code.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::repository;

/// Play random clusters to the real scheduler's own code and to the engine, and compare every value
///
/// Builds the oracle, a Go program that links Kubernetes' scheduler, on its first run. A seed that
/// differs prints the smallest cluster and pod that still do.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask parity --seeds 1000")]
pub struct Arguments {
    /// How many seeds to play
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
}

/// Runs the chore.
pub fn run(arguments: &Arguments) -> Result<()> {
    seeds(arguments.seeds, arguments.first_seed)
}

/// Plays so many seeds.
pub fn seeds(seeds: u64, first_seed: u64) -> Result<()> {
    for suite in ["decisions", "queue"] {
        let mut command: Command = repository::cargo();
        command.args(["run", "--quiet", "--package", "parity", "--", suite]);
        command.args(["--seeds", &seeds.to_string(), "--first-seed", &first_seed.to_string()]);
        let ran = command.status().context("cannot run cargo")?;
        ensure!(ran.success(), "the suite `{suite}` failed: what it printed says why");
    }
    Ok(())
}
