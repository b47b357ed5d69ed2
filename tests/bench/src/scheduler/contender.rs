//! Who takes part: schedulers and writers, each a process of its own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use truth::{Binaries, Process, Program};

use super::samples::Named;
use crate::processes::{Cost, cost_below};

/// The client's limit for both schedulers, which none of them reaches. The writers have none but
/// [`IN_FLIGHT`](crate::subjects::IN_FLIGHT).
pub const REQUESTS_PER_SECOND_MAX: u32 = 5_000;

/// How often it is looked whether a process still runs.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What Gantry's log says before the address of its metrics.
const METRICS_ARE_ON: &str = "metrics are on http://";

/// One who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Row {
    /// The real scheduler.
    KubeScheduler,
    /// `gantry scheduler`.
    Gantry,
    /// Binds each pod to the next node.
    Bind,
    /// The same, and writes the event.
    BindEvent,
    /// The same, and lets answers gather as Gantry does. What is held against it is told, and has no
    /// bar.
    BindEventGathering,
}

impl Row {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 5] =
        [Self::KubeScheduler, Self::Gantry, Self::Bind, Self::BindEvent, Self::BindEventGathering];

    /// Whether it tells of each pod that it has bound.
    pub fn writes_events(self) -> bool {
        self != Self::Bind
    }
}

impl Named for Row {
    fn name(self) -> &'static str {
        match self {
            Self::KubeScheduler => "kube-scheduler",
            Self::Gantry => "Gantry",
            Self::Bind => "limit: bind",
            Self::BindEvent => "limit: bind + event",
            Self::BindEventGathering => "limit: bind + event, gathering",
        }
    }
}

/// Which plugins the schedulers judge by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lineup {
    /// Kubernetes' own.
    Kubernetes,
    /// Those that Koordinator's chart installs.
    Koordinator,
}

/// A row, and what it is told.
#[derive(Debug, Clone, Copy)]
pub struct Entrant {
    /// Who.
    pub row: Row,
    /// What a scheduler judges by.
    pub lineup: Lineup,
    /// How many pods a writer binds; all there are where nothing is said. Schedulers find out.
    pub pods: Option<usize>,
}

impl From<Row> for Entrant {
    /// As Kubernetes has it, for all pods.
    fn from(row: Row) -> Self {
        Self { row, lineup: Lineup::Kubernetes, pods: None }
    }
}

/// Where the programs are.
pub struct Programs {
    /// `gantry`.
    pub gantry: PathBuf,
    kube_scheduler: PathBuf,
    /// This program, which the writers are a part of.
    own: PathBuf,
}

impl Programs {
    /// Finds the programs, and builds kube-scheduler where it is missing.
    ///
    /// # Errors
    /// When it is missing and cannot be built.
    pub fn locate(gantry: &Path) -> Result<Self> {
        let say = |line: &str| eprintln!("{line}");
        Ok(Self {
            gantry: gantry.to_owned(),
            kube_scheduler: Binaries::locate(&say).path(Program::Scheduler)?,
            own: std::env::current_exe().context("this program has no path")?,
        })
    }
}

/// A running process that takes part. Dropping it ends the process.
pub struct Contender {
    /// When it was started.
    pub started: Instant,
    // The process ends before its folder goes.
    process: Process,
    _folder: TempDir,
}

