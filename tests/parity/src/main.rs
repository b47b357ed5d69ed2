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

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use serde_json::Value;
use truth::{Binaries, Oracle};

use crate::answer::{Answer, Difference};
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
    /// Say how often the real scheduler gave each reason, to see that all were met.
    #[arg(long)]
    reasons: bool,
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
    let mut reasons = BTreeMap::new();
    for seed in arguments.first_seed..arguments.first_seed + arguments.seeds {
        let script = Script::from_seed(seed);
        probes += script.probes();
        let truth = oracle.ask(&script.request())?;
        count(&truth, &mut reasons);
        let differences = ours.play(&script, &truth)?;
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
    for (reason, count) in reasons.iter().filter(|_| arguments.reasons) {
        println!("{count:>8} {reason}");
    }
    println!("{} seeds, {probes} questions, {failed} seeds with differences", arguments.seeds);
    Ok(failed == 0)
}

/// Counts reasons by what is left of them without names.
fn count(truth: &Value, reasons: &mut BTreeMap<String, usize>) {
    let probes = truth["steps"].as_array().into_iter().flatten().map(|step| &step["probe"]);
    for probe in probes {
        let answer = Answer::from_oracle(probe);
        for refused in answer.refused.values() {
            let said = refused.reasons.join("; ");
            let quoted = said.split('"').enumerate();
            let words: Vec<&str> =
                quoted.map(|(index, part)| if index % 2 == 0 { part } else { "…" }).collect();
            *reasons.entry(format!("{}: {}", refused.plugin, words.concat())).or_default() += 1;
        }
        for volume in answer.volumes.values().flat_map(BTreeMap::values) {
            let what = if volume.is_empty() { "a volume is made" } else { "a volume is bound" };
            *reasons.entry(what.to_owned()).or_default() += 1;
        }
    }
}

fn play(script: &Script, oracle: &mut Oracle, ours: &mut Ours) -> Result<Vec<Difference>> {
    let truth = oracle.ask(&script.request())?;
    ours.play(script, &truth)
}
