//! The file by which clients find a server and get in.

use std::io::Write;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::authority::secret;

/// The first line of every file that is written here, by which it is known again.
const MARKER: &str = "# Written by Gantry, which replaces and removes this file.\n";

/// A kubeconfig with one server and one user.
pub struct Kubeconfig<'a> {
    /// The name of cluster, context and user.
    pub name: &'a str,
    /// Where the server is.
    pub url: &'a str,
    /// The certificate to trust, as PEM.
    pub certificate_pem: &'a str,
    /// The secret.
    pub token: &'a str,
}

/// A kubeconfig that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the kubeconfig to {path}: choose a path you may write to")]
pub struct KubeconfigError {
    path: PathBuf,
    source: std::io::Error,
}

impl Kubeconfig<'_> {
    /// The file's text.
    #[must_use]
    pub fn render(&self) -> String {
        let Self { name, url, certificate_pem, token } = self;
        let certificate = BASE64_STANDARD.encode(certificate_pem);
        format!(
            "{MARKER}apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {url}
    certificate-authority-data: {certificate}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: {name}
current-context: {name}
users:
- name: {name}
  user:
    token: {token}
"
        )
    }

    /// Writes the file so that only its owner can read it; a reader never sees half of it.
    ///
    /// # Errors
    /// When the path cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), KubeconfigError> {
        self.try_write(path).map_err(|source| KubeconfigError { path: path.to_owned(), source })
    }

    fn try_write(&self, path: &Path) -> std::io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder)?;
        }
        // A name that nobody can know, in the same folder so that the rename is one step.
        let name = format!(".gantry-{}", secret().map_err(std::io::Error::other)?);
        let beside = folder.unwrap_or(Path::new(".")).join(name);
        let result = self.fill(&beside).and_then(|()| std::fs::rename(&beside, path));
        if result.is_err() {
            // It holds the secret; where it was never made there is nothing to remove.
            let _ = std::fs::remove_file(&beside);
        }
        result
    }

    /// Makes a new file at `path`: none that is there is opened, no link followed.
    fn fill(&self, path: &Path) -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        file.write_all(self.render().as_bytes())?;
        file.sync_all()
    }
}

/// What a kubeconfig says that has one cluster, one context and one user and nothing besides, as
/// [`Kubeconfig::render`] makes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenKubeconfig {
    /// Where the server is.
    pub url: String,
    /// The secret.
    pub token: String,
    /// Whether the file still begins as it was written; a program that edits it drops that line.
    pub has_marker: bool,
}

impl WrittenKubeconfig {
    /// Reads a file's text; nothing where the text is another than [`Kubeconfig::render`] makes
    /// for `name`, or says more.
    #[must_use]
    pub fn parse(name: &str, text: &str) -> Option<Self> {
        let file: File = serde_saphyr::from_str(text).ok()?;
        let [cluster] = <[_; 1]>::try_from(file.clusters).ok()?;
        let [context] = <[_; 1]>::try_from(file.contexts).ok()?;
        let [user] = <[_; 1]>::try_from(file.users).ok()?;
        let names = [&cluster.name, &context.name, &user.name, &file.current_context];
        names.iter().all(|given| *given == name).then(|| Self {
            url: cluster.cluster.server,
            token: user.user.token,
            has_marker: text.starts_with(MARKER),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    clusters: Vec<Cluster>,
    contexts: Vec<Context>,
    users: Vec<User>,
    current_context: String,
}

#[derive(Deserialize)]
struct Cluster {
    name: String,
    cluster: Server,
}

#[derive(Deserialize)]
struct Server {
    server: String,
}

#[derive(Deserialize)]
struct Context {
    name: String,
}

#[derive(Deserialize)]
struct User {
    name: String,
    user: Token,
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    // A token of digits alone, which YAML would rather read as a number.
    const OURS: Kubeconfig<'static> = Kubeconfig {
        name: "gantry",
        url: "https://127.0.0.1:6443",
        certificate_pem: "certificate",
        token: "0123",
    };

    fn check(text: &str, expected: Option<bool>) {
        let read = WrittenKubeconfig::parse("gantry", text);
        let expected = expected.map(|has_marker| WrittenKubeconfig {
            url: OURS.url.to_owned(),
            token: OURS.token.to_owned(),
            has_marker,
        });
        assert_eq!(read, expected, "{text}");
    }

    #[test]
    fn a_file_is_known_again_only_while_it_says_nothing_more() {
        let ours = OURS.render();
        check(&ours, Some(true));
        check(ours.trim_start_matches(MARKER), Some(false));
        check(
            &ours.replace("    user: gantry", "    user: gantry\n    namespace: web"),
            Some(true),
        );
        for (line, more) in [
            ("clusters:\n", "- {name: other, cluster: {server: 'https://other'}}\n"),
            ("contexts:\n", "- {name: other, context: {}}\n"),
            ("users:\n", "- {name: other, user: {token: other}}\n"),
        ] {
            check(&ours.replace(line, &format!("{line}{more}")), None);
        }
        check(&ours.replace("current-context: gantry", "current-context: other"), None);
        check(&Kubeconfig { name: "other", ..OURS }.render(), None);
        check("", None);
        check("current-context: gantry\n", None);
        check(&"[".repeat(100_000), None);
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("config");
        std::fs::create_dir(&taken).unwrap();
        let error = OURS.write(&taken).unwrap_err();
        assert!(error.to_string().contains(taken.to_str().unwrap()), "{error}");
        let left: Vec<_> = folder.path().read_dir().unwrap().map(|it| it.unwrap().path()).collect();
        assert_eq!(left, [taken]);
    }

    #[cfg(unix)]
    #[test]
    fn files_beside_it_are_neither_written_nor_followed_and_the_mode_is_the_owners() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (path, beside) = (folder.path().join("config"), folder.path().join("config.new"));
        let elsewhere = folder.path().join("elsewhere");
        std::fs::write(&elsewhere, "mine").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &beside).unwrap();
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        OURS.write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "mine");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), OURS.render());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(folder.path().read_dir().unwrap().count(), 3);
    }
}
