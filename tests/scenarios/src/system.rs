//! Whole clusters: a server with controllers and hollow nodes on it, driven by real programs.
//!
//! On drydock the controllers are ours; on a real kube-apiserver they are
//! kube-controller-manager's. The hollow nodes are ours on both.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chassis::client::{Client, Options, Source};
use chassis::clock::Clock;
use chassis::shutdown::Shutdown;
use hollow::{Hollow, NodeGroup, Setup};
use truth::{Binaries, Program};

use crate::backend::{Backend, Lease, Scope};

/// How long anything may take to come about.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How long tasks may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// Who moves workloads on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controllers {
    /// Ours.
    Ours,
    /// kube-controller-manager's.
    Theirs,
    /// Nobody.
    Nobody,
}

/// Who gives pods their nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// kube-scheduler.
    Theirs,
    /// Nobody.
    Nobody,
}

/// The controllers of kube-controller-manager that ours stand in for.
const THEIR_CONTROLLERS: [&str; 10] = [
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "disruption-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
];

/// A server with what runs on it.
pub struct Cluster {
    lease: Lease,
    shutdown: Shutdown,
    programs: Vec<truth::Client>,
    kubectl: PathBuf,
}

impl Cluster {
    /// Starts a cluster of `nodes` hollow nodes and waits until they are registered.
    ///
    /// # Errors
    /// When something does not start.
    pub async fn start(
        name: &str,
        backend: Backend,
        controllers: Controllers,
        scheduler: Scheduler,
        nodes: u32,
    ) -> Result<Self> {
        let lease = Lease::take(backend, Scope::Exclusive, name).await?;
        let shutdown = Shutdown::new();
        let source = Source::from_flags(Some(lease.kubeconfig.clone()), None);
        let client = Client::connect(&source, &Options::new("scenarios")).await?;
        let say = |line: &str| eprintln!("{line}");
        let binaries = Binaries::locate(&say);
        let mut programs = Vec::new();
        match controllers {
            Controllers::Ours => {
                let ca_pem = Some(lease.server.authority_pem.clone());
                let options = workloads::Options { ca_pem, ..workloads::Options::default() };
                let running = workloads::run(client.clone(), options, shutdown.token());
                shutdown.spawn("controllers", running);
            }
            Controllers::Theirs => programs.push(truth::Client::kube_controller_manager(
                &binaries,
                &lease.kubeconfig,
                &THEIR_CONTROLLERS,
            )?),
            Controllers::Nobody => {}
        }
        if scheduler == Scheduler::Theirs {
            let extra = serde_json::Value::Null;
            programs.push(truth::Client::kube_scheduler(&binaries, &lease.kubeconfig, &extra)?);
        }
        let kubectl = binaries.path(Program::Kubectl)?;
        let cluster = Self { lease, shutdown, programs, kubectl };
        if nodes > 0 {
            cluster.register(client, nodes).await?;
        }
        Ok(cluster)
    }

    async fn register(&self, client: Client, nodes: u32) -> Result<()> {
        let setup = Setup { groups: vec![NodeGroup::of_default_type(nodes)], ..Setup::default() };
        let options = hollow::Options { setup, ..hollow::Options::default() };
        let hollow = Hollow::new(client, options)?;
        let mut progress = hollow.progress();
        let shutdown = self.shutdown.clone();
        self.shutdown.spawn("hollow nodes", async move {
            if let Err(error) = hollow.run(&shutdown).await {
                eprintln!("hollow nodes: {error}");
            }
        });
        let ready = progress.wait_for(|progress| progress.is_ready());
        let ready = tokio::time::timeout(PATIENCE, ready).await;
        ready.context("the nodes do not register")?.context("the nodes have ended")?;
        Ok(())
    }

    /// The kubeconfig, for programs that need a file.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.lease.kubeconfig
    }

    /// Runs `kubectl` with these arguments and standard input.
    ///
    /// # Errors
    /// When it cannot be run.
    pub async fn try_kubectl(&self, arguments: &[&str], input: &str) -> Result<Output> {
        let mut command = Command::new(&self.kubectl);
        command
            .args(arguments)
            .env("KUBECONFIG", &self.lease.kubeconfig)
            .env("HOME", self.lease.kubeconfig.parent().unwrap_or(Path::new("/")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let input = input.to_owned();
        let run = tokio::task::spawn_blocking(move || -> Result<Output> {
            let mut child = command.spawn().context("cannot run kubectl")?;
            let mut stdin = child.stdin.take().context("standard input was piped")?;
            std::io::Write::write_all(&mut stdin, input.as_bytes())?;
            drop(stdin);
            Ok(child.wait_with_output()?)
        });
        let run = tokio::time::timeout(PATIENCE * 2, run).await;
        run.with_context(|| format!("kubectl {} is stuck", arguments.join(" ")))??
    }

    /// Runs `kubectl`, which must succeed, and returns what it printed.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_with(arguments, "").await
    }

    /// The same with standard input.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub async fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String> {
        let output = self.try_kubectl(arguments, input).await?;
        ensure!(
            output.status.success(),
            "kubectl {} failed on {}: {}",
            arguments.join(" "),
            self.lease.server.name,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Ends everything.
    ///
    /// # Errors
    /// When a task or a program has failed meanwhile.
    pub async fn end(mut self) -> Result<()> {
        for program in &mut self.programs {
            program.check()?;
        }
        self.shutdown.begin();
        self.shutdown.join(&Clock::system(), GRACE).await?;
        drop(self.programs);
        self.lease.give_back().await
    }
}
