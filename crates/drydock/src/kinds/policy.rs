//! Small kinds about priorities, budgets and leases.

use object::field::{Error, Errors, Fault, Path};
use serde_json::Value;

use super::cells::{AGE, Cell, NAME, cell, flag_or, int, text_or};
use super::fields::{flag, number, present, remove, set_absent, text};
use super::rules::{
    all_nonnegative, at_most_100_percent, fault_of_form, immutable, int_or_percent, nonnegative,
    one_of, selector_errors,
};
use super::strategy::Strategy;
use crate::admission::Plugin;

/// The highest priority a user can give.
const USER_PRIORITY_MAX: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// A name for a priority.
pub(super) struct PriorityClass;

const CLASS: &[Cell] = &[
    NAME,
    cell("Value", "integer", |class, _| int(&class["value"])),
    cell("Global-Default", "boolean", |class, _| flag_or(&class["globalDefault"], false)),
    AGE,
    cell("PreemptionPolicy", "string", |class, _| text_or(&class["preemptionPolicy"], "")),
];

impl Strategy for PriorityClass {
    fn default(&self, object: &mut Value) {
        set_absent(object, "preemptionPolicy", "PreemptLowerPriority");
    }

    fn validate(&self, object: &Value) -> Errors {
        let mut errors = Errors::new();
        let name = text(&object["metadata"], "name");
        let value = number(object, "value").unwrap_or(0);
        if name.starts_with(SYSTEM_PREFIX) {
            if let Some(why) = unknown_system_class(object, name, value) {
                let at = Path::new("metadata").child("name");
                errors.push(Error::forbidden(&at, format!(
                    "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
                )));
            }
        } else if value > USER_PRIORITY_MAX {
            errors.push(Error::forbidden(
                &Path::new("value"),
                format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}"),
            ));
        }
        if present(object, "preemptionPolicy").is_some_and(|policy| policy == "") {
            errors.push(Error::required(&Path::new("preemptionPolicy"), ""));
        } else {
            let known = ["PreemptLowerPriority", "Never"];
            errors.extend(one_of(object, "preemptionPolicy", &known, &Path::root()));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        if number(object, "value") != number(old, "value") {
            let why = "may not be changed in an update.";
            errors.push(Error::forbidden(&Path::new("value"), why));
        }
        errors.extend(immutable(object, old, "preemptionPolicy", &Path::root()));
        errors
    }

    fn is_new_generation(&self, _object: &Value, _old: &Value) -> bool {
        false
    }

    fn admission(&self) -> &'static [Plugin] {
        &[Plugin::DefaultPriorityClass]
    }

    fn cells(&self) -> &'static [Cell] {
        CLASS
    }
}

fn unknown_system_class(object: &Value, name: &str, value: i64) -> Option<String> {
    let Some((_, expected)) = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if value != *expected {
        return Some(format!("value of {name} PriorityClass must be {expected}"));
    }
    flag(object, "globalDefault")
        .then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

/// How many pods may be missing at a time.
pub(super) struct PodDisruptionBudget;

const BUDGET: &[Cell] = &[
    NAME,
    cell("Min Available", "string", |budget, _| bound(&budget["spec"]["minAvailable"])),
    cell("Max Unavailable", "string", |budget, _| bound(&budget["spec"]["maxUnavailable"])),
    cell("Allowed Disruptions", "integer", |budget, _| {
        int(&budget["status"]["disruptionsAllowed"])
    }),
    AGE,
];

fn bound(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.to_string().into(),
        value => text_or(value, "N/A"),
    }
}

impl Strategy for PodDisruptionBudget {
    fn validate(&self, object: &Value) -> Errors {
        let (spec, at) = (&object["spec"], Path::new("spec"));
        let mut errors = Errors::new();
        let bounds = ["minAvailable", "maxUnavailable"];
        if bounds.iter().all(|field| present(spec, field).is_some()) {
            let why = "minAvailable and maxUnavailable cannot be both set";
            errors.push(fault_of_form(&at, Fault::Invalid, &shown_budget(spec), why));
        }
        for field in bounds {
            if let Some(value) = present(spec, field) {
                errors.extend(int_or_percent(value, &at.child(field)));
                errors.extend(at_most_100_percent(value, &at.child(field)));
            }
        }
        errors.extend(selector_errors(spec, "selector", &at));
        let policies = ["AlwaysAllow", "IfHealthyBudget"];
        errors.extend(one_of(spec, "unhealthyPodEvictionPolicy", &policies, &at));
        errors
    }

    fn validate_status(&self, object: &Value, _old: &Value) -> Errors {
        let counts = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
        all_nonnegative(&object["status"], &counts, &Path::new("status"))
    }

    fn cells(&self) -> &'static [Cell] {
        BUDGET
    }
}

fn shown_budget(spec: &Value) -> String {
    format!(
        r#"{{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":{}}}"#,
        spec["minAvailable"],
        spec["selector"],
        spec["maxUnavailable"],
        spec["unhealthyPodEvictionPolicy"]
    )
}

/// Who is in charge, and until when.
pub(super) struct Lease;

const LEASE: &[Cell] = &[
    NAME,
    cell("Holder", "string", |lease, _| text_or(&lease["spec"]["holderIdentity"], "")),
    AGE,
];

impl Strategy for Lease {
    fn default(&self, object: &mut Value) {
        // Coordinated leader election is off, as in kube-apiserver unless asked for.
        for field in ["strategy", "preferredHolder"] {
            remove(&mut object["spec"], field);
        }
    }

    fn validate(&self, object: &Value) -> Errors {
        let (spec, at) = (&object["spec"], Path::new("spec"));
        let mut errors = Errors::new();
        let seconds = number(spec, "leaseDurationSeconds");
        if let Some(seconds) = seconds.filter(|seconds| *seconds <= 0) {
            let at = at.child("leaseDurationSeconds");
            errors.push(Error::invalid(&at, seconds, "must be greater than 0"));
        }
        errors.extend(nonnegative(spec, "leaseTransitions", &at));
        errors
    }

    fn cells(&self) -> &'static [Cell] {
        LEASE
    }
}
