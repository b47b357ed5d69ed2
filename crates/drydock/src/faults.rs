//! A layer that makes a server behave badly, by seed.
//!
//! Delay, loss before and after the work is done, 409, 429, 500, watches that close and
//! watches that are stale: everything a client of a real API server meets. The same seed
//! and the same requests give the same faults, so a failing seed is a test case.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use http::{Method, Request, StatusCode};

use crate::UNPOISONED;
use crate::answer::{Answer, Body, Failure, body};
use crate::deadline::Deadline;
use crate::env::SplitMix;
use crate::inflight;

/// Out of a thousand requests, how many meet each fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Answered late, by up to [`Faults::delay_max`].
    pub delayed: u32,
    /// Never reach the server.
    pub lost_before: u32,
    /// Reach the server; the answer does not come back.
    pub lost_after: u32,
    /// Writes that are answered 409 without being tried.
    pub conflict: u32,
    /// Answered 429 without being tried.
    pub too_many: u32,
    /// Answered 500 without being tried.
    pub internal: u32,
    /// Watches that end after a few pieces.
    pub watch_closed: u32,
    /// Watches whose start is too long ago.
    pub watch_stale: u32,
    /// The longest delay.
    pub delay_max: Duration,
}

/// A request whose fate nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection was lost")]
pub struct Lost;

/// A service that meets faults on its way.
#[derive(Clone)]
pub struct Faulty<S> {
    inner: S,
    faults: Arc<Mutex<Faults>>,
    random: Arc<SplitMix>,
}

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fine,
    Delayed(Duration),
    LostBefore,
    LostAfter,
    Answered(StatusCode),
    ClosedAfter(usize),
    Stale,
}

/// The most pieces that a watch sends before it is closed.
const PIECES_MAX: u64 = 4;

impl<S> Faulty<S> {
    /// Puts faults, drawn from `seed`, in front of `inner`.
    #[must_use]
    pub fn new(inner: S, faults: Faults, seed: u64) -> Self {
        let random = Arc::new(SplitMix::new(seed));
        Self { inner, faults: Arc::new(Mutex::new(faults)), random }
    }

    /// Ends all faults from now on, for every clone.
    pub fn heal(&self) {
        *self.faults.lock().expect(UNPOISONED) = Faults::default();
    }

    fn fate(&self, method: &Method, is_watch: bool) -> Fate {
        let faults = *self.faults.lock().expect(UNPOISONED);
        let is_write = !matches!(*method, Method::GET | Method::HEAD);
        // Two numbers for every request, whatever becomes of it: the draws stay in step.
        let (mut die, detail) = (self.random.draw() % 1000, self.random.draw());
        let delay_millis = u64::try_from(faults.delay_max.as_millis()).unwrap_or(u64::MAX);
        let delay = Duration::from_millis(detail % delay_millis.saturating_add(1).max(1));
        let pieces = usize::try_from(detail % PIECES_MAX).unwrap_or(0);
        let chances = [
            (faults.delayed, true, Fate::Delayed(delay)),
            (faults.lost_before, true, Fate::LostBefore),
            (faults.lost_after, true, Fate::LostAfter),
            (faults.conflict, is_write, Fate::Answered(StatusCode::CONFLICT)),
            (faults.too_many, true, Fate::Answered(StatusCode::TOO_MANY_REQUESTS)),
            (faults.internal, true, Fate::Answered(StatusCode::INTERNAL_SERVER_ERROR)),
            (faults.watch_closed, is_watch, Fate::ClosedAfter(pieces)),
            (faults.watch_stale, is_watch, Fate::Stale),
        ];
        for (chance, applies, fate) in chances {
            let chance = u64::from(chance);
            if die < chance {
                return if applies { fate } else { Fate::Fine };
            }
            die -= chance;
        }
        Fate::Fine
    }
}

impl<S, B> tower::Service<Request<B>> for Faulty<S>
where
    S: tower::Service<Request<B>, Response = Answer> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
{
    type Response = Answer;
    type Error = Lost;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Lost>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Lost>> {
        self.inner.poll_ready(context).map_err(|_| Lost)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let is_watch =
            query.split('&').any(|option| matches!(option, "watch" | "watch=true" | "watch=1"));
        let fate = self.fate(request.method(), is_watch);
        // The service that was polled is the one that is called; the clone takes its place.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        Box::pin(async move {
            match fate {
                Fate::LostBefore => return Err(Lost),
                Fate::Answered(StatusCode::TOO_MANY_REQUESTS) => return Ok(inflight::come_again()),
                Fate::Answered(code) => return Ok(refusal(code).into()),
                Fate::Stale => return Ok(stale()),
                Fate::Delayed(delay) => Deadline::after(delay).reached().await,
                Fate::Fine | Fate::LostAfter | Fate::ClosedAfter(_) => {}
            }
            let answer = inner.call(request).await.map_err(|_| Lost)?;
            match fate {
                Fate::LostAfter => Err(Lost),
                Fate::ClosedAfter(pieces) => Ok(answer.map(|body| closed_after(body, pieces))),
                _ => Ok(answer),
            }
        })
    }
}

