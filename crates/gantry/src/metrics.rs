//! Where a command shows its metrics and its health, when asked to.

use std::net::SocketAddr;

use anyhow::Result;
use chassis::serve::{Health, Metrics, Server, Site};
use chassis::shutdown::Shutdown;

use crate::{address, output};

/// Where metrics and health are served.
#[derive(clap::Args)]
pub(crate) struct MetricsArguments {
    /// Serve /metrics, /healthz, /livez and /readyz of this process here, over plain HTTP to anyone who can
    /// reach it; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", value_parser = address::parse)]
    metrics: Option<SocketAddr>,
}

impl MetricsArguments {
    /// Serves what the process shows of itself until shutdown begins, where that was asked for.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub(crate) async fn start(&self, health: &Health, shutdown: &Shutdown) -> Result<Metrics> {
        let metrics = Metrics::new();
        if let Some(address) = self.metrics {
            let server = Server::bind(address).await?;
            output::note(&format!("metrics are on http://{}/metrics", server.address()));
            let running = server.run(Site::new(&metrics, health), shutdown.token());
            shutdown.spawn("metrics", running);
        }
        Ok(metrics)
    }
}
