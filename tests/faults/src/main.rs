//! Whole schedulers on an embedded API server, through everything that can go wrong between them.
//!
//! One seed decides a run: which pods and nodes come, change and go, what becomes of every request
//! and of every piece of a watch, when schedulers are killed, cut off and started anew. Nothing
//! waits for real and nothing runs at the same time as anything else, so the same seed gives the
//! same run, byte for byte. After each step the [`judge`](crate::judge) holds what happened against
//! rules that are written down apart from the engine; after the last one the faults stop, and
//! everything that can be bound must be.
//!
//! Inside are the scheduler as it runs in production (lists and watches, election, writers, events,
//! engine) and drydock. Outside are sockets, the engine's own thread and the machine's clock.

mod draw;
mod judge;
mod log;
mod network;
mod rules;
mod shapes;
mod witness;
mod world;

use std::process::ExitCode;

use clap::Parser;

/// Runs schedulers through faults that seeds decide.
#[derive(Parser)]
struct Arguments {
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

fn main() -> ExitCode {
    let Arguments { seeds, first_seed, log } = Arguments::parse();
    let mut total = world::Tally::default();
    for seed in first_seed..first_seed.saturating_add(seeds) {
        let run = world::run(seed);
        if log {
            println!("{}", run.log.text());
        }
        if let Some(failure) = run.failure {
            println!("{}", run.log.failure(seed, &failure));
            return ExitCode::FAILURE;
        }
        total.add(&run.tally);
    }
    println!("{seeds} seeds from {first_seed} on passed: {total}");
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many seeds every run of the tests plays; `cargo xtask test --long` plays many more.
    const SEEDS: u64 = 24;

    #[test]
    fn some_dozens_of_seeds_hold() {
        for seed in 1..=SEEDS {
            let run = world::run(seed);
            if let Some(failure) = run.failure {
                panic!("{}", run.log.failure(seed, &failure));
            }
            assert!(run.tally.bound > 0, "seed {seed} bound nothing");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        for seed in [3, 17] {
            assert_eq!(world::run(seed).log.text(), world::run(seed).log.text());
        }
        assert_ne!(world::run(3).log.text(), world::run(17).log.text());
    }
}
