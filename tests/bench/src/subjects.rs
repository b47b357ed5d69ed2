//! The servers under test, started for one run and ended with it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chassis::client::{Client, Options, Source};
use tempfile::TempDir;
use truth::{Binaries, ControlPlane};

/// Requests under way at once: more do not make kube-apiserver faster on two cores.
pub const IN_FLIGHT: usize = 64;

/// A `gantry up` of this run.
pub struct Gantry {
    child: Child,
    /// Its kubeconfig.
    pub kubeconfig: PathBuf,
    /// From the start of the process until it said it was up.
    pub ready_after: Duration,
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
        let began = Instant::now();
        let mut child = Command::new(program)
            .arg("up")
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let stdout = child.stdout.take().context("standard output was piped")?;
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        while !line.starts_with("Gantry is up") {
            line.clear();
            ensure!(lines.read_line(&mut line)? > 0, "gantry up ended before it was up");
        }
        let ready_after = began.elapsed();
        // What it says afterwards must not fill the pipe.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Ok(Self { child, kubeconfig, ready_after, _folder: folder })
    }
}

impl Drop for Gantry {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone afterwards.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
