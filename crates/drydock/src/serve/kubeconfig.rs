//! The file by which clients find a server and get in.

use std::io::Write;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::authority::secret;

/// The first line of every file that is written here, for its readers.
const MARKER: &str = "# Written by Gantry, which replaces and removes this file.\n";
/// By which a file that was written here is known again: programs that edit kubeconfigs keep
/// extensions, and drop comments.
const EXTENSION: &str = "gantry.dev/up";

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
    extensions:
    - name: {EXTENSION}
      extension: {{}}
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

/// What a kubeconfig that was written here says by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrittenKubeconfig {
    /// What was written, and nothing else.
    Unchanged(Entry),
    /// The one cluster, context and user that were written, with something about them changed:
    /// a namespace, say.
    Changed(Entry),
    /// More than was written: there are other clusters, contexts or users in it.
    Extended,
}

/// Where a kubeconfig leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where the server is.
    pub url: String,
    /// The secret.
    pub token: String,
}

impl WrittenKubeconfig {
    /// Reads a file's text; nothing where it is none that [`Kubeconfig::render`] made for `name`.
    #[must_use]
    pub fn parse(name: &str, text: &str) -> Option<Self> {
        let file: File = serde_saphyr::from_str(text).ok()?;
        let marked = |cluster: &Cluster| {
            cluster.cluster.extensions.iter().any(|extension| extension.name == EXTENSION)
        };
        if !text.starts_with(MARKER) && !file.clusters.iter().any(marked) {
            return None;
        }
        let (Ok([cluster]), Ok([context]), Ok([user])) = (
            <[_; 1]>::try_from(file.clusters),
            <[_; 1]>::try_from(file.contexts),
            <[_; 1]>::try_from(file.users),
        ) else {
            return Some(Self::Extended);
        };
        let names = [&cluster.name, &context.name, &user.name, &file.current_context];
        if names.iter().any(|given| *given != name) {
            return Some(Self::Extended);
        }
        let Server { server: url, certificate_authority_data, .. } = cluster.cluster;
        let token = user.user.token;
        let certificate = BASE64_STANDARD.decode(certificate_authority_data).ok();
        let certificate_pem = certificate.and_then(|bytes| String::from_utf8(bytes).ok());
        let certificate_pem = certificate_pem.unwrap_or_default();
        let kubeconfig =
            Kubeconfig { name, url: &url, certificate_pem: &certificate_pem, token: &token };
        let is_unchanged = kubeconfig.render() == text;
        let entry = Entry { url, token };
        Some(if is_unchanged { Self::Unchanged(entry) } else { Self::Changed(entry) })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[derive(Default)]
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

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct Server {
    server: String,
    certificate_authority_data: String,
    extensions: Vec<Extension>,
}

#[derive(Deserialize)]
struct Extension {
    name: String,
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

#[derive(Deserialize, Default)]
#[serde(default)]
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

    fn check(text: &str, expected: Option<WrittenKubeconfig>) {
        assert_eq!(WrittenKubeconfig::parse("gantry", text), expected, "{text}");
    }

    #[test]
    fn a_file_is_known_again_and_what_was_done_to_it() {
        let ours = OURS.render();
        let entry = Entry { url: OURS.url.to_owned(), token: OURS.token.to_owned() };
        let changed = Some(WrittenKubeconfig::Changed(entry.clone()));
        check(&ours, Some(WrittenKubeconfig::Unchanged(entry)));
        check(ours.trim_start_matches(MARKER), changed.clone());
        check(&ours.replace("    user: gantry", "    user: gantry\n    namespace: web"), changed);
        for (line, more) in [
            ("clusters:\n", "- {name: other, cluster: {server: 'https://other'}}\n"),
            ("contexts:\n", "- {name: other, context: {}}\n"),
            ("users:\n", "- {name: other, user: {token: other}}\n"),
        ] {
            let more = ours.replace(line, &format!("{line}{more}"));
            check(&more, Some(WrittenKubeconfig::Extended));
            check(more.trim_start_matches(MARKER), Some(WrittenKubeconfig::Extended));
        }
        let other = ours.replace("current-context: gantry", "current-context: other");
        check(&other, Some(WrittenKubeconfig::Extended));
        let foreign = ours.replace(EXTENSION, "example.com/other");
        check(foreign.trim_start_matches(MARKER), None);
        check("", None);
        check("current-context: gantry\n", None);
        check(&"[".repeat(100_000), None);
    }

    /// As `kubectl config set-context --current --namespace=web` leaves it.
    #[test]
    fn a_file_that_kubectl_has_rewritten_is_known_again() {
        let rewritten = "apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Y2VydGlmaWNhdGU=
    extensions:
    - extension: {}
      name: gantry.dev/up
    server: https://127.0.0.1:6443
  name: gantry
contexts:
- context:
    cluster: gantry
    namespace: web
    user: gantry
  name: gantry
current-context: gantry
kind: Config
users:
- name: gantry
  user:
    token: \"0123\"
";
        let entry = Entry { url: OURS.url.to_owned(), token: OURS.token.to_owned() };
        check(rewritten, Some(WrittenKubeconfig::Changed(entry)));
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
