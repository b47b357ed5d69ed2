//! `gantry up` as a user meets it: from the welcome to Ctrl-C.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use api::cpus::RESOURCE_STATUS;
use chassis::client::{Call, Client, Options, Source};
use http::Method;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";

struct Up {
    child: Child,
    said: BufReader<ChildStdout>,
    told: BufReader<ChildStderr>,
}

impl Drop for Up {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Up {
    fn start(arguments: &[&str], kubeconfig: &Path) -> Self {
        let mut command = command(arguments);
        Self::spawn(command.arg("--kubeconfig").arg(kubeconfig))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let told = BufReader::new(child.stderr.take().unwrap());
        Self { child, said, told }
    }

    /// Everything it says until it is up.
    fn welcome(&mut self) -> String {
        let mut welcome = String::new();
        while !welcome.contains("Ctrl-C ends it.") {
            if self.said.read_line(&mut welcome).unwrap() == 0 {
                let mut told = String::new();
                self.told.read_to_string(&mut told).unwrap();
                panic!("it ended after {welcome}{told}");
            }
        }
        welcome
    }

    /// Where its metrics are; it tells before it is up.
    fn metrics(&mut self) -> String {
        let address = self.told.by_ref().lines().find_map(|line| {
            let line = line.unwrap();
            line.strip_prefix("metrics are on http://")?.strip_suffix("/metrics").map(str::to_owned)
        });
        address.unwrap()
    }

    /// Ends it as Ctrl-C does and waits.
    fn interrupt(&mut self) -> ExitStatus {
        interrupt(&mut self.child)
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gantry"));
    command.arg("up").args(arguments);
    command
}

fn interrupt(child: &mut Child) -> ExitStatus {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    child.wait().unwrap()
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn up_welcomes_shows_its_metrics_and_ends_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut up = Up::start(&["--nodes", "2", "--metrics", "127.0.0.1:0"], &kubeconfig);

    let metrics = up.metrics();
    let welcome = up.welcome();
    assert!(welcome.starts_with("Gantry is up on https://127.0.0.1:"), "{welcome}");
    assert!(welcome.contains(&format!("export KUBECONFIG={}", kubeconfig.display())), "{welcome}");
    assert_eq!(kubeconfig.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(get(&metrics, "/readyz").ends_with("\r\n\r\nok"));
    let verbose = get(&metrics, "/readyz?verbose");
    let (_, told) = verbose.split_once("\r\n\r\n").unwrap();
    // Which of them is there first, is not certain.
    let mut checks: Vec<&str> = told.lines().collect();
    checks.sort_unstable();
    let parts = ["controllers", "engine", "nodes", "ping", "scheduler"];
    let mut all: Vec<String> = parts.iter().map(|part| format!("[+]{part} ok")).collect();
    all.push("readyz check passed".to_owned());
    assert_eq!(checks, all, "{verbose}");
    let text = get(&metrics, "/metrics");
    for line in
        ["\ngantry_hollow_nodes_registered 2\n", "\nworkqueue_depth{name=\"deployment\"} 0\n"]
    {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
    let mut names = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let pages = [include_str!("../../../docs/UP.md"), include_str!("../../../docs/SCHEDULER.md")];
    let is_named = |line: &str| {
        let (name, _) = line.split_once(' ').unwrap();
        let begins = ["gantry_", "workqueue_", "scheduler_", "rest_client_", "process_"];
        let is_ours = begins.iter().any(|own| name.starts_with(own));
        is_ours && pages.iter().any(|page| page.contains(&format!("`{name}`")))
    };
    assert!(names.all(is_named), "{text}");

    assert!(up.interrupt().success());
    let mut rest = String::new();
    up.said.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("Gantry has ended.\n"), "{rest}");
    assert!(!kubeconfig.exists());
}

#[test]
fn nodes_and_controllers_count_what_they_ask_of_the_server() {
    let check = |arguments: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let alone = ["--scheduler", "none", "--metrics", "127.0.0.1:0"];
        let mut up =
            Up::start(&[&alone[..], arguments].concat(), &folder.path().join("kubeconfig"));
        let metrics = up.metrics();
        up.welcome();
        let text = get(&metrics, "/metrics");
        let read = "\nrest_client_requests_total{code=\"200\",\
            host=\"the API server in this process\",method=\"GET\"} ";
        assert!(text.contains(read), "{arguments:?}: {text}");
        assert!(up.interrupt().success());
    };
    check(&["--nodes", "2", "--controllers", "none"]);
    check(&["--nodes", "0"]);
}

#[test]
fn ctrl_c_while_nodes_register_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut up = Up::start(&["--nodes", "5000"], &kubeconfig);
    let mut line = String::new();
    up.told.read_line(&mut line).unwrap();
    assert!(line.starts_with("registering nodes: "), "{line}");
    let status = up.interrupt();
    let mut told = String::new();
    up.told.read_to_string(&mut told).unwrap();
    assert!(status.success(), "{told}");
    assert!(!kubeconfig.exists());
}

#[test]
fn a_kubeconfig_is_its_writers_until_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut first = Up::start(&["--nodes", "0"], &kubeconfig);
    first.welcome();
    let written = std::fs::read_to_string(&kubeconfig).unwrap();

