//! Jobs by the clock.

use object::field::{Error, Errors, Path};
use serde_json::{Value, json};

use super::super::cells::{
    AGE, Cell, NAME, cell, container_images, container_names, selector, since, text_or, wide,
};
use super::super::fields::{flag, list, present, set_absent, set_empty, text};
use super::super::rules::{all_nonnegative, label_recommended, one_of};
use super::super::strategy::Strategy;
use super::schedule;

/// Names get a suffix in the jobs, and those are labels.
const NAME_BYTES_MAX: usize = 52;

/// Jobs by the clock.
pub(crate) struct CronJob;

const TABLE: &[Cell] = &[
    NAME,
    cell("Schedule", "string", |object, _| text_or(&object["spec"]["schedule"], "")),
    cell("Timezone", "string", |object, _| text_or(&object["spec"]["timeZone"], "<none>")),
    cell("Suspend", "boolean", |object, _| {
        match present(&object["spec"], "suspend").and_then(Value::as_bool) {
            None => "<unset>",
            Some(true) => "True",
            Some(false) => "False",
        }
        .into()
    }),
    cell("Active", "integer", |object, _| list(&object["status"], "active").len().into()),
    cell("Last Schedule", "string", |object, now| {
        match present(&object["status"], "lastScheduleTime") {
            Some(time) => since(time, now).into(),
            None => "<none>".into(),
        }
    }),
    AGE,
    wide("Containers", "string", |object, _| container_names(&job_spec(object)["template"])),
    wide("Images", "string", |object, _| container_images(&job_spec(object)["template"])),
    wide("Selector", "string", |object, _| selector(&job_spec(object)["selector"]).into()),
];

fn job_spec(object: &Value) -> &Value {
    &object["spec"]["jobTemplate"]["spec"]
}

impl Strategy for CronJob {
    fn default(&self, object: &mut Value) {
        let spec = &mut object["spec"];
        if !spec.is_object() {
            *spec = json!({});
        }
        set_empty(spec, "concurrencyPolicy", "Allow");
        set_absent(spec, "suspend", false);
        set_absent(spec, "successfulJobsHistoryLimit", 3);
        set_absent(spec, "failedJobsHistoryLimit", 1);
        for part in ["jobTemplate", "spec"] {
            let holder = if part == "spec" {
                &mut object["spec"]["jobTemplate"]
            } else {
                &mut object["spec"]
            };
            if !holder[part].is_object() {
                holder[part] = json!({});
            }
        }
        super::default_template(&mut object["spec"]["jobTemplate"]["spec"]);
    }

    fn validate(&self, object: &Value) -> Errors {
        let mut errors = spec_errors(&object["spec"], None);
        let name = text(&object["metadata"], "name");
        if name.len() > NAME_BYTES_MAX {
            let at = Path::new("metadata").child("name");
            errors.push(Error::invalid(&at, name, "must be no more than 52 characters"));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        spec_errors(&object["spec"], Some(&old["spec"]))
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        label_recommended(object, old)
    }

    fn cells(&self) -> &'static [Cell] {
        TABLE
    }
}

fn spec_errors(spec: &Value, old: Option<&Value>) -> Errors {
    let at = Path::new("spec");
    let mut errors = schedule_errors(spec, old, &at.child("schedule"));
    errors.extend(all_nonnegative(spec, &["startingDeadlineSeconds"], &at));
    if old.is_none_or(|old| old.get("timeZone") != spec.get("timeZone")) {
        errors.extend(zone_errors(spec, &at.child("timeZone")));
    }
    errors.extend(one_of(spec, "concurrencyPolicy", &["Allow", "Forbid", "Replace"], &at));
    let (job, at_job) = (&spec["jobTemplate"]["spec"], at.child("jobTemplate").child("spec"));
    errors.extend(super::spec_errors(job, &at_job));
    if let Some(given) = present(job, "selector") {
        let at = at_job.child("selector");
        errors.push(Error::invalid(&at, given.clone(), "`selector` will be auto-generated"));
    }
    if flag(job, "manualSelector") {
        let at = at_job.child("manualSelector");
        errors.push(Error::not_supported(&at, true, &["nil", "false"]));
    }
    let limits = ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    errors.extend(all_nonnegative(spec, &limits, &at));
    errors
}

fn schedule_errors(spec: &Value, old: Option<&Value>, at: &Path) -> Errors {
    let given = text(spec, "schedule");
    if given.is_empty() {
        return vec![Error::required(at, "")];
    }
    let mut errors = Errors::new();
    if let Err(why) = schedule::check(given) {
        errors.push(Error::invalid(at, given, why));
    }
    if given.contains("TZ") {
        let had = old.is_some_and(|old| text(old, "schedule").contains("TZ"));
        if !had {
            let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.push(Error::invalid(at, given, why));
        } else if present(spec, "timeZone").is_some() {
            let why = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
            errors.push(Error::invalid(at, given, why));
        }
    }
    errors
}

/// The form of a zone's name; which zones there are is not known here.
fn zone_errors(spec: &Value, at: &Path) -> Errors {
    let Some(zone) = present(spec, "timeZone").and_then(Value::as_str) else {
        return Errors::new();
    };
    if zone.is_empty() {
        return vec![Error::invalid(at, zone, "timeZone must be nil or non-empty string")];
    }
    let is_part = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte);
        !matches!(part, "" | "." | "..") && !part.starts_with('-') && part.bytes().all(allowed)
    };
    if !zone.split('/').all(is_part) {
        return vec![Error::invalid(at, zone, format!("unknown time zone {zone}"))];
    }
    if zone.eq_ignore_ascii_case("Local") {
        let why =
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        return vec![Error::invalid(at, zone, why)];
    }
    Errors::new()
}
