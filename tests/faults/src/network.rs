//! The way between schedulers and the server, and what happens on it.
//!
//! Once a request is on its way it goes on without whoever sent it: it may land long after he gave
//! up, or died. Pieces of a watch arrive in order, late, some of them twice, and not at all once it
//! breaks, or falls silent and stays open.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chassis::clock::Clock;
use drydock::{Answer, Body, Drydock, Trusted};
use futures::{StreamExt as _, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, BodyStream, Full};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tower::Service;

use crate::draw::Draw;
use crate::judge::{Binding, Judge, Order, Reading, identity};
use crate::log::Log;

/// How long a request that nobody answers is kept open.
const SILENCE: Duration = Duration::from_secs(70);

/// How many of a thousand watches that would break fall silent instead.
const MUTE_CHANCE: u64 = 150;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    Fair,
    Windy,
    Stormy,
}

/// A request whose fate nobody knows.
#[derive(Debug)]
pub struct Lost;

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection was lost")
    }
}

impl std::error::Error for Lost {}

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fine,
    /// Never reaches the server.
    LostBefore,
    /// Reaches the server; the answer does not come back.
    LostAfter,
    /// Its sender is told that it is lost; it lands so much later.
    LandsLater(Duration),
    /// Reaches the server; nothing is heard of it.
    Silent,
    /// Answered without being tried.
    Refused(StatusCode),
    /// Carried out, and answered as if it had failed.
    Denied,
}

/// What happens to a request or a watch.
struct Plan {
    fate: Fate,
    there: Duration,
    back: Duration,
    watch: Draw,
    weather: Weather,
}

/// What went wrong on the way.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// Requests that did not get there.
    pub lost: u64,
    /// Requests that were carried out, and of which the sender heard nothing, or something false.
    pub unheard: u64,
    /// Requests that landed after the sender had been told that they were lost.
    pub late: u64,
    /// Requests that were answered without being tried.
    pub refused: u64,
    /// Bindings of which the sender did not know whether they were carried out.
    pub unclear: u64,
    /// Watches that broke.
    pub broken: u64,
    /// Pieces of watches that came twice.
    pub repeated: u64,
    /// Watches that stayed open and of which nothing came any more.
    pub mute: u64,
}

impl Faults {
    /// Each kind, in words.
    pub fn named(&self) -> [(u64, &'static str); 8] {
        let Self { lost, unheard, late, refused, unclear, broken, repeated, mute } = *self;
        [
            (lost, "requests lost"),
            (unheard, "carried out unheard"),
            (late, "landed late"),
            (refused, "refused"),
            (unclear, "Bindings of unclear fate"),
            (broken, "watches broken"),
            (repeated, "watch events repeated"),
            (mute, "watches fallen silent"),
        ]
    }

    pub fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.unheard += other.unheard;
        self.late += other.late;
        self.refused += other.refused;
        self.unclear += other.unclear;
        self.broken += other.broken;
        self.repeated += other.repeated;
        self.mute += other.mute;
    }

    fn count(&mut self, fate: Fate, is_binding: bool) {
        let (counter, is_unclear) = match fate {
            Fate::Fine => return,
            Fate::LostBefore => (&mut self.lost, true),
            Fate::LostAfter | Fate::Silent | Fate::Denied => (&mut self.unheard, true),
            Fate::LandsLater(_) => (&mut self.late, true),
            // Others than these are definite answers.
            Fate::Refused(code) => {
                (&mut self.refused, code.is_server_error() || code.as_u16() == 429)
            }
        };
        *counter += 1;
        self.unclear += u64::from(is_binding && is_unclear);
    }
}

struct Shared {
    draw: Draw,
    faults: Faults,
    weather: Weather,
    /// Who reaches nobody, and until when.
    cut: BTreeMap<usize, Duration>,
}

/// All ways; clones share everything.
#[derive(Clone)]
pub struct Network {
    clock: Clock,
    log: Log,
    judge: Judge,
    shared: Arc<Mutex<Shared>>,
}

