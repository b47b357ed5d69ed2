//! Workloads that keep pods running: deployments, replica sets, stateful sets, daemon
//! sets, and the older replication controllers.

mod daemon_set;
mod stateful_set;

use object::field::{Error, Errors, Fault, Path};
use serde_json::{Value, json};

pub(super) use daemon_set::DaemonSet;
pub(super) use stateful_set::StatefulSet;

use super::cells::{
    AGE, Cell, Fill, NAME, cell, container_images, container_names, int, labels, selector, wide,
};
use super::fields::{map, number, present, set_absent, set_empty, text};
use super::pod_template::{default_pod_template, validate_pod_template_spec};
use super::rules::selector as readable_selector;
use super::rules::{
    all_nonnegative, amount, at_most_100_percent, fault_of_form, immutable, int_or_percent,
    is_empty_selector, label_recommended, nonnegative, not_decremented, selector_errors,
    selects_template,
};
use super::strategy::{Selectable, Strategy, changed_beyond_status};

/// The spec of a workload, made where there is none.
fn spec_mut(object: &mut Value) -> &mut Value {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    spec
}

/// A selector that must be there and must say something.
fn required_selector(spec: &Value, at: &Path, kind: &str) -> Errors {
    let at_selector = at.child("selector");
    let Some(given) = present(spec, "selector") else {
        return vec![Error::required(&at_selector, "")];
    };
    let mut errors = selector_errors(spec, "selector", at);
    if is_empty_selector(spec, "selector") {
        let why = format!("empty selector is invalid for {kind}");
        errors.push(Error::invalid(&at_selector, given.clone(), why));
    }
    errors
}

/// The selector, where it is one that cannot be asked.
fn unreadable_selector(spec: &Value) -> Option<Value> {
    let given = present(spec, "selector")?;
    let readable = readable_selector(spec, "selector")?.to_selector().is_ok();
    (!readable).then(|| given.clone())
}

/// The template of pods that run until they are replaced.
fn lasting_template(spec: &Value, at: &Path, kind: &str) -> Errors {
    let template = &spec["template"];
    let mut errors = validate_pod_template_spec(template, &at.child("template"));
    errors.extend(lasting_rules(template, at, kind));
    errors
}

fn lasting_rules(template: &Value, at: &Path, kind: &str) -> Errors {
    let at = at.child("template").child("spec");
    let mut errors = Errors::new();
    let policy = text(&template["spec"], "restartPolicy");
    if policy != "Always" {
        errors.push(Error::not_supported(&at.child("restartPolicy"), policy, &["Always"]));
    }
    if present(&template["spec"], "activeDeadlineSeconds").is_some() {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(Error::forbidden(&at.child("activeDeadlineSeconds"), why));
    }
    errors
}

/// Counts of a status that cannot exceed others: what, of what, and in which words.
fn bounded_counts(status: &Value, bounds: &[(&str, &str, &str)]) -> Errors {
    let count = |field: &str| number(status, field).unwrap_or(0);
    let broken = bounds.iter().filter(|(field, limit, _)| count(field) > count(limit));
    let error = |(field, _, words): &(&str, &str, &str)| {
        let at = Path::new("status").child(field);
        Error::invalid(&at, count(field), format!("cannot be greater than {words}"))
    };
    broken.map(error).collect()
}

/// Pods of one template, replaced step by step when it changes.
pub(super) struct Deployment;

const DEPLOYMENT: &[Cell] = &[
    NAME,
    cell("Ready", "string", |object, _| ready_of_wanted(object)),
    cell("Up-to-date", "string", |object, _| int(&object["status"]["updatedReplicas"])),
    cell("Available", "string", |object, _| int(&object["status"]["availableReplicas"])),
    AGE,
    wide("Containers", "string", |object, _| container_names(&object["spec"]["template"])),
    wide("Images", "string", |object, _| container_images(&object["spec"]["template"])),
    wide("Selector", "string", |object, _| selector(&object["spec"]["selector"]).into()),
];

fn ready_of_wanted(object: &Value) -> Value {
    let ready = number(&object["status"], "readyReplicas").unwrap_or(0);
    format!("{ready}/{}", number(&object["spec"], "replicas").unwrap_or(0)).into()
}

impl Strategy for Deployment {
    fn default(&self, object: &mut Value) {
        let spec = spec_mut(object);
        default_pod_template(&mut spec["template"]);
        set_absent(spec, "replicas", 1);
        if !spec["strategy"].is_object() {
            spec["strategy"] = json!({});
        }
        let strategy = &mut spec["strategy"];
        set_empty(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate" {
            set_absent(strategy, "rollingUpdate", json!({}));
            set_absent(&mut strategy["rollingUpdate"], "maxUnavailable", "25%");
            set_absent(&mut strategy["rollingUpdate"], "maxSurge", "25%");
        }
        set_absent(spec, "revisionHistoryLimit", 10);
        set_absent(spec, "progressDeadlineSeconds", 600);
    }

