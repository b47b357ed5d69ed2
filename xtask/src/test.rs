//! `cargo xtask test`: everything that must hold before a change is pushed.

use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use progress::Progress;
use truth::{Binaries, ControlPlane, ETCD_VARIABLE, KUBECONFIGS_VARIABLE};

use crate::{bench, faults, parity, repository, tidy};

/// One server for the scenarios that share, one for those that want it for themselves.
const SERVERS: usize = 2;

/// How many seeds a long run plays.
const LONG_SEEDS: u64 = 1000;

/// The test that kills a scheduler twenty times, on a server of its own.
const KILLS: [&str; 9] = [
    "test",
    "--locked",
    "--package=scenarios",
    "--test=system",
    "--",
    "--ignored",
    "--exact",
    "--nocapture",
    "killed::five_thousand_pods_are_bound_once_though_the_scheduler_is_killed_twenty_times",
];

/// Where the definitions of our own kinds are.
const DEFINITIONS: &str = "crates/api/crds";

/// Run every check: format, lints, house rules, and all tests against a real kube-apiserver
///
/// Builds etcd, the programs of Kubernetes 1.35 and the scheduler's oracle with Go 1.25 or newer on
/// the first run, into a cache folder outside the tree (GANTRY_CACHE, else XDG_CACHE_HOME/gantry, else ~/.cache/gantry), starts one etcd
/// and two kube-apiservers, runs all tests against them and ends them. Last it plays the scheduler's
/// benchmark in small. KUBEBUILDER_ASSETS names a folder with programs to use instead. The Python
/// client of Kubernetes is installed into the same cache folder, with Python 3.10 or newer.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask test")]
pub struct Arguments {
    /// Play 1,000 seeds of the comparison with the real scheduler and of the simulation too, and
    /// kill a scheduler twenty times while 5,000 pods arrive
    #[arg(long)]
    long: bool,
}

/// Runs the chore.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut steps = Steps::default();
    let mut result = all(&mut steps);
    if arguments.long {
        result = result.and_then(|()| long(&mut steps));
    }
    eprintln!("{}", steps.closing_line(result.is_ok()));
    result
}

/// What takes too long for every day.
fn long(steps: &mut Steps) -> Result<()> {
    steps.run("parity", || parity::seeds(LONG_SEEDS, 1))?;
    steps.run("kube-scheduler", || parity::binary(parity::BINARY_SEEDS, 1))?;
    steps.run("faults", || faults::seeds(LONG_SEEDS, 1, false))?;
    steps.run("kills", || {
        let output = repository::cargo().args(KILLS).stderr(Stdio::inherit()).output();
        let output = output.context("cannot run cargo")?;
        let told = String::from_utf8_lossy(&output.stdout);
        print!("{told}");
        succeeded(&KILLS.join(" "), output.status)?;
        has_passed_one(&told)
    })
}

fn all(steps: &mut Steps) -> Result<()> {
    steps.run("format", || {
        let fix = "run `cargo fmt --all`";
        cargo(repository::cargo().args(["fmt", "--all", "--check"])).context(fix)
    })?;
    steps.run("lint", || {
        let arguments =
            ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        cargo(repository::cargo().args(arguments))
    })?;
    steps.run("tidy", tidy::check)?;
    steps.run("python client", python_client)?;
    let mut plane = steps.run("control plane", control_plane)?;
    let tested = steps.run("test", || test(&plane));
    if tested.is_err() {
        for log in plane.keep_logs() {
            eprintln!("log: {}", log.display());
        }
        plane.check()?;
    }
    tested?;
    drop(plane);
    steps.run("bench in small", bench::rehearse)
}

/// Installs the Python client that a scenario runs, so that what is missing shows first.
fn python_client() -> Result<()> {
    let progress = Progress::new();
    truth::python(&|line| progress.say(line)).map(drop)
}

