//! The kubeconfig of `gantry up`: where it is, whose it is, and that nobody else's is lost.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use drydock::serve::{Entry, Kubeconfig, WrittenKubeconfig};

use crate::output;

/// The name of cluster, context and user.
const NAME: &str = "gantry";
/// More than any file that was written here has.
const BYTES_MAX: u64 = 1024 * 1024;
/// How long a server may take to let us know that it is there.
const PATIENCE: Duration = Duration::from_millis(500);
/// How many files that were put aside there may be.
const ASIDE_MAX: u32 = 100;
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

    /// Makes sure that nothing is at the path that may not be replaced: another program's
    /// kubeconfig may be the only way into a cluster, and another `gantry up` is still in need of
    /// its own. A file of our own that somebody changed is put aside.
    ///
    /// # Errors
    /// When the path is not free.
    pub(super) fn make_free(&self) -> Result<()> {
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
        let text = self.read().with_context(unreadable)?;
        let (entry, is_changed) = match WrittenKubeconfig::parse(NAME, &text) {
            Some(WrittenKubeconfig::Unchanged(entry)) => (entry, false),
            Some(WrittenKubeconfig::Changed(entry)) => (entry, true),
            Some(WrittenKubeconfig::Extended) => bail!(
                "{path} was written by gantry up, and has got other clusters, contexts or users \
                 since: choose another path with --kubeconfig, or move it away"
            ),
            None => bail!(
                "{path} is there already and was not written by gantry up: \
                 choose another path with --kubeconfig"
            ),
        };
        if let Some(server) = address_of(&entry.url)
            && TcpStream::connect_timeout(&server, PATIENCE).is_ok()
        {
            bail!(
                "{path} leads to a server that runs, on {server}: end that gantry up, \
                 or choose another path with --kubeconfig"
            );
        }
        if is_changed { self.put_aside() } else { Ok(()) }
    }

    /// Gives a file that is in the way another name.
    fn put_aside(&self) -> Result<()> {
        let path = self.0.display();
        for number in 1..=ASIDE_MAX {
            let mut aside = self.0.clone().into_os_string();
            aside.push(if number == 1 { ".old".to_owned() } else { format!(".old-{number}") });
            // A link is made only where nothing is; nobody's file is replaced.
            match std::fs::hard_link(&self.0, &aside) {
                Ok(()) => {
                    std::fs::remove_file(&self.0)
                        .with_context(|| format!("cannot remove {path}: move it away"))?;
                    let aside = Path::new(&aside).display();
                    output::note(&format!(
                        "{path} was changed since a former gantry up wrote it: it is now {aside}"
                    ));
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot put {path} aside: move it away"));
                }
            }
        }
        bail!("{path} was changed since a former gantry up wrote it: move it away")
    }

    /// Writes the file. A folder that is not there is made, as kubectl makes it, and that is
    /// told: it may be a slip of the pen.
    ///
    /// # Errors
    /// When the path cannot be written.
    pub(super) fn write(&self, url: &str, certificate_pem: &str, token: &str) -> Result<()> {
        let missing = self.0.parent().filter(|folder| !folder.exists());
        Kubeconfig { name: NAME, url, certificate_pem, token }.write(&self.0)?;
        if let Some(folder) = missing {
            output::note(&format!("made the folder {} for the kubeconfig", folder.display()));
        }
        Ok(())
    }

    /// Removes the file if it is what was written for the server of this token. By now it may be
    /// gone, or another's; one that somebody changed stays, and that is told.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub(super) fn remove(&self, token: &str) -> Result<()> {
        let is_file = self.0.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        // What cannot be read is not what was written.
        let text = if is_file { self.read().unwrap_or_default() } else { String::new() };
        let is_own = |entry: &Entry| entry.token == token;
        match WrittenKubeconfig::parse(NAME, &text) {
            Some(WrittenKubeconfig::Unchanged(entry)) if is_own(&entry) => {}
            _ if text.contains(token) => {
                output::note(&format!(
                    "{} was changed since it was written, so it stays; the server that its entry \
                     {NAME:?} leads to is gone",
                    self.0.display()
                ));
                return Ok(());
            }
            _ => return Ok(()),
        }
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            result => result.with_context(|| format!("cannot remove {}", self.0.display())),
        }
    }

    /// What the file says, as far as it is text.
    fn read(&self) -> std::io::Result<String> {
        let mut bytes = Vec::new();
        File::open(&self.0)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8(bytes).unwrap_or_default())
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
