//! The containers of a pod.

use std::collections::{BTreeMap, BTreeSet};

use object::field::{Error, Errors, Path};
use object::names;
use serde_json::{Value, json};

use super::resources::is_sidecar;
use super::{env, paths, probes, resource_rules, security};
use crate::kinds::fields::{flag, list, number, present, text};
use crate::kinds::rules::{required_one_of, said};

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const FOR_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

/// What the containers of a pod have in common.
pub(super) struct Surroundings<'a> {
    /// The volumes that are valid, by name.
    pub volumes: BTreeMap<&'a str, &'a Value>,
    /// The names of the pod's resource claims.
    pub claims: Vec<&'a str>,
    /// How long the pod may take to end.
    pub grace: Option<i64>,
    /// What becomes of a container that ends.
    pub restart_policy: &'a str,
    /// Whether the users of the containers are those of the host.
    pub host_users: bool,
}

/// Every container with its path, init containers first.
pub(super) fn all<'a>(
    spec: &'a Value,
    path: &Path,
) -> impl Iterator<Item = (&'a Value, Path)> + use<'a> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let lists = lists.map(|name| (list(spec, name), path.child(name)));
    lists.into_iter().flat_map(|(containers, path)| {
        containers.iter().enumerate().map(move |(index, one)| (one, path.index(index)))
    })
}

/// Checks `containers`.
pub(super) fn check_regular(
    errors: &mut Errors,
    spec: &Value,
    path: &Path,
    around: &Surroundings<'_>,
) {
    let containers = list(spec, "containers");
    if containers.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = path.index(index);
        check_common(errors, container, &at, around);
        let name = text(container, "name");
        if !seen.insert(name) {
            errors.push(Error::duplicate(&at.child("name"), name));
        }
        probes::running(errors, container, &at, around.grace);
        check_restart_policy(errors, container, &at);
    }
    check_host_ports(errors, containers, path);
}

/// Checks `initContainers`.
pub(super) fn check_init(
    errors: &mut Errors,
    spec: &Value,
    path: &Path,
    around: &Surroundings<'_>,
) {
    let mut seen: BTreeSet<&str> =
        list(spec, "containers").iter().map(|container| text(container, "name")).collect();
    for (index, container) in list(spec, "initContainers").iter().enumerate() {
        let at = path.index(index);
        check_common(errors, container, &at, around);
        if is_sidecar(container) {
            if !list(container, "restartPolicyRules").is_empty() {
                let why = "restartPolicyRules are not allowed for init containers with restart policy Always";
                errors.push(Error::forbidden(&at.child("restartPolicyRules"), why));
            }
        } else {
            check_restart_policy(errors, container, &at);
        }
        let name = text(container, "name");
        if seen.contains(name) {
            errors.push(Error::duplicate(&at.child("name"), name));
        } else if !name.is_empty() {
            seen.insert(name);
        }
        // They run one by one, so that only ports of the same container can collide.
        check_host_ports(errors, std::slice::from_ref(container), path);
        if is_sidecar(container) {
            probes::running(errors, container, &at, around.grace);
        } else {
            probes::none(errors, container, &at);
        }
    }
}

/// Checks `ephemeralContainers`.
pub(super) fn check_ephemeral(
    errors: &mut Errors,
    spec: &Value,
    path: &Path,
    around: &Surroundings<'_>,
) {
    let lasting = ["containers", "initContainers"];
    let others: BTreeSet<&str> = lasting
        .into_iter()
        .flat_map(|name| list(spec, name))
        .map(|container| text(container, "name"))
        .collect();
    let mut seen = others.clone();
    for (index, container) in list(spec, "ephemeralContainers").iter().enumerate() {
        let at = path.index(index);
        check_common(errors, container, &at, around);
        check_image(errors, container, &at);
        let name = text(container, "name");
        if !seen.insert(name) {
            errors.push(Error::duplicate(&at.child("name"), name));
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(Error::not_found(&at.child("targetContainerName"), target));
        }
        for field in ["ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"]
            .iter()
            .chain(&["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"])
        {
            let set = present(container, field).is_some_and(|value| {
                value.as_object().is_none_or(|map| !map.is_empty())
                    && value.as_array().is_none_or(|list| !list.is_empty())
            });
            if set {
                errors.push(Error::forbidden(&at.child(field), FOR_EPHEMERAL));
            }
        }
        for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, field).is_empty() {
                    let at = at.child("volumeMounts").index(index).child(field);
                    errors.push(Error::forbidden(&at, FOR_EPHEMERAL));
                }
            }
        }
    }
}

