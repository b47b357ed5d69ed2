//! Where a command shows its metrics and its health, when asked to.

use std::net::SocketAddr;

use anyhow::Result;
use chassis::serve::{Health, Metrics, Server, Site};
use chassis::shutdown::Shutdown;
use scheduler::debug::Desk;

use crate::{address, output};

/// Where metrics and health are served.
#[derive(clap::Args)]
pub(crate) struct MetricsArguments {
    /// Serve /metrics, /metrics/slis, /healthz, /livez and /readyz of this process here, over plain
    /// HTTP to anyone who can reach it; on a loopback address also /debug and /apis/v1, where a
    /// scheduler runs in it. Port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", value_parser = address::parse)]
    metrics: Option<SocketAddr>,
}

impl MetricsArguments {
    /// Serves what the process shows of itself until shutdown begins, where that was asked for.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub(crate) async fn start(&self, health: &Health, shutdown: &Shutdown) -> Result<Metrics> {
        self.start_with(health, shutdown, None).await
    }

    /// The same, with the pages of a scheduler where nobody but this machine can reach them.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub(crate) async fn start_with(
        &self,
        health: &Health,
        shutdown: &Shutdown,
        desk: Option<&Desk>,
    ) -> Result<Metrics> {
        let metrics = Metrics::new();
        metrics.show_process();
        if let Some(address) = self.metrics {
            let server = Server::bind(address).await?;
            output::note(&format!("metrics are on http://{}/metrics", server.address()));
            let mut site = Site::new(&metrics, health);
            // Whoever can connect is let in, and not everybody may see everybody's pods.
            if let Some(desk) = desk.filter(|_| address.ip().is_loopback()) {
                site = scheduler::debug::pages(site, desk);
                let own = server.address();
                output::note(&format!(
                    "why a pod waits: gantry why pod NAME --scheduler http://{own}"
                ));
            }
            let running = server.run(site, shutdown.token());
            shutdown.spawn("metrics", running);
        }
        Ok(metrics)
    }
}
