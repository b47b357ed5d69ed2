//! The servers under test, started for one run and ended with it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chassis::client::{Client, Options, Source, UnderWay};
use tempfile::TempDir;
use truth::{Binaries, ControlPlane, Flags};

use crate::processes::{Cost, cost_of_process};

/// Requests under way at once: more do not make kube-apiserver faster on two cores.
pub const IN_FLIGHT: usize = 64;

/// How long an answer may take: the server's own patience, and a little more.
const ANSWER_WITHIN: Duration = Duration::from_secs(70);

/// A `gantry` of this run that goes on until it is dropped.
struct Running {
    child: Child,
    ready_after: Duration,
}

impl Running {
    /// Starts a command and waits until it prints a line that begins with these words.
    fn start(mut command: Command, ready: &str) -> Result<Self> {
        let began = Instant::now();
        let program = command.get_program().to_owned();
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let stdout = child.stdout.take().context("standard output was piped")?;
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        while !line.starts_with(ready) {
            line.clear();
            let read = lines.read_line(&mut line)?;
            ensure!(read > 0, "{} ended before it said \"{ready}\"", program.display());
        }
        let ready_after = began.elapsed();
        // What it says afterwards must not fill the pipe.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Ok(Self { child, ready_after })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone afterwards.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A `gantry up` of this run.
pub struct Gantry {
    running: Running,
    /// Its kubeconfig.
    pub kubeconfig: PathBuf,
    _folder: TempDir,
}

impl Gantry {
    /// Starts `gantry up` and waits until it says that it is up.
    ///
    /// # Errors
    /// When it ends first.
    pub fn start(program: &Path, arguments: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let kubeconfig = folder.path().join("kubeconfig");
        let mut command = Command::new(program);
        command.arg("up").arg("--kubeconfig").arg(&kubeconfig).args(arguments);
        Ok(Self { running: Running::start(command, "Gantry is up")?, kubeconfig, _folder: folder })
    }

    /// From the start of the process until it said it was up.
    pub fn ready_after(&self) -> Duration {
        self.running.ready_after
    }

    /// What it has cost so far.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cost(&self) -> Result<Cost> {
        cost_of_process(self.running.child.id())
    }
}

/// Which cores a program may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// The first one.
    One,
    /// All there are.
    All,
}

/// A `gantry hollow-nodes` of this run.
pub struct HollowNodes {
    running: Running,
}

impl HollowNodes {
    /// Starts `gantry hollow-nodes` with so many nodes of a type (empty for its own default) and
    /// waits until they run.
    ///
    /// # Errors
    /// When it ends first, or `taskset` is needed and missing.
    pub fn start(
        program: &Path,
        kubeconfig: &Path,
        nodes: usize,
        kind: &str,
        cores: Cores,
    ) -> Result<Self> {
        let mut command = match cores {
            Cores::All => Command::new(program),
            Cores::One => {
                let mut command = Command::new("taskset");
                command.args(["--cpu-list", "0"]).arg(program);
                command
            }
        };
        let separator = if kind.is_empty() { "" } else { "x" };
        command.arg("hollow-nodes").arg("--kubeconfig").arg(kubeconfig);
        command.args(["--nodes", &format!("{nodes}{separator}{kind}")]);
        Ok(Self { running: Running::start(command, &format!("{nodes} nodes are registered"))? })
    }

    /// From the start of the process until it said that its nodes run.
    pub fn ready_after(&self) -> Duration {
        self.running.ready_after
    }

    /// What it has cost so far. `taskset` becomes the program it starts.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cost(&self) -> Result<Cost> {
        cost_of_process(self.running.child.id())
    }
}

/// What a race of schedulers needs of the servers: pods without service accounts, nodes without
/// the taints that a kubelet would remove, no limit below what two cores can do, deletions
/// between rows that do not take longer than the rows, and room for all that is written.
const RACE: Flags<'_> = Flags {
    etcd: &["--quota-backend-bytes=8589934592"],
    server: &[
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        "--delete-collection-workers=16",
    ],
};

/// A kube-apiserver on etcd, with the same definitions installed.
pub struct Truth {
    plane: ControlPlane,
}

impl Truth {
    /// Starts the pair and installs the definitions that `gantry crds` prints.
    ///
    /// # Errors
    /// When a program is missing or does not start.
    pub fn start(gantry: &Path) -> Result<Self> {
        Self::start_with(gantry, Flags::default())
    }

    /// The same with the flags for a race of schedulers, and some more for the server.
    ///
    /// # Errors
    /// When a program is missing or does not start.
    pub fn start_for_race(gantry: &Path, more: &[String]) -> Result<Self> {
        let more = more.iter().map(String::as_str);
        let server: Vec<&str> = RACE.server.iter().copied().chain(more).collect();
        Self::start_with(gantry, Flags { server: &server, ..RACE })
    }

    fn start_with(gantry: &Path, flags: Flags<'_>) -> Result<Self> {
        let say = |line: &str| eprintln!("{line}");
        let binaries = Binaries::locate(&say);
        let plane = ControlPlane::start_with(&binaries, 1, flags)?;
        let definitions =
            Command::new(gantry).arg("crds").output().context("cannot run gantry crds")?;
        ensure!(definitions.status.success(), "gantry crds failed");
        let file = tempfile::Builder::new()
            .suffix(".yaml")
            .tempfile()
            .context("cannot make a temporary file")?;
        std::fs::write(file.path(), definitions.stdout).context("cannot write a temporary file")?;
        plane.servers()[0].install(&binaries, file.path())?;
        Ok(Self { plane })
    }

    /// Its kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        self.plane.servers()[0].kubeconfig()
    }

    /// Forgets the history of the store, so that rows begin alike.
    ///
    /// # Errors
    /// When etcd refuses.
    pub fn compact(&self) -> Result<()> {
        self.plane.etcd().compact()
    }
}

/// The client every server is measured with: TLS, a token, HTTP/1.1 on several connections.
///
/// # Errors
/// When the kubeconfig is no good.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    client_with(kubeconfig, IN_FLIGHT * 4, &UnderWay::default()).await
}

/// The same, with so many requests under way at most, which are counted there.
///
/// # Errors
/// When the kubeconfig is no good.
pub async fn client_with(
    kubeconfig: &Path,
    in_flight_max: usize,
    under_way: &UnderWay,
) -> Result<Client> {
    let source = Source::from_flags(Some(kubeconfig.to_owned()), None);
    let under_way = under_way.clone();
    let options =
        Options { in_flight_max, timeout: ANSWER_WITHIN, under_way, ..Options::new("bench") };
    Ok(Client::connect(&source, &options).await?)
}
