//! `gantry crds`: the CustomResourceDefinitions of every kind Gantry reads.

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};

/// Print the CustomResourceDefinitions of all kinds as YAML
///
/// The output is what `kubectl apply -f -` takes, on any cluster.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  gantry crds | kubectl apply -f -")]
pub(crate) struct Arguments {}

/// Runs the command.
pub(crate) fn run(_arguments: &Arguments) -> Result<()> {
    match std::io::stdout().write_all(api::crds::to_yaml_stream().as_bytes()) {
        // Whoever reads has seen enough, as `head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}
