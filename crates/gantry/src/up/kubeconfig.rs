//! The kubeconfig of `gantry up`: where it is, whose it is, and that nobody else's is lost.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use drydock::serve::{Kubeconfig, WrittenKubeconfig};

/// The name of cluster, context and user.
const NAME: &str = "gantry";
/// More than any file that was written here has.
const BYTES_MAX: u64 = 1024 * 1024;
/// How long a server may take to let us know that it is there.
const PATIENCE: Duration = Duration::from_millis(500);
/// What a path may hold that no shell reads as anything but itself.
const PLAIN: &str = "/._-+,:@%=";

/// Where the kubeconfig goes, as an absolute path.
pub(super) struct Place(PathBuf);

impl Place {
    /// The path that was given, or the usual one.
    ///
    /// # Errors
    /// When neither is to be had.
    pub(super) fn find(given: Option<&Path>) -> Result<Self> {
        let path = match given {
            Some(path) => path.to_owned(),
            None => {
                let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
                let home =
                    home.context("HOME is not set: say where to write with --kubeconfig PATH")?;
                PathBuf::from(home).join(".kube").join("gantry.yaml")
            }
        };
        let absolute = std::path::absolute(&path);
        absolute.map(Self).with_context(|| format!("{path:?} is not a path"))
    }

    /// Refuses a path where something is that may not be replaced: another program's kubeconfig
    /// may be the only way into a cluster, and another `gantry up` is still in need of its own.
    ///
    /// # Errors
    /// When the path is not free.
    pub(super) fn check_free(&self) -> Result<()> {
        let path = self.0.display();
        let unreadable = || format!("cannot read {path}: choose another path with --kubeconfig");
        let kind = match self.0.symlink_metadata() {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).with_context(unreadable),
        };
        if kind.is_symlink() {
            bail!("{path} is a symbolic link: name the file itself with --kubeconfig");
        }
        if !kind.is_file() {
            bail!("{path} is not a file: choose another path with --kubeconfig");
        }
        let written = self.read().with_context(unreadable)?.filter(|written| written.has_marker);
        let server = written.and_then(|written| address_of(&written.url));
        let Some(server) = server else {
            bail!(
                "{path} is there already and was not written by gantry up: \
                 choose another path with --kubeconfig"
            );
        };
        if TcpStream::connect_timeout(&server, PATIENCE).is_ok() {
            bail!(
                "{path} leads to a server that runs, on {server}: end that gantry up, \
                 or choose another path with --kubeconfig"
            );
        }
        Ok(())
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When the path cannot be written.
    pub(super) fn write(&self, url: &str, certificate_pem: &str, token: &str) -> Result<()> {
        Ok(Kubeconfig { name: NAME, url, certificate_pem, token }.write(&self.0)?)
    }

    /// Removes the file while it leads to the server of this token and nowhere else. By now it
    /// may be gone, or another's.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub(super) fn remove(&self, token: &str) -> Result<()> {
        let is_file = self.0.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        // What cannot be read is not what was written.
        let written = if is_file { self.read().ok().flatten() } else { None };
        if written.is_none_or(|written| written.token != token) {
            return Ok(());
        }
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            result => result.with_context(|| format!("cannot remove {}", self.0.display())),
        }
    }

    /// What the file says, where it could be one that was written here.
    fn read(&self) -> std::io::Result<Option<WrittenKubeconfig>> {
        let mut bytes = Vec::new();
        File::open(&self.0)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
        let text = str::from_utf8(&bytes).ok();
        Ok(text.and_then(|text| WrittenKubeconfig::parse(NAME, text)))
    }

    /// The path as one word that a shell reads as it is.
    pub(super) fn as_shell_word(&self) -> String {
        let bytes = self.0.as_os_str().as_bytes();
        match str::from_utf8(bytes) {
            Ok(text) if text.chars().all(|c| c.is_ascii_alphanumeric() || PLAIN.contains(c)) => {
                text.to_owned()
            }
            Ok(text) if !text.contains(char::is_control) => {
                format!("'{}'", text.replace('\'', r"'\''"))
            }
            _ => format!("$'{}'", bytes.iter().map(|&byte| escaped(byte)).collect::<String>()),
        }
    }
}

/// A byte between `$'` and `'`.
fn escaped(byte: u8) -> String {
    match byte {
        b'\'' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\{byte:03o}"),
    }
}

/// Where a server listens that `gantry up` wrote the URL of.
fn address_of(url: &str) -> Option<SocketAddr> {
    url.strip_prefix("https://")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::process::Command;

    use super::*;

    /// Checks the word, and that bash reads it as the path.
    fn check(path: &[u8], expected: &str) {
        let place = Place(PathBuf::from(OsStr::from_bytes(path)));
        let word = place.as_shell_word();
        assert_eq!(word, expected);
        let script = format!("export WORD={word}; printf %s \"$WORD\"");
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        assert_eq!(output.stdout, path, "{word}");
    }

    #[test]
    fn a_path_is_a_word_that_a_shell_reads_as_it_is() {
        check(b"/home/me/.kube/gantry.yaml", "/home/me/.kube/gantry.yaml");
        check(b"/my files/$HOME", "'/my files/$HOME'");
        check(b"/it's `here`", r"'/it'\''s `here`'");
        check("/größe".as_bytes(), "'/größe'");
        check(b"/a\xff'\\\n b", r"$'/a\377\'\\\012 b'");
    }
}
