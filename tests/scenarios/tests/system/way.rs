//! The way between a scheduler and a server, on which a test can meddle: requests are held up, lost
//! or land later, watches break, bytes are garbled. The server itself is a real one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{self, Poll};

use anyhow::{Context as _, Result};
use bytes::{Bytes, BytesMut};
use chassis::client::{AnswerBody, Client, Options, Source};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use scenarios::system::PATIENCE;
use scheduler::Clients;
use scheduler::config::ClientConnection;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};

use crate::yard::Yard;

/// A place where requests are held up.
#[derive(Debug, Clone, Default)]
pub struct Toll {
    arrived: CancellationToken,
    open: CancellationToken,
}

impl Toll {
    /// Waits until somebody is there.
    pub async fn arrived(&self) -> Result<()> {
        let arrived = tokio::time::timeout(PATIENCE, self.arrived.cancelled()).await;
        arrived.context("nobody comes to be held up")
    }

    /// Whether everybody passes.
    pub fn is_open(&self) -> bool {
        self.open.is_cancelled()
    }

    /// Lets everybody pass, now and later.
    pub fn open(&self) {
        self.open.cancel();
    }

    async fn pass(&self) {
        self.arrived.cancel();
        self.open.cancelled().await;
    }
}

/// What happens to one request.
#[derive(Debug, Clone)]
pub enum Fate {
    /// Nothing.
    Fine,
    /// It never reaches the server, and its sender hears that.
    Lost,
    /// It reaches the server when the toll is open.
    Held(Toll),
    /// Its sender hears that it is lost; it reaches the server when the toll is open.
    LandsLater(Toll),
    /// A watch that breaks after so many pieces.
    Breaks(usize),
    /// A watch that begins at a version which no server keeps.
    Expired,
    /// Of the answer, each first text is replaced with the second, which is as long.
    Garbled(&'static [(&'static str, &'static str)]),
}

/// A request, as far as somebody may want to meddle with it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// What it asks for, without options.
    pub path: String,
    /// Whether it is a watch.
    pub is_watch: bool,
    /// The pod and the node, where it is a Binding.
    pub binding: Option<(String, String)>,
}

impl Asked {
    /// Whether it is a Binding of this pod.
    pub fn binds(&self, pod: &str) -> bool {
        self.binding.as_ref().is_some_and(|(name, _)| name == pod)
    }
}

type Rule = Box<dyn FnMut(&Asked) -> Fate + Send>;

/// A way; clones are the same way.
#[derive(Clone)]
pub struct Way {
    client: Client,
    rule: Arc<Mutex<Rule>>,
    bindings: Arc<Mutex<Vec<(String, String)>>>,
    writes: Arc<Mutex<Vec<String>>>,
}

impl Way {
    /// A way to the server of `yard` on which `rule` decides what happens to each request.
    pub async fn to(
        yard: &Yard,
        rule: impl FnMut(&Asked) -> Fate + Send + 'static,
    ) -> Result<Self> {
        let source = Source::from_flags(Some(yard.kubeconfig().to_owned()), None);
        let client = Client::connect(&source, &Options::new("way")).await?;
        let rule: Rule = Box::new(rule);
        let rule = Arc::new(Mutex::new(rule));
        Ok(Self { client, rule, bindings: Arc::default(), writes: Arc::default() })
    }

    /// From now on this happens to requests.
    pub fn turn(&self, rule: impl FnMut(&Asked) -> Fate + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }

    /// The pods and nodes of all Bindings that were sent so far.
    pub fn bindings(&self) -> Vec<(String, String)> {
        self.bindings.lock().unwrap().clone()
    }

    /// All writes that were sent so far, but for those of Leases, of Events, and of questions who
    /// may do what.
    pub fn writes(&self) -> Vec<String> {
        self.writes.lock().unwrap().clone()
    }

    /// The clients of a scheduler that goes this way.
    pub fn clients(&self, connection: &ClientConnection) -> Clients {
        Clients::made(connection, |options| Client::from_service(self.clone(), options))
    }

