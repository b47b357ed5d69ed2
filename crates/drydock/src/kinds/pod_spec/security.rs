//! What the processes of a pod may do.

use std::collections::BTreeSet;

use object::field::{Error, Errors, Fault, Path};
use object::names;
use serde_json::Value;

use super::containers::all;
use super::{go_form, paths};
use crate::kinds::fields::{flag, list, number, present, text, texts};
use crate::kinds::rules::fault_of_form;

const ID_MAX: i64 = i32::MAX as i64;
const SYSCTL_MAX: usize = 253;
const PROFILE_MAX: usize = 4095;
const SYSCTL: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

fn check_ids(errors: &mut Errors, context: &Value, path: &Path, fields: &[&str]) {
    for field in fields {
        if let Some(id) = number(context, field) {
            let messages = names::in_range(id, 0, ID_MAX).into_iter();
            let at = path.child(field);
            errors.extend(messages.map(|message| Error::invalid(&at, id, message)));
        }
    }
}

/// Checks a closed set whose text may be missing.
fn optional(errors: &mut Errors, context: &Value, path: &Path, field: &str, supported: &[&str]) {
    let value = context.get(field).and_then(Value::as_str);
    if let Some(value) = value.filter(|value| !supported.contains(value)) {
        errors.push(Error::not_supported(&path.child(field), value, supported));
    }
}

/// Checks `securityContext` of a pod.
pub(super) fn check_pod(errors: &mut Errors, spec: &Value, path: &Path) {
    let Some(context) = present(spec, "securityContext") else { return };
    let path = path.child("securityContext");
    check_ids(errors, context, &path, &["fsGroup", "runAsUser", "runAsGroup"]);
    for (index, group) in list(context, "supplementalGroups").iter().enumerate() {
        let id = group.as_i64().unwrap_or(0);
        let at = path.child("supplementalGroups").index(index);
        let messages = names::in_range(id, 0, ID_MAX).into_iter();
        errors.extend(messages.map(|message| Error::invalid(&at, id, message)));
    }
    if flag(spec, "shareProcessNamespace") && flag(spec, "hostPID") {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(Error::invalid(&path.child("shareProcessNamespace"), true, why));
    }
    check_sysctls(errors, spec, context, &path.child("sysctls"));
    let policies = ["Always", "OnRootMismatch"];
    optional(errors, context, &path, "fsGroupChangePolicy", &policies);
    check_seccomp(errors, context, &path.child("seccompProfile"));
    check_apparmor(errors, context, &path.child("appArmorProfile"));
    optional(errors, context, &path, "supplementalGroupsPolicy", &["Merge", "Strict"]);
    optional(errors, context, &path, "seLinuxChangePolicy", &["MountOption", "Recursive"]);
}

/// Checks `securityContext` of a container.
pub(super) fn check_container(
    errors: &mut Errors,
    container: &Value,
    path: &Path,
    host_users: bool,
) {
    let Some(context) = present(container, "securityContext") else { return };
    let path = path.child("securityContext");
    check_ids(errors, context, &path, &["runAsUser", "runAsGroup"]);
    optional(errors, context, &path, "procMount", &["Default", "Unmasked"]);
    if host_users && text(context, "procMount") == "Unmasked" {
        let why = "`hostUsers` must be false to use `Unmasked`";
        errors.push(Error::invalid(&path.child("procMount"), "Unmasked", why));
    }
    check_seccomp(errors, context, &path.child("seccompProfile"));
    if context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        if flag(context, "privileged") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(contradiction(context, &path, why));
        }
        let added = &context["capabilities"];
        for _ in texts(added, "add").filter(|name| *name == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(contradiction(context, &path, why));
        }
    }
    check_apparmor(errors, context, &path.child("appArmorProfile"));
}

/// The parts of a security context, with their names in upstream's internal form.
const CONTEXT: [(&str, &str); 12] = [
    ("Capabilities", "capabilities"),
    ("Privileged", "privileged"),
    ("SELinuxOptions", "seLinuxOptions"),
    ("WindowsOptions", "windowsOptions"),
    ("RunAsUser", "runAsUser"),
    ("RunAsGroup", "runAsGroup"),
    ("RunAsNonRoot", "runAsNonRoot"),
    ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
    ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
    ("ProcMount", "procMount"),
    ("SeccompProfile", "seccompProfile"),
    ("AppArmorProfile", "appArmorProfile"),
];

/// The parts of a profile, with their names in upstream's internal form.
const PROFILE: [(&str, &str); 2] = [("Type", "type"), ("LocalhostProfile", "localhostProfile")];

fn contradiction(context: &Value, path: &Path, why: &str) -> Error {
    let inner: [(&str, &[(&str, &str)]); 4] = [
        ("capabilities", &[("Add", "add"), ("Drop", "drop")]),
        (
            "seLinuxOptions",
            &[("User", "user"), ("Role", "role"), ("Type", "type"), ("Level", "level")],
        ),
        ("seccompProfile", &PROFILE),
        ("appArmorProfile", &PROFILE),
    ];
    let mut form = go_form(context, &CONTEXT);
    for (field, fields) in inner {
        if let Some(part) = present(context, field) {
            form = form.replacen(&part.to_string(), &go_form(part, fields), 1);
        }
    }
    fault_of_form(path, Fault::Invalid, &form, why)
}

