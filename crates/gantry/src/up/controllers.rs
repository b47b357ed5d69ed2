//! Which controllers run beside the server.

use anyhow::Result;
use chassis::client::Client;
use chassis::shutdown::Shutdown;

/// Which controllers run.
#[derive(clap::Args)]
pub(crate) struct ControllerArguments {
    /// Controllers: `all`, `none`, or names such as deployment,replicaset separated by commas
    #[arg(long, value_name = "NAMES", default_value = "all")]
    controllers: String,
}

impl ControllerArguments {
    /// Starts them; they go on until shutdown begins.
    pub(crate) fn start(
        &self,
        _client: &Client,
        _ca_pem: &str,
        _shutdown: &Shutdown,
    ) -> Result<()> {
        let _ = &self.controllers;
        Ok(())
    }
}
