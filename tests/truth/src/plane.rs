//! etcd and kube-apiservers on it, and the programs that work beside them.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::binaries::{Binaries, Program};
use crate::kubeconfig::{Access, Kubeconfig};
use crate::plain;
use crate::process::{Folder, Process};
use crate::secret;

/// How long a program may take until it serves: thirty times what it needs on a quiet machine.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// How often readiness is asked for.
const READY_POLL: Duration = Duration::from_millis(50);

/// A free port is found by opening and closing it, so another process can take it in between;
/// that many ports are tried.
const PORT_ATTEMPTS_MAX: u32 = 3;

/// How many revisions are too old from the start.
const REVISIONS_COMPACTED: u32 = 10;

/// What is added to the flags that every run has.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flags<'a> {
    /// For etcd.
    pub etcd: &'a [&'a str],
    /// For each kube-apiserver.
    pub server: &'a [&'a str],
}

/// A running etcd.
#[derive(Debug)]
pub struct Etcd {
    address: String,
    // Fields are dropped in order: the program ends before its folder goes.
    process: Process,
    folder: Folder,
}

impl Etcd {
    /// Starts etcd on a free port of the loopback address, with its data in a temporary folder.
    ///
    /// # Errors
    /// Where the program is missing or does not serve in time.
    pub fn start(binaries: &Binaries<'_>) -> Result<Self> {
        Self::start_with(binaries, &[])
    }

    fn start_with(binaries: &Binaries<'_>, flags: &[&str]) -> Result<Self> {
        let program = binaries.path(Program::Etcd)?;
        let mut folder = Folder::new()?;
        let started = on_free_port(|port| {
            let address = format!("http://127.0.0.1:{port}");
            let data = folder.path().join(format!("data-{port}"));
            let mut arguments = vec![
                format!("--data-dir={}", data.display()),
                format!("--listen-client-urls={address}"),
                format!("--advertise-client-urls={address}"),
                "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
                "--unsafe-no-fsync".to_owned(),
                "--logger=zap".to_owned(),
            ];
            arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
            let mut process = Process::start("etcd", &program, &arguments, folder.path())?;
            wait_for_port(&mut process, port)?;
            age(&format!("127.0.0.1:{port}"))?;
            Ok((address, process))
        });
        match started {
            Ok((address, process)) => Ok(Self { address, process, folder }),
            Err(error) => {
                folder.keep();
                Err(error)
            }
        }
    }

    /// The address clients use.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Forgets what was overwritten or deleted up to now, so that what follows does not begin on
    /// a larger store for what came before.
    ///
    /// # Errors
    /// Where etcd does not answer or refuses.
    pub fn compact(&self) -> Result<()> {
        let address = self.address.trim_start_matches("http://");
        let post = |path: &str, body: Value| {
            plain::exchange(address, "POST", path, "application/json", &body.to_string())
        };
        let answer: Value = serde_json::from_slice(&post("/v3/kv/range", json!({"key": "YQ=="}))?)
            .context("etcd does not answer in JSON")?;
        let revision = answer["header"]["revision"].as_str().context("etcd names no revision")?;
        post("/v3/kv/compaction", json!({"revision": revision, "physical": true}))?;
        Ok(())
    }

    /// Where etcd writes its log.
    #[must_use]
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// Keeps the folder with the log after the end.
    pub fn keep_logs(&mut self) {
        self.folder.keep();
    }
}

/// A running kube-apiserver with the default admission plugins and RBAC.
#[derive(Debug)]
pub struct ApiServer {
    kubeconfig: PathBuf,
    config: Kubeconfig,
    // Fields are dropped in order: the program ends before its folder goes.
    process: Process,
    folder: Folder,
}

impl ApiServer {
    /// Starts a kube-apiserver whose objects lie under a fresh prefix of the etcd at
    /// `etcd_address`, and waits until it is ready.
    ///
    /// # Errors
    /// Where a program is missing or the server is not ready in time.
    pub fn start(binaries: &Binaries<'_>, etcd_address: &str) -> Result<Self> {
        let program = binaries.path(Program::ApiServer)?;
        Self::start_programs(&program, &binaries.path(Program::Kubectl)?, etcd_address, &[])
    }

