//! How many requests are under way at once. A further one is sent away at once, to come again, so
//! that what a burst of requests costs has a bound.
//!
//! The limits, the answer and what is not counted are those of kube-apiserver without priority and
//! fairness: reads and writes are counted apart, watches are not counted, and neither are probes
//! of health, which must tell of the server and not of its clients. Members of `system:masters`
//! are counted, too: here everybody who may enter is one.

use std::sync::atomic::Ordering;

use http::header::{HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{Method, StatusCode};
use prometheus_client::metrics::gauge::Gauge;

use crate::answer::{Answer, body};
use crate::request::{Query, Route, Verb};

/// How many requests may be under way at once, watches and probes of health apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    /// Requests that only read; zero for as many as come.
    pub reading_max: u32,
    /// All others; zero for as many as come.
    pub writing_max: u32,
}

impl Default for InFlight {
    fn default() -> Self {
        // What kube-apiserver has by default.
        Self { reading_max: 400, writing_max: 200 }
    }
}

/// What a request is counted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Nothing: it may stay for as long as it likes.
    Uncounted,
    /// Requests that only read.
    Reading,
    /// Requests that may change something.
    Writing,
}

impl Lane {
    /// The lane of a request.
    pub(crate) fn of(method: &Method, route: &Route, query: &Query) -> Self {
        let verb = match route {
            Route::Health(..) => return Self::Uncounted,
            Route::Resource(target) => {
                let watch = query.flag("watch").unwrap_or(false);
                Verb::of(method, target.name.is_some(), watch)
            }
            _ => (method == Method::GET).then_some(Verb::Get),
        };
        match verb {
            Some(Verb::Watch) => Self::Uncounted,
            Some(Verb::Get | Verb::List) => Self::Reading,
            _ => Self::Writing,
        }
    }
}

/// Room for a request. Others get it when this is dropped, so it is kept until the last byte of
/// the answer is on its way.
pub(crate) struct Permit(Gauge);

