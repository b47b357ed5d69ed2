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
mod quota;
mod scheduler;
mod top;
mod up;
mod why;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

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
    Why(why::Arguments),
    Top(top::Arguments),
    Quota(quota::Arguments),
}

/// The name under which kubectl finds this program, which users call `kubectl gantry`.
const PLUGIN: &str = "kubectl-gantry";

/// The command line of a program that was started under this name.
fn command_line(program: Option<OsString>) -> (&'static str, clap::Command) {
    let command = Gantry::command();
    let own = program.as_deref().map(Path::new).and_then(Path::file_stem);
    if own != Some(PLUGIN.as_ref()) {
        return ("gantry", command);
    }
    let told = |command: clap::Command| {
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        command.after_help(examples.replace("  gantry ", "  kubectl gantry "))
    };
    let command = told(command).mut_subcommands(told);
    ("kubectl gantry", command.name("kubectl gantry").bin_name("kubectl gantry"))
}

fn main() -> ExitCode {
    let (name, command) = command_line(std::env::args_os().next());
    let gantry = Gantry::from_arg_matches(&command.get_matches()).unwrap_or_else(|e| e.exit());
    match run(gantry) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("{name}: {}", chain(&error)));
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
        Command::Why(arguments) => why::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Quota(arguments) => quota::run(&arguments),
    }
}

#[cfg(test)]
mod tests;
