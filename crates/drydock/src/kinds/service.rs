//! Services.
//!
//! What a service is given from finite pools (addresses and ports of nodes) needs the
//! other services, so it is given by admission; this file knows the rules that need
//! the service alone.

mod validation;

use jiff::Timestamp;
use object::field::Errors;
use serde_json::{Value, json};

use super::cells::{AGE, Cell, NAME, cell, labels, text_or, wide};
use super::fields::{
    copy, list, list_mut, number, present, remove, set_absent, set_empty, text, texts,
};
use super::strategy::{Selectable, Strategy};
use crate::admission::Plugin;

pub(crate) use validation::address_errors;

/// How long a client stays with an endpoint when nobody says.
const AFFINITY_SECONDS: u32 = 10_800;

/// What stands for the address of a service that has none.
const HEADLESS: &str = "None";

/// A name and an address for pods.
pub(super) struct Service;

const TABLE: &[Cell] = &[
    NAME,
    cell("Type", "string", |service, _| text_or(&service["spec"]["type"], "")),
    cell("Cluster-IP", "string", |service, _| text_or(&service["spec"]["clusterIPs"][0], "<none>")),
    cell("External-IP", "string", |service, _| external(service).into()),
    cell("Port(s)", "string", |service, _| ports(&service["spec"]).into()),
    AGE,
    wide("Selector", "string", |service, _| labels(&service["spec"]["selector"]).into()),
];

