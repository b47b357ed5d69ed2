//! Controllers of Kubernetes workloads, as ordinary clients of an API server.
//!
//! Deployments, replica sets, jobs, garbage collection, deletion of namespaces, disruption
//! budgets, the life of nodes, pods without one, default service accounts and the root certificate: what
//! kube-controller-manager does of this, these do, on the embedded server and on a real one
//! alike. They hold a client and nothing else; they know no server from inside.
//!
//! Each controller is a folder with a pure core (facts and the time in, decisions out) and
//! a thin shell that watches, asks the core and writes. All of them share one watch for
//! each resource (`informer`), which keeps lean facts (`facts`) instead of whole
//! objects. What was written and has not come back through the watch yet is a claim
//! (`claims`), so that nothing is done twice while the watch lags.
//!
//! ```no_run
//! # async fn example(client: chassis::client::Client) {
//! use tokio_util::sync::CancellationToken;
//! use workloads::{Options, Selection};
//!
//! let stop = CancellationToken::new();
//! let controllers: Selection = "*,-node-lifecycle".parse().expect("known names");
//! let options = Options { controllers, ..Options::default() };
//! workloads::run(client, options, stop).await;
//! # }
//! ```

mod claims;
mod deployment;
mod discovery;
mod disruption;
mod facts;
mod failure;
mod garbage;
mod informer;
mod job;
#[cfg(test)]
mod lag;
mod namespace;
mod node_lifecycle;
mod ownership;
mod pod_gc;
mod pods;
mod replica_set;
mod root_ca;
mod selection;
mod server;
mod service_account;
mod start;
mod write;

use std::time::Duration;

use chassis::client::Client;
use chassis::controller::go_on_panicking;
use chassis::informer::How;
use chassis::metrics::Metrics;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use selection::{Name, Selection, UnknownName, known_names};

use informer::Informers;
use start::Start;

/// What to run, and how. The clock is that of the client.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which controllers run.
    pub controllers: Selection,
    /// The certificate of the API server's authority, for `kube-root-ca.crt`; without it no
    /// such config map is made.
    pub ca_pem: Option<String>,
    /// How long a node may be silent before it counts as gone.
    pub node_monitor_grace: Duration,
    /// The same for a node that has never reported.
    pub node_startup_grace: Duration,
    /// What spreads the waits after failures.
    pub seed: u64,
    /// Where to tell what happens.
    pub metrics: Metrics,
    /// Cancelled once every controller has read what there is and works.
    pub synced: CancellationToken,
}

impl Default for Options {
    /// All controllers, with the times of kube-controller-manager 1.35.
    fn default() -> Self {
        Self {
            controllers: Selection::all(),
            ca_pem: None,
            node_monitor_grace: Duration::from_secs(50),
            node_startup_grace: Duration::from_mins(1),
            seed: 0,
            metrics: Metrics::new(),
            synced: CancellationToken::new(),
        }
    }
}

/// Runs the chosen controllers until `stop` is cancelled, then waits for what they have
/// under way.
///
/// # Panics
/// When a controller panics: the panic goes on, so that the process ends.
pub async fn run(client: Client, options: Options, stop: CancellationToken) {
    let client = client.counted(&options.metrics);
    let mut informers = Informers::new(&client);
    let mut tasks = JoinSet::new();
    let graces = node_lifecycle::Graces {
        monitor: options.node_monitor_grace,
        startup: options.node_startup_grace,
    };
    let (seed, metrics) = (options.seed, &options.metrics);
    let mut waits = Vec::new();
    for name in options.controllers.names() {
        let (informers, tasks) = (&mut informers, &mut tasks);
        let (client, stop) = (&client, &stop);
        let waits = &mut waits;
        let mut start = Start { client, informers, tasks, stop, seed, metrics, waits };
        match name {
            Name::Deployment => deployment::start(&mut start),
            Name::ReplicaSet => replica_set::start(&mut start),
            Name::Job => job::start(&mut start),
            Name::GarbageCollector => garbage::start(&mut start),
            Name::Namespace => namespace::start(&mut start),
            Name::Disruption => disruption::start(&mut start),
            Name::NodeLifecycle => node_lifecycle::start(&mut start, graces),
            Name::PodGc => pod_gc::start(&mut start),
            Name::ServiceAccount => service_account::start(&mut start),
            Name::RootCa => {
                if let Some(pem) = &options.ca_pem {
                    root_ca::start(&mut start, pem);
                }
            }
        }
    }
    let (synced, end) = (options.synced, stop.clone());
    tasks.spawn(async move {
        let all = async {
            for synced in waits {
                synced.cancelled().await;
            }
        };
        tokio::select! {
            () = all => synced.cancel(),
            () = end.cancelled() => {}
        }
    });
    informers.start(&mut tasks, &How { seed, metrics: metrics.clone(), stop: stop.clone() });
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            stop.cancel();
            go_on_panicking(error);
        }
    }
}