/// What a pod's image must not have, although a template's may.
pub(super) fn check_image(errors: &mut Errors, container: &Value, path: &Path) {
    let image = text(container, "image");
    if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        errors.push(Error::invalid(&path.child("image"), image, why));
    }
}

fn check_common(errors: &mut Errors, container: &Value, path: &Path, around: &Surroundings<'_>) {
    match text(container, "name") {
        "" => errors.push(Error::required(&path.child("name"), "")),
        name => errors.extend(said(names::dns1123_label(name), name, &path.child("name"))),
    }
    if text(container, "image").is_empty() {
        errors.push(Error::required(&path.child("image"), ""));
    }
    let policy = text(container, "terminationMessagePolicy");
    let supported = ["File", "FallbackToLogsOnError"];
    errors.extend(required_one_of(policy, &supported, &path.child("terminationMessagePolicy")));
    check_ports(errors, container, &path.child("ports"));
    env::check(errors, container, path);
    check_mounts(errors, container, &path.child("volumeMounts"), around);
    check_devices(errors, container, &path.child("volumeDevices"), around);
    let policy = text(container, "imagePullPolicy");
    errors.extend(required_one_of(
        policy,
        &["Always", "IfNotPresent", "Never"],
        &path.child("imagePullPolicy"),
    ));
    resource_rules::check_container(errors, container, path, &around.claims);
    check_resize_policy(errors, container, &path.child("resizePolicy"), around.restart_policy);
    security::check_container(errors, container, path, around.host_users);
}

fn check_ports(errors: &mut Errors, container: &Value, path: &Path) {
    let mut seen = BTreeSet::new();
    for (index, port) in list(container, "ports").iter().enumerate() {
        let at = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let messages = names::port_name(name);
            if messages.is_empty() && !seen.insert(name) {
                errors.push(Error::duplicate(&at.child("name"), name));
            }
            errors.extend(said(messages, name, &at.child("name")));
        }
        let inside = number(port, "containerPort").unwrap_or(0);
        if inside == 0 {
            errors.push(Error::required(&at.child("containerPort"), ""));
        }
        for (field, value) in
            [("containerPort", inside), ("hostPort", number(port, "hostPort").unwrap_or(0))]
        {
            if value != 0 {
                let messages = names::port_number(value).into_iter();
                let at = at.child(field);
                errors.extend(messages.map(|message| Error::invalid(&at, value, message)));
            }
        }
        let supported = ["SCTP", "TCP", "UDP"];
        errors.extend(required_one_of(text(port, "protocol"), &supported, &at.child("protocol")));
    }
}

/// Checks that no two ports are the same port of the host.
fn check_host_ports(errors: &mut Errors, containers: &[Value], path: &Path) {
    let mut seen = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (port_index, port) in list(container, "ports").iter().enumerate() {
            let Some(number) = number(port, "hostPort").filter(|number| *number != 0) else {
                continue;
            };
            let key = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            let at = path.index(index).child("ports").index(port_index).child("hostPort");
            if seen.contains(&key) {
                errors.push(Error::duplicate(&at, key));
            } else {
                seen.insert(key);
            }
        }
    }
}