fn check_seccomp(errors: &mut Errors, context: &Value, path: &Path) {
    let Some(profile) = present(context, "seccompProfile") else { return };
    let supported = ["Localhost", "RuntimeDefault", "Unconfined"];
    let kind = text(profile, "type");
    match kind {
        "" => {
            let why = "type is required when seccompProfile is set";
            errors.push(Error::required(&path.child("type"), why));
        }
        kind if supported.contains(&kind) => {}
        kind => errors.push(Error::not_supported(&path.child("type"), kind, &supported)),
    }
    let at = path.child("localhostProfile");
    match (kind, profile.get("localhostProfile").and_then(Value::as_str)) {
        ("Localhost", None) => {
            errors.push(Error::required(&at, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(file)) => paths::descending(errors, &at, file),
        (_, Some(_)) => {
            let why = "can only be set when seccomp type is Localhost";
            errors.push(fault_of_form(&at, Fault::Invalid, &go_form(profile, &PROFILE), why));
        }
        (_, None) => {}
    }
}

fn check_apparmor(errors: &mut Errors, context: &Value, path: &Path) {
    let Some(profile) = present(context, "appArmorProfile") else { return };
    let at = path.child("localhostProfile");
    let file = profile.get("localhostProfile").and_then(Value::as_str);
    match (text(profile, "type"), file) {
        ("Localhost", Some(file)) => {
            if file.trim() != file {
                errors.push(Error::invalid(&at, file, "must not be padded with whitespace"));
            } else if file.is_empty() {
                errors.push(Error::required(&at, "must be set when AppArmor type is Localhost"));
            }
            if file.len() > PROFILE_MAX {
                errors.push(Error::too_long(&at, PROFILE_MAX));
            }
        }
        ("Localhost", None) => {
            errors.push(Error::required(&at, "must be set when AppArmor type is Localhost"));
        }
        ("RuntimeDefault" | "Unconfined", Some(file)) => {
            let why = "can only be set when AppArmor type is Localhost";
            errors.push(Error::invalid(&at, file, why));
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => {
            let why = "type is required when appArmorProfile is set";
            errors.push(Error::required(&path.child("type"), why));
        }
        (kind, _) => {
            let supported = ["Localhost", "RuntimeDefault", "Unconfined"];
            errors.push(Error::not_supported(&path.child("type"), kind, &supported));
        }
    }
}

fn check_sysctls(errors: &mut Errors, spec: &Value, context: &Value, path: &Path) {
    let mut seen = BTreeSet::new();
    for (index, sysctl) in list(context, "sysctls").iter().enumerate() {
        let at = path.index(index).child("name");
        let name = text(sysctl, "name");
        if name.is_empty() {
            errors.push(Error::required(&at, ""));
        } else if !is_sysctl(name) {
            let why = format!("must have at most {SYSCTL_MAX} characters and match regex {SYSCTL}");
            errors.push(Error::invalid(&at, name, why));
        } else if seen.contains(name) {
            errors.push(Error::duplicate(&at, name));
        }
        let dotted = name.replace('/', ".");
        let ipc = ["kernel.shm", "kernel.sem", "kernel.msg", "fs.mqueue."];
        if flag(spec, "hostNetwork") && dotted.starts_with("net.") {
            let why = "may not be specified when 'hostNetwork' is true";
            errors.push(Error::invalid(&at, name, why));
        } else if flag(spec, "hostIPC") && ipc.iter().any(|prefix| dotted.starts_with(prefix)) {
            errors.push(Error::invalid(&at, name, "may not be specified when 'hostIPC' is true"));
        }
        seen.insert(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_segment = |segment: &str| {
        let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = segment.as_bytes();
        bytes.first().copied().is_some_and(alphanumeric)
            && bytes.last().copied().is_some_and(alphanumeric)
            && bytes.iter().all(|byte| alphanumeric(*byte) || matches!(byte, b'-' | b'_'))
    };
    name.len() <= SYSCTL_MAX && name.split(['.', '/']).all(is_segment)
}

/// Checks that a pod with users of its own shares nothing else with the host.
pub(super) fn check_host_users(errors: &mut Errors, spec: &Value, path: &Path) {
    if spec.get("hostUsers").and_then(Value::as_bool) != Some(false) {
        return;
    }
    let why = "when `hostUsers` is false";
    for (field, shown) in
        [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if flag(spec, field) {
            errors.push(Error::forbidden(&path.child(shown), why));
        }
    }
    for (container, at) in all(spec, path) {
        if !list(container, "volumeDevices").is_empty() {
            errors.push(Error::forbidden(&at.child("volumeDevices"), why));
        }
    }
}

/// Checks `os`, and that nothing is said that its kubelet cannot do.
pub(super) fn check_os(errors: &mut Errors, spec: &Value, path: &Path) {
    let Some(os) = present(spec, "os") else { return };
    match text(os, "name") {
        "" => errors.push(Error::required(&path.child("os").child("name"), "")),
        "windows" => {}
        "linux" => {
            let why = "windows options cannot be set for a linux pod";
            if present(&spec["securityContext"], "windowsOptions").is_some() {
                let at = path.child("securityContext").child("windowsOptions");
                errors.push(Error::forbidden(&at, why));
            }
            for (container, at) in all(spec, path) {
                if present(&container["securityContext"], "windowsOptions").is_some() {
                    let at = at.child("securityContext").child("windowsOptions");
                    errors.push(Error::forbidden(&at, why));
                }
            }
        }
        other => {
            let supported = ["linux", "windows"];
            errors.push(Error::not_supported(&path.child("os"), other, &supported));
        }
    }
}
