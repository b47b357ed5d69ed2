//! `gantry up` as a user meets it: from the welcome to Ctrl-C.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
    let mut child = Command::new(env!("CARGO_BIN_EXE_gantry"))
        .args(["up", "--nodes", "2", "--metrics", "127.0.0.1:0", "--kubeconfig"])
        .arg(&kubeconfig)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut up = Up(child);

    let metrics = told.find_map(|line| {
        let line = line.unwrap();
        line.strip_prefix("metrics are on http://")?.strip_suffix("/metrics").map(str::to_owned)
    });
    let metrics = metrics.unwrap();
    let mut welcome = String::new();
    while !welcome.contains("Ctrl-C ends it.") {
        assert!(said.read_line(&mut welcome).unwrap() > 0, "it ended after {welcome}");
    }
    assert!(welcome.starts_with("Gantry is up on https://127.0.0.1:"), "{welcome}");
    assert!(welcome.contains(&format!("export KUBECONFIG={}", kubeconfig.display())), "{welcome}");
    assert_eq!(kubeconfig.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(get(&metrics, "/readyz").ends_with("\r\n\r\nok"));
    let text = get(&metrics, "/metrics");
    for line in ["\nhollow_nodes_registered 2\n", "\nworkqueue_depth{name=\"deployment\"} 0\n"] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }

    let pid = up.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert!(up.0.wait().unwrap().success());
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("Gantry has ended.\n"), "{rest}");
    assert!(!kubeconfig.exists());
}
