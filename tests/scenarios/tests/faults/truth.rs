//! The reflector over real connections to both servers, which break, and whose versions
//! expire in the server's own words.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chassis::client::{Client, ListOptions, Options, ResourceType, Source};
use chassis::random::Random;
use http::{Request, Response, Uri};
use http_body_util::{BodyStream, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use scenarios::backend::{BACKENDS, Backend, Lease, Scope};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};

use crate::ledger::Map;
use crate::reflector::{reflect, write};

const ROUNDS: usize = 8;
const WRITES_PER_ROUND: usize = 6;
const PATIENCE: Duration = Duration::from_secs(60);

/// A client's transport that breaks, by seed.
#[derive(Clone)]
struct Flaky {
    client: Client,
    random: Arc<Mutex<Random>>,
    /// How often each thing happened: lost, closed, expired.
    met: Arc<Mutex<[usize; 3]>>,
}

enum Fate {
    Fine,
    Lost,
    ClosedAfter(usize),
    Expired,
}

impl Flaky {
    fn fate(&self, is_watch: bool) -> Fate {
        let mut random = self.random.lock().unwrap();
        let (die, detail) = (random.draw() % 100, random.draw());
        let mut met = self.met.lock().unwrap();
        match die {
            ..20 => {
                met[0] += 1;
                Fate::Lost
            }
            20..80 if is_watch => {
                met[1] += 1;
                Fate::ClosedAfter(usize::try_from(detail % 5).unwrap())
            }
            80.. if is_watch => {
                met[2] += 1;
                Fate::Expired
            }
            _ => Fate::Fine,
        }
    }
}

type Answer =
    Response<StreamBody<futures::stream::BoxStream<'static, Result<Frame<Bytes>, BoxError>>>>;

impl Service<Request<Body>> for Flaky {
    type Response = Answer;
    type Error = BoxError;
    type Future = futures::future::BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let fate = self.fate(is_watch);
        let client = self.client.clone();
        Box::pin(async move {
            if matches!(fate, Fate::Expired) {
                *request.uri_mut() = from_long_ago(request.uri());
            }
            let answer = client.send(request).await?;
            if matches!(fate, Fate::Lost) {
                return Err("connection reset by peer".into());
            }
            let (parts, body) = answer.into_parts();
            let frames = BodyStream::new(body);
            let body = match fate {
                Fate::ClosedAfter(count) => {
                    let broken = futures::stream::iter([Err("connection reset by peer".into())]);
                    let few = futures::StreamExt::take(frames, count);
                    futures::StreamExt::boxed(futures::StreamExt::chain(few, broken))
                }
                _ => futures::StreamExt::boxed(frames),
            };
            Ok(Response::from_parts(parts, StreamBody::new(body)))
        })
    }
}

/// The same watch from the first version there ever was, which no server keeps.
fn from_long_ago(uri: &Uri) -> Uri {
    let text = uri.to_string();
    let (before, after) = text.split_once("resourceVersion=").unwrap();
    let rest: VecDeque<&str> = after.split('&').collect();
    let rest: String = rest.iter().skip(1).map(|option| format!("&{option}")).collect();
    format!("{before}resourceVersion=1{rest}").parse().unwrap()
}

async fn follow(backend: Backend) {
    let lease = Lease::take(backend, Scope::Namespaced, "faults").await.unwrap();
    let source = Source::from_flags(Some(lease.kubeconfig.clone()), None);
    let client = Client::connect(&source, &Options::new("faults")).await.unwrap();
    let namespace = format!("faults-{}", std::process::id());
    let namespaces = client.access::<Value>(ResourceType::cluster("", "v1", "namespaces"), "");
    let body =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
    namespaces.create(&body).await.unwrap();
    let config_maps = ResourceType::namespaced("", "v1", "configmaps");
    let maps = client.access::<Map>(config_maps.clone(), &namespace);
    let flaky = Flaky {
        client: client.clone(),
        random: Arc::new(Mutex::new(Random::new(1))),
        met: Arc::default(),
    };
    let badly = Client::from_service(flaky.clone(), &Options::new("faults"));
    let stop = CancellationToken::new();
    let ledger = reflect(badly.access::<Map>(config_maps, &namespace), 1, &stop);
    let mut random = Random::new(2);
    for round in 0..ROUNDS {
        for _ in 0..WRITES_PER_ROUND {
            write(&maps, &mut random).await;
        }
        let list = maps.list_all(&ListOptions::default()).await.unwrap();
        let caught_up = async {
            let mut look = tokio::time::interval(Duration::from_millis(20));
            while !ledger.lock().unwrap().equals(&list) {
                look.tick().await;
            }
        };
        let caught_up = tokio::time::timeout(PATIENCE, caught_up).await;
        assert!(caught_up.is_ok(), "{} round {round}", backend.name());
    }
    stop.cancel();
    let met = *flaky.met.lock().unwrap();
    assert!(met.iter().all(|times| *times > 0), "{}: {met:?}", backend.name());
    let lists = ledger.lock().unwrap().lists;
    assert!(lists > 1, "{}: no version expired", backend.name());
    lease.give_back().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reflector_follows_both_servers_through_broken_connections_and_expired_versions() {
    for backend in BACKENDS {
        follow(*backend).await;
    }
}
