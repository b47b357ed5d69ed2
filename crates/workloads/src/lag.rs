//! Controllers whose watches lag behind what the server knows: they must do nothing for an
//! owner that is gone, and must not wait for a pod that came and went.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chassis::client::{Client, Options};
use futures::StreamExt as _;
use futures::channel::mpsc;
use futures::stream::{self, BoxStream};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{Name, Selection};

/// How long a controller gets to do what it should not.
const TEMPTED: Duration = Duration::from_millis(300);
/// How long it gets to do what it should.
const PATIENCE: Duration = Duration::from_secs(10);

type Chunk = Result<Frame<Bytes>, Infallible>;
type Answer = Response<StreamBody<BoxStream<'static, Chunk>>>;

/// A server that lists what there was, and of which nothing can be found by name any more.
#[derive(Clone, Default)]
struct Stale(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// What there was, by path of the collection.
    lists: BTreeMap<&'static str, Vec<Value>>,
    /// The watch on pods.
    pods: Option<mpsc::UnboundedSender<Value>>,
    /// How many of the next pods are gone before their maker hears of them.
    short_lived: usize,
    /// What is found by name after all, by path, and comes back from every write to it.
    found: BTreeMap<&'static str, Value>,
    /// The ends of paths that nobody may write to.
    refused: Vec<&'static str>,
    asked: Vec<String>,
}

fn answer(status: u16, body: &Value) -> Answer {
    let chunk = Ok(Frame::data(Bytes::from(body.to_string())));
    let body = StreamBody::new(stream::iter([chunk]).boxed());
    Response::builder().status(status).body(body).unwrap()
}

fn not_found() -> Answer {
    answer(
        404,
        &json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404 }),
    )
}

impl Stale {
    fn with<R>(&self, use_it: impl FnOnce(&mut State) -> R) -> R {
        use_it(&mut self.0.lock().unwrap())
    }

    fn count(&self, start: &str) -> usize {
        self.with(|state| state.asked.iter().filter(|line| line.starts_with(start)).count())
    }

    async fn serve(
        self,
        method: Method,
        path: String,
        query: String,
    ) -> Result<Answer, Infallible> {
        let watched = query.split('&').any(|word| word == "watch=true" || word == "watch=1");
        if watched {
            let (sender, events) = mpsc::unbounded::<Value>();
            self.with(|state| {
                if path == "/api/v1/pods" {
                    state.pods = Some(sender.clone());
                }
            });
            let lines = events.map(|event| Ok(Frame::data(Bytes::from(format!("{event}\n")))));
            // The sender that is kept here keeps a silent watch open.
            let lines = lines.chain(stream::once(async move {
                drop(sender);
                std::future::pending().await
            }));
            return Ok(Response::new(StreamBody::new(lines.boxed())));
        }
        let items = self.with(|state| state.lists.get(path.as_str()).cloned());
        if method == Method::GET {
            let list = |items| json!({ "metadata": { "resourceVersion": "5" }, "items": items });
            let is_collection = path == "/api/v1/pods" || items.is_some();
            let lists = is_collection || !path.contains("/namespaces/");
            if !lists {
                let found = self.with(|state| {
                    state.asked.push(format!("GET {path}"));
                    state.found.get(path.as_str()).cloned()
                });
                return Ok(found.map_or_else(not_found, |found| answer(200, &found)));
            }
            return Ok(answer(200, &list(items.unwrap_or_default())));
        }
        let number = self.with(|state| {
            state.asked.push(format!("{method} {path}"));
            state.asked.len()
        });
        if self.with(|state| state.refused.iter().any(|end| path.ends_with(end))) {
            let status = json!({ "kind": "Status", "status": "Failure", "reason": "Forbidden",
                                 "code": 403 });
            return Ok(answer(403, &status));
        }
        if let Some(found) = self.with(|state| state.found.get(path.as_str()).cloned()) {
            return Ok(answer(200, &found));
        }
        if method == Method::POST && path.ends_with("/pods") {
            return Ok(self.make_pod(number).await);
        }
        Ok(not_found())
    }

