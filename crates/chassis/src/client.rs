//! The client of a Kubernetes API server.
//!
//! The `kube` crate brings TLS, kubeconfigs and credentials; requests are built and sent here,
//! and answers are decoded in one pass straight into the lean type that the caller names. It retries nothing: a caller knows whether a
//! repeated write is safe, the client does not.
//!
//! Requests go over HTTP/1.1, on as many connections as there are requests in flight (up to
//! [`Options::in_flight_max`]), which serves many small writes better than one HTTP/2
//! connection does.

mod access;
mod connect;
mod elsewhere;
mod error;
mod events;
mod json;
mod limit;
mod page;
mod resource;
mod transport;
mod typed;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::response::Parts;
use http::{Method, Request, Response};
pub use kube::client::Body;
use serde::de::DeserializeOwned;

pub use access::{
    Access, Binding, DeleteOptions, Eviction, ListOptions, Patch, Preconditions, Propagation,
    WatchOptions,
};
pub use connect::{ConnectError, Source};
pub use elsewhere::Credentials;
pub(crate) use error::innermost_cause;
pub use error::{Cause, Error, Reason, Refusal};
pub use events::{Event, EventStream, StreamError};
pub(crate) use limit::Bucket;
pub use limit::{Rate, UnderWay};
pub use page::{Page, Unread};
pub use resource::{Identity, Nameplate, NameplateMeta, Object, ResourceType};
pub use transport::AnswerBody;

use crate::clock::Clock;
use crate::metrics::{Metrics, RequestMeters};
use crate::permission::{Permission, Withheld};
use limit::Limits;
use transport::{Transport, Turn, gather};

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
    /// Where requests count that are under way.
    pub under_way: UnderWay,
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
            under_way: UnderWay::default(),
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
    transport: Transport,
    shared: Arc<Shared>,
    /// Asked before each write.
    permission: Option<Permission>,
    /// Where requests are counted.
    meters: Option<RequestMeters>,
}

