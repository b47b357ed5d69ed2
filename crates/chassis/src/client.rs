//! The client of a Kubernetes API server.
//!
//! It is a thin layer over the `kube` crate's client, which brings TLS, kubeconfigs and
//! credentials: requests are built here, and answers are decoded in one pass straight
//! into the lean type that the caller names. It retries nothing: a caller knows whether a
//! repeated write is safe, the client does not.
//!
//! Requests go over HTTP/1.1, on as many connections as there are requests in flight (up to
//! [`Options::in_flight_max`]), which serves many small writes better than one HTTP/2
//! connection does.

mod access;
mod connect;
mod error;
mod events;
mod limit;
mod resource;
mod typed;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

pub use access::{
    Access, Binding, DeleteOptions, Eviction, ListOptions, Page, Patch, Preconditions, Propagation,
    WatchOptions,
};
pub use connect::{ConnectError, Source};
pub(crate) use error::innermost_cause;
pub use error::{Cause, Error, Reason, Refusal};
pub use events::{Event, EventStream, StreamError};
pub use limit::Rate;
pub use resource::{Identity, Nameplate, NameplateMeta, Object, ResourceType};

use crate::clock::Clock;
use limit::Bucket;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// How a client behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The component, as the server's logs and managed fields name it.
    pub component: String,
    /// How long to wait for an answer; a watch waits so long for its first byte only.
    pub timeout: Duration,
    /// How many requests may be under way at once, watches apart.
    pub in_flight_max: usize,
    /// A limit on requests per second; none by default.
    pub rate: Option<Rate>,
    /// The clock that timeouts and the rate are counted by.
    pub clock: Clock,
}

impl Options {
    /// The options of a component: a minute's timeout, 64 requests in flight (where a
    /// kube-apiserver saturates), no rate limit.
    #[must_use]
    pub fn new(component: &str) -> Self {
        Self {
            component: component.to_owned(),
            timeout: Duration::from_mins(1),
            in_flight_max: 64,
            rate: None,
            clock: Clock::system(),
        }
    }

    /// `gantry/<version> (<component>)`.
    fn user_agent(&self) -> HeaderValue {
        let plain: String =
            self.component.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').collect();
        let text = format!("gantry/{} ({plain})", env!("CARGO_PKG_VERSION"));
        HeaderValue::from_str(&text).expect("graphic ASCII is a header value")
    }
}

/// A client; clones share its connections and limits.
#[derive(Clone)]
pub struct Client {
    inner: kube::Client,
    shared: Arc<Shared>,
}

struct Shared {
    /// Where the server is, for errors.
    server: String,
    user_agent: HeaderValue,
    timeout: Duration,
    in_flight: Semaphore,
    bucket: Option<Mutex<Bucket>>,
    clock: Clock,
}

/// A request before it is sent: what the API server's own words for it are.
#[derive(Debug, Clone)]
pub struct Call {
    method: Method,
    path: String,
    accept: HeaderValue,
    content_type: HeaderValue,
    body: Bytes,
}

impl Call {
    /// A request without a body.
    #[must_use]
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        let body = Bytes::new();
        Self { method, path: path.into(), accept: JSON, content_type: JSON, body }
    }

    /// The same, asking for another form of the answer than plain JSON.
    #[must_use]
    pub fn accept(mut self, form: &'static str) -> Self {
        self.accept = HeaderValue::from_static(form);
        self
    }

    /// The same with `body` as JSON.
    ///
    /// # Errors
    /// When `body` has no JSON form.
    pub fn json(mut self, body: &(impl serde::Serialize + ?Sized)) -> Result<Self, Error> {
        self.body = serde_json::to_vec(body).map_err(Error::Unwritable)?.into();
        Ok(self)
    }

    /// The same with `body` as it is, of the given content type.
    #[must_use]
    pub fn body(mut self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        self.content_type = HeaderValue::from_static(content_type);
        self.body = body.into();
        self
    }

    /// The same with a query parameter more.
    #[must_use]
    pub fn query(mut self, key: &str, value: &str) -> Self {
        resource::push_query(&mut self.path, key, value);
        self
    }
}

impl Client {
    /// A client of the server behind `service`: an in-process server, or a transport of
    /// the caller's own. Must be called within a tokio runtime.
    pub fn from_service<S, B>(service: S, options: &Options) -> Self
    where
        S: tower::Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<tower::BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<tower::BoxError>,
    {
        let server = "the API server in this process".to_owned();
        Self::wrap(kube::Client::new(service, "default"), server, options)
    }

    /// A client of the server that `source` tells of. Must be called within a tokio
    /// runtime. No request is sent.
    ///
    /// # Errors
    /// When the configuration cannot be found or read, or cannot work.
    pub async fn connect(source: &Source, options: &Options) -> Result<Self, ConnectError> {
        let (inner, server) = connect::connect(source, options).await?;
        Ok(Self::wrap(inner, server, options))
    }

    fn wrap(inner: kube::Client, server: String, options: &Options) -> Self {
        let shared = Shared {
            server,
            user_agent: options.user_agent(),
            timeout: options.timeout,
            in_flight: Semaphore::new(options.in_flight_max.clamp(1, Semaphore::MAX_PERMITS)),
            bucket: options.rate.and_then(Bucket::new).map(Mutex::new),
            clock: options.clock.clone(),
        };
        Self { inner, shared: Arc::new(shared) }
    }

