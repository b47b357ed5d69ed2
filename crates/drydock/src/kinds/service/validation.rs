//! What is wrong with a service.

use std::collections::BTreeSet;
use std::net::IpAddr;

use object::field::{Error, Errors, Path};
use object::names;
use serde_json::{Value, json};

use super::super::fields::{list, map, number, present, text, texts};
use super::super::rules::said;
use super::{is_alias, is_headless, is_reachable_from_outside, needs_health_check};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const FAMILY_POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const AFFINITY_SECONDS_MAX: i64 = 86_400;
const ADDRESSES_MAX: usize = 2;
const LOAD_BALANCER_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";

fn spec_path() -> Path {
    Path::new("spec")
}

/// What is wrong with a service by itself.
pub(super) fn service(service: &Value) -> Errors {
    let (spec, at) = (&service["spec"], spec_path());
    let mut errors = Errors::new();
    if list(spec, "ports").is_empty() && !is_headless(service) && !is_alias(service) {
        errors.push(Error::required(&at.child("ports"), ""));
    }
    errors.extend(of_type(service));
    let mut seen = BTreeSet::new();
    for (index, port) in list(spec, "ports").iter().enumerate() {
        let needs_name = list(spec, "ports").len() > 1;
        errors.extend(one_port(port, needs_name, &mut seen, &at.child("ports").index(index)));
    }
    if let Some(selector) = map(spec, "selector") {
        errors.extend(names::validate_labels(selector, &at.child("selector")));
    }
    errors.extend(affinity(spec));
    errors.extend(address_errors(service));
    for (index, address) in texts(spec, "externalIPs").enumerate() {
        errors.extend(external_address(address, &at.child("externalIPs").index(index)));
    }
    if !TYPES.contains(&text(spec, "type")) {
        errors.push(Error::not_supported(&at.child("type"), text(spec, "type"), &TYPES));
    }
    errors.extend(node_ports(spec));
    errors.extend(duplicate_ports(spec));
    errors.extend(load_balancer(spec));
    errors.extend(traffic(service));
    errors
}

fn of_type(service: &Value) -> Errors {
    let (spec, at) = (&service["spec"], spec_path());
    let kind = text(spec, "type");
    if matches!(kind, "LoadBalancer" | "NodePort") && is_headless(service) {
        let at = at.child("clusterIPs").index(0);
        let why = format!("may not be set to 'None' for {kind} services");
        return vec![Error::invalid(&at, "None", why)];
    }
    if kind != "ExternalName" {
        return Errors::new();
    }
    let mut errors = Errors::new();
    for field in ["clusterIPs", "ipFamilies"] {
        if !list(spec, field).is_empty() {
            let why = "may not be set for ExternalName services";
            errors.push(Error::forbidden(&at.child(field), why));
        }
    }
    if present(spec, "ipFamilyPolicy").is_some() {
        let why = "may not be set for ExternalName services";
        errors.push(Error::forbidden(&at.child("ipFamilyPolicy"), why));
    }
    let name = text(spec, "externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    let at = at.child("externalName");
    if name.is_empty() {
        errors.push(Error::required(&at, ""));
    } else {
        errors.extend(said(names::dns1123_subdomain(name), name, &at));
    }
    errors
}

fn one_port<'a>(
    port: &'a Value,
    needs_name: bool,
    seen: &mut BTreeSet<&'a str>,
    at: &Path,
) -> Errors {
    let mut errors = Errors::new();
    let name = text(port, "name");
    if name.is_empty() {
        if needs_name {
            errors.push(Error::required(&at.child("name"), ""));
        }
    } else {
        errors.extend(said(names::dns1123_label(name), name, &at.child("name")));
        if !seen.insert(name) {
            errors.push(Error::duplicate(&at.child("name"), name));
        }
    }
    let own = number(port, "port").unwrap_or(0);
    for message in names::port_number(own) {
        errors.push(Error::invalid(&at.child("port"), own, message));
    }
    if !PROTOCOLS.contains(&text(port, "protocol")) {
        let protocol = text(port, "protocol");
        errors.push(Error::not_supported(&at.child("protocol"), protocol, &PROTOCOLS));
    }
    let at_target = at.child("targetPort");
    match port.get("targetPort") {
        Some(Value::String(name)) => errors.extend(said(names::port_name(name), name, &at_target)),
        target => {
            let target = target.and_then(Value::as_i64).unwrap_or(0);
            for message in names::port_number(target) {
                errors.push(Error::invalid(&at_target, target, message));
            }
        }
    }
    if let Some(protocol) = present(port, "appProtocol").and_then(Value::as_str) {
        let at = at.child("appProtocol");
        errors.extend(said(names::qualified_name(protocol), protocol, &at));
    }
    errors
}

