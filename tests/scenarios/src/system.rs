//! Whole clusters: a server with controllers and hollow nodes on it, driven by real programs.
//!
//! On drydock the controllers are ours; on a real kube-apiserver they are
//! kube-controller-manager's. The hollow nodes are ours on both.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use chassis::client::{Client, ListOptions, Options, Source};
use chassis::clock::Clock;
use chassis::shutdown::Shutdown;
use hollow::{Hollow, NodeGroup, Setup};
use scheduler::config::Configuration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use truth::{Binaries, Program};

use crate::backend::{Backend, Lease, Scope};
use crate::running::Running;

/// How long anything may take to come about.
pub const PATIENCE: Duration = Duration::from_secs(30);

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
    /// Ours.
    Ours,
    /// kube-scheduler.
    Theirs,
    /// Nobody.
    Nobody,
}

/// The controllers of kube-controller-manager that ours stand in for.
const THEIR_CONTROLLERS: [&str; 12] = [
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
    "ttl-after-finished-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "disruption-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
];

/// What a cluster is made of.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The server.
    pub backend: Backend,
    /// Who moves workloads on.
    pub controllers: Controllers,
    /// Who gives pods their nodes.
    pub scheduler: Scheduler,
    /// How many hollow nodes it has.
    pub nodes: u32,
}

impl Setting {
    /// Whoever acts on all there is of a kind needs a server of its own.
    fn scope(&self) -> Scope {
        let acts = self.controllers != Controllers::Nobody || self.scheduler != Scheduler::Nobody;
        if acts || self.nodes > 0 { Scope::Exclusive } else { Scope::Namespaced }
    }
}

/// A server with what runs on it.
pub struct Cluster {
    lease: Lease,
    shutdown: Shutdown,
    scheduler: Option<Running>,
    programs: Vec<truth::Companion>,
    kubectl: PathBuf,
}