impl Network {
    pub fn new(clock: &Clock, log: &Log, judge: &Judge, seed: u64) -> Self {
        let draw = Draw::new(seed, "network");
        let shared = Shared {
            draw,
            faults: Faults::default(),
            weather: Weather::Fair,
            cut: BTreeMap::new(),
        };
        let (clock, log, judge) = (clock.clone(), log.clone(), judge.clone());
        Self { clock, log, judge, shared: Arc::new(Mutex::new(shared)) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Shared) -> T) -> T {
        act(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn turn(&self, weather: Weather) {
        self.with(|shared| shared.weather = weather);
    }

    /// Cuts one off for so long.
    pub fn cut(&self, who: usize, time: Duration) {
        let until = self.clock.monotonic() + time;
        self.with(|shared| shared.cut.insert(who, until));
    }

    /// What went wrong so far.
    pub fn faults(&self) -> Faults {
        self.with(|shared| shared.faults)
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.with(|shared| {
            shared.cut.clear();
            shared.weather = Weather::Fair;
        });
    }

    fn is_cut(&self, who: usize) -> bool {
        let now = self.clock.monotonic();
        self.with(|shared| shared.cut.get(&who).is_some_and(|until| *until > now))
    }

    fn plan(&self, who: usize, method: &Method, is_binding: bool) -> Plan {
        let is_cut = self.is_cut(who);
        self.with(|shared| {
            let weather = shared.weather;
            let draw = &mut shared.draw;
            let (there, back) = (draw.millis(1, 6), draw.millis(1, 6));
            let watch = Draw::new(draw.number(), "watch");
            let (die, later) = (draw.below(1000), draw.millis(100, 25_000));
            let slow = draw.millis(10, 3000);
            // What becomes of a Binding matters most: it meets more than its share.
            let (is_aimed_at, aimed) = (draw.chance(400), draw.below(380));
            let die = match weather {
                Weather::Fair => usize::MAX,
                _ if is_binding && is_aimed_at => aimed,
                Weather::Windy => die * 4,
                Weather::Stormy => die,
            };
            let is_write = *method != Method::GET;
            let fate = match die {
                _ if is_cut => Fate::LostBefore,
                0..50 => Fate::LostBefore,
                50..110 => Fate::LostAfter,
                110..160 => Fate::LandsLater(later),
                160..190 => Fate::Silent,
                190..240 => Fate::Refused(StatusCode::TOO_MANY_REQUESTS),
                240..280 => Fate::Refused(StatusCode::INTERNAL_SERVER_ERROR),
                280..340 if is_write => Fate::Refused(StatusCode::CONFLICT),
                340..380 => Fate::Denied,
                _ => Fate::Fine,
            };
            let is_slow = (400..550).contains(&die);
            let there = if is_slow { slow } else { there };
            shared.faults.count(fate, is_binding);
            Plan { fate, there, back, watch, weather }
        })
    }

    /// The way of one scheduler.
    pub fn way(&self, who: usize, server: Trusted) -> Way {
        Way { who, network: self.clone(), server }
    }
}

/// The way of one scheduler to the server.
#[derive(Clone)]
pub struct Way {
    who: usize,
    network: Network,
    server: Trusted,
}

/// A request on its way.
struct Sent {
    who: usize,
    network: Network,
    server: Trusted,
    what: String,
    is_watch: bool,
    plan: Plan,
}

impl<B> Service<Request<B>> for Way
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Debug,
    Drydock: Service<Request<Full<Bytes>>, Response = Answer, Error = Infallible>,
{
    type Response = Answer;
    type Error = Lost;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Lost>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Lost>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.contains("watch=");
        let what = format!("s{} {} {}", self.who, request.method(), request.uri().path());
        let is_binding = request.uri().path().ends_with("/binding");
        self.network.log.detail(&format!("{what} {query}"));
        let plan = self.network.plan(self.who, request.method(), is_binding);
        let (who, network, server) = (self.who, self.network.clone(), self.server.clone());
        let sent = Sent { who, network, server, what, is_watch, plan };
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move {
            let (parts, body) = request.into_parts();
            let Ok(body) = body.collect().await else { return };
            let body = body.to_bytes();
            sent.travel(Request::from_parts(parts, body), tell).await;
        });
        Box::pin(async move { told.await.unwrap_or(Err(Lost)) })
    }
}

