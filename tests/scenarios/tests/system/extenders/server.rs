//! A little extender: what it does is in the path that it is asked at.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::Pod;
use bytes::Bytes;
use chassis::client::{Binding, Client, Options, Source};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use scenarios::system::PATIENCE;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

/// How long one that hangs does so: longer than anybody waits.
const FOR_LONG: Duration = Duration::from_secs(600);

/// An address at which nobody listens, and what keeps others from doing so.
pub fn nobody() -> Result<(TcpSocket, String)> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let address = socket.local_addr()?.to_string();
    Ok((socket, address))
}

#[derive(Default)]
struct Seen {
    bound: Vec<String>,
    hanging: watch::Sender<Vec<String>>,
}

/// A server that goes on until it is dropped.
pub struct Server {
    pub address: String,
    seen: Arc<Mutex<Seen>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// A server that binds pods on this cluster when it is asked to.
    pub async fn start(kubeconfig: &Path) -> Result<Self> {
        let source = Source::from_flags(Some(kubeconfig.to_owned()), None);
        let client = Client::connect(&source, &Options::new("extender")).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let own = seen.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (client, seen) = (client.clone(), own.clone());
                let service = service_fn(move |request| {
                    let (client, seen) = (client.clone(), seen.clone());
                    async move { Ok::<_, Infallible>(answered(request, &client, &seen).await) }
                });
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move {
                    // Whoever asks may go before the answer.
                    let _ = serving.await;
                });
            }
        });
        Ok(Self { address, seen, task })
    }

    /// The pods that it was asked to bind.
    pub fn bound(&self) -> String {
        self.seen.lock().unwrap().bound.join(" ")
    }

    /// The pods that it was asked about and says nothing of.
    pub fn hanging(&self) -> Vec<String> {
        self.seen.lock().unwrap().hanging.borrow().clone()
    }

    /// Waits until it is asked about a pod and says nothing.
    pub async fn until_hanging(&self) -> Result<()> {
        let mut hanging = self.seen.lock().unwrap().hanging.subscribe();
        let some = hanging.wait_for(|pods| !pods.is_empty());
        tokio::time::timeout(PATIENCE, some).await.context("it is not asked")??;
        Ok(())
    }
}

async fn answered(
    request: Request<Incoming>,
    client: &Client,
    seen: &Mutex<Seen>,
) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let mut code = StatusCode::OK;
    let answer = match path.as_str() {
        "/narrow/filter" => narrowed(&asked),
        "/narrow-names/filter" => names_narrowed(&asked),
        "/both/filter" => json!({ "nodenames": asked["NodeNames"] }),
        "/score/prioritize" => scored(&whole(&asked), "node-0000"),
        "/both/prioritize" => scored(&names(&asked["NodeNames"]), "node-0001"),
        "/lie/filter" => json!({ "NodeNames": ["nowhere"] }),
        "/mute/filter" => json!({ "NodeNames": [] }),
        "/picky/filter" => picked(&asked, client).await,
        "/error/filter" => json!({ "Error": "out of order" }),
        "/hang/filter" => {
            let name = asked["Pod"]["metadata"]["name"].as_str().unwrap().to_owned();
            seen.lock().unwrap().hanging.send_modify(|pods| pods.push(name));
            tokio::time::sleep(FOR_LONG).await;
            Value::Null
        }
        "/bind/bind" => bound(&asked, client, seen).await,
        _ => {
            code = StatusCode::INTERNAL_SERVER_ERROR;
            Value::Null
        }
    };
    let mut response = Response::new(Full::new(answer.to_string().into()));
    *response.status_mut() = code;
    response
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// The names of whole nodes, with as much in them as their kubelets say.
fn whole(asked: &Value) -> Vec<String> {
    let items = asked["Nodes"]["items"].as_array().unwrap();
    for item in items {
        assert!(item["status"]["nodeInfo"]["kubeletVersion"].is_string(), "{item} is not whole");
    }
    assert!(asked["NodeNames"].is_null());
    assert!(asked["Pod"]["spec"]["containers"][0]["terminationMessagePath"].is_string());
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Leaves the second node, or none to a pod of another name.
fn narrowed(asked: &Value) -> Value {
    let names = whole(asked);
    let is_none = asked["Pod"]["metadata"]["name"] == "none";
    let keep = |name: &str| !is_none && name == "node-0001";
    let items: Vec<&Value> = asked["Nodes"]["items"].as_array().unwrap().iter().collect();
    let kept = items.into_iter().filter(|item| keep(item["metadata"]["name"].as_str().unwrap()));
    let failed = names.iter().filter(|name| !keep(name));
    let failed: serde_json::Map<String, Value> =
        failed.map(|name| (name.clone(), "too far".into())).collect();
    json!({ "Nodes": { "items": kept.collect::<Vec<_>>() }, "FailedNodes": failed })
}

/// The same by names, where nothing helps the second node.
fn names_narrowed(asked: &Value) -> Value {
    assert!(asked["Nodes"].is_null());
    let is_none = asked["Pod"]["metadata"]["name"] == "no-names";
    let kept: Vec<String> = names(&asked["NodeNames"]);
    let kept: Vec<String> =
        kept.into_iter().filter(|name| !is_none && name == "node-0000").collect();
    json!({ "NodeNames": kept, "FailedNodes": { "node-0000": "full", "node-0001": "full" },
        "FailedAndUnresolvableNodes": { "node-0001": "of another kind" } })
}

/// The annotation by which a pod, a node or a neighbour says what it wants or has.
const SIGN: &str = "example.com/sign";

/// Leaves all nodes, or none where what the pod wants is not there.
async fn picked(asked: &Value, client: &Client) -> Value {
    let sign = |object: &Value| object["metadata"]["annotations"][SIGN].as_str().map(str::to_owned);
    let (nodes, pod) = (asked["Nodes"]["items"].as_array().unwrap(), &asked["Pod"]);
    let fits = match sign(pod).as_deref() {
        Some("annotation") => nodes.iter().any(|node| sign(node).is_some()),
        Some("condition") => nodes.iter().any(|node| {
            let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
            conditions.any(|one| one["type"] == SIGN && one["status"] == "True")
        }),
        Some("neighbour") => {
            let namespace = pod["metadata"]["namespace"].as_str().unwrap();
            let neighbour = client.within::<Pod>(namespace).get("neighbour").await.unwrap();
            neighbour.metadata.annotations.contains_key("example.com/moved")
        }
        own => own == Some("anything"),
    };
    json!({ "Nodes": { "items": if fits { nodes.as_slice() } else { &[] } } })
}

fn scored(names: &[String], best: &str) -> Value {
    let score = |name: &String| json!({ "Host": name, "Score": if name == best { 10 } else { 0 } });
    names.iter().map(score).collect()
}

async fn bound(asked: &Value, client: &Client, seen: &Mutex<Seen>) -> Value {
    let text = |field: &str| asked[field].as_str().unwrap().to_owned();
    let (pod, uid, node) = (text("PodName"), text("PodUID"), text("Node"));
    let binding = Binding { pod: &pod, uid: Some(&uid), node: &node, ..Binding::default() };
    let answer = client.within::<Pod>(&text("PodNamespace")).bind(&binding).await;
    seen.lock().unwrap().bound.push(pod);
    match answer {
        Ok(()) => json!({ "Error": "" }),
        Err(error) => json!({ "Error": error.to_string() }),
    }
}
