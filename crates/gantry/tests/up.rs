//! `gantry up` as a user meets it: from the welcome to Ctrl-C.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use chassis::client::{Call, Client, Options, Source};

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

    let metrics = up.told.by_ref().lines().find_map(|line| {
        let line = line.unwrap();
        line.strip_prefix("metrics are on http://")?.strip_suffix("/metrics").map(str::to_owned)
    });
    let metrics = metrics.unwrap();
    let welcome = up.welcome();
    assert!(welcome.starts_with("Gantry is up on https://127.0.0.1:"), "{welcome}");
    assert!(welcome.contains(&format!("export KUBECONFIG={}", kubeconfig.display())), "{welcome}");
    assert_eq!(kubeconfig.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(get(&metrics, "/readyz").ends_with("\r\n\r\nok"));
    let text = get(&metrics, "/metrics");
    for line in ["\nhollow_nodes_registered 2\n", "\nworkqueue_depth{name=\"deployment\"} 0\n"] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }

    assert!(up.interrupt().success());
    let mut rest = String::new();
    up.said.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("Gantry has ended.\n"), "{rest}");
    assert!(!kubeconfig.exists());
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
}

/// The uid of the namespace `default` in a new `up`.
fn uid(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut up =
        Up::start(&[&["--nodes", "0", "--controllers", "none"], arguments].concat(), &kubeconfig);
    up.welcome();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let answer = runtime.block_on(async {
        let source = Source::from_flags(Some(kubeconfig.clone()), None);
        let client = Client::connect(&source, &Options::new("test")).await.unwrap();
        let call = Call::new(http::Method::GET, "/api/v1/namespaces/default");
        client.call_bytes(call).await.unwrap()
    });
    assert!(up.interrupt().success());
    let answer = String::from_utf8(answer.to_vec()).unwrap();
    answer.split_once("\"uid\":\"").unwrap().1.split_once('"').unwrap().0.to_owned()
}

#[test]
fn every_run_has_uids_of_its_own_unless_a_seed_is_given() {
    assert_ne!(uid(&[]), uid(&[]));
    assert_eq!(uid(&["--seed", "7"]), uid(&["--seed", "7"]));
}
