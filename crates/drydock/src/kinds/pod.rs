//! Pods.

mod columns;
mod defaults;
mod diff;
mod qos;
mod resize;
mod status;
mod update;

use jiff::Timestamp;
use object::field::{Error, Errors, Path};
use object::names;
use object::table::RowCondition;
use object::time::Time;
use serde_json::{Value, json};

use super::cells::Cell;
use super::fields::{flag, list, list_mut, map, number, present, set_absent, text};
use super::pod_spec::{self, Home};
use super::strategy::{Ending, Selectable};
use super::{Strategy, fields};
use crate::admission::Plugin;
use crate::write::meta_text;

/// The annotation of a pod that a kubelet made itself and only shows to the server.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";

/// What is special about pods.
pub struct Pod;

impl Strategy for Pod {
    fn default(&self, pod: &mut Value) {
        defaults::default_pod(pod);
    }

    fn prepare_create(&self, pod: &mut Value, now: Timestamp) {
        pod["status"] = json!({"phase": "Pending", "qosClass": qos::of_spec(&pod["spec"])});
        if !list(&pod["spec"], "schedulingGates").is_empty() {
            pod["status"]["conditions"] = json!([{
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": null,
                "lastTransitionTime": Time::from(now).to_string(),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]);
        }
        complete_selectors(pod);
    }

    fn prepare_status(&self, pod: &mut Value, old: &Value, _now: Timestamp) {
        status::prepare(pod, old);
    }

    fn validate(&self, pod: &Value) -> Errors {
        let mut errors = validate_content(pod);
        let (spec, path) = (&pod["spec"], Path::new("spec"));
        if !list(spec, "ephemeralContainers").is_empty() {
            let at = path.child("ephemeralContainers");
            errors.push(Error::forbidden(&at, "cannot be set on create"));
        }
        if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
            let why = "cannot be set until all schedulingGates have been cleared";
            errors.push(Error::forbidden(&path.child("nodeName"), why));
        }
        errors
    }

    fn validate_update(&self, pod: &Value, old: &Value) -> Errors {
        let mut errors = validate_content(pod);
        errors.extend(update::validate_annotations(pod, old));
        errors.extend(update::validate(pod, old));
        errors
    }

    fn validate_status(&self, pod: &Value, old: &Value) -> Errors {
        let mut errors = update::validate_annotations(pod, old);
        errors.extend(status::validate(pod, old));
        errors
    }

    fn prepare_part(&self, part: &str, pod: &mut Value, old: &Value) {
        if part == "resize" {
            resize::prepare(pod, old);
        }
    }

    fn validate_part(&self, part: &str, pod: &Value, old: &Value) -> Errors {
        match part {
            "resize" => resize::validate(pod, old),
            _ => Errors::new(),
        }
    }

    fn warnings(&self, pod: &Value, old: Option<&Value>) -> Vec<String> {
        // People rarely change pods, and programs do so often.
        if old.is_some() {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        let messages = names::dns1123_label(meta_text(pod, "name"));
        if !messages.is_empty() {
            warnings.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
                messages.join(" ")
            ));
        }
        let mut pod = pod.clone();
        defaults::default_pod(&mut pod);
        warnings.extend(pod_spec::pod_warnings(&pod, &Path::root()));
        warnings
    }

    fn selectable(&self) -> &'static [Selectable] {
        &SELECTABLE
    }

    fn cells(&self) -> &'static [Cell] {
        columns::TABLE
    }

    fn row_conditions(&self, pod: &Value) -> Vec<RowCondition> {
        columns::conditions(pod)
    }

    fn admission(&self) -> &'static [Plugin] {
        &[
            Plugin::PodLimits,
            Plugin::ServiceAccount,
            Plugin::PodPriority,
            Plugin::DefaultTolerations,
            Plugin::PodTopology,
        ]
    }

    fn ending(&self, pod: &Value, asked_seconds: Option<i64>) -> Ending {
        let spec = &pod["spec"];
        let own = number(spec, "terminationGracePeriodSeconds");
        let phase = text(&pod["status"], "phase");
        let seconds = match asked_seconds.or(own).unwrap_or(0) {
            // Nobody runs it, so nobody needs the time.
            _ if text(spec, "nodeName").is_empty() => 0,
            _ if matches!(phase, "Failed" | "Succeeded") => 0,
            seconds if seconds < 0 => 1,
            seconds => seconds,
        };
        Ending::After(seconds)
    }
}

