//! Compares the engine with the real scheduler's own code.
//!
//! `decisions`: a seed makes a cluster and a script: pods to ask about, and changes in between.
//! Both sides play it, and every value must be equal: which plugin refuses which node with which
//! code and reasons, and what each plugin gives each of the others. One ledger plays all seeds, so
//! that repair is compared and not only the first answer.
//!
//! `queue`: a seed makes a script of facts and attempts, and both queues must have every pod at the
//! same place after every step.

mod answer;
mod draw;
mod generate;
mod ours;
mod queue;
mod shrink;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use truth::{Binaries, Oracle};

use crate::answer::Difference;
use crate::generate::Script;
use crate::ours::Ours;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    suite: Option<Suite>,
    #[command(flatten)]
    seeds: Seeds,
}

#[derive(Subcommand)]
enum Suite {
    /// Which nodes take a pod, and how good each is (the default).
    Decisions(Seeds),
    /// Which pods are tried when.
    Queue(Seeds),
}

#[derive(Args)]
struct Seeds {
    /// How many seeds to play.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
}

impl Seeds {
    fn iter(&self) -> impl Iterator<Item = u64> {
        self.first_seed..self.first_seed.saturating_add(self.seeds)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.suite {
        Some(Suite::Queue(seeds)) => queues(seeds),
        Some(Suite::Decisions(seeds)) => decisions(seeds),
        None => decisions(&arguments.seeds),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("parity: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn oracle() -> Result<Oracle> {
    let say = |line: &str| eprintln!("{line}");
    Oracle::start(&Binaries::locate(&say))
}

fn decisions(seeds: &Seeds) -> Result<bool> {
    let mut oracle = oracle()?;
    let mut ours = Ours::default();
    let (mut probes, mut failed) = (0, 0);
    for seed in seeds.iter() {
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
    println!("{} seeds, {probes} questions, {failed} seeds with differences", seeds.seeds);
    Ok(failed == 0)
}

fn play(script: &Script, oracle: &mut Oracle, ours: &mut Ours) -> Result<Vec<Difference>> {
    let truth = oracle.ask(&script.request())?;
    ours.play(script, &truth)
}

fn queues(seeds: &Seeds) -> Result<bool> {
    let mut oracle = oracle()?;
    let (mut compared, mut failed) = (0, 0);
    let mut hints = BTreeMap::<String, usize>::new();
    for seed in seeds.iter() {
        let script = queue::Script::from_seed(seed)?;
        let outcome = queue::compare(&script, &mut oracle)?;
        compared += outcome.compared;
        for (said, count) in &outcome.hints {
            *hints.entry(said.clone()).or_default() += count;
        }
        if outcome.difference.is_none() {
            continue;
        }
        failed += 1;
        let small = queue::shrink(&script, &mut oracle);
        println!("seed {seed}:\n{}", queue::told(&small));
        if let Some(found) = queue::compare(&small, &mut oracle)?.difference {
            println!("after step {:?}:", found.step);
            println!("the real queue has {}\nours has {}", found.truth, found.ours);
        }
    }
    for (said, count) in hints {
        println!("{count:7} {said}");
    }
    println!("{} seeds, {compared} comparisons, {failed} seeds with differences", seeds.seeds);
    Ok(failed == 0)
}