    fn start_programs(
        program: &Path,
        kubectl: &Path,
        etcd_address: &str,
        flags: &[&str],
    ) -> Result<Self> {
        let mut folder = Folder::new()?;
        match Self::serve(program, kubectl, &folder, etcd_address, flags) {
            Ok((kubeconfig, config, process)) => Ok(Self { kubeconfig, config, process, folder }),
            Err(error) => {
                folder.keep();
                Err(error)
            }
        }
    }

    fn serve(
        program: &Path,
        kubectl: &Path,
        folder: &Folder,
        etcd_address: &str,
        flags: &[&str],
    ) -> Result<(PathBuf, Kubeconfig, Process)> {
        let access = Access { admin_token: secret::token()?, outsider_token: secret::token()? };
        let tokens = folder.path().join("tokens.csv");
        write(
            &tokens,
            &format!(
                "{},admin,admin,\"system:masters\"\n{},outsider,outsider\n",
                access.admin_token, access.outsider_token
            ),
        )?;
        let key = folder.path().join("service-accounts.key");
        write(&key, &secret::signing_key()?)?;
        let (port, mut process) = on_free_port(|port| {
            let mut arguments = server_arguments(folder.path(), &tokens, &key, etcd_address, port);
            arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
            let mut process = Process::start("kube-apiserver", program, &arguments, folder.path())?;
            wait_for_port(&mut process, port)?;
            Ok((port, process))
        })?;
        // Self-signed at start: the leaf certificate and, after it, its authority.
        let authority = folder.path().join("certificates/apiserver.crt");
        let config = Kubeconfig {
            server: format!("https://127.0.0.1:{port}"),
            authority_pem: fs::read_to_string(&authority)
                .with_context(|| format!("cannot read {}", authority.display()))?,
            access,
        };
        let kubeconfig = folder.path().join("kubeconfig");
        config.write(&kubeconfig)?;
        wait_until_ready(kubectl, &kubeconfig, &mut process)?;
        Ok((kubeconfig, config, process))
    }

