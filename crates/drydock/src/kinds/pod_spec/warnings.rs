//! What is allowed in a pod's spec and most likely a mistake.

use std::collections::{BTreeMap, BTreeSet};

use object::field::Path;
use object::names;
use object::quantity::Quantity;
use serde_json::Value;

use super::containers::all;
use super::resources::{amounts, quantity};
use crate::kinds::fields::{list, map, number, present, text, texts};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const MATCHES_NOTHING: &str = "a null labelSelector results in matching no pod";

/// Labels of nodes that have another name now.
const OLD_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "1.14", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "1.17", "topology.kubernetes.io/zone"),
    ("beta.kubernetes.io/instance-type", "1.17", "node.kubernetes.io/instance-type"),
];

/// Annotations that have become fields.
const OLD_ANNOTATIONS: [(&str, &str, &str); 3] = [
    ("scheduler.alpha.kubernetes.io/critical-pod", "1.16", "priorityClassName"),
    ("security.alpha.kubernetes.io/sysctls", "1.11", "sysctls"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "1.11", "sysctls"),
];

/// Sources of volumes that work no more, and since when.
const OLD_SOURCES: [(&str, &str, &str); 9] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// What to tell the author of a pod or template, which is at `path`.
pub(crate) fn pod_warnings(object: &Value, path: &Path) -> Vec<String> {
    let warnings = &mut Vec::new();
    let spec = &object["spec"];
    let at = path.child("spec");
    node_labels(warnings, spec, &at);
    let annotations = map(&object["metadata"], "annotations");
    for (key, version, field) in OLD_ANNOTATIONS {
        if annotations.is_some_and(|all| all.contains_key(key)) {
            let at = path.child("metadata").child("annotations").key(key);
            warnings.push(format!(
                "{at}: non-functional in v{version}+; use the \"{field}\" field instead"
            ));
        }
    }
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        for (source, shown, what) in OLD_SOURCES {
            if present(volume, source).is_some() {
                warnings.push(format!("{}: {what}", at.child("volumes").index(index).child(shown)));
            }
        }
    }
    duplicates(warnings, spec, &at, "hostAliases", "ip");
    duplicates(warnings, spec, &at, "imagePullSecrets", "name");
    for (index, secret) in list(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            let at = at.child("imagePullSecrets").index(index).child("name");
            warnings.push(format!("{at}: invalid empty name \"\""));
        }
    }
    fractions(warnings, spec, "overhead", &at);
    for (container, at) in all(spec, &at) {
        let resources = &container["resources"];
        for name in ["memory", "ephemeral-storage"] {
            for which in ["limits", "requests"] {
                let at = at.child("resources").child(which);
                if let Some(amount) = amounts(resources, which).get(name) {
                    fraction(warnings, amount, &at.key(name));
                }
            }
        }
        hidden_variables(warnings, container, &at);
    }
    ports(warnings, spec, &at);
    if number(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let at = at.child("terminationGracePeriodSeconds");
        warnings.push(format!(
            "{at}: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    null_selectors(warnings, spec, &at);
    std::mem::take(warnings)
}

fn old_label(key: &str) -> Option<String> {
    let (_, version, name) = OLD_LABELS.iter().find(|(old, ..)| *old == key)?;
    Some(format!("deprecated since v{version}; use \"{name}\" instead"))
}

fn node_labels(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    for key in map(spec, "nodeSelector").into_iter().flatten().map(|(key, _)| key) {
        if let Some(what) = old_label(key) {
            warnings.push(format!("{}: {what}", path.child("nodeSelector").key(key)));
        }
    }
    let nodes = &spec["affinity"]["nodeAffinity"];
    let at = path.child("affinity").child("nodeAffinity");
    for (index, term) in list(&nodes[REQUIRED], "nodeSelectorTerms").iter().enumerate() {
        let at = at.child(REQUIRED).child("nodeSelectorTerms").index(index);
        node_term(warnings, term, &at, false);
    }
    for (index, term) in list(nodes, PREFERRED).iter().enumerate() {
        let at = at.child(PREFERRED).index(index).child("preference");
        node_term(warnings, &term["preference"], &at, true);
    }
    for (index, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let at = path.child("topologySpreadConstraints").index(index);
        let key = text(constraint, "topologyKey");
        if let Some(what) = old_label(key) {
            warnings.push(format!("{}: {key} is {what}", at.child("topologyKey")));
        }
        if present(constraint, "labelSelector").is_none() {
            warnings.push(format!("{}: {MATCHES_NOTHING}", at.child("labelSelector")));
        }
    }
}

fn node_term(warnings: &mut Vec<String>, term: &Value, path: &Path, check_values: bool) {
    for (index, requirement) in list(term, "matchExpressions").iter().enumerate() {
        let at = path.child("matchExpressions").index(index);
        let key = text(requirement, "key");
        if let Some(what) = old_label(key) {
            warnings.push(format!("{}: {key} is {what}", at.child("key")));
        }
        for (index, value) in texts(requirement, "values").enumerate().filter(|_| check_values) {
            for message in names::label_value(value) {
                let at = at.child("values").index(index);
                warnings.push(format!("{at}: {value} is invalid, {message}"));
            }
        }
    }
}

fn duplicates(warnings: &mut Vec<String>, spec: &Value, path: &Path, field: &str, key: &str) {
    let mut seen = BTreeSet::new();
    for (index, entry) in list(spec, field).iter().enumerate() {
        let value = text(entry, key);
        if !seen.insert(value) {
            let at = path.child(field).index(index).child(key);
            warnings.push(format!("{at}: duplicate {key} {value:?}"));
        }
    }
}

fn fractions(warnings: &mut Vec<String>, object: &Value, field: &str, path: &Path) {
    for name in ["memory", "ephemeral-storage"] {
        if let Some(amount) = object.get(field).and_then(|amounts| amounts.get(name)) {
            fraction(warnings, &quantity(amount), &path.child(field).key(name));
        }
    }
}

/// Warns of an amount that is no whole number of bytes.
pub(crate) fn fraction(warnings: &mut Vec<String>, amount: &Quantity, path: &Path) {
    if amount.milli_value() % 1000 != 0 {
        let shown = amount.to_string();
        warnings.push(format!(
            "{path}: fractional byte value {shown:?} is invalid, must be an integer"
        ));
    }
}

/// A variable set twice keeps its first value only where the second refers to it.
fn hidden_variables(warnings: &mut Vec<String>, container: &Value, path: &Path) {
    let mut seen = BTreeSet::new();
    for (index, variable) in list(container, "env").iter().enumerate() {
        let (name, value) = (text(variable, "name"), text(variable, "value"));
        if seen.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        let hides = present(variable, "valueFrom").is_some()
            || value == reference
            || !value.contains(&reference);
        if hides {
            let at = path.child("env").index(index);
            warnings.push(format!(
                "{at}: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}

fn ports(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    let mut known: BTreeMap<(i64, &str), Vec<(Path, &Value)>> = BTreeMap::new();
    let mut named: BTreeMap<&str, Path> = BTreeMap::new();
    let mut named_twice = Vec::new();
    for (container, at) in all(spec, path) {
        for (index, port) in list(container, "ports").iter().enumerate() {
            let at = at.child("ports").index(index);
            let inside = number(port, "containerPort").unwrap_or(0);
            let others = known.entry((inside, text(port, "protocol"))).or_default();
            for (other_at, other) in others.iter() {
                if let Some(how) = conflict(port, other) {
                    warnings.push(format!("{at}: {how} port definition with {other_at}"));
                }
            }
            others.push((at.clone(), port));
            let name = text(port, "name");
            if name.is_empty() {
                continue;
            }
            match named.get(name) {
                Some(other) => named_twice.push(format!(
                    "{at}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"
                )),
                None => {
                    named.insert(name, at);
                }
            }
        }
    }
    warnings.append(&mut named_twice);
}

/// How two definitions of the same port of the pod collide.
fn conflict(port: &Value, other: &Value) -> Option<&'static str> {
    let (host, other_host) = (text(port, "hostIP"), text(other, "hostIP"));
    let on_host = |port: &Value| number(port, "hostPort").unwrap_or(0);
    let (number, other_number) = (on_host(port), on_host(other));
    if host == other_host && number == other_number {
        Some("duplicate")
    } else if number == 0 || other_number == 0 {
        Some("overlapping")
    } else if number == other_number && (host.is_empty() != other_host.is_empty()) {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

fn null_selectors(warnings: &mut Vec<String>, spec: &Value, path: &Path) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = &spec["affinity"][kind];
        let at = path.child("affinity").child(kind);
        for (index, term) in list(affinity, REQUIRED).iter().enumerate() {
            if present(term, "labelSelector").is_none() {
                let at = at.child(REQUIRED).index(index).child("labelSelector");
                warnings.push(format!("{at}: {MATCHES_NOTHING}"));
            }
        }
        for (index, term) in list(affinity, PREFERRED).iter().enumerate() {
            if present(&term["podAffinityTerm"], "labelSelector").is_none() {
                let at = at.child(PREFERRED).index(index);
                let at = at.child("podAffinityTerm").child("labelSelector");
                warnings.push(format!("{at}: {MATCHES_NOTHING}"));
            }
        }
    }
}