    fn validate(&self, object: &Value) -> Errors {
        let (spec, at) = (&object["spec"], Path::new("spec"));
        let mut errors = nonnegative(spec, "replicas", &at);
        errors.extend(required_selector(spec, &at, "deployment"));
        errors.extend(replicated_template(spec, &at));
        errors.extend(rollout(&spec["strategy"], &at.child("strategy")));
        errors.extend(all_nonnegative(spec, &["minReadySeconds", "revisionHistoryLimit"], &at));
        errors.extend(nonnegative(spec, "progressDeadlineSeconds", &at));
        let deadline = number(spec, "progressDeadlineSeconds");
        let ready = number(spec, "minReadySeconds").unwrap_or(0);
        if let Some(deadline) = deadline.filter(|deadline| *deadline <= ready) {
            let at = at.child("progressDeadlineSeconds");
            errors.push(Error::invalid(&at, deadline, "must be greater than minReadySeconds"));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(object);
        let at = Path::new("spec");
        errors.extend(immutable(&object["spec"], &old["spec"], "selector", &at));
        errors
    }

    fn validate_status(&self, object: &Value, old: &Value) -> Errors {
        let counts = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ];
        let mut errors = all_nonnegative(&object["status"], &counts, &Path::new("status"));
        let bounds = [
            ("updatedReplicas", "replicas", "status.replicas"),
            ("readyReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "readyReplicas"),
        ];
        errors.extend(bounded_counts(&object["status"], &bounds));
        errors.extend(not_decremented(object, old, "collisionCount"));
        errors
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        let annotations =
            |object: &Value| map(&object["metadata"], "annotations").cloned().unwrap_or_default();
        changed_beyond_status(object, old) || annotations(object) != annotations(old)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        label_recommended(object, old)
    }

    fn cells(&self) -> &'static [Cell] {
        DEPLOYMENT
    }
}

/// The template of interchangeable pods, which the selector must select.
fn replicated_template(spec: &Value, at: &Path) -> Errors {
    if let Some(given) = unreadable_selector(spec) {
        return vec![Error::invalid(&at.child("selector"), given, "invalid label selector")];
    }
    let mut errors = selects_template(spec, at);
    errors.extend(lasting_template(spec, at, "ReplicaSet"));
    errors
}

fn rollout(strategy: &Value, at: &Path) -> Errors {
    let at_rolling = at.child("rollingUpdate");
    match text(strategy, "type") {
        "Recreate" => present(strategy, "rollingUpdate")
            .map(|_| {
                let why = "may not be specified when strategy `type` is 'Recreate'";
                Error::forbidden(&at_rolling, why)
            })
            .into_iter()
            .collect(),
        "RollingUpdate" => {
            let rolling = &strategy["rollingUpdate"];
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            let at_unavailable = at_rolling.child("maxUnavailable");
            let mut errors = int_or_percent(unavailable, &at_unavailable);
            errors.extend(int_or_percent(surge, &at_rolling.child("maxSurge")));
            if amount(unavailable) == 0 && amount(surge) == 0 {
                let why = "may not be 0 when `maxSurge` is 0";
                errors.push(Error::invalid(&at_unavailable, unavailable.clone(), why));
            }
            errors.extend(at_most_100_percent(unavailable, &at_unavailable));
            errors
        }
        _ => {
            let value = format!(r#"{{"Type":{},"RollingUpdate":null}}"#, strategy["type"]);
            let why = r#"supported values: "Recreate", "RollingUpdate""#;
            vec![fault_of_form(at, Fault::NotSupported, &value, why)]
        }
    }
}

/// So many pods of one template.
pub(super) struct ReplicaSet;

const REPLICA_SET: &[Cell] = &replicated(|object, _| selector(&object["spec"]["selector"]).into());

/// The table of what keeps so many pods alike; its two kinds select in different ways.
const fn replicated(selector: Fill) -> [Cell; 8] {
    [
        NAME,
        cell("Desired", "integer", |object, _| int(&object["spec"]["replicas"])),
        cell("Current", "integer", |object, _| int(&object["status"]["replicas"])),
        cell("Ready", "integer", |object, _| int(&object["status"]["readyReplicas"])),
        AGE,
        wide("Containers", "string", |object, _| container_names(&object["spec"]["template"])),
        wide("Images", "string", |object, _| container_images(&object["spec"]["template"])),
        wide("Selector", "string", selector),
    ]
}

impl Strategy for ReplicaSet {
    fn default(&self, object: &mut Value) {
        let spec = spec_mut(object);
        default_pod_template(&mut spec["template"]);
        set_absent(spec, "replicas", 1);
    }

    fn validate(&self, object: &Value) -> Errors {
        let (spec, at) = (&object["spec"], Path::new("spec"));
        let mut errors = all_nonnegative(spec, &["replicas", "minReadySeconds"], &at);
        errors.extend(required_selector(spec, &at, "deployment"));
        errors.extend(replicated_template(spec, &at));
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = self.validate(object);
        let at = Path::new("spec");
        errors.extend(immutable(&object["spec"], &old["spec"], "selector", &at));
        errors
    }

    fn validate_status(&self, object: &Value, _old: &Value) -> Errors {
        replica_counts(object)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        label_recommended(object, old)
    }

    fn cells(&self) -> &'static [Cell] {
        REPLICA_SET
    }
}

