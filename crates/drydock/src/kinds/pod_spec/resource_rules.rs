//! Which resources may be asked for, and how much.

use object::field::{Error, Errors, Path};
use object::names;
use object::quantity::Quantity;
use serde_json::Value;

use super::resources::{aggregate, amounts};
use crate::kinds::fields::{list, present, text};
use crate::kinds::rules::said;

const HUGE_PAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";
const NATIVE: &str = "kubernetes.io/";

/// Standard resources of which a part can be had.
const DIVISIBLE: [&str; 11] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "storage",
    "requests.storage",
];

/// Standard resources that are counted.
const WHOLE: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_standard(name: &str) -> bool {
    DIVISIBLE.contains(&name) || WHOLE.contains(&name)
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains(NATIVE)
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(REQUESTS)
        && names::qualified_name(&format!("{REQUESTS}{name}")).is_empty()
}

/// Whether more of it may be promised than there is.
pub(crate) fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// Whether a pod as a whole can ask for it.
pub(crate) fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_pages(name)
}

/// Whether a pod as a whole can ask for it, and more of it may be promised than there is.
pub(crate) fn is_pod_level_overcommitted(name: &str) -> bool {
    is_pod_level(name) && may_be_overcommitted(name)
}

/// Whether it is huge pages, of which a pod as a whole can have a limit.
pub(crate) fn is_pod_level_pages(name: &str) -> bool {
    is_huge_pages(name)
}

/// Whose resources they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Container,
    Pod,
    /// Anything that can be counted.
    Anything,
}

/// Checks the name of a resource that a container can ask for.
pub(crate) fn check_container_name(errors: &mut Errors, name: &str, path: &Path) {
    check_name(errors, name, path, Owner::Container);
}

/// Checks the name of a resource of whatever sort.
pub(crate) fn check_standard_name(errors: &mut Errors, name: &str, path: &Path) {
    check_name(errors, name, path, Owner::Anything);
}

fn check_name(errors: &mut Errors, name: &str, path: &Path, owner: Owner) {
    let messages = names::qualified_name(name);
    let unqualified = !messages.is_empty();
    errors.extend(said(messages, name, path));
    let quota_pages = is_huge_pages(name) || name.starts_with("requests.hugepages-");
    let bare = !name.contains('/');
    let unknown = bare && !is_standard(name) && !quota_pages;
    if !unqualified && unknown {
        let why = "must be a standard resource type or fully qualified";
        errors.push(Error::invalid(path, name, why));
    }
    match owner {
        Owner::Anything => {}
        Owner::Pod => {
            if !unqualified && !unknown && !is_pod_level(name) {
                let supported = ["cpu", "hugepages-", "memory"];
                errors.push(Error::not_supported(path, name, &supported));
            }
        }
        Owner::Container if bare => {
            if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !is_huge_pages(name) {
                errors.push(Error::invalid(
                    path,
                    name,
                    "must be a standard resource for containers",
                ));
            }
        }
        Owner::Container => {
            if !is_native(name) && !is_extended(name) {
                let why = "doesn't follow extended resource name standard";
                errors.push(Error::invalid(path, name, why));
            }
        }
    }
}

/// Checks one amount of a resource.
pub(crate) fn check_amount(errors: &mut Errors, name: &str, amount: &Quantity, path: &Path) {
    if amount.sign() < 0 {
        let why = "must be greater than or equal to 0";
        errors.push(Error::invalid(path, amount.to_string(), why));
    }
    let whole = WHOLE.contains(&name) || is_extended(name);
    if whole && amount.milli_value() % 1000 != 0 {
        errors.push(Error::invalid(path, amount.to_string(), "must be an integer"));
    }
}

fn check_pages(errors: &mut Errors, name: &str, amount: &Quantity, path: &Path) {
    let Some(size) = name.strip_prefix(HUGE_PAGES) else { return };
    let size = size.parse::<Quantity>().ok();
    let divisible = size.is_some_and(|size| {
        size.sign() > 0
            && size.milli_value() % 1000 == 0
            && amount.value().checked_rem(size.value()) == Some(0)
    });
    if !divisible {
        let why = format!("{amount} is not positive integer multiple of {name}");
        errors.push(Error::invalid(path, amount.to_string(), why));
    }
}

