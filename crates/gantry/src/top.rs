//! `gantry top`: how full nodes are.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use chassis::client::{Client, Options, Source};
use clap::ValueEnum;
use scheduler::config::Configuration;
use scheduler::top::{Question, SortKey, View, from_objects};

use crate::output;

/// Say how full nodes are: what is requested, reserved, estimated and used of what they have
///
/// It is worked out from the objects of the cluster, as the scheduler counts them: nodes, pods,
/// reservations and the reports of nodes are listed once.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  gantry top nodes
  gantry top nodes --sort-by used-cpu
  gantry top nodes node-0001 --bands
  gantry top nodes --output json")]
pub(crate) struct Arguments {
    /// What to show: nodes, or nodes NAME
    #[arg(value_name = "nodes [NAME]", required = true, num_args = 1..=2)]
    subject: Vec<String>,

    /// The order of nodes: name, report, or the share of what they have, as in requested-cpu,
    /// reserved-cpu, estimated-cpu or used-cpu, and the same with memory; the fullest come first
    #[arg(long, value_name = "KEY", default_value_t)]
    sort_by: SortKey,

    /// Show what pods of each priority band have: prod, mid, batch, free, and those of none
    #[arg(long)]
    bands: bool,

    /// How to show it
    #[arg(long, short, value_name = "FORM", value_enum, default_value_t = Form::Text)]
    output: Form,

    /// The kubeconfig of the API server [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// The KubeSchedulerConfiguration by which loads are estimated [default: as Koordinator's
    /// chart has it]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// CPU and memory, for people
    Text,
    /// Every resource, and how many pods there are
    Wide,
    /// For programs
    Json,
}

/// Runs the command.
#[tokio::main]
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let node = node_of(&arguments.subject)?;
    let view = match (arguments.output, arguments.bands) {
        (Form::Wide, true) => bail!("--bands and --output wide are two tables: ask for one"),
        (_, true) => View::Bands,
        (Form::Wide, false) => View::Wide,
        (Form::Text | Form::Json, false) => View::Plain,
    };
    let configuration = match &arguments.config {
        Some(file) => scheduler::config::load(file)?,
        None => Configuration::of_both(),
    };
    let source = Source::from_flags(arguments.kubeconfig.clone(), arguments.context.clone());
    let client = Client::connect(&source, &Options::new("top")).await?;
    let question = Question { node: node.map(str::to_owned), sort: arguments.sort_by };
    let top = from_objects(&client, &configuration, &question).await?;
    for note in top.notes() {
        output::note(&note);
    }
    match arguments.output {
        Form::Text | Form::Wide => output::say(&top.text(view)),
        Form::Json => {
            let text = serde_json::to_string_pretty(&top.to_json());
            output::say(&text.context("cannot write the answer as JSON")?)
        }
    }
}

/// The node that is asked about; none where all are.
fn node_of(subject: &[String]) -> Result<Option<&str>> {
    let (kind, name) = match subject {
        [both] => {
            both.split_once('/').map_or((both.as_str(), None), |(kind, own)| (kind, Some(own)))
        }
        [kind, name] => (kind.as_str(), Some(name.as_str())),
        _ => ("", None),
    };
    if !matches!(kind, "node" | "nodes" | "no") {
        bail!("{kind:?} cannot be shown: only nodes can, as in `top nodes` or `top nodes NAME`");
    }
    if name.is_some_and(|name| name.is_empty() || name.contains('/')) {
        bail!("say which node, as in `top nodes NAME`, or none for all of them");
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_can_be_shown() {
        let check = |subject: &[&str], expected: Result<Option<&str>, &str>| {
            let subject: Vec<String> = subject.iter().map(ToString::to_string).collect();
            let got = node_of(&subject).map_err(|error| error.to_string());
            assert_eq!(got, expected.map_err(ToOwned::to_owned), "{subject:?}");
        };
        check(&["nodes"], Ok(None));
        check(&["node"], Ok(None));
        check(&["nodes", "n1"], Ok(Some("n1")));
        check(&["node/n1"], Ok(Some("n1")));
        let others = "cannot be shown: only nodes can, as in `top nodes` or `top nodes NAME`";
        check(&["pods"], Err(&format!("\"pods\" {others}")));
        check(&["pod", "p"], Err(&format!("\"pod\" {others}")));
        for nothing in [&["nodes", ""][..], &["node/"], &["nodes", "a/b"]] {
            check(nothing, Err("say which node, as in `top nodes NAME`, or none for all of them"));
        }
    }
}
