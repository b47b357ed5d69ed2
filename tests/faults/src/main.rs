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
mod gangs;
mod held;
mod judge;
mod lending;
mod log;
mod network;
mod rules;
mod shapes;
mod shares;
mod witness;
mod world;

use std::process::ExitCode;

use clap::Parser;

/// Among so many seeds everything has to happen that is looked at.
const SEEDS_TO_SEE_ALL: u64 = 32;

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

/// Plays seeds, as many at once as the machine has cores, and gives their runs in order.
fn play(seeds: std::ops::Range<u64>, mut each: impl FnMut(u64, world::Run) -> bool) {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let all: Vec<u64> = seeds.collect();
    for chunk in all.chunks(jobs) {
        let runs: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> =
                chunk.iter().map(|seed| scope.spawn(|| world::run(*seed))).collect();
            started.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        for (seed, run) in chunk.iter().zip(runs) {
            let run = run.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            if !each(*seed, run) {
                return;
            }
        }
    }
}

fn main() -> ExitCode {
    let Arguments { seeds, first_seed, log } = Arguments::parse();
    let (mut total, mut is_fine) = (world::Tally::default(), true);
    play(first_seed..first_seed.saturating_add(seeds), |seed, run| {
        if log {
            println!("{}", run.log.text());
        }
        if let Some(failure) = &run.failure {
            println!("{}", run.log.failure(seed, failure));
            is_fine = false;
        }
        total.add(&run.tally);
        is_fine
    });
    if !is_fine {
        return ExitCode::FAILURE;
    }
    println!("{seeds} seeds from {first_seed} on passed: {total}");
    let lacking = total.lacking();
    if seeds >= SEEDS_TO_SEE_ALL && !lacking.is_empty() {
        println!(
            "nothing of this happened, so that nothing is shown of it: {}",
            lacking.join(", ")
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many seeds every run of the tests plays; `cargo xtask test --long` plays many more.
    const SEEDS: u64 = SEEDS_TO_SEE_ALL;

    #[test]
    fn some_dozens_of_seeds_hold() {
        let mut total = world::Tally::default();
        play(1..SEEDS + 1, |seed, run| {
            if let Some(failure) = &run.failure {
                panic!("{}", run.log.failure(seed, failure));
            }
            assert!(run.tally.decided > 0, "seed {seed} decided nothing");
            total.add(&run.tally);
            true
        });
        // What went well where nothing could go wrong shows nothing.
        assert_eq!(total.lacking(), [""; 0], "{SEEDS} seeds");
        assert!(total.starts > 2 * SEEDS && total.rooms > 0 && total.prepared > 0, "{total}");
        assert!(total.held > 0 && total.inside > 0 && total.adopted > 0, "{total}");
        assert!(total.own_cpus > 0 && total.members > 0 && total.over_quota > 0, "{total}");
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let mut first = std::collections::BTreeMap::new();
        let seeds = 10..14;
        play(seeds.clone(), |seed, run| first.insert(seed, run.log.text()).is_none());
        play(seeds, |seed, run| {
            let (then, now) = (&first[&seed], run.log.text());
            let differs = then.lines().zip(now.lines()).find(|(then, now)| then != now);
            assert_eq!(differs, None, "seed {seed}");
            assert_eq!(then.len(), now.len(), "seed {seed}");
            true
        });
    }
}
