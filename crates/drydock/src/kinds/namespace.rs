//! Namespaces.

use jiff::Timestamp;
use object::field::{Error, Errors, Path};
use object::names;
use object::names::meta::validate_kube_finalizer;
use serde_json::{Value, json};

use super::Strategy;
use super::cells::{AGE, Cell, NAME, cell, text_or};
use super::fields::{copy, list, present, remove, set_empty, text, texts};
use super::strategy::{Ending, Selectable};
use crate::admission::Plugin;
use crate::write::meta_text;

const FINALIZER: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// What is special about namespaces.
pub struct Namespace;

impl Strategy for Namespace {
    fn default(&self, namespace: &mut Value) {
        for field in ["spec", "status"] {
            if !namespace[field].is_object() {
                namespace[field] = json!({});
            }
        }
        set_empty(&mut namespace["status"], "phase", "Active");
        let name = meta_text(namespace, "name").to_owned();
        if !name.is_empty() {
            namespace["metadata"]["labels"][NAME_LABEL] = name.into();
        }
    }

    fn prepare_create(&self, namespace: &mut Value, _now: Timestamp) {
        namespace["status"] = json!({"phase": "Active"});
        let mut finalizers = list(&namespace["spec"], "finalizers").to_vec();
        if !finalizers.iter().any(|name| name == FINALIZER) {
            finalizers.push(FINALIZER.into());
        }
        namespace["spec"]["finalizers"] = finalizers.into();
    }

    fn prepare_update(&self, namespace: &mut Value, old: &Value, _now: Timestamp) {
        copy(&mut namespace["spec"], &old["spec"], "finalizers");
    }

    fn validate(&self, namespace: &Value) -> Errors {
        let at = Path::new("spec").child("finalizers");
        let finalizers = texts(&namespace["spec"], "finalizers");
        finalizers.flat_map(|name| check_finalizer(name, &at)).collect()
    }

    fn validate_status(&self, namespace: &Value, _old: &Value) -> Errors {
        let phase = text(&namespace["status"], "phase");
        let why = if present(&namespace["metadata"], "deletionTimestamp").is_none() {
            (phase != "Active").then_some("may only be 'Active' if `deletionTimestamp` is empty")
        } else {
            (phase != "Terminating")
                .then_some("may only be 'Terminating' if `deletionTimestamp` is not empty")
        };
        let at = Path::new("status").child("Phase");
        why.map(|why| Error::invalid(&at, phase, why)).into_iter().collect()
    }

    fn validate_part(&self, part: &str, namespace: &Value, _old: &Value) -> Errors {
        if part != "finalize" {
            return Errors::new();
        }
        let at = Path::new("spec").child("finalizers");
        let finalizers = texts(&namespace["spec"], "finalizers").enumerate();
        finalizers.flat_map(|(index, name)| check_finalizer(name, &at.index(index))).collect()
    }

    fn selectable(&self) -> &'static [Selectable] {
        &SELECTABLE
    }

    fn cells(&self) -> &'static [Cell] {
        TABLE
    }

    fn admission(&self) -> &'static [Plugin] {
        &[Plugin::SystemNamespaces]
    }

    fn holds(&self, namespace: &Value) -> bool {
        !list(&namespace["spec"], "finalizers").is_empty()
    }

    fn mark_deleted(&self, namespace: &mut Value) {
        namespace["status"]["phase"] = "Terminating".into();
        // Upstream's own way of marking a namespace leaves this out.
        remove(&mut namespace["metadata"], "deletionGracePeriodSeconds");
    }

    fn ending(&self, _namespace: &Value, _asked_seconds: Option<i64>) -> Ending {
        Ending::Marked
    }
}

const TABLE: &[Cell] = &[
    NAME,
    cell("Status", "string", |namespace, _| text_or(&namespace["status"]["phase"], "")),
    AGE,
];

static SELECTABLE: [Selectable; 1] = [Selectable {
    name: "status.phase",
    value: |namespace| text(&namespace["status"], "phase").into(),
}];

fn check_finalizer(name: &str, path: &Path) -> Errors {
    let messages = names::qualified_name(name).into_iter();
    let mut errors: Errors = messages.map(|message| Error::invalid(path, name, message)).collect();
    errors.extend(validate_kube_finalizer(name, path));
    errors
}
