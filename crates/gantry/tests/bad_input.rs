//! Bad input on the command line gets one clear error that names the thing and the fix.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::path::Path;
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
    check(&["up", "--nodes", "3x"], &["'3x'", "a type must follow the x, as in 3x8cpu,32Gi"]);
    check(&["up", "--nodes", "2xmany"], &["'2xmany'", "\"many\": is none of 8cpu, 32Gi"]);
    let forms = "write a number such as 5, or a type such as 3x8cpu,32Gi";
    check(&["up", "--nodes", "five"], &["'five'", "is neither a number nor a type", forms]);
    check(&["up", "--nodes", "5x8CPU"], &["'5x8CPU'", "\"8CPU\": is no amount; write 8cpu"]);
    let range = "\"0\": the number of nodes must be 1 to 32768, as in 3x8cpu,32Gi";
    check(&["up", "--nodes", "0x8cpu"], &["'0x8cpu'", range]);
    check(&["up", "--nodes", "-1"], &["-1", "--nodes", "write a number such as 5"]);
    let numa =
        "\"numa=3\": 8 CPUs cannot be dealt out evenly over 3 NUMA nodes; write 6cpu or 9cpu";
    check(&["up", "--nodes", "5xnuma=3"], &["'5xnuma=3'", numa]);
    check(&["hollow-nodes", "--nodes", "0"], &["without nodes", "--nodes"]);
}

#[test]
fn a_seed_that_is_no_number_is_named() {
    for seed in ["-1", "1.5", "one", "18446744073709551616"] {
        check(&["up", "--seed", seed], &[seed, "--seed", "write a whole number from 0 to"]);
    }
}

#[test]
fn an_address_without_a_port_or_that_means_nothing_is_named_with_one_that_works() {
    for address in ["localhost", "127.0.0.1", ":6443", "::1:x", "a..b:0", ""] {
        let parts = [address, "write an address and a port, such as 127.0.0.1:6443"];
        check(&["up", "--listen", address], &parts);
        check(&["hollow-nodes", "--metrics", address], &parts);
    }
}

#[test]
fn an_unknown_controller_is_named() {
    check(&["up", "--controllers", "deployments"], &["deployments", "deployment"]);
    check(&["up", "--controllers", ""], &["\"\" is not a controller", "none"]);
}

