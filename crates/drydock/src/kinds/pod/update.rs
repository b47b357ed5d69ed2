//! What may change of a pod once it is there.

use object::field::{Error, Errors, Path};
use object::names;
use object::taint::validate_tolerations;
use serde_json::{Map, Value, json};

use super::diff;
use crate::kinds::fields::{copy, list, map, number, present, text};
use crate::kinds::pod::MIRROR;
use crate::kinds::pod_spec::{self, tolerations};

const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const MAY_CHANGE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks the annotations that are part of what a pod is.
pub(super) fn validate_annotations(pod: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = Path::new("metadata").child("annotations");
    let (empty, of) = (Map::new(), |pod| map(pod, "annotations"));
    let new = of(&pod["metadata"]).unwrap_or(&empty);
    let before = of(&old["metadata"]).unwrap_or(&empty);
    let changed = before.iter().filter(|(key, value)| new.get(*key) != Some(value));
    let added = new.iter().filter(|(key, _)| !before.contains_key(*key));
    let verbs = changed.map(|(key, _)| (key, "remove or update"));
    for (key, verb) in verbs.chain(added.map(|(key, _)| (key, "add"))) {
        let what = if key.starts_with(APPARMOR) {
            "AppArmor annotations"
        } else if key == MIRROR {
            "mirror pod annotation"
        } else {
            continue;
        };
        errors.push(Error::forbidden(&path.key(key), format!("may not {verb} {what}")));
    }
    errors.extend(pod_spec::validate_annotations(Some(new), &pod["spec"], &path));
    errors
}

/// Checks the spec against what it was.
pub(super) fn validate(pod: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (spec, old) = (&pod["spec"], &old["spec"]);
    let path = Path::new("spec");
    for name in ["containers", "initContainers"] {
        let (new, before) = (list(spec, name), list(old, name));
        let at = path.child(name);
        if new.len() != before.len() {
            let why = "pod updates may not add or remove containers";
            errors.push(Error::forbidden(&at, why));
            return errors;
        }
        for (index, container) in new.iter().enumerate() {
            let (image, at) = (text(container, "image"), at.index(index).child("image"));
            if image.is_empty() {
                errors.push(Error::required(&at, ""));
            }
            if image.trim() != image {
                let why = "must not have leading or trailing whitespace";
                errors.push(Error::invalid(&at, image, why));
            }
        }
    }
    if let Some(fault) = deadline(spec, old, &mut errors) {
        errors.push(fault);
        return errors;
    }
    only_added_tolerations(&mut errors, spec, old);
    only_removed_gates(&mut errors, spec, old);
    if spec == old {
        return errors;
    }
    let munged = without_allowed(&mut errors, spec, old);
    if munged != *old {
        let shown = diff::lines(old, &munged);
        let why = format!("pod updates may not change fields other than {MAY_CHANGE}\n{shown}");
        errors.push(Error::forbidden(&path, why));
    }
    errors
}

/// A deadline may come and shrink. What is returned ends the validation.
fn deadline(spec: &Value, old: &Value, errors: &mut Errors) -> Option<Error> {
    let at = Path::new("spec").child("activeDeadlineSeconds");
    let field = "activeDeadlineSeconds";
    match (number(spec, field), number(old, field)) {
        (Some(new), before) => {
            let range = names::in_range(new, 0, i64::from(i32::MAX));
            if let Some(message) = range.into_iter().next() {
                return Some(Error::invalid(&at, new, message));
            }
            let why = "must be less than or equal to previous value";
            before.is_some_and(|before| before < new).then(|| Error::invalid(&at, new, why))
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            errors.push(Error::invalid(&at, Value::Null, why));
            None
        }
        (None, None) => None,
    }
}

fn only_added_tolerations(errors: &mut Errors, spec: &Value, old: &Value) {
    let at = Path::new("spec").child("tolerations");
    let kept = |before: &Value| {
        list(spec, "tolerations").iter().any(|new| {
            let mut before = before.clone();
            copy(&mut before, new, "tolerationSeconds");
            before == *new
        })
    };
    if !list(old, "tolerations").iter().all(kept) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(Error::forbidden(&at, why));
        return;
    }
    errors.extend(validate_tolerations(&tolerations(spec), &at));
}

fn only_removed_gates(errors: &mut Errors, spec: &Value, old: &Value) {
    let at = Path::new("spec").child("schedulingGates");
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        if !list(old, "schedulingGates").iter().any(|before| text(before, "name") == name) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(Error::forbidden(&at.index(index).child("name"), why));
        }
    }
}