static SELECTABLE: [Selectable; 10] = [
    Selectable { name: "spec.nodeName", value: |pod| text(&pod["spec"], "nodeName").into() },
    Selectable {
        name: "spec.restartPolicy",
        value: |pod| text(&pod["spec"], "restartPolicy").into(),
    },
    Selectable {
        name: "spec.schedulerName",
        value: |pod| text(&pod["spec"], "schedulerName").into(),
    },
    Selectable {
        name: "spec.serviceAccountName",
        value: |pod| text(&pod["spec"], "serviceAccountName").into(),
    },
    Selectable {
        name: "spec.hostNetwork",
        value: |pod| flag(&pod["spec"], "hostNetwork").to_string(),
    },
    Selectable { name: "status.phase", value: |pod| text(&pod["status"], "phase").into() },
    // An old name of the same field, and one that is known and never matches.
    Selectable { name: "spec.host", value: |pod| text(&pod["spec"], "nodeName").into() },
    Selectable { name: "status.podIPs", value: |_| String::new() },
    Selectable { name: "status.podIP", value: |pod| text(&pod["status"], "podIP").into() },
    Selectable {
        name: "status.nominatedNodeName",
        value: |pod| text(&pod["status"], "nominatedNodeName").into(),
    },
];

/// What is wrong with annotations and spec, however the pod came about.
fn validate_content(pod: &Value) -> Errors {
    let spec = &pod["spec"];
    let path = Path::new("spec");
    let annotations = map(&pod["metadata"], "annotations");
    let at = Path::new("metadata").child("annotations");
    let mut errors = pod_spec::validate_annotations(annotations, spec, &at);
    let home = Home::Pod { name: meta_text(pod, "name") };
    errors.extend(pod_spec::validate_spec(spec, &home, &path));
    if text(spec, "serviceAccountName").is_empty() {
        for (index, volume) in list(spec, "volumes").iter().enumerate() {
            let at = path.child("volumes").index(index).child("projected").child("sources");
            let sources = list(&volume["projected"], "sources").iter().enumerate();
            let tokens = sources.filter(|(_, one)| present(one, "serviceAccountToken").is_some());
            errors.extend(tokens.map(|(index, _)| {
                let why = "must not be specified when serviceAccountName is not set";
                Error::forbidden(&at.index(index).child("serviceAccountToken"), why)
            }));
        }
    }
    errors.extend(pod_spec::validate_images(spec, &path));
    errors
}

/// Works `matchLabelKeys` and `mismatchLabelKeys` into the selectors beside them.
fn complete_selectors(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    let spec = &mut pod["spec"];
    for constraint in list_mut(spec, "topologySpreadConstraints") {
        complete_selector(constraint, &labels);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|all| all.get_mut(kind)) else {
            continue;
        };
        for weighted in list_mut(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                complete_selector(term, &labels);
            }
        }
        for term in list_mut(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            complete_selector(term, &labels);
        }
    }
}

fn complete_selector(term: &mut Value, labels: &Value) {
    let mut expressions = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in fields::texts(term, field) {
            if let Some(value) = labels.get(key) {
                expressions.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    let Some(selector) = fields::present_mut(term, "labelSelector") else { return };
    if expressions.is_empty() {
        return;
    }
    set_absent(selector, "matchExpressions", json!([]));
    if let Some(all) = selector.get_mut("matchExpressions").and_then(Value::as_array_mut) {
        all.extend(expressions);
    }
}
