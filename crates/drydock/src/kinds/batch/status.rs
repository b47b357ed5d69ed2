//! What is wrong with the status of a job.

use object::field::{Error, Errors, Fault, Path};
use serde_json::Value;

use super::super::fields::{flag, number, present, text};
use super::super::rules::{all_nonnegative, has_condition, is_condition_true};

/// What is wrong with a changed status.
pub(super) fn errors(job: &Value, old: &Value) -> Errors {
    let at = Path::new("status");
    let counts = ["active", "succeeded", "failed", "ready", "terminating"];
    let mut errors = all_nonnegative(&job["status"], &counts, &at);
    // kube-apiserver asks less of a status that does not touch the conditions.
    errors.extend(end_errors(job, &at));
    errors.extend(condition_errors(job, &at.child("conditions")));
    errors.extend(change_errors(job, old, &at));
    errors
}

/// A fault of a field whose value is not shown.
fn unshown(at: &Path, why: impl Into<String>) -> Error {
    Error { path: at.clone(), fault: Fault::Invalid, value: None, detail: why.into() }
}

fn is_ended(job: &Value) -> bool {
    is_condition_true(job, "Complete") || is_condition_true(job, "Failed")
}

fn end_errors(job: &Value, at: &Path) -> Errors {
    let status = &job["status"];
    let is = |name| is_condition_true(job, name);
    let at_conditions = at.child("conditions");
    let mut errors = Errors::new();
    if is("Complete") && is("Failed") {
        let why = "cannot set Complete=True and Failed=true conditions";
        errors.push(unshown(&at_conditions, why));
    }
    if is("Complete") && is("FailureTarget") {
        let why = "cannot set Complete=True and FailureTarget=true conditions";
        errors.push(unshown(&at_conditions, why));
    }
    let end = present(status, "completionTime");
    let at_end = at.child("completionTime");
    match (end, is("Complete")) {
        (Some(end), false) => {
            let why = "cannot set completionTime when there is no Complete=True condition";
            errors.push(Error::invalid(&at_end, end.clone(), why));
        }
        (None, true) => {
            let why = "completionTime is required for Complete jobs";
            errors.push(Error::required(&at_end, why));
        }
        _ => {}
    }
    if let (Some(start), Some(end)) = (present(status, "startTime"), end)
        && end.as_str() < start.as_str()
    {
        let why = "must be equal to or after `startTime`";
        errors.push(Error::invalid(&at_end, end.clone(), why));
    }
    if is("Failed") && !is("FailureTarget") {
        let why = "cannot set Failed=True condition without the FailureTarget=true condition";
        errors.push(unshown(&at_conditions, why));
    }
    if is("Complete") && !is("SuccessCriteriaMet") {
        let why =
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.push(unshown(&at_conditions, why));
    }
    errors.extend(leftovers(job, at));
    errors
}

/// What an ended job cannot have any more.
fn leftovers(job: &Value, at: &Path) -> Errors {
    let status = &job["status"];
    let mut errors = Errors::new();
    let active = number(status, "active").unwrap_or(0);
    if is_ended(job) {
        if active > 0 {
            let why = "active>0 is invalid for finished job";
            errors.push(Error::invalid(&at.child("active"), active, why));
        }
        if present(status, "startTime").is_none() {
            let why = "startTime is required for finished job";
            errors.push(Error::required(&at.child("startTime"), why));
        }
        let terminating = number(status, "terminating").unwrap_or(0);
        if terminating > 0 {
            let why = "terminating>0 is invalid for finished job";
            errors.push(Error::invalid(&at.child("terminating"), terminating, why));
        }
    }
    if text(&job["spec"], "completionMode") != "Indexed" {
        let done = text(status, "completedIndexes");
        if !done.is_empty() {
            let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.push(Error::invalid(&at.child("completedIndexes"), done, why));
        }
    }
    let ready = number(status, "ready").unwrap_or(0);
    if ready > active {
        let why = "cannot set more ready pods than active";
        errors.push(Error::invalid(&at.child("ready"), ready, why));
    }
    errors
}

fn condition_errors(job: &Value, at: &Path) -> Errors {
    let is = |name| is_condition_true(job, name);
    let mut errors = Errors::new();
    for other in ["Failed", "FailureTarget"] {
        if is("SuccessCriteriaMet") && is(other) {
            let why = format!("cannot set SuccessCriteriaMet=True and {other}=true conditions");
            errors.push(unshown(at, why));
        }
    }
    errors
}

/// What must not be undone.
fn change_errors(job: &Value, old: &Value, at: &Path) -> Errors {
    let (status, was) = (&job["status"], &old["status"]);
    let at_conditions = at.child("conditions");
    let mut errors = Errors::new();
    for name in ["Failed", "Complete", "FailureTarget"] {
        if is_condition_true(old, name) && !is_condition_true(job, name) {
            let why = format!("cannot disable the terminal {name}=True condition");
            errors.push(unshown(&at_conditions, why));
        }
    }
    for field in ["failed", "succeeded"] {
        let (new, before) = (number(status, field).unwrap_or(0), number(was, field).unwrap_or(0));
        if new < before {
            let why = format!("cannot decrease the {field} counter");
            errors.push(Error::invalid(&at.child(field), new, why));
        }
    }
    if let (Some(new), Some(before)) =
        (present(status, "completionTime"), present(was, "completionTime"))
        && new != before
    {
        let at = at.child("completionTime");
        errors.push(Error::invalid(&at, new.clone(), "field is immutable"));
    }
    let started = present(was, "startTime");
    // A job that goes on after a rest starts anew.
    let resumes = is_condition_true(old, "Suspended") && has_condition(job, "Suspended", "False");
    if started.is_some()
        && !resumes
        && started != present(status, "startTime")
        && !flag(&job["spec"], "suspend")
    {
        let why = "startTime cannot be removed for unsuspended job";
        errors.push(Error::required(&at.child("startTime"), why));
    }
    if is_condition_true(old, "SuccessCriteriaMet") && !is_condition_true(job, "SuccessCriteriaMet")
    {
        let why = "cannot disable the SuccessCriteriaMet=True condition";
        errors.push(unshown(&at_conditions, why));
    }
    errors
}