    let second = command(&[]).arg("--kubeconfig").arg(&kubeconfig).output().unwrap();
    let told = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{told}");
    for part in [kubeconfig.to_str().unwrap(), "end that gantry up", "--kubeconfig"] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(std::fs::read_to_string(&kubeconfig).unwrap(), written);

    // Another's by the time the first ends: it stays.
    let (rest, token) = written.trim_end().rsplit_once(' ').unwrap();
    let others = format!("{rest} {}\n", token.chars().rev().collect::<String>());
    std::fs::write(&kubeconfig, &others).unwrap();
    assert!(first.interrupt().success());
    assert_eq!(std::fs::read_to_string(&kubeconfig).unwrap(), others);

    // Left by one that was killed: nobody answers there, so it is replaced. Gone by the end.
    let mut third = Up::start(&["--nodes", "0"], &kubeconfig);
    third.welcome();
    assert_ne!(std::fs::read_to_string(&kubeconfig).unwrap(), others);
    std::fs::remove_file(&kubeconfig).unwrap();
    assert!(third.interrupt().success());
}

#[test]
fn a_result_that_nobody_reads_is_no_reason_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut command = command(&["--nodes", "1", "--log", "info", "--kubeconfig"]);
    command.arg(&kubeconfig).stdout(Stdio::piped());
    command.stderr(File::options().write(true).open("/dev/full").unwrap());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("Gantry is up"), "{line}");
    let status = interrupt(&mut child);
    assert!(status.success(), "{status}");
    assert!(!kubeconfig.exists());
}

#[test]
fn a_result_that_cannot_be_written_ends_it_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut command = command(&["--nodes", "1", "--kubeconfig"]);
    command.arg(&kubeconfig).stdout(File::options().write(true).open("/dev/full").unwrap());
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("gantry: cannot write to standard output: "), "{told}");
    assert!(!kubeconfig.exists());
}

#[test]
fn the_path_that_is_shown_is_absolute_and_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(&["--nodes", "0"]);
    let mut up = Up::spawn(command.current_dir(folder.path()).env("HOME", "my home"));
    let path = folder.path().join("my home/.kube/gantry.yaml");
    let welcome = up.welcome();
    assert!(welcome.contains(&format!("export KUBECONFIG='{}'\n", path.display())), "{welcome}");
    assert!(path.exists());
    assert!(up.interrupt().success());
    // The folder was not there: it was made, stays, and was told of.
    let mut told = String::new();
    up.told.read_to_string(&mut told).unwrap();
    let made = path.parent().unwrap();
    assert_eq!(told, format!("made the folder {} for the kubeconfig\n", made.display()));
    assert!(made.exists() && !path.exists());
}

#[test]
fn a_server_can_be_told_by_name_where_to_listen() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let arguments = ["--nodes", "0", "--controllers", "none", "--listen", "localhost:0"];
    let mut up = Up::start(&arguments, &kubeconfig);
    let welcome = up.welcome();
    assert!(welcome.starts_with("Gantry is up on https://127.0.0.1:"), "{welcome}");
    assert!(asked(&kubeconfig, "/version").is_ok());
    assert!(up.interrupt().success());
}

