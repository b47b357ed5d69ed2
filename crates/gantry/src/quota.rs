//! `gantry quota`: who has which share of the cluster.

use std::path::PathBuf;

use anyhow::{Context, Result};
use chassis::client::{Client, Options, Source};
use clap::ValueEnum;
use scheduler::config::Configuration;
use scheduler::quotas::tree::{Question, Trees, from_objects};

use crate::output;

/// Say who has which share of the cluster: what quotas are guaranteed, may use, use, lend and borrow
///
/// It is worked out from the objects of the cluster, as the scheduler counts them: nodes, pods and
/// ElasticQuotas are listed once.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  gantry quota
  gantry quota --pods
  gantry quota team-a
  gantry quota --output json")]
pub(crate) struct Arguments {
    /// One quota, with those above and below it and the pods that use it [default: all of them]
    #[arg(value_name = "NAME")]
    quota: Option<String>,

    /// Show the pods that use each quota, the largest first
    #[arg(long)]
    pods: bool,

    /// Read which tree each quota is of, as the scheduler does with feature gate MultiQuotaTree
    #[arg(long)]
    trees: bool,

    /// How to show it
    #[arg(long, short, value_name = "FORM", value_enum, default_value_t = Form::Text)]
    output: Form,

    /// The kubeconfig of the API server [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// The KubeSchedulerConfiguration by which quotas are reckoned [default: as Koordinator's chart
    /// has it]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Runs the command.
#[tokio::main]
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let configuration = match &arguments.config {
        Some(file) => scheduler::config::load(file)?,
        None => Configuration::of_both(),
    };
    let source = Source::from_flags(arguments.kubeconfig.clone(), arguments.context.clone());
    let client = Client::connect(&source, &Options::new("quota")).await?;
    let question = Question {
        quota: arguments.quota.clone(),
        with_pods: arguments.pods,
        trees: if arguments.trees { Trees::Many } else { Trees::One },
    };
    let shares = from_objects(&client, &configuration, &question).await?;
    for note in shares.notes() {
        output::note(&note);
    }
    match arguments.output {
        Form::Text => output::say(&shares.text()),
        Form::Json => {
            let text = serde_json::to_string_pretty(&shares.to_json());
            output::say(&text.context("cannot write the answer as JSON")?)
        }
    }
}
