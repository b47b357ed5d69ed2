//! The servers under test, started for one run and ended with it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chassis::client::{Client, Options, Source};
use tempfile::TempDir;
use truth::{Binaries, ControlPlane};

use crate::processes::{Cost, cost_of_process};

/// Requests under way at once: more do not make kube-apiserver faster on two cores.
pub const IN_FLIGHT: usize = 64;

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

/// A `gantry hollow-nodes` of this run, on one core.
pub struct HollowNodes {
    running: Running,
}

impl HollowNodes {
    /// Starts `gantry hollow-nodes`, kept to the first core, and waits until its nodes run.
    ///
    /// # Errors
    /// When it ends first, or `taskset` is missing.
    pub fn start(program: &Path, kubeconfig: &Path, nodes: usize) -> Result<Self> {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", "0"]).arg(program).arg("hollow-nodes");
        command.arg("--kubeconfig").arg(kubeconfig).args(["--nodes", &nodes.to_string()]);
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
        let say = |line: &str| eprintln!("{line}");
        let binaries = Binaries::locate(&say);
        let plane = ControlPlane::start(&binaries, 1)?;
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
}

/// The client every server is measured with: TLS, a token, HTTP/1.1 on several connections.
///
/// # Errors
/// When the kubeconfig is no good.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    let source = Source::from_flags(Some(kubeconfig.to_owned()), None);
    let options = Options { in_flight_max: IN_FLIGHT * 4, ..Options::new("bench") };
    Ok(Client::connect(&source, &options).await?)
}
