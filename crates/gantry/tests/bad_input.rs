//! Bad input on the command line gets one clear error that names the thing and the fix.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::process::Command;

/// Runs `gantry` with `arguments`, which must fail, and returns what it said.
fn refused(arguments: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_gantry"))
        .args(arguments)
        .env("HOME", home.path())
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "gantry {arguments:?} succeeds");
    assert!(!said.contains("panicked"), "gantry {arguments:?} panics: {said}");
    said
}

fn check(arguments: &[&str], parts: &[&str]) {
    let said = refused(arguments);
    for part in parts {
        assert!(said.contains(part), "gantry {arguments:?} does not say {part:?} but:\n{said}");
    }
}

#[test]
fn an_unknown_flag_or_command_is_named_with_the_nearest_known_one() {
    check(&["up", "--node", "3"], &["--node", "--nodes"]);
    check(&["upp"], &["upp", "up"]);
}

#[test]
fn a_type_of_nodes_that_makes_no_sense_is_named() {
    check(&["up", "--nodes", "3x"], &["3x"]);
    check(&["up", "--nodes", "2xmany"], &["many"]);
    check(&["up", "--nodes", "-1"], &["-1"]);
    check(&["hollow-nodes", "--nodes", "0"], &["without nodes", "--nodes"]);
}

#[test]
fn an_unknown_controller_is_named() {
    check(&["up", "--controllers", "deployments"], &["deployments", "deployment"]);
    check(&["up", "--controllers", ""], &["\"\" is not a controller", "none"]);
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let port = format!("port {}", taken.local_addr().unwrap().port());
    check(&["up", "--listen", &address], &[&port, "in use", "another port"]);
    check(&["up", "--metrics", &address], &[&port, "in use", "another port"]);
}

#[test]
fn a_path_that_cannot_be_written_is_named() {
    check(
        &["up", "--kubeconfig", "/proc/nowhere/kubeconfig"],
        &["/proc/nowhere/kubeconfig", "choose"],
    );
}

#[test]
fn a_kubeconfig_of_another_cluster_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let text = "current-context: production\n";
    std::fs::write(&path, text).unwrap();
    let shown = path.to_str().unwrap();
    check(&["up", "--kubeconfig", shown], &[shown, "not written by gantry", "--kubeconfig"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_kubeconfig_that_is_missing_is_named() {
    check(&["hollow-nodes", "--kubeconfig", "/nowhere/kubeconfig"], &["/nowhere/kubeconfig"]);
}
