//! The environment of a container, and the fields of the pod it can show.

use object::field::{Error, Errors, Path};
use object::names::{self, NameUse};
use serde_json::Value;

use super::paths;
use super::resources::quantity;
use crate::kinds::fields::{list, present, text};
use crate::kinds::rules::said;

/// Fields of the pod that a variable can hold.
const IN_VARIABLES: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Fields of the pod that a file can hold.
pub(super) const IN_FILES: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// Fields that have a name, whether or not anything can hold them.
const NAMED: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const BYTE_DIVISORS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Checks `env` and `envFrom`.
pub(super) fn check(errors: &mut Errors, container: &Value, path: &Path) {
    for (index, variable) in list(container, "env").iter().enumerate() {
        let at = path.child("env").index(index);
        match text(variable, "name") {
            "" => errors.push(Error::required(&at.child("name"), "")),
            name => errors.extend(said(names::relaxed_env_var_name(name), name, &at.child("name"))),
        }
        if let Some(source) = present(variable, "valueFrom") {
            check_source(errors, variable, source, &at.child("valueFrom"));
        }
    }
    let all = path.child("envFrom");
    for (index, source) in list(container, "envFrom").iter().enumerate() {
        let at = all.index(index);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            errors.extend(said(names::relaxed_env_var_name(prefix), prefix, &at.child("prefix")));
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            let Some(reference) = present(source, kind) else { continue };
            count += 1;
            let at = at.child(kind).child("name");
            match text(reference, "name") {
                "" => errors.push(Error::required(&at, "")),
                name => {
                    errors.extend(said(
                        names::name_is_dns_subdomain(name, NameUse::Prefix),
                        name,
                        &at,
                    ));
                }
            }
        }
        if count == 0 {
            let why = "must specify one of: `configMapRef` or `secretRef`";
            errors.push(Error::invalid(&all, "", why));
        } else if count > 1 {
            errors.push(Error::invalid(&all, "", TOO_MANY));
        }
    }
}

const TOO_MANY: &str = "may not have more than one field specified at a time";

fn check_source(errors: &mut Errors, variable: &Value, source: &Value, path: &Path) {
    let mut count = 0;
    for kind in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let Some(reference) = present(source, kind) else { continue };
        count += 1;
        let at = path.child(kind);
        match kind {
            "fieldRef" => check_field(errors, reference, &IN_VARIABLES, &at),
            "resourceFieldRef" => check_resource(errors, reference, &at, false),
            "fileKeyRef" => check_file_key(errors, reference, &at),
            _ => check_key(errors, reference, &at),
        }
    }
    if count == 0 {
        let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.push(Error::invalid(path, "", why));
    } else if !text(variable, "value").is_empty() {
        errors.push(Error::invalid(path, "", "may not be specified when `value` is not empty"));
    } else if count > 1 {
        errors.push(Error::invalid(path, "", TOO_MANY));
    }
}

fn check_key(errors: &mut Errors, reference: &Value, path: &Path) {
    let name = text(reference, "name");
    let messages = names::name_is_dns_subdomain(name, NameUse::Whole);
    errors.extend(said(messages, name, &path.child("name")));
    match text(reference, "key") {
        "" => errors.push(Error::required(&path.child("key"), "")),
        key => errors.extend(said(names::config_map_key(key), key, &path.child("key"))),
    }
}

fn check_file_key(errors: &mut Errors, reference: &Value, path: &Path) {
    match text(reference, "key") {
        "" => errors.push(Error::required(&path.child("key"), "")),
        key => errors.extend(said(names::relaxed_env_var_name(key), key, &path.child("key"))),
    }
    match text(reference, "volumeName") {
        "" => errors.push(Error::required(&path.child("volumeName"), "")),
        name => errors.extend(said(names::dns1123_label(name), name, &path.child("volumeName"))),
    }
    match text(reference, "path") {
        "" => errors.push(Error::required(&path.child("path"), "")),
        target => paths::no_backsteps(errors, &path.child("path"), target),
    }
}