    /// Installs the custom resource definitions in a file, or in the files of a folder, and waits
    /// until all are served.
    ///
    /// # Errors
    /// Where there are none, or the server refuses one.
    pub fn install(&self, binaries: &Binaries<'_>, definitions: &Path) -> Result<()> {
        let kubectl = binaries.path(Program::Kubectl)?;
        let definitions = definitions.display().to_string();
        let apply = ["apply", "--server-side", "--filename", &definitions];
        let established = "--for=condition=Established";
        let wait = ["wait", established, "--timeout=60s", "--filename", &definitions];
        for arguments in [apply.as_slice(), wait.as_slice()] {
            let output = Command::new(&kubectl)
                .args(arguments)
                .arg("--kubeconfig")
                .arg(&self.kubeconfig)
                .stdin(Stdio::null())
                .output()
                .context("cannot run kubectl")?;
            ensure!(
                output.status.success(),
                "kubectl {} failed: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(())
    }

    /// The kubeconfig file of this server.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// What that file says.
    #[must_use]
    pub fn config(&self) -> &Kubeconfig {
        &self.config
    }

    /// Where the server writes its log.
    #[must_use]
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// An error, with the end of the log, where the server has ended by itself.
    ///
    /// # Errors
    /// Where the server is no longer running.
    pub fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// Keeps the folder with the log after the end.
    pub fn keep_logs(&mut self) {
        self.folder.keep();
    }
}

/// One etcd and kube-apiservers that share it, each under its own prefix.
#[derive(Debug)]
pub struct ControlPlane {
    // Servers go before the etcd they talk to.
    servers: Vec<ApiServer>,
    etcd: Etcd,
}

impl ControlPlane {
    /// Starts etcd and `servers` kube-apiservers, the latter at the same time.
    ///
    /// # Errors
    /// Where a program is missing or not ready in time.
    pub fn start(binaries: &Binaries<'_>, servers: usize) -> Result<Self> {
        Self::start_with(binaries, servers, Flags::default())
    }

    /// The same with more flags.
    ///
    /// # Errors
    /// Where a program is missing, does not know a flag, or is not ready in time.
    pub fn start_with(binaries: &Binaries<'_>, servers: usize, flags: Flags<'_>) -> Result<Self> {
        let etcd = Etcd::start_with(binaries, flags.etcd)?;
        // Found here, since whoever is told about a build may live on this thread only.
        let programs = (binaries.path(Program::ApiServer)?, binaries.path(Program::Kubectl)?);
        let address = etcd.address();
        let servers = thread::scope(|scope| {
            let starts: Vec<_> = (0..servers)
                .map(|_| {
                    let (program, kubectl) = &programs;
                    scope.spawn(move || {
                        ApiServer::start_programs(program, kubectl, address, flags.server)
                    })
                })
                .collect();
            starts
                .into_iter()
                .map(|start| match start.join() {
                    Ok(server) => server,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect::<Result<Vec<_>>>()
        })?;
        Ok(Self { servers, etcd })
    }

    /// The servers.
    #[must_use]
    pub fn servers(&self) -> &[ApiServer] {
        &self.servers
    }

    /// The store behind the servers.
    #[must_use]
    pub fn etcd(&self) -> &Etcd {
        &self.etcd
    }

    /// An error, with the end of the log, where a server has ended by itself.
    ///
    /// # Errors
    /// Where a program is no longer running.
    pub fn check(&mut self) -> Result<()> {
        self.etcd.process.check()?;
        self.servers.iter_mut().try_for_each(ApiServer::check)
    }

    /// Keeps all logs after the end and says where they are.
    pub fn keep_logs(&mut self) -> Vec<PathBuf> {
        self.etcd.keep_logs();
        self.servers.iter_mut().for_each(ApiServer::keep_logs);
        let servers = self.servers.iter().map(|server| server.log().to_owned());
        servers.chain([self.etcd.log().to_owned()]).collect()
    }
}

/// A program that works beside an API server, with a folder for its log and configuration.
#[derive(Debug)]
pub struct Companion {
    // Fields are dropped in order: the program ends before its folder goes.
    process: Process,
    folder: Folder,
}

impl Companion {
    /// Starts kube-controller-manager on the server of `kubeconfig` with the named controllers
    /// only, such as `deployment-controller` and `replicaset-controller`.
    ///
    /// It speaks JSON, because that is what every server here understands.
    ///
    /// # Errors
    /// Where the program is missing.
    pub fn kube_controller_manager(
        binaries: &Binaries<'_>,
        kubeconfig: &Path,
        controllers: &[&str],
    ) -> Result<Self> {
        ensure!(!controllers.is_empty(), "name at least one controller to run");
        let program = binaries.path(Program::ControllerManager)?;
        let folder = Folder::new()?;
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--controllers={}", controllers.join(",")),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--kube-api-content-type=application/json".to_owned(),
            "--kube-api-qps=1000".to_owned(),
            "--kube-api-burst=1000".to_owned(),
            "--logging-format=json".to_owned(),
        ];
        let name = Program::ControllerManager.name();
        let process = Process::start(name, &program, &arguments, folder.path())?;
        Ok(Self { process, folder })
    }

    /// Starts kube-scheduler on the server of `kubeconfig`. The members of the object `extra`
    /// are added to its configuration, such as `profiles`; `null` adds none.
    ///
    /// # Errors
    /// Where the program is missing or `extra` is neither an object nor null.
    pub fn kube_scheduler(
        binaries: &Binaries<'_>,
        kubeconfig: &Path,
        extra: &Value,
    ) -> Result<Self> {
        Self::kube_scheduler_with(binaries, kubeconfig, extra, &[])
    }

    /// The same with more flags.
    ///
    /// # Errors
    /// Where the program is missing or `extra` is neither an object nor null.
    pub fn kube_scheduler_with(
        binaries: &Binaries<'_>,
        kubeconfig: &Path,
        extra: &Value,
        flags: &[&str],
    ) -> Result<Self> {
        let program = binaries.path(Program::Scheduler)?;
        let folder = Folder::new()?;
        let config = folder.path().join("scheduler.json");
        write(&config, &scheduler_configuration(kubeconfig, extra)?.to_string())?;
        let mut arguments = vec![
            format!("--config={}", config.display()),
            "--secure-port=0".to_owned(),
            "--logging-format=json".to_owned(),
        ];
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let name = Program::Scheduler.name();
        let process = Process::start(name, &program, &arguments, folder.path())?;
        Ok(Self { process, folder })
    }

    /// Where the program writes its log.
    #[must_use]
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// An error, with the end of the log, where the program has ended by itself.
    ///
    /// # Errors
    /// Where the program is no longer running.
    pub fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// Keeps the folder with the log after the end.
    pub fn keep_logs(&mut self) {
        self.folder.keep();
    }
}

/// Moves etcd some revisions on and compacts them. A server on it is then like one that has been
/// running for a while: revision 1 is too old for a list and for a watch.
fn age(address: &str) -> Result<()> {
    let post = |path: &str, body: Value| {
        plain::exchange(address, "POST", path, "application/json", &body.to_string())
    };
    for _ in 0..REVISIONS_COMPACTED {
        // The key and the value are the letter a in base64.
        post("/v3/kv/put", json!({"key": "YQ==", "value": "YQ=="}))?;
    }
    post("/v3/kv/compaction", json!({"revision": REVISIONS_COMPACTED.to_string()}))?;
    Ok(())
}

fn scheduler_configuration(kubeconfig: &Path, extra: &Value) -> Result<Value> {
    let mut config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": false},
        "clientConnection": {
            "kubeconfig": kubeconfig,
            "contentType": "application/json",
            "qps": 5000,
            "burst": 5000,
        },
    });
    match extra {
        Value::Null => {}
        Value::Object(members) => {
            for (name, value) in members {
                config[name] = value.clone();
            }
        }
        other => bail!("what is added to the scheduler's configuration is not an object: {other}"),
    }
    Ok(config)
}

fn server_arguments(
    folder: &Path,
    tokens: &Path,
    key: &Path,
    etcd_address: &str,
    port: u16,
) -> Vec<String> {
    // No other server on the same etcd has a folder of that name.
    let prefix = folder.file_name().unwrap_or_default().to_string_lossy();
    vec![
        format!("--etcd-servers={etcd_address}"),
        format!("--etcd-prefix=/{prefix}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--cert-dir={}", folder.join("certificates").display()),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--service-account-issuer=https://localhost".to_owned(),
        format!("--service-account-key-file={}", key.display()),
        format!("--service-account-signing-key-file={}", key.display()),
        format!("--token-auth-file={}", tokens.display()),
        "--authorization-mode=RBAC".to_owned(),
        "--anonymous-auth=false".to_owned(),
        // As in any cluster that runs a network or storage agent.
        "--allow-privileged=true".to_owned(),
        "--logging-format=json".to_owned(),
    ]
}

/// Tries `start` on free ports of the loopback address until one attempt succeeds.
fn on_free_port<T>(mut start: impl FnMut(u16) -> Result<T>) -> Result<T> {
    let mut attempt = 1;
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").context("no free port on 127.0.0.1")?;
        let port = listener.local_addr().context("a bound socket has an address")?.port();
        drop(listener);
        match start(port) {
            Err(error)
                if attempt < PORT_ATTEMPTS_MAX
                    && format!("{error:#}").contains("address already in use") =>
            {
                attempt += 1;
            }
            result => return result,
        }
    }
}

