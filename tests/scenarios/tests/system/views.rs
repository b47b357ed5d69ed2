//! What a scheduler shows to programs that ask Koordinator's.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use chassis::client::Source;
use chassis::logging;
use chassis::serve::{Health, Metrics, Server, Site};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use scenarios::running::{Running, identity};
use scenarios::system::PATIENCE;
use scheduler::State;
use scheduler::config::{Configuration, LeaderElection};
use scheduler::debug::{Desk, pages};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::yard::{Yard, on_both};

/// How often something is asked that nobody tells of.
const POLL: Duration = Duration::from_millis(20);

/// A scheduler that contends for the lease, and the port on which it is asked.
struct Asked {
    running: Running,
    address: SocketAddr,
    _stop: DropGuard,
}

impl Asked {
    async fn start(yard: &Yard) -> Result<Self> {
        let standard = Configuration::default();
        let election = standard.leader_election.clone().context("there is an election")?;
        let retry_period = Duration::from_millis(100);
        let leader_election = Some(LeaderElection { retry_period, ..election });
        let configuration = Configuration { leader_election, ..standard };
        let (desk, stop) = (Desk::default(), CancellationToken::new());
        let options = scheduler::Options::new(configuration, &identity());
        let options = scheduler::Options { desk: desk.clone(), ..options };
        let source = Source::from_flags(Some(yard.kubeconfig().to_owned()), None);
        let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let address = server.address();
        let site = pages(Site::new(&Metrics::new(), &Health::new()), &desk);
        tokio::spawn(server.run(site, stop.clone()));
        let running = Running::connect(&source, options).await?;
        Ok(Self { running, address, _stop: stop.drop_guard() })
    }

    async fn ask(&self, method: &str, path: &str, body: &'static str) -> Result<(u16, String)> {
        let client = legacy::Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
        let uri = format!("http://{}{path}", self.address);
        let request = http::Request::builder().method(method).uri(uri);
        let response = client.request(request.body(Full::from(body))?).await?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((code, String::from_utf8(body.to_vec())?))
    }

    async fn get(&self, path: &str) -> Result<(u16, Value)> {
        let (code, body) = self.ask("GET", path, "").await?;
        Ok((code, serde_json::from_str(&body).with_context(|| body.clone())?))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_75_the_leader_shows_its_nodes_and_who_stands_by_does_not() {
    on_both("views", async |yard| {
        yard.node("one", 4).await?;
        let mut first = Asked::start(yard).await?;
        first.running.until(State::Deciding).await?;
        yard.pod("web", "1").await?;
        yard.until_on("web", "one").await?;
        let second = Asked::start(yard).await?;
        let idle = (503, json!({ "message": "the instance is not leader" }));
        for path in ["/apis/v1/nodes/one", "/apis/v1/nodes/x", "/apis/v1/__services__"] {
            ensure!(second.get(path).await? == idle, "{path} of one that stands by");
        }
        let none = (404, json!({ "message": "cannot find node x" }));
        ensure!(first.get("/apis/v1/nodes/x").await? == none, "there is no such node");
        let (code, node) = first.get("/apis/v1/nodes/one").await?;
        ensure!(code == 200 && node["requested"]["MilliCPU"] == 1000, "{node}");
        ensure!(node["pods"][0]["Pod"]["metadata"]["name"] == "web", "{node}");
        let (_, paths) = first.get("/apis/v1/__services__").await?;
        let own = json!(["/apis/v1/__services__", "/apis/v1/nodes/:nodeName"]);
        ensure!(paths == json!({ "GET": own }), "{paths}");
        // Whoever takes over shows the same.
        first.running.end().await?;
        let begun = Instant::now();
        while second.get("/apis/v1/nodes/one").await? != (200, node.clone()) {
            ensure!(begun.elapsed() < PATIENCE, "nobody took over");
            tokio::time::sleep(POLL).await;
        }
        second.running.end().await
    })
    .await;
}

/// What schedulers of this process tell of single attempts.
#[derive(Clone, Copy)]
struct Log;

static LOGGED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOGGED.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Listens to them from now on.
    fn listen() {
        static LISTENS: OnceLock<()> = OnceLock::new();
        LISTENS.get_or_init(|| {
            let filter = "off,scheduler::core::sights=warn";
            let subscriber = logging::subscriber(logging::Format::Json, filter, || Self);
            tracing::subscriber::set_global_default(subscriber.unwrap()).unwrap();
        });
    }

    /// The best nodes of a pod that were told, in rows.
    fn rows(pod: &str) -> Result<Vec<String>> {
        let text = LOGGED.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = String::from_utf8(text)?;
        // The last line may be half written.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let own = lines.filter(|line| line["pod"] == pod);
        let row = |line: Value| {
            let row = line["message"].as_str()?.strip_prefix("the best nodes: ")?.to_owned();
            (!row.starts_with("| # |")).then_some(row)
        };
        Ok(own.filter_map(row).collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_76_a_switch_has_the_best_nodes_of_the_next_attempts_told() {
    Log::listen();
    on_both("switches", async |yard| {
        for n in 1..=7 {
            yard.node(&format!("node-{n}"), n).await?;
        }
        let mut own = Asked::start(yard).await?;
        own.running.until(State::Deciding).await?;
        let put = async |path: &str, body: &'static str| {
            own.ask("PUT", &format!("/debug/flags/{path}"), body).await
        };
        let value = async || {
            let (_, shown) = own.get("/debug/flags").await?;
            anyhow::Ok(shown[0].clone())
        };
        yard.pod("silent", "1").await?;
        yard.until_bound("silent").await?;
        let (code, _) = put("s", "5").await?;
        ensure!(code == 200 && value().await? == json!({ "flag": "s", "value": "5" }));
        let (code, words) = put("s", "abc").await?;
        ensure!(code == 400 && words.contains("is no number of nodes"), "{code} {words}");
        ensure!(value().await? == json!({ "flag": "s", "value": "5" }), "it is as it was");
        yard.pod("shown", "1").await?;
        yard.until_bound("shown").await?;
        let name = |pod: &str| format!("{}/{pod}", yard.namespace);
        let rows = Log::rows(&name("shown"))?;
        ensure!(rows.len() == 5, "{rows:?}");
        // For one pod only.
        let (code, _) = put(&format!("s?pod={}", name("one")), "3").await?;
        ensure!(code == 200 && value().await? == json!({ "flag": "s", "value": "5" }));
        let (code, _) = put("s", "0").await?;
        ensure!(code == 200 && value().await? == json!({ "flag": "s", "value": "0" }));
        for pod in ["other", "one"] {
            yard.pod(pod, "1").await?;
            yard.until_bound(pod).await?;
        }
        ensure!(Log::rows(&name("one"))?.len() == 3, "three rows of one");
        for pod in ["silent", "other"] {
            ensure!(Log::rows(&name(pod))?.is_empty(), "nothing of {pod}");
        }
        own.running.end().await
    })
    .await;
}
