//! What is special about CustomResourceDefinitions themselves.

use jiff::Timestamp;
use object::field::Errors;
use object::time::Time;
use serde_json::{Value, json};

use super::check;
use crate::conditions;
use crate::kinds::Strategy;

/// The finalizer that holds a definition until its objects are gone.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The strategy of CustomResourceDefinitions.
pub struct Definition;

impl Strategy for Definition {
    fn default(&self, object: &mut Value) {
        let names = &mut object["spec"]["names"];
        if let Some(kind) = names["kind"].as_str().map(str::to_owned) {
            if names["singular"].as_str().unwrap_or_default().is_empty() {
                names["singular"] = kind.to_lowercase().into();
            }
            if names["listKind"].as_str().unwrap_or_default().is_empty() {
                names["listKind"] = format!("{kind}List").into();
            }
        }
        if object["spec"]["conversion"].is_null() {
            object["spec"]["conversion"] = json!({"strategy": "None"});
        }
    }

    fn prepare_create(&self, object: &mut Value, _now: Timestamp) {
        let stored = storage_version(&object["spec"]);
        object["status"] = json!({
            "conditions": null,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored,
        });
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value, _now: Timestamp) {
        let stored = storage_version(&object["spec"]);
        let versions = &mut object["status"]["storedVersions"];
        let known = versions.as_array().is_some_and(|list| list.contains(&stored[0]));
        if let (false, Some(list)) = (known, versions.as_array_mut()) {
            list.push(stored[0].clone());
        }
    }

    fn mark_specially(&self, object: &mut Value, now: Timestamp) -> bool {
        let metadata = &mut object["metadata"];
        metadata["deletionTimestamp"] = Time::from(now).to_string().into();
        match metadata["finalizers"].as_array_mut() {
            Some(list) if list.iter().any(|name| name == CLEANUP) => {}
            Some(list) => list.push(CLEANUP.into()),
            None => metadata["finalizers"] = json!([CLEANUP]),
        }
        let message =
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        let new = json!({"type": "Terminating", "status": "True",
            "reason": "InstanceDeletionPending", "message": message});
        conditions::set(&mut object["status"]["conditions"], &new, now);
        true
    }

    fn validate(&self, object: &Value) -> Errors {
        check::errors(object)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        check::change_errors(object, old)
    }
}

/// A list of the one version that objects are stored in.
fn storage_version(spec: &Value) -> Value {
    let versions = spec["versions"].as_array().into_iter().flatten();
    let stored = versions.filter(|version| version["storage"] == true);
    stored.take(1).map(|version| version["name"].clone()).collect::<Vec<_>>().into()
}
