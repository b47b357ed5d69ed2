//! Other amounts of CPU and memory for containers that run.

use object::field::{Error, Errors, Path};
use serde_json::{Map, Value};

use super::{qos, validate_content};
use crate::kinds::fields::{copy, list, map, present, text};
use crate::kinds::pod::MIRROR;
use crate::kinds::pod_spec::resources::is_sidecar;

const ONLY_COMPUTE: &str = "only cpu and memory resources are mutable";
const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// Sets back everything but the resources of containers. Where containers come, go or
/// change places, nothing is set back, and validation refuses the whole.
pub(super) fn prepare(pod: &mut Value, old: &Value) {
    let (new, before) = (pod["spec"].clone(), &old["spec"]);
    let lists = ["containers", "initContainers"];
    if lists.iter().any(|name| list(&new, name).len() != list(before, name).len()) {
        return;
    }
    let metadata = pod["metadata"].clone();
    pod["spec"] = before.clone();
    copy(pod, old, "status");
    pod["metadata"] = metadata;
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        copy(&mut pod["metadata"], &old["metadata"], field);
    }
    for name in lists {
        let given = list(&new, name);
        let same = given.iter().zip(list(before, name)).all(|(a, b)| a["name"] == b["name"]);
        if !same {
            copy(&mut pod["spec"], &new, name);
            continue;
        }
        let containers = pod["spec"].get_mut(name).and_then(Value::as_array_mut);
        for (container, given) in containers.into_iter().flatten().zip(given) {
            copy(container, given, "resources");
            copy(container, given, "resizePolicy");
        }
    }
}

/// Checks a pod with other resources against what it was.
pub(super) fn validate(pod: &Value, old: &Value) -> Errors {
    let mut errors = validate_content(pod);
    let (spec, before) = (&pod["spec"], &old["spec"]);
    let path = Path::new("spec");
    if map(&old["metadata"], "annotations").is_some_and(|all| all.contains_key(MIRROR)) {
        return vec![Error::forbidden(&Path::root(), "static pods cannot be resized")];
    }
    if text(&before["os"], "name") == "windows" {
        return vec![Error::forbidden(&Path::root(), "windows pods cannot be resized")];
    }
    let class = text(&pod["status"], "qosClass");
    if text(&old["status"], "qosClass") != qos::of_spec(spec) {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(Error::invalid(&path, class, why));
    }
    if !is_supported(old) {
        errors.push(Error::forbidden(&path, "Pod running on node without support for resize"));
    }
    let whole = |spec: &Value| {
        let resources = &spec["resources"];
        ["requests", "limits"]
            .iter()
            .any(|which| map(resources, which).is_some_and(|m| !m.is_empty()))
    };
    if whole(before) || whole(spec) {
        let why = "resize of pods with pod-level resources is forbidden when InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled";
        errors.push(Error::forbidden(&Path::root(), why));
        return errors;
    }
    let order = check_order(spec, before);
    if !order.is_empty() {
        errors.extend(order);
        return errors;
    }
    check_removed(&mut errors, spec, before);
    check_others(&mut errors, spec, before);
    errors
}

/// Whether the node can resize: one that can says so in the status of running containers.
fn is_supported(pod: &Value) -> bool {
    let statuses = list(&pod["status"], "containerStatuses").iter();
    let mut running = statuses.filter(|status| present(&status["state"], "running").is_some());
    running.next().is_none_or(|status| present(status, "resources").is_some())
}

fn check_order(spec: &Value, before: &Value) -> Errors {
    let mut errors = Errors::new();
    for name in ["containers", "initContainers"] {
        let at = Path::new("spec").child(name);
        let (new, old) = (list(spec, name), list(before, name));
        if new.len() != old.len() {
            let why = format!("{name} may not be added or removed on resize");
            errors.push(Error::forbidden(&at, why));
            continue;
        }
        for (index, (new, old)) in new.iter().zip(old).enumerate() {
            if new["name"] != old["name"] {
                let why = format!("{name} may not be renamed or reordered on resize");
                errors.push(Error::forbidden(&at.index(index).child("name"), why));
            }
        }
    }
    errors
}

fn check_removed(errors: &mut Errors, spec: &Value, before: &Value) {
    for name in ["initContainers", "containers"] {
        for (index, (new, old)) in list(spec, name).iter().zip(list(before, name)).enumerate() {
            if name == "initContainers" && !is_sidecar(old) {
                continue;
            }
            let at = Path::new("spec").child(name).index(index).child("resources");
            for which in ["requests", "limits"] {
                let (empty, of) =
                    (Map::new(), |one: &Value| map(&one["resources"], which).cloned());
                let (new, old) =
                    (of(new).unwrap_or_else(|| empty.clone()), of(old).unwrap_or(empty));
                if old.keys().any(|key| !new.contains_key(key)) {
                    let why = format!("resource {which} cannot be removed");
                    errors.push(Error::forbidden(&at.child(which), why));
                }
            }
        }
    }
}

/// Checks that nothing but CPU and memory differs. A changed resize policy differs too.
fn check_others(errors: &mut Errors, spec: &Value, before: &Value) {
    let path = Path::new("spec");
    for (new, old) in list(spec, "containers").iter().zip(list(before, "containers")) {
        if !same_but_compute(new, old) {
            errors.push(Error::forbidden(&path, ONLY_COMPUTE));
        }
    }
    for (new, old) in list(spec, "initContainers").iter().zip(list(before, "initContainers")) {
        if is_sidecar(new) {
            if !same_but_compute(new, old) {
                let why = "only cpu and memory resources for sidecar containers are mutable";
                errors.push(Error::forbidden(&path, why));
            }
        } else if new != old {
            let why = "resources for non-sidecar init containers are immutable";
            errors.push(Error::forbidden(&path, why));
        }
    }
    let rest = |spec: &Value| {
        let mut spec = spec.clone();
        for name in ["containers", "initContainers"] {
            crate::kinds::fields::remove(&mut spec, name);
        }
        spec
    };
    if errors.is_empty() && rest(spec) != rest(before) {
        errors.push(Error::forbidden(&path, ONLY_COMPUTE));
    }
}

fn same_but_compute(new: &Value, old: &Value) -> bool {
    let mut new = new.clone();
    let before = &old["resources"];
    let mut resources = Map::new();
    for which in ["limits", "requests"] {
        let mut amounts = map(&new["resources"], which).cloned().unwrap_or_default();
        for name in COMPUTE {
            amounts.remove(name);
            if let Some(amount) = before.get(which).and_then(|amounts| amounts.get(name)) {
                amounts.insert(name.to_owned(), amount.clone());
            }
        }
        if !amounts.is_empty() {
            resources.insert(which.to_owned(), amounts.into());
        }
    }
    new["resources"] = resources.into();
    new == *old
}
