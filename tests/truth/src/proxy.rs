//! Plain reads of a server for programs that have no TLS, through `kubectl proxy`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::binaries::{Binaries, Program};
use crate::plain;
use crate::process::{Folder, Process};

/// How long the proxy may take to start.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// What `kubectl proxy` prints before its address.
const ANNOUNCEMENT: &str = "Starting to serve on ";

/// A `kubectl proxy` in front of a server, asked with the administrator's rights.
#[derive(Debug)]
pub struct Proxy {
    address: String,
    // Fields are dropped in order: the program ends before its folder goes.
    _process: Process,
    _folder: Folder,
}

impl Proxy {
    /// Starts a proxy on a free port of the loopback address.
    ///
    /// # Errors
    /// Where kubectl is missing or does not serve in time.
    pub fn start(binaries: &Binaries<'_>, kubeconfig: &Path) -> Result<Self> {
        let program = binaries.path(Program::Kubectl)?;
        let folder = Folder::new()?;
        let arguments = [
            "proxy".to_owned(),
            "--port=0".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
        ];
        let mut process = Process::start("kubectl-proxy", &program, &arguments, folder.path())?;
        let deadline = Instant::now() + READY_WITHIN;
        let address = loop {
            process.check()?;
            let said = fs::read_to_string(process.log()).unwrap_or_default();
            let announced = said.strip_prefix(ANNOUNCEMENT).and_then(|rest| rest.split_once('\n'));
            if let Some((address, _)) = announced {
                break address.trim().to_owned();
            }
            ensure!(Instant::now() < deadline, "kubectl proxy is silent; {}", process.log_tail());
            std::thread::sleep(Duration::from_millis(10));
        };
        Ok(Self { address, _process: process, _folder: folder })
    }

    /// The body of a GET of `path` with the header `Accept: accept`.
    ///
    /// # Errors
    /// Where the server does not answer 200.
    pub fn get(&self, path: &str, accept: &str) -> Result<Vec<u8>> {
        plain::exchange(&self.address, "GET", path, accept, "")
    }
}
