//! Workloads that end: jobs, and the schedules that make them.

mod cron_job;
mod schedule;
mod status;

use jiff::Timestamp;
use object::field::{Error, Errors, Path};
use object::names;
use object::selector::label::LabelSelector;
use object::time::human_duration;
use serde_json::{Map, Value, json};

pub(super) use cron_job::CronJob;

use super::cells::{
    AGE, Cell, NAME, cell, container_images, container_names, selector, since, wide,
};
use super::fields::{
    copy, flag, list_mut, map, number, present, present_mut, remove, set_absent, set_empty, text,
};
use super::pod_template::{default_pod_template, validate_pod_template_spec};
use super::rules::{
    all_nonnegative, immutable, is_condition_true, label_recommended, one_of, selector_errors,
    selects_template,
};
use super::strategy::{Selectable, Strategy};

const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const SELECTED_LABEL: &str = UID_LABELS[1];

const INDEXED_PARALLELISM_MAX: i64 = 100_000;
const FAILED_INDEXES_MAX: i64 = 100_000;
const MANAGED_BY_BYTES_MAX: usize = 63;

/// Pods that run to their end.
pub(super) struct Job;

const TABLE: &[Cell] = &[
    NAME,
    cell("Status", "string", |job, _| state(job).into()),
    cell("Completions", "string", |job, _| completions(job).into()),
    cell("Duration", "string", |job, now| duration(job, now).into()),
    AGE,
    wide("Containers", "string", |job, _| container_names(&job["spec"]["template"])),
    wide("Images", "string", |job, _| container_images(&job["spec"]["template"])),
    wide("Selector", "string", |job, _| selector(&job["spec"]["selector"]).into()),
];

fn state(job: &Value) -> &'static str {
    let is = |name| is_condition_true(job, name);
    let deleting = present(&job["metadata"], "deletionTimestamp").is_some();
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if deleting => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let done = number(&job["status"], "succeeded").unwrap_or(0);
    if let Some(wanted) = number(&job["spec"], "completions") {
        return format!("{done}/{wanted}");
    }
    match number(&job["spec"], "parallelism").unwrap_or(0) {
        parallelism if parallelism > 1 => format!("{done}/1 of {parallelism}"),
        _ => format!("{done}/1"),
    }
}

fn duration(job: &Value, now: Timestamp) -> String {
    let status = &job["status"];
    let Some(start) = present(status, "startTime") else { return String::new() };
    let time = |value: &Value| value.as_str()?.parse::<Timestamp>().ok();
    let end = present(status, "completionTime").and_then(time);
    match (time(start), end) {
        (Some(start), Some(end)) => human_duration(end.duration_since(start).as_secs()),
        _ => since(start, now),
    }
}

/// The labels that tie pods to their job.
fn own_labels(job: &Value) -> impl Iterator<Item = (&'static str, Value)> {
    let (uid, name) = (job["metadata"]["uid"].clone(), job["metadata"]["name"].clone());
    let uids = UID_LABELS.into_iter().map(move |key| (key, uid.clone()));
    uids.chain(NAME_LABELS.into_iter().map(move |key| (key, name.clone())))
}

fn add_own_labels(labels: &mut Map<String, Value>, job: &Value) {
    for (key, value) in own_labels(job) {
        labels.entry(key).or_insert(value);
    }
}

impl Strategy for Job {
    fn default(&self, object: &mut Value) {
        default_spec(object);
        // kube-apiserver lets the job share the labels of its template, those it adds included.
        let given = map(&object["spec"]["template"]["metadata"], "labels").cloned();
        let has_none = map(&object["metadata"], "labels").is_none_or(Map::is_empty);
        if let Some(mut labels) = given.filter(|_| has_none) {
            if !flag(&object["spec"], "manualSelector") {
                add_own_labels(&mut labels, object);
            }
            object["metadata"]["labels"] = Value::Object(labels);
        }
    }

    fn prepare_create(&self, object: &mut Value, _now: Timestamp) {
        if flag(&object["spec"], "manualSelector") {
            return;
        }
        let metadata = &mut object["spec"]["template"]["metadata"];
        if !metadata.is_object() {
            *metadata = json!({});
        }
        let mut labels = map(metadata, "labels").cloned().unwrap_or_default();
        add_own_labels(&mut labels, object);
        object["spec"]["template"]["metadata"]["labels"] = Value::Object(labels);
        if map(&object["metadata"], "labels").is_none_or(Map::is_empty) {
            object["metadata"]["labels"] = object["spec"]["template"]["metadata"]["labels"].clone();
        }
        let uid = object["metadata"]["uid"].clone();
        let selector = &mut object["spec"]["selector"];
        if !selector.is_object() {
            *selector = json!({});
        }
        if !selector["matchLabels"].is_object() {
            selector["matchLabels"] = json!({});
        }
        set_absent(&mut selector["matchLabels"], SELECTED_LABEL, uid);
    }