fn external(service: &Value) -> String {
    let spec = &service["spec"];
    let given: Vec<&str> = texts(spec, "externalIPs").collect();
    match text(spec, "type") {
        "ClusterIP" | "NodePort" if given.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => given.join(","),
        "LoadBalancer" => {
            let ingress = list(&service["status"]["loadBalancer"], "ingress");
            let address = |one: &Value| match text(one, "ip") {
                "" => text(one, "hostname").to_owned(),
                address => address.to_owned(),
            };
            let mut shown: Vec<String> =
                ingress.iter().map(address).filter(|address| !address.is_empty()).collect();
            shown.sort();
            shown.dedup();
            shown.extend(given.into_iter().map(str::to_owned));
            if shown.is_empty() { "<pending>".to_owned() } else { shown.join(",") }
        }
        "ExternalName" => text(spec, "externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(spec: &Value) -> String {
    let shown = list(spec, "ports").iter().map(|port| {
        let (own, protocol) = (number(port, "port").unwrap_or(0), text(port, "protocol"));
        match number(port, "nodePort") {
            Some(of_node) if of_node > 0 => format!("{own}:{of_node}/{protocol}"),
            _ => format!("{own}/{protocol}"),
        }
    });
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() { "<none>".to_owned() } else { shown.join(",") }
}

/// Whether a service has no address of its own.
pub(crate) fn is_headless(service: &Value) -> bool {
    service["spec"]["clusterIPs"][0] == HEADLESS
}

/// Whether a service is a mere alias for a name elsewhere.
pub(crate) fn is_alias(service: &Value) -> bool {
    text(&service["spec"], "type") == "ExternalName"
}

/// Whether ports of the nodes lead to a service.
pub(crate) fn uses_node_ports(service: &Value) -> bool {
    matches!(text(&service["spec"], "type"), "NodePort" | "LoadBalancer")
}

/// Whether a port without a number on the nodes is to get one.
pub(crate) fn wants_node_ports(service: &Value) -> bool {
    match text(&service["spec"], "type") {
        "NodePort" => true,
        "LoadBalancer" => service["spec"]["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

/// Whether a load balancer asks each node whether it has an endpoint.
pub(crate) fn needs_health_check(service: &Value) -> bool {
    let spec = &service["spec"];
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

/// Whether clients outside the cluster can reach a service.
fn is_reachable_from_outside(service: &Value) -> bool {
    let spec = &service["spec"];
    match text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !list(spec, "externalIPs").is_empty(),
        _ => false,
    }
}

impl Strategy for Service {
    fn default(&self, object: &mut Value) {
        let outside = {
            let spec = &mut object["spec"];
            if spec.is_null() {
                *spec = json!({});
            }
            set_empty(spec, "sessionAffinity", "None");
            default_affinity(spec);
            set_empty(spec, "type", "ClusterIP");
            for port in list_mut(spec, "ports") {
                set_empty(port, "protocol", "TCP");
                let own = port["port"].clone();
                set_empty(port, "targetPort", own);
            }
            is_reachable_from_outside(object)
        };
        let spec = &mut object["spec"];
        if outside {
            set_empty(spec, "externalTrafficPolicy", "Cluster");
        }
        if matches!(text(spec, "type"), "ClusterIP" | "NodePort" | "LoadBalancer") {
            set_absent(spec, "internalTrafficPolicy", "Cluster");
        }
        if text(spec, "type") == "LoadBalancer" {
            set_absent(spec, "allocateLoadBalancerNodePorts", true);
            let ingress = &mut object["status"]["loadBalancer"];
            for one in list_mut(ingress, "ingress") {
                if !text(one, "ip").is_empty() {
                    set_absent(one, "ipMode", "VIP");
                }
            }
        }
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, _now: Timestamp) {
        drop_what_the_type_lacks(object, old);
    }

    fn validate(&self, object: &Value) -> Errors {
        validation::service(object)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        validation::update(object, old)
    }

    fn selectable(&self) -> &'static [Selectable] {
        &[
            Selectable {
                name: "spec.clusterIP",
                value: |service| text(&service["spec"], "clusterIP").to_owned(),
            },
            Selectable {
                name: "spec.type",
                value: |service| text(&service["spec"], "type").to_owned(),
            },
        ]
    }

    fn admission(&self) -> &'static [Plugin] {
        &[Plugin::ServiceAddresses]
    }

    fn cells(&self) -> &'static [Cell] {
        TABLE
    }
}

fn default_affinity(spec: &mut Value) {
    match text(spec, "sessionAffinity") {
        "None" => remove(spec, "sessionAffinityConfig"),
        "ClientIP" if spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null() => {
            spec["sessionAffinityConfig"] =
                json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
        }
        _ => {}
    }
}

/// Takes away what the server once gave and the new type has no use for, unless the
/// client changed it too.
fn drop_what_the_type_lacks(object: &mut Value, old: &Value) {
    let same = |object: &Value, key: &str| object["spec"].get(key) == old["spec"].get(key);
    if !is_alias(old) && is_alias(object) {
        if same(object, "clusterIP") && same(object, "clusterIPs") {
            remove(&mut object["spec"], "clusterIP");
            remove(&mut object["spec"], "clusterIPs");
        }
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            if same(object, key) {
                remove(&mut object["spec"], key);
            }
        }
    }
    if is_alias(object) {
        remove(&mut object["spec"], "internalTrafficPolicy");
    }
    let node_ports = |service: &Value| -> Vec<Option<i64>> {
        list(&service["spec"], "ports").iter().map(|port| number(port, "nodePort")).collect()
    };
    if uses_node_ports(old) && !uses_node_ports(object) && node_ports(old) == node_ports(object) {
        for port in list_mut(&mut object["spec"], "ports") {
            remove(port, "nodePort");
        }
    }
    if needs_health_check(old) && !needs_health_check(object) && same(object, "healthCheckNodePort")
    {
        remove(&mut object["spec"], "healthCheckNodePort");
    }
    let (was, is) = (text(&old["spec"], "type"), text(&object["spec"], "type"));
    if was == "LoadBalancer" && is != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(object, key) {
                remove(&mut object["spec"], key);
            }
        }
    }
    if is_reachable_from_outside(old)
        && !is_reachable_from_outside(object)
        && same(object, "externalTrafficPolicy")
    {
        remove(&mut object["spec"], "externalTrafficPolicy");
    }
    if text(&object["spec"], "type") != "LoadBalancer" {
        object["status"]["loadBalancer"] = json!({});
    }
}

