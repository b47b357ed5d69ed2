//! `cargo xtask faults`: schedulers through everything that can go wrong, by seed.

use anyhow::{Context, Result, ensure};

use crate::repository;

/// Run whole schedulers on an embedded API server, on a seeded clock and through seeded faults
///
/// After every step rules that are written down apart from the engine must hold; after the faults
/// have ended, every pod that fits somewhere must be bound. A seed that fails prints its last steps
/// and how to replay it.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask faults --seeds 1000")]
pub struct Arguments {
    /// How many seeds to run
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Print the whole log of every seed
    #[arg(long)]
    log: bool,
}

/// Runs the chore.
pub fn run(arguments: &Arguments) -> Result<()> {
    seeds(arguments.seeds, arguments.first_seed, arguments.log)
}

/// Runs so many seeds.
pub fn seeds(seeds: u64, first_seed: u64, log: bool) -> Result<()> {
    let mut command = repository::cargo();
    command.args(["run", "--quiet", "--release", "--package", "faults", "--"]);
    command.args(["--seeds", &seeds.to_string(), "--first-seed", &first_seed.to_string()]);
    if log {
        command.arg("--log");
    }
    let ran = command.status().context("cannot run cargo")?;
    ensure!(ran.success(), "a seed failed: what is printed above says which, and how to replay it");
    Ok(())
}
