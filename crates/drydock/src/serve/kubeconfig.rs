//! The file by which clients find a server and get in.

use std::io::Write;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

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
            "apiVersion: v1
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
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)?;
        }
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&beside)?;
        file.write_all(self.render().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    }
}
