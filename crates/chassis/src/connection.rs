//! Connections to programs: how they are secured, and how long they are kept.

mod reading;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Buf;
use http_body::Body;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::ConfigExt as _;
use kube::config::Config;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use reading::InPieces;

/// How long a connection may take to open.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an unused connection is kept: less than kube-apiserver's own 90 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// A peer that vanished without a word is noticed after about a minute.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;

/// How a connection is secured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Security {
    /// Whose certificates are good.
    pub trust: Trust,
    /// The name in the certificate, where it is not the host of the URL.
    pub server_name: Option<String>,
    /// How this program shows who it is.
    pub identity: Option<Identity>,
}

/// Whose certificates are good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Those of the authorities of the system.
    System,
    /// Those of these authorities.
    Authorities(Pem),
    /// Everybody's: whoever listens there gets to see what is sent.
    Anyone,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate.
    pub certificate: Pem,
    /// The key.
    pub key: Pem,
}

/// Something in PEM.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// In a file.
    File(PathBuf),
    /// Here.
    Inline(Vec<u8>),
}

impl fmt::Debug for Pem {
    /// What is inline may be a key, and is not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Inline(bytes) => write!(f, "Inline({} bytes)", bytes.len()),
        }
    }
}

/// Why a connection cannot be secured so.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    /// A file cannot be read.
    #[error("cannot read {file}: {source}", file = .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The authorities cannot be used.
    #[error("the authorities cannot be used: {0}")]
    Authorities(String),
}

impl Pem {
    fn read(&self) -> Result<Vec<u8>, SecurityError> {
        match self {
            Self::Inline(bytes) => Ok(bytes.clone()),
            Self::File(file) => std::fs::read(file)
                .map_err(|source| SecurityError::File { file: file.clone(), source }),
        }
    }
}

impl Trust {
    /// Has a connection trust nobody else, whom it trusted before included.
    pub(crate) fn apply(&self, config: &mut Config) -> Result<(), SecurityError> {
        config.root_cert_file = None;
        config.accept_invalid_certs = *self == Self::Anyone;
        config.root_cert = match self {
            Self::Authorities(pem) => Some(authorities(&pem.read()?)?),
            // No certificate is looked at: that the system has no authorities is no reason to fail.
            _ if config.cluster_url.scheme_str() == Some("http") => Some(Vec::new()),
            Self::System => None,
            Self::Anyone => Some(Vec::new()),
        };
        Ok(())
    }
}

impl Security {
    /// Has a connection secured so.
    pub(crate) fn apply(&self, config: &mut Config) -> Result<(), SecurityError> {
        self.trust.apply(config)?;
        config.tls_server_name.clone_from(&self.server_name);
        if let Some(Identity { certificate, key }) = &self.identity {
            let encode =
                |pem: &[u8]| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pem);
            config.auth_info.client_certificate_data = Some(encode(&certificate.read()?));
            config.auth_info.client_key_data = Some(encode(&key.read()?).into());
        }
        Ok(())
    }
}

fn authorities(pem: &[u8]) -> Result<Vec<Vec<u8>>, SecurityError> {
    let all = CertificateDer::pem_slice_iter(pem).map(|one| one.map(|der| der.to_vec()));
    let all = all.collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| SecurityError::Authorities(error.to_string()))?;
    if all.is_empty() {
        return Err(SecurityError::Authorities("there is no certificate".to_owned()));
    }
    Ok(all)
}

/// Connections as a configuration has them, each of which may take so long to open; none is made.
///
/// One that is idle is kept whatever their number: it is bounded by the requests that were under
/// way at once, which each client limits.
///
/// # Errors
/// When a certificate, a key or an authority cannot be used.
pub(crate) fn pool<B>(
    config: &Config,
    connect_timeout: Duration,
) -> Result<Client<impl Connect + Clone + Send + Sync + 'static, B>, kube::Error>
where
    B: Body<Data: Buf + Send> + Send,
{
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    // Small writes must not wait for the peer's delayed acknowledgement.
    http.set_nodelay(true);
    http.set_connect_timeout(Some(connect_timeout));
    http.set_keepalive(Some(KEEPALIVE));
    http.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    http.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    let https = config.rustls_https_connector_with_connector(InPieces(http))?;
    Ok(Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_timer(TokioTimer::new())
        .build(https))
}
