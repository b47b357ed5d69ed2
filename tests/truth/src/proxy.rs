//! Plain reads of a server for programs that have no TLS: `kubectl proxy` and HTTP/1.0.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::binaries::{Binaries, Program};
use crate::process::{Folder, Process};

/// How long the proxy may take to start, and an answer to come.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

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
        let deadline = Instant::now() + ANSWER_WITHIN;
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
        let answer = self.exchange(path, accept).with_context(|| format!("cannot get {path}"))?;
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.with_context(|| format!("the answer to {path} has no end of headers"))?;
        let head = String::from_utf8_lossy(&answer[..end]);
        let status = head.lines().next().unwrap_or_default();
        let body = &answer[end + 4..];
        ensure!(
            status.split(' ').nth(1) == Some("200"),
            "GET {path} answers {status:?}: {}",
            String::from_utf8_lossy(body)
        );
        Ok(body.to_vec())
    }

    /// HTTP/1.0 has neither chunks nor connections that stay open, so an answer is what comes
    /// until the end.
    fn exchange(&self, path: &str, accept: &str) -> Result<Vec<u8>> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }
}