fn affinity(spec: &Value) -> Errors {
    let at = spec_path();
    match text(spec, "sessionAffinity") {
        "None" => Errors::new(),
        "ClientIP" => {
            let seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].as_i64();
            let seconds = seconds.unwrap_or(0);
            if (1..=AFFINITY_SECONDS_MAX).contains(&seconds) {
                return Errors::new();
            }
            let at = at.child("sessionAffinityConfig").child("clientIP").child("timeoutSeconds");
            let why = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
            vec![Error::invalid(&at, seconds, why)]
        }
        other => {
            vec![Error::not_supported(&at.child("sessionAffinity"), other, &["ClientIP", "None"])]
        }
    }
}

/// What is wrong with the addresses of a service and their families.
pub(crate) fn address_errors(service: &Value) -> Errors {
    if is_alias(service) {
        return Errors::new();
    }
    let (spec, at) = (&service["spec"], spec_path());
    let at_addresses = at.child("clusterIPs");
    let mut errors = Errors::new();
    let addresses: Vec<&str> = texts(spec, "clusterIPs").collect();
    match (text(spec, "clusterIP"), addresses.first()) {
        ("", None) => {}
        ("", Some(_)) => {
            let why = "must be empty when `clusterIP` is not specified";
            errors.push(Error::invalid(&at_addresses, json!(addresses), why));
        }
        (_, None) => errors.push(Error::required(&at_addresses, "")),
        (one, Some(first)) if one != *first => {
            let why = "first value must match `clusterIP`";
            errors.push(Error::invalid(&at_addresses, json!(addresses), why));
        }
        _ => {}
    }
    let mut seen = BTreeSet::new();
    for (index, family) in texts(spec, "ipFamilies").enumerate() {
        let at = at.child("ipFamilies").index(index);
        if !FAMILIES.contains(&family) {
            errors.push(Error::not_supported(&at, family, &FAMILIES));
        }
        if !seen.insert(family) {
            errors.push(Error::duplicate(&at, family));
        }
    }
    if let Some(policy) = present(spec, "ipFamilyPolicy").and_then(Value::as_str)
        && !FAMILY_POLICIES.contains(&policy)
    {
        let at = at.child("ipFamilyPolicy");
        errors.push(Error::not_supported(&at, policy, &FAMILY_POLICIES));
    }
    let malformed = malformed_addresses(&addresses, &at_addresses);
    let is_malformed = !malformed.is_empty();
    errors.extend(malformed);
    if addresses.len() > ADDRESSES_MAX {
        let why = "may only hold up to 2 values";
        errors.push(Error::invalid(&at_addresses, json!(addresses), why));
    }
    if !is_malformed {
        errors.extend(mismatched_addresses(service, &addresses, &at_addresses));
    }
    errors
}

fn malformed_addresses(addresses: &[&str], at: &Path) -> Errors {
    let mut errors = Errors::new();
    for (index, address) in addresses.iter().enumerate() {
        if index == 0 && *address == "None" {
            if addresses.len() > 1 {
                let why = "'None' must be the first and only value";
                errors.push(Error::invalid(at, json!(addresses), why));
            }
            continue;
        }
        errors.extend(address_text(address, &at.index(index)));
    }
    errors
}

fn address_text(address: &str, at: &Path) -> Errors {
    if address.parse::<IpAddr>().is_ok() {
        return Errors::new();
    }
    let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    vec![Error::invalid(at, address, why)]
}

fn mismatched_addresses(service: &Value, addresses: &[&str], at: &Path) -> Errors {
    let mut errors = Errors::new();
    let is_v6 = |address: &str| address.contains(':');
    if addresses.len() > 1 {
        let of_v6 = addresses.iter().filter(|address| is_v6(address)).count();
        if of_v6 == 0 || of_v6 == addresses.len() {
            let why = "may specify no more than one IP for each IP family";
            errors.push(Error::invalid(at, json!(addresses), why));
        }
    }
    if is_headless(service) {
        return errors;
    }
    let families = texts(&service["spec"], "ipFamilies");
    for (index, (address, family)) in addresses.iter().zip(families).enumerate() {
        let fits = is_v6(address) == (family == "IPv6");
        if !fits && FAMILIES.contains(&family) {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.push(Error::invalid(&at.index(index), *address, why));
        }
    }
    errors
}

