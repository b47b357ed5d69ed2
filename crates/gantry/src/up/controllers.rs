//! Which controllers run beside the server.

use chassis::client::Client;
use chassis::serve::{Health, Metrics};
use chassis::shutdown::Shutdown;
use tokio_util::sync::CancellationToken;
use workloads::{Options, Selection};

/// The name of the check whether they run.
pub(super) const CHECK: &str = "controllers";

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
    /// Where they tell whether they run.
    pub(crate) health: &'a Health,
}

impl ControllerArguments {
    /// Whether there are any.
    pub(crate) fn is_any(&self) -> bool {
        self.controllers.names().next().is_some()
    }

    /// Starts them; they go on until shutdown begins. What is returned is cancelled when all of
    /// them work.
    pub(crate) fn start(
        &self,
        client: &Client,
        given: Given<'_>,
        shutdown: &Shutdown,
    ) -> CancellationToken {
        let synced = CancellationToken::new();
        let options = Options {
            controllers: self.controllers.clone(),
            seed: given.seed,
            ca_pem: Some(given.ca_pem.to_owned()),
            metrics: given.metrics.clone(),
            synced: synced.clone(),
            ..Options::default()
        };
        let working = synced.clone();
        if self.is_any() {
            given.health.add_ready(CHECK, move || match synced.is_cancelled() {
                true => Ok(()),
                false => Err("they have not read what there is".to_owned()),
            });
        }
        let running = workloads::run(client.clone(), options, shutdown.token());
        shutdown.spawn("controllers", running);
        working
    }
}
