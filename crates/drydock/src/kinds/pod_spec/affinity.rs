//! Which nodes and which neighbours a pod wants.

use object::field::{Error, Errors, Path};
use object::names::{self, NameUse, validate_label_name};
use object::selector::label::LabelSelector;
use serde_json::Value;

use crate::kinds::fields::{list, number, present, text, texts};
use crate::kinds::rules::said;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NO_OPERATOR: &str = "not a valid selector operator";

/// Whether the values of a node selector must be label values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    Checked,
    Free,
}

/// Checks `affinity`.
pub(super) fn check(errors: &mut Errors, spec: &Value, path: &Path) {
    let Some(affinity) = present(spec, "affinity") else { return };
    let path = path.child("affinity");
    if let Some(nodes) = present(affinity, "nodeAffinity") {
        check_nodes(errors, nodes, &path.child("nodeAffinity"));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = present(affinity, kind) else { continue };
        let at = path.child(kind);
        for (index, term) in list(pods, REQUIRED).iter().enumerate() {
            check_pod_term(errors, term, &at.child(REQUIRED).index(index));
        }
        for (index, weighted) in list(pods, PREFERRED).iter().enumerate() {
            let at = at.child(PREFERRED).index(index);
            check_weight(errors, weighted, &at);
            check_pod_term(errors, &weighted["podAffinityTerm"], &at.child("podAffinityTerm"));
        }
    }
}

fn check_weight(errors: &mut Errors, term: &Value, path: &Path) {
    let weight = number(term, "weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.push(Error::invalid(&path.child("weight"), weight, "must be in the range 1-100"));
    }
}

fn check_nodes(errors: &mut Errors, nodes: &Value, path: &Path) {
    if let Some(required) = present(nodes, REQUIRED) {
        let at = path.child(REQUIRED).child("nodeSelectorTerms");
        let terms = list(required, "nodeSelectorTerms");
        if terms.is_empty() {
            errors.push(Error::required(&at, "must have at least one node selector term"));
        }
        for (index, term) in terms.iter().enumerate() {
            check_node_term(errors, term, &at.index(index), Values::Checked);
        }
    }
    for (index, preferred) in list(nodes, PREFERRED).iter().enumerate() {
        let at = path.child(PREFERRED).index(index);
        check_weight(errors, preferred, &at);
        // Such a wish can only be ignored, so upstream lets odd values pass.
        check_node_term(errors, &preferred["preference"], &at.child("preference"), Values::Free);
    }
}

fn check_node_term(errors: &mut Errors, term: &Value, path: &Path, values: Values) {
    for (index, requirement) in list(term, "matchExpressions").iter().enumerate() {
        let at = path.child("matchExpressions").index(index);
        check_label_requirement(errors, requirement, &at, values);
    }
    for (index, requirement) in list(term, "matchFields").iter().enumerate() {
        check_field_requirement(errors, requirement, &path.child("matchFields").index(index));
    }
}

fn check_label_requirement(errors: &mut Errors, requirement: &Value, path: &Path, values: Values) {
    let given = list(requirement, "values");
    let at = path.child("values");
    match text(requirement, "operator") {
        "In" | "NotIn" => {
            if given.is_empty() {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(Error::required(&at, why));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !given.is_empty() {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(Error::forbidden(&at, why));
            }
        }
        "Gt" | "Lt" => {
            if given.len() != 1 {
                let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.push(Error::required(&at, why));
            }
        }
        other => errors.push(Error::invalid(&path.child("operator"), other, NO_OPERATOR)),
    }
    errors.extend(validate_label_name(text(requirement, "key"), &path.child("key")));
    if values == Values::Checked {
        for (index, value) in texts(requirement, "values").enumerate() {
            errors.extend(said(names::label_value(value), value, &at.index(index)));
        }
    }
}

fn check_field_requirement(errors: &mut Errors, requirement: &Value, path: &Path) {
    let at = path.child("values");
    match text(requirement, "operator") {
        "In" | "NotIn" => {
            if list(requirement, "values").len() != 1 {
                let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.push(Error::required(&at, why));
            }
        }
        other => errors.push(Error::invalid(&path.child("operator"), other, NO_OPERATOR)),
    }
    let key = text(requirement, "key");
    if key != "metadata.name" {
        errors.push(Error::invalid(&path.child("key"), key, "not a valid field selector key"));
        return;
    }
    for (index, value) in texts(requirement, "values").enumerate() {
        let messages = names::name_is_dns_subdomain(value, NameUse::Whole);
        errors.extend(said(messages, value, &at.index(index)));
    }
}

fn check_pod_term(errors: &mut Errors, term: &Value, path: &Path) {
    for field in ["labelSelector", "namespaceSelector"] {
        check_selector(errors, term, field, path);
    }
    for name in texts(term, "namespaces") {
        let messages = names::name_is_dns_label(name, NameUse::Whole);
        errors.extend(said(messages, name, &path.child("namespace")));
    }
    check_label_keys(errors, term, path);
    let key = text(term, "topologyKey");
    let at = path.child("topologyKey");
    if key.is_empty() {
        errors.push(Error::required(&at, "can not be empty"));
    }
    errors.extend(validate_label_name(key, &at));
}

/// Checks the label selector under a field, where there is one.
pub(super) fn check_selector(errors: &mut Errors, object: &Value, field: &str, path: &Path) {
    let Some(selector) = present(object, field) else { return };
    if let Ok(selector) = serde_json::from_value::<LabelSelector>(selector.clone()) {
        errors.extend(selector.validate(&path.child(field)));
    }
}

/// Checks `matchLabelKeys` and `mismatchLabelKeys`. By now the selector has been completed
/// from them, so that a key the user gave himself is there twice.
pub(super) fn check_label_keys(errors: &mut Errors, term: &Value, path: &Path) {
    let selector = present(term, "labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys: Vec<&str> = texts(term, field).collect();
        let at = path.child(field);
        if !keys.is_empty() && selector.is_none() {
            let why = "must not be specified when labelSelector is not set";
            errors.push(Error::forbidden(&at, why));
            continue;
        }
        for (index, key) in keys.into_iter().enumerate() {
            errors.extend(validate_label_name(key, &at.index(index)));
        }
    }
    let matched: Vec<&str> = texts(term, "matchLabelKeys").collect();
    if let Some(selector) = selector {
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        let mut seen: Vec<&str> =
            labels.into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        for expression in list(selector, "matchExpressions") {
            let key = text(expression, "key");
            if let Some(index) = matched.iter().rposition(|one| *one == key)
                && seen.contains(&key)
            {
                let why = "exists in both matchLabelKeys and labelSelector";
                errors.push(Error::invalid(&path.index(index), key, why));
            }
            seen.push(key);
        }
    }
    let mismatched: Vec<&str> = texts(term, "mismatchLabelKeys").collect();
    for (index, key) in matched.into_iter().enumerate() {
        if mismatched.contains(&key) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.push(Error::invalid(&path.child("matchLabelKeys").index(index), key, why));
        }
    }
}