/// The spec with everything that may change set back.
fn without_allowed(errors: &mut Errors, spec: &Value, old: &Value) -> Value {
    let mut munged = spec.clone();
    for name in ["containers", "initContainers"] {
        let before = list(old, name);
        let containers = munged.get_mut(name).and_then(Value::as_array_mut);
        for (container, before) in containers.into_iter().flatten().zip(before) {
            copy(container, before, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        copy(&mut munged, old, field);
    }
    let grace = "terminationGracePeriodSeconds";
    if number(old, grace).is_some_and(|before| before < 0) && number(spec, grace) == Some(1) {
        copy(&mut munged, old, grace);
    }
    if !list(old, "schedulingGates").is_empty() {
        only_narrowed(errors, &mut munged, old);
    }
    munged
}

/// Where a gated pod may go can be narrowed.
fn only_narrowed(errors: &mut Errors, munged: &mut Value, old: &Value) {
    let path = Path::new("spec");
    let (empty, new) = (Map::new(), munged.clone());
    let selector = map(&new, "nodeSelector").unwrap_or(&empty);
    let before = map(old, "nodeSelector").unwrap_or(&empty);
    if before.iter().any(|(key, value)| selector.get(key) != Some(value)) {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        let shown = map(&new, "nodeSelector").map_or(Value::Null, |map| map.clone().into());
        errors.push(Error::invalid(&path.child("nodeSelector"), shown, why));
    }
    copy(munged, old, "nodeSelector");
    let of = |spec: &Value| spec.pointer("/affinity/nodeAffinity").cloned();
    let (wanted, before) = (of(&new), of(old));
    if wanted == before {
        return;
    }
    let at = path.child("affinity").child("nodeAffinity");
    narrowed_affinity(errors, wanted.as_ref(), before.as_ref(), &at);
    match (munged.get_mut("affinity"), before) {
        (None, None) => {}
        (None, Some(before)) => munged["affinity"] = json!({"nodeAffinity": before}),
        (Some(affinity), before) => {
            let only_nodes = ["podAffinity", "podAntiAffinity"]
                .iter()
                .all(|kind| present(affinity, kind).is_none());
            if only_nodes && present(old, "affinity").is_none() {
                crate::kinds::fields::remove(munged, "affinity");
            } else {
                let holder = json!({"nodeAffinity": before});
                copy(affinity, &holder, "nodeAffinity");
            }
        }
    }
}

fn narrowed_affinity(errors: &mut Errors, new: Option<&Value>, old: Option<&Value>, path: &Path) {
    let terms = |affinity: Option<&Value>| -> Option<Vec<Value>> {
        let required = affinity.and_then(|affinity| present(affinity, REQUIRED))?;
        Some(list(required, "nodeSelectorTerms").to_vec())
    };
    let Some(before) = terms(old) else { return };
    let new = terms(new).unwrap_or_default();
    let at = path.child(REQUIRED).child("nodeSelectorTerms");
    if !before.is_empty() && before.len() != new.len() {
        let shown = if new.is_empty() {
            Value::Null
        } else {
            new.iter().map(internal_term).collect::<Vec<_>>().into()
        };
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(Error::invalid(&at, shown, why));
        return;
    }
    for (index, (new, before)) in new.iter().zip(&before).enumerate() {
        if !only_additions(new, before) {
            let why = "only additions are allowed (no mutations or deletions)";
            errors.push(Error::invalid(&at.index(index), internal_term(new), why));
        }
    }
}

fn only_additions(new: &Value, old: &Value) -> bool {
    let fields = ["matchExpressions", "matchFields"];
    let is_empty = |term: &Value| fields.iter().all(|field| list(term, field).is_empty());
    if is_empty(old) {
        return is_empty(new);
    }
    fields.iter().all(|field| list(new, field).starts_with(list(old, field)))
}

/// A term as upstream shows it: its internal form, whose fields have Go's names.
fn internal_term(term: &Value) -> Value {
    let requirements = |field: &str| -> Value {
        let Some(all) = present(term, field) else { return Value::Null };
        let all = all.as_array().into_iter().flatten().map(
            |one| json!({"Key": one["key"], "Operator": one["operator"], "Values": one["values"]}),
        );
        all.collect::<Vec<_>>().into()
    };
    json!({
        "MatchExpressions": requirements("matchExpressions"),
        "MatchFields": requirements("matchFields"),
    })
}
