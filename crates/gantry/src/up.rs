//! `gantry up`: a control plane with nodes, in one process.

mod controllers;
mod kubeconfig;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use chassis::client::{Client, Options};
use chassis::clock::Clock;
use chassis::shutdown::Shutdown;
use drydock::env::SystemEnv;
use drydock::request::Identity;
use drydock::request::authenticate::Credential;
use drydock::serve::{Authority, listen, secret, seed, serve};
use drydock::{Config, Drydock};

use crate::hollow_nodes::NodeArguments;
use crate::metrics::MetricsArguments;
use crate::progress::Line;
use crate::{address, output};
use controllers::{ControllerArguments, Given};
use kubeconfig::Place;

/// How long tasks may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// Run a control plane with nodes in this process
///
/// An embedded Kubernetes API server with every kind of Gantry installed, workload
/// controllers, and nodes whose kubelet is simulated. Nothing is kept when it ends.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  gantry up
  gantry up --nodes 100x32cpu,256Gi --nodes 8x96cpu,1Ti,8nvidia.com/gpu --kubeconfig ./kubeconfig")]
pub(crate) struct Arguments {
    #[command(flatten)]
    nodes: NodeArguments,

    #[command(flatten)]
    controllers: ControllerArguments,

    #[command(flatten)]
    metrics: MetricsArguments,

    /// Where to write the kubeconfig [default: gantry.yaml in ~/.kube]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,

    /// Where to listen; port 0 takes a free one. Other than loopback addresses let others in
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = address::parse)]
    listen: SocketAddr,
}

/// Runs the command.
#[tokio::main]
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let clock = Clock::system();
    let shutdown = Shutdown::new();
    shutdown.listen_for_signals()?;
    let place = Place::find(arguments.kubeconfig.as_deref())?;
    place.check_free()?;
    let seed = arguments.nodes.seed.map_or_else(seed, Ok)?;
    let server = start_server(arguments, seed, &place, &shutdown).await?;
    let result = keep_up(arguments, seed, (&server, &place), &shutdown).await;
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
    arguments: &Arguments,
    seed: u64,
    (server, place): (&Server, &Place),
    shutdown: &Shutdown,
) -> Result<()> {
    let line = Line::new();
    install_crds(&in_process(&server.drydock, "up")).await?;
    let (metrics, health) = arguments.metrics.start(shutdown).await?;
    let given = Given { seed, ca_pem: &server.certificate_pem, metrics: &metrics };
    arguments.controllers.start(&in_process(&server.drydock, "controllers"), given, shutdown);
    let mut nodes = None;
    if arguments.nodes.count() > 0 {
        let client = in_process(&server.drydock, "hollow-nodes");
        let started = arguments.nodes.start(&client, seed, (&metrics, &health), shutdown)?;
        nodes.insert(started).finish(&line, shutdown).await?;
    }
    if !shutdown.has_begun() {
        line.end(&welcome(&server.url, place, arguments.nodes.count()))?;
    }
    shutdown.begun().await;
    if std::io::stdout().is_terminal() {
        output::say("")?;
    }
    match nodes.and_then(|mut nodes| nodes.failure()) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// The client of a component that runs in this process, let in as one of the system. Each has
/// its own, so that none takes up the requests that another may have under way.
fn in_process(drydock: &Drydock, component: &str) -> Client {
    let groups = vec!["system:masters".to_owned()];
    let identity = Identity { user: "system:up".to_owned(), groups };
    Client::from_service(drydock.trusting(identity), &Options::new(component))
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
    place: &Place,
    shutdown: &Shutdown,
) -> Result<Server> {
    let listener = listen(arguments.listen).await?;
    let address = listener.local_addr().context("cannot tell where the server listens")?;
    let mut names = vec!["127.0.0.1".to_owned(), "localhost".to_owned(), "::1".to_owned()];
    let host = address.ip().to_string();
    if !names.contains(&host) {
        names.push(host.clone());
    }
    let authority = Authority::new(&names)?;
    let token = secret()?;
    // A wildcard address is where to listen, not where to go.
    let url = match address.ip().is_unspecified() {
        true => format!("https://127.0.0.1:{}", address.port()),
        false => format!("https://{address}"),
    };
    let identity = Identity { user: "admin".to_owned(), groups: vec!["system:masters".to_owned()] };
    let config = Config {
        credentials: vec![Credential { token: token.clone(), identity }],
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

fn welcome(url: &str, place: &Place, nodes: usize) -> String {
    let noun = if nodes == 1 { "node" } else { "nodes" };
    format!(
        "Gantry is up on {url} with {nodes} {noun}.

  export KUBECONFIG={}

Then try:
  kubectl get nodes
  kubectl create deployment web --image=nginx --replicas=3
  kubectl get deployments,pods --output=wide

Ctrl-C ends it.",
        place.as_shell_word()
    )
}
