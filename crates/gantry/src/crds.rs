//! `gantry crds`: the CustomResourceDefinitions of every kind Gantry reads.

use anyhow::Result;

use crate::output;

/// Print the CustomResourceDefinitions of all kinds as YAML
///
/// The output is what `kubectl apply -f -` takes, on any cluster.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  gantry crds | kubectl apply -f -")]
pub(crate) struct Arguments {}

/// Runs the command.
pub(crate) fn run(_arguments: &Arguments) -> Result<()> {
    output::write(&api::crds::to_yaml_stream())
}
