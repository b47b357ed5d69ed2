//! Which controllers run beside the server.

use chassis::client::Client;
use chassis::serve::Metrics;
use chassis::shutdown::Shutdown;
use workloads::{Options, Selection};

/// Which controllers run.
#[derive(clap::Args)]
pub(crate) struct ControllerArguments {
    #[arg(long, value_name = "NAMES", default_value = "*", allow_hyphen_values = true, help = help())]
    controllers: Selection,
}

fn help() -> String {
    format!(
        "Controllers: * for all, names separated by commas, -NAME to leave one out, or none. \
         Names: {}",
        workloads::known_names()
    )
}

/// What controllers are given beside the client.
pub(crate) struct Given<'a> {
    /// What their waits are drawn from.
    pub(crate) seed: u64,
    /// The certificate of the server's authority.
    pub(crate) ca_pem: &'a str,
    /// Where they count.
    pub(crate) metrics: &'a Metrics,
}

impl ControllerArguments {
    /// Starts them; they go on until shutdown begins.
    pub(crate) fn start(&self, client: &Client, given: Given<'_>, shutdown: &Shutdown) {
        let options = Options {
            controllers: self.controllers.clone(),
            seed: given.seed,
            ca_pem: Some(given.ca_pem.to_owned()),
            metrics: given.metrics.clone(),
            ..Options::default()
        };
        let running = workloads::run(client.clone(), options, shutdown.token());
        shutdown.spawn("controllers", running);
    }
}