fn replica_counts(object: &Value) -> Errors {
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    let mut errors = all_nonnegative(&object["status"], &counts, &Path::new("status"));
    let bounds = [
        ("fullyLabeledReplicas", "replicas", "status.replicas"),
        ("readyReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "replicas", "status.replicas"),
        ("availableReplicas", "readyReplicas", "readyReplicas"),
    ];
    errors.extend(bounded_counts(&object["status"], &bounds));
    errors
}

/// What replica sets were before: the selector is a plain map.
pub(super) struct ReplicationController;

const CONTROLLER: &[Cell] = &replicated(|object, _| labels(&object["spec"]["selector"]).into());

impl Strategy for ReplicationController {
    fn default(&self, object: &mut Value) {
        let spec = spec_mut(object);
        set_absent(spec, "replicas", 1);
        if spec["template"].is_null() {
            return;
        }
        default_pod_template(&mut spec["template"]);
        let Some(labels) = map(&spec["template"]["metadata"], "labels").cloned() else { return };
        if map(spec, "selector").is_none_or(serde_json::Map::is_empty) {
            spec["selector"] = Value::Object(labels.clone());
        }
        if map(&object["metadata"], "labels").is_none_or(serde_json::Map::is_empty) {
            object["metadata"]["labels"] = Value::Object(labels);
        }
    }

    fn validate(&self, object: &Value) -> Errors {
        let (spec, at) = (&object["spec"], Path::new("spec"));
        let mut errors = nonnegative(spec, "minReadySeconds", &at);
        let wanted = map(spec, "selector").filter(|selector| !selector.is_empty());
        if wanted.is_none() {
            errors.push(Error::required(&at.child("selector"), ""));
        }
        errors.extend(nonnegative(spec, "replicas", &at));
        let Some(template) = present(spec, "template") else {
            errors.push(Error::required(&at.child("template"), ""));
            return errors;
        };
        let given = map(&template["metadata"], "labels");
        let selects = wanted
            .into_iter()
            .flatten()
            .all(|(key, value)| given.is_some_and(|labels| labels.get(key) == Some(value)));
        if !selects {
            let at = at.child("template").child("metadata").child("labels");
            let shown = given.map(|labels| Value::Object(labels.clone())).unwrap_or_default();
            let why = "`selector` does not match template `labels`";
            errors.push(Error::invalid(&at, shown, why));
        }
        errors.extend(lasting_template(spec, &at, "ReplicationController"));
        errors
    }

    fn validate_status(&self, object: &Value, _old: &Value) -> Errors {
        replica_counts(object)
    }

    fn selectable(&self) -> &'static [Selectable] {
        &[Selectable {
            name: "status.replicas",
            value: |object| number(&object["status"], "replicas").unwrap_or(0).to_string(),
        }]
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        label_recommended(object, old)
    }

    fn cells(&self) -> &'static [Cell] {
        CONTROLLER
    }
}

/// What a workload's template was at one time.
pub(super) struct ControllerRevision;

const REVISION: &[Cell] = &[
    NAME,
    cell("Controller", "string", |object, _| controller(object).into()),
    cell("Revision", "string", |object, _| int(&object["revision"])),
    AGE,
];

fn controller(object: &Value) -> String {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owner = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
    let Some(owner) = owner else { return "<none>".to_owned() };
    let kind = text(owner, "kind").to_lowercase();
    let name = text(owner, "name");
    match text(owner, "apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

impl Strategy for ControllerRevision {
    fn validate(&self, object: &Value) -> Errors {
        let at = Path::root();
        let mut errors = nonnegative(object, "revision", &at);
        match present(object, "data") {
            None => errors.push(Error::required(&at.child("data"), "data is mandatory")),
            Some(data) if !data.is_object() => {
                let why = "data must be a valid JSON object";
                errors.push(Error::required(&at.child("data"), why));
            }
            Some(_) => {}
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = nonnegative(object, "revision", &Path::root());
        errors.extend(immutable(object, old, "data", &Path::root()));
        errors
    }

    fn cells(&self) -> &'static [Cell] {
        REVISION
    }
}