    fn validate(&self, object: &Value) -> Errors {
        let at = Path::new("spec");
        let mut errors = generated(object);
        errors.extend(selected_spec(&object["spec"], &at));
        let spec = &object["spec"];
        let count = number(spec, "completions").unwrap_or(0);
        if text(spec, "completionMode") == "Indexed" && count > 0 {
            let name = text(&object["metadata"], "name");
            let longest = format!("{name}-{}", count - 1);
            if !names::dns1123_label(&longest).is_empty() {
                let at = Path::new("metadata").child("name");
                let why = format!("will not able to create pod with invalid DNS label: {longest}");
                errors.push(Error::invalid(&at, name, why));
            }
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let at = Path::new("spec");
        let (spec, was) = (&object["spec"], &old["spec"]);
        // kube-apiserver judges the job as a new one first, and its spec again as a changed one.
        let mut errors = self.validate(object);
        errors.extend(selected_spec(spec, &at));
        errors.extend(changed_completions(spec, was, &at));
        errors.extend(immutable(spec, was, "selector", &at));
        errors.extend(changed_template(object, old, &at));
        let fixed = [
            "completionMode",
            "podFailurePolicy",
            "backoffLimitPerIndex",
            "managedBy",
            "successPolicy",
        ];
        errors.extend(fixed.iter().flat_map(|field| immutable(spec, was, field, &at)));
        errors
    }

    fn validate_status(&self, object: &Value, old: &Value) -> Errors {
        status::errors(object, old)
    }

    fn selectable(&self) -> &'static [Selectable] {
        &[Selectable {
            name: "status.successful",
            value: |job| number(&job["status"], "succeeded").unwrap_or(0).to_string(),
        }]
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        label_recommended(object, old)
    }

    fn unselectable(&self, name: &str) -> String {
        format!("field label {name:?} not supported for Job")
    }

    fn deletion_warning(&self) -> Option<&'static str> {
        Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
        )
    }

    fn cells(&self) -> &'static [Cell] {
        TABLE
    }
}

fn default_spec(object: &mut Value) {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    default_template(spec);
    if present(spec, "completions").is_none() && present(spec, "parallelism").is_none() {
        set_absent(spec, "completions", 1);
    }
    set_absent(spec, "parallelism", 1);
    let by_index = present(spec, "backoffLimitPerIndex").is_some();
    set_absent(spec, "backoffLimit", if by_index { i32::MAX } else { 6 });
    set_absent(spec, "completionMode", "NonIndexed");
    set_absent(spec, "suspend", false);
    let judged = present(spec, "podFailurePolicy").is_some();
    set_absent(spec, "podReplacementPolicy", if judged { "Failed" } else { "TerminatingOrFailed" });
    set_absent(spec, "manualSelector", false);
}

/// What a job's template leaves out, wherever the template stands.
fn default_template(spec: &mut Value) {
    default_pod_template(&mut spec["template"]);
    let Some(policy) = present_mut(spec, "podFailurePolicy") else { return };
    for rule in list_mut(policy, "rules") {
        for pattern in list_mut(rule, "onPodConditions") {
            set_empty(pattern, "status", "True");
        }
    }
}

/// The selector that the server makes must not be tampered with.
fn generated(job: &Value) -> Errors {
    let spec = &job["spec"];
    if flag(spec, "manualSelector") || present(spec, "selector").is_none() {
        return Errors::new();
    }
    let empty = Map::new();
    let labels = map(&spec["template"]["metadata"], "labels").unwrap_or(&empty);
    let at = Path::new("spec").child("template").child("metadata").child("labels");
    let mut errors = Errors::new();
    let mut expected = Map::new();
    for index in 0..UID_LABELS.len() {
        for (keys, source) in [(UID_LABELS, "uid"), (NAME_LABELS, "name")] {
            let (key, value) = (keys[index], &job["metadata"][source]);
            expected.insert(key.to_owned(), value.clone());
            let why = format!("must be '{}'", value.as_str().unwrap_or_default());
            match labels.get(key) {
                None => errors.push(Error::required(&at.key(key), why)),
                Some(given) if given != value => {
                    errors.push(Error::invalid(&at.key(key), json!(labels), why));
                }
                Some(_) => {}
            }
        }
    }
    let selector = serde_json::from_value::<LabelSelector>(spec["selector"].clone()).ok();
    let selector = selector.and_then(|selector| selector.to_selector().ok());
    if selector.is_some_and(|selector| !selector.matches_labels(Some(&expected))) {
        let at = Path::new("spec").child("selector");
        let why = "`selector` not auto-generated";
        errors.push(Error::invalid(&at, spec["selector"].clone(), why));
    }
    errors
}

fn selected_spec(spec: &Value, at: &Path) -> Errors {
    let mut errors = spec_errors(spec, at);
    if present(spec, "selector").is_none() {
        errors.push(Error::required(&at.child("selector"), ""));
    }
    errors.extend(selector_errors(spec, "selector", at));
    errors.extend(selects_template(spec, at));
    errors
}