fn check_requirements(
    errors: &mut Errors,
    resources: &Value,
    path: &Path,
    owner: Owner,
    claims: &[&str],
) {
    let (limits, requests) = (amounts(resources, "limits"), amounts(resources, "requests"));
    let (limits_at, requests_at) = (path.child("limits"), path.child("requests"));
    for (name, amount) in &limits {
        let at = limits_at.key(name);
        check_name(errors, name, &at, owner);
        check_amount(errors, name, amount, &at);
        check_pages(errors, name, amount, &at);
    }
    for (name, amount) in &requests {
        let at = requests_at.key(name);
        check_name(errors, name, &at, owner);
        check_amount(errors, name, amount, &at);
        match limits.get(name) {
            Some(limit) if amount != limit && !may_be_overcommitted(name) => {
                let why = format!("must be equal to {name} limit of {limit}");
                errors.push(Error::invalid(&requests_at, amount.to_string(), why));
            }
            Some(limit) if amount > limit => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(Error::invalid(&requests_at, amount.to_string(), why));
            }
            None if !may_be_overcommitted(name) => {
                let why = "Limit must be set for non overcommitable resources";
                errors.push(Error::required(&limits_at, why));
            }
            _ => {}
        }
        check_pages(errors, name, amount, &at);
    }
    let named = |wanted: fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|n| wanted(n));
    if named(is_huge_pages) && !named(|name| matches!(name, "cpu" | "memory")) {
        errors.push(Error::forbidden(path, "HugePages require cpu or memory"));
    }
    check_claims(errors, resources, &path.child("claims"), claims);
}

fn check_claims(errors: &mut Errors, resources: &Value, path: &Path, known: &[&str]) {
    let mut seen: Vec<String> = Vec::new();
    for (index, claim) in list(resources, "claims").iter().enumerate() {
        let at = path.index(index);
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.push(Error::required(&at, ""));
            continue;
        }
        if seen.iter().any(|one| one == name) {
            errors.push(Error::duplicate(&at, name));
        } else {
            let key =
                if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
            if !request.is_empty() {
                errors.extend(said(names::dns1123_label(request), request, &at.child("request")));
            }
            if seen.contains(&key) {
                errors.push(Error::duplicate(&at, key.as_str()));
            } else if request.is_empty() {
                let parts =
                    seen.iter().filter(|one| one.split_once('/').is_some_and(|(n, _)| n == name));
                errors.extend(parts.map(|_| Error::duplicate(&at, name)));
            }
            seen.push(key);
        }
        if !known.contains(&name) {
            let mut error = Error::not_found(&at, name);
            let listed = if known.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", known.join(", "))
            };
            error.detail = format!("must be one of the names in pod.spec.resourceClaims{listed}");
            errors.push(error);
        }
    }
}

/// Checks the resources of a container.
pub(super) fn check_container(
    errors: &mut Errors,
    container: &Value,
    path: &Path,
    claims: &[&str],
) {
    if let Some(resources) = present(container, "resources") {
        let at = path.child("resources");
        check_requirements(errors, resources, &at, Owner::Container, claims);
    }
}

/// Checks what running the pod itself costs.
pub(super) fn check_overhead(errors: &mut Errors, spec: &Value, path: &Path) {
    if let Some(overhead) = present(spec, "overhead") {
        let resources = serde_json::json!({"limits": overhead});
        check_requirements(errors, &resources, &path.child("overhead"), Owner::Container, &[]);
    }
}

/// Checks the resources of a pod as a whole against those of its containers.
pub(super) fn check_pod(errors: &mut Errors, spec: &Value, path: &Path, claims: &[&str]) {
    let Some(resources) = present(spec, "resources") else { return };
    let path = path.child("resources");
    if spec.pointer("/os/name").and_then(Value::as_str) == Some("windows") {
        errors.push(Error::forbidden(&path, "may not be set for a windows pod"));
        return;
    }
    if present(resources, "claims").is_some() {
        let why = "claims may not be set for Resources at pod-level";
        errors.push(Error::forbidden(&path.child("claims"), why));
    }
    check_requirements(errors, resources, &path, Owner::Pod, claims);
    let (limits, requests) = (amounts(resources, "limits"), amounts(resources, "requests"));
    for (name, sum) in aggregate(spec, "requests") {
        if let Some(own) = requests.get(&name).filter(|own| sum > **own) {
            let why =
                format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.push(Error::invalid(&path.child("requests").key(&name), own.to_string(), why));
        }
    }
    for (name, sum) in aggregate(spec, "limits").into_iter().filter(|(name, _)| is_huge_pages(name))
    {
        if let Some(own) = limits.get(&name).filter(|own| sum > **own) {
            let why =
                format!("must be greater than or equal to aggregate container limits of {sum}");
            errors.push(Error::invalid(&path.child("limits").key(&name), own.to_string(), why));
        }
    }
    for (index, container) in list(spec, "containers").iter().enumerate() {
        for (name, limit) in amounts(&container["resources"], "limits") {
            if let Some(own) = limits.get(&name).filter(|own| limit > **own) {
                let at = path.child("containers").index(index).key(&name).child("limits");
                let why = format!("must be less than or equal to pod limits of {own}");
                errors.push(Error::invalid(&at, limit.to_string(), why));
            }
        }
    }
}