fn wait_for_port(process: &mut Process, port: u16) -> Result<()> {
    wait(process, "listens", || TcpStream::connect(("127.0.0.1", port)).is_ok())
}

/// A server is ready when it says so and has made the objects every cluster starts with, of
/// which the `kubernetes` service and the last system namespace come last.
fn wait_until_ready(kubectl: &Path, kubeconfig: &Path, process: &mut Process) -> Result<()> {
    let paths = [
        "/readyz",
        "/api/v1/namespaces/default/services/kubernetes",
        "/api/v1/namespaces/kube-node-lease",
        "/api/v1/namespaces/kube-public",
        "/api/v1/namespaces/kube-system",
    ];
    for path in paths {
        wait(process, "is ready", || {
            let status = Command::new(kubectl)
                .args(["get", "--raw", path, "--kubeconfig"])
                .arg(kubeconfig)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            status.is_ok_and(|status| status.success())
        })?;
    }
    Ok(())
}

fn wait(process: &mut Process, what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + READY_WITHIN;
    while !holds() {
        process.check()?;
        ensure!(
            Instant::now() < deadline,
            "waited {} s until the program {what}; {}",
            READY_WITHIN.as_secs(),
            process.log_tail()
        );
        thread::sleep(READY_POLL);
    }
    Ok(())
}

