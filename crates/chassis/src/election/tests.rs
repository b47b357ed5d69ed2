//! The shell against a server that keeps one Lease and refuses what is out of date.

use std::sync::Mutex;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::client::Options;
use crate::clock::Hand;

const SECOND: Duration = Duration::from_secs(1);
/// How often others may run before the clock is moved.
const YIELDS: usize = 60;
/// How often the clock is moved before a test gives up.
const MOVES_MAX: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Well,
    /// No answers.
    Silent,
    /// Every answer is that it cannot.
    Failing,
}

struct State {
    lease: Option<Value>,
    version: u64,
    mood: Mood,
    asked: Vec<String>,
}

/// A server of one Lease, and the clock of everybody who asks it.
#[derive(Clone)]
struct Server {
    state: Arc<Mutex<State>>,
    clock: Clock,
    hand: Hand,
}

impl Server {
    fn new(lease: Option<Value>) -> Self {
        let state = State { lease, version: 100, mood: Mood::Well, asked: Vec::new() };
        let (clock, hand) = Clock::manual(Timestamp::from_second(1_000_000).unwrap());
        Self { state: Arc::new(Mutex::new(state)), clock, hand }
    }

    fn client(&self) -> Client {
        let own = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| own.clone().serve(request));
        let options = Options { clock: self.clock.clone(), ..Options::new("leader-election") };
        Client::from_service(service, &options)
    }

    async fn serve(self, request: Request<Body>) -> Result<Response<Full<Bytes>>, std::io::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let mood = self.state.lock().unwrap().mood;
        let (status, answer) = match mood {
            Mood::Silent => std::future::pending().await,
            Mood::Failing => (500, json!({ "status": "Failure", "code": 500 })),
            Mood::Well => {
                let sent = serde_json::from_slice(&body).ok();
                let line = format!("{} {}", parts.method, parts.uri);
                self.state.lock().unwrap().answer(&parts.method, line, sent)
            }
        };
        let bytes = Bytes::from(answer.to_string());
        Ok(Response::builder().status(status).body(Full::new(bytes)).unwrap())
    }

    fn lease(&self) -> Value {
        self.state.lock().unwrap().lease.clone().unwrap()
    }

    fn set_mood(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Lets everybody run, and the time pass, until `done`.
    async fn until(&self, done: impl Fn() -> bool) {
        for _ in 0..MOVES_MAX {
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
            if done() {
                return;
            }
            self.hand.advance(self.hand.next_due().unwrap_or(SECOND).min(SECOND));
        }
        panic!("it never came to this; the lease is {:#?}", self.state.lock().unwrap().lease);
    }

    async fn pass(&self, time: Duration) {
        let end = self.now() + time;
        self.until(|| self.now() >= end).await;
    }
}