    async fn asked(&self, request: Request<Body>) -> Result<(Asked, Request<Body>), BoxError> {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let path = parts.uri.path().to_owned();
        let is_watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
        let is_aside = ["/leases", "/events", "reviews"].iter().any(|part| path.contains(part));
        if parts.method != Method::GET && !is_aside {
            self.writes.lock().unwrap().push(format!("{} {path}", parts.method));
        }
        let mut binding = None;
        if parts.method == Method::POST && path.ends_with("/binding") {
            let target: Value = serde_json::from_slice(&bytes)?;
            let node = target["target"]["name"].as_str().unwrap_or_default().to_owned();
            let pod = path.rsplit('/').nth(1).unwrap_or_default().to_owned();
            self.bindings.lock().unwrap().push((pod.clone(), node.clone()));
            binding = Some((pod, node));
        }
        let request = Request::from_parts(parts, Body::from(bytes));
        Ok((Asked { path, is_watch, binding }, request))
    }

    async fn travel(self, request: Request<Body>) -> Result<Answer, BoxError> {
        let (asked, mut request) = self.asked(request).await?;
        let fate = (self.rule.lock().unwrap())(&asked);
        match fate.clone() {
            Fate::Lost => return Err(lost()),
            Fate::Held(toll) => toll.pass().await,
            Fate::LandsLater(toll) => {
                tokio::spawn(async move {
                    toll.pass().await;
                    // Nobody hears the answer: that is the point.
                    let _ = self.client.send(request).await;
                });
                return Err(lost());
            }
            Fate::Expired if asked.is_watch => {
                *request.uri_mut() = from_long_ago(request.uri());
            }
            _ => {}
        }
        let (parts, body) = self.client.send(request).await?.into_parts();
        let frames = BodyStream::new(body);
        let body: Pieces = match fate {
            Fate::Breaks(count) if asked.is_watch => {
                Box::pin(frames.take(count).chain(stream::iter([Err(lost())])))
            }
            Fate::Garbled(texts) => {
                let garble = move |line| Frame::data(texts.iter().fold(line, garbled));
                Box::pin(lines(frames).map_ok(garble))
            }
            _ => Box::pin(frames),
        };
        Ok(Response::from_parts(parts, StreamBody::new(body)))
    }
}

/// The lines of a body, however it was cut into pieces: a list is one, and so is each event of a
/// watch.
fn lines(
    frames: BodyStream<AnswerBody>,
) -> impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static {
    stream::unfold((frames, BytesMut::new()), async |(mut frames, mut left)| {
        loop {
            if let Some(end) = left.iter().position(|byte| *byte == b'\n') {
                let line = left.split_to(end + 1).freeze();
                return Some((Ok(line), (frames, left)));
            }
            match frames.next().await {
                Some(Ok(frame)) => left.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Some((Err(error), (frames, left))),
                None if left.is_empty() => return None,
                None => return Some((Ok(left.split().freeze()), (frames, left))),
            }
        }
    })
}

fn lost() -> BoxError {
    "connection reset by peer".into()
}

fn garbled(data: Bytes, (old, new): &(&str, &str)) -> Bytes {
    let mut bytes = data.to_vec();
    let places = data.windows(old.len()).enumerate();
    let places: Vec<usize> =
        places.filter(|(_, window)| *window == old.as_bytes()).map(|(place, _)| place).collect();
    for place in places {
        bytes[place..place + new.len()].copy_from_slice(new.as_bytes());
    }
    bytes.into()
}

/// The same watch from the first version there ever was.
fn from_long_ago(uri: &Uri) -> Uri {
    let text = uri.to_string();
    let Some((before, after)) = text.split_once("resourceVersion=") else { return uri.clone() };
    let rest: VecDeque<&str> = after.split('&').collect();
    let rest: String = rest.iter().skip(1).map(|option| format!("&{option}")).collect();
    format!("{before}resourceVersion=1{rest}").parse().unwrap()
}

type Pieces = BoxStream<'static, Result<Frame<Bytes>, BoxError>>;
type Answer = Response<StreamBody<Pieces>>;

impl Service<Request<Body>> for Way {
    type Response = Answer;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let own = self.clone();
        // On its own, so that it goes on when whoever sent it gives up.
        let journey = tokio::spawn(own.travel(request));
        Box::pin(async move { journey.await? })
    }
}
