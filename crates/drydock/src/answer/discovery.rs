//! What is served, as clients find out about it: aggregated and legacy.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{ACCEPT, HeaderValue};
use http::{HeaderMap, StatusCode};
use object::KUBERNETES_VERSION;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Answer, Body, Failure, body};
use crate::kinds::{self, Kind, Registry, Version};

/// The media type of aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accept.flat_map(|value| value.split(',')).any(|clause| {
        let clause = clause.replace(' ', "");
        clause.starts_with("application/json")
            && clause.contains(";g=apidiscovery.k8s.io")
            && clause.contains(";v=v2;")
            && clause.contains(";as=APIGroupDiscoveryList")
    })
}

fn aggregated(items: &[Value]) -> Answer {
    let list = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    });
    let bytes = object::json::encode(&list);
    body::typed(
        StatusCode::OK,
        HeaderValue::from_static(AGGREGATED),
        Body::pieces(vec![bytes.into()]),
    )
}

fn group_item(registry: &Registry, group: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = offered(registry, group, version)
                .map(|(kind, version)| aggregated_resource(kind, version))
                .collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

/// The kinds of a group that have this version.
fn offered<'a>(
    registry: &'a Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = (&'a Kind, &'a Version)> {
    registry.kinds().filter(move |kind| kind.group == group).filter_map(move |kind| {
        let version = kind.versions.iter().find(|offered| offered.name == version)?;
        Some((&**kind, version))
    })
}

fn aggregated_resource(kind: &Kind, version: &Version) -> Value {
    let scope = if kind.namespaced { "Namespaced" } else { "Cluster" };
    let mut resource = json!({
        "resource": kind.names.plural,
        "responseKind": response_kind(kind, version, &kind.group, &version.name, &kind.names.kind),
        "scope": scope,
        "singularResource": kind.names.singular,
        "verbs": listed(kind, &version.verbs),
    });
    if !kind.names.short.is_empty() {
        resource["shortNames"] = json!(kind.names.short);
    }
    if !kind.names.categories.is_empty() {
        resource["categories"] = json!(kind.names.categories);
    }
    let parts: Vec<Value> = version
        .subresources
        .iter()
        .map(|part| {
            json!({
                "subresource": part.name,
                "responseKind":
                    response_kind(kind, version, &part.group, &part.version, &part.kind),
                "verbs": listed(kind, &part.verbs),
            })
        })
        .collect();
    if !parts.is_empty() {
        resource["subresources"] = parts.into();
    }
    resource
}

/// What a resource or a part of one takes and gives. Native resources leave out their own group
/// and version.
fn response_kind(
    kind: &Kind,
    version: &Version,
    group: &str,
    part_version: &str,
    name: &str,
) -> Value {
    if !kind.is_custom() && (group, part_version) == (&kind.group, &version.name) {
        return json!({"group": "", "version": "", "kind": name});
    }
    json!({"group": group, "version": part_version, "kind": name})
}

/// The verbs in the order kube-apiserver lists them: sorted, but for custom kinds.
fn listed<'a>(kind: &Kind, verbs: &'a [String]) -> Vec<&'a String> {
    let mut verbs: Vec<&String> = verbs.iter().collect();
    if !kind.is_custom() {
        verbs.sort();
    }
    verbs
}

/// How many bytes of a hash identify a storage version.
const HASH_BYTES: usize = 8;

/// Names the version that objects are stored in, so that clients can tell when it changes.
fn storage_version_hash(kind: &Kind) -> Option<String> {
    let stored = kind.storage_version.as_deref()?;
    let hash = Sha256::digest(format!("{stored}/{}", kind.names.kind));
    Some(BASE64_STANDARD.encode(&hash[..HASH_BYTES]))
}

/// `/api`.
#[must_use]
pub fn core_versions(registry: &Registry, headers: &HeaderMap) -> Answer {
    let core = registry.groups().iter().filter(|(group, _)| group.is_empty());
    if wants_aggregated(headers) {
        let items: Vec<Value> =
            core.map(|(group, versions)| group_item(registry, group, versions)).collect();
        return aggregated(&items);
    }
    let versions: Vec<&String> = core.flat_map(|(_, versions)| versions).collect();
    let answer = json!({
        "kind": "APIVersions",
        "versions": versions,
        "serverAddressByClientCIDRs": [],
    });
    body::value(StatusCode::OK, &answer)
}

