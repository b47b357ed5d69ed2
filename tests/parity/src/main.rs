//! Compares the engine with the real scheduler's own code.
//!
//! A seed makes a cluster and a script: pods to ask about, and changes in between. Both sides play
//! it, and every value must be equal: which plugin refuses which node with which code and reasons,
//! and what each plugin gives each of the others. One ledger plays all seeds, so that repair is
//! compared and not only the first answer.

mod answer;
mod draw;
mod generate;
mod ours;
mod shrink;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use truth::{Binaries, Oracle};

use crate::answer::Difference;
use crate::generate::Script;
use crate::ours::Ours;

#[derive(Parser)]
struct Arguments {
    /// How many seeds to play.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("parity: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool> {
    let say = |line: &str| eprintln!("{line}");
    let binaries = Binaries::locate(&say);
    let mut oracle = Oracle::start(&binaries)?;
    let mut ours = Ours::default();
    let (mut probes, mut failed) = (0, 0);
    for seed in arguments.first_seed..arguments.first_seed + arguments.seeds {
        let script = Script::from_seed(seed);
        probes += script.probes();
        let differences = play(&script, &mut oracle, &mut ours)?;
        if let Some(first) = differences.first() {
            failed += 1;
            println!("seed {seed}: {first}");
            let kind = first.kind();
            let small = shrink::shrink(&script, &mut |script: &Script| {
                let found = play(script, &mut oracle, &mut Ours::default())?;
                Ok(found.iter().any(|difference| difference.kind() == kind))
            })?;
            println!("{}", serde_json::to_string_pretty(&small.request())?);
            for difference in play(&small, &mut oracle, &mut Ours::default())? {
                println!("{difference}");
            }
        }
    }
    println!("{} seeds, {probes} questions, {failed} seeds with differences", arguments.seeds);
    Ok(failed == 0)
}

fn play(script: &Script, oracle: &mut Oracle, ours: &mut Ours) -> Result<Vec<Difference>> {
    let truth = oracle.ask(&script.request())?;
    ours.play(script, &truth)
}