/// What the server answers that a kubeconfig leads to.
fn asked(kubeconfig: &Path, path: &str) -> Result<String, String> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let answer = runtime.block_on(async {
        let source = Source::from_flags(Some(kubeconfig.to_owned()), None);
        let client = Client::connect(&source, &Options::new("test")).await.unwrap();
        client.call_bytes(Call::new(http::Method::GET, path)).await
    });
    answer.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).map_err(|e| format!("{e:?}"))
}

/// Creates an object.
fn create(kubeconfig: &Path, path: &str, object: &Value) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let source = Source::from_flags(Some(kubeconfig.to_owned()), None);
        let client = Client::connect(&source, &Options::new("test")).await.unwrap();
        client.call_unread(Call::new(Method::POST, path).json(object).unwrap()).await.unwrap();
    });
}

/// Creates the objects of a file of samples, each where it says that it lives.
fn create_all(kubeconfig: &Path, file: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("demos").join(file);
    let yaml = std::fs::read_to_string(file).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let source = Source::from_flags(Some(kubeconfig.to_owned()), None);
        let client = Client::connect(&source, &Options::new("test")).await.unwrap();
        for object in yaml.split("\n---\n") {
            let told = |key: &str| object.lines().find_map(|line| line.strip_prefix(key));
            let (version, kind) = (told("apiVersion: ").unwrap(), told("kind: ").unwrap());
            let api = if version == "v1" { "api" } else { "apis" };
            let namespace = told("  namespace: ").unwrap_or("default");
            let kind = kind.to_lowercase();
            let path = match &*kind {
                "priorityclass" => format!("/{api}/{version}/priorityclasses"),
                _ => format!("/{api}/{version}/namespaces/{namespace}/{kind}s"),
            };
            let call = Call::new(Method::POST, path).body("application/yaml", object.to_owned());
            client.call_unread(call).await.unwrap_or_else(|error| panic!("{error:?}: {object}"));
        }
    });
}

/// Has a deployment have so many pods.
fn scale(kubeconfig: &Path, path: &str, replicas: u32) {
    let patch = json!({ "spec": { "replicas": replicas } }).to_string();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let source = Source::from_flags(Some(kubeconfig.to_owned()), None);
        let client = Client::connect(&source, &Options::new("test")).await.unwrap();
        let call = Call::new(Method::PATCH, path).body("application/merge-patch+json", patch);
        client.call_unread(call).await.unwrap();
    });
}

/// An object as soon as it is as it should be, by a watch that the server ends after a minute.
fn awaited(kubeconfig: &Path, path: &str, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let source = Source::from_flags(Some(kubeconfig.to_owned()), None);
        let client = Client::connect(&source, &Options::new("test")).await.unwrap();
        let asked = format!("watch=true&timeoutSeconds=60&fieldSelector=metadata.name%3D{name}");
        let call = Call::new(Method::GET, format!("{path}?{asked}"));
        let mut body = client.open(call).await.unwrap();
        let (mut text, mut last) = (Vec::new(), Value::Null);
        while let Some(frame) = body.frame().await {
            text.extend_from_slice(frame.unwrap().data_ref().unwrap());
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                last = serde_json::from_slice::<Value>(&line).unwrap()["object"].take();
                if is_so(&last) {
                    return last;
                }
            }
        }
        panic!("{name} did not become what it should be: {last}");
    })
}

/// A pod of a scheduler, with CPU that it asks for and annotations.
fn pod(name: &str, scheduler: &str, cpu: &str, annotations: &Value) -> Value {
    let amounts = json!({ "cpu": cpu });
    let resources = json!({ "requests": amounts, "limits": amounts });
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "annotations": annotations,
                      "labels": { "koordinator.sh/qosClass": "LSR" } },
        "spec": { "schedulerName": scheduler, "containers": [
            { "name": "main", "image": "registry.example/web:1", "resources": resources }] } })
}

fn has_node(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string()
}

