//! Programs that are asked over HTTP and are no API servers.
//!
//! A [`Peer`] posts JSON and returns what came back, within limits of time and size. What the
//! answer means is not known here, and nothing is tried twice.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Collected, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Error;
use kube::config::Config;

use crate::client::innermost_cause;
use crate::clock::Clock;
use crate::connection::{self, Security, SecurityError};
use crate::permission::{Outgoing, Permission, Withheld, outgoing};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

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
    /// A certificate, a key or an authority cannot be read.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// A certificate, a key or an authority cannot be used.
    #[error(transparent)]
    Unusable(#[from] kube::Error),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// When its connection was there this process might not ask; nothing was sent. See
    /// [`Peer::guarded`].
    #[error("not sent, since this process may not write now")]
    NotAllowed,
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
    /// Asked before each post.
    permission: Option<Permission>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").finish_non_exhaustive()
    }
}

impl Peer {
    /// A program at URLs like this one, whose answers are waited for so long. No connection is
    /// made; one to where nobody answers is given up before that, so that it is clear that nothing
    /// was asked.
    ///
    /// # Errors
    /// When a certificate, a key or an authority cannot be used.
    pub fn new(
        like: &Uri,
        security: &Security,
        timeout: Duration,
        clock: &Clock,
    ) -> Result<Self, PeerError> {
        let mut config = Config::new(like.clone());
        security.apply(&mut config)?;
        let connect_timeout = connection::CONNECT_TIMEOUT.min(timeout.mul_f64(0.8));
        let pool = connection::pool::<Outgoing<Full<Bytes>>>(&config, connect_timeout)?;
        let send = move |request| -> Answering { Box::pin(pool.request(outgoing(request))) };
        Ok(Self { send: Arc::new(send), clock: clock.clone(), permission: None })
    }

    /// The same program, over the same connections, where each post asks whether it may be sent:
    /// when its connection is there, and nothing was sent. One that may not is
    /// [`PostError::NotAllowed`].
    #[must_use]
    pub fn guarded(&self, may_write: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { permission: Some(Permission::new(may_write)), ..self.clone() }
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
        if let Some(permission) = &self.permission {
            permission.ask().map_err(|_| PostError::NotAllowed)?;
            permission.attach(&mut request);
        }
        let exchange = async {
            let answer = (self.send)(request).await.map_err(|error| failed(url, &error))?;
            let (parts, body) = answer.into_parts();
            Ok((parts.status, gathered(body, limits.bytes_max).await?))
        };
        let answer = self.clock.timeout(limits.timeout, exchange).await;
        answer.unwrap_or(Err(PostError::TimedOut))
    }
}

/// Why there was no answer, in the words of the innermost cause.
fn failed(url: &Uri, error: &Error) -> PostError {
    let cause = innermost_cause(error);
    if Withheld::is_cause(error) {
        return PostError::NotAllowed;
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

async fn gathered(body: Incoming, bytes_max: usize) -> Result<Bytes, PostError> {
    let all = Limited::new(body, bytes_max).collect().await;
    all.map(Collected::to_bytes).map_err(|error| match error.is::<LengthLimitError>() {
        true => PostError::TooLong(bytes_max),
        false => PostError::Broken(innermost_cause(&*error).to_string()),
    })
}

#[cfg(test)]
mod tests;
