//! `gantry why`: why a pod or a Reservation has no node, or why a gang has not started, and what would help.

mod remote;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use chassis::client::{Client, Credentials, Options, Source};
use chassis::connection::{Pem, Trust};
use clap::ValueEnum;
use scheduler::config::Configuration;
use scheduler::why::{Answer, from_objects, gang_from_objects, reservation_from_objects};

use crate::output;

/// Say why a pod, a Reservation or a gang has no node, and what would give it one
///
/// The scheduler is asked where --scheduler says where it is; otherwise the answer is worked out
/// from the objects of the cluster, all of which are listed once.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  gantry why pod web-0
  gantry why pod web-0 --namespace shop --output json
  gantry why reservation batch
  gantry why podgroup resnet --namespace vision
  gantry why pod web-0 --scheduler http://127.0.0.1:10251
  gantry why pod web-0 --scheduler https://10.0.0.7:10259 --certificate-authority ca.crt")]
pub(crate) struct Arguments {
    /// What to ask about: pod NAME, or pod/NAME; reservation NAME, or reservation/NAME; podgroup NAME, or
    /// podgroup/NAME, and gang NAME the same, also where only its pods say that there is such a gang
    #[arg(value_name = "pod|reservation|podgroup|gang NAME", required = true, num_args = 1..=2)]
    subject: Vec<String>,

    /// The namespace of the pod or of the gang [default: that of the kubeconfig's context]
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,

    /// How to say it
    #[arg(long, short, value_name = "FORM", value_enum, default_value_t = Form::Text)]
    output: Form,

    /// The kubeconfig of the API server [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Where the scheduler shows its metrics, to have it answer itself: http://127.0.0.1:10251 where
    /// it does so with --metrics, or its secure port, as in https://10.0.0.7:10259. The latter is
    /// asked with the credentials of the kubeconfig's user
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    scheduler: Option<String>,

    /// The authority of the scheduler's certificate, in PEM [default: those that this machine
    /// trusts]
    #[arg(long, value_name = "FILE", requires = "scheduler")]
    certificate_authority: Option<PathBuf>,

    /// Do not check the scheduler's certificate. Whoever listens there gets to see the credentials
    #[arg(long, requires = "scheduler", conflicts_with = "certificate_authority")]
    insecure_skip_tls_verify: bool,

    /// A token to ask the scheduler with, instead of the credentials of the kubeconfig's user
    #[arg(long, value_name = "TOKEN", requires = "scheduler")]
    token: Option<String>,

    /// The KubeSchedulerConfiguration by which to work it out [default: as kube-scheduler does
    /// without one, and for pods of koord-scheduler as Koordinator's chart has it]
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
    let asked = Asked::of(&arguments.subject)?;
    let answer = arguments.ask(asked).await?;
    match arguments.output {
        Form::Text => output::say(&answer.to_string()),
        Form::Json => {
            let text = serde_json::to_string_pretty(&answer);
            output::say(&text.context("cannot write the answer as JSON")?)
        }
    }
}

