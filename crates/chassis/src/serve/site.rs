//! The pages of a component.

use std::error::Error;
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Body;

use super::Health;
use super::guard::Denial;
use crate::metrics::Metrics;

/// An answer to a request.
pub type Answer = Response<Full<Bytes>>;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const ONE_SECOND: HeaderValue = HeaderValue::from_static("1");
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// What every component shows.
const STANDARD: [&str; 5] = ["/metrics", "/metrics/slis", "/healthz", "/livez", "/readyz"];
/// Those of them that answer for checks.
const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;
type Page = Arc<dyn Fn(Parts) -> Answering + Send + Sync>;
type Switch = Arc<dyn Fn(Parts, Bytes) -> Answering + Send + Sync>;

/// How much may come with a request that sets something.
const BODY_BYTES_MAX: usize = 1024;
/// How long that may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// What a component shows: metrics, health, and pages of its own. Clones show the same.
#[derive(Clone)]
pub struct Site {
    metrics: Metrics,
    health: Health,
    pages: Vec<(&'static str, Page)>,
    switches: Vec<(&'static str, Switch)>,
}

impl Site {
    /// Metrics and health.
    #[must_use]
    pub fn new(metrics: &Metrics, health: &Health) -> Self {
        Self {
            metrics: metrics.clone(),
            health: health.clone(),
            pages: Vec::new(),
            switches: Vec::new(),
        }
    }

    /// The same with a page at `path`, such as `/debug/queue`, which answers for everything
    /// beneath it too. Only GET and HEAD reach it.
    #[must_use]
    pub fn page<F>(
        mut self,
        path: &'static str,
        page: impl Fn(Parts) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        self.pages.push((path, Arc::new(move |parts| Box::pin(page(parts)))));
        self
    }

    /// The same with something that is set by PUT at `path` and beneath it, with a body of no more than
    /// a kilobyte.
    #[must_use]
    pub fn switch<F>(
        mut self,
        path: &'static str,
        switch: impl Fn(Parts, Bytes) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let switch = move |parts, body| -> Answering { Box::pin(switch(parts, body)) };
        self.switches.push((path, Arc::new(switch)));
        self
    }

    /// The answer to a request, of whose body no more is read than is needed.
    pub(super) async fn respond<B>(&self, request: Parts, body: B) -> Answer
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let path = request.uri.path();
        let switch = self.switches.iter().find(|(at, _)| is_beneath(path, at));
        let Some((_, switch)) = switch.filter(|_| request.method == Method::PUT) else {
            return self.answer(request).await;
        };
        let read = Limited::new(body, BODY_BYTES_MAX).collect();
        match tokio::time::timeout(BODY_TIMEOUT, read).await {
            Ok(Ok(body)) => switch(request, body.to_bytes()).await,
            _ => {
                let words = format!("send a value of no more than {BODY_BYTES_MAX} bytes\n");
                text(StatusCode::BAD_REQUEST, words)
            }
        }
    }

    pub(super) async fn answer(&self, request: Parts) -> Answer {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served\n".to_owned());
        }
        let path = request.uri.path();
        if path == "/metrics" {
            return counted(&self.metrics);
        }
        if path == "/metrics/slis" {
            return counted(self.health.slis().metrics());
        }
        let (endpoint, only) = match path.trim_start_matches('/').split_once('/') {
            Some((endpoint, name)) => (endpoint, Some(name)),
            None => (path.trim_start_matches('/'), None),
        };
        if let Some(endpoint) = ENDPOINTS.into_iter().find(|own| *own == endpoint) {
            return self.health(endpoint, only, &request);
        }
        match self.pages.iter().find(|(at, _)| is_beneath(path, at)) {
            Some((_, page)) => page(request).await,
            None => {
                let own = self.pages.iter().map(|(at, _)| *at);
                let paths: Vec<&str> = STANDARD.into_iter().chain(own).collect();
                let paths = paths.join(", ");
                text(StatusCode::NOT_FOUND, format!("{path} is not served; {paths} are\n"))
            }
        }
    }