/// What a cluster with IPv4 alone cannot give. A service that is `open`, with neither
/// address nor selector, may have any families.
pub(super) fn families(service: &mut Value, open: bool) -> Errors {
    let at = spec_path();
    let at_policy = at.child("ipFamilyPolicy");
    let policy = text(&service["spec"], "ipFamilyPolicy").to_owned();
    let mut errors = Errors::new();
    let spec = &service["spec"];
    if policy == "SingleStack" {
        let many = [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")];
        for (field, what) in many {
            if list(spec, field).len() == ADDRESSES_MAX {
                let why = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                );
                errors.push(Error::invalid(&at_policy, policy.as_str(), why));
            }
        }
    }
    let known = list(spec, "ipFamilies").len();
    let addresses: Vec<&str> = texts(spec, "clusterIPs").collect();
    if !is_headless(service) {
        for (index, address) in addresses.iter().enumerate().skip(known) {
            if address.contains(':') {
                let at = at.child("clusterIPs").index(index);
                let why = "IPv6 is not configured on this cluster";
                errors.push(Error::invalid(&at, json!(addresses), why));
            }
        }
    }
    if !errors.is_empty() || open {
        return errors;
    }
    if policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(Error::invalid(&at_policy, policy, why));
    }
    for (index, family) in texts(&service["spec"], "ipFamilies").enumerate() {
        if family != "IPv4" {
            let at = at.child("ipFamilies").index(index);
            errors.push(Error::invalid(&at, family, "not configured on this cluster"));
        }
    }
    errors
}

