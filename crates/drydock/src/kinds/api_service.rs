//! The APIServices that say which versions of which groups are served.
//!
//! All of them are served by this server itself. They follow what is served; that something
//! would be served because of one, by another server, is not known here.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::conditions;
use crate::kinds::Found;
use crate::request::Identity;
use crate::request::options::DeleteOptions;
use crate::server::Server;
use crate::write::{self, Attempt, Part, Writer};

/// Groups and versions with the priorities that kube-apiserver gives them.
const NATIVE: [(&str, &str, u32, u32); 21] = [
    ("", "v1", 18_000, 1),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("apps", "v1", 17_800, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v1", 17_500, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("resource.k8s.io", "v1", 16_200, 21),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
];

/// The priorities of groups that definitions bring.
const CUSTOM_PRIORITIES: (u32, u32) = (1_000, 100);

/// Tells that an APIService is kept by the server: since its start, or as long as needed.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Registers what is built in.
pub(crate) fn register_native(server: &Server) {
    for (group, version, of_group, of_version) in NATIVE {
        register(server, (group, version), (of_group, of_version), "onstart");
    }
}

/// Brings the APIServices of a group in line with the definitions that are served.
pub(super) fn follow(server: &Server, group: &str) {
    let registry = server.registry();
    let kinds = registry.kinds().filter(|kind| kind.is_custom() && kind.group == group);
    let versions = kinds.flat_map(|kind| kind.versions.iter().map(|version| version.name.as_str()));
    let wanted: BTreeSet<&str> = versions.collect();
    let found = api_services(server);
    for version in &wanted {
        if found.kind.table.get(&format!("{version}.{group}")).is_none() {
            register(server, (group, version), CUSTOM_PRIORITIES, "true");
        }
    }
    let (all, _) = found.kind.table.list("");
    let unwanted = all.iter().filter(|stored| {
        let of_group = stored.key.split_once('.').filter(|(_, known)| *known == group);
        of_group.is_some_and(|(version, _)| !wanted.contains(version))
            && stored.label(MANAGED) == Some("true")
    });
    let identity = Identity::apiserver();
    let writer = Writer { identity: &identity, dry_run: false };
    for stored in unwanted {
        let options = DeleteOptions::default();
        let removed = write::remove(server, &found, None, &stored.key, &options, writer);
        if let Err(failure) = removed {
            tracing::error!(%failure, name = %stored.key, "an APIService stays");
        }
    }
}

fn api_services(server: &Server) -> Found {
    let found = server.registry().find("apiregistration.k8s.io", "v1", "apiservices");
    found.expect("APIServices are always served")
}

fn register(server: &Server, group_version: (&str, &str), priorities: (u32, u32), managed: &str) {
    let (group, version) = group_version;
    let name = format!("{version}.{group}");
    let mut object = json!({
        "metadata": {"name": name, "labels": {MANAGED: managed}},
        "spec": {
            "version": version,
            "groupPriorityMinimum": priorities.0,
            "versionPriority": priorities.1,
        },
    });
    if !group.is_empty() {
        object["spec"]["group"] = group.into();
    }
    let found = api_services(server);
    let identity = Identity::apiserver();
    let writer = Writer { identity: &identity, dry_run: false };
    let attempt =
        Attempt { found: &found, namespace: None, name: &name, part: Part::Status, writer };
    let written = write::create(server, &found, None, writer, &object);
    let written = written
        .and_then(|_| write::update(server, &attempt, |old| Ok(available(server, old.clone()))));
    if let Err(failure) = written {
        tracing::error!(%failure, name, "an APIService was refused");
    }
}

fn available(server: &Server, mut object: Value) -> Value {
    let available = json!({
        "type": "Available",
        "status": "True",
        "reason": "Local",
        "message": "Local APIServices are always available",
    });
    conditions::set(&mut object["status"]["conditions"], &available, server.env().now());
    object
}
