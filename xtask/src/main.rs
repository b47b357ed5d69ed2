//! The chores of this repository, as `cargo xtask <chore>`.
//!
//! They are apart from the product: they may start programs, read the source tree and write
//! files into it, which nothing else here does.

mod control_plane;
mod generate;
mod progress;
mod repository;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The chores of this repository: test, look after the house, generate files.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = "Example:\n  cargo xtask test    everything that must hold before a change is pushed"
)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    ControlPlane(control_plane::Arguments),
    Generate(generate::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.chore {
        Chore::ControlPlane(arguments) => control_plane::run(arguments),
        Chore::Generate(arguments) => generate::run(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
