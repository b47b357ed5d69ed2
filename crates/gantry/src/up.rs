//! `gantry up`: a control plane with nodes, in one process.

mod controllers;
mod demos;
mod kubeconfig;
mod scheduling;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use chassis::client::{Client, Options};
use chassis::clock::Clock;
use chassis::serve::{Health, listen};
use chassis::shutdown::{GRACE, Shutdown};
use drydock::env::SystemEnv;
use drydock::request::Identity;
use drydock::request::authenticate::Credential;
use drydock::serve::{Authority, secret, seed, serve};
use drydock::{Config, Drydock, HealthCheck};
use scheduler::DEFAULT_SCHEDULER;
use scheduler::config::Configuration;
use scheduler::debug::Desk;

use crate::address::{self, Listen};
use crate::hollow_nodes::{self, NodeArguments, Run};
use crate::metrics::MetricsArguments;
use crate::progress::Line;
use crate::{machine, output};
use controllers::{ControllerArguments, Given};
use demos::DemoArguments;
use kubeconfig::Place;
use scheduling::SchedulerArguments;

/// Run a control plane with nodes in this process
///
/// An embedded Kubernetes API server with every kind of Gantry installed, workload
/// controllers, the scheduler, and nodes whose kubelet is simulated. Nothing is kept when it ends.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  gantry up
  gantry up --demo batch
  gantry up --nodes 100x32cpu,256Gi --nodes 8x96cpu,1Ti,8nvidia.com/gpu --kubeconfig ./kubeconfig")]
pub(crate) struct Arguments {
    #[command(flatten)]
    nodes: NodeArguments,

    #[command(flatten)]
    controllers: ControllerArguments,

    #[command(flatten)]
    scheduler: SchedulerArguments,

    #[command(flatten)]
    demo: DemoArguments,

    #[command(flatten)]
    metrics: MetricsArguments,

    /// Where to write the kubeconfig, making its folder where there is none [default: gantry.yaml in ~/.kube]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,

    /// Where to listen; port 0 takes a free one. Other than loopback addresses let others in, with
    /// the token of the kubeconfig; 0.0.0.0 means every address of this machine,
    /// of IPv6 too
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = address::parse_named)]
    listen: Listen,
}

/// Runs the command.
#[tokio::main]
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let clock = Clock::system();
    let shutdown = Shutdown::new();
    shutdown.listen_for_signals()?;
    let configuration = arguments.scheduler.configuration()?;
    arguments.demo.check(configuration.as_ref())?;
    let place = Place::find(arguments.kubeconfig.as_deref())?;
    place.make_free()?;
    let seed = arguments.nodes.seed.map_or_else(seed, Ok)?;
    let health = Health::new();
    let server = start_server(arguments, seed, (&place, &health), &shutdown).await?;
    let told = (arguments, configuration, seed);
    let result = keep_up(told, (&server, &place, &health), &shutdown).await;
    shutdown.begin();
    let joined = shutdown.join(&clock, GRACE).await;
    // Nobody can get in with it any more.
    let removed = place.remove(&server.token);
    result?;
    joined?;
    removed?;
    output::say("Gantry has ended.")
}

/// Puts everything on the server and waits until it is to end.
async fn keep_up(
    (arguments, configuration, seed): (&Arguments, Option<Configuration>, u64),
    (server, place, health): (&Server, &Place, &Health),
    shutdown: &Shutdown,
) -> Result<()> {
    let line = Line::new();
    let unserved = unserved(configuration.as_ref());
    install_crds(&in_process(&server.drydock, "up")).await?;
    let desk = configuration.as_ref().map(|_| Desk::default());
    let metrics = arguments.metrics.start_with(health, shutdown, desk.as_ref()).await?;
    let given = Given { seed, ca_pem: &server.certificate_pem, metrics: &metrics, health };
    let client = in_process(&server.drydock, "controllers");
    let working = arguments.controllers.start(&client, given, shutdown);
    let make = |options: &Options| in_process_as(&server.drydock, options);
    let given = (seed, &metrics, health);
    let mut scheduling = configuration
        .zip(desk)
        .map(|(own, desk)| scheduling::start(own, make, given, desk, shutdown));
    let mut nodes = None;
    if arguments.nodes.count() > 0 {
        let client = in_process(&server.drydock, "hollow-nodes");
        let run = Run { name: "gantry up", seed, metrics: &metrics, health };
        let started = arguments.nodes.start(&client, &run, shutdown)?;
        nodes.insert(started).finish(&line, shutdown).await?;
    }
    let all = async {
        working.cancelled().await;
        if let Some(scheduling) = &mut scheduling {
            scheduling.ready().await;
        }
    };
    tokio::select! {
        () = all => {}
        () = shutdown.begun() => {}
    }
    let client = in_process(&server.drydock, "demo");
    tokio::select! {
        biased;
        () = shutdown.begun() => {}
        made = arguments.demo.create(&client) => made?,
    }
    if !shutdown.has_begun() {
        let (nodes, to_try) = (arguments.nodes.count(), arguments.demo.to_try());
        line.end(&welcome(&server.url, place, nodes, to_try, &unserved))?;
    }
    shutdown.begun().await;
    if std::io::stdout().is_terminal() {
        output::say("")?;
    }
    if let Some(error) = nodes.and_then(|mut nodes| nodes.failure()) {
        return Err(error.into());
    }
    match scheduling.and_then(|mut own| own.failure()) {
        Some(error) => Err(error).context("the scheduler cannot run"),
        None => Ok(()),
    }
}

