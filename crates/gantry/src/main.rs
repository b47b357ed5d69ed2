//! The `gantry` program: every component behind one command line.
//!
//! This crate knows flags, files and the terminal, and which component stands on
//! which; what a component does is in its own crate.

// They panic where nobody reads: see `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod address;
mod crds;
mod hollow_nodes;
mod machine;
mod metrics;
mod output;
mod progress;
mod scheduler;
mod up;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Puts work where it belongs on Kubernetes: pods on nodes, jobs in queues, applications on
/// clusters.
#[derive(Parser)]
#[command(
    name = "gantry",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Example:\n  gantry up --nodes 5"
)]
struct Gantry {
    #[command(subcommand)]
    command: Command,

    /// What is logged: a level such as `info`, or levels by module such as `warn,drydock=debug`
    #[arg(long, global = true, env = "GANTRY_LOG", default_value = "warn", value_name = "FILTER")]
    log: String,
}

#[derive(Subcommand)]
enum Command {
    Up(up::Arguments),
    Scheduler(Box<scheduler::Arguments>),
    Crds(crds::Arguments),
    HollowNodes(hollow_nodes::Arguments),
}

fn main() -> ExitCode {
    let gantry = Gantry::parse();
    match run(gantry) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("gantry: {}", chain(&error)));
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes in one line; a cause that was told already is not told again.
fn chain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| {
        match told.ends_with(&cause) {
            _ if told.is_empty() => cause,
            true => told,
            false => format!("{told}: {cause}"),
        }
    })
}

fn run(gantry: Gantry) -> Result<()> {
    chassis::logging::init(chassis::logging::Format::for_stderr(), &gantry.log)?;
    match gantry.command {
        Command::Up(arguments) => up::run(&arguments),
        Command::Scheduler(arguments) => scheduler::run(*arguments),
        Command::Crds(arguments) => crds::run(&arguments),
        Command::HollowNodes(arguments) => hollow_nodes::run(&arguments),
    }
}

#[cfg(test)]
mod tests;
