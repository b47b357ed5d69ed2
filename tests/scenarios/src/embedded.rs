//! A drydock for one scenario, served over TLS in this process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use drydock::env::SystemEnv;
use drydock::request::Identity;
use drydock::request::authenticate::Credential;
use drydock::serve::{Authority, Kubeconfig, secret, serve};
use drydock::{Config, Drydock};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::backend::{Backend, Server};

/// A drydock that ends when this is dropped.
pub struct Embedded {
    /// How to reach it.
    pub server: Server,
    /// Its kubeconfig, for programs that need a file.
    pub kubeconfig: PathBuf,
    drydock: Drydock,
    authority: Authority,
    address: SocketAddr,
    serving: Serving,
    _folder: TempDir,
}

/// A time of serving, which ends when this is dropped.
struct Serving {
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl Serving {
    fn begin(drydock: &Drydock, listener: TcpListener, authority: &Authority) -> Self {
        let stop = CancellationToken::new();
        let (drydock, tls) = (drydock.clone(), authority.server.clone());
        let task = tokio::spawn(serve(drydock, listener, tls, stop.clone()));
        Self { stop: stop.drop_guard(), task }
    }
}

impl Embedded {
    /// Starts an empty drydock on a free port.
    ///
    /// # Errors
    /// When no port can be had or no file can be written.
    pub async fn start() -> Result<Self> {
        static SEED: AtomicU64 = AtomicU64::new(1);
        let authority = Authority::new(&["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        let (admin_token, outsider_token) = (secret()?, secret()?);
        let credential = |token: &str, user: &str, group: &str| Credential {
            token: token.to_owned(),
            identity: Identity { user: user.to_owned(), groups: vec![group.to_owned()] },
        };
        let config = Config {
            credentials: vec![
                credential(&admin_token, "admin", "system:masters"),
                credential(&outsider_token, "outsider", "outsiders"),
            ],
            ..Config::default()
        };
        let drydock = Drydock::new(config, SystemEnv::new(SEED.fetch_add(1, Ordering::Relaxed)));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let url = format!("https://{address}");
        let folder = tempfile::tempdir().context("cannot make a folder for a kubeconfig")?;
        let kubeconfig = folder.path().join("kubeconfig");
        let file = Kubeconfig {
            name: "drydock",
            url: &url,
            certificate_pem: &authority.certificate_pem,
            token: &admin_token,
        };
        file.write(&kubeconfig)?;
        let serving = Serving::begin(&drydock, listener, &authority);
        let server = Server {
            name: Backend::Drydock.name(),
            url,
            authority_pem: authority.certificate_pem.clone(),
            admin_token,
            outsider_token,
        };
        Ok(Self { server, kubeconfig, drydock, authority, address, serving, _folder: folder })
    }

    /// Ends every connection and the port, and opens them again over the same objects.
    ///
    /// # Errors
    /// When the port cannot be had again.
    pub async fn restart(&mut self) -> Result<()> {
        let Serving { stop, task } = &mut self.serving;
        stop.token().cancel();
        task.await.context("drydock does not end well")?;
        let listener = TcpListener::bind(self.address).await?;
        self.serving = Serving::begin(&self.drydock, listener, &self.authority);
        Ok(())
    }
}
