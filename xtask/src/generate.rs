//! `cargo xtask generate`: files of this repository that a program writes.

pub mod kinds;

use anyhow::Result;
use clap::Subcommand;

/// Write files of this repository that are facts about other programs
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask generate kinds")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Write what a real kube-apiserver serves, for the embedded server to serve the same
    ///
    /// Starts a real kube-apiserver and writes its discovery and the structure of its OpenAPI
    /// schemas, without their texts, to crates/drydock/src/kinds/generated.
    #[command(after_help = "Example:\n  cargo xtask generate kinds && git diff --stat")]
    Kinds,
}

/// Runs the chore.
pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments.what {
        What::Kinds => kinds::run(),
    }
}
