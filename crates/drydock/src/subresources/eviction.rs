//! A pod goes if its disruption budget allows it.

use http::StatusCode;
use jiff::Timestamp;
use object::selector::label::LabelSelector;
use object::time::Time;
use serde_json::{Map, Value, json};

use super::done;
use crate::answer::failure::{GroupResource, Reason};
use crate::answer::{Answer, Failure};
use crate::conditions;
use crate::kinds::Found;
use crate::request::options::DeleteOptions;
use crate::request::{OptionsKind, WriteOptions};
use crate::verbs::Ask;
use crate::write::body_type::EVICTION;
use crate::write::decode::Decoded;
use crate::write::{self, Attempt, Part, Writer, meta_text};

/// How many evictions a budget's status remembers before its controller must catch up.
const DISRUPTED_PODS_MAX: usize = 2000;
/// How many seconds a client should wait before it tries again.
const RETRY_SECONDS: u32 = 10;

/// Deletes the pod if no budget forbids it, and counts it against its budget.
///
/// # Errors
/// When the pod is not there, or its budget is used up.
pub(super) fn evict(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let write_options = WriteOptions::parse(&ask.query, OptionsKind::Create)?;
    let validation = write_options.field_validation;
    let Decoded { value: eviction, warnings } =
        EVICTION.decode(&ask.headers, &ask.body, validation)?;
    if meta_text(&eviction, "name") != ask.name() {
        let why = "name in URL does not match name in Eviction object";
        return Err(Failure::bad_request(why));
    }
    let mut options = DeleteOptions::from_body(&eviction["deleteOptions"])?;
    options.dry_run |= write_options.dry_run;
    let kind = &ask.found.kind;
    let stored = kind.table.get(&ask.target.key());
    let stored = stored.ok_or_else(|| Failure::not_found(&kind.resource(), ask.name()))?;
    let pod = write::materialize(kind, ask.found.version(), &stored);
    let guarded = guard(ask, &pod, options.dry_run)?;
    if guarded == Guard::OnlyThis && options.resource_version.is_none() {
        options.resource_version = Some(stored.revision.to_string());
    }
    match delete(ask, &options) {
        Err(failure) if failure.reason == Reason::Conflict && guarded == Guard::OnlyThis => {
            Err(budget_exhausted(""))
        }
        Err(failure) => Err(failure),
        Ok(()) => Ok(done(StatusCode::CREATED, &warnings)),
    }
}

/// What an eviction must still be careful about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guard {
    /// Nothing.
    Free,
    /// The decision holds for the pod as it was seen.
    OnlyThis,
}

fn guard(ask: &Ask<'_>, pod: &Value, dry_run: bool) -> Result<Guard, Failure> {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    let over =
        matches!(phase, "Succeeded" | "Failed") || !meta_text(pod, "deletionTimestamp").is_empty();
    if over {
        return Ok(Guard::Free);
    }
    if phase == "Pending" {
        return Ok(Guard::OnlyThis);
    }
    let budgets = budgets(ask, pod)?;
    let budget = match budgets.as_slice() {
        [] => return Ok(Guard::Free),
        [budget] => budget,
        _ => {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Failure::unclassified(why));
        }
    };
    if !is_ready(pod) && unhealthy_may_go(budget) {
        return Ok(Guard::OnlyThis);
    }
    charge(ask, budget, meta_text(pod, "name"), dry_run)?;
    Ok(Guard::Free)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|found| found["type"] == "Ready" && found["status"] == "True")
}

fn unhealthy_may_go(budget: &Value) -> bool {
    if budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" {
        return true;
    }
    let count = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    count("currentHealthy") >= count("desiredHealthy") && count("desiredHealthy") > 0
}

/// The budgets that cover a pod.
fn budgets(ask: &Ask<'_>, pod: &Value) -> Result<Vec<Value>, Failure> {
    let found = budget_kind(ask)?;
    let (all, _) = found.kind.table.list(&ask.target.prefix());
    let labels = pod["metadata"]["labels"].as_object();
    let covers = |budget: &Value| {
        let Ok(selector) =
            serde_json::from_value::<LabelSelector>(budget["spec"]["selector"].clone())
        else {
            return false;
        };
        let Ok(selector) = selector.to_selector() else { return false };
        selector.matches(|key| labels?.get(key)?.as_str())
    };
    let budgets = all.iter().map(|stored| write::materialize(&found.kind, found.version(), stored));
    Ok(budgets.filter(covers).collect())
}

fn budget_kind(ask: &Ask<'_>) -> Result<Found, Failure> {
    let registry = ask.server.registry();
    registry.find("policy", "v1", "poddisruptionbudgets").ok_or_else(Failure::no_such_path)
}