#[test]
fn a_sensitive_pod_gets_cpus_of_its_own_out_of_the_box() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut up = Up::start(&[], &kubeconfig);
    up.welcome();
    create(&kubeconfig, PODS, &pod("sensitive", "koord-scheduler", "2", &json!({})));
    let placed = awaited(&kubeconfig, PODS, "sensitive", has_node);
    assert_eq!(placed["metadata"]["annotations"][RESOURCE_STATUS], r#"{"cpuset":"0-1"}"#);
    // Who names no scheduler gets what kube-scheduler would give.
    create(&kubeconfig, PODS, &pod("usual", "default-scheduler", "2", &json!({})));
    let placed = awaited(&kubeconfig, PODS, "usual", has_node);
    assert_eq!(placed["metadata"]["annotations"][RESOURCE_STATUS], Value::Null, "{placed}");
    assert!(up.interrupt().success());
    // Nobody is greeted with what is not there yet.
    let mut told = String::new();
    up.told.read_to_string(&mut told).unwrap();
    assert!(told.lines().all(|line| line.starts_with("registering nodes: ")), "{told}");
}

#[test]
fn a_node_that_is_busy_is_avoided() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut up = Up::start(&["--nodes", "0"], &kubeconfig);
    up.welcome();
    let run = |nodes: &str| {
        let mut nodes = Up::spawn(&mut hollow_nodes(&kubeconfig, nodes));
        let mut line = String::new();
        nodes.said.read_line(&mut line).unwrap();
        assert!(line.contains("registered"), "{line}");
        nodes
    };
    let mut nodes = run("2");
    let mut busy = pod("busy", "", "1", &json!({ "hollow.gantry.dev/cpu-usage": "7" }));
    busy["spec"]["nodeName"] = "node-0000".into();
    create(&kubeconfig, PODS, &busy);
    awaited(&kubeconfig, PODS, "busy", |pod| pod["status"]["phase"] == "Running");
    // Whoever takes up nodes reports at once; otherwise it would be the next minute.
    assert!(nodes.interrupt().success());
    let mut nodes = run("2");
    let metrics = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics";
    awaited(&kubeconfig, metrics, "node-0000", |metric| {
        metric["status"]["podsMetric"][0]["podUsage"]["resources"]["cpu"] == "7"
    });
    // All things else equal they would go to both.
    for name in ["a", "b", "c"] {
        create(&kubeconfig, PODS, &pod(name, "koord-scheduler", "1", &json!({})));
        let placed = awaited(&kubeconfig, PODS, name, has_node);
        assert_eq!(placed["spec"]["nodeName"], "node-0001", "{placed}");
    }
    assert!(nodes.interrupt().success());
    assert!(up.interrupt().success());
}

#[test]
fn pods_are_scheduled_as_a_file_says_where_one_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let file = folder.path().join("scheduler.yaml");
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                profiles: [{schedulerName: mine, plugins: {filter: {enabled: [{name: DeviceShare}]}}}]\n";
    std::fs::write(&file, text).unwrap();
    let mut up = Up::start(&["--scheduler-config", file.to_str().unwrap()], &kubeconfig);
    up.welcome();
    create(&kubeconfig, PODS, &pod("others", "default-scheduler", "1", &json!({})));
    create(&kubeconfig, PODS, &pod("own", "mine", "1", &json!({})));
    awaited(&kubeconfig, PODS, "own", has_node);
    awaited(&kubeconfig, PODS, "others", |pod| !has_node(pod));
    assert!(up.interrupt().success());
    // Who asks for what is not there yet is told.
    let mut told = String::new();
    up.told.read_to_string(&mut told).unwrap();
    assert!(told.contains("DeviceShare"), "{told}");
}

/// The uid of the namespace `default` in a new `up`.
fn uid(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut up =
        Up::start(&[&["--nodes", "0", "--controllers", "none"], arguments].concat(), &kubeconfig);
    up.welcome();
    let answer = asked(&kubeconfig, "/api/v1/namespaces/default").unwrap();
    assert!(up.interrupt().success());
    answer.split_once("\"uid\":\"").unwrap().1.split_once('"').unwrap().0.to_owned()
}