    async fn make_pod(self, number: usize) -> Answer {
        let pod = pod(&format!("p{number}"), Some("rs-uid"));
        let is_short = self.with(|state| {
            let is_short = state.short_lived > 0;
            state.short_lived = state.short_lived.saturating_sub(1);
            is_short
        });
        if is_short {
            // Its maker may be quicker than the watch.
            until("pods are not watched", || self.with(|state| state.pods.is_some())).await;
            let watch = self.with(|state| state.pods.clone()).expect("pods are watched");
            for kind in ["ADDED", "DELETED"] {
                watch.unbounded_send(json!({ "type": kind, "object": pod })).unwrap();
            }
            tokio::time::sleep(TEMPTED).await;
        }
        answer(201, &pod)
    }
}

impl<B: Send + 'static> tower::Service<Request<B>> for Stale {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let uri = request.uri();
        let (path, query) = (uri.path().to_owned(), uri.query().unwrap_or_default().to_owned());
        Box::pin(self.clone().serve(request.method().clone(), path, query))
    }
}

fn meta(name: &str, uid: &str) -> Value {
    json!({ "namespace": "shop", "name": name, "uid": uid, "resourceVersion": "3",
            "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "app": "web" } })
}

fn pod(name: &str, owner: Option<&str>) -> Value {
    let mut metadata = meta(name, &format!("uid-{name}"));
    metadata["resourceVersion"] = "9".into();
    if let Some(uid) = owner {
        metadata["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "name": "web", "uid": uid, "controller": true }]);
    }
    json!({ "metadata": metadata, "spec": {}, "status": { "phase": "Running" } })
}

fn owner(uid: &str, replicas: &str) -> Value {
    let mut spec = json!({ "selector": { "matchLabels": { "app": "web" } },
        "template": { "metadata": { "labels": { "app": "web" } }, "spec": {} } });
    spec[replicas] = 2.into();
    json!({ "metadata": meta("web", uid), "spec": spec, "status": {} })
}

fn run(server: &Stale, name: Name) -> CancellationToken {
    let client = Client::from_service(server.clone(), &Options::new("lag"));
    let stop = CancellationToken::new();
    let options = crate::Options { controllers: Selection::of(&[name]), ..Default::default() };
    tokio::spawn(crate::run(client, options, stop.clone()));
    stop
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn nothing_is_done_for_an_owner_that_turns_out_to_be_gone() {
    let orphan = json!({ "metadata": meta("orphan", "uid-orphan"), "status": {},
        "spec": { "selector": { "matchLabels": { "app": "web" } }, "replicas": 9 } });
    let cases = [
        (Name::ReplicaSet, "/apis/apps/v1/replicasets", "/api/v1/pods", pod("orphan", None)),
        (Name::Deployment, "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets", orphan),
        (Name::Job, "/apis/batch/v1/jobs", "/api/v1/pods", pod("orphan", None)),
    ];
    for (name, owners, dependents, orphan) in cases {
        let server = Stale::default();
        let replicas = if name == Name::Job { "parallelism" } else { "replicas" };
        server.with(|state| {
            state.lists.insert(owners, vec![owner("owner-uid", replicas)]);
            state.lists.insert(dependents, vec![orphan]);
        });
        let stop = run(&server, name);
        until(&format!("{name:?}: nobody looks for the owner"), || server.count("GET ") > 0).await;
        tokio::time::sleep(TEMPTED).await;
        stop.cancel();
        let asked = server.with(|state| std::mem::take(&mut state.asked));
        assert!(asked.iter().all(|line| line.starts_with("GET ")), "{name:?}: {asked:?}");
    }
}

#[tokio::test]
async fn a_pod_that_came_and_went_before_its_maker_heard_is_replaced() {
    let server = Stale::default();
    server.with(|state| {
        state.lists.insert("/apis/apps/v1/replicasets", vec![owner("rs-uid", "replicas")]);
        state.short_lived = 2;
    });
    let stop = run(&server, Name::ReplicaSet);
    let made = || server.count("POST /api/v1/namespaces/shop/pods");
    until("the pods that went are not replaced", || made() >= 4).await;
    // Those that were not seen are on their way, and none is made in their place.
    tokio::time::sleep(TEMPTED).await;
    assert_eq!(made(), 4);
    stop.cancel();
}

#[tokio::test]
async fn a_pod_that_cannot_be_read_is_not_replaced() {
    let broken = |name: &str| {
        let mut pod = pod(name, Some("rs-uid"));
        pod["spec"] = "none".into();
        pod["metadata"]["resourceVersion"] = "11".into();
        pod
    };
    let server = Stale::default();
    server.with(|state| {
        let mut set = owner("rs-uid", "replicas");
        set["spec"]["replicas"] = 3.into();
        state.lists.insert("/apis/apps/v1/replicasets", vec![set]);
        // One was never read, one can be read at first. Whose pod it is, no name tells: two more
        // that cannot be read belong to somebody else.
        let mut pods = ["aaaaa", "web-ccccc", "web-ddddd"].map(broken).to_vec();
        for others in &mut pods[1..] {
            others["metadata"]["ownerReferences"][0]["uid"] = "other-uid".into();
        }
        pods.push(pod("web-bbbbb", Some("rs-uid")));
        state.lists.insert("/api/v1/pods", pods);
    });
    let stop = run(&server, Name::ReplicaSet);
    let made = || server.count("POST /api/v1/namespaces/shop/pods");
    until("the third pod is not made", || made() >= 1).await;
    until("pods are not watched", || server.with(|state| state.pods.is_some())).await;
    let watch = server.with(|state| state.pods.clone()).expect("pods are watched");
    watch.unbounded_send(json!({ "type": "MODIFIED", "object": broken("web-bbbbb") })).unwrap();
    tokio::time::sleep(TEMPTED).await;
    assert_eq!(made(), 1);
    // One that is gone is replaced, readable or not.
    let mut gone = broken("web-bbbbb");
    gone["metadata"]["resourceVersion"] = "12".into();
    watch.unbounded_send(json!({ "type": "DELETED", "object": gone })).unwrap();
    until("a pod that is gone is not replaced", || made() >= 2).await;
    stop.cancel();
}

#[tokio::test]
async fn a_pod_that_cannot_be_written_keeps_no_other_on_its_node() {
    let on_node = |name: &str| {
        let mut pod = pod(name, None);
        pod["spec"] = json!({ "nodeName": "n1" });
        pod["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
        pod
    };
    let mut metadata = meta("n1", "uid-n1");
    metadata["namespace"] = "".into();
    let ready = json!({ "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let node = json!({ "metadata": metadata, "status": { "conditions": [ready] },
        "spec": { "taints": [{ "key": "gone", "effect": "NoExecute" }] } });
    let server = Stale::default();
    server.with(|state| {
        state.lists.insert("/api/v1/nodes", vec![node]);
        state.lists.insert("/api/v1/pods", ["a", "b", "c"].map(on_node).into());
        state.refused = vec!["/pods/a/status", "/pods/b"];
    });
    let stop = run(&server, Name::NodeLifecycle);
    let asked = |line: &str| server.count(line);
    for line in ["PATCH", "DELETE"] {
        for name in ["b", "c"] {
            let end = if line == "PATCH" { "/status" } else { "" };
            let line = format!("{line} /api/v1/namespaces/shop/pods/{name}{end}");
            until(&line, || asked(&line) > 0).await;
        }
    }
    assert_eq!(asked("DELETE /api/v1/namespaces/shop/pods/a"), 0);
    // What failed is tried again.
    until("the pod is not tried again", || {
        asked("PATCH /api/v1/namespaces/shop/pods/a/status") > 2
    })
    .await;
    stop.cancel();
}

#[tokio::test]
async fn a_job_makes_no_pod_in_place_of_one_that_it_adopts() {
    let mut job = owner("job-uid", "parallelism");
    job["spec"]["parallelism"] = 1.into();
    let mut adopted = pod("early", Some("job-uid"));
    adopted["metadata"]["ownerReferences"][0]["apiVersion"] = "batch/v1".into();
    adopted["metadata"]["ownerReferences"][0]["kind"] = "Job".into();
    let path = "/api/v1/namespaces/shop/pods/early";
    let server = Stale::default();
    server.with(|state| {
        state.lists.insert("/apis/batch/v1/jobs", vec![job.clone()]);
        state.lists.insert("/api/v1/pods", vec![pod("early", None)]);
        state.found.insert("/apis/batch/v1/namespaces/shop/jobs/web", job);
        state.found.insert(path, adopted);
    });
    let stop = run(&server, Name::Job);
    let patched = || server.count(&format!("PATCH {path}"));
    until("the pod is not adopted", || patched() > 0).await;
    tokio::time::sleep(TEMPTED).await;
    assert_eq!(server.count("POST /api/v1/namespaces/shop/pods"), 0);
    stop.cancel();
}
