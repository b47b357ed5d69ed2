//! What must be true of a pod's spec, field by field in kube-apiserver's order.

use object::field::{Error, Errors, Path};
use object::names::{self, NameUse};
use object::taint::{Toleration, validate_tolerations};
use serde_json::{Map, Value};

use super::containers::{self, Surroundings};
use super::{affinity, env, network, resource_rules, security, spread, volumes};
use crate::kinds::fields::{list, map, number, text};
use crate::kinds::pod::MIRROR;
use crate::kinds::rules::{required_one_of, said};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Where a spec is.
pub(crate) enum Home<'a> {
    /// In a pod of this name.
    Pod {
        /// The pod's name.
        name: &'a str,
    },
    /// In the template of a workload.
    Template,
}

/// What is wrong with the spec of a template.
pub(crate) fn validate_pod_spec(spec: &Value, path: &Path) -> Errors {
    validate_spec(spec, &Home::Template, path)
}

/// What is wrong with a spec.
pub(crate) fn validate_spec(spec: &Value, home: &Home<'_>, path: &Path) -> Errors {
    let errors = &mut Errors::new();
    let grace = number(spec, "terminationGracePeriodSeconds");
    if grace.is_none() {
        errors.push(Error::required(&path.child("terminationGracePeriodSeconds"), ""));
    }
    let volumes = volumes::check(errors, spec, &path.child("volumes"), home);
    containers::check_claims(errors, spec, &path.child("resourceClaims"));
    let claims = list(spec, "resourceClaims").iter().map(|claim| text(claim, "name"));
    let mut claims: Vec<&str> = claims.filter(|name| !name.is_empty()).collect();
    claims.sort_unstable();
    claims.dedup();
    let around = Surroundings {
        volumes,
        claims,
        grace,
        restart_policy: text(spec, "restartPolicy"),
        host_users: spec.get("hostUsers").and_then(Value::as_bool).unwrap_or(true),
    };
    containers::check_regular(errors, spec, &path.child("containers"), &around);
    containers::check_init(errors, spec, &path.child("initContainers"), &around);
    containers::check_ephemeral(errors, spec, &path.child("ephemeralContainers"), &around);
    resource_rules::check_pod(errors, spec, path, &around.claims);
    network::host_ports(errors, spec, path, matches!(home, Home::Pod { .. }));
    let policies = ["Always", "OnFailure", "Never"];
    errors.extend(required_one_of(around.restart_policy, &policies, &path.child("restartPolicy")));
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.extend(required_one_of(text(spec, "dnsPolicy"), &policies, &path.child("dnsPolicy")));
    if let Some(selector) = map(spec, "nodeSelector") {
        errors.extend(names::validate_labels(selector, &path.child("nodeSelector")));
    }
    security::check_pod(errors, spec, path);
    affinity::check(errors, spec, path);
    network::dns(errors, spec, path);
    check_gates(errors, spec, path);
    spread::check(errors, spec, path);
    security::check_host_users(errors, spec, path);
    network::hostname_override(errors, spec, path);
    check_names(errors, spec, path);
    check_rest(errors, spec, path);
    std::mem::take(errors)
}

fn check_gates(errors: &mut Errors, spec: &Value, path: &Path) {
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        let at = path.child("readinessGates").index(index).child("conditionType");
        let name = text(gate, "conditionType");
        errors.extend(said(names::qualified_name(name), name, &at));
    }
    let mut seen = Vec::new();
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let at = path.child("schedulingGates").index(index);
        let name = text(gate, "name");
        errors.extend(said(names::qualified_name(name), name, &at));
        if seen.contains(&name) {
            errors.push(Error::duplicate(&at, name));
        }
        seen.push(name);
    }
}

/// Checks the names of other objects and of the pod itself in the network.
fn check_names(errors: &mut Errors, spec: &Value, path: &Path) {
    for field in ["serviceAccountName", "nodeName"] {
        check_subdomain(errors, spec, field, path);
    }
    if let Some(seconds) = number(spec, "activeDeadlineSeconds") {
        let at = path.child("activeDeadlineSeconds");
        let messages = names::in_range(seconds, 1, i64::from(i32::MAX)).into_iter();
        errors.extend(messages.map(|message| Error::invalid(&at, seconds, message)));
    }
    for field in ["hostname", "subdomain"] {
        let name = text(spec, field);
        if !name.is_empty() {
            errors.extend(said(names::dns1123_label(name), name, &path.child(field)));
        }
    }
}

fn check_subdomain(errors: &mut Errors, spec: &Value, field: &str, path: &Path) {
    let name = text(spec, field);
    if !name.is_empty() {
        let messages = names::name_is_dns_subdomain(name, NameUse::Whole);
        errors.extend(said(messages, name, &path.child(field)));
    }
}

fn check_rest(errors: &mut Errors, spec: &Value, path: &Path) {
    errors.extend(validate_tolerations(&tolerations(spec), &path.child("tolerations")));
    network::host_aliases(errors, spec, path);
    for field in ["priorityClassName", "runtimeClassName"] {
        check_subdomain(errors, spec, field, path);
    }
    if let Some(policy) = spec.get("preemptionPolicy").and_then(Value::as_str) {
        let supported = ["PreemptLowerPriority", "Never"];
        errors.extend(required_one_of(policy, &supported, &path.child("preemptionPolicy")));
    }
    resource_rules::check_overhead(errors, spec, path);
    security::check_os(errors, spec, path);
    env::check_file_volumes(errors, spec, path);
}

/// The tolerations of a spec.
pub(crate) fn tolerations(spec: &Value) -> Vec<Toleration> {
    let given = list(spec, "tolerations").iter();
    given.filter_map(|one| serde_json::from_value(one.clone()).ok()).collect()
}

/// What is wrong with the annotations that mean something to a pod.
pub(crate) fn validate_annotations(
    annotations: Option<&Map<String, Value>>,
    spec: &Value,
    path: &Path,
) -> Errors {
    let mut errors = Errors::new();
    let text_of = |key: &str| annotations.and_then(|all| all.get(key)).and_then(Value::as_str);
    if let Some(value) = text_of(MIRROR)
        && text(spec, "nodeName").is_empty()
    {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(Error::invalid(&path.key(MIRROR), value, why));
    }
    if let Some(cost) = text_of(DELETION_COST)
        && !is_deletion_cost(cost)
    {
        errors.push(Error::invalid(&path.key(DELETION_COST), cost, "must be a 32bit integer"));
    }
    errors
}

/// A number without plus sign or leading zeros.
fn is_deletion_cost(cost: &str) -> bool {
    let digits = cost.strip_prefix('-').unwrap_or(cost);
    let plain = cost == "0" || (!digits.starts_with(['0', '+']) && !cost.starts_with('+'));
    plain && cost.parse::<i32>().is_ok()
}

/// What is wrong with the images of a pod, beyond what is wrong in a template.
pub(crate) fn validate_images(spec: &Value, path: &Path) -> Errors {
    let mut errors = Errors::new();
    for name in ["containers", "initContainers"] {
        for (index, container) in list(spec, name).iter().enumerate() {
            containers::check_image(&mut errors, container, &path.child(name).index(index));
        }
    }
    errors
}
