//! What the node and the scheduler say of a pod.

use object::field::{Error, Errors, Path};
use object::names::{self, NameUse};
use serde_json::{Value, json};

use crate::kinds::fields::{copy, list, list_mut, number, present, text};
use crate::kinds::pod_spec::resources::is_sidecar;
use crate::kinds::pod_spec::{ip_faults, is_ipv6};

const NOT_NEGATIVE: &str = "must be a non-negative integer";
const STILL_ENDED: &str = "may not be transitioned to non-terminated state";

/// Carries over what a client forgets.
pub(super) fn prepare(pod: &mut Value, old: &Value) {
    copy(&mut pod["metadata"], &old["metadata"], "ownerReferences");
    if !pod["status"].is_object() {
        pod["status"] = json!({});
    }
    let (status, before) = (&mut pod["status"], &old["status"]);
    if text(status, "qosClass").is_empty() {
        copy(status, before, "qosClass");
    }
    if number(status, "observedGeneration").unwrap_or(0) == 0 {
        copy(status, before, "observedGeneration");
    }
    let mut known: Vec<&Value> = list(before, "conditions").iter().collect();
    for condition in list_mut(status, "conditions") {
        // Conditions of one type are matched in order.
        let same = known.iter().position(|one| one["type"] == condition["type"]);
        let Some(found) = same.map(|index| known.remove(index)) else { continue };
        if number(condition, "observedGeneration").unwrap_or(0) == 0 {
            copy(condition, found, "observedGeneration");
        }
    }
}

/// Checks a status against what it was.
pub(super) fn validate(pod: &Value, old: &Value) -> Errors {
    let errors = &mut Errors::new();
    let (status, before) = (&pod["status"], &old["status"]);
    let path = Path::new("status");
    check_conditions(errors, status, &path.child("conditions"));
    check_nomination(errors, old, status, before, &path.child("nominatedNodeName"));
    if let Some(generation) = number(status, "observedGeneration").filter(|value| *value < 0) {
        let at = path.child("observedGeneration");
        errors.push(Error::invalid(&at, generation, NOT_NEGATIVE));
    }
    if text(status, "qosClass") != text(before, "qosClass") {
        let why = "field is immutable";
        errors.push(Error::invalid(&path.child("qosClass"), text(status, "qosClass"), why));
    }
    for (statuses, containers) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ] {
        check_states(errors, status, before, &old["spec"], (statuses, containers));
    }
    check_claims(errors, status, &pod["spec"], &path.child("resourceClaimStatuses"));
    check_addresses(errors, status, before, "podIPs");
    if let Some(first) = list(status, "hostIPs").first() {
        let ip = text(first, "ip");
        if text(status, "hostIP") != ip {
            let at = path.child("hostIPs").index(0).child("ip");
            errors.push(Error::invalid(&at, ip, "must be equal to `hostIP`"));
        }
        check_addresses(errors, status, before, "hostIPs");
    }
    std::mem::take(errors)
}

fn check_conditions(errors: &mut Errors, status: &Value, path: &Path) {
    for (index, condition) in list(status, "conditions").iter().enumerate() {
        let at = path.index(index);
        if let Some(value) = number(condition, "observedGeneration").filter(|value| *value < 0) {
            errors.push(Error::invalid(&at.child("observedGeneration"), value, NOT_NEGATIVE));
        }
        let kind = text(condition, "type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            let messages = names::qualified_name(kind).into_iter();
            let at = at.child("Type");
            errors.extend(messages.map(|message| Error::invalid(&at, kind, message)));
        }
    }
}

fn check_nomination(errors: &mut Errors, old: &Value, status: &Value, before: &Value, at: &Path) {
    let node = text(status, "nominatedNodeName");
    if node.is_empty() || node == text(before, "nominatedNodeName") {
        return;
    }
    let messages = names::name_is_dns_subdomain(node, NameUse::Whole).into_iter();
    errors.extend(messages.map(|message| Error::invalid(at, node, message)));
    if !text(&old["spec"], "nodeName").is_empty() {
        let why = "may not be set on pods that are already bound to a node";
        errors.push(Error::forbidden(at, why));
    }
}

/// A container that has ended for good stays so.
fn check_states(
    errors: &mut Errors,
    status: &Value,
    before: &Value,
    spec: &Value,
    (statuses, containers): (&str, &str),
) {
    let path = Path::new("status").child(statuses);
    for (index, old) in list(before, statuses).iter().enumerate() {
        let Some(ended) = present(&old["state"], "terminated") else { continue };
        let name = text(old, "name");
        let runs = list(status, statuses)
            .iter()
            .any(|new| text(new, "name") == name && present(&new["state"], "terminated").is_none());
        let container = list(spec, containers).iter().find(|one| text(one, "name") == name);
        let code = number(ended, "exitCode").unwrap_or(0);
        let may = container.is_some_and(|container| may_restart(container, spec, code));
        if runs && !may {
            errors.push(Error::forbidden(&path.index(index).child("state"), STILL_ENDED));
        }
    }
}

/// Whether a container may run again after it ended with this code.
fn may_restart(container: &Value, spec: &Value, code: i64) -> bool {
    let own = text(container, "restartPolicy");
    if !own.is_empty() {
        let matching = list(container, "restartPolicyRules").iter().any(|rule| {
            let codes = &rule["exitCodes"];
            let listed = list(codes, "values").iter().any(|value| value.as_i64() == Some(code));
            match text(codes, "operator") {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        });
        if matching || is_sidecar(container) {
            return true;
        }
    }
    match if own.is_empty() { text(spec, "restartPolicy") } else { own } {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    }
}

fn check_claims(errors: &mut Errors, status: &Value, spec: &Value, path: &Path) {
    let mut seen = Vec::new();
    for (index, claim) in list(status, "resourceClaimStatuses").iter().enumerate() {
        let at = path.index(index).child("name");
        let name = text(claim, "name");
        if !list(spec, "resourceClaims").iter().any(|one| text(one, "name") == name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(Error::invalid(&at, name, why));
        }
        if seen.contains(&name) {
            errors.push(Error::duplicate(&at, name));
        }
        seen.push(name);
        if let Some(claim) = claim.get("resourceClaimName").and_then(Value::as_str) {
            let messages = names::name_is_dns_subdomain(claim, NameUse::Whole).into_iter();
            errors.extend(messages.map(|message| Error::invalid(&at, claim, message)));
        }
    }
}

fn check_addresses(errors: &mut Errors, status: &Value, before: &Value, field: &str) {
    let path = Path::new("status").child(field);
    let addresses: Vec<&str> = list(status, field).iter().map(|one| text(one, "ip")).collect();
    for (index, address) in addresses.iter().enumerate() {
        if !list(before, field).iter().any(|one| text(one, "ip") == *address) {
            errors.extend(ip_faults(&path.index(index), address));
        }
    }
    if addresses.len() < 2 {
        return;
    }
    let sixes = addresses.iter().filter(|address| is_ipv6(address)).count();
    let one_each = sixes > 0 && sixes < addresses.len();
    if !one_each || addresses.len() > 2 {
        let shown: Vec<Value> = addresses.iter().map(|address| json!({"IP": address})).collect();
        let why = "may specify no more than one IP for each IP family";
        errors.push(Error::invalid(&path, shown, why));
    }
}
