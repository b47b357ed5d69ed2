//! `gantry why` as a user meets it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use chassis::client::{Call, Client, Options, Source};
use http::Method;
use serde_json::{Value, json};

/// How long it may take until nodes are ready, or all know the same: an event that tells of a node
/// as it was before is followed by another after a minute and a half at most.
const AGREED_WITHIN: Duration = Duration::from_secs(120);

/// A `gantry up` that ends with the test.
struct Up {
    child: Child,
    /// Where its scheduler is asked.
    scheduler: String,
}

impl Drop for Up {
    fn drop(&mut self) {
        // It is there to be asked, and nothing more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Up {
    fn start(kubeconfig: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gantry"))
            .args(["up", "--nodes", "2", "--metrics", "127.0.0.1:0", "--kubeconfig"])
            .arg(kubeconfig)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut told = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let hint = "why a pod waits: gantry why pod NAME --scheduler ";
        let scheduler = told.find_map(|line| line.strip_prefix(hint).map(str::to_owned)).unwrap();
        // It would wait for somebody who reads it.
        std::thread::spawn(move || told.for_each(drop));
        let mut lines = said.lines().map(Result::unwrap);
        assert!(lines.any(|line| line == "Ctrl-C ends it."));
        Self { child, scheduler }
    }
}

fn why(kubeconfig: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gantry"));
    command.arg("why").args(arguments).arg("--kubeconfig").arg(kubeconfig).output().unwrap()
}

fn said(output: &Output) -> &str {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    std::str::from_utf8(&output.stdout).unwrap()
}

/// A client, once both nodes take pods.
async fn connect_when_ready(kubeconfig: &Path) -> Client {
    let source = Source::from_flags(Some(kubeconfig.to_owned()), None);
    let client = Client::connect(&source, &Options::new("test")).await.unwrap();
    let begun = Instant::now();
    loop {
        let nodes: Value = client.call(Call::new(Method::GET, "/api/v1/nodes")).await.unwrap();
        let nodes = nodes["items"].as_array().unwrap();
        if nodes.len() == 2 && nodes.iter().all(|node| node["spec"]["taints"].is_null()) {
            return client;
        }
        assert!(begun.elapsed() < AGREED_WITHIN, "{nodes:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn create_huge(client: &Client, scheduler: &str) {
    let path = "/api/v1/namespaces/default/pods";
    let requests = json!({ "cpu": "100" });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "huge" },
        "spec": { "schedulerName": scheduler, "containers": [
            { "name": "main", "image": "nginx", "resources": { "requests": requests } }] } });
    client.call_unread(Call::new(Method::POST, path).json(&pod).unwrap()).await.unwrap();
}

/// What the events of the pod say.
async fn told(client: &Client) -> Vec<String> {
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let events: Value = client.call(Call::new(Method::GET, path)).await.unwrap();
    let events = events["items"].as_array().unwrap().iter();
    let failed = events.filter(|event| event["reason"] == "FailedScheduling");
    failed.map(|event| event["note"].as_str().unwrap().to_owned()).collect()
}

/// The message of all who answer and of an event, once it is the same: one may hear of the nodes
/// later than another.
async fn agreed(client: &Client, kubeconfig: &Path, scheduler: &str) -> String {
    let message = |more: &[&str]| {
        let wire = why(kubeconfig, &[&["pod/huge", "--output", "json"], more].concat());
        // Nobody says anything of a pod that he has not heard of.
        let wire: Value = serde_json::from_slice(&wire.stdout).unwrap_or_default();
        wire["message"].as_str().unwrap_or_default().to_owned()
    };
    let begun = Instant::now();
    loop {
        let events = told(client).await;
        let answers = [message(&[]), message(&["--scheduler", scheduler])];
        let is_ready = answers[0].starts_with("0/2 nodes are available: 2 Insufficient cpu.");
        if is_ready && answers[0] == answers[1] && events.contains(&answers[0]) {
            return events.into_iter().find(|event| *event == answers[0]).unwrap();
        }
        assert!(begun.elapsed() < AGREED_WITHIN, "{answers:?} and the events {events:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn the_event_the_text_and_the_json_say_the_same_whoever_answers() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let up = Up::start(&kubeconfig);
    let client = connect_when_ready(&kubeconfig).await;
    create_huge(&client, "default-scheduler").await;
    let event = agreed(&client, &kubeconfig, &up.scheduler).await;
    for (more, by) in [(&[][..], "objects"), (&["--scheduler", &up.scheduler], "scheduler")] {
        let text = why(&kubeconfig, &[&["pod", "huge"], more].concat());
        let text = said(&text);
        assert!(text.starts_with("Pod default/huge waits for a node."), "{text}");
        assert!(text.contains(&format!("\n\n{event}\n\n")), "{text}");
        assert!(text.contains("\n  request 8 of cpu, not 100  to 2 nodes\n"), "{text}");
        let wire = why(&kubeconfig, &[&["pod/huge", "--output", "json"], more].concat());
        let wire: Value = serde_json::from_str(said(&wire)).unwrap();
        assert_eq!((&wire["answeredBy"], &wire["message"]), (&by.into(), &event.as_str().into()));
        assert_eq!(wire["nodes"]["changes"][0]["nodes"], 2, "{wire}");
        let none = why(&kubeconfig, &[&["pod", "nobody"], more].concat());
        let told = String::from_utf8(none.stderr).unwrap();
        assert_eq!(none.status.code(), Some(1), "{told}");
        assert!(told.contains("there is no pod nobody in namespace default; "), "{told}");
    }
}

#[tokio::test]
async fn a_pod_of_koord_scheduler_is_asked_about_without_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let _up = Up::start(&kubeconfig);
    let client = connect_when_ready(&kubeconfig).await;
    create_huge(&client, "koord-scheduler").await;
    let text = why(&kubeconfig, &["pod", "huge"]);
    let text = said(&text);
    // Nobody makes room in that profile, so nothing is said of it.
    let message = "0/2 nodes are available: 2 Insufficient cpu.\n\nNone of 2 nodes can take it.";
    assert!(text.contains(message), "{text}");
}

#[test]
fn what_cannot_be_asked_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let cluster = json!({ "server": "http://127.0.0.1:9" });
    let config = json!({ "current-context": "c",
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "clusters": [{ "name": "c", "cluster": cluster }],
        "users": [{ "name": "u", "user": {} }] });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let check = |arguments: &[&str], parts: &[&str]| {
        let output = why(&kubeconfig, arguments);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{told}");
        for part in parts {
            assert!(told.contains(part), "{part:?} is not in {told}");
        }
    };
    let only = "\"node\" cannot be asked about: only pods, reservations and podgroups can";
    check(&["node", "n1"], &[only]);
    check(&["pg/"], &["say which podgroup, as in `why podgroup NAME`"]);
    check(&["pod"], &["say which pod"]);
    check(&["pod", "p"], &["127.0.0.1:9"]);
    let url = ["pod", "p", "--scheduler", "http://127.0.0.1:9"];
    check(&url, &["cannot ask the scheduler at http://127.0.0.1:9", "worked out from the objects"]);
    check(&["pod", "p", "--scheduler", "nonsense"], &["--scheduler nonsense is not a URL such as"]);
    check(&["pod", "p", "--config", "no-such-file"], &["no-such-file"]);
}
