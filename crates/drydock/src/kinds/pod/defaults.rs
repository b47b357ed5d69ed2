//! What a user may leave out of a pod, beyond what may be left out of a template.

use serde_json::{Map, Value, json};

use crate::kinds::fields::{
    flag, list, list_mut, number, present, present_mut, remove, set_absent, set_empty, text,
};
use crate::kinds::pod_spec::default_pod_spec;
use crate::kinds::pod_spec::resource_rules::{
    is_pod_level, is_pod_level_overcommitted, is_pod_level_pages,
};
use crate::kinds::pod_spec::resources::{Amounts, aggregate, amounts, to_value};

/// Fills in a pod.
pub(super) fn default_pod(pod: &mut Value) {
    if !pod["spec"].is_object() {
        pod["spec"] = json!({});
    }
    let spec = &mut pod["spec"];
    for name in ["containers", "initContainers"] {
        list_mut(spec, name).for_each(requests_from_limits);
    }
    pod_level_limits(spec);
    pod_level_requests(spec);
    set_absent(spec, "enableServiceLinks", true);
    if flag(spec, "hostNetwork") {
        for name in ["containers", "initContainers"] {
            for container in list_mut(spec, name) {
                for port in list_mut(container, "ports") {
                    let inside = number(port, "containerPort").unwrap_or(0);
                    set_empty(port, "hostPort", inside);
                }
            }
        }
    }
    default_pod_spec(spec);
    if let Some(status) = present_mut(pod, "status") {
        one_address(status);
        // Amounts of the pod as a whole are off where pods are resized by container.
        remove(status, "resources");
        remove(status, "allocatedResources");
    }
}

/// Who limits and does not ask, asks for the limit.
fn requests_from_limits(container: &mut Value) {
    let limits = container.pointer("/resources/limits").and_then(Value::as_object).cloned();
    let Some(limits) = limits else { return };
    let requests = &mut container["resources"]["requests"];
    if !requests.is_object() {
        *requests = Value::Object(Map::new());
    }
    for (name, limit) in limits {
        set_absent(requests, &name, limit);
    }
}

/// Limits of huge pages for the pod are those of its containers, where the pod has any word.
fn pod_level_limits(spec: &mut Value) {
    let Some(resources) = present(spec, "resources") else { return };
    let (mut limits, requests) = (amounts(resources, "limits"), amounts(resources, "requests"));
    if limits.is_empty() && requests.is_empty() {
        return;
    }
    for (name, limit) in aggregate(spec, "limits") {
        if is_pod_level_pages(&name) && !requests.contains_key(&name) {
            limits.entry(name).or_insert(limit);
        }
    }
    set_amounts(spec, "limits", &limits);
}

/// A pod that has limits asks for what its containers ask for, else for the limits.
fn pod_level_requests(spec: &mut Value) {
    let Some(resources) = present(spec, "resources") else { return };
    let limits = amounts(resources, "limits");
    if limits.is_empty() {
        return;
    }
    let mut requests = amounts(resources, "requests");
    for (name, amount) in aggregate(spec, "requests") {
        if is_pod_level_overcommitted(&name) {
            requests.entry(name).or_insert(amount);
        }
    }
    for (name, limit) in limits {
        if is_pod_level(&name) {
            requests.entry(name).or_insert(limit);
        }
    }
    set_amounts(spec, "requests", &requests);
}

fn set_amounts(spec: &mut Value, which: &str, amounts: &Amounts) {
    if !amounts.is_empty() {
        spec["resources"][which] = to_value(amounts);
    }
}

/// The one address and the list of addresses say the same; the one wins.
fn one_address(status: &mut Value) {
    let one = text(status, "podIP").to_owned();
    let first = list(status, "podIPs").first().map(|entry| text(entry, "ip").to_owned());
    match first {
        Some(first) if one.is_empty() => status["podIP"] = first.into(),
        Some(first) if first == one => {}
        _ if one.is_empty() => {}
        _ => status["podIPs"] = json!([{"ip": one}]),
    }
}
