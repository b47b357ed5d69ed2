//! Which controllers run beside the server.

use chassis::client::Client;
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

impl ControllerArguments {
    /// Starts them; they go on until shutdown begins.
    pub(crate) fn start(&self, client: &Client, seed: u64, ca_pem: &str, shutdown: &Shutdown) {
        let controllers = self.controllers.clone();
        let ca_pem = Some(ca_pem.to_owned());
        let options = Options { controllers, seed, ca_pem, ..Options::default() };
        let running = workloads::run(client.clone(), options, shutdown.token());
        shutdown.spawn("controllers", running);
    }
}