/// Writes a file for the owner alone: tokens and keys are among them.
fn write(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let open = || {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).open(path)
    };
    open()
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_to_the_scheduler_configuration_replaces_members() {
        let check = |extra: Value, expected: Option<Value>| {
            let config = scheduler_configuration(Path::new("/k"), &extra).ok();
            assert_eq!(config.map(|config| config["leaderElection"].clone()), expected);
        };
        check(Value::Null, Some(json!({"leaderElect": false})));
        check(json!({"profiles": []}), Some(json!({"leaderElect": false})));
        check(json!({"leaderElection": 1}), Some(json!(1)));
        check(json!([]), None);
    }

    #[test]
    fn a_port_that_was_taken_is_followed_by_another_but_not_for_ever() {
        let check = |failures: u32, message: &'static str, attempts: u32| {
            let mut made = 0;
            let result = on_free_port(|port| {
                made += 1;
                if made <= failures { bail!(message) } else { Ok(port) }
            });
            assert_eq!((result.is_ok(), made), (attempts > failures, attempts));
        };
        check(0, "", 1);
        check(1, "bind: address already in use", 2);
        check(9, "bind: address already in use", PORT_ATTEMPTS_MAX);
        check(1, "no such file", 1);
    }

    #[test]
    fn the_real_control_plane_answers_its_kubeconfig_and_ends_on_drop() {
        let binaries = Binaries::locate(&|line| eprintln!("{line}"));
        let flags = Flags { server: &["--profiling=false"], ..Flags::default() };
        let mut plane = ControlPlane::start_with(&binaries, 1, flags).unwrap();
        plane.check().unwrap();
        // What is forgotten is history: the server goes on.
        plane.etcd().compact().unwrap();
        let server = &plane.servers()[0];
        let answer = |context: &str| {
            let output = Command::new(binaries.path(Program::Kubectl).unwrap())
                .args(["auth", "can-i", "create", "nodes", "--context", context, "--kubeconfig"])
                .arg(server.kubeconfig())
                .output()
                .unwrap();
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        assert_eq!((answer("admin").as_str(), answer("outsider").as_str()), ("yes", "no"));
        let nowhere = server.install(&binaries, Path::new("/nowhere/crds")).unwrap_err();
        assert!(nowhere.to_string().contains("/nowhere/crds"), "{nowhere}");
        let folder = server.kubeconfig().parent().unwrap().to_owned();
        let port = server.config().server.rsplit_once(':').unwrap().1.parse::<u16>().unwrap();
        drop(plane);
        assert!(!folder.exists());
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    }

    #[test]
    fn the_real_controllers_and_scheduler_bring_a_pod_to_a_node() {
        let binaries = Binaries::locate(&|line| eprintln!("{line}"));
        let plane = ControlPlane::start(&binaries, 1).unwrap();
        let kubeconfig = plane.servers()[0].kubeconfig();
        let names = ["deployment-controller", "replicaset-controller", "serviceaccount-controller"];
        let mut controllers =
            Companion::kube_controller_manager(&binaries, kubeconfig, &names).unwrap();
        let mut scheduler = Companion::kube_scheduler(&binaries, kubeconfig, &Value::Null).unwrap();
        let program = binaries.path(Program::Kubectl).unwrap();
        let kubectl = |arguments: &[&str]| {
            let output = Command::new(&program)
                .args(arguments)
                .arg("--kubeconfig")
                .arg(kubeconfig)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        let node = plane.servers()[0].kubeconfig().with_file_name("node.json");
        write(&node, r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}"#)
            .unwrap();
        kubectl(&["create", "-f", &node.display().to_string()]);
        let capacity = json!({"status": {"capacity": {"cpu": "1", "memory": "1Gi", "pods": "9"}}});
        kubectl(&["patch", "node", "n1", "--subresource=status", "-p", &capacity.to_string()]);
        kubectl(&["taint", "node", "n1", "node.kubernetes.io/not-ready-"]);
        kubectl(&["create", "deployment", "web", "--image=none"]);
        let scheduled = "--for=condition=PodScheduled";
        kubectl(&["wait", "--for=create", "pods", "-l", "app=web", "--timeout=30s"]);
        kubectl(&["wait", scheduled, "pods", "-l", "app=web", "--timeout=30s"]);
        controllers.check().unwrap();
        scheduler.check().unwrap();
    }
}