#[test]
fn the_server_is_ready_when_what_was_asked_for_runs() {
    let own = "[+]ping ok\n[+]log ok\n[+]etcd ok\n";
    let check = |arguments: &[&str], more: &str| {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let mut up = Up::start(arguments, &kubeconfig);
        up.welcome();
        let told = asked(&kubeconfig, "/readyz?verbose").unwrap();
        assert_eq!(told, format!("{own}{more}readyz check passed\n"), "{arguments:?}");
        let nodes = asked(&kubeconfig, "/readyz/nodes");
        assert_eq!(nodes.is_ok(), more.contains("nodes"), "{arguments:?}: {nodes:?}");
        assert!(up.interrupt().success());
    };
    check(&["--nodes", "2"], "[+]controllers ok\n[+]scheduler ok\n[+]nodes ok\n");
    check(&["--nodes", "0", "--scheduler", "none"], "[+]controllers ok\n");
    let alone = ["--nodes", "1", "--controllers", "none", "--scheduler", "none"];
    check(&alone, "[+]nodes ok\n");
}

#[test]
fn a_kubeconfig_that_somebody_changed_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let kubeconfig = at("kubeconfig");
    let mut first = Up::start(&["--nodes", "0"], &kubeconfig);
    first.welcome();
    let written = std::fs::read_to_string(&kubeconfig).unwrap();
    // As `kubectl config set-context` does, but for the order of the lines.
    let (_, body) = written.split_once('\n').unwrap();
    let changed = body.replace("    user: gantry", "    user: gantry\n    namespace: web");
    std::fs::write(&kubeconfig, &changed).unwrap();
    assert!(first.interrupt().success());
    let mut told = String::new();
    first.told.read_to_string(&mut told).unwrap();
    let shown = kubeconfig.to_str().unwrap();
    assert!(
        told.contains(&format!("{shown} was changed since it was written, so it stays")),
        "{told}"
    );
    assert_eq!(std::fs::read_to_string(&kubeconfig).unwrap(), changed);

    // The next one puts it aside, beside what is there already.
    std::fs::write(at("kubeconfig.old"), "mine").unwrap();
    let mut second = Up::start(&["--nodes", "0"], &kubeconfig);
    second.welcome();
    assert_eq!(std::fs::read_to_string(at("kubeconfig.old-2")).unwrap(), changed);
    assert_eq!(std::fs::read_to_string(at("kubeconfig.old")).unwrap(), "mine");
    assert!(asked(&kubeconfig, "/version").is_ok());
    // Somebody adds a cluster: it stays, and the next one leaves it alone.
    let more = std::fs::read_to_string(&kubeconfig).unwrap().replace(
        "contexts:\n",
        "- {name: production, cluster: {server: 'https://production'}}\ncontexts:\n",
    );
    std::fs::write(&kubeconfig, &more).unwrap();
    assert!(second.interrupt().success());
    let mut told = String::new();
    second.told.read_to_string(&mut told).unwrap();
    assert!(
        told.contains(&format!("{shown} was changed since a former gantry up wrote it")),
        "{told}"
    );
    assert!(
        told.contains(&format!("{shown} was changed since it was written, so it stays")),
        "{told}"
    );
    let third = command(&[]).arg("--kubeconfig").arg(&kubeconfig).output().unwrap();
    let told = String::from_utf8(third.stderr).unwrap();
    assert!(told.contains("has got other clusters, contexts or users since"), "{told}");
    assert_eq!(std::fs::read_to_string(&kubeconfig).unwrap(), more);
}

/// Runs `gantry hollow-nodes` on a server of `up`.
fn hollow_nodes(kubeconfig: &Path, nodes: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gantry"));
    command.args(["hollow-nodes", "--nodes", nodes, "--kubeconfig"]).arg(kubeconfig);
    command
}

