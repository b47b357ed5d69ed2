//! A drydock for one scenario, served over TLS in this process.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use drydock::env::SystemEnv;
use drydock::request::Identity;
use drydock::request::authenticate::Credential;
use drydock::serve::{Authority, Kubeconfig, listen, secret, serve};
use drydock::{Config, Drydock};
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::backend::{Backend, Server};

/// A drydock that ends when this is dropped.
pub struct Embedded {
    /// How to reach it.
    pub server: Server,
    /// Its kubeconfig, for programs that need a file.
    pub kubeconfig: PathBuf,
    _folder: TempDir,
    _stop: DropGuard,
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
        let listener = listen("127.0.0.1:0".parse()?).await?;
        let url = format!("https://{}", listener.local_addr()?);
        let folder = tempfile::tempdir().context("cannot make a folder for a kubeconfig")?;
        let kubeconfig = folder.path().join("kubeconfig");
        let file = Kubeconfig {
            name: "drydock",
            url: &url,
            certificate_pem: &authority.certificate_pem,
            token: &admin_token,
        };
        file.write(&kubeconfig)?;
        let stop = CancellationToken::new();
        tokio::spawn(serve(drydock, listener, authority.server, stop.clone()));
        let server = Server {
            name: Backend::Drydock.name(),
            url,
            authority_pem: authority.certificate_pem,
            admin_token,
            outsider_token,
        };
        Ok(Self { server, kubeconfig, _folder: folder, _stop: stop.drop_guard() })
    }
}