impl State {
    fn answer(&mut self, method: &Method, line: String, sent: Option<Value>) -> (u16, Value) {
        self.asked.push(line);
        let failure = |code: u16, reason| {
            (code, json!({ "status": "Failure", "reason": reason, "code": code }))
        };
        match (method.as_str(), &self.lease) {
            ("GET", None) => return failure(404, "NotFound"),
            ("GET", Some(lease)) => return (200, lease.clone()),
            ("POST", Some(_)) => return failure(409, "AlreadyExists"),
            ("PUT", None) => return failure(404, "NotFound"),
            ("PUT", Some(lease))
                if lease["metadata"]["resourceVersion"]
                    != sent.as_ref().unwrap()["metadata"]["resourceVersion"] =>
            {
                return failure(409, "Conflict");
            }
            ("POST" | "PUT", _) => {}
            _ => return failure(405, "MethodNotAllowed"),
        }
        let mut stored = sent.unwrap();
        self.version += 1;
        stored["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.lease = Some(stored.clone());
        (200, stored)
    }
}

/// An election under way, and the leadership once it has one.
struct Contender {
    held: Arc<Mutex<Option<Leadership>>>,
    news: Arc<Mutex<Vec<News>>>,
    metrics: Metrics,
    watchdog: Watchdog,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<Ending>,
}

impl Contender {
    /// Starts an election whose work takes `slowness` to end after it is asked to.
    fn start(server: &Server, identity: &str, slowness: Duration) -> Self {
        let metrics = Metrics::new();
        let config = Config::new("kube-system", "kube-scheduler", identity);
        let election =
            Election::new(&server.client(), &config, &Meters::register(&metrics)).unwrap();
        let (held, news) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(Vec::new())));
        let election = election.telling({
            let news = news.clone();
            move |told, lease| {
                assert_eq!(lease.metadata.name, "kube-scheduler");
                news.lock().unwrap().push(told.clone());
            }
        });
        let (watchdog, stop) = (election.watchdog(), CancellationToken::new());
        let work = {
            let (held, clock) = (held.clone(), server.clock.clone());
            move |leadership: Leadership, end: CancellationToken| async move {
                *held.lock().unwrap() = Some(leadership);
                end.cancelled().await;
                clock.sleep(slowness).await;
            }
        };
        let running = tokio::spawn(election.run(stop.clone(), work));
        Self { held, news, metrics, watchdog, stop, running }
    }

    fn leads(&self, now: Duration) -> bool {
        self.held.lock().unwrap().as_ref().is_some_and(|held| held.is_valid(now))
    }

    fn status(&self) -> String {
        let text = self.metrics.render();
        let name = "leader_election_master_status{name=\"kube-scheduler\"} ";
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_free_lease_is_taken_renewed_and_given_back_with_all_that_is_not_ours() {
    let server = Server::new(Some(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "kube-scheduler", "namespace": "kube-system",
                      "resourceVersion": "7", "labels": { "team": "x" },
                      "managedFields": [{ "manager": "kubectl" }] },
        "spec": { "holderIdentity": "", "leaseTransitions": 4, "strategy": "OldestEmulationVersion" },
        "later": { "unknown": true },
    })));
    let own = Contender::start(&server, "a", Duration::ZERO);
    assert_eq!(own.status(), "0");
    server.until(|| own.leads(server.now())).await;
    assert_eq!(own.status(), "1");
    assert_eq!(own.held.lock().unwrap().as_ref().unwrap().epoch(), 101);
    let want = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "kube-scheduler", "namespace": "kube-system",
                      "resourceVersion": "101", "labels": { "team": "x" },
                      "managedFields": [{ "manager": "kubectl" }] },
        "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 5,
                  "acquireTime": "1970-01-12T13:46:40.000000Z",
                  "renewTime": "1970-01-12T13:46:40.000000Z" },
        "later": { "unknown": true },
    });
    assert_eq!(server.lease(), want);
    server.pass(60 * SECOND).await;
    assert!(own.leads(server.now()) && own.watchdog.check(Duration::ZERO).is_ok());
    assert_eq!(server.lease()["spec"]["acquireTime"], want["spec"]["acquireTime"]);
    assert_ne!(server.lease()["spec"]["renewTime"], want["spec"]["renewTime"]);

    own.stop.cancel();
    server.until(|| own.running.is_finished()).await;
    assert_eq!(own.running.await.unwrap(), Ending::Done);
    let spec = &server.lease()["spec"];
    assert_eq!(
        (&spec["holderIdentity"], &spec["leaseDurationSeconds"], &spec["leaseTransitions"]),
        (&json!(""), &json!(1), &json!(5))
    );
    assert!(spec["renewTime"].is_string() && spec["renewTime"] == spec["acquireTime"]);
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
    let asked = server.state.lock().unwrap().asked.clone();
    assert!(asked.iter().all(|line| line.ends_with(path)), "{asked:?}");
    // One read to take it and one to give it back; renewals need none.
    assert_eq!(asked.iter().filter(|line| line.starts_with("GET")).count(), 2, "{asked:?}");
    let news = own.news.lock().unwrap().clone();
    let stopped = News::StoppedLeading(Loss::Stopped);
    let holders = |name: &str| News::Holder(name.to_owned());
    assert_eq!(news, [holders("a"), News::BecameLeader, stopped, holders("")]);
}

#[tokio::test]
async fn a_second_process_leads_only_after_the_first() {
    let server = Server::new(None);
    let first = Contender::start(&server, "a", Duration::ZERO);
    server.until(|| first.leads(server.now())).await;
    let second = Contender::start(&server, "b", Duration::ZERO);
    server.pass(60 * SECOND).await;
    assert!(first.leads(server.now()) && !second.leads(server.now()));
    assert_eq!(second.news.lock().unwrap().clone(), [News::Holder("a".to_owned())]);

    // Killed: nothing is given back, and the lease is out after its duration.
    first.running.abort();
    let killed = server.now();
    server.until(|| second.leads(server.now())).await;
    let waited = server.now() - killed;
    assert!((12 * SECOND..22 * SECOND).contains(&waited), "{waited:?}");
    assert!(!first.leads(server.now()), "its leadership ended with it");
    assert_eq!(server.lease()["spec"]["leaseTransitions"], 1);

    let third = Contender::start(&server, "c", Duration::ZERO);
    server.pass(5 * SECOND).await;
    second.stop.cancel();
    let stopped = server.now();
    server.until(|| third.leads(server.now())).await;
    assert!(server.now() - stopped <= 5 * SECOND, "a release hands over within a try");
    let epoch = |own: &Contender| own.held.lock().unwrap().as_ref().unwrap().epoch();
    assert!(epoch(&first) < epoch(&second) && epoch(&second) < epoch(&third));
}

