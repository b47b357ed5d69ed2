//! Probes and what runs when a container starts and stops.

use object::field::{Error, Errors, Path};
use object::names;
use serde_json::Value;

use crate::kinds::fields::{list, number, present, text};
use crate::kinds::rules::said;

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Checks probes and lifecycle of a container that keeps running.
pub(super) fn running(errors: &mut Errors, container: &Value, path: &Path, grace: Option<i64>) {
    if let Some(lifecycle) = present(container, "lifecycle") {
        for moment in ["postStart", "preStop"] {
            if let Some(handler) = present(lifecycle, moment) {
                let at = path.child("lifecycle").child(moment);
                let kinds = ["exec", "httpGet", "tcpSocket", "sleep"];
                check_handler(errors, handler, &at, &kinds, grace);
            }
        }
    }
    for name in PROBES {
        if let Some(probe) = present(container, name) {
            check_probe(errors, probe, &path.child(name), name, grace);
        }
    }
}

/// Refuses probes and lifecycle of a container that runs to its end.
pub(super) fn none(errors: &mut Errors, container: &Value, path: &Path) {
    for name in ["lifecycle"].iter().chain(&PROBES) {
        if present(container, name).is_some() {
            let why = "may not be set for init containers without restartPolicy=Always";
            errors.push(Error::forbidden(&path.child(name), why));
        }
    }
}

fn check_probe(errors: &mut Errors, probe: &Value, path: &Path, name: &str, grace: Option<i64>) {
    check_handler(errors, probe, path, &["exec", "httpGet", "tcpSocket", "grpc"], grace);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        if let Some(value) = number(probe, field).filter(|value| *value < 0) {
            errors.push(Error::invalid(&path.child(field), value, NOT_NEGATIVE));
        }
    }
    let at = path.child("terminationGracePeriodSeconds");
    let own_grace = number(probe, "terminationGracePeriodSeconds");
    if let Some(value) = own_grace.filter(|value| *value <= 0) {
        errors.push(Error::invalid(&at, value, "must be greater than 0"));
    }
    if name == "readinessProbe" {
        if let Some(value) = own_grace {
            errors.push(Error::invalid(&at, value, "must not be set for readinessProbes"));
        }
        return;
    }
    let threshold = number(probe, "successThreshold").unwrap_or(0);
    if threshold != 1 {
        errors.push(Error::invalid(&path.child("successThreshold"), threshold, "must be 1"));
    }
}

fn check_handler(
    errors: &mut Errors,
    handler: &Value,
    path: &Path,
    kinds: &[&str],
    grace: Option<i64>,
) {
    let mut given =
        kinds.iter().filter_map(|kind| Some((*kind, present(handler, kind)?, path.child(kind))));
    let Some((kind, action, at)) = given.next() else {
        errors.push(Error::required(path, "must specify a handler type"));
        return;
    };
    match kind {
        "exec" if list(action, "command").is_empty() => {
            errors.push(Error::required(&at.child("command"), ""));
        }
        "httpGet" => check_http_get(errors, action, &at),
        "tcpSocket" | "grpc" => check_port(errors, &action["port"], &at.child("port")),
        "sleep" => check_sleep(errors, action, &at, grace),
        _ => {}
    }
    for (_, _, at) in given {
        errors.push(Error::forbidden(&at, "may not specify more than 1 handler type"));
    }
}

fn check_http_get(errors: &mut Errors, action: &Value, path: &Path) {
    if text(action, "path").is_empty() {
        errors.push(Error::required(&path.child("path"), ""));
    }
    check_port(errors, &action["port"], &path.child("port"));
    let scheme = text(action, "scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") {
        let supported = ["HTTP", "HTTPS"];
        errors.push(Error::not_supported(&path.child("scheme"), scheme, &supported));
    }
    for header in list(action, "httpHeaders") {
        let name = text(header, "name");
        errors.extend(said(names::http_header_name(name), name, &path.child("httpHeaders")));
    }
}

fn check_port(errors: &mut Errors, port: &Value, path: &Path) {
    match port {
        Value::String(name) => errors.extend(said(names::port_name(name), name, path)),
        other => {
            let number = other.as_i64().unwrap_or(0);
            let messages = names::port_number(number).into_iter();
            errors.extend(messages.map(|message| Error::invalid(path, number, message)));
        }
    }
}

fn check_sleep(errors: &mut Errors, action: &Value, path: &Path, grace: Option<i64>) {
    let seconds = number(action, "seconds").unwrap_or(0);
    if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
        let why =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.push(Error::invalid(path, seconds, why));
    }
}
