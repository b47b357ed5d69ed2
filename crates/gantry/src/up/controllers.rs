//! Which controllers run beside the server.

use chassis::client::Client;
use chassis::shutdown::Shutdown;
use workloads::{Options, Selection};

/// Which controllers run.
#[derive(clap::Args)]
pub(crate) struct ControllerArguments {
    /// Controllers: `*` for all, names such as deployment,replica-set, `-name` to leave one out,
    /// or `none`
    #[arg(long, value_name = "NAMES", default_value = "*", allow_hyphen_values = true, value_parser = parse)]
    controllers: Controllers,
}

/// A selection that may be empty.
#[derive(Clone)]
struct Controllers(Option<Selection>);

fn parse(text: &str) -> Result<Controllers, String> {
    if text == "none" {
        return Ok(Controllers(None));
    }
    let selection = text.parse::<Selection>().map_err(|error| error.to_string())?;
    Ok(Controllers(Some(selection)))
}

impl ControllerArguments {
    /// Starts them; they go on until shutdown begins.
    pub(crate) fn start(&self, client: &Client, ca_pem: &str, shutdown: &Shutdown) {
        let Some(controllers) = self.controllers.0.clone() else { return };
        let options =
            Options { controllers, ca_pem: Some(ca_pem.to_owned()), ..Options::default() };
        let running = workloads::run(client.clone(), options, shutdown.token());
        shutdown.spawn("controllers", running);
    }
}