/// An address clients outside use: none that means the sender itself.
fn external_address(address: &str, at: &Path) -> Errors {
    let Ok(parsed) = address.parse::<IpAddr>() else { return address_text(address, at) };
    let mut errors = Errors::new();
    let mut refuse = |is: bool, why: &str| {
        if is {
            errors.push(Error::invalid(at, address, why));
        }
    };
    let (link_local, link_local_multicast) = match parsed {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    refuse(parsed.is_unspecified(), &format!("may not be unspecified ({address})"));
    refuse(parsed.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    refuse(link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    refuse(
        link_local_multicast,
        "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
    );
    errors
}

fn node_ports(spec: &Value) -> Errors {
    let at = spec_path().child("ports");
    let mut errors = Errors::new();
    let given = || {
        let ports = list(spec, "ports").iter().enumerate();
        ports.filter_map(|(index, port)| {
            let number = number(port, "nodePort").filter(|number| *number != 0)?;
            Some((index, text(port, "protocol"), number))
        })
    };
    if text(spec, "type") == "ClusterIP" {
        for (index, ..) in given() {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.push(Error::forbidden(&at.index(index).child("nodePort"), why));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, protocol, number) in given() {
        if !seen.insert((protocol, number)) {
            errors.push(Error::duplicate(&at.index(index).child("nodePort"), number));
        }
    }
    errors
}

fn duplicate_ports(spec: &Value) -> Errors {
    let at = spec_path().child("ports");
    let mut errors = Errors::new();
    let mut seen = BTreeSet::new();
    for (index, port) in list(spec, "ports").iter().enumerate() {
        let (protocol, own) = (text(port, "protocol"), number(port, "port").unwrap_or(0));
        if !seen.insert((protocol, own)) {
            let value = format!(
                r#"{{"Name":"","Protocol":"{protocol}","AppProtocol":null,"Port":{own},"TargetPort":0,"NodePort":0}}"#
            );
            let mut error = Error::duplicate(&at.index(index), "");
            (error.value, error.detail) = (None, value);
            errors.push(error);
        }
    }
    errors
}

fn load_balancer(spec: &Value) -> Errors {
    let at = spec_path();
    let is = text(spec, "type") == "LoadBalancer";
    let mut errors = Errors::new();
    let at_ranges = at.child("LoadBalancerSourceRanges");
    if !list(spec, "loadBalancerSourceRanges").is_empty() && !is {
        errors.push(Error::forbidden(&at_ranges, LOAD_BALANCER_ONLY));
    }
    for (index, range) in texts(spec, "loadBalancerSourceRanges").enumerate() {
        if !is_range(range.trim()) {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            errors.push(Error::invalid(&at_ranges.index(index), range.trim(), why));
        }
    }
    if present(spec, "allocateLoadBalancerNodePorts").is_some() && !is {
        let at = at.child("allocateLoadBalancerNodePorts");
        errors.push(Error::forbidden(&at, LOAD_BALANCER_ONLY));
    }
    if let Some(class) = present(spec, "loadBalancerClass").and_then(Value::as_str) {
        let at = at.child("loadBalancerClass");
        if is {
            errors.extend(said(names::qualified_name(class), class, &at));
        } else {
            errors.push(Error::forbidden(&at, LOAD_BALANCER_ONLY));
        }
    }
    errors
}

fn is_range(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let bits = bits.parse::<u8>().ok();
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => bits.is_some_and(|bits| bits <= 32),
        Ok(IpAddr::V6(_)) => bits.is_some_and(|bits| bits <= 128),
        Err(_) => false,
    }
}

fn traffic(service: &Value) -> Errors {
    let (spec, at) = (&service["spec"], spec_path());
    let mut errors = Errors::new();
    let outside = text(spec, "externalTrafficPolicy");
    let at_outside = at.child("externalTrafficPolicy");
    if !is_reachable_from_outside(service) {
        if !outside.is_empty() {
            let why = "may only be set for externally-accessible services";
            errors.push(Error::invalid(&at_outside, outside, why));
        }
    } else if !["Cluster", "Local"].contains(&outside) {
        errors.push(Error::not_supported(&at_outside, outside, &["Cluster", "Local"]));
    }
    let port = number(spec, "healthCheckNodePort").unwrap_or(0);
    let at_port = at.child("healthCheckNodePort");
    if needs_health_check(service) {
        for message in names::port_number(port) {
            errors.push(Error::invalid(&at_port, port, message));
        }
    } else if port != 0 {
        let why =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(Error::invalid(&at_port, port, why));
    }
    if let Some(inside) = present(spec, "internalTrafficPolicy").and_then(Value::as_str)
        && !["Cluster", "Local"].contains(&inside)
    {
        let at = at.child("internalTrafficPolicy");
        errors.push(Error::not_supported(&at, inside, &["Cluster", "Local"]));
    }
    if let Some(spread) = present(spec, "trafficDistribution").and_then(Value::as_str) {
        let known = ["PreferClose", "PreferSameNode", "PreferSameZone"];
        if !known.contains(&spread) {
            let at = at.child("trafficDistribution");
            errors.push(Error::not_supported(&at, spread, &known));
        }
    }
    errors
}

/// What is wrong with a changed service.
pub(super) fn update(service: &Value, old: &Value) -> Errors {
    let at = spec_path();
    let mut errors = Errors::new();
    if !is_alias(service) && !is_alias(old) {
        errors.extend(changed_addresses(service, old));
    }
    let class = |service: &Value| present(&service["spec"], "loadBalancerClass").cloned();
    let is_balancer = |service: &Value| text(&service["spec"], "type") == "LoadBalancer";
    if is_balancer(service) && is_balancer(old) && class(service) != class(old) {
        let shown = class(service).unwrap_or_default();
        errors.push(Error::invalid(
            &at.child("loadBalancerClass"),
            shown,
            "may not change once set",
        ));
    }
    let port = |service: &Value| number(&service["spec"], "healthCheckNodePort");
    if needs_health_check(service) && needs_health_check(old) && port(service) != port(old) {
        errors.push(Error::forbidden(&at.child("healthCheckNodePort"), "field is immutable"));
    }
    errors.extend(self::service(service));
    errors
}

fn changed_addresses(service: &Value, old: &Value) -> Errors {
    let at = spec_path();
    let mut errors = Errors::new();
    let (was_headless, is_headless_now) = (is_headless(old), is_headless(service));
    let new: Vec<&str> = texts(&service["spec"], "clusterIPs").collect();
    let was: Vec<&str> = texts(&old["spec"], "clusterIPs").collect();
    if !(was_headless && is_headless_now) {
        let at = at.child("clusterIPs");
        if new.len() == was.len() {
            for index in (0..was.len()).filter(|index| was[*index] != new[*index]) {
                let why = "may not change once set";
                errors.push(Error::invalid(&at.index(index), json!(new), why));
            }
        } else if new.is_empty() {
            let why = "primary clusterIP can not be unset";
            errors.push(Error::invalid(&at.index(0), json!(new), why));
        } else if was.first().is_some_and(|first| *first != new[0]) {
            errors.push(Error::invalid(&at.index(0), json!(new), "may not change once set"));
        }
    }
    if !was_headless && !is_headless_now {
        let families = |service: &Value| service["spec"]["ipFamilies"].clone();
        let (new, was) = (families(service), families(old));
        if new[0] != was[0] && !was[0].is_null() {
            let at = at.child("ipFamilies").index(0);
            errors.push(Error::invalid(&at, new, "may not change once set"));
        }
    }
    errors
}
