//! The port of a scheduler, as kube-scheduler has it: over TLS, for those whom the API server
//! lets see it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use chassis::client::Client;
use chassis::serve::{Guard, GuardOptions, Server, Site, Tls};
use chassis::shutdown::Shutdown;

use crate::{machine, output};

/// Where health and metrics are served over TLS.
#[derive(clap::Args)]
pub(super) struct PortArguments {
    /// The address of the port below
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    bind_address: IpAddr,

    /// Serve /metrics, /metrics/slis, /debug, /apis/v1, /healthz, /livez and /readyz here over TLS;
    /// who sees the first four, the API server decides. 0 serves nothing
    #[arg(long, value_name = "PORT", default_value_t = 10259)]
    secure_port: u16,

    /// The certificate of the port, in PEM; otherwise one is made for this run
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// The key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// Paths that are open to everybody; one that ends in * stands for all that begin so
    #[arg(
        long,
        value_name = "PATHS",
        value_delimiter = ',',
        default_value = "/healthz,/readyz,/livez"
    )]
    authorization_always_allow_paths: Vec<String>,

    /// Whether the client authority of the cluster is not looked up: then certificates say nothing of
    /// who somebody is, and tokens do
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    authentication_skip_lookup: Option<bool>,

    /// Not needed: the API server of --kubeconfig is asked who somebody is
    #[arg(long, value_name = "PATH", hide = true)]
    authentication_kubeconfig: Option<PathBuf>,

    /// Not needed: the API server of --kubeconfig is asked who may see what
    #[arg(long, value_name = "PATH", hide = true)]
    authorization_kubeconfig: Option<PathBuf>,
}

impl PortArguments {
    /// Serves a site until shutdown begins, where that is asked for.
    ///
    /// # Errors
    /// When the port is taken, or the certificate cannot be used.
    pub(super) async fn start(
        &self,
        client: &Client,
        site: Site,
        shutdown: &Shutdown,
    ) -> Result<()> {
        if self.secure_port == 0 {
            return Ok(());
        }
        let tls = self.tls()?;
        let address = SocketAddr::new(self.bind_address, self.secure_port);
        let server = Server::bind(address).await.context("--secure-port (0 serves nothing)")?;
        output::note(&format!("health and metrics are on https://{}", server.address()));
        let open_paths = self.authorization_always_allow_paths.clone();
        let skips_lookup = self.authentication_skip_lookup == Some(true);
        let options = GuardOptions { open_paths, skips_lookup, ..GuardOptions::default() };
        let guard = Guard::new(client, options);
        shutdown.spawn("port", server.run_guarded(site, tls, guard, shutdown.token()));
        Ok(())
    }

    fn tls(&self) -> Result<Tls> {
        match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(certificate), Some(key)) => Ok(Tls::from_files(certificate, key)?),
            (None, None) => {
                let own = match self.bind_address.is_unspecified() {
                    true => machine::addresses()?,
                    false => Vec::new(),
                };
                let names = machine::names(self.bind_address, &own, [None, machine::host_name()]);
                Ok(Tls::self_signed(&names)?)
            }
            _ => bail!("--tls-cert-file and --tls-private-key-file go together"),
        }
    }
}