/// Starts the real servers and installs our definitions.
fn control_plane() -> Result<ControlPlane> {
    let progress = Progress::new();
    let report = |line: &str| progress.say(line);
    let binaries = Binaries::locate(&report);
    report("starting etcd and kube-apiserver");
    let plane = ControlPlane::start(&binaries, SERVERS)?;
    let definitions = repository::root().join(DEFINITIONS);
    for server in plane.servers() {
        report("installing custom resource definitions");
        server.install(&binaries, &definitions)?;
    }
    Ok(plane)
}

fn test(plane: &ControlPlane) -> Result<()> {
    let kubeconfigs = plane.servers().iter().map(truth::ApiServer::kubeconfig);
    let kubeconfigs = std::env::join_paths(kubeconfigs)
        .context("the path of the temporary folder contains the separator of path lists")?;
    cargo(
        repository::cargo()
            .args(["test", "--workspace", "--locked"])
            .env(KUBECONFIGS_VARIABLE, kubeconfigs)
            .env(ETCD_VARIABLE, plane.etcd().address()),
    )
}

/// Runs cargo; what it prints goes where ours goes.
fn cargo(command: &mut Command) -> Result<()> {
    let status = command.status().context("cannot run cargo")?;
    let arguments = command.get_args().map(|one| one.to_string_lossy());
    succeeded(&arguments.collect::<Vec<_>>().join(" "), status)
}

fn succeeded(arguments: &str, status: ExitStatus) -> Result<()> {
    ensure!(status.success(), "`cargo {arguments}` failed ({status})");
    Ok(())
}

/// Whether a run of one test by its name found it: cargo is content with a name that no test has.
fn has_passed_one(told: &str) -> Result<()> {
    let mut results = told.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    ensure!(
        results.any(|counts| counts.starts_with("1 passed;")),
        "no test ran: has it another name now than KILLS in xtask/src/test.rs says?"
    );
    Ok(())
}

/// The steps done so far and how long each took.
#[derive(Default)]
struct Steps {
    done: Vec<(&'static str, Duration)>,
}

impl Steps {
    fn run<T>(&mut self, name: &'static str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        eprintln!("== {name}");
        let started = Instant::now();
        let result = step();
        self.done.push((name, started.elapsed()));
        result.with_context(|| format!("the step `{name}` failed"))
    }

    fn closing_line(&self, is_success: bool) -> String {
        let verdict = if is_success { "passed" } else { "FAILED" };
        let total: Duration = self.done.iter().map(|(_, took)| *took).sum();
        let steps: Vec<String> = self
            .done
            .iter()
            .map(|(name, took)| format!("{name} {:.1} s", took.as_secs_f64()))
            .collect();
        format!("{verdict} in {:.1} s: {}", total.as_secs_f64(), steps.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_run_by_name_that_found_no_test_has_failed() {
        let check = |counts: &str, expected: bool| {
            let told = format!("\nrunning the tests\n1 passed\ntest result: ok. {counts}\n\n");
            assert_eq!(has_passed_one(&told).is_ok(), expected, "{counts}");
        };
        check("1 passed; 0 failed; 0 ignored; 0 measured; 80 filtered out", true);
        check("0 passed; 0 failed; 0 ignored; 0 measured; 81 filtered out", false);
        check("11 passed; 0 failed; 0 ignored; 0 measured; 70 filtered out", false);
        check("", false);
    }

    #[test]
    fn the_closing_line_names_each_step_with_its_time() {
        let steps = Steps {
            done: vec![("format", Duration::from_millis(1500)), ("test", Duration::from_secs(60))],
        };
        assert_eq!(steps.closing_line(true), "passed in 61.5 s: format 1.5 s, test 60.0 s");
        assert!(steps.closing_line(false).starts_with("FAILED"));
    }

    #[test]
    fn a_step_that_fails_is_named_in_the_error() {
        let mut steps = Steps::default();
        let error = steps.run("tidy", || -> Result<()> { bail!("too long") }).unwrap_err();
        assert_eq!(format!("{error:#}"), "the step `tidy` failed: too long");
        assert_eq!(steps.done.len(), 1);
    }
}