fn check_mounts(errors: &mut Errors, container: &Value, path: &Path, around: &Surroundings<'_>) {
    let devices = list(container, "volumeDevices");
    let mut seen = BTreeSet::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let at = path.index(index);
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(Error::required(&at.child("name"), ""));
        }
        if !around.volumes.contains_key(name) {
            errors.push(Error::not_found(&at.child("name"), name));
        }
        if target.is_empty() {
            errors.push(Error::required(&at.child("mountPath"), ""));
        }
        if !seen.insert(target) {
            errors.push(Error::invalid(&at.child("mountPath"), target, "must be unique"));
        }
        if devices.iter().any(|device| text(device, "name") == name) {
            let why = "must not already exist in volumeDevices";
            errors.push(Error::invalid(&at.child("name"), name, why));
        }
        if devices.iter().any(|device| text(device, "devicePath") == target) {
            let why = "must not already exist as a path in volumeDevices";
            errors.push(Error::invalid(&at.child("mountPath"), target, why));
        }
        check_mount_options(errors, container, mount, &at, path);
    }
}

/// Upstream places these faults at the list rather than at the mount.
fn check_mount_options(
    errors: &mut Errors,
    container: &Value,
    mount: &Value,
    at: &Path,
    list: &Path,
) {
    let (sub, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
    if !sub.is_empty() {
        paths::descending(errors, &list.child("subPath"), sub);
    }
    if !expression.is_empty() {
        if !sub.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            errors.push(Error::invalid(&at.child("subPathExpr"), expression, why));
        }
        paths::descending(errors, &list.child("subPathExpr"), expression);
    }
    let propagation = text(mount, "mountPropagation");
    if !propagation.is_empty() {
        let at = list.child("mountPropagation");
        errors.extend(required_one_of(
            propagation,
            &["Bidirectional", "HostToContainer", "None"],
            &at,
        ));
        let privileged = flag(&container["securityContext"], "privileged");
        if propagation == "Bidirectional" && !privileged {
            let why = "Bidirectional mount propagation is available only to privileged containers";
            errors.push(Error::forbidden(&at, why));
        }
    }
    let at = list.child("recursiveReadOnly");
    match text(mount, "recursiveReadOnly") {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !flag(mount, "readOnly") {
                let why = "may only be specified when readOnly is true";
                errors.push(Error::forbidden(&at, why));
            }
            if !matches!(propagation, "" | "None") {
                let why = "may only be specified when mountPropagation is None or not specified";
                errors.push(Error::forbidden(&at, why));
            }
        }
        other => {
            let supported = ["Disabled", "Enabled", "IfPossible"];
            errors.push(Error::not_supported(&at, other, &supported));
        }
    }
}