/// Checks a reference to a field of the pod.
pub(super) fn check_field(errors: &mut Errors, reference: &Value, supported: &[&str], path: &Path) {
    let (version, field) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    if version.is_empty() {
        errors.push(Error::required(&path.child("apiVersion"), ""));
        return;
    }
    let at = path.child("fieldPath");
    if field.is_empty() {
        errors.push(Error::required(&at, ""));
        return;
    }
    let subscripted = subscript(field);
    let problem = if version != "v1" {
        Some(format!("unsupported pod version: {version}"))
    } else if let Some((map, _)) = subscripted {
        (!matches!(map, "metadata.annotations" | "metadata.labels"))
            .then(|| format!("field label does not support subscript: {field}"))
    } else {
        (!NAMED.contains(&field) && field != "spec.host")
            .then(|| format!("field label not supported: {field}"))
    };
    if let Some(problem) = problem {
        let why = format!("error converting fieldPath: {problem}");
        errors.push(Error::invalid(&at, field, why));
        return;
    }
    match subscripted {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            errors.extend(said(names::qualified_name(&key), &key, path));
        }
        Some((_, key)) => errors.extend(said(names::qualified_name(key), key, path)),
        None => {
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            if !supported.contains(&field) {
                errors.push(Error::not_supported(&at, field, supported));
            }
        }
    }
}

/// `metadata.labels` and `a` of `metadata.labels['a']`.
fn subscript(field: &str) -> Option<(&str, &str)> {
    let (map, key) = field.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, key))
}

/// Checks a reference to an amount of a container.
pub(super) fn check_resource(errors: &mut Errors, reference: &Value, path: &Path, in_file: bool) {
    let resource = text(reference, "resource");
    let pages =
        resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if in_file && text(reference, "containerName").is_empty() {
        errors.push(Error::required(&path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(Error::required(&path.child("resource"), ""));
    } else if !RESOURCES.contains(&resource) && !pages {
        errors.push(Error::not_supported(&path.child("resource"), resource, &RESOURCES));
    }
    let divisor = quantity(&reference["divisor"]);
    if divisor.is_zero() {
        return;
    }
    let divisor = divisor.to_string();
    let divisor = divisor.as_str();
    let what = match resource {
        "limits.cpu" | "requests.cpu" if !matches!(divisor, "1" | "1m") => {
            let why = "only divisor's values 1m and 1 are supported with the cpu resource";
            errors.push(Error::invalid(&path.child("divisor"), resource, why));
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if pages => "hugepages",
        _ => return,
    };
    if !BYTE_DIVISORS.contains(&divisor) {
        let listed = BYTE_DIVISORS.join(", ");
        let why = format!("only divisor's values {listed} are supported with the {what} resource");
        errors.push(Error::invalid(&path.child("divisor"), resource, why));
    }
}

/// Checks that files with keys lie in folders of the pod's own.
pub(super) fn check_file_volumes(errors: &mut Errors, spec: &Value, path: &Path) {
    for (container, at) in super::containers::all(spec, path) {
        for (index, variable) in list(container, "env").iter().enumerate() {
            let reference = variable.get("valueFrom").and_then(|from| present(from, "fileKeyRef"));
            let Some(reference) = reference else { continue };
            let name = text(reference, "volumeName");
            let at = at.child("env").index(index).child("valueFrom").child("fileKeyRef");
            let at = at.child("volumeName");
            let volume = list(spec, "volumes").iter().find(|volume| text(volume, "name") == name);
            match volume {
                None => errors.push(Error::not_found(&at, name)),
                Some(volume) if present(volume, "emptyDir").is_none() => {
                    let why = "referenced volume must be of type emptyDir";
                    errors.push(Error::invalid(&at, name, why));
                }
                Some(_) => {}
            }
        }
    }
}
