//! What reservations cost decisions: those for pods that they have nothing to do with, and those for
//! pods that they are for.
//!
//! Three clusters of 5,000 nodes with 50,000 bound pods take turns: one without reservations, one with
//! 2,000 for others, and one with 2,000 for the pods that are decided about. The median of the rounds
//! counts, in processor time. The benchmark ends with an error where a bar is missed.

#![allow(clippy::disallowed_methods, reason = "a benchmark takes the time")]

mod world;

use std::process::ExitCode;
use std::time::Duration;

use world::{Mix, Row, World, processor_time};

const NODES: usize = 5_000;
const RESERVATIONS: usize = 2_000;
const ROUNDS: usize = 15;
/// Decisions of a cluster in a round: fewer than what is held takes.
const DECISIONS: usize = 1_000;
/// How much more a decision may cost.
const UNRELATED_MAX: f64 = 1.05;
const OWNERS_MAX: f64 = 1.30;

/// Decides so often, and returns the time that took and how many pods used reservations.
fn run(world: &mut World, mix: &Mix, row: &Row) -> (Duration, usize) {
    let pods = world.next(mix, row, DECISIONS);
    let began = processor_time();
    let inside = world.choose(pods);
    let took = processor_time() - began;
    // Who came last goes first, so that each round finds about what the last one found.
    world.trim_newest();
    (took, inside)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() -> ExitCode {
    let mix = Mix::read();
    let mut is_met = true;
    println!("| pods | without, µs | for others | at most | for them | at most | inside |");
    println!("|---|---|---|---|---|---|---|");
    for row in &mix.rows {
        let mut without = World::new(&mix, row, NODES);
        let mut unrelated = World::new(&mix, row, NODES);
        let mut owners = World::new(&mix, row, NODES);
        without.reserve(0, NODES, |_| String::new());
        unrelated.reserve(RESERVATIONS, NODES, |number| format!("other-{number}"));
        let apps = row.apps();
        // As evenly over the apps as pods come.
        owners
            .reserve(RESERVATIONS, NODES, |number| format!("app-{}", number * apps / RESERVATIONS));
        let (mut plain, mut others, mut owned, mut used) = (vec![], vec![], vec![], 0);
        for round in 0..=ROUNDS {
            let (first, _) = run(&mut without, &mix, row);
            let (second, _) = run(&mut unrelated, &mix, row);
            let (third, inside) = run(&mut owners, &mix, row);
            // The first round fills what is kept.
            if round > 0 {
                let base = first.as_secs_f64();
                plain.push(base * 1e6 / DECISIONS as f64);
                others.push(second.as_secs_f64() / base);
                owned.push(third.as_secs_f64() / base);
                used += inside;
            }
        }
        let (plain, others, owned) = (median(plain), median(others), median(owned));
        let inside = used * 100 / (ROUNDS * DECISIONS);
        println!(
            "| {} | {plain:.1} | {others:.2}x | {UNRELATED_MAX}x | {owned:.2}x | {OWNERS_MAX}x | {inside} % |",
            row.name
        );
        is_met &= others <= UNRELATED_MAX && owned <= OWNERS_MAX;
    }
    if is_met {
        return ExitCode::SUCCESS;
    }
    eprintln!("a bar is missed");
    ExitCode::FAILURE
}
