//! The source tree the chores work on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A file of the source tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// The path below the root, with slashes.
    pub path: String,
    /// The content; bytes that are not text are replaced.
    pub text: String,
}

/// The root of the source tree.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// All files of the source tree, sorted, but for what cargo and git keep there.
pub fn files() -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    let root = root();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder)
            .with_context(|| format!("cannot read the folder {}", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
            let path = entry.path();
            let below = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
            if matches!(below.as_str(), "target" | ".git") {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else {
                let bytes =
                    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                files.push(SourceFile { path: below, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// The file at `path` below the root.
pub fn read(path: &str) -> Result<String> {
    let path = root().join(path);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes `text` to the file at `path` below the root, with its folders.
pub fn write(path: &str, text: &str) -> Result<()> {
    let path = root().join(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    }
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// `cargo` as this process was started by it, in the root of the source tree.
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// What `cargo metadata` says about the workspace and all it depends on.
pub fn metadata() -> Result<Value> {
    let output = cargo()
        .args(["metadata", "--format-version=1", "--locked"])
        .output()
        .context("cannot run `cargo metadata`")?;
    ensure!(
        output.status.success(),
        "`cargo metadata` failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("`cargo metadata` does not answer JSON")
}
