//! The volumes of a pod.
//!
//! Sources that clouds have given up (Flocker, Quobyte, Photon and their like) are kept
//! as they are; nothing here reads into them.

use std::collections::{BTreeMap, BTreeSet};

use object::field::{Error, Errors, Path};
use object::names::{self, NameUse};
use serde_json::Value;

use super::resources::quantity;
use super::{Home, env, paths};
use crate::kinds::fields::{list, number, present, text};
use crate::kinds::rules::{required_one_of, said};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const MODE_MAX: i64 = 0o777;
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
const DRIVER_MAX: usize = 63;
const DUPLICATE_PATHS: &str = "conflicting duplicate paths";

/// The sources of a volume in the order they are looked at.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Checks `volumes`, and returns those that are valid.
pub(super) fn check<'a>(
    errors: &mut Errors,
    spec: &'a Value,
    path: &Path,
    home: &Home<'_>,
) -> BTreeMap<&'a str, &'a Value> {
    let mut valid = BTreeMap::new();
    let volumes = list(spec, "volumes");
    let created: Vec<String> = match home {
        Home::Pod { name } if !name.is_empty() => volumes
            .iter()
            .filter(|volume| present(volume, "ephemeral").is_some())
            .map(|volume| format!("{name}-{}", text(volume, "name")))
            .collect(),
        _ => Vec::new(),
    };
    for (index, volume) in volumes.iter().enumerate() {
        let at = path.index(index);
        let mut found = Errors::new();
        check_source(&mut found, volume, &at, home);
        let name = text(volume, "name");
        match name {
            "" => found.push(Error::required(&at.child("name"), "")),
            name => found.extend(said(names::dns1123_label(name), name, &at.child("name"))),
        }
        if valid.contains_key(name) {
            found.push(Error::duplicate(&at.child("name"), name));
        }
        if found.is_empty() {
            valid.insert(name, volume);
        }
        errors.append(&mut found);
        let claim = text(&volume["persistentVolumeClaim"], "claimName");
        if created.iter().any(|one| one == claim) {
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            let at = at.child("persistentVolumeClaim").child("claimName");
            errors.push(Error::invalid(&at, claim, why));
        }
    }
    valid
}

fn check_source(errors: &mut Errors, volume: &Value, path: &Path, home: &Home<'_>) {
    let mut given = SOURCES.iter().filter_map(|kind| Some((*kind, present(volume, kind)?)));
    let Some((kind, source)) = given.next() else {
        errors.push(Error::required(path, "must specify a volume type"));
        return;
    };
    check_kind(errors, kind, source, path);
    if kind == "ephemeral"
        && let Home::Pod { name } = home
    {
        check_claim_name(errors, name, text(volume, "name"), path);
    }
    if kind == "image" && matches!(home, Home::Pod { .. }) && text(source, "reference").is_empty() {
        errors.push(Error::required(&path.child("image").child("reference"), ""));
    }
    for (kind, _) in given {
        // Upstream names two of them otherwise than the field is named.
        let shown = match kind {
            "cephfs" => "cephFS",
            "downwardAPI" => "downwarAPI",
            kind => kind,
        };
        let why = "may not specify more than 1 volume type";
        errors.push(Error::forbidden(&path.child(shown), why));
    }
}

fn check_claim_name(errors: &mut Errors, pod: &str, volume: &str, path: &Path) {
    if pod.is_empty() || volume.is_empty() {
        return;
    }
    let claim = format!("{pod}-{volume}");
    for message in names::name_is_dns_subdomain(&claim, NameUse::Whole) {
        let why = format!("PVC name {claim:?}: {message}");
        errors.push(Error::invalid(&path.child("name"), volume, why));
    }
}

fn check_kind(errors: &mut Errors, kind: &str, source: &Value, path: &Path) {
    let at = path.child(kind);
    match kind {
        "emptyDir" => {
            let limit = present(source, "sizeLimit").map(quantity);
            errors.extend(limit.filter(|limit| limit.sign() < 0).map(|_| {
                let why = "SizeLimit field must be a valid resource quantity";
                Error::forbidden(&at.child("sizeLimit"), why)
            }));
        }
        "hostPath" => check_host_path(errors, source, &at),
        "secret" => check_keys(errors, source, &at, "secretName"),
        "configMap" => check_keys(errors, source, &at, "name"),
        "nfs" => {
            require(errors, source, &at, &["server", "path"]);
            let target = text(source, "path");
            if !target.starts_with('/') {
                let why = "must be an absolute path";
                errors.push(Error::invalid(&at.child("path"), target, why));
            }
        }
        "persistentVolumeClaim" => require(errors, source, &at, &["claimName"]),
        "glusterfs" => require(errors, source, &at, &["endpoints", "path"]),
        "rbd" => {
            if list(source, "monitors").is_empty() {
                errors.push(Error::required(&at.child("monitors"), ""));
            }
            require(errors, source, &at, &["image"]);
        }
        "cephfs" if list(source, "monitors").is_empty() => {
            errors.push(Error::required(&at.child("monitors"), ""));
        }
        "downwardAPI" => {
            check_mode(errors, source, &at, "defaultMode");
            for file in list(source, "items") {
                check_downward(errors, file, &at);
            }
        }
        "projected" => check_projected(errors, source, &at),
        "csi" => check_csi(errors, source, &at),
        "ephemeral" if present(source, "volumeClaimTemplate").is_none() => {
            errors.push(Error::required(&at.child("volumeClaimTemplate"), ""));
        }
        "image" => {
            let policy = text(source, "pullPolicy");
            let supported = ["Always", "IfNotPresent", "Never"];
            errors.extend(required_one_of(policy, &supported, &at.child("pullPolicy")));
        }
        _ => {}
    }
}