    fn health(&self, endpoint: &'static str, only: Option<&str>, request: &Parts) -> Answer {
        let Some(report) = self.health.report(endpoint, only) else {
            return text(StatusCode::NOT_FOUND, format!("{endpoint} has no check of that name\n"));
        };
        if only.is_none() {
            self.health.slis().ran(endpoint, &report);
        }
        let mut lines = report.text();
        if !report.is_ok() {
            let _ = writeln!(lines, "{endpoint} check failed");
            return text(StatusCode::INTERNAL_SERVER_ERROR, lines);
        }
        let verbose = request.uri.query().is_some_and(|query| {
            query.split('&').any(|pair| pair.split('=').next() == Some("verbose"))
        });
        if verbose {
            let _ = writeln!(lines, "{endpoint} check passed");
            return text(StatusCode::OK, lines);
        }
        text(StatusCode::OK, "ok".to_owned())
    }
}

/// Whether a path is another one, or beneath it.
fn is_beneath(path: &str, at: &str) -> bool {
    path.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Metrics in the format 0.0.4, as Kubernetes' programs serve them whatever else a scraper would
/// rather have: in OpenMetrics buckets have other names.
fn counted(metrics: &Metrics) -> Answer {
    let mut response = text(StatusCode::OK, metrics.render());
    response.headers_mut().insert(CONTENT_TYPE, METRICS);
    response
}

/// What a client is told that is not let in.
pub(super) fn denied(denial: &Denial) -> Answer {
    let mut response = text(denial.code(), denial.status().to_string());
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    if *denial == Denial::Busy {
        response.headers_mut().insert(RETRY_AFTER, ONE_SECOND);
    }
    response
}

fn text(status: StatusCode, body: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http::header::ACCEPT;

    use super::*;

    async fn get(site: &Site, path: &str) -> String {
        let (parts, ()) = Request::get(path).body(()).unwrap().into_parts();
        let body = site.answer(parts).await.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn metrics_are_plain_text_whatever_else_a_scraper_would_rather_have() {
        let metrics = Metrics::new();
        metrics.register(|registry| {
            let sizes = prometheus_client::metrics::histogram::Histogram::new([1.0]);
            registry.register("test_size", "Sizes", sizes.clone());
            sizes.observe(1.0);
        });
        let site = Site::new(&metrics, &Health::new());
        let check = async |accept: &str| {
            let request = Request::get("/metrics").header(ACCEPT, accept).body(()).unwrap();
            let answer = site.answer(request.into_parts().0).await;
            assert_eq!(answer.headers()[CONTENT_TYPE], METRICS, "{accept}");
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let text = std::str::from_utf8(&body).unwrap();
            let line = "test_size_bucket{le=\"1\"} 1";
            assert!(text.lines().any(|own| own == line), "{accept}: {text}");
        };
        check("*/*").await;
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        check(prometheus).await;
        check("application/openmetrics-text; version=1.0.0").await;
    }

    #[tokio::test]
    async fn how_checks_went_is_the_same_tale_on_every_port() {
        let health = Health::new();
        health.add_live("engine", || Ok(()));
        let one = Site::new(&Metrics::new(), &health);
        let other = Site::new(&Metrics::new(), &health);
        get(&one, "/livez").await;
        get(&other, "/livez").await;
        let told = get(&one, "/metrics/slis").await;
        assert_eq!(get(&other, "/metrics/slis").await, told);
        let line =
            r#"kubernetes_healthchecks_total{name="engine",status="success",type="livez"} 2"#;
        assert!(told.lines().any(|own| own == line), "{told}");
    }

    #[tokio::test]
    async fn how_checks_went_is_told_apart_by_endpoint() {
        let health = Health::new();
        health.add_live("engine", || Ok(()));
        health.add_ready("nodes", || Err("none".to_owned()));
        let site = Site::new(&Metrics::new(), &health);
        // One check alone is nobody's probe.
        for path in ["/livez", "/readyz", "/readyz?verbose", "/readyz/nodes"] {
            get(&site, path).await;
        }
        let text = get(&site, "/metrics/slis").await;
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.contains("ping")).collect();
        lines.sort_unstable();
        let mut expected = [
            "# HELP kubernetes_healthcheck This metric records the result of a single healthcheck.",
            "# HELP kubernetes_healthchecks_total This metric records the results of all healthcheck.",
            "# TYPE kubernetes_healthcheck gauge",
            "# TYPE kubernetes_healthchecks_total counter",
            r#"kubernetes_healthcheck{name="engine",type="livez"} 1"#,
            r#"kubernetes_healthcheck{name="engine",type="readyz"} 1"#,
            r#"kubernetes_healthcheck{name="nodes",type="readyz"} 0"#,
            r#"kubernetes_healthchecks_total{name="engine",status="success",type="livez"} 1"#,
            r#"kubernetes_healthchecks_total{name="engine",status="success",type="readyz"} 2"#,
            r#"kubernetes_healthchecks_total{name="nodes",status="error",type="readyz"} 2"#,
        ];
        expected.sort_unstable();
        assert_eq!(lines, expected);
    }

    #[tokio::test]
    async fn a_page_answers_for_its_path_and_what_is_beneath() {
        let site = Site::new(&Metrics::new(), &Health::new())
            .page("/debug/queue", async |parts: Parts| {
                text(StatusCode::OK, format!("queue of {}", parts.uri))
            });
        let check = async |method: Method, path: &str, code: u16, body: &str| {
            let request = Request::builder().method(method).uri(path).body(()).unwrap();
            let answer = site.answer(request.into_parts().0).await;
            assert_eq!(answer.status().as_u16(), code, "{path}");
            let got = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(got, body, "{path}");
        };
        check(Method::GET, "/debug/queue", 200, "queue of /debug/queue").await;
        check(Method::GET, "/debug/queue/a?b=c", 200, "queue of /debug/queue/a?b=c").await;
        let none = "/debug/queues is not served; /metrics, /metrics/slis, /healthz, /livez, /readyz, \
             /debug/queue are\n";
        check(Method::GET, "/debug/queues", 404, none).await;
        check(Method::POST, "/debug/queue", 405, "only GET is served\n").await;
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_sends_no_value_is_not_waited_for() {
        let site = Site::new(&Metrics::new(), &Health::new())
            .switch("/s", async |_: Parts, _: Bytes| text(StatusCode::OK, "set".to_owned()));
        let frames =
            futures::stream::pending::<Result<hyper::body::Frame<Bytes>, std::io::Error>>();
        let (parts, ()) = Request::put("/s").body(()).unwrap().into_parts();
        let begun = tokio::time::Instant::now();
        let answer = site.respond(parts, http_body_util::StreamBody::new(frames)).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        assert!(begun.elapsed() < Duration::from_secs(2));
    }

    #[tokio::test]
    async fn what_is_set_by_put_is_set_by_nothing_else_and_is_not_long() {
        let site = Site::new(&Metrics::new(), &Health::new())
            .page("/debug/flags", async |_: Parts| text(StatusCode::OK, "shown".to_owned()))
            .switch("/debug/flags", async |parts: Parts, body: Bytes| {
                let body = String::from_utf8_lossy(&body).into_owned();
                text(StatusCode::OK, format!("{} is {body}", parts.uri.path()))
            });
        let check = async |method: Method, path: &str, body: String, code: u16, told: &str| {
            let request = Request::builder().method(method).uri(path).body(()).unwrap();
            let answer = site.respond(request.into_parts().0, Full::<Bytes>::from(body)).await;
            assert_eq!(answer.status().as_u16(), code, "{path}");
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), told, "{path}");
        };
        let (get, put, post) = (Method::GET, Method::PUT, Method::POST);
        check(put.clone(), "/debug/flags/s", "5".to_owned(), 200, "/debug/flags/s is 5").await;
        check(get, "/debug/flags/s", String::new(), 200, "shown").await;
        check(post, "/debug/flags/s", "5".to_owned(), 405, "only GET is served\n").await;
        check(put.clone(), "/metrics", "5".to_owned(), 405, "only GET is served\n").await;
        let long = "send a value of no more than 1024 bytes\n";
        check(put, "/debug/flags/s", "5".repeat(1025), 400, long).await;
    }
}