#[test]
fn nodes_that_somebody_runs_are_not_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut up = Up::start(&["--nodes", "5"], &kubeconfig);
    up.welcome();
    let refused = hollow_nodes(&kubeconfig, "9").output().unwrap();
    let told = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{told}");
    let holder = format!("process {}, which has just renewed its lease", up.child.id());
    for part in ["gantry: node node-000", "is run by gantry up on ", &holder, "name=extra"] {
        assert!(told.contains(part), "{told}");
    }
    // Nothing was written.
    let nodes = asked(&kubeconfig, "/api/v1/nodes").unwrap();
    assert_eq!(nodes.matches("\"kubernetes.io/hostname\"").count(), 5, "{nodes}");

    let mut others = Up::spawn(&mut hollow_nodes(&kubeconfig, "1xname=extra"));
    let mut line = String::new();
    others.said.read_line(&mut line).unwrap();
    assert_eq!(line, "1 node is registered. Ctrl-C ends it.\n");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/extra-0000";
    let held_by = || {
        let lease = asked(&kubeconfig, lease).unwrap_or_default();
        let (_, rest) = lease.split_once("\"hollow.gantry.dev/held-by\":\"")?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let begun = std::time::Instant::now();
    while held_by().is_none() {
        assert!(begun.elapsed().as_secs() < 10, "there is no lease");
    }
    let holder = held_by().unwrap();
    assert!(holder.starts_with("gantry hollow-nodes on "), "{holder}");
    assert!(others.interrupt().success());
    // It released what it had, so that another need not wait.
    assert_eq!(held_by().as_deref(), Some(""));
    assert!(up.interrupt().success());
}

#[test]
fn a_server_on_every_address_is_known_by_each_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let arguments = ["--nodes", "0", "--controllers", "none", "--listen", "0.0.0.0:0"];
    let mut up = Up::start(&arguments, &kubeconfig);
    up.welcome();
    let written = std::fs::read_to_string(&kubeconfig).unwrap();
    let line = written.lines().find(|line| line.starts_with("    server: ")).unwrap();
    let port: u16 = line.rsplit_once(':').unwrap().1.parse().unwrap();
    assert!(asked(&kubeconfig, "/version").is_ok(), "{line}");
    let copy = folder.path().join("copy");
    let own = if_addrs::get_if_addrs().unwrap();
    // Those of IPv6 as well, but for such as mean something only together with an interface.
    let is_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    let own: Vec<IpAddr> = own.iter().map(|own| own.ip()).filter(|ip| !is_local(ip)).collect();
    assert!(own.contains(&Ipv4Addr::LOCALHOST.into()), "{own:?}");
    for address in own {
        let server = format!("    server: https://{}", SocketAddr::new(address, port));
        std::fs::write(&copy, written.replace(line, &server)).unwrap();
        let answer = asked(&copy, "/version");
        assert!(answer.is_ok(), "{address}: {answer:?}");
    }
    let system = rustix::system::uname();
    let name = system.nodename().to_str().unwrap();
    let check = |name: &str, is_known: bool| {
        let server = format!("{line}\n    tls-server-name: {name}");
        std::fs::write(&copy, written.replace(line, &server)).unwrap();
        let answer = asked(&copy, "/version");
        assert_eq!(answer.is_ok(), is_known, "{name}: {answer:?}");
    };
    check(name, true);
    check("stranger.example", false);
    assert!(up.interrupt().success());
}

#[test]
fn every_run_has_uids_of_its_own_unless_a_seed_is_given() {
    assert_ne!(uid(&[]), uid(&[]));
    assert_eq!(uid(&["--seed", "7"]), uid(&["--seed", "7"]));
}

/// Where gangs are.
const GROUPS: &str = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces";