fn require(errors: &mut Errors, source: &Value, path: &Path, fields: &[&str]) {
    for field in fields {
        if text(source, field).is_empty() {
            errors.push(Error::required(&path.child(field), ""));
        }
    }
}

fn check_mode(errors: &mut Errors, source: &Value, path: &Path, field: &str) {
    let mode = number(source, field).filter(|mode| !(0..=MODE_MAX).contains(mode));
    errors.extend(mode.map(|mode| Error::invalid(&path.child(field), mode, MODE)));
}

fn check_host_path(errors: &mut Errors, source: &Value, path: &Path) {
    let target = text(source, "path");
    if target.is_empty() {
        errors.push(Error::required(&path.child("path"), ""));
        return;
    }
    paths::no_backsteps(errors, &path.child("path"), target);
    let supported = [
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    let kind = text(source, "type");
    if !supported.contains(&kind) {
        errors.push(Error::not_supported(&path.child("type"), kind, &supported));
    }
}

fn check_keys(errors: &mut Errors, source: &Value, path: &Path, name: &str) {
    require(errors, source, path, &[name]);
    check_mode(errors, source, path, "defaultMode");
    for (index, item) in list(source, "items").iter().enumerate() {
        check_key_to_path(errors, item, &path.child("items").index(index));
    }
}

fn check_key_to_path(errors: &mut Errors, item: &Value, path: &Path) {
    require(errors, item, path, &["key", "path"]);
    paths::unreserved(errors, &path.child("path"), text(item, "path"));
    check_mode(errors, item, path, "mode");
}

fn check_downward(errors: &mut Errors, file: &Value, path: &Path) {
    require(errors, file, path, &["path"]);
    paths::unreserved(errors, &path.child("path"), text(file, "path"));
    match (present(file, "fieldRef"), present(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            env::check_field(errors, field, &env::IN_FILES, &path.child("fieldRef"));
            if resource.is_some() {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(Error::invalid(path, "resource", why));
            }
        }
        (None, Some(resource)) => {
            env::check_resource(errors, resource, &path.child("resourceFieldRef"), true);
        }
        (None, None) => {
            let why = "one of fieldRef and resourceFieldRef is required";
            errors.push(Error::required(path, why));
        }
    }
    check_mode(errors, file, path, "mode");
}

fn check_projected(errors: &mut Errors, source: &Value, path: &Path) {
    check_mode(errors, source, path, "defaultMode");
    let mut seen = BTreeSet::new();
    for (index, projection) in list(source, "sources").iter().enumerate() {
        let at = path.child("sources").index(index);
        let mut count = 0;
        for kind in ["secret", "configMap"] {
            let Some(keys) = present(projection, kind) else { continue };
            count += 1;
            let at = at.child(kind);
            require(errors, keys, &at, &["name"]);
            for (index, item) in list(keys, "items").iter().enumerate() {
                check_key_to_path(errors, item, &at.child("items").index(index));
                let target = text(item, "path");
                if !target.is_empty() && !seen.insert(target) {
                    errors.push(Error::invalid(path, text(keys, "name"), DUPLICATE_PATHS));
                }
            }
        }
        if let Some(downward) = present(projection, "downwardAPI") {
            count += 1;
            for file in list(downward, "items") {
                check_downward(errors, file, &at.child("downwardAPI"));
                let target = text(file, "path");
                if !target.is_empty() && !seen.insert(target) {
                    errors.push(Error::invalid(path, target, DUPLICATE_PATHS));
                }
            }
        }
        if let Some(token) = present(projection, "serviceAccountToken") {
            count += 1;
            check_token(errors, token, &at.child("serviceAccountToken"), path);
        }
        if count > 1 {
            let why = "may not specify more than 1 volume type per source";
            errors.push(Error::forbidden(&at, why));
        }
    }
}

/// Upstream places the fault of the path at the volume's source.
fn check_token(errors: &mut Errors, token: &Value, path: &Path, source: &Path) {
    let seconds = number(token, "expirationSeconds").unwrap_or(0);
    let at = path.child("expirationSeconds");
    if seconds < TOKEN_SECONDS_MIN {
        let why = "may not specify a duration less than 10 minutes";
        errors.push(Error::invalid(&at, seconds, why));
    }
    if seconds > TOKEN_SECONDS_MAX {
        let why = "may not specify a duration larger than 2^32 seconds";
        errors.push(Error::invalid(&at, seconds, why));
    }
    match text(token, "path") {
        "" => errors.push(Error::required(&source.child("path"), "")),
        target => paths::unreserved(errors, &source.child("path"), target),
    }
}

fn check_csi(errors: &mut Errors, source: &Value, path: &Path) {
    let driver = text(source, "driver");
    let at = path.child("driver");
    if driver.is_empty() {
        errors.push(Error::required(&at, ""));
    } else {
        if driver.len() > DRIVER_MAX {
            errors.push(Error::too_long(&at, DRIVER_MAX));
        }
        errors.extend(said(names::dns1123_subdomain(&driver.to_lowercase()), driver, &at));
    }
    if let Some(secret) = present(source, "nodePublishSecretRef") {
        match text(secret, "name") {
            "" => {
                let at = path.child("nodePublishSecretRef").child("name");
                errors.push(Error::required(&at, ""));
            }
            name => {
                let messages = names::name_is_dns_subdomain(name, NameUse::Whole);
                errors.extend(said(messages, name, &path.child("name")));
            }
        }
    }
}