impl Contender {
    /// Starts a row on the server of a kubeconfig.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(entrant: Entrant, programs: &Programs, kubeconfig: &Path) -> Result<Self> {
        let folder = folder()?;
        let config = folder.path().join("scheduler.yaml");
        let words = match entrant.lineup {
            Lineup::Kubernetes => configuration(kubeconfig),
            Lineup::Koordinator => koordinators()?,
        };
        std::fs::write(&config, words)
            .with_context(|| format!("cannot write {}", config.display()))?;
        let (config, server) =
            (format!("--config={}", config.display()), kubeconfig.display().to_string());
        let arguments =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let first = entrant.pods.map(|pods| format!("--first={pods}"));
        let writer = |words: &[&str]| {
            let words = [&["limit-writer", "--kubeconfig", &server], words].concat();
            arguments(&words).into_iter().chain(first.clone()).collect()
        };
        let (name, program, arguments): (_, _, Vec<String>) = match entrant.row {
            Row::KubeScheduler => (
                "kube-scheduler",
                &programs.kube_scheduler,
                arguments(&[&config, "--secure-port=0"]),
            ),
            Row::Gantry => (
                "gantry",
                &programs.gantry,
                arguments(&[
                    "scheduler",
                    &config,
                    "--kubeconfig",
                    &server,
                    "--secure-port=0",
                    "--metrics=127.0.0.1:0",
                ]),
            ),
            Row::Bind => ("bind", &programs.own, writer(&[])),
            Row::BindEvent => ("bind-event", &programs.own, writer(&["--events"])),
            Row::BindEventGathering => {
                ("bind-event", &programs.own, writer(&["--events", "--gather"]))
            }
        };
        Self::launch(name, program, &arguments, folder)
    }

    /// Starts a client that reads lists and throws them away.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn fetch(programs: &Programs, kubeconfig: &Path, lists: &[String]) -> Result<Self> {
        let server = kubeconfig.display().to_string();
        let mut arguments = vec!["fetch".to_owned(), "--kubeconfig".to_owned(), server];
        arguments.extend(lists.iter().cloned());
        Self::launch("fetch", &programs.own, &arguments, folder()?)
    }

    fn launch(name: &str, program: &Path, arguments: &[String], folder: TempDir) -> Result<Self> {
        let started = Instant::now();
        let process = Process::start(name, program, arguments, folder.path())?;
        Ok(Self { started, process, _folder: folder })
    }

    /// An error, with its last words, where it has ended by itself.
    ///
    /// # Errors
    /// See above.
    pub fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// Waits until something comes to an end that lasts as long as the process has work.
    ///
    /// # Errors
    /// What it ends with, or the last words of a process that has ended before.
    pub async fn until<T>(&mut self, done: impl Future<Output = Result<T>>) -> Result<T> {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        tokio::pin!(done);
        loop {
            tokio::select! {
                ended = &mut done => return ended,
                _ = looks.tick() => self.check()?,
            }
        }
    }

    /// What it says in its log.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn words(&self) -> Result<String> {
        let log = self.process.log();
        std::fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))
    }

    /// The page of what it counts, where its log says where that is.
    ///
    /// # Errors
    /// When it does not say so, or does not answer.
    pub async fn metrics(&self) -> Result<String> {
        let words = self.words()?;
        let address = words.split_once(METRICS_ARE_ON).and_then(|(_, rest)| rest.split_once('/'));
        let (address, _) = address.context("it does not say where its metrics are")?;
        let mut stream = TcpStream::connect(address).await.context("its metrics are not served")?;
        // To this version the server answers in one piece, and hangs up.
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
        let mut page = String::new();
        stream.read_to_string(&mut page).await.context("its metrics cannot be read")?;
        Ok(page)
    }

    /// What it has cost so far.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cost(&self) -> Result<Cost> {
        cost_below(self.process.supervisor_id())
    }
}

fn folder() -> Result<TempDir> {
    tempfile::tempdir().context("cannot make a temporary folder")
}

/// One file for both schedulers: nobody to share the work with, and no limit that is felt. The
/// form of requests is left to each: kube-scheduler chooses protobuf.
fn configuration(kubeconfig: &Path) -> String {
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": false},
        "clientConnection": {
            "kubeconfig": kubeconfig,
            "qps": REQUESTS_PER_SECOND_MAX,
            "burst": REQUESTS_PER_SECOND_MAX,
        },
    });
    config.to_string()
}

/// The file of Koordinator's chart, but for what differs from process to process: nobody to share the
/// work with, no limit that is felt, and the name that the pods of the race ask for.
fn koordinators() -> Result<String> {
    let mut file =
        include_str!("../../../../crates/scheduler/src/config/koordinator.yaml").to_owned();
    let changes = [
        ("leaderElect: true", "leaderElect: false".to_owned()),
        ("schedulerName: koord-scheduler", "schedulerName: default-scheduler".to_owned()),
        (
            "profiles:",
            format!(
                "clientConnection: {{qps: {REQUESTS_PER_SECOND_MAX}, burst: \
                 {REQUESTS_PER_SECOND_MAX}}}\nprofiles:"
            ),
        ),
    ];
    for (before, after) in changes {
        ensure!(file.matches(before).count() == 1, "koordinator.yaml should say {before} once");
        file = file.replace(before, &after);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn koordinators_file_is_for_the_pods_of_the_race_and_has_no_limit_that_is_felt() {
        let file = koordinators().unwrap();
        for words in [
            "\nclientConnection: {qps: 5000, burst: 5000}\nprofiles:\n",
            "\n- schedulerName: default-scheduler\n",
            "\n  leaderElect: false\n",
            "{name: NodeNUMAResource}",
        ] {
            assert!(file.contains(words), "{words}");
        }
        assert!(!file.contains("schedulerName: koord-scheduler"));
    }
}