#[test]
fn a_sample_of_batch_work_has_a_gang_that_runs_one_that_waits_and_a_quota_that_borrows() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut up = Up::start(&["--demo", "batch"], &kubeconfig);
    let welcome = up.welcome();
    assert!(welcome.contains("kubectl get podgroups"), "{welcome}");
    let is = |what: &'static str| move |own: &Value| own["status"]["phase"] == what;
    awaited(&kubeconfig, &format!("{GROUPS}/vision/podgroups"), "resnet", is("Running"));
    // There are five nodes for six members, and whose pods come first has what the quotas leave.
    let waits = |own: &Value| {
        let told = &own["status"]["conditions"][0];
        told["reason"] == "Unschedulable" && told["status"] == "False"
    };
    awaited(&kubeconfig, &format!("{GROUPS}/speech/podgroups"), "allreduce", waits);
    // It is guaranteed 12, and may use what the other team does not ask for, which is 19: its last trial waits.
    let borrows = |own: &Value| {
        let used = own["status"]["used"]["cpu"].as_str().unwrap_or_default();
        assert_ne!(used, "20", "{own}");
        used == "18500m"
    };
    awaited(&kubeconfig, &format!("{GROUPS}/vision/elasticquotas"), "vision", borrows);
    let sweep =
        awaited(&kubeconfig, "/apis/apps/v1/namespaces/vision/deployments", "sweep", |own| {
            own["status"]["readyReplicas"] == 7
        });
    assert_eq!(sweep["status"]["replicas"], 8, "{sweep}");
    let text = asked(&kubeconfig, "/api/v1/namespaces/vision/pods").unwrap();
    assert!(text.contains("quotaName: vision, runtime: cpu 19, used: cpu 18500m"), "{text}");
    // What docs/BATCH.md goes on with.
    let deployments = "/apis/apps/v1/namespaces/speech/deployments";
    scale(&kubeconfig, &format!("{deployments}/transcribe"), 0);
    create_all(&kubeconfig, "batch/more/annotations.yaml");
    let both_run = |own: &Value| own["status"]["ready"] == 2;
    awaited(&kubeconfig, "/apis/batch/v1/namespaces/speech/jobs", "evaluate", both_run);
    create_all(&kubeconfig, "batch/more/group.yaml");
    let groups = format!("{GROUPS}/speech/podgroups");
    let lacks_one = |own: &Value| {
        let words = own["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
        words == "gang speech/workers waits for members: collected 1/2"
    };
    for name in ["parameters", "workers"] {
        awaited(&kubeconfig, &groups, name, lacks_one);
    }
    scale(&kubeconfig, &format!("{deployments}/workers"), 2);
    for name in ["parameters", "workers"] {
        awaited(&kubeconfig, &groups, name, is("Running"));
    }
    assert!(up.interrupt().success());
}

#[test]
fn of_two_gangs_that_want_the_same_nodes_one_runs_until_another_comes_that_matters_more() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    // As many as docs/BATCH.md has by then.
    let mut up = Up::start(&["--nodes", "6"], &kubeconfig);
    up.welcome();
    create_all(&kubeconfig, "batch/more/contest.yaml");
    let groups = format!("{GROUPS}/default/podgroups");
    let waits = |own: &Value| own["status"]["conditions"][0]["reason"] == "Unschedulable";
    let runs = |own: &Value| own["status"]["phase"] == "Running";
    let first = awaited(&kubeconfig, &groups, "first", |own| runs(own) || waits(own));
    let (winner, other) = if runs(&first) { ("first", "second") } else { ("second", "first") };
    awaited(&kubeconfig, &groups, winner, runs);
    awaited(&kubeconfig, &groups, other, waits);
    create_all(&kubeconfig, "batch/more/urgent.yaml");
    awaited(&kubeconfig, &groups, "urgent", runs);
    // It needs all of its members, and went whole: three nodes are left, and both need four.
    let has_gone = |own: &Value| own["status"]["scheduled"].as_i64().unwrap_or_default() == 0;
    let gone = awaited(&kubeconfig, &groups, winner, |own| waits(own) && has_gone(own));
    assert_ne!(gone["status"]["phase"], "Finished", "{gone}");
    assert!(up.interrupt().success());
}

#[test]
fn teams_share_what_an_organisation_has_as_it_is_shown_who_has_which_share() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut up = Up::start(&["--nodes", "2x16cpu,64Gi"], &kubeconfig);
    up.welcome();
    create_all(&kubeconfig, "teams.yaml");
    let quotas = format!("{GROUPS}/default/elasticquotas");
    let uses = |cpu: &'static str| move |own: &Value| own["status"]["used"]["cpu"] == cpu;
    awaited(&kubeconfig, &quotas, "team-a", uses("7500m"));
    awaited(&kubeconfig, &quotas, "team-b", uses("5"));
    let text = |own: &Value| own["status"]["conditions"][0]["message"].as_str().map(str::to_owned);
    let words = "it admits nothing: its parent orgs does not exist: create it or name another";
    awaited(&kubeconfig, &quotas, "team-c", |own| text(own).as_deref() == Some(words));
    assert!(up.interrupt().success());
}
