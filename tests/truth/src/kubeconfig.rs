//! Kubeconfig files: how a server is reached and by whom.
//!
//! They are written as JSON, which every reader of kubeconfigs takes for YAML, so that both
//! ends here need no YAML parser. Only files written here are read here.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Who asks: the two users every server of this crate knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The token of a member of `system:masters`, who may do everything.
    pub admin_token: String,
    /// The token of the user `outsider`, whom no rule allows anything.
    pub outsider_token: String,
}

/// What a kubeconfig of this crate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubeconfig {
    /// The address of the server, such as `https://127.0.0.1:6443`.
    pub server: String,
    /// The certificate authority of the server, as PEM.
    pub authority_pem: String,
    /// The users.
    pub access: Access,
}

impl Kubeconfig {
    /// Writes the file, readable by its owner alone. The current context is the administrator;
    /// the context `outsider` is the other user.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let user = |name: &str, token: &str| json!({"name": name, "user": {"token": token}});
        let context =
            |user: &str| json!({"name": user, "context": {"cluster": "truth", "user": user}});
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "truth",
                "cluster": {
                    "server": self.server,
                    "certificate-authority-data": STANDARD.encode(&self.authority_pem),
                },
            }],
            "users": [
                user("admin", &self.access.admin_token),
                user("outsider", &self.access.outsider_token),
            ],
            "contexts": [context("admin"), context("outsider")],
            "current-context": "admin",
        });
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        writeln!(file, "{config:#}").with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads a file that [`Kubeconfig::write`] wrote.
    ///
    /// # Errors
    /// Where the file cannot be read or was written by something else.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path)
            .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
        Self::parse(&text).with_context(|| {
            format!("{} is not a kubeconfig of `cargo xtask control-plane`", path.display())
        })
    }

    fn parse(text: &[u8]) -> Result<Self> {
        let config: Value = serde_json::from_slice(text)?;
        let text_at = |pointer: &str| {
            let value = config.pointer(pointer).and_then(Value::as_str);
            value.map(str::to_owned).with_context(|| format!("no text at {pointer}"))
        };
        let authority = text_at("/clusters/0/cluster/certificate-authority-data")?;
        Ok(Self {
            server: text_at("/clusters/0/cluster/server")?,
            authority_pem: String::from_utf8(STANDARD.decode(authority)?)?,
            access: Access {
                admin_token: text_at("/users/0/user/token")?,
                outsider_token: text_at("/users/1/user/token")?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_kubeconfig_reads_back_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let written = Kubeconfig {
            server: "https://127.0.0.1:1".to_owned(),
            authority_pem: "-----BEGIN CERTIFICATE-----\n".to_owned(),
            access: Access { admin_token: "a".to_owned(), outsider_token: "b".to_owned() },
        };
        written.write(&path).unwrap();
        assert_eq!(Kubeconfig::read(&path).unwrap(), written);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_foreign_file_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, "apiVersion: v1\nkind: Config\n").unwrap();
        let error = format!("{:#}", Kubeconfig::read(&path).unwrap_err());
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
}
