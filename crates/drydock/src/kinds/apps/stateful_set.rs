//! Pods with lasting names and storage.

use object::field::{Error, Errors, Fault, Path};
use object::names;
use serde_json::{Value, json};

use super::super::cells::{AGE, Cell, NAME, cell, container_images, container_names, wide};
use super::super::fields::{copy, list, list_mut, number, present, set_absent, set_empty, text};
use super::super::pod_template::{default_pod_template, validate_pod_template_spec};
use super::super::rules::{
    all_nonnegative, amount, at_most_100_percent, fault_of_form, int_or_percent, nonnegative,
    not_decremented, one_of, said, selects_template,
};
use super::super::storage::claim_spec_errors;
use super::super::strategy::Strategy;
use super::{
    bounded_counts, lasting_rules, ready_of_wanted, required_selector, spec_mut,
    unreadable_selector,
};

const RETENTION: &str = "persistentVolumeClaimRetentionPolicy";

/// Fields of the spec that may change.
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    RETENTION,
    "minReadySeconds",
];

/// Pods with lasting names and storage.
pub(crate) struct StatefulSet;

const TABLE: &[Cell] = &[
    NAME,
    cell("Ready", "string", |object, _| ready_of_wanted(object)),
    AGE,
    wide("Containers", "string", |object, _| container_names(&object["spec"]["template"])),
    wide("Images", "string", |object, _| container_images(&object["spec"]["template"])),
];

impl Strategy for StatefulSet {
    fn default(&self, object: &mut Value) {
        let spec = spec_mut(object);
        default_pod_template(&mut spec["template"]);
        set_empty(spec, "podManagementPolicy", "OrderedReady");
        if !spec["updateStrategy"].is_object() {
            spec["updateStrategy"] = json!({});
        }
        let strategy = &mut spec["updateStrategy"];
        if text(strategy, "type").is_empty() {
            strategy["type"] = "RollingUpdate".into();
            set_absent(strategy, "rollingUpdate", json!({}));
        }
        if text(strategy, "type") == "RollingUpdate" && strategy["rollingUpdate"].is_object() {
            set_absent(&mut strategy["rollingUpdate"], "partition", 0);
        }
        set_absent(spec, RETENTION, json!({}));
        set_empty(&mut spec[RETENTION], "whenDeleted", "Retain");
        set_empty(&mut spec[RETENTION], "whenScaled", "Retain");
        set_absent(spec, "replicas", 1);
        set_absent(spec, "revisionHistoryLimit", 10);
        for claim in list_mut(spec, "volumeClaimTemplates") {
            claim["apiVersion"] = "v1".into();
            claim["kind"] = "PersistentVolumeClaim".into();
            if !claim["spec"].is_object() {
                claim["spec"] = json!({});
            }
            set_absent(&mut claim["spec"], "volumeMode", "Filesystem");
            if !claim["status"].is_object() {
                claim["status"] = json!({});
            }
            set_empty(&mut claim["status"], "phase", "Pending");
        }
    }

