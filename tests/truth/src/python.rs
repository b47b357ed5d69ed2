//! The Python client of Kubernetes, a second opinion on what a client can do, in a virtual
//! environment outside the tree.
//!
//! `tests/python/requirements.txt` pins it with all it needs, each by its hash. The environment
//! is kept in a folder named by those pins and by the Python it stands on, so that a second run
//! costs nothing and a new version never meets an old package.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::binaries::{cache_folder, digest, environment};

/// What is installed.
const REQUIREMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../python/requirements.txt");

/// Prints the version where it is new enough for the pinned packages, and fails elsewhere.
const PROBE: &str = "import sys; print(sys.version); sys.exit(sys.version_info < (3, 10))";

/// The last thing written into an environment: without it, the rest is not to be trusted.
const MARK: &str = "complete";

/// How the Python on this machine is called.
const CANDIDATES: [&str; 2] = ["python3", "python"];

/// The path of a Python that has the client of Kubernetes. Installs it where it is missing.
///
/// # Errors
/// Where there is no Python or the client cannot be installed; the text says what to do.
pub fn python(report: &dyn Fn(&str)) -> Result<PathBuf> {
    let (program, version) = find(&CANDIDATES)?;
    let requirements =
        fs::read(REQUIREMENTS).with_context(|| format!("cannot read {REQUIREMENTS}"))?;
    let cache = cache_folder(&environment).map_err(anyhow::Error::msg)?;
    let name = digest(&[requirements.as_slice(), version.as_bytes()].concat());
    let folder = cache.join("python").join(name);
    let python = folder.join("bin/python");
    // A link to a Python that is gone is no file.
    let is_complete = || folder.join(MARK).is_file() && python.is_file();
    if is_complete() {
        return Ok(python);
    }
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create the cache folder {}", folder.display()))?;
    let lock_path = folder.with_extension("lock");
    let lock = File::create(&lock_path)
        .with_context(|| format!("cannot write {}", lock_path.display()))?;
    lock.lock().with_context(|| format!("cannot lock {}", lock_path.display()))?;
    if !is_complete() {
        report(&format!("installing the Python client, once into {}", folder.display()));
        install(&program, &folder, &python)?;
    }
    Ok(python)
}

fn install(program: &Path, folder: &Path, python: &Path) -> Result<()> {
    let mut environment = Command::new(program);
    environment.args(["-m", "venv", "--clear"]).arg(folder);
    run(&mut environment).with_context(|| {
        format!(
            "{} cannot make a virtual environment: install its venv module (on Debian, the \
             package python3-venv)",
            program.display()
        )
    })?;
    let mut packages = Command::new(python);
    packages.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    packages.args(["--no-input", "--require-hashes", "--requirement", REQUIREMENTS]);
    run(&mut packages).context(
        "the Python client cannot be installed: pip needs its package index, or PIP_FIND_LINKS \
         with a folder of the packages in tests/python/requirements.txt",
    )?;
    let mark = folder.join(MARK);
    fs::write(&mark, "").with_context(|| format!("cannot write {}", mark.display()))
}

/// The first of the candidates that is new enough, and its version.
fn find(candidates: &[&str]) -> Result<(PathBuf, String)> {
    for candidate in candidates {
        let output = Command::new(candidate).args(["-c", PROBE]).stderr(Stdio::null()).output();
        if let Some(output) = output.ok().filter(|output| output.status.success()) {
            let version = String::from_utf8_lossy(&output.stdout).into_owned();
            return Ok((PathBuf::from(candidate), version));
        }
    }
    bail!(
        "the tests run the Python client of Kubernetes and `python3` is missing: install Python \
         3.10 or newer with its venv module (on Debian, `apt-get install python3-venv`) and put \
         it on PATH"
    )
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {command:?}"))?;
    // venv tells what is wrong on standard output, pip on standard error.
    ensure!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_python_is_an_error_that_names_the_way_out() {
        let error = find(&["/nowhere/python3"]).unwrap_err().to_string();
        for way in ["install Python", "3.10", "venv", "PATH"] {
            assert!(error.contains(way), "{error}");
        }
    }

    #[test]
    fn a_python_that_is_too_old_is_passed_over() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str, status: u8| {
            let path = folder.path().join(name);
            fs::write(&path, format!("#!/bin/sh\necho {name}\nexit {status}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path.display().to_string()
        };
        let (old, new) = (script("old", 1), script("new", 0));
        let check = |candidates: &[&str], expected: Option<&str>| {
            let found = find(candidates).ok().map(|(_, version)| version);
            assert_eq!(found.as_deref(), expected, "{candidates:?}");
        };
        check(&[&old, &new], Some("new\n"));
        check(&[&old], None);
        check(&[], None);
    }

    #[test]
    fn an_environment_that_cannot_be_made_is_an_error_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let program = Path::new("/bin/false");
        let error = install(program, folder.path(), &folder.path().join("bin/python"));
        let error = format!("{:#}", error.unwrap_err());
        assert!(error.contains("/bin/false") && error.contains("python3-venv"), "{error}");
        assert!(!folder.path().join(MARK).exists());
    }

    #[test]
    fn every_requirement_is_pinned_by_version_and_hash() {
        let text = fs::read_to_string(REQUIREMENTS).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let is_pin = |line: &str| line.contains("==") && line.ends_with('\\');
        let is_hash = |line: &str| line.trim_start().starts_with("--hash=sha256:");
        assert!(lines.iter().any(|line| line.starts_with("kubernetes==")));
        for line in lines {
            assert!(is_pin(line) || is_hash(line), "{line:?} is neither a pin nor a hash");
        }
    }
}
