//! What a server was asked to list, from its audit log.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

/// How many answers a list took, by its path and query without the place to go on from.
pub type Lists = BTreeMap<String, u64>;

/// The audit log of a server that is started with its flags.
pub struct Audit {
    folder: TempDir,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(rename = "requestURI")]
    request_uri: String,
}

impl Audit {
    /// Prepares a log of lists and of nothing else.
    ///
    /// # Errors
    /// When no file can be written.
    pub fn prepare() -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata", "verbs": ["list"]}, {"level": "None"}],
        });
        let audit = Self { folder };
        std::fs::write(audit.path("policy.yaml"), policy.to_string())
            .context("cannot write a temporary file")?;
        Ok(audit)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The flags that make kube-apiserver write it.
    pub fn flags(&self) -> [String; 2] {
        [
            format!("--audit-policy-file={}", self.path("policy.yaml").display()),
            format!("--audit-log-path={}", self.path("audit.log").display()),
        ]
    }

    /// How long the log is now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn mark(&self) -> Result<usize> {
        Ok(self.text()?.len())
    }

    /// The lists that were answered since then.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn since(&self, mark: usize) -> Result<Lists> {
        lists_in(self.text()?.get(mark..).unwrap_or_default())
    }

    fn text(&self) -> Result<String> {
        std::fs::read_to_string(self.path("audit.log")).context("there is no audit log")
    }
}

fn lists_in(log: &str) -> Result<Lists> {
    let mut lists = Lists::new();
    for line in log.lines() {
        let entry: Entry = serde_json::from_str(line).context("the audit log is not JSON")?;
        let (path, query) = entry.request_uri.split_once('?').unwrap_or((&entry.request_uri, ""));
        let asked = query.split('&').filter(|part| !part.starts_with("continue="));
        let asked: Vec<&str> = asked.filter(|part| !part.is_empty()).collect();
        let list = match asked.is_empty() {
            true => path.to_owned(),
            false => format!("{path}?{}", asked.join("&")),
        };
        *lists.entry(list).or_default() += 1;
    }
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_a_list_are_counted_and_different_lists_of_a_resource_told_apart() {
        let entry = |uri: &str| format!("{{\"verb\":\"list\",\"requestURI\":\"{uri}\"}}\n");
        let log = [
            entry("/api/v1/pods?limit=500"),
            entry("/api/v1/pods?limit=500&continue=abc"),
            entry("/api/v1/pods?fieldSelector=status.phase%21%3DFailed&limit=500"),
            entry("/api/v1/nodes"),
        ];
        let expected = [
            ("/api/v1/nodes", 1),
            ("/api/v1/pods?fieldSelector=status.phase%21%3DFailed&limit=500", 1),
            ("/api/v1/pods?limit=500", 2),
        ];
        let expected = expected.map(|(list, pages)| (list.to_owned(), pages));
        assert_eq!(lists_in(&log.concat()).unwrap(), Lists::from(expected));
        assert!(lists_in("half a li").is_err());
    }
}