fn check_devices(errors: &mut Errors, container: &Value, path: &Path, around: &Surroundings<'_>) {
    let mounts = list(container, "volumeMounts");
    let (mut names, mut targets) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in list(container, "volumeDevices").iter().enumerate() {
        let at = path.index(index);
        let (name, target) = (text(device, "name"), text(device, "devicePath"));
        let (name_at, target_at) = (at.child("name"), at.child("devicePath"));
        if name.is_empty() {
            errors.push(Error::required(&name_at, ""));
        }
        if names.contains(name) {
            errors.push(Error::invalid(&name_at, name, "must be unique"));
        }
        match around.volumes.get(name) {
            None => errors.push(Error::not_found(&name_at, name)),
            Some(volume) => {
                let claimed = ["persistentVolumeClaim", "ephemeral"];
                if claimed.iter().all(|source| present(volume, source).is_none()) {
                    let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    errors.push(Error::invalid(&name_at, name, why));
                }
            }
        }
        if target.is_empty() {
            errors.push(Error::required(&target_at, ""));
        }
        if targets.contains(target) {
            errors.push(Error::invalid(&target_at, target, "must be unique"));
        }
        if target.split('/').any(|part| part == "..") {
            let why = "can not contain backsteps ('..')";
            errors.push(Error::invalid(&target_at, target, why));
        } else {
            targets.insert(target);
        }
        if mounts.iter().any(|mount| text(mount, "name") == name) {
            let why = "must not already exist in volumeMounts";
            errors.push(Error::invalid(&name_at, name, why));
        }
        if mounts.iter().any(|mount| text(mount, "mountPath") == target) {
            let why = "must not already exist as a path in volumeMounts";
            errors.push(Error::invalid(&target_at, target, why));
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn check_resize_policy(errors: &mut Errors, container: &Value, path: &Path, restart_policy: &str) {
    let mut seen = BTreeSet::new();
    for (index, policy) in list(container, "resizePolicy").iter().enumerate() {
        let (name, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if !seen.insert(name) {
            errors.push(Error::duplicate(&path.index(index), name));
        }
        errors.extend(required_one_of(name, &["cpu", "memory"], path));
        errors.extend(required_one_of(restart, &["NotRequired", "RestartContainer"], path));
        if restart_policy == "Never" && restart != "NotRequired" {
            let why = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            errors.push(Error::invalid(path, restart, why));
        }
    }
}

/// Checks a container's own restart policy and the rules that go with it.
fn check_restart_policy(errors: &mut Errors, container: &Value, path: &Path) {
    let rules = list(container, "restartPolicyRules");
    let at = path.child("restartPolicy");
    match container.get("restartPolicy").and_then(Value::as_str) {
        None if rules.is_empty() => return,
        None => {
            let why = "must specify restartPolicy when restart rules are used";
            errors.push(Error::required(&at, why));
        }
        Some(policy) => {
            let supported = ["Always", "Never", "OnFailure"];
            if !supported.contains(&policy) {
                errors.push(Error::not_supported(&at, policy, &supported));
            }
        }
    }
    let path = path.child("restartPolicyRules");
    if rules.len() > RULES_MAX {
        errors.push(Error::too_long(&path, RULES_MAX));
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = path.index(index);
        let action = text(rule, "action");
        if action != "Restart" {
            errors.push(Error::not_supported(&at.child("action"), action, &["Restart"]));
        }
        let Some(codes) = present(rule, "exitCodes") else {
            errors.push(Error::required(&at.child("exitCodes"), "must be specified"));
            continue;
        };
        let operator = text(codes, "operator");
        let at = at.child("exitCodes");
        if !matches!(operator, "In" | "NotIn") {
            let supported = ["In", "NotIn"];
            errors.push(Error::not_supported(&at.child("operator"), operator, &supported));
        }
        if list(codes, "values").len() > EXIT_CODES_MAX {
            errors.push(Error::too_long(&at.child("values"), EXIT_CODES_MAX));
        }
    }
}

/// Checks `resourceClaims`.
pub(super) fn check_claims(errors: &mut Errors, spec: &Value, path: &Path) {
    let mut seen = BTreeSet::new();
    for (index, claim) in list(spec, "resourceClaims").iter().enumerate() {
        let at = path.index(index);
        match text(claim, "name") {
            "" => errors.push(Error::required(&at.child("name"), "")),
            name if !seen.insert(name) => errors.push(Error::duplicate(&at.child("name"), name)),
            name => errors.extend(said(names::dns1123_label(name), name, &at.child("name"))),
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let given = sources.map(|field| claim.get(field).and_then(Value::as_str));
        // Upstream shows its internal form, whose fields have Go's names.
        let shown = json!({"Name": text(claim, "name"), "ResourceClaimName": given[0],
            "ResourceClaimTemplateName": given[1]});
        match given {
            [Some(_), Some(_)] => {
                let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.push(Error::invalid(&at, shown, why));
            }
            [None, None] => {
                let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.push(Error::invalid(&at, shown, why));
            }
            _ => {}
        }
        for (field, name) in sources.into_iter().zip(given) {
            if let Some(name) = name {
                let messages = names::name_is_dns_subdomain(name, names::NameUse::Whole);
                errors.extend(said(messages, name, &at.child(field)));
            }
        }
    }
}
