//! A component's own port, with the API server as the judge of who may see what.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use chassis::client::{Call, Client, Credentials, Options, Source};
use chassis::connection::Trust;
use chassis::serve::{Guard, GuardOptions, Health, Metrics, Server, Site, Tls};
use chassis::shutdown::Shutdown;
use http::Method;
use prometheus_client::metrics::counter::Counter;
use scenarios::backend::{Backend, Lease, Scope};
use scenarios::running::Running;
use scheduler::State;
use scheduler::debug::{Desk, pages};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::yard::alone;

/// What the port counts, as who may see its metrics sees it.
const SHOWN: &str = "# HELP test_visits_total Visits.\n# TYPE test_visits_total counter\n\
    test_visits_total 0\n";

/// The port of a component that asks the API server as one user of a kubeconfig.
struct Port {
    address: SocketAddr,
    folder: tempfile::TempDir,
    stop: CancellationToken,
}

impl Port {
    async fn open(kubeconfig: &Path, user: &str) -> Self {
        let source = Source::from_flags(Some(kubeconfig.to_owned()), Some(user.to_owned()));
        let client = Client::connect(&source, &Options::new("guard")).await.unwrap();
        let brief = Duration::from_millis(1);
        let options = GuardOptions { allowed_for: brief, denied_for: brief, ..Default::default() };
        let guard = Guard::new(&client, options);
        let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let (address, stop) = (server.address(), CancellationToken::new());
        let metrics = Metrics::new();
        let visits: Counter = Counter::default();
        metrics.register(|registry| registry.register("test_visits", "Visits", visits));
        let site = Site::new(&metrics, &Health::new());
        let tls = Tls::self_signed(&["127.0.0.1".to_owned()]).unwrap();
        tokio::spawn(server.run_guarded(site, tls, guard, stop.clone()));
        Self { address, folder: tempfile::tempdir().unwrap(), stop }
    }

    /// What someone with this token gets to see, or why not.
    async fn get(&self, path: &str, token: &str) -> String {
        let cluster = json!({ "server": format!("https://{}", self.address),
            "insecure-skip-tls-verify": true });
        let user = if token.is_empty() { json!({}) } else { json!({ "token": token }) };
        let config = json!({ "current-context": "c",
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
            "clusters": [{ "name": "c", "cluster": cluster }],
            "users": [{ "name": "u", "user": user }] });
        let file = self.folder.path().join("kubeconfig");
        std::fs::write(&file, config.to_string()).unwrap();
        let source = Source::from_flags(Some(file), None);
        let client = Client::connect(&source, &Options::new("test")).await.unwrap();
        match client.call_bytes(Call::new(Method::GET, path)).await {
            Ok(body) => String::from_utf8(body.to_vec()).unwrap(),
            Err(error) => error.refusal().unwrap().to_string(),
        }
    }
}

