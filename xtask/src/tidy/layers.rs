//! Which crate may reach which: the layers of `ARCHITECTURE.md`, over transitive edges.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A package of the workspace and all it is built from, but for what only its tests need.
#[derive(Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The names of the workspace's packages it reaches.
    pub inner: BTreeSet<String>,
    /// The names of other packages it reaches.
    pub outer: BTreeSet<String>,
}

/// May reach every package.
const ALL: &[&str] = &["*"];

/// For each package of the workspace, the packages of the workspace it may reach.
const LAYERS: [(&str, &[&str]); 16] = [
    ("gantry-object", &[]),
    ("gantry-progress", &[]),
    ("gantry-api", &["gantry-object"]),
    ("gantry-engine", &["gantry-object", "gantry-api"]),
    ("gantry-chassis", &["gantry-object", "gantry-api"]),
    ("gantry-drydock", &["gantry-object", "gantry-api"]),
    ("gantry-workloads", &["gantry-object", "gantry-api", "gantry-chassis"]),
    ("gantry-hollow", &["gantry-object", "gantry-api", "gantry-chassis"]),
    ("gantry-scheduler", &["gantry-object", "gantry-api", "gantry-engine", "gantry-chassis"]),
    ("gantry", ALL),
    ("bench", ALL),
    ("faults", ALL),
    ("parity", ALL),
    ("scenarios", ALL),
    ("truth", &[]),
    ("xtask", ALL),
];

/// Packages from outside that a package of the workspace must not reach.
const OUT_OF_REACH: [(&str, &[&str]); 4] = [
    ("gantry-object", CLIENTS),
    ("gantry-api", CLIENTS),
    ("gantry-engine", CLIENTS),
    ("gantry-drydock", &["kube", "kube-client", "kube-core", "k8s-openapi"]),
];

const CLIENTS: &[&str] =
    &["tokio", "kube", "kube-client", "kube-core", "k8s-openapi", "hyper", "hyper-util"];

/// The packages of the workspace, from `cargo metadata`.
pub fn packages(metadata: &Value) -> Vec<Package> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names: BTreeMap<String, String> = list(&metadata["packages"])
        .iter()
        .map(|one| (text(&one["id"]), text(&one["name"])))
        .collect();
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let needed = list(&node["deps"]).into_iter().filter(is_needed_to_build);
        edges.insert(text(&node["id"]), needed.map(|dep| text(&dep["pkg"])).collect());
    }
    let members: BTreeSet<String> = list(&metadata["workspace_members"]).iter().map(text).collect();
    let name = |id: &String| names.get(id).cloned().unwrap_or_else(|| id.clone());
    members
        .iter()
        .map(|member| {
            let reached = reached(member, &edges);
            let (inner, outer): (BTreeSet<&String>, BTreeSet<&String>) =
                reached.iter().partition(|id| members.contains(*id));
            Package {
                name: name(member),
                inner: inner.into_iter().map(name).collect(),
                outer: outer.into_iter().map(name).collect(),
            }
        })
        .collect()
}

/// Whether a dependency is more than a dependency of tests.
fn is_needed_to_build(dependency: &Value) -> bool {
    let kinds = dependency["dep_kinds"].as_array();
    kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"))
}

fn reached(start: &String, edges: &BTreeMap<String, Vec<String>>) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![start];
    while let Some(id) = open.pop() {
        for next in edges.get(id).into_iter().flatten() {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    seen
}

/// Every edge that points up or out of bounds, and every package without a layer.
pub fn forbidden_edges(packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for package in packages {
        let name = &package.name;
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| layer == name) else {
            findings.push(format!(
                "package {name} has no layer: give it a line in xtask/src/tidy/layers.rs"
            ));
            continue;
        };
        for reached in &package.inner {
            if *allowed != ALL && !allowed.contains(&reached.as_str()) {
                findings.push(format!(
                    "package {name} reaches {reached}, which is not below it: see the layers in \
                     ARCHITECTURE.md"
                ));
            }
        }
        for (_, unreachable) in OUT_OF_REACH.iter().filter(|(layer, _)| layer == name) {
            for reached in unreachable.iter().filter(|one| package.outer.contains(**one)) {
                findings.push(format!("package {name} reaches {reached}, which its layer forbids"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(name: &str, inner: &[&str], outer: &[&str], expected: usize) {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let package = Package { name: name.to_owned(), inner: set(inner), outer: set(outer) };
        let findings = forbidden_edges(&[package]);
        assert_eq!(findings.len(), expected, "{findings:?}");
    }

    #[test]
    fn arrows_point_down_only() {
        check("gantry-api", &["gantry-object"], &[], 0);
        check("gantry-object", &["gantry-api"], &[], 1);
        check("gantry-chassis", &["gantry-drydock"], &[], 1);
        check("gantry-drydock", &["gantry-chassis", "gantry-workloads", "gantry-hollow"], &[], 3);
        check("gantry-workloads", &["gantry-drydock"], &[], 1);
        check("gantry-hollow", &["gantry-drydock"], &[], 1);
        check("gantry-scheduler", &["gantry-engine", "gantry-chassis"], &["tokio"], 0);
        check("gantry-scheduler", &["gantry-drydock"], &[], 1);
        check("gantry", &["gantry-drydock", "gantry-chassis"], &["tokio"], 0);
    }

    #[test]
    fn pure_crates_reach_no_client_and_drydock_no_kube() {
        check("gantry-object", &[], &["serde_json"], 0);
        check("gantry-object", &[], &["tokio"], 1);
        check("gantry-api", &[], &["kube", "k8s-openapi", "hyper"], 3);
        check("gantry-drydock", &[], &["tokio", "hyper"], 0);
        check("gantry-drydock", &[], &["kube-client"], 1);
    }

    #[test]
    fn a_new_package_needs_a_layer() {
        check("gantry-unheard-of", &[], &[], 1);
    }

    #[test]
    fn edges_are_followed_through_others_but_not_through_tests() {
        let dep = |to: &str, kind: Value| json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [{"id": "1", "name": "a"}, {"id": "2", "name": "b"},
                {"id": "3", "name": "c"}, {"id": "4", "name": "d"}],
            "workspace_members": ["1", "3"],
            "resolve": {"nodes": [
                {"id": "1", "deps": [dep("2", Value::Null), dep("4", json!("dev"))]},
                {"id": "2", "deps": [dep("3", json!("build"))]},
                {"id": "3", "deps": []},
            ]},
        });
        let packages = packages(&metadata);
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        assert_eq!(packages[0], Package { name: "a".to_owned(), inner: set("c"), outer: set("b") });
    }
}