impl Arguments {
    /// What must run before the server counts as ready: whatever was asked for.
    fn checks(&self, health: &Health) -> Vec<HealthCheck> {
        let wanted = [
            (controllers::CHECK, self.controllers.is_any()),
            (scheduling::CHECK, self.scheduler.is_any()),
            (hollow_nodes::CHECK, self.nodes.count() > 0),
        ];
        let wanted = wanted.into_iter().filter(|(_, is_wanted)| *is_wanted);
        wanted
            .map(|(name, _)| {
                let health = health.clone();
                HealthCheck { name, run: Arc::new(move || health.check(name)) }
            })
            .collect()
    }
}

/// The client of a component that runs in this process, let in as one of the system. Each has
/// its own, so that none takes up the requests that another may have under way.
fn in_process(drydock: &Drydock, component: &str) -> Client {
    in_process_as(drydock, &Options::new(component))
}

fn in_process_as(drydock: &Drydock, options: &Options) -> Client {
    let groups = vec!["system:masters".to_owned()];
    let identity = Identity { user: "system:up".to_owned(), groups };
    Client::from_service(drydock.trusting(identity), options)
}

struct Server {
    drydock: Drydock,
    url: String,
    certificate_pem: String,
    token: String,
}

async fn start_server(
    arguments: &Arguments,
    seed: u64,
    (place, health): (&Place, &Health),
    shutdown: &Shutdown,
) -> Result<Server> {
    let listener = listen(arguments.listen.address).await?;
    let local = listener.local_addr().context("cannot tell where the server listens")?;
    // Of all addresses of the machine, those of the sort that was named are meant first.
    let address = SocketAddr::new(arguments.listen.address.ip(), local.port());
    // A wildcard address is where to listen, not where to go.
    let own = if address.ip().is_unspecified() { machine::addresses()? } else { Vec::new() };
    let hosts = [arguments.listen.name.clone(), machine::host_name()];
    let names = machine::names(address.ip(), &own, hosts);
    let authority = Authority::new(&names)?;
    let token = secret()?;
    let reached = SocketAddr::new(machine::reached_at(address.ip(), &own), address.port());
    let url = format!("https://{reached}");
    let identity = Identity { user: "admin".to_owned(), groups: vec!["system:masters".to_owned()] };
    let config = Config {
        credentials: vec![Credential { token: token.clone(), identity }],
        checks: arguments.checks(health),
        ..Config::default()
    };
    let drydock = Drydock::new(config, SystemEnv::new(seed));
    place.write(&url, &authority.certificate_pem, &token)?;
    let serving = serve(drydock.clone(), listener, authority.server, shutdown.token());
    shutdown.spawn("API server", serving);
    Ok(Server { drydock, url, certificate_pem: authority.certificate_pem, token })
}

async fn install_crds(client: &Client) -> Result<()> {
    for crd in api::crds::all() {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let call = chassis::client::Call::new(http::Method::POST, path)
            .body("application/yaml", crd.yaml.as_bytes());
        client.call_bytes(call).await.with_context(|| format!("cannot install {}", crd.name))?;
    }
    Ok(())
}

/// What is said where pods that name no scheduler get no node.
fn unserved(configuration: Option<&Configuration>) -> String {
    let Some(configuration) = configuration else {
        return "\nNobody gives pods their nodes: that is for a scheduler that you run.\n"
            .to_owned();
    };
    let names: Vec<&str> = configuration.profiles.iter().map(|own| &*own.scheduler_name).collect();
    match names.contains(&DEFAULT_SCHEDULER) {
        true => String::new(),
        false => format!(
            "\nOnly pods whose spec.schedulerName is {} get nodes: --scheduler-config has no profile \
             for {DEFAULT_SCHEDULER}.\n",
            names.join(" or ")
        ),
    }
}

fn welcome(url: &str, place: &Place, nodes: usize, to_try: &str, unserved: &str) -> String {
    let noun = if nodes == 1 { "node" } else { "nodes" };
    format!(
        "Gantry is up on {url} with {nodes} {noun}.

  export KUBECONFIG={}

Then try:
{to_try}
{unserved}
Ctrl-C ends it.",
        place.as_shell_word()
    )
}
