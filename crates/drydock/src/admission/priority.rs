//! A pod's priority class becomes a number; the default class stays unique.

use serde_json::{Value, json};

use super::{Attributes, Operation};
use crate::answer::Failure;
use crate::write::Part;

/// Sets `spec.priority` and `spec.preemptionPolicy` of a pod.
pub(super) fn mutate(attributes: &Attributes<'_>, pod: &mut Value) -> Result<(), Failure> {
    if attributes.part != Part::Object {
        return Ok(());
    }
    if let Some(old) = attributes.old {
        for field in ["priority", "preemptionPolicy"] {
            if pod["spec"][field].is_null() && !old["spec"][field].is_null() {
                pod["spec"][field] = old["spec"][field].clone();
            }
        }
        return Ok(());
    }
    let class = class_of(attributes, pod)?;
    let priority = class["value"].as_i64().unwrap_or(0);
    if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != priority) {
        return Err(attributes.forbid(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        )));
    }
    let policy = class["preemptionPolicy"].as_str().unwrap_or(PREEMPTS);
    let given = pod["spec"]["preemptionPolicy"].as_str();
    if let Some(given) = given.filter(|given| *given != policy) {
        return Err(attributes.forbid(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        )));
    }
    if let Some(name) = class["metadata"]["name"].as_str() {
        pod["spec"]["priorityClassName"] = name.into();
    }
    pod["spec"]["priority"] = priority.into();
    pod["spec"]["preemptionPolicy"] = policy.into();
    Ok(())
}

fn class_of(attributes: &Attributes<'_>, pod: &Value) -> Result<Value, Failure> {
    match pod["spec"]["priorityClassName"].as_str().filter(|name| !name.is_empty()) {
        Some(name) => attributes.lookup(GROUP, PLURAL, name).ok_or_else(|| {
            attributes.forbid(format!("no PriorityClass with name {name} was found"))
        }),
        None => Ok(default_class(attributes)
            .unwrap_or_else(|| json!({"value": 0, "preemptionPolicy": PREEMPTS}))),
    }
}

/// Refuses a second default class.
pub(super) fn validate(attributes: &Attributes<'_>, class: &Value) -> Result<(), Failure> {
    if attributes.operation == Operation::Delete || class["globalDefault"] != true {
        return Ok(());
    }
    let Some(default) = default_class(attributes) else { return Ok(()) };
    let name = default["metadata"]["name"].as_str().unwrap_or_default();
    if attributes.operation == Operation::Update && name == attributes.name {
        return Ok(());
    }
    Err(attributes.forbid(format!(
        "PriorityClass {name} is already marked as default. Only one default can exist"
    )))
}

/// What a class does that says nothing.
const PREEMPTS: &str = "PreemptLowerPriority";
const GROUP: &str = "scheduling.k8s.io";
const PLURAL: &str = "priorityclasses";

/// The default class; of several, the one with the lowest value.
fn default_class(attributes: &Attributes<'_>) -> Option<Value> {
    let registry = attributes.server.registry();
    let (classes, _) = registry.resource(GROUP, PLURAL)?.table.list("");
    let classes = classes.iter().filter_map(|stored| serde_json::from_slice(&stored.body).ok());
    classes
        .filter(|class: &Value| class["globalDefault"] == true)
        .min_by_key(|class| class["value"].as_i64())
}