    /// The namespace of the configuration's context, or `default`.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        self.inner.default_namespace()
    }

    /// The client of the `kube` crate underneath.
    #[must_use]
    pub fn inner(&self) -> &kube::Client {
        &self.inner
    }

    /// The clock that this client counts by.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Sends a request and decodes the answer. Use [`serde::de::IgnoredAny`] where the
    /// answer does not matter.
    ///
    /// # Errors
    /// When there is no answer, it is a refusal, or it is not an `R`.
    pub async fn call<R: DeserializeOwned>(&self, call: Call) -> Result<R, Error> {
        let (asked, body) = self.exchange(call).await?;
        serde_json::from_slice(&body).map_err(|source| asked.unreadable(source))
    }

    /// Sends a request and returns the bytes of the answer.
    ///
    /// # Errors
    /// When there is no answer, or it is a refusal.
    pub async fn call_bytes(&self, call: Call) -> Result<Bytes, Error> {
        Ok(self.exchange(call).await?.1)
    }

    async fn exchange(&self, call: Call) -> Result<(Asked, Bytes), Error> {
        let (asked, request) = self.request(call)?;
        self.wait_for_rate().await;
        // Before the clock runs: waiting for one's own turn is not the server's silence.
        let _permit = self.shared.in_flight.acquire().await.ok();
        let exchange = async {
            let response = self.inner.send(request).await.map_err(cause_of)?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map_err(cause_of)?.to_bytes();
            Ok::<_, tower::BoxError>((parts, body))
        };
        let limit = self.shared.timeout;
        match self.shared.clock.timeout(limit, exchange).await {
            None => Err(asked.timed_out(limit)),
            Some(Err(source)) => Err(asked.unreachable(&self.shared.server, source)),
            Some(Ok((parts, body))) if parts.status.is_success() => Ok((asked, body)),
            Some(Ok((parts, body))) => Err(asked.refused(&parts, &body)),
        }
    }

    /// Sends a request and returns the body as it comes, for a watch. The timeout ends
    /// with the head of the answer, and the request does not count as in flight.
    ///
    /// # Errors
    /// When there is no answer, or it is a refusal.
    pub async fn open(&self, call: Call) -> Result<Body, Error> {
        let (asked, request) = self.request(call)?;
        self.wait_for_rate().await;
        let exchange = async {
            let response = self.inner.send(request).await.map_err(cause_of)?;
            let (parts, body) = response.into_parts();
            if parts.status.is_success() {
                return Ok((parts, Ok(body)));
            }
            let body = body.collect().await.map_err(cause_of)?.to_bytes();
            Ok::<_, tower::BoxError>((parts, Err(body)))
        };
        let limit = self.shared.timeout;
        match self.shared.clock.timeout(limit, exchange).await {
            None => Err(asked.timed_out(limit)),
            Some(Err(source)) => Err(asked.unreachable(&self.shared.server, source)),
            Some(Ok((_, Ok(body)))) => Ok(body),
            Some(Ok((parts, Err(body)))) => Err(asked.refused(&parts, &body)),
        }
    }

    fn request(&self, call: Call) -> Result<(Asked, Request<Body>), Error> {
        let mut request = Request::builder()
            .method(call.method)
            .uri(call.path)
            .header(USER_AGENT, self.shared.user_agent.clone())
            .header(ACCEPT, call.accept);
        if !call.body.is_empty() {
            request = request.header(CONTENT_TYPE, call.content_type);
        }
        let request = request
            .body(Body::from(call.body))
            .map_err(|error| Error::Request { what: error.to_string() })?;
        let asked = Asked { verb: request.method().clone(), uri: request.uri().clone() };
        Ok((asked, request))
    }

    async fn wait_for_rate(&self) {
        let Some(bucket) = &self.shared.bucket else { return };
        let now = self.shared.clock.monotonic();
        let wait = bucket.lock().unwrap_or_else(PoisonError::into_inner).take(now);
        if !wait.is_zero() {
            self.shared.clock.sleep(wait).await;
        }
    }
}

/// What the transport said, without the wrapping that says only "service error".
fn cause_of(error: kube::Error) -> tower::BoxError {
    match error {
        kube::Error::Service(cause) => cause,
        kube::Error::HyperError(cause) => cause.into(),
        other => other.into(),
    }
}

/// A request that is under way. The parts are shared with it: text is made of them only
/// where there is an error to tell.
struct Asked {
    verb: Method,
    uri: http::Uri,
}

impl Asked {
    fn parts(self) -> (Method, String) {
        (self.verb, self.uri.to_string())
    }

    fn timed_out(self, limit: Duration) -> Error {
        let (verb, path) = self.parts();
        Error::TimedOut { verb, path, limit }
    }

    fn unreachable(self, server: &str, source: tower::BoxError) -> Error {
        let ((verb, path), server) = (self.parts(), server.to_owned());
        Error::Unreachable { verb, path, server, source }
    }

    fn unreadable(self, source: serde_json::Error) -> Error {
        let (verb, path) = self.parts();
        Error::Unreadable { verb, path, source }
    }

    fn refused(self, parts: &http::response::Parts, body: &[u8]) -> Error {
        let retry_after = parts.headers.get(http::header::RETRY_AFTER);
        let seconds = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        let refusal = Box::new(Refusal::parse(parts.status.as_u16(), seconds, body));
        let (verb, path) = self.parts();
        Error::Refused { verb, path, refusal }
    }
}

#[cfg(test)]
mod tests;