/// What is wrong with the spec of a job but for its selector.
fn spec_errors(spec: &Value, at: &Path) -> Errors {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    let mut errors = all_nonnegative(spec, &counts, at);
    let by_index = present(spec, "backoffLimitPerIndex");
    if present(spec, "maxFailedIndexes").is_some() && by_index.is_none() {
        let why = "when maxFailedIndexes is specified";
        errors.push(Error::required(&at.child("backoffLimitPerIndex"), why));
    }
    if let Some(manager) = present(spec, "managedBy").and_then(Value::as_str) {
        let at = at.child("managedBy");
        errors.extend(names::domain_prefixed_path(&at, manager));
        if manager.len() > MANAGED_BY_BYTES_MAX {
            errors.push(Error::too_long(&at, MANAGED_BY_BYTES_MAX));
        }
    }
    errors.extend(one_of(spec, "completionMode", &["NonIndexed", "Indexed"], at));
    match text(spec, "completionMode") {
        "Indexed" => errors.extend(indexed_errors(spec, at)),
        "" | "NonIndexed" => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(value) = number(spec, field) {
                    let why = "requires indexed completion mode";
                    errors.push(Error::invalid(&at.child(field), value, why));
                }
            }
        }
        _ => {}
    }
    let policies: &[&str] = if present(spec, "podFailurePolicy").is_some() {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    errors.extend(one_of(spec, "podReplacementPolicy", policies, at));
    errors.extend(validate_pod_template_spec(&spec["template"], &at.child("template")));
    errors.extend(restart_errors(spec, at));
    errors
}

fn indexed_errors(spec: &Value, at: &Path) -> Errors {
    let mut errors = Errors::new();
    let completions = number(spec, "completions");
    if completions.is_none() {
        let why = "when completion mode is Indexed";
        errors.push(Error::required(&at.child("completions"), why));
    }
    let parallelism = number(spec, "parallelism").unwrap_or(0);
    if parallelism > INDEXED_PARALLELISM_MAX {
        let why = format!(
            "must be less than or equal to {INDEXED_PARALLELISM_MAX} when completion mode is Indexed"
        );
        errors.push(Error::invalid(&at.child("parallelism"), parallelism, why));
    }
    if let Some(failed) = number(spec, "maxFailedIndexes") {
        let at = at.child("maxFailedIndexes");
        if completions.is_some_and(|completions| failed > completions) {
            let why = "must be less than or equal to completions";
            errors.push(Error::invalid(&at, failed, why));
        }
        if failed > FAILED_INDEXES_MAX {
            let why = format!("must be less than or equal to {FAILED_INDEXES_MAX}");
            errors.push(Error::invalid(&at, failed, why));
        }
    }
    errors
}

fn restart_errors(spec: &Value, at: &Path) -> Errors {
    let at = at.child("template").child("spec").child("restartPolicy");
    let policy = text(&spec["template"]["spec"], "restartPolicy");
    match policy {
        "" | "Always" => {
            vec![Error::required(&at, "valid values: \"OnFailure\", \"Never\"")]
        }
        "OnFailure" if present(spec, "podFailurePolicy").is_some() => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            vec![Error::invalid(&at, policy, why)]
        }
        "OnFailure" | "Never" => Errors::new(),
        _ => vec![Error::not_supported(&at, policy, &["OnFailure", "Never"])],
    }
}

/// The count of an indexed job can change together with its parallelism.
fn changed_completions(spec: &Value, was: &Value, at: &Path) -> Errors {
    if text(spec, "completionMode") != "Indexed" {
        return immutable(spec, was, "completions", at);
    }
    let new = number(spec, "completions");
    if new.is_none() || new == number(was, "completions") || new == number(spec, "parallelism") {
        return Errors::new();
    }
    let why = "can only be modified in tandem with spec.parallelism";
    vec![Error::invalid(&at.child("completions"), new.unwrap_or(0), why)]
}

/// The template stays, but for where its pods go while a job that never ran is suspended.
fn changed_template(object: &Value, old: &Value, at: &Path) -> Errors {
    let suspended = flag(&old["spec"], "suspend");
    let not_started = present(&old["status"], "startTime").is_none();
    let (new, mut was) = (object["spec"]["template"].clone(), old["spec"]["template"].clone());
    if suspended && not_started {
        was["metadata"] = new["metadata"].clone();
        for field in ["nodeSelector", "tolerations", "schedulingGates"] {
            copy(&mut was["spec"], &new["spec"], field);
        }
        let affinity = new["spec"]["affinity"]["nodeAffinity"].clone();
        if affinity.is_null() {
            remove(&mut was["spec"]["affinity"], "nodeAffinity");
        } else {
            was["spec"]["affinity"]["nodeAffinity"] = affinity;
        }
        let empty = was["spec"]["affinity"].as_object().is_none_or(Map::is_empty);
        if empty {
            remove(&mut was["spec"], "affinity");
        }
    }
    if new == was {
        return Errors::new();
    }
    vec![Error::invalid(&at.child("template"), new, "field is immutable")]
}
