//! How many instructions a decision takes, counted by Valgrind: the same on a busy machine as on an
//! idle one.
//!
//! The benchmark starts itself under Callgrind, once for each row of the mix, and counts only while
//! it decides.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads its arguments and starts itself")]

mod world;

use std::process::{Command, ExitCode};

use world::{Mix, World};

/// Decisions before the count, in which answers that are kept are computed first.
const WARM_UP: usize = 2_000;
/// Decisions that are counted.
const COUNTED: usize = 1_000;
const NODES: [usize; 2] = [5_000, 20_000];

/// What Callgrind counts.
#[inline(never)]
fn count_instructions(world: &mut World, pods: Vec<engine::fact::PodFact>) {
    world.decide(pods);
}

/// Decides for a row, as it is counted.
fn decide(row: usize, nodes: usize) {
    let mix = Mix::read();
    let row = &mix.rows[row];
    let mut world = World::new(&mix, row, nodes);
    world.decide(world.next(&mix, row, WARM_UP));
    let pods = world.next(&mix, row, COUNTED);
    count_instructions(&mut world, pods);
}

/// Instructions for each decision of a row.
fn counted(row: usize, nodes: usize) -> Result<u64, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=instructions::count_instructions*")
        .arg(own)
        .args(["--decide", &row.to_string(), &nodes.to_string()])
        .output()
        .map_err(|error| format!("cannot start valgrind, which must be installed: {error}"))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    let counted = |line: &str| line.split("Collected :").nth(1)?.trim().parse::<u64>().ok();
    let count = said.lines().find_map(counted);
    match count {
        Some(count) if ran.status.success() && count > 0 => Ok(count / COUNTED as u64),
        _ => Err(format!("valgrind counted nothing: {said}")),
    }
}

fn table() -> Result<(), String> {
    println!("| pods | nodes | instructions for each decision |");
    println!("|---|---|---|");
    for nodes in NODES {
        for (number, row) in Mix::read().rows.iter().enumerate() {
            println!("| {} | {nodes} | {} |", row.name, counted(number, nodes)?);
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = match &arguments[..] {
        [flag, row, nodes] if flag == "--decide" => row.parse().ok().zip(nodes.parse().ok()),
        _ => None,
    };
    let result = match wanted {
        Some((row, nodes)) => {
            decide(row, nodes);
            Ok(())
        }
        None => table(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