fn refusal(code: StatusCode) -> Failure {
    let what = crate::answer::failure::GroupResource { group: "", resource: "objects" };
    match code {
        StatusCode::CONFLICT => Failure::modified(&what, "injected"),
        _ => Failure::internal("injected"),
    }
}

fn stale() -> Answer {
    let failure = Failure::expired("too old resource version: 0 (1)");
    let event = serde_json::json!({"type": "ERROR", "object": failure.to_status()});
    body::value(StatusCode::OK, &event)
}

fn closed_after(body: Body, pieces: usize) -> Body {
    let frames = http_body_util::BodyStream::new(body).take(pieces);
    Body::stream(frames.filter_map(|frame| async {
        let Ok(frame) = frame;
        frame.into_data().ok()
    }))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;
    use crate::env::ManualEnv;
    use crate::request::Identity;
    use crate::{Config, Drydock};

    fn request(method: Method, path: &str, body: &str) -> Request<http_body_util::Full<Bytes>> {
        let mut request = Request::new(http_body_util::Full::from(body.to_owned()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap();
        let identity = Identity { user: "test".to_owned(), groups: Vec::new() };
        request.extensions_mut().insert(identity);
        request
    }

    /// The bytes of a conversation: a name per write, then a list and a watch.
    async fn conversation(faults: Faults, seed: u64) -> Vec<String> {
        let env = ManualEnv::new(jiff::Timestamp::UNIX_EPOCH, seed);
        let server = Faulty::new(Drydock::new(Config::default(), env), faults, seed);
        let path = "/api/v1/namespaces/default/configmaps";
        let mut bytes = Vec::new();
        for _ in 0..40 {
            let create = r#"{"metadata":{"generateName":"a-"}}"#;
            let calls = [
                request(Method::POST, path, create),
                request(Method::GET, path, ""),
                request(Method::GET, &format!("{path}?watch=true&timeoutSeconds=1"), ""),
            ];
            for call in calls {
                let said = match server.clone().oneshot(call).await {
                    Ok(answer) => {
                        let code = answer.status();
                        let body = answer.into_body().collect().await.unwrap().to_bytes();
                        format!("{code} {}", String::from_utf8_lossy(&body))
                    }
                    Err(lost) => lost.to_string(),
                };
                bytes.push(said);
            }
        }
        bytes
    }

    const ALL: Faults = Faults {
        delayed: 50,
        lost_before: 50,
        lost_after: 50,
        conflict: 50,
        too_many: 50,
        internal: 50,
        watch_closed: 100,
        watch_stale: 100,
        delay_max: Duration::from_millis(200),
    };

    #[tokio::test(start_paused = true)]
    async fn the_same_seed_gives_the_same_bytes() {
        assert_eq!(conversation(ALL, 7).await, conversation(ALL, 7).await);
        assert_ne!(conversation(ALL, 7).await, conversation(ALL, 8).await);
        let none = Faults::default();
        assert_eq!(conversation(none, 7).await, conversation(none, 7).await);
    }

    fn faulty(faults: Faults, seed: u64) -> Faulty<Drydock> {
        let env = ManualEnv::new(jiff::Timestamp::UNIX_EPOCH, seed);
        Faulty::new(Drydock::new(Config::default(), env), faults, seed)
    }

    #[test]
    fn every_fate_is_met_as_often_as_asked_and_only_where_it_applies() {
        const DRAWS: usize = 20_000;
        let server = faulty(ALL, 3);
        let count = |method: Method, is_watch: bool| {
            let mut met = std::collections::BTreeMap::new();
            for _ in 0..DRAWS {
                let name = match server.fate(&method, is_watch) {
                    Fate::Fine => "fine".to_owned(),
                    Fate::Delayed(_) => "delayed".to_owned(),
                    Fate::LostBefore => "lost before".to_owned(),
                    Fate::LostAfter => "lost after".to_owned(),
                    Fate::Answered(code) => code.as_u16().to_string(),
                    Fate::ClosedAfter(_) => "closed".to_owned(),
                    Fate::Stale => "stale".to_owned(),
                };
                *met.entry(name).or_insert(0_usize) += 1;
            }
            met
        };
        let check = |method: Method, is_watch: bool, expected: &[(&str, u32)]| {
            let mut met = count(method.clone(), is_watch);
            met.remove("fine");
            assert_eq!(met.len(), expected.len(), "{method} {is_watch}: {met:?}");
            for (name, per_thousand) in expected {
                let times = met.get(*name).copied().unwrap_or(0);
                let wanted = DRAWS * *per_thousand as usize / 1000;
                assert!(times.abs_diff(wanted) < wanted / 4, "{name}: {times}, not about {wanted}");
            }
        };
        let all = [("delayed", 50), ("lost before", 50), ("lost after", 50)];
        let refused = [("429", 50), ("500", 50)];
        let read = [&all[..], &refused[..]].concat();
        check(Method::GET, false, &read);
        check(Method::POST, false, &[&read[..], &[("409", 50)][..]].concat());
        check(Method::GET, true, &[&read[..], &[("closed", 100), ("stale", 100)][..]].concat());
    }

    /// What a client sees of a create, and how many objects it made.
    async fn create(server: &Faulty<Drydock>) -> (Result<u16, Lost>, usize) {
        let path = "/api/v1/namespaces/default/configmaps";
        let create = request(Method::POST, path, r#"{"metadata":{"generateName":"a-"}}"#);
        let seen = server.clone().oneshot(create).await.map(|answer| answer.status().as_u16());
        let list = server.inner.answer(request(Method::GET, path, "")).await;
        let list = list.into_body().collect().await.unwrap().to_bytes();
        let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
        (seen, list["items"].as_array().unwrap().len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_fault_is_seen_and_the_work_is_done_or_not() {
        let check = async |faults: Faults, seen: Result<u16, Lost>, made: usize| {
            assert_eq!(create(&faulty(faults, 1)).await, (seen, made), "{faults:?}");
        };
        let none = Faults::default();
        check(none, Ok(201), 1).await;
        check(Faults { lost_before: 1000, ..none }, Err(Lost), 0).await;
        check(Faults { lost_after: 1000, ..none }, Err(Lost), 1).await;
        check(Faults { conflict: 1000, ..none }, Ok(409), 0).await;
        check(Faults { too_many: 1000, ..none }, Ok(429), 0).await;
        check(Faults { internal: 1000, ..none }, Ok(500), 0).await;
        check(Faults { watch_closed: 1000, ..none }, Ok(201), 1).await;
        check(Faults { watch_stale: 1000, ..none }, Ok(201), 1).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_request_is_answered_late_and_within_the_bound() {
        let delay_max = Duration::from_secs(5);
        let server = faulty(Faults { delayed: 1000, delay_max, ..Faults::default() }, 1);
        let mut longest = Duration::ZERO;
        for made in 1..=20 {
            // A paused clock moves only while everything waits, so it shows the delay alone.
            let deadline = Deadline::after(delay_max);
            let before = deadline.left();
            assert_eq!(create(&server).await, (Ok(201), made));
            longest = longest.max(before - deadline.left());
        }
        assert!(longest > delay_max / 2 && longest <= delay_max, "{longest:?}");
    }

    /// The pieces of a watch that nothing happens to, and whether it ended before its time.
    async fn watch(server: &Faulty<Drydock>) -> (Vec<String>, bool) {
        let path = "/api/v1/namespaces?watch=true&timeoutSeconds=100";
        let answer = server.clone().oneshot(request(Method::GET, path, "")).await.unwrap();
        let deadline = Deadline::after(Duration::from_secs(99));
        let mut body = answer.into_body();
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            let bytes = frame.unwrap().into_data().unwrap();
            pieces.push(String::from_utf8_lossy(&bytes).into_owned());
        }
        (pieces, !deadline.has_passed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_closes_early_or_is_told_that_it_is_stale() {
        let none = Faults::default();
        let (pieces, early) = watch(&faulty(none, 1)).await;
        assert!(!early && pieces.len() == 1, "{pieces:?}");
        let closing = faulty(Faults { watch_closed: 1000, ..none }, 1);
        let mut cut_short = 0;
        for _ in 0..20 {
            let (pieces, early) = watch(&closing).await;
            assert!(pieces.len() <= 1);
            cut_short += usize::from(early);
        }
        assert!(cut_short > 0, "no watch was closed before its time");
        let (pieces, early) = watch(&faulty(Faults { watch_stale: 1000, ..none }, 1)).await;
        assert!(early && pieces.len() == 1 && pieces[0].contains("too old resource version"));
    }

    #[tokio::test(start_paused = true)]
    async fn healing_ends_all_faults_for_every_clone() {
        let server = faulty(Faults { lost_before: 1000, ..Faults::default() }, 1);
        let clone = server.clone();
        assert_eq!(create(&server).await, (Err(Lost), 0));
        clone.heal();
        assert_eq!(create(&server).await, (Ok(201), 1));
        assert_eq!(create(&clone).await, (Ok(201), 2));
    }
}