/// `/apis`.
#[must_use]
pub fn groups(registry: &Registry, headers: &HeaderMap) -> Answer {
    let named = registry.groups().iter().filter(|(group, _)| !group.is_empty());
    if wants_aggregated(headers) {
        let items: Vec<Value> =
            named.map(|(group, versions)| group_item(registry, group, versions)).collect();
        return aggregated(&items);
    }
    let groups: Vec<Value> = named.map(|(group, versions)| legacy_group(group, versions)).collect();
    let list = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
    body::value(StatusCode::OK, &list)
}

fn legacy_group(group: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": kinds::group_version(group, version), "version": version}))
        .collect();
    let preferred = versions.first().cloned().unwrap_or(Value::Null);
    json!({"name": group, "versions": versions, "preferredVersion": preferred})
}

/// `/apis/GROUP`.
///
/// # Errors
/// When there is no such group.
pub fn group(registry: &Registry, group: &str) -> Result<Answer, Failure> {
    let found = registry.groups().iter().find(|(known, _)| known == group && !known.is_empty());
    let (name, versions) = found.ok_or_else(Failure::no_such_path)?;
    let mut answer = legacy_group(name, versions);
    answer["kind"] = "APIGroup".into();
    answer["apiVersion"] = "v1".into();
    Ok(body::value(StatusCode::OK, &answer))
}

/// `/api/VERSION` or `/apis/GROUP/VERSION`.
///
/// # Errors
/// When there is no such version.
pub fn group_version(registry: &Registry, group: &str, version: &str) -> Result<Answer, Failure> {
    let mut known = registry.groups().iter();
    if !known.any(|(name, versions)| name == group && versions.iter().any(|known| known == version))
    {
        return Err(Failure::no_such_path());
    }
    let mut resources = Vec::new();
    for (kind, version) in offered(registry, group, version) {
        resources.push(legacy_resource(kind, version));
        for part in &version.subresources {
            let mut resource = json!({
                "name": format!("{}/{}", kind.names.plural, part.name),
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": part.kind,
                "verbs": listed(kind, &part.verbs),
            });
            if (part.group.as_str(), part.version.as_str())
                != (kind.group.as_str(), version.name.as_str())
            {
                resource["group"] = part.group.clone().into();
                resource["version"] = part.version.clone().into();
            }
            resources.push(resource);
        }
    }
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": kinds::group_version(group, version),
        "resources": resources,
    });
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Ok(body::value(StatusCode::OK, &list))
}

fn legacy_resource(kind: &Kind, version: &Version) -> Value {
    let mut resource = json!({
        "name": kind.names.plural,
        "singularName": kind.names.singular,
        "namespaced": kind.namespaced,
        "kind": kind.names.kind,
        "verbs": listed(kind, &version.verbs),
    });
    if !kind.names.short.is_empty() {
        resource["shortNames"] = json!(kind.names.short);
    }
    if !kind.names.categories.is_empty() {
        resource["categories"] = json!(kind.names.categories);
    }
    if let Some(hash) = storage_version_hash(kind) {
        resource["storageVersionHash"] = hash.into();
    }
    resource
}

/// `/version`: the Kubernetes version whose behaviour is served.
#[must_use]
pub fn version() -> Value {
    let (major, minor) = release();
    let compatible = minor.parse::<u32>().map_or(0, |minor| minor.saturating_sub(1));
    json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": compatible.to_string(),
        "gitVersion": KUBERNETES_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    })
}

/// The first two numbers of the version.
pub(super) fn release() -> (&'static str, &'static str) {
    let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
}

/// The architecture by the name Go has for it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `/`: the paths there are.
#[must_use]
pub fn paths(registry: &Registry) -> Answer {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in registry.groups().iter().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(
        ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
            .map(str::to_owned),
    );
    paths.sort();
    body::value(StatusCode::OK, &json!({"paths": paths}))
}
