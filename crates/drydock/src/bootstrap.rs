//! The objects that every cluster begins with.

use serde_json::{Value, json};

use crate::request::Identity;
use crate::server::Server;
use crate::write::{self, Writer};

/// Namespaces that are there from the start.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Stores the first objects of a new server.
pub(crate) fn bootstrap(server: &Server) {
    for name in NAMESPACES {
        put(server, ("", "v1", "namespaces"), &json!({"metadata": {"name": name}}));
    }
    let classes = [
        ("system-node-critical", 2_000_001_000, "Pods without which their node does not work."),
        (
            "system-cluster-critical",
            2_000_000_000,
            "Pods without which the cluster does not work, on whichever node.",
        ),
    ];
    for (name, value, description) in classes {
        let class = json!({"metadata": {"name": name}, "value": value, "description": description});
        put(server, ("scheduling.k8s.io", "v1", "priorityclasses"), &class);
    }
}

fn put(server: &Server, (group, version, plural): (&str, &str, &str), object: &Value) {
    let identity = Identity::apiserver();
    let writer = Writer { identity: &identity, dry_run: false };
    let found = server.registry().find(group, version, plural);
    let found = found.expect("the kinds of the first objects are native");
    let written = write::create(server, &found, None, writer, object);
    if let Err(failure) = written {
        tracing::error!(%failure, plural, "a first object was refused");
    }
}
