//! The objects that every cluster begins with and that clients look for.

use serde_json::{Value, json};

use crate::kinds::api_service;
use crate::request::Identity;
use crate::server::Server;
use crate::write::{self, Writer};

/// Namespaces that are there from the start.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The address and the port by which pods reach the server.
const ADDRESS: &str = "10.96.0.1";
const PORT: u16 = 443;

/// Stores the first objects of a new server.
pub(crate) fn bootstrap(server: &Server) {
    for name in NAMESPACES {
        put(server, ("", "v1", "namespaces"), None, &json!({"metadata": {"name": name}}));
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
        put(server, ("scheduling.k8s.io", "v1", "priorityclasses"), None, &class);
    }
    put_own_service(server);
    api_service::register_native(server);
}

/// The service by which pods find the server. Its endpoints are empty: a server does not know
/// under which address it is reached.
fn put_own_service(server: &Server) {
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let service = json!({
        "metadata": {"name": "kubernetes", "labels": labels},
        "spec": {
            "clusterIP": ADDRESS,
            "ports": [{"name": "https", "port": PORT, "targetPort": PORT}],
        },
    });
    let labels = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    let endpoints = json!({"metadata": {"name": "kubernetes", "labels": labels}});
    let labels = json!({"kubernetes.io/service-name": "kubernetes"});
    let slice = json!({
        "metadata": {"name": "kubernetes", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [{"name": "https", "port": PORT, "protocol": "TCP"}],
    });
    let all = [
        (("", "v1", "services"), service),
        (("", "v1", "endpoints"), endpoints),
        (("discovery.k8s.io", "v1", "endpointslices"), slice),
    ];
    for (kind, object) in all {
        put(server, kind, Some("default"), &object);
    }
}

fn put(
    server: &Server,
    (group, version, plural): (&str, &str, &str),
    namespace: Option<&str>,
    object: &Value,
) {
    let identity = Identity::apiserver();
    let writer = Writer { identity: &identity, dry_run: false };
    let found = server.registry().find(group, version, plural);
    let found = found.expect("the kinds of the first objects are native");
    let written = write::create(server, &found, namespace, writer, object);
    if let Err(failure) = written {
        tracing::error!(%failure, plural, "a first object was refused");
    }
}