/// Takes one disruption from the budget.
fn charge(ask: &Ask<'_>, budget: &Value, pod: &str, dry_run: bool) -> Result<(), Failure> {
    let found = budget_kind(ask)?;
    let name = meta_text(budget, "name").to_owned();
    let writer = Writer { identity: ask.identity, dry_run };
    let attempt = Attempt {
        found: &found,
        namespace: ask.namespace(),
        name: &name,
        part: Part::Status,
        writer,
    };
    let now = ask.server.env().now();
    ask.update(&attempt, |old| {
        let mut budget = old.clone();
        spend(&mut budget, pod, now)?;
        Ok(budget)
    })?;
    Ok(())
}

fn spend(budget: &mut Value, pod: &str, now: Timestamp) -> Result<(), Failure> {
    let name = meta_text(budget, "name").to_owned();
    let status = &budget["status"];
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let observed = count("observedGeneration");
    if observed < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        return Err(budget_exhausted(&name));
    }
    let allowed = count("disruptionsAllowed");
    let what = GroupResource { group: "policy", resource: "poddisruptionbudget" };
    if allowed < 0 {
        return Err(Failure::forbidden(&what, &name, "pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().map_or(0, Map::len) > DISRUPTED_PODS_MAX {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Failure::forbidden(&what, &name, why));
    }
    if allowed == 0 {
        return Err(refused(&why_none_allowed(&name, status)));
    }
    let generation = budget["metadata"]["generation"].clone();
    let status = &mut budget["status"];
    status["disruptionsAllowed"] = (allowed - 1).into();
    if !status["disruptedPods"].is_object() {
        status["disruptedPods"] = json!({});
    }
    status["disruptedPods"][pod] = Time::from(now).to_string().into();
    if allowed == 1 {
        let conditions = &mut status["conditions"];
        let new = json!({
            "type": ALLOWED,
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": generation,
        });
        conditions::set(conditions, &new, now);
    }
    Ok(())
}

/// The condition that says whether a budget allows disruptions.
const ALLOWED: &str = "DisruptionAllowed";

fn why_none_allowed(name: &str, status: &Value) -> String {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let forbidding = conditions
        .into_iter()
        .find(|found| found["type"] == ALLOWED && found["status"] == "False")
        .map(|found| {
            let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
            (text("reason"), text("message"))
        })
        .filter(|(_, message)| !message.is_empty());
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let (desired, healthy) = (count("desiredHealthy"), count("currentHealthy"));
    let budget = format!("The disruption budget {name}");
    match forbidding {
        Some((reason, message)) if reason == "SyncFailed" => format!(
            "{budget} does not allow evicting pods currently because it failed sync: {message}"
        ),
        _ if healthy <= desired => {
            format!("{budget} needs {desired} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => {
            format!("{budget} does not allow evicting pods currently ({reason}): {message}")
        }
        None => format!("{budget} does not allow evicting pods currently"),
    }
}

fn refused(why: &str) -> Failure {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    Failure::too_many_requests(message, 0)
        .with_causes(json!([{"reason": "DisruptionBudget", "message": why}]))
}

fn budget_exhausted(name: &str) -> Failure {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let why = format!("The disruption budget {name} is still being processed by the server.");
    Failure::too_many_requests(message, RETRY_SECONDS)
        .with_causes(json!([{"reason": "DisruptionBudget", "message": why}]))
}

fn delete(ask: &Ask<'_>, options: &DeleteOptions) -> Result<(), Failure> {
    let writer = ask.writer(options.dry_run);
    let mut options = options.clone();
    if !options.dry_run {
        let attempt = Attempt {
            found: &ask.found,
            namespace: ask.namespace(),
            name: ask.name(),
            part: Part::Status,
            writer,
        };
        let now = ask.server.env().now();
        let written = ask.update(&attempt, |old| {
            check_preconditions(ask, &options, old)?;
            let mut pod = old.clone();
            let conditions = &mut pod["status"]["conditions"];
            let new = json!({
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            conditions::set(conditions, &new, now);
            Ok(pod)
        })?;
        if let (Some(_), write::Written::Stored(stored)) = (&options.resource_version, &written) {
            options.resource_version = Some(stored.revision.to_string());
        }
    }
    ask.remove(ask.namespace(), ask.name(), &options)?;
    Ok(())
}

fn check_preconditions(ask: &Ask<'_>, options: &DeleteOptions, pod: &Value) -> Result<(), Failure> {
    let kind = GroupResource { group: "", resource: "Pod" };
    let actual = meta_text(pod, "uid");
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != actual) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({actual}). The object might have been deleted and then recreated"
        );
        return Err(Failure::conflict(&kind, ask.name(), why));
    }
    let actual = meta_text(pod, "resourceVersion");
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != actual) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({actual}). The object might have been modified"
        );
        return Err(Failure::conflict(&kind, ask.name(), why));
    }
    Ok(())
}
