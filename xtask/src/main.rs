//! The chores of this repository, as `cargo xtask <chore>`.
//!
//! They are apart from the product: they may start programs, read the source tree and write
//! files into it, which nothing else here does.

mod bench;
mod control_plane;
mod coverage;
mod faults;
mod generate;
mod parity;
mod repository;
mod test;
mod tidy;

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
    Test(test::Arguments),
    Tidy(tidy::Arguments),
    Coverage(coverage::Arguments),
    Generate(generate::Arguments),
    ControlPlane(control_plane::Arguments),
    Bench(bench::Arguments),
    Parity(parity::Arguments),
    Faults(faults::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.chore {
        Chore::Test(arguments) => test::run(arguments),
        Chore::Tidy(arguments) => tidy::run(arguments),
        Chore::Coverage(arguments) => coverage::run(arguments),
        Chore::Generate(arguments) => generate::run(arguments),
        Chore::ControlPlane(arguments) => control_plane::run(arguments),
        Chore::Bench(arguments) => bench::run(arguments),
        Chore::Parity(arguments) => parity::run(arguments),
        Chore::Faults(arguments) => faults::run(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_chore_explains_itself_with_an_example() {
        fn check(command: &clap::Command) {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} has no description");
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Example"), "{name} has no example");
            command.get_subcommands().for_each(check);
        }
        check(&Arguments::command());
        Arguments::command().debug_assert();
    }
}