    fn validate(&self, object: &Value) -> Errors {
        let mut errors = spec_errors(&object["spec"]);
        let (spec, at) = (&object["spec"], Path::new("spec"));
        let service = text(spec, "serviceName");
        if !service.is_empty() {
            errors.extend(said(names::dns1123_label(service), service, &at.child("serviceName")));
        }
        let at_claims = at.child("volumeClaimTemplates");
        for (index, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
            let at = at_claims.index(index).child("spec");
            errors.extend(claim_spec_errors(&claim["spec"], &at));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = spec_errors(&object["spec"]);
        let mut clone = object["spec"].clone();
        for field in CHANGEABLE {
            copy(&mut clone, &old["spec"], field);
        }
        if clone != old["spec"] {
            let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            errors.push(Error::forbidden(&Path::new("spec"), why));
        }
        errors
    }

    fn validate_status(&self, object: &Value, old: &Value) -> Errors {
        let counts = [
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ];
        let mut errors = all_nonnegative(&object["status"], &counts, &Path::new("status"));
        let bounds = [
            ("readyReplicas", "replicas", "status.replicas"),
            ("currentReplicas", "replicas", "status.replicas"),
            ("updatedReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "status.readyReplicas"),
        ];
        errors.extend(bounded_counts(&object["status"], &bounds));
        errors.extend(not_decremented(object, old, "collisionCount"));
        errors
    }

    fn cells(&self) -> &'static [Cell] {
        TABLE
    }
}

fn spec_errors(spec: &Value) -> Errors {
    let at = Path::new("spec");
    let mut errors = Errors::new();
    let policy = text(spec, "podManagementPolicy");
    if !["OrderedReady", "Parallel"].contains(&policy) {
        let at = at.child("podManagementPolicy");
        errors.push(Error::invalid(&at, policy, "must be 'OrderedReady' or 'Parallel'"));
    }
    errors.extend(update_errors(&spec["updateStrategy"], &at.child("updateStrategy")));
    for field in ["whenDeleted", "whenScaled"] {
        let at = at.child(RETENTION);
        errors.extend(one_of(&spec[RETENTION], field, &["Retain", "Delete"], &at));
    }
    errors.extend(all_nonnegative(spec, &["replicas", "minReadySeconds"], &at));
    if let Some(start) = number(&spec["ordinals"], "start").filter(|start| *start < 0) {
        let at = at.child("ordinals.start");
        errors.push(Error::invalid(&at, start, "must be greater than or equal to 0"));
    }
    errors.extend(required_selector(spec, &at, "statefulset"));
    match unreadable_selector(spec) {
        Some(given) => errors.push(Error::invalid(&at.child("selector"), given, "")),
        None => {
            errors.extend(selects_template(spec, &at));
            let template = with_claims(spec);
            errors.extend(validate_pod_template_spec(&template, &at.child("template")));
        }
    }
    errors.extend(lasting_rules(&spec["template"], &at, "StatefulSet"));
    errors
}

/// The template as its pods will be: the claims are volumes, and the names are given.
fn with_claims(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    let claims = list(spec, "volumeClaimTemplates");
    if let Some(pod) = template["spec"].as_object_mut() {
        pod.remove("subdomain");
        pod.remove("hostname");
    }
    if claims.is_empty() {
        return template;
    }
    let name = |claim: &Value| text(&claim["metadata"], "name").to_owned();
    let mut volumes: Vec<Value> = claims
        .iter()
        .map(|claim| json!({"name": name(claim), "persistentVolumeClaim": {"claimName": name(claim)}}))
        .collect();
    let own = list(&template["spec"], "volumes").iter();
    let own = own.filter(|volume| !claims.iter().any(|claim| name(claim) == text(volume, "name")));
    volumes.extend(own.cloned().collect::<Vec<_>>());
    template["spec"]["volumes"] = volumes.into();
    template
}

fn update_errors(strategy: &Value, at: &Path) -> Errors {
    let rolling = present(strategy, "rollingUpdate");
    let at_rolling = at.child("rollingUpdate");
    match text(strategy, "type") {
        "OnDelete" => rolling
            .map(|rolling| {
                let why = "only allowed for updateStrategy 'RollingUpdate'";
                fault_of_form(&at_rolling, Fault::Invalid, &shown_rolling(Some(rolling)), why)
            })
            .into_iter()
            .collect(),
        "RollingUpdate" => {
            let Some(rolling) = rolling else { return Errors::new() };
            let mut errors = nonnegative(rolling, "partition", &at_rolling);
            if let Some(most) = present(rolling, "maxUnavailable") {
                let at = at_rolling.child("maxUnavailable");
                errors.extend(int_or_percent(most, &at));
                if amount(most) == 0 {
                    errors.push(Error::invalid(&at, most.clone(), "cannot be 0"));
                }
                errors.extend(at_most_100_percent(most, &at));
            }
            errors
        }
        _ => {
            let (kind, rolling) = (&strategy["type"], shown_rolling(rolling));
            let value = format!(r#"{{"Type":{kind},"RollingUpdate":{rolling}}}"#);
            vec![fault_of_form(at, Fault::Invalid, &value, "must be 'RollingUpdate' or 'OnDelete'")]
        }
    }
}

fn shown_rolling(rolling: Option<&Value>) -> String {
    let Some(rolling) = rolling else { return "null".to_owned() };
    let partition = number(rolling, "partition").unwrap_or(0);
    format!(r#"{{"Partition":{partition},"MaxUnavailable":{}}}"#, rolling["maxUnavailable"])
}