/// Gives back what an update left out although the server gave it.
pub(crate) fn keep_given(object: &mut Value, old: &Value) {
    if !is_alias(old) && !is_alias(object) {
        let spec = &mut object["spec"];
        if text(spec, "clusterIP").is_empty() {
            copy(spec, &old["spec"], "clusterIP");
        }
        if list(spec, "clusterIPs").is_empty() {
            copy(spec, &old["spec"], "clusterIPs");
        }
    }
    if uses_node_ports(old) && uses_node_ports(object) {
        keep_node_ports(object, old);
    }
    if needs_health_check(old)
        && needs_health_check(object)
        && number(&object["spec"], "healthCheckNodePort").unwrap_or(0) == 0
    {
        copy(&mut object["spec"], &old["spec"], "healthCheckNodePort");
    }
}

/// Ports of the same name keep their numbers on the nodes.
fn keep_node_ports(object: &mut Value, old: &Value) {
    let used = |service: &Value| -> Vec<i64> {
        let ports = list(&service["spec"], "ports").iter();
        ports.filter_map(|port| number(port, "nodePort")).filter(|port| *port != 0).collect()
    };
    let (new_ports, old_ports) = (used(object), used(old));
    for port in list_mut(&mut object["spec"], "ports") {
        if number(port, "nodePort").unwrap_or(0) != 0 {
            continue;
        }
        let name = text(port, "name");
        let was = list(&old["spec"], "ports").iter().rfind(|other| text(other, "name") == name);
        let was = was.and_then(|other| number(other, "nodePort")).unwrap_or(0);
        if was != 0 && !(new_ports.contains(&was) && old_ports.contains(&was)) {
            port["nodePort"] = was.into();
        }
    }
}

/// Makes the singular and the plural form of the address agree where the client gave one.
pub(crate) fn agree_on_address(object: &mut Value, old: Option<&Value>) {
    let Some(old) = old else {
        let spec = &mut object["spec"];
        if !text(spec, "clusterIP").is_empty() && list(spec, "clusterIPs").is_empty() {
            spec["clusterIPs"] = json!([text(spec, "clusterIP")]);
        }
        return;
    };
    let (was, is) =
        (text(&old["spec"], "clusterIP"), text(&object["spec"], "clusterIP").to_owned());
    let same_list = list(&object["spec"], "clusterIPs") == list(&old["spec"], "clusterIPs");
    if was == is {
        if list(&object["spec"], "clusterIPs").is_empty() {
            copy(&mut object["spec"], &old["spec"], "clusterIPs");
        }
    } else if same_list {
        if is.is_empty() {
            remove(&mut object["spec"], "clusterIPs");
        } else {
            object["spec"]["clusterIPs"] = json!([is]);
        }
    }
}

/// Says which families of addresses a service has, on a cluster that has IPv4 alone.
/// What cannot be is said as errors.
pub(crate) fn set_families(object: &mut Value, old: Option<&Value>) -> Errors {
    if is_alias(object) {
        return Errors::new();
    }
    let without_selector =
        object["spec"]["selector"].as_object().is_none_or(serde_json::Map::is_empty);
    let open = is_headless(object) && without_selector;
    if present(&object["spec"], "ipFamilyPolicy").is_none() {
        let policy = old.and_then(|old| present(&old["spec"], "ipFamilyPolicy")).cloned();
        let usual = if open { "RequireDualStack" } else { "SingleStack" };
        object["spec"]["ipFamilyPolicy"] = policy.unwrap_or_else(|| usual.into());
    }
    let errors = address_errors(object);
    if !errors.is_empty() {
        return errors;
    }
    let errors = validation::families(object, open);
    if !errors.is_empty() {
        return errors;
    }
    let single = text(&object["spec"], "ipFamilyPolicy") == "SingleStack";
    let spec = &mut object["spec"];
    if list(spec, "ipFamilies").is_empty() {
        spec["ipFamilies"] = json!(["IPv4"]);
    }
    if open && !single && list(spec, "ipFamilies").len() == 1 {
        let other = if spec["ipFamilies"][0] == "IPv4" { "IPv6" } else { "IPv4" };
        let first = spec["ipFamilies"][0].clone();
        spec["ipFamilies"] = json!([first, other]);
    }
    Errors::new()
}
