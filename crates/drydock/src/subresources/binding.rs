//! A pod gets its node.

use http::StatusCode;
use jiff::Timestamp;
use object::field::{Error, Errors, Path};
use serde_json::{Map, Value, json};

use super::done;
use crate::admission::pod_topology;
use crate::answer::failure::GroupResource;
use crate::answer::{Answer, Failure};
use crate::conditions;
use crate::request::{OptionsKind, WriteOptions};
use crate::verbs::Ask;
use crate::verbs::create::check_namespace;
use crate::write::body_type::BINDING;
use crate::write::decode::Decoded;
use crate::write::{Attempt, Part, meta_text};

/// Assigns the pod that the path or the body names to the node in the body.
///
/// Node, annotations and labels of the Binding appear on the pod in one commit.
///
/// # Errors
/// When the pod is not there, has a node, is gated or ending, or is not the one meant.
pub(super) fn bind(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let options = WriteOptions::parse(&ask.query, OptionsKind::Create)?;
    let Decoded { value: mut binding, warnings } =
        BINDING.decode(&ask.headers, &ask.body, options.field_validation)?;
    check_namespace(ask, &binding)?;
    let given = meta_text(&binding, "name").to_owned();
    let name = ask.target.name.clone().unwrap_or_else(|| given.clone());
    if given != name {
        let why = "name in URL does not match name in Binding object";
        return Err(Failure::bad_request(why));
    }
    let errors = validate(&binding);
    if !errors.is_empty() {
        return Err(refusal(&errors));
    }
    if ask.target.subresource.is_some() {
        pod_topology::label_binding(ask.server, &mut binding);
    }
    let registry = ask.server.registry();
    let pods = registry.find("", "v1", "pods").ok_or_else(Failure::no_such_path)?;
    let attempt = Attempt {
        found: &pods,
        namespace: ask.namespace(),
        name: &name,
        part: Part::Named("binding"),
        writer: ask.writer(options.dry_run),
    };
    let now = ask.server.env().now();
    ask.update(&attempt, |pod| {
        check(&name, &binding, pod)?;
        let mut pod = pod.clone();
        assign(&mut pod, &binding);
        schedule(&mut pod["status"]["conditions"], now);
        Ok(pod)
    })?;
    Ok(done(StatusCode::CREATED, &warnings))
}

/// Upstream answers a wrong binding as an error of its own.
fn refusal(errors: &Errors) -> Failure {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Failure::unclassified(match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    })
}

/// Says that the pod is scheduled, and forgets why it was not.
fn schedule(conditions: &mut Value, now: Timestamp) {
    let scheduled = json!({"type": SCHEDULED, "status": "True"});
    for known in conditions.as_array_mut().into_iter().flatten() {
        if let Some(known) = known.as_object_mut().filter(|known| known["type"] == SCHEDULED) {
            known.retain(|key, _| matches!(key.as_str(), "type" | "status" | "lastTransitionTime"));
        }
    }
    conditions::set(conditions, &scheduled, now);
}

/// The condition that says whether a pod has a node.
const SCHEDULED: &str = "PodScheduled";

fn validate(binding: &Value) -> Errors {
    let at = Path::new("target");
    let mut errors = Errors::new();
    let kind = binding["target"]["kind"].as_str().unwrap_or_default();
    if !matches!(kind, "" | "Node") {
        errors.push(Error::not_supported(&at.child("kind"), kind, &["Node", "<empty>"]));
    }
    if binding["target"]["name"].as_str().unwrap_or_default().is_empty() {
        errors.push(Error::required(&at.child("name"), ""));
    }
    errors
}

fn check(name: &str, binding: &Value, pod: &Value) -> Result<(), Failure> {
    let pods = GroupResource { group: "", resource: "pods" };
    for (key, word) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (wanted, actual) = (meta_text(binding, key), meta_text(pod, key));
        if !wanted.is_empty() && wanted != actual {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{}/{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {actual}",
                meta_text(pod, "namespace")
            );
            return Err(Failure::conflict(&pods, name, why));
        }
    }
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let why = if !meta_text(pod, "deletionTimestamp").is_empty() {
        format!("pod {name} is being deleted, cannot be assigned to a host")
    } else if !node.is_empty() {
        format!("pod {name} is already assigned to node {node:?}")
    } else if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        format!("pod {name} has non-empty .spec.schedulingGates")
    } else {
        return Ok(());
    };
    let binding = GroupResource { group: "", resource: "pods/binding" };
    Err(Failure::conflict(&binding, name, why))
}

fn assign(pod: &mut Value, binding: &Value) {
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    if let Some(status) = pod["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    for field in ["annotations", "labels"] {
        let Some(given) = binding["metadata"][field].as_object() else { continue };
        let place = &mut pod["metadata"][field];
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        for (key, value) in given {
            place[key] = value.clone();
        }
    }
}