struct Shared {
    /// Where the server is, for errors.
    server: String,
    default_namespace: String,
    user_agent: HeaderValue,
    timeout: Duration,
    limits: Limits,
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
        self.body = body.into();
        self.content_type(content_type)
    }

    /// The same, naming its body as something else than plain JSON.
    #[must_use]
    pub fn content_type(mut self, content_type: &'static str) -> Self {
        self.content_type = HeaderValue::from_static(content_type);
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
    /// the caller's own.
    pub fn from_service<S, B>(service: S, options: &Options) -> Self
    where
        S: tower::Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<tower::BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<tower::BoxError>,
    {
        let server = "the API server in this process".to_owned();
        Self::wrap(Transport::new(service, Turn::Give), server, "default".to_owned(), options)
    }

    /// A client of the server that `source` tells of. Must be called within a tokio
    /// runtime. No request is sent.
    ///
    /// # Errors
    /// When the configuration cannot be found or read, or cannot work.
    pub async fn connect(source: &Source, options: &Options) -> Result<Self, ConnectError> {
        let (transport, server, namespace) = connect::connect(source).await?;
        Ok(Self::wrap(transport, server, namespace, options))
    }

    fn wrap(
        transport: Transport,
        server: String,
        default_namespace: String,
        options: &Options,
    ) -> Self {
        let shared = Shared {
            server,
            default_namespace,
            user_agent: options.user_agent(),
            timeout: options.timeout,
            limits: Limits::new(options.in_flight_max, options.rate, options.under_way.clone()),
            clock: options.clock.clone(),
        };
        Self { transport, shared: Arc::new(shared), permission: None, meters: None }
    }

    /// A client with limits of its own over the same connections: what it sends takes
    /// nothing of this one's budget, and waits for nothing of it. Where requests count that are
    /// under way, its own do too.
    #[must_use]
    pub fn apart(&self, in_flight_max: usize, rate: Option<Rate>) -> Self {
        let shared = Shared {
            server: self.shared.server.clone(),
            default_namespace: self.shared.default_namespace.clone(),
            user_agent: self.shared.user_agent.clone(),
            timeout: self.shared.timeout,
            limits: self.shared.limits.beside(in_flight_max, rate),
            clock: self.shared.clock.clone(),
        };
        Self { shared: Arc::new(shared), ..self.clone() }
    }

    /// The same client, over the same connections and within the same limits, that asks before
    /// each write (whatever is not a GET) whether it may: after all waiting, when nothing was
    /// sent. One that may not is [`Error::NotAllowed`].
    #[must_use]
    pub fn guarded(&self, may_write: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { permission: Some(Permission::new(may_write)), ..self.clone() }
    }

    /// The same client, over the same connections and within the same limits, that counts its
    /// requests there: `rest_client_…`, as Kubernetes' own programs do.
    #[must_use]
    pub fn counted(&self, metrics: &Metrics) -> Self {
        let server: Option<http::Uri> = self.shared.server.parse().ok();
        let authority = server.as_ref().and_then(http::Uri::authority);
        let host = authority.map_or(self.shared.server.as_str(), |own| own.as_str());
        Self { meters: Some(metrics.requests(host)), ..self.clone() }
    }

    /// The namespace of the configuration's context, or `default`.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        &self.shared.default_namespace
    }

    /// Sends a request as it is, outside all limits and without asking whether it may.
    ///
    /// # Errors
    /// What the transport says.
    pub async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<Response<AnswerBody>, tower::BoxError> {
        self.transport.open(request).await
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
        json::parse(&body).map_err(|source| asked.unreadable(source))
    }

    /// Sends a request and returns the bytes of the answer.
    ///
    /// # Errors
    /// When there is no answer, or it is a refusal.
    pub async fn call_bytes(&self, call: Call) -> Result<Bytes, Error> {
        Ok(self.exchange(call).await?.1)
    }

    /// Sends a request whose good answer says nothing beyond that it is one.
    ///
    /// # Errors
    /// When there is no answer, or it is a refusal.
    pub async fn call_unread(&self, call: Call) -> Result<(), Error> {
        self.exchange(call).await.map(|_| ())
    }

    async fn exchange(&self, call: Call) -> Result<(Asked, Bytes), Error> {
        let (asked, request) = self.request(call)?;
        let begun = self.shared.clock.monotonic();
        // Before the clock runs: waiting for one's own turn is not the server's silence.
        let _turn = self.shared.limits.turn(&self.shared.clock).await;
        let limit = self.shared.timeout;
        let answer = self.shared.clock.timeout(limit, self.transport.exchange(request)).await;
        self.count(&asked, Some(begun), answer.as_ref());
        match answer {
            None => Err(asked.timed_out(limit)),
            Some(Err(source)) => Err(asked.unsent_or_lost(&self.shared.server, source)),
            Some(Ok((parts, body))) if parts.status.is_success() => Ok((asked, body)),
            Some(Ok((parts, body))) => Err(asked.refused(&parts, &body)),
        }
    }

    /// Sends a request and returns the body as it comes, for a watch. The timeout ends
    /// with the head of the answer, and the request does not count as in flight.
    ///
    /// # Errors
    /// When there is no answer, or it is a refusal.
    pub async fn open(&self, call: Call) -> Result<AnswerBody, Error> {
        let (asked, request) = self.request(call)?;
        self.shared.limits.wait_for_rate(&self.shared.clock).await;
        let exchange = async {
            let (parts, body) = self.transport.open(request).await?.into_parts();
            if parts.status.is_success() {
                return Ok((parts, Ok(body)));
            }
            Ok::<_, tower::BoxError>((parts, Err(gather(body).await?)))
        };
        let limit = self.shared.timeout;
        let answer = self.shared.clock.timeout(limit, exchange).await;
        self.count(&asked, None, answer.as_ref());
        match answer {
            None => Err(asked.timed_out(limit)),
            Some(Err(source)) => Err(asked.unsent_or_lost(&self.shared.server, source)),
            Some(Ok((_, Ok(body)))) => Ok(body),
            Some(Ok((parts, Err(body)))) => Err(asked.refused(&parts, &body)),
        }
    }

    /// Counts a request by what came back (nothing did where there is no answer in time), and how
    /// long it took since it was `begun`, where its end was waited for.
    fn count<B>(
        &self,
        asked: &Asked,
        begun: Option<Duration>,
        answer: Option<&Result<(Parts, B), tower::BoxError>>,
    ) {
        let Some(meters) = &self.meters else { return };
        let status = match answer {
            Some(Ok((parts, _))) => Some(parts.status),
            // Nothing was sent.
            Some(Err(error)) if Withheld::is_cause(error.as_ref()) => return,
            Some(Err(_)) | None => None,
        };
        meters.answered(&asked.verb, status);
        if let Some(begun) = begun {
            let now = self.shared.clock.monotonic();
            meters.took(&asked.verb, now.saturating_sub(begun));
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
        let mut request = request
            .body(Body::from(call.body))
            .map_err(|error| Error::Request { what: error.to_string() })?;
        if let Some(permission) = &self.permission {
            permission.attach(&mut request);
        }
        let asked = Asked { verb: request.method().clone(), uri: request.uri().clone() };
        Ok((asked, request))
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

    fn unsent_or_lost(self, server: &str, source: tower::BoxError) -> Error {
        let ((verb, path), server) = (self.parts(), server.to_owned());
        if Withheld::is_cause(source.as_ref()) {
            return Error::NotAllowed { verb, path };
        }
        Error::Unreachable { verb, path, server, source }
    }

    fn unreadable(self, source: serde_json::Error) -> Error {
        let (verb, path) = self.parts();
        Error::Unreadable { verb, path, source }
    }

    fn refused(self, parts: &Parts, body: &[u8]) -> Error {
        let retry_after = parts.headers.get(http::header::RETRY_AFTER);
        let seconds = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        let refusal = Box::new(Refusal::parse(parts.status.as_u16(), seconds, body));
        let (verb, path) = self.parts();
        Error::Refused { verb, path, refusal }
    }
}

#[cfg(test)]
mod tests;
