//! Programs that are asked over HTTP and are no API servers.
//!
//! A [`Peer`] posts JSON and returns what came back, within limits of time and size. What the
//! answer means is not known here, and nothing is tried twice.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::ConfigExt as _;
use kube::config::Config;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::clock::Clock;

/// How long an unused connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// How a connection is secured.
#[derive(Clone)]
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
    /// Those of these authorities, in PEM.
    Authorities(Vec<u8>),
    /// Everybody's.
    Anyone,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: Vec<u8>,
    /// The key.
    pub key: Vec<u8>,
}

/// What an answer may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long all of it may take.
    pub timeout: Duration,
    /// How long the body may be.
    pub bytes_max: usize,
}

/// Why nothing can be asked.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// A certificate, a key or an authority cannot be used.
    #[error("{0}")]
    Security(String),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// No connection was made, so that nothing was sent.
    #[error("{0}")]
    Unreachable(String),
    /// It took too long; what was asked may have been done.
    #[error("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    TimedOut,
    /// The connection broke; what was asked may have been done.
    #[error("{0}")]
    Broken(String),
    /// The answer is too long.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Incoming>, Error>> + Send>>;

/// A program outside; clones share its connections.
#[derive(Clone)]
pub struct Peer {
    send: Arc<dyn Fn(Request<Full<Bytes>>) -> Answering + Send + Sync>,
    clock: Clock,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").finish_non_exhaustive()
    }
}

impl Peer {
    /// A program at URLs like this one. No connection is made.
    ///
    /// # Errors
    /// When a certificate, a key or an authority cannot be used.
    pub fn new(like: &Uri, security: &Security, clock: &Clock) -> Result<Self, PeerError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        let config = config(like, security)?;
        let https = config.rustls_https_connector_with_connector(http);
        let https = https.map_err(|error| PeerError::Security(error.to_string()))?;
        let pool: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(https);
        let send = move |request| -> Answering { Box::pin(pool.request(request)) };
        Ok(Self { send: Arc::new(send), clock: clock.clone() })
    }

    /// Posts JSON, and returns code and body of the answer.
    ///
    /// # Errors
    /// When there is no whole answer within the limits.
    pub async fn post(
        &self,
        url: &Uri,
        body: Bytes,
        limits: Limits,
    ) -> Result<(StatusCode, Bytes), PostError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = url.clone();
        request.headers_mut().insert(CONTENT_TYPE, JSON);
        let exchange = async {
            let answer = (self.send)(request).await.map_err(|error| failed(url, &error))?;
            let (parts, body) = answer.into_parts();
            Ok((parts.status, gathered(body, limits.bytes_max).await?))
        };
        let answer = self.clock.timeout(limits.timeout, exchange).await;
        answer.unwrap_or(Err(PostError::TimedOut))
    }
}

/// What is known of the connection, as one to an API server would be described.
fn config(like: &Uri, security: &Security) -> Result<Config, PeerError> {
    let Security { trust, server_name, identity } = security;
    let mut config = Config::new(like.clone());
    let is_plain = like.scheme_str() == Some("http");
    config.root_cert = match trust {
        Trust::Authorities(pem) => Some(authorities(pem)?),
        Trust::System if !is_plain => None,
        Trust::System | Trust::Anyone => Some(Vec::new()),
    };
    config.accept_invalid_certs = *trust == Trust::Anyone;
    config.tls_server_name.clone_from(server_name);
    if let Some(Identity { certificate, key }) = identity {
        let encode = |pem: &[u8]| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pem);
        config.auth_info.client_certificate_data = Some(encode(certificate));
        config.auth_info.client_key_data = Some(encode(key).into());
    }
    Ok(config)
}

fn authorities(pem: &[u8]) -> Result<Vec<Vec<u8>>, PeerError> {
    let bad = |why: String| PeerError::Security(format!("the authorities cannot be read: {why}"));
    let all = CertificateDer::pem_slice_iter(pem).map(|one| one.map(|der| der.to_vec()));
    let all: Vec<Vec<u8>> =
        all.collect::<Result<_, _>>().map_err(|error| bad(error.to_string()))?;
    if all.is_empty() { Err(bad("there is no certificate".to_owned())) } else { Ok(all) }
}

/// Why there was no answer, in the words of the innermost cause.
fn failed(url: &Uri, error: &Error) -> PostError {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if !error.is_connect() {
        return PostError::Broken(cause.to_string());
    }
    let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    let is_refused = io == Some(std::io::ErrorKind::ConnectionRefused);
    let port = if url.scheme_str() == Some("https") { 443 } else { 80 };
    let address = format!("{}:{}", url.host().unwrap_or_default(), url.port_u16().unwrap_or(port));
    let why = if is_refused { "connect: connection refused".to_owned() } else { cause.to_string() };
    PostError::Unreachable(format!("dial tcp {address}: {why}"))
}

async fn gathered(mut body: Incoming, bytes_max: usize) -> Result<Bytes, PostError> {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| PostError::Broken(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if all.len() + data.len() > bytes_max {
            return Err(PostError::TooLong(bytes_max));
        }
        all.extend_from_slice(&data);
    }
    Ok(all.freeze())
}

#[cfg(test)]
mod tests;
