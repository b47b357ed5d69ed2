//! One pod on each node.

use jiff::Timestamp;
use object::field::{Error, Errors, Fault, Path};
use serde_json::{Value, json};

use super::super::cells::{
    AGE, Cell, NAME, cell, container_images, container_names, int, labels, selector, wide,
};
use super::super::fields::{set_absent, set_empty, text};
use super::super::pod_template::default_pod_template;
use super::super::rules::{
    all_nonnegative, amount, at_most_100_percent, fault_of_form, immutable, int_or_percent,
    is_empty_selector, not_decremented, selector_errors, selects_template,
};
use super::super::strategy::Strategy;
use super::{lasting_template, spec_mut};

/// Counts changes of the template, from before workloads kept revisions.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// One pod on each node.
pub(crate) struct DaemonSet;

const TABLE: &[Cell] = &[
    NAME,
    cell("Desired", "integer", |object, _| int(&object["status"]["desiredNumberScheduled"])),
    cell("Current", "integer", |object, _| int(&object["status"]["currentNumberScheduled"])),
    cell("Ready", "integer", |object, _| int(&object["status"]["numberReady"])),
    cell("Up-to-date", "integer", |object, _| int(&object["status"]["updatedNumberScheduled"])),
    cell("Available", "integer", |object, _| int(&object["status"]["numberAvailable"])),
    cell("Node Selector", "string", |object, _| {
        labels(&object["spec"]["template"]["spec"]["nodeSelector"]).into()
    }),
    AGE,
    wide("Containers", "string", |object, _| container_names(&object["spec"]["template"])),
    wide("Images", "string", |object, _| container_images(&object["spec"]["template"])),
    wide("Selector", "string", |object, _| selector(&object["spec"]["selector"]).into()),
];

impl Strategy for DaemonSet {
    fn default(&self, object: &mut Value) {
        let spec = spec_mut(object);
        default_pod_template(&mut spec["template"]);
        if !spec["updateStrategy"].is_object() {
            spec["updateStrategy"] = json!({});
        }
        let strategy = &mut spec["updateStrategy"];
        set_empty(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate" {
            set_absent(strategy, "rollingUpdate", json!({}));
            set_absent(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
            set_absent(&mut strategy["rollingUpdate"], "maxSurge", 0);
        }
        set_absent(spec, "revisionHistoryLimit", 10);
    }

    fn prepare_create(&self, object: &mut Value, _now: Timestamp) {
        let given = template_generation(object);
        set_template_generation(object, given.max(1));
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, _now: Timestamp) {
        let was = template_generation(old);
        let changed = object["spec"]["template"] != old["spec"]["template"];
        set_template_generation(object, if changed { was + 1 } else { was });
    }

    fn validate(&self, object: &Value) -> Errors {
        let (spec, at) = (&object["spec"], Path::new("spec"));
        let mut errors = selector_errors(spec, "selector", &at);
        errors.extend(selects_template(spec, &at));
        if is_empty_selector(spec, "selector") {
            let why = "empty selector is invalid for daemonset";
            let shown = spec["selector"].clone();
            errors.push(Error::invalid(&at.child("selector"), shown, why));
        }
        errors.extend(lasting_template(spec, &at, "DaemonSet"));
        errors.extend(all_nonnegative(spec, &["minReadySeconds"], &at));
        errors.extend(update_errors(&spec["updateStrategy"], &at.child("updateStrategy")));
        errors.extend(all_nonnegative(spec, &["revisionHistoryLimit"], &at));
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let at = Path::new("spec");
        let mut errors = immutable(&object["spec"], &old["spec"], "selector", &at);
        errors.extend(self.validate(object));
        errors
    }

    fn validate_status(&self, object: &Value, old: &Value) -> Errors {
        let counts = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        let mut errors = all_nonnegative(&object["status"], &counts, &Path::new("status"));
        errors.extend(not_decremented(object, old, "collisionCount"));
        errors
    }

    fn cells(&self) -> &'static [Cell] {
        TABLE
    }
}

fn template_generation(object: &Value) -> i64 {
    let text = text(&object["metadata"]["annotations"], TEMPLATE_GENERATION);
    text.parse().unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations[TEMPLATE_GENERATION] = generation.to_string().into();
}

fn update_errors(strategy: &Value, at: &Path) -> Errors {
    match text(strategy, "type") {
        "OnDelete" => Errors::new(),
        "RollingUpdate" => {
            let at = at.child("rollingUpdate");
            let rolling = &strategy["rollingUpdate"];
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            let (at_unavailable, at_surge) = (at.child("maxUnavailable"), at.child("maxSurge"));
            let mut errors = int_or_percent(unavailable, &at_unavailable);
            errors.extend(int_or_percent(surge, &at_surge));
            errors.extend(at_most_100_percent(unavailable, &at_unavailable));
            errors.extend(at_most_100_percent(surge, &at_surge));
            match (amount(unavailable) != 0, amount(surge) != 0) {
                (true, true) => {
                    let why = "may not be set when maxUnavailable is non-zero";
                    errors.push(Error::invalid(&at_surge, surge.clone(), why));
                }
                (false, false) => {
                    let why = "cannot be 0 when maxSurge is 0";
                    errors.push(Error::required(&at_unavailable, why));
                }
                _ => {}
            }
            errors
        }
        _ => {
            let value = format!(r#"{{"Type":{},"RollingUpdate":null}}"#, strategy["type"]);
            let why = r#"supported values: "RollingUpdate", "OnDelete""#;
            vec![fault_of_form(at, Fault::NotSupported, &value, why)]
        }
    }
}
