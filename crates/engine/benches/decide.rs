//! How many decisions a second the engine makes: one at a time, each applied before the next, on a
//! cluster with bound pods, with one deletion for every ten decisions.
//!
//! The time is that of the processor, so that other programs on the machine count little. After
//! Criterion's own report a table says what was measured and what is demanded; the benchmark
//! ends with an error where a row falls short.

#![allow(clippy::disallowed_methods, reason = "a benchmark takes the time and reads its memory")]

mod world;

use std::process::ExitCode;
use std::time::Duration;

use criterion::{Criterion, SamplingMode, Throughput};
use world::{Mix, Row, World, forget_peak, peak_megabytes, processor_time};

/// Pods that are made at once, while no time is taken.
const BATCH: usize = 500;
/// Decisions before any is measured, in which answers that are kept are computed first.
const WARM_UP: usize = 2_000;
/// Megabytes that the process may take in any row.
const MEGABYTES_MAX: f64 = 150.0;
/// Larger clusters may be as much slower as this, relative to their size.
const NODES: [(usize, f64); 2] = [(5_000, 1.0), (20_000, 0.25)];

struct Measured {
    nodes: usize,
    name: String,
    per_second: f64,
    per_second_min: f64,
    megabytes: f64,
}

/// Decides so often, and returns the time that took. Making pods and trimming the cluster back to
/// its size is left out.
fn run(world: &mut World, mix: &Mix, row: &Row, decisions: usize) -> Duration {
    let mut took = Duration::ZERO;
    let mut left = decisions;
    while left > 0 {
        let pods = world.next(mix, row, left.min(BATCH));
        left -= pods.len();
        let began = processor_time();
        world.decide(pods);
        took += processor_time() - began;
        world.trim();
    }
    took
}

fn measure(
    criterion: &mut Criterion,
    mix: &Mix,
    row: &Row,
    nodes: usize,
    share: f64,
) -> Option<Measured> {
    forget_peak();
    let mut world = None;
    let mut rates = Vec::new();
    let mut group = criterion.benchmark_group(&row.name);
    group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(1));
    group.bench_function(format!("{nodes} nodes"), |bencher| {
        bencher.iter_custom(|count| {
            let world = world.get_or_insert_with(|| {
                let mut world = World::new(mix, row, nodes);
                run(&mut world, mix, row, WARM_UP);
                world
            });
            let count = usize::try_from(count).expect("a number of decisions");
            let took = run(world, mix, row, count);
            rates.push(count as f64 / took.as_secs_f64());
            took
        });
    });
    group.finish();
    rates.sort_unstable_by(f64::total_cmp);
    let per_second = *rates.get(rates.len() / 2)?;
    let (name, per_second_min) = (row.name.clone(), row.per_second_min * share);
    Some(Measured { nodes, name, per_second, per_second_min, megabytes: peak_megabytes() })
}

fn main() -> ExitCode {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(2))
        .measurement_time(Duration::from_secs(4))
        .configure_from_args();
    let mix = Mix::read();
    let mut measured = Vec::new();
    for (nodes, share) in NODES {
        for row in &mix.rows {
            measured.extend(measure(&mut criterion, &mix, row, nodes, share));
        }
    }
    criterion.final_summary();
    println!("| pods | nodes | decisions a second | at least | peak MB | at most |");
    println!("|---|---|---|---|---|---|");
    let mut short = false;
    for Measured { nodes, name, per_second, per_second_min, megabytes } in &measured {
        println!(
            "| {name} | {nodes} | {per_second:.0} | {per_second_min:.0} | {megabytes:.0} | {MEGABYTES_MAX} |"
        );
        short |= per_second < per_second_min || *megabytes > MEGABYTES_MAX;
    }
    if short {
        eprintln!("a row falls short of what is demanded");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
