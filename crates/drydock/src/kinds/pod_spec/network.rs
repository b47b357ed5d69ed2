//! Names and addresses by which a pod is found and finds others.

use std::net::Ipv6Addr;

use object::field::{Error, Errors, Path};
use object::names;
use serde_json::Value;

use crate::kinds::fields::{flag, list, number, present, text, texts};
use crate::kinds::rules::said;

const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_CHARACTERS_MAX: usize = 2048;
const HOSTNAME_MAX: usize = 64;

/// What is wrong with an address. Leading zeros are borne, as kube-apiserver bears them.
pub(crate) fn ip_faults(path: &Path, value: &str) -> Option<Error> {
    let parts: Vec<&str> = value.split('.').collect();
    let is_part = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && part.trim_start_matches('0').len() <= 3
            && part.trim_start_matches('0').parse::<u16>().is_ok_and(|number| number <= 255)
            || part.bytes().all(|byte| byte == b'0') && !part.is_empty()
    };
    let is_v4 = parts.len() == 4 && parts.iter().all(is_part);
    if is_v4 || is_ipv6(value) {
        return None;
    }
    let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    Some(Error::invalid(path, value, why))
}

/// Whether an address is one of version 6.
pub(crate) fn is_ipv6(value: &str) -> bool {
    value.parse::<Ipv6Addr>().is_ok()
}

/// Checks `dnsConfig` against `dnsPolicy`.
pub(super) fn dns(errors: &mut Errors, spec: &Value, path: &Path) {
    let config = present(spec, "dnsConfig");
    let path = path.child("dnsConfig");
    if text(spec, "dnsPolicy") == "None" {
        let Some(config) = config else {
            let why = "must provide `dnsConfig` when `dnsPolicy` is None";
            errors.push(Error::required(&path, why));
            return;
        };
        if list(config, "nameservers").is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.push(Error::required(&path.child("nameservers"), why));
            return;
        }
    }
    let Some(config) = config else { return };
    let at = path.child("nameservers");
    let servers = list(config, "nameservers");
    if servers.len() > NAMESERVERS_MAX {
        let why = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        errors.push(Error::invalid(&at, servers.to_vec(), why));
    }
    for (index, server) in texts(config, "nameservers").enumerate() {
        errors.extend(ip_faults(&at.index(index), server));
    }
    searches(errors, config, &path.child("searches"));
    for (index, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.push(Error::required(&path.child("options").index(index), "must not be empty"));
        }
    }
}

fn searches(errors: &mut Errors, config: &Value, at: &Path) {
    let searches: Vec<&str> = texts(config, "searches").collect();
    if searches.len() > SEARCHES_MAX {
        let why = format!("must not have more than {SEARCHES_MAX} search paths");
        errors.push(Error::invalid(at, searches.clone(), why));
    }
    if searches.join(" ").len() > SEARCH_CHARACTERS_MAX {
        let why = format!(
            "must not have more than {SEARCH_CHARACTERS_MAX} characters (including spaces) in the search list"
        );
        errors.push(Error::invalid(at, searches.clone(), why));
    }
    for (index, search) in searches.into_iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        if search.len() > names::SUBDOMAIN_MAX {
            let why = format!("must be no more than {} bytes", names::SUBDOMAIN_MAX);
            errors.push(Error::invalid(&at.index(index), search, why));
        }
        if !is_search_path(search) {
            errors.push(Error::invalid(&at.index(index), search, SEARCH_PATH));
        }
    }
}

const SEARCH_PATH: &str = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";

/// A subdomain whose labels may have underscores, but not at the end.
fn is_search_path(search: &str) -> bool {
    search.split('.').all(|label| {
        let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = label.strip_prefix('_').unwrap_or(label).as_bytes();
        bytes.first().copied().is_some_and(alphanumeric)
            && bytes.last().copied().is_some_and(alphanumeric)
            && bytes.iter().all(|byte| alphanumeric(*byte) || matches!(byte, b'-' | b'_'))
    })
}

/// Checks `hostAliases`.
pub(super) fn host_aliases(errors: &mut Errors, spec: &Value, path: &Path) {
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let at = path.child("hostAliases").index(index);
        errors.extend(ip_faults(&at.child("ip"), text(alias, "ip")));
        for (index, name) in texts(alias, "hostnames").enumerate() {
            let at = at.child("hostnames").index(index);
            errors.extend(said(names::dns1123_subdomain(name), name, &at));
        }
    }
}

/// Checks `hostnameOverride` against what else says the host's name.
pub(super) fn hostname_override(errors: &mut Errors, spec: &Value, path: &Path) {
    let Some(name) = spec.get("hostnameOverride").and_then(Value::as_str) else { return };
    let at = path.child("hostnameOverride");
    if flag(spec, "setHostnameAsFQDN") {
        let why = "may not be specified when setHostnameAsFQDN is true";
        errors.push(Error::forbidden(&at, why));
    }
    if flag(spec, "hostNetwork") {
        errors.push(Error::forbidden(&at, "may not be specified when hostNetwork is true"));
    }
    if name.len() > HOSTNAME_MAX {
        errors.push(Error::too_long(&at, HOSTNAME_MAX));
    }
    errors.extend(said(names::dns1123_subdomain(name), name, &at));
}

/// Checks that ports on the host's network are the host's. A template may leave them open.
pub(super) fn host_ports(errors: &mut Errors, spec: &Value, path: &Path, in_pod: bool) {
    if !flag(spec, "hostNetwork") {
        return;
    }
    for (container, at) in
        list(spec, "containers").iter().zip((0..).map(|i| path.child("containers").index(i)))
    {
        for (index, port) in list(container, "ports").iter().enumerate() {
            let on_host = number(port, "hostPort").unwrap_or(0);
            let inside = number(port, "containerPort").unwrap_or(0);
            if (in_pod || on_host != 0) && on_host != inside {
                let at = at.child("ports").index(index).child("hostPort");
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.push(Error::invalid(&at, on_host, why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_leading_zeros_and_nothing_else_odd() {
        let check = |value: &str, valid: bool| {
            assert_eq!(ip_faults(&Path::new("ip"), value).is_none(), valid, "{value}");
        };
        for valid in ["10.0.0.1", "010.000.0.1", "::1", "2001:db8::ffff", "::ffff:1.2.3.4"] {
            check(valid, true);
        }
        for invalid in
            ["", "1.2.3", "1.2.3.256", "1.2.3.4.5", "a", "1.2.3.-4", "fe80::1%eth0", "1..2.3"]
        {
            check(invalid, false);
        }
    }
}