impl Permit {
    /// Takes room where `under_way` counts requests of which there may be `max`; none where there
    /// are as many.
    pub(crate) fn take(under_way: &Gauge, max: u32) -> Option<Self> {
        let max = if max == 0 { i64::MAX } else { i64::from(max) };
        let one_more = |count: i64| (count < max).then_some(count + 1);
        under_way
            .inner()
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more)
            .ok()
            .map(|_| Self(under_way.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// How long a client that was sent away should wait, in seconds.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// The answer to a request for which there is no room.
pub(crate) fn come_again() -> Answer {
    let why = "Too many requests, please try again later.\n";
    let mut answer = body::text(StatusCode::TOO_MANY_REQUESTS, why);
    answer.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;
    use http_body_util::{BodyExt, Full};

    use super::*;
    use crate::env::ManualEnv;
    use crate::request::Identity;
    use crate::{Config, Drydock};

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true";

    #[test]
    fn reads_and_writes_are_counted_apart_and_what_may_stay_is_not() {
        let check = |method: &str, uri: &str, expected: Lane| {
            let uri: http::Uri = uri.parse().unwrap();
            let (route, query) = (Route::parse(uri.path()), Query::parse(uri.query()));
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(Lane::of(&method, &route, &query), expected, "{method} {uri}");
        };
        check("GET", MAPS, Lane::Reading);
        check("HEAD", MAPS, Lane::Reading);
        check("GET", WATCH, Lane::Uncounted);
        check("GET", "/api/v1/namespaces/default?watch=true", Lane::Reading);
        check("GET", "/api/v1/namespaces/default/pods/a/status", Lane::Reading);
        check("GET", "/openapi/v3", Lane::Reading);
        check("GET", "/metrics", Lane::Reading);
        check("GET", "/nowhere", Lane::Reading);
        check("GET", "/readyz", Lane::Uncounted);
        for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "MADE-UP"] {
            check(method, MAPS, Lane::Writing);
            check(method, "/version", Lane::Writing);
        }
        check("DELETE", WATCH, Lane::Writing);
    }

    fn server(in_flight: InFlight) -> Drydock {
        let config = Config { in_flight, ..Config::default() };
        Drydock::new(config, ManualEnv::new(jiff::Timestamp::UNIX_EPOCH, 1))
    }

    async fn ask(server: &Drydock, method: Method, path: &str) -> Answer {
        let body =
            if method == Method::POST { r#"{"metadata":{"generateName":"a-"}}"# } else { "" };
        let mut request = Request::new(Full::from(Bytes::from_static(body.as_bytes())));
        (*request.method_mut(), *request.uri_mut()) = (method, path.parse().unwrap());
        let groups = vec!["system:masters".to_owned()];
        request.extensions_mut().insert(Identity { user: "test".to_owned(), groups });
        server.answer(request).await
    }

    #[tokio::test]
    async fn who_finds_no_room_is_told_when_to_come_again() {
        let server = server(InFlight { reading_max: 1, writing_max: 1 });
        let room = ask(&server, Method::GET, MAPS).await;
        let refused = ask(&server, Method::GET, MAPS).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        let header = |name: &str| refused.headers().get(name).unwrap().to_str().unwrap();
        assert_eq!(header("retry-after"), "1");
        assert_eq!(header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(header("x-content-type-options"), "nosniff");
        let text = refused.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(text, "Too many requests, please try again later.\n");
        drop(room);
        assert_eq!(ask(&server, Method::GET, MAPS).await.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn room_is_held_by_answers_of_the_same_lane_that_are_on_their_way() {
        let check =
            async |limits: (u32, u32), held: &[(Method, &str)], next: (Method, &str), code: u16| {
                let (reading_max, writing_max) = limits;
                let server = server(InFlight { reading_max, writing_max });
                let mut kept = Vec::new();
                for (method, path) in held {
                    let answer = ask(&server, method.clone(), path).await;
                    assert!(answer.status().is_success(), "{method} {path}");
                    kept.push(answer);
                }
                let answer = ask(&server, next.0.clone(), next.1).await;
                assert_eq!(answer.status().as_u16(), code, "{limits:?} {held:?} {next:?}");
            };
        let (get, post) = (Method::GET, Method::POST);
        let read = || (get.clone(), MAPS);
        let write = || (post.clone(), MAPS);
        let watch = || (get.clone(), WATCH);
        check((2, 1), &[read()], read(), 200).await;
        check((2, 1), &[read(), read()], read(), 429).await;
        check((2, 1), &[read(), read()], write(), 201).await;
        check((2, 1), &[read(), read()], watch(), 200).await;
        check((2, 1), &[read(), read()], (get.clone(), "/readyz"), 200).await;
        check((2, 1), &[read(), read()], (get.clone(), "/version"), 429).await;
        check((2, 1), &[write()], write(), 429).await;
        check((2, 1), &[write()], read(), 200).await;
        check((1, 1), &[watch(), watch()], read(), 200).await;
        check((0, 0), &[read(), read(), write(), write()], write(), 201).await;
    }

    #[tokio::test]
    async fn who_may_not_enter_is_told_so_and_takes_no_room() {
        let server = server(InFlight { reading_max: 1, writing_max: 1 });
        let stranger = || {
            let mut request = Request::new(Full::<Bytes>::default());
            *request.uri_mut() = MAPS.parse().unwrap();
            server.answer(request)
        };
        let refused = stranger().await;
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
        let room = ask(&server, Method::GET, MAPS).await;
        assert_eq!(room.status(), StatusCode::OK);
        assert_eq!(stranger().await.status(), StatusCode::UNAUTHORIZED);
    }

    #[tokio::test]
    async fn those_sent_away_are_counted() {
        let server = server(InFlight { reading_max: 2, writing_max: 1 });
        let room = [ask(&server, Method::GET, MAPS).await, ask(&server, Method::POST, MAPS).await];
        let more = ask(&server, Method::GET, MAPS).await;
        for (method, path) in [(Method::GET, MAPS), (Method::POST, MAPS), (Method::GET, "/version")]
        {
            let refused = ask(&server, method, path).await;
            assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        }
        drop(more);
        let answer = ask(&server, Method::GET, "/metrics").await;
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let mut lines: Vec<&str> = text
            .lines()
            .filter(|line| {
                line.contains("429\"") || line.starts_with("apiserver_current_inflight_requests{")
            })
            .collect();
        lines.sort_unstable();
        // The scrape is under way, too.
        insta::assert_snapshot!(lines.join("\n"), @r#"
        apiserver_current_inflight_requests{request_kind="mutating"} 1
        apiserver_current_inflight_requests{request_kind="readOnly"} 2
        apiserver_request_terminations_total{verb="GET",group="",version="",resource="",subresource="",scope="",component="apiserver",code="429"} 1
        apiserver_request_terminations_total{verb="LIST",group="",version="v1",resource="configmaps",subresource="",scope="namespace",component="apiserver",code="429"} 1
        apiserver_request_terminations_total{verb="POST",group="",version="v1",resource="configmaps",subresource="",scope="resource",component="apiserver",code="429"} 1
        apiserver_request_total{verb="LIST",group="",version="v1",resource="configmaps",subresource="",scope="namespace",component="apiserver",dry_run="",code="429"} 1
        apiserver_request_total{verb="POST",group="",version="v1",resource="configmaps",subresource="",scope="resource",component="apiserver",dry_run="",code="429"} 1
        "#);
        drop(room);
    }
}