type Tell = oneshot::Sender<Result<Answer, Lost>>;

impl Sent {
    async fn travel(mut self, request: Request<Bytes>, tell: Tell) {
        let Self { network, plan, .. } = &self;
        let (fate, clock) = (plan.fate, network.clock.clone());
        let binding = binding(&request).map(|own| network.judge.sent(self.who, own));
        let is_told = !self.is_watch && (request.method() != Method::GET || fate != Fate::Fine);
        if is_told && !self.what.contains("/leases") && !self.what.contains("/events") {
            network.log.note(&format!("{} will be {fate:?} in {:?}", self.what, plan.there));
        }
        // Nobody may listen any longer: then the answer is nobody's.
        match fate {
            Fate::LostBefore => {
                clock.sleep(plan.there).await;
                let _ = tell.send(Err(Lost));
                return;
            }
            Fate::Refused(code) => {
                clock.sleep(plan.there).await;
                let _ = tell.send(Ok(refusal(code)));
                return;
            }
            Fate::LandsLater(later) => {
                clock.sleep(plan.there).await;
                let _ = tell.send(Err(Lost));
                clock.sleep(later).await;
                self.carry_out(request, binding).await;
                return;
            }
            _ => clock.sleep(plan.there).await,
        }
        let back = plan.back;
        let answer = self.carry_out(request, binding).await;
        clock.sleep(back).await;
        let answer = match fate {
            Fate::LostAfter => Err(Lost),
            Fate::Denied => Ok(refusal(StatusCode::INTERNAL_SERVER_ERROR)),
            Fate::Silent => {
                clock.sleep(SILENCE).await;
                Err(Lost)
            }
            _ if self.is_watch && answer.status() == StatusCode::OK => Ok(self.watched(answer)),
            _ => Ok(answer),
        };
        let _ = tell.send(answer);
    }

    async fn carry_out(&mut self, request: Request<Bytes>, binding: Option<Binding>) -> Answer {
        let (reading, holder) = (reading(&request), holder(&request));
        let held = held(&request);
        let before = self.network.judge.now();
        let Ok(answer) = self.server.call(request.map(Full::from)).await;
        if answer.status().is_success() {
            if let Some(uid) = held {
                self.network.judge.held(self.who, &uid);
            }
            self.read(reading, holder, before);
        }
        if let Some(binding) = binding {
            let code = answer.status();
            self.network.log.note(&format!("{} lands: {code}", self.what));
            if code == StatusCode::CREATED {
                self.network.judge.landed(&binding);
            }
        }
        answer
    }

    /// Tells the judge what the sender is told by an answer, if it gets there.
    fn read(&self, reading: Option<Reading>, holder: Option<String>, at: Order) {
        let judge = &self.network.judge;
        if let Some(holder) = holder {
            judge.led(&holder);
            if holder == identity(self.who) {
                judge.read(self.who, Reading::Lease, at);
            }
        }
        if let Some(reading) = reading {
            judge.read(self.who, reading, at);
        }
    }

