//! How evenly pods are spread over the nodes.

use object::field::{Error, Errors, Path};
use serde_json::Value;

use super::affinity::{check_label_keys, check_selector};
use crate::kinds::fields::{list, number, text};

/// Checks `topologySpreadConstraints`.
pub(super) fn check(errors: &mut Errors, spec: &Value, path: &Path) {
    let constraints = list(spec, "topologySpreadConstraints");
    for (index, constraint) in constraints.iter().enumerate() {
        let at = path.child("topologySpreadConstraints").index(index);
        check_one(errors, constraint, &constraints[index + 1..], &at);
    }
}

fn check_one(errors: &mut Errors, constraint: &Value, rest: &[Value], path: &Path) {
    let positive = "must be greater than zero";
    let skew = number(constraint, "maxSkew").unwrap_or(0);
    if skew <= 0 {
        errors.push(Error::invalid(&path.child("maxSkew"), skew, positive));
    }
    let (key, action) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
    if key.is_empty() {
        errors.push(Error::required(&path.child("topologyKey"), "can not be empty"));
    }
    if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
        let supported = ["DoNotSchedule", "ScheduleAnyway"];
        let at = path.child("whenUnsatisfiable");
        errors.push(Error::not_supported(&at, action, &supported));
    }
    let same = |other: &Value| {
        text(other, "topologyKey") == key && text(other, "whenUnsatisfiable") == action
    };
    if rest.iter().any(same) {
        let at = path.child("{topologyKey, whenUnsatisfiable}");
        errors.push(Error::duplicate(&at, format!("{{{key}, {action}}}")));
    }
    if let Some(domains) = number(constraint, "minDomains") {
        let at = path.child("minDomains");
        if domains <= 0 {
            errors.push(Error::invalid(&at, domains, positive));
        }
        if action != "DoNotSchedule" {
            let why =
                format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            errors.push(Error::invalid(&at, domains, why));
        }
    }
    for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        let policy = constraint.get(field).and_then(Value::as_str);
        if let Some(policy) = policy.filter(|policy| !matches!(*policy, "Honor" | "Ignore")) {
            let supported = ["Honor", "Ignore"];
            errors.push(Error::not_supported(&path.child(field), policy, &supported));
        }
    }
    check_label_keys(errors, constraint, path);
    check_selector(errors, constraint, "labelSelector", path);
}