/// What is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked<'a> {
    /// A pod of this name.
    Pod(&'a str),
    /// A Reservation of this name.
    Reservation(&'a str),
    /// A gang of this name.
    Gang(&'a str),
}

impl<'a> Asked<'a> {
    fn of(subject: &'a [String]) -> Result<Self> {
        let (kind, name) = match subject {
            [both] => both.split_once('/').unwrap_or((both, "")),
            [kind, name] => (kind.as_str(), name.as_str()),
            _ => ("", ""),
        };
        let (noun, asked): (_, fn(&'a str) -> Self) = match kind {
            "pod" | "pods" | "po" => ("pod", Self::Pod),
            "reservation" | "reservations" => ("reservation", Self::Reservation),
            "podgroup" | "podgroups" | "pg" => ("podgroup", Self::Gang),
            "gang" | "gangs" => ("gang", Self::Gang),
            _ => {
                let example = match subject {
                    [name] if !name.contains('/') => format!("why pod {name}"),
                    _ => "why pod NAME".to_owned(),
                };
                bail!(
                    "{kind:?} cannot be asked about: only pods, reservations and podgroups can, as in \
                     `{example}`"
                );
            }
        };
        if name.is_empty() || name.contains('/') {
            bail!("say which {noun}, as in `why {noun} NAME`");
        }
        Ok(asked(name))
    }
}

impl Arguments {
    async fn ask(&self, asked: Asked<'_>) -> Result<Answer> {
        let source = Source::from_flags(self.kubeconfig.clone(), self.context.clone());
        if let Some(url) = &self.scheduler {
            let page = match asked {
                Asked::Pod(name) => remote::page_of_pod(&self.namespace_by(&source).await, name),
                Asked::Reservation(name) => remote::page_of_reservation(name),
                Asked::Gang(name) => remote::page_of_gang(&self.namespace_by(&source).await, name),
            };
            return self.scheduler(url, source)?.ask(&page).await;
        }
        let configuration = match &self.config {
            Some(file) => scheduler::config::load(file)?,
            None => Configuration::of_both(),
        };
        let client = Client::connect(&source, &Options::new("why")).await?;
        let namespace = self.namespace.as_deref().unwrap_or(client.default_namespace());
        let answer = match asked {
            Asked::Pod(name) => from_objects(&client, &configuration, namespace, name).await,
            Asked::Reservation(name) => {
                reservation_from_objects(&client, &configuration, name).await
            }
            Asked::Gang(name) => gang_from_objects(&client, &configuration, namespace, name).await,
        };
        Ok(answer?)
    }

    /// The namespace of the pod or of the gang, where nobody else knows it.
    async fn namespace_by(&self, source: &Source) -> String {
        match &self.namespace {
            Some(namespace) => namespace.clone(),
            None => Client::connect(source, &Options::new("why"))
                .await
                .map_or_else(|_| "default".to_owned(), |own| own.default_namespace().to_owned()),
        }
    }
}

impl Arguments {
    /// The scheduler that is asked.
    fn scheduler(&self, url: &str, source: Source) -> Result<remote::Scheduler> {
        let credentials = match &self.token {
            Some(token) => Credentials::Token(token.clone()),
            None => Credentials::Of(source),
        };
        let trust = match &self.certificate_authority {
            Some(file) => Trust::Authorities(Pem::File(file.clone())),
            None if self.insecure_skip_tls_verify => Trust::Anyone,
            None => Trust::System,
        };
        let plain = self.token.is_none() && trust == Trust::System;
        remote::Scheduler::at(url, credentials, trust, plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pods_reservations_and_gangs_can_be_asked_about() {
        let check = |subject: &[&str], expected: Result<Asked<'_>, &str>| {
            let subject: Vec<String> = subject.iter().map(ToString::to_string).collect();
            let got = Asked::of(&subject).map_err(|error| error.to_string());
            assert_eq!(got, expected.map_err(ToOwned::to_owned), "{subject:?}");
        };
        check(&["pod", "web-0"], Ok(Asked::Pod("web-0")));
        check(&["pods", "web-0"], Ok(Asked::Pod("web-0")));
        check(&["pod/web-0"], Ok(Asked::Pod("web-0")));
        check(&["po/web-0"], Ok(Asked::Pod("web-0")));
        check(&["reservation", "batch"], Ok(Asked::Reservation("batch")));
        check(&["reservations/batch"], Ok(Asked::Reservation("batch")));
        for podgroup in [&["podgroup", "g"][..], &["podgroup/g"], &["pg/g"], &["podgroups", "g"]] {
            check(podgroup, Ok(Asked::Gang("g")));
        }
        check(&["gang", "g"], Ok(Asked::Gang("g")));
        check(&["pg"], Err("say which podgroup, as in `why podgroup NAME`"));
        check(&["gang", "a/b"], Err("say which gang, as in `why gang NAME`"));
        let others = "cannot be asked about: only pods, reservations and podgroups can, as in `why pod \
                      NAME`";
        check(&["node", "n1"], Err(&format!("\"node\" {others}")));
        let this = others.replace("NAME", "web-0");
        check(&["web-0"], Err(&format!("\"web-0\" {this}")));
        check(&["deployment/web"], Err(&format!("\"deployment\" {others}")));
        for nothing in [&["pod"][..], &["pod", ""], &["pod/"], &["pod", "a/b"]] {
            check(nothing, Err("say which pod, as in `why pod NAME`"));
        }
        check(&["reservation"], Err("say which reservation, as in `why reservation NAME`"));
    }
}
