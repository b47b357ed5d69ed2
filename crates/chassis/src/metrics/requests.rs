//! What a client asks of a server, counted under the names that Kubernetes' own programs count it by.
//!
//! There are many requests, so a request looks nothing up: whoever sends one holds the counters of
//! what mostly happens. Only an unusual answer is looked up by its labels.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds, in seconds, of how long a request takes.
const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// The methods that are asked by.
const METHODS: [Method; 5] =
    [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Code {
    Status(u16),
    /// Nothing.
    Error,
}

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), std::fmt::Error> {
        match self {
            Self::Status(status) => status.encode(encoder),
            Self::Error => "<error>".encode(encoder),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    code: Code,
    host: Arc<str>,
    method: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    host: Arc<str>,
    verb: String,
}

type Durations = Family<VerbLabels, Histogram, fn() -> Histogram>;

#[derive(Debug, Clone)]
pub(super) struct RequestMetrics {
    results: Family<ResultLabels, Counter>,
    durations: Durations,
}

impl RequestMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let own = Self {
            results: Family::default(),
            durations: Durations::new_with_constructor(|| Histogram::new(SECONDS)),
        };
        let help = "Number of HTTP requests, partitioned by status code, method, and host";
        registry.register("rest_client_requests", help, own.results.clone());
        let help = "Request latency in seconds. Broken down by verb, and host";
        registry.register("rest_client_request_duration_seconds", help, own.durations.clone());
        own
    }

    pub(super) fn to(&self, host: &str) -> RequestMeters {
        let ways = METHODS.map(|_| Way::default());
        RequestMeters(Arc::new(Host { metrics: self.clone(), host: host.into(), ways }))
    }
}

/// What mostly happens to requests of one method. A counter that nothing was counted by is not
/// shown.
#[derive(Debug, Default)]
struct Way {
    ok: OnceLock<Counter>,
    created: OnceLock<Counter>,
    durations: OnceLock<Histogram>,
}

#[derive(Debug)]
struct Host {
    metrics: RequestMetrics,
    host: Arc<str>,
    ways: [Way; METHODS.len()],
}

/// The counters of requests to one server; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct RequestMeters(Arc<Host>);

impl RequestMeters {
    fn way(&self, method: &Method) -> Option<&Way> {
        let place = METHODS.iter().position(|own| own == method)?;
        self.0.ways.get(place)
    }

    /// A request was answered, or not.
    pub(crate) fn answered(&self, method: &Method, status: Option<StatusCode>) {
        let look_up = || {
            let code = status.map_or(Code::Error, |status| Code::Status(status.as_u16()));
            let (host, method) = (self.0.host.clone(), method.to_string());
            self.0.metrics.results.get_or_create_owned(&ResultLabels { code, host, method })
        };
        match (self.way(method), status) {
            (Some(way), Some(StatusCode::OK)) => way.ok.get_or_init(look_up).inc(),
            (Some(way), Some(StatusCode::CREATED)) => way.created.get_or_init(look_up).inc(),
            _ => look_up().inc(),
        };
    }

    /// A request whose whole answer is waited for took this long, the wait for its turn included.
    pub(crate) fn took(&self, method: &Method, duration: Duration) {
        let look_up = || {
            let (host, verb) = (self.0.host.clone(), method.to_string());
            self.0.metrics.durations.get_or_create_owned(&VerbLabels { host, verb })
        };
        let seconds = duration.as_secs_f64();
        match self.way(method) {
            Some(way) => way.durations.get_or_init(look_up).observe(seconds),
            None => look_up().observe(seconds),
        }
    }
}