#[tokio::test]
async fn a_leader_that_cannot_renew_is_invalid_in_time_and_ends() {
    for mood in [Mood::Silent, Mood::Failing] {
        let server = Server::new(None);
        let own = Contender::start(&server, "a", Duration::ZERO);
        server.until(|| own.leads(server.now())).await;
        server.set_mood(mood);
        let broken = server.now();
        server.until(|| !own.leads(server.now())).await;
        assert!(server.now() - broken <= 10 * SECOND, "{:?}", server.now() - broken);
        server.until(|| own.running.is_finished()).await;
        assert_eq!(own.running.await.unwrap(), Ending::Lost(Loss::Deadline), "{mood:?}");
        assert_eq!(server.lease()["spec"]["holderIdentity"], "a", "nobody could be told");
        let text = own.metrics.render();
        assert!(text.contains("leader_election_master_status{name=\"kube-scheduler\"} 0\n"));
    }
}

#[tokio::test]
async fn a_short_outage_is_survived() {
    let server = Server::new(None);
    let own = Contender::start(&server, "a", Duration::ZERO);
    server.until(|| own.leads(server.now())).await;
    for _ in 0..3 {
        server.set_mood(Mood::Failing);
        server.pass(7 * SECOND).await;
        server.set_mood(Mood::Well);
        server.pass(3 * SECOND).await;
        assert!(own.leads(server.now()) && !own.running.is_finished());
    }
    assert_eq!(server.lease()["spec"]["leaseTransitions"], 0);
}

#[tokio::test]
async fn a_lease_that_another_has_taken_is_left_alone() {
    let server = Server::new(None);
    let own = Contender::start(&server, "a", Duration::ZERO);
    server.until(|| own.leads(server.now())).await;
    {
        let mut state = server.state.lock().unwrap();
        let lease = state.lease.as_mut().unwrap();
        lease["spec"]["holderIdentity"] = "b".into();
        lease["metadata"]["resourceVersion"] = "999".into();
    }
    server.until(|| own.running.is_finished()).await;
    assert!(!own.leads(server.now()));
    assert_eq!(own.running.await.unwrap(), Ending::Lost(Loss::Taken));
    assert_eq!(server.lease()["spec"]["holderIdentity"], "b");
}

#[tokio::test]
async fn the_lease_is_held_until_the_work_has_ended() {
    let server = Server::new(None);
    let own = Contender::start(&server, "a", 40 * SECOND);
    server.until(|| own.leads(server.now())).await;
    own.stop.cancel();
    server.pass(39 * SECOND).await;
    assert!(own.leads(server.now()), "the binds in flight may still be sent");
    assert_eq!(server.lease()["spec"]["holderIdentity"], "a");
    server.until(|| own.running.is_finished()).await;
    assert_eq!(own.running.await.unwrap(), Ending::Done);
    assert_eq!(server.lease()["spec"]["holderIdentity"], "");
}

#[tokio::test]
async fn the_watchdog_barks_when_a_loser_does_not_end() {
    let server = Server::new(None);
    let own = Contender::start(&server, "a", 3600 * SECOND);
    server.until(|| own.leads(server.now())).await;
    server.set_mood(Mood::Silent);
    server.pass(34 * SECOND).await;
    assert_eq!(own.watchdog.check(20 * SECOND), Ok(()));
    server.pass(2 * SECOND).await;
    let words = "failed election to renew leadership on lease kube-scheduler";
    assert_eq!(own.watchdog.check(20 * SECOND), Err(words.to_owned()));
    assert!(!own.leads(server.now()));
}

#[tokio::test]
async fn who_is_stopped_before_it_leads_touches_nothing() {
    let server = Server::new(None);
    let first = Contender::start(&server, "a", Duration::ZERO);
    server.until(|| first.leads(server.now())).await;
    let second = Contender::start(&server, "b", Duration::ZERO);
    server.pass(5 * SECOND).await;
    second.stop.cancel();
    server.until(|| second.running.is_finished()).await;
    assert_eq!(second.running.await.unwrap(), Ending::NeverLed);
    assert!(first.leads(server.now()));
}

#[tokio::test]
async fn a_lease_that_cannot_be_read_is_tried_again() {
    let lease = |version: &str, spec: Value| json!({ "metadata": { "name": "kube-scheduler", "resourceVersion": version }, "spec": spec });
    for odd in [lease("seven", json!({})), lease("7", json!({ "renewTime": "noon" })), json!([])] {
        let server = Server::new(Some(odd));
        let own = Contender::start(&server, "a", Duration::ZERO);
        server.pass(10 * SECOND).await;
        assert!(!own.leads(server.now()) && !own.running.is_finished());
        server.state.lock().unwrap().lease = Some(lease("8", json!({})));
        server.until(|| own.leads(server.now())).await;
    }
}