    /// A watch whose pieces are late, come twice, and that breaks.
    fn watched(&self, answer: Answer) -> Answer {
        let network = self.network.clone();
        let (who, mut draw) = (self.who, self.plan.watch.clone());
        // As long as there are faults: what is left of them when they end comes to nothing.
        let mut pieces_left = match self.plan.weather {
            Weather::Fair => usize::MAX,
            Weather::Windy => 1 + draw.below(60),
            Weather::Stormy => 1 + draw.below(12),
        };
        // Some stay open when the last piece has come, and nobody says that it was the last.
        let is_mute = pieces_left < usize::MAX && draw.chance(MUTE_CHANCE);
        answer.map(|body| {
            let pieces = BodyStream::new(body);
            let pieces = pieces.filter_map(|frame| async { frame.ok()?.into_data().ok() });
            let late = pieces.then(move |piece| {
                let weather = network.with(|shared| shared.weather);
                let lag = match weather {
                    Weather::Fair => draw.millis(1, 5),
                    _ if draw.chance(40) => draw.millis(500, 8000),
                    _ => draw.millis(1, 120),
                };
                let comes_twice = draw.chance(60) && weather != Weather::Fair;
                pieces_left -= usize::from(weather != Weather::Fair);
                let (network, is_last) = (network.clone(), pieces_left == 0);
                async move {
                    network.clock.sleep(lag).await;
                    let is_cut = network.is_cut(who);
                    network.with(|shared| {
                        let Faults { broken, repeated, mute, .. } = &mut shared.faults;
                        *mute += u64::from(is_last && is_mute && !is_cut);
                        *broken += u64::from(is_cut || (is_last && !is_mute));
                        *repeated += u64::from(comes_twice && !is_cut);
                    });
                    let times = if comes_twice { 2 } else { 1 };
                    let mut told = vec![Some(piece); if is_cut { 0 } else { times }];
                    // Nothing comes after that.
                    told.extend((is_cut || is_last).then_some(None));
                    told
                }
            });
            // What is on its way when the connection is cut is lost with it.
            let whole = late.flat_map(stream::iter);
            let pieces = whole.take_while(|piece| std::future::ready(piece.is_some()));
            let pieces = pieces.filter_map(std::future::ready);
            let silence = stream::once(async move {
                if is_mute {
                    std::future::pending::<()>().await;
                }
            });
            Body::stream(pieces.chain(silence.filter_map(|()| std::future::ready(None))))
        })
    }
}

/// The Binding that a request asks for.
fn binding(request: &Request<Bytes>) -> Option<(String, String, String)> {
    let path = request.uri().path();
    if request.method() != Method::POST || !path.ends_with("/binding") {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body()).ok()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = path.rsplit('/').nth(1)?.to_owned();
    Some((name, text(&body["metadata"]["uid"]), text(&body["target"]["name"])))
}

/// The reservation that gets a node or another size by a request.
fn held(request: &Request<Bytes>) -> Option<String> {
    let path = request.uri().path();
    if request.method() != Method::PATCH || !path.contains("/reservations/") {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body()).ok()?;
    let is_held = !body["status"]["allocatable"].is_null();
    is_held.then(|| body["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
}

/// What of everything a request asks for.
fn reading(request: &Request<Bytes>) -> Option<Reading> {
    let query = request.uri().query().unwrap_or_default();
    if request.method() != Method::GET || query.contains("watch=") {
        return None;
    }
    match request.uri().path() {
        "/api/v1/pods" => Some(Reading::Pods),
        "/api/v1/nodes" => Some(Reading::Nodes),
        "/api/v1/namespaces" if query.split('&').any(|one| one == "limit=1") => {
            Some(Reading::Revision)
        }
        _ => None,
    }
}

/// In whose name a request writes the Lease.
fn holder(request: &Request<Bytes>) -> Option<String> {
    if request.method() == Method::GET || !request.uri().path().contains("/leases") {
        return None;
    }
    let body: Value = serde_json::from_slice(request.body()).ok()?;
    Some(body["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
}

fn refusal(code: StatusCode) -> Answer {
    let reason = match code {
        StatusCode::CONFLICT => "Conflict",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "injected", "reason": reason, "code": code.as_u16(),
    });
    let mut answer = Response::new(Body::from(Bytes::from(status.to_string())));
    *answer.status_mut() = code;
    answer
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    answer
}