async fn create(client: &Client, plural: &str, body: &Value) {
    let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}");
    client.call_unread(Call::new(Method::POST, path).json(body).unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_apiserver_says_who_may_see_a_components_port() {
    let lease = Lease::take(Backend::KubeApiServer, Scope::Namespaced, "guard").await.unwrap();
    let (admin_token, outsider_token) = (&lease.server.admin_token, &lease.server.outsider_token);
    let port = Port::open(&lease.kubeconfig, "admin").await;
    let check = async |port: &Port, path: &str, token: &str, want: &str| {
        assert_eq!(port.get(path, token).await, want, "{path}");
    };
    let cannot =
        |user: &str| format!("forbidden: User {user:?} cannot get path \"/metrics\" (403)");
    check(&port, "/readyz", "", "ok").await;
    check(&port, "/readyz", "made-up", "ok").await;
    check(&port, "/metrics", "", &cannot("system:anonymous")).await;
    check(&port, "/metrics", "made-up", "Unauthorized (401)").await;
    check(&port, "/metrics", admin_token, SHOWN).await;
    check(&port, "/metrics", outsider_token, &cannot("outsider")).await;

    let source = Source::from_flags(Some(lease.kubeconfig.clone()), None);
    let admin = Client::connect(&source, &Options::new("guard")).await.unwrap();
    let name = format!("guard-{}", std::process::id());
    let rules = json!([{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }]);
    create(&admin, "clusterroles", &json!({ "metadata": { "name": name }, "rules": rules })).await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({ "metadata": { "name": name },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": name },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": "outsider" }] });
    create(&admin, "clusterrolebindings", &binding).await;
    let allowed = async {
        while port.get("/metrics", outsider_token).await != SHOWN {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), allowed).await.unwrap();
    for plural in ["clusterrolebindings", "clusterroles"] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}/{name}");
        admin.call_unread(Call::new(Method::DELETE, path)).await.unwrap();
    }

    // One that may not ask lets nobody in.
    let blind = Port::open(&lease.kubeconfig, "outsider").await;
    check(&blind, "/livez", "", "ok").await;
    let unreviewed = "Unauthorized: the API server does not review tokens for this server (401)";
    check(&blind, "/metrics", admin_token, unreviewed).await;
    let unreviewed = "forbidden: User \"system:anonymous\" cannot get path \"/metrics\": \
        the API server does not review access for this server (403)";
    check(&blind, "/metrics", "", unreviewed).await;
    port.stop.cancel();
    blind.stop.cancel();
    lease.give_back().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_is_asked_on_its_secure_port_by_whom_kube_apiserver_lets() {
    let lease = Lease::take(Backend::KubeApiServer, Scope::Exclusive, "asked").await.unwrap();
    let source =
        |user: &str| Source::from_flags(Some(lease.kubeconfig.clone()), Some(user.to_owned()));
    let (desk, shutdown) = (Desk::default(), Shutdown::new());
    let options = scheduler::Options::new(alone(), "guarded");
    let options = scheduler::Options { desk: desk.clone(), ..options };
    let mut running = Running::connect(&source("admin"), options).await.unwrap();
    running.until(State::Deciding).await.unwrap();
    let client = Client::connect(&source("admin"), &Options::new("guard")).await.unwrap();
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let url = format!("https://{}", server.address());
    let site = pages(Site::new(&Metrics::new(), &Health::new()), &desk);
    let tls = Tls::self_signed(&["127.0.0.1".to_owned()]).unwrap();
    let guard = Guard::new(&client, GuardOptions::default());
    shutdown.spawn("port", server.run_guarded(site, tls, guard, shutdown.token()));

    let get = async |credentials: Credentials, path: &str| {
        let options = Options::new("test");
        let asking = Client::connect_to(&url, &credentials, &Trust::Anyone, &options).await;
        match asking.unwrap().call_bytes(Call::new(Method::GET, path)).await {
            Ok(body) => String::from_utf8(body.to_vec()).unwrap(),
            Err(error) => error.refusal().unwrap().to_string(),
        }
    };
    let why = "/debug/why?namespace=default&pod=nobody";
    let none = get(Credentials::Of(source("admin")), why).await;
    assert!(none.contains("there is no pod nobody in namespace default"), "{none}");
    let token = |token: &str| Credentials::Token(token.to_owned());
    assert_eq!(get(token(&lease.server.admin_token), why).await, none);
    let queue = get(token(&lease.server.admin_token), "/debug/queue").await;
    assert!(queue.contains("\"counts\""), "{queue}");
    let cannot = "forbidden: User \"outsider\" cannot get path \"/debug/why\" (403)";
    assert_eq!(get(Credentials::Of(source("outsider")), why).await, cannot);
    assert_eq!(get(token("made-up"), why).await, "Unauthorized (401)");
    assert_eq!(get(token("made-up"), "/healthz").await, "ok");
    running.end().await.unwrap();
    shutdown.begin();
    shutdown.join(&chassis::clock::Clock::system(), Duration::from_secs(30)).await.unwrap();
    lease.give_back().await.unwrap();
}