#[test]
fn a_scheduler_that_cannot_run_as_told_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // Nobody is there; nothing is asked before what was told makes sense.
    let kubeconfig = write(
        "kubeconfig",
        "{apiVersion: v1, kind: Config, current-context: c, \
         clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: c}], \
         contexts: [{name: c, context: {cluster: c, user: c}}]}",
    );
    let config = |name: &str, more: &str| {
        let kind = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration";
        write(name, &format!("{kind}\n{more}\n"))
    };
    let run = |more: &[&str], parts: &[&str]| {
        let arguments = ["scheduler", "--secure-port", "0", "--kubeconfig", &kubeconfig];
        check(&[&arguments[..], more].concat(), parts);
    };
    run(&["--master", "http://x"], &["--master http://x", "--kubeconfig"]);
    run(&["--config", "/nowhere.yaml"], &["/nowhere.yaml"]);
    let unknown = config("unknown.yaml", "profiels: []");
    run(&["--config", &unknown], &["profiels", "profiles"]);
    let extended =
        config("extended.yaml", "extenders: [{urlPrefix: 'http://e.example', preemptVerb: p}]");
    run(&["--config", &extended], &["extenders[0].preemptVerb", "leave it out"]);
    let tls = "tlsConfig: {caFile: /nowhere.pem}";
    let secured = format!("extenders: [{{urlPrefix: 'https://e.example', filterVerb: f, {tls}}}]");
    let secured = config("secured.yaml", &secured);
    run(&["--config", &secured], &["https://e.example", "/nowhere.pem"]);
    // What `up` is told is refused in the same words, before or as soon as it is tried.
    let up = |file: &str, more: &[&str], parts: &[&str]| {
        let own = folder.path().join("own");
        let own = own.to_str().unwrap();
        let arguments = ["up", "--nodes", "0", "--kubeconfig", own, "--scheduler-config", file];
        check(&[&arguments[..], more].concat(), parts);
        assert!(!Path::new(own).exists());
    };
    up("/nowhere.yaml", &[], &["/nowhere.yaml"]);
    up(&unknown, &[], &["profiels", "profiles"]);
    up(&extended, &[], &["extenders[0].preemptVerb", "leave it out"]);
    up(&secured, &[], &["the scheduler cannot run", "https://e.example", "/nowhere.pem"]);
    let none = ["--scheduler", "none"];
    up(&unknown, &none, &["--scheduler-config", "--scheduler none", "remove one"]);
    let zero = ["--leader-elect-retry-period", "0s"];
    run(&zero, &["--leader-elect-retry-period must be greater than zero"]);
    let long = ["--leader-elect-renew-deadline", "20s"];
    run(&long, &["leaseDuration must be greater than renewDeadline"]);
    run(&["--leader-elect-lease-duration", "15"], &["--leader-elect-lease-duration"]);
    run(&["--leader-elect-resource-lock", "endpoints"], &["endpoints", "leases"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let arguments =
        ["scheduler", "--kubeconfig", &kubeconfig, "--bind-address", "127.0.0.1", "--secure-port"];
    let parts = ["--secure-port", &format!("port {port} of 127.0.0.1 is in use")];
    check(&[&arguments[..], &[&port]].concat(), &parts);
}

#[test]
fn what_cannot_be_shown_of_nodes_is_named() {
    check(&["top", "pods"], &["\"pods\" cannot be shown: only nodes can, as in `top nodes`"]);
    check(&["top"], &["nodes [NAME]"]);
    let keys = "use one of name, report, requested-cpu, requested-memory, reserved-cpu";
    check(&["top", "nodes", "--sort-by", "heat"], &["'heat'", "--sort-by", keys]);
    let both = ["top", "nodes", "--bands", "--output", "wide"];
    check(&both, &["--bands and --output wide are two tables: ask for one"]);
    check(&["top", "nodes", "--config", "/nowhere.yaml"], &["/nowhere.yaml"]);
    check(&["top", "nodes", "--kubeconfig", "/nowhere"], &["/nowhere"]);
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
    // Merged by hand from one of ours, which is the only way in to `production` now.
    let merged = "# Written by Gantry, which replaces and removes this file.
apiVersion: v1
kind: Config
clusters:
- {name: gantry, cluster: {server: 'https://127.0.0.1:1'}}
- {name: production, cluster: {server: 'https://production'}}
contexts:
- {name: gantry, context: {cluster: gantry, user: gantry}}
- {name: production, context: {cluster: production, user: production}}
users:
- {name: gantry, user: {token: secret}}
- {name: production, user: {token: secret}}
current-context: gantry
";
    let foreign = "not written by gantry";
    for (text, why) in [
        ("", foreign),
        ("current-context: production\n", foreign),
        ("current-context: gantry\n", foreign),
        (merged, "has got other clusters, contexts or users since"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, text).unwrap();
        let shown = path.to_str().unwrap();
        check(&["up", "--kubeconfig", shown], &[shown, why, "--kubeconfig"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_kubeconfig_that_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (pipe, link, target) = (at("pipe"), at("link"), at("target"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let here = folder.path().to_str().unwrap();
    for path in [pipe.as_str(), here, "/dev/null"] {
        check(&["up", "--kubeconfig", path], &[path, "is not a file", "choose another path"]);
    }
    for path in [link.as_str(), "/dev/stdout"] {
        check(&["up", "--kubeconfig", path], &[path, "is a symbolic link", "--kubeconfig"]);
    }
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(!std::fs::exists(&target).unwrap());
}

#[test]
fn a_kubeconfig_that_is_missing_is_named_with_the_cause_once() {
    let said = refused(&["hollow-nodes", "--kubeconfig", "/nowhere/kubeconfig"]);
    assert!(said.contains("/nowhere/kubeconfig"), "{said}");
    assert_eq!(said.matches("No such file").count(), 1, "{said}");
}

#[test]
fn a_server_that_does_not_answer_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1
kind: Config
clusters: [{{name: a, cluster: {{server: 'https://{free}'}}}}]
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
users: [{{name: a, user: {{token: secret}}}}]
current-context: a
"
    );
    std::fs::write(&path, text).unwrap();
    let said = refused(&["hollow-nodes", "--kubeconfig", path.to_str().unwrap()]);
    let server = format!("no answer from https://{free}: Connection refused");
    for part in [server.as_str(), "; start that server, or name another one with --kubeconfig"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(said.matches("refused").count(), 1, "{said}");
}

#[test]
fn an_error_that_nobody_can_read_is_no_panic() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_gantry"))
        .args(["hollow-nodes", "--kubeconfig", "/nowhere/kubeconfig"])
        .stderr(full)
        .status();
    assert_eq!(status.unwrap().code(), Some(1));
}

#[test]
fn a_sample_that_there_is_not_or_whose_pods_nobody_schedules_is_named() {
    check(&["up", "--demo", "games"], &["'games'", "--demo <NAME>", "[possible values: batch]"]);
    let parts = ["--demo batch", "koord-scheduler, which is not there", "leave out --scheduler"];
    check(&["up", "--demo", "batch", "--scheduler", "none"], &parts);
}