/// Waits until no node has a taint: each new one has, until a controller has seen that it is ready.
async fn usable(client: &Client) -> Result<()> {
    loop {
        let nodes = client.all::<api::Node>().list(&ListOptions::default()).await?;
        if nodes.items.iter().all(|node| node.spec.taints.is_empty()) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What tells the things of this process apart from those of others. It has a 0 in it, which no suffix has
/// that a server makes up: whatever looks for such does not find it.
#[must_use]
pub fn mark() -> String {
    format!("0{}", std::process::id())
}

impl Cluster {
    /// Starts a cluster for the scenario `name` and waits until its nodes are registered and,
    /// where there are controllers, none has a taint left.
    ///
    /// # Errors
    /// When something does not start.
    pub async fn start(name: &str, setting: Setting) -> Result<Self> {
        let lease = Lease::take(setting.backend, setting.scope(), name).await?;
        let shutdown = Shutdown::new();
        let source = Source::from_flags(Some(lease.kubeconfig.clone()), None);
        let client = Client::connect(&source, &Options::new("scenarios")).await?;
        let say = |line: &str| eprintln!("{line}");
        let binaries = Binaries::locate(&say);
        let mut programs = Vec::new();
        match setting.controllers {
            Controllers::Ours => {
                let ca_pem = Some(lease.server.authority_pem.clone());
                let options = workloads::Options { ca_pem, ..workloads::Options::default() };
                let running = workloads::run(client.clone(), options, shutdown.token());
                shutdown.spawn("controllers", running);
            }
            Controllers::Theirs => programs.push(truth::Companion::kube_controller_manager(
                &binaries,
                &lease.kubeconfig,
                &THEIR_CONTROLLERS,
            )?),
            Controllers::Nobody => {}
        }
        let mut scheduler = None;
        match setting.scheduler {
            Scheduler::Ours => {
                let configuration =
                    Configuration { leader_election: None, ..Configuration::default() };
                scheduler = Some(Running::start(configuration, &lease.kubeconfig).await?);
            }
            Scheduler::Theirs => {
                let (kubeconfig, extra) = (&lease.kubeconfig, serde_json::Value::Null);
                programs.push(truth::Companion::kube_scheduler(&binaries, kubeconfig, &extra)?);
            }
            Scheduler::Nobody => {}
        }
        let kubectl = binaries.path(Program::Kubectl)?;
        let cluster = Self { lease, shutdown, scheduler, programs, kubectl };
        if setting.nodes > 0 {
            cluster.register(client.clone(), setting.nodes).await?;
            if setting.controllers != Controllers::Nobody {
                let usable = tokio::time::timeout(PATIENCE, usable(&client)).await;
                usable.context("nodes stay tainted")??;
            }
        }
        Ok(cluster)
    }

    /// The same where nobody schedules yet, with a namespace that may have pods.
    ///
    /// # Errors
    /// When something does not start.
    pub async fn unscheduled(
        name: &str,
        backend: Backend,
        controllers: Controllers,
        nodes: u32,
    ) -> Result<(Self, String)> {
        static STAGED: AtomicU32 = AtomicU32::new(0);
        let setting = Setting { backend, controllers, scheduler: Scheduler::Nobody, nodes };
        let cluster = Self::start(name, setting).await?;
        // A name of its own: the namespaces of others may be there still.
        let number = STAGED.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("{name}-{}-{number}", mark());
        cluster.kubectl(&["create", "namespace", &namespace]).await?;
        let account = ["wait", "--for=create", "serviceaccount/default", "--timeout=30s", "-n"];
        cluster.kubectl(&[&account[..], &[&namespace]].concat()).await?;
        Ok((cluster, namespace))
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
        output(self.command(&self.kubectl).args(arguments), input).await
    }

    /// Runs `kubectl edit` with these arguments. The command `editor` gets the file as its last
    /// argument and changes it.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub async fn kubectl_edit(&self, arguments: &[&str], editor: &str) -> Result<String> {
        let mut command = self.command(&self.kubectl);
        command.arg("edit").args(arguments).env("KUBE_EDITOR", editor);
        self.printed(&mut command, "").await
    }

    /// Starts `kubectl` with these arguments, to read what it prints while other things happen.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn kubectl_following(&self, arguments: &[&str]) -> Result<Following> {
        let mut command = self.command(&self.kubectl);
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let what = shown(&command);
        let mut child = command.spawn().with_context(|| format!("cannot run {what}"))?;
        let stdout = child.stdout.take().context("standard output was piped")?;
        Ok(Following { what, lines: BufReader::new(stdout).lines(), child })
    }

    /// Runs a script of `tests/python` with the Python client, which must succeed, and returns
    /// what it printed.
    ///
    /// # Errors
    /// When it fails, with what it said, or when the client cannot be had.
    pub async fn python(&self, script: &str, arguments: &[&str]) -> Result<String> {
        let python = tokio::task::spawn_blocking(|| truth::python(&|line| eprintln!("{line}")));
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python");
        let mut command = self.command(&python.await??);
        command.arg(scripts.join(script)).args(arguments);
        self.printed(&mut command, "").await
    }

    /// A program that finds this cluster by its environment, and nothing else.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("KUBECONFIG", &self.lease.kubeconfig)
            .env("HOME", self.lease.kubeconfig.parent().unwrap_or(Path::new("/")))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// What a program prints that must succeed.
    async fn printed(&self, command: &mut Command, input: &str) -> Result<String> {
        let output = output(command, input).await?;
        ensure!(
            output.status.success(),
            "{} failed on {}: {}",
            shown(command),
            self.lease.server.name,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
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
        self.printed(self.command(&self.kubectl).args(arguments), input).await
    }

    /// Ends everything.
    ///
    /// # Errors
    /// When a task or a program has failed meanwhile.
    pub async fn end(mut self) -> Result<()> {
        for program in &mut self.programs {
            program.check()?;
        }
        if let Some(scheduler) = self.scheduler {
            scheduler.end().await?;
        }
        self.shutdown.begin();
        self.shutdown.join(&Clock::system(), PATIENCE).await?;
        drop(self.programs);
        self.lease.give_back().await
    }
}

/// A program whose lines are read as they come. Dropping it ends the program.
pub struct Following {
    what: String,
    lines: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl Following {
    /// The next line.
    ///
    /// # Errors
    /// When none comes within [`PATIENCE`], or the program has ended, with what it said.
    pub async fn next(&mut self) -> Result<String> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.with_context(|| format!("{} prints nothing more", self.what))??;
        match line {
            Some(line) => Ok(line),
            None => Err(self.ended().await),
        }
    }

    async fn ended(&mut self) -> anyhow::Error {
        let mut said = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            // What cannot be read is not told; that the program has ended is.
            let _ = tokio::time::timeout(PATIENCE, stderr.read_to_string(&mut said)).await;
        }
        anyhow!("{} has ended: {said}", self.what)
    }
}

/// Runs a program to its end.
async fn output(command: &mut Command, input: &str) -> Result<Output> {
    let what = shown(command);
    let child = command.stdin(Stdio::piped()).kill_on_drop(true).spawn();
    let mut child = child.with_context(|| format!("cannot run {what}"))?;
    let mut stdin = child.stdin.take().context("standard input was piped")?;
    let run = async {
        let written = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = child.wait_with_output().await?;
        // A program that refuses its arguments does not read; its own words are better.
        if output.status.success() {
            written?;
        }
        Ok(output)
    };
    let run = tokio::time::timeout(PATIENCE * 2, run).await;
    run.with_context(|| format!("{what} is stuck"))?
}

/// The command line, for errors.
fn shown(command: &Command) -> String {
    let command = command.as_std();
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = [program].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
