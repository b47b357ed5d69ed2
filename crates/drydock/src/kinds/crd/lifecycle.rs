//! What happens after a definition, or an object of a defined kind, was written.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::check::{self, Approval};
use super::definition::CLEANUP;
use super::{build, defines_kinds};
use crate::answer::failure::Reason;
use crate::conditions;
use crate::kinds::{Found, Kind, Origin, api_service};
use crate::request::Identity;
use crate::request::options::DeleteOptions;
use crate::server::Server;
use crate::store::Gate;
use crate::write::{self, Attempt, Part, Removed, Writer, Written, metadata};

/// Accepts the names of a new or changed definition and serves its kind.
pub fn after_write(server: &Server, kind: &Kind, written: &Written) {
    match written {
        Written::Rehearsed(_) => return,
        Written::Stored(stored) if defines_kinds(kind) => return refresh(server, &stored.key),
        Written::Ended(object) if defines_kinds(kind) => {
            return clean_up(server, write::meta_text(object, "name"));
        }
        Written::Stored(_) | Written::Ended(_) => {}
    }
    if kind.table.gate() != Gate::Open {
        finish_cleanup(server, &kind.qualified_name());
    }
}

/// Cleans up after a definition that is to go, or notices that the last of its objects went.
pub fn after_removal(server: &Server, kind: &Kind, removed: &Removed) {
    let Written::Stored(stored) = &removed.object else { return };
    if defines_kinds(kind) {
        clean_up(server, &stored.key);
    } else if removed.gone && kind.table.gate() != Gate::Open {
        finish_cleanup(server, &kind.qualified_name());
    }
}

fn definitions(server: &Server) -> Found {
    server
        .registry()
        .find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        .expect("definitions are always served")
}

/// Brings conditions, accepted names and the registry in line with the definition, and judges
/// those again that may have waited for a name it had.
fn refresh(server: &Server, name: &str) {
    let defining = server.defining();
    if accept(server, name) == Names::Released {
        reconsider(server, name);
    }
    drop(defining);
}

/// What became of the names a definition had.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// It has them still, or had none.
    Kept,
    /// It may have given one up.
    Released,
}

/// Judges one definition. The caller holds the lock that definitions change under.
fn accept(server: &Server, name: &str) -> Names {
    let found = definitions(server);
    let Some(stored) = found.kind.table.get(name) else { return Names::Kept };
    let definition = write::materialize(&found.kind, found.version(), &stored);
    let verdict = judge_names(server, &definition);
    change(server, &found, name, Part::Status, |definition| {
        set_conditions(server, definition, &verdict)
    });
    if let Some(stored) = found.kind.table.get(name) {
        let definition = write::materialize(&found.kind, found.version(), &stored);
        // Who asks for a name that is taken keeps those it was given.
        if is_established(&definition) {
            serve(server, &definition);
        }
    }
    let had = &definition["status"]["acceptedNames"];
    let is_new = had["plural"].as_str().unwrap_or_default().is_empty();
    if is_new || *had == verdict.accepted { Names::Kept } else { Names::Released }
}

/// Judges the definitions of a group again whose names were not all accepted, after `name` has
/// given up names. Each may give up others in turn.
fn reconsider(server: &Server, name: &str) {
    let mut released = vec![name.to_owned()];
    // Names go from one definition to the next; only those who trade in circles need a bound.
    for _ in 0..ROUNDS_MAX {
        let Some(name) = released.pop() else { return };
        for waiting in waiting(server, &name) {
            if accept(server, &waiting) == Names::Released {
                released.push(waiting);
            }
        }
    }
}

/// How often one change of a definition makes others be judged again.
const ROUNDS_MAX: usize = 100;

/// The other definitions of a group that do not have all the names they ask for.
fn waiting(server: &Server, name: &str) -> Vec<String> {
    let found = definitions(server);
    let Some((_, group)) = name.split_once('.') else { return Vec::new() };
    let (all, _) = found.kind.table.list("");
    let others = all.iter().filter(|stored| {
        *stored.key != *name && stored.key.split_once('.').is_some_and(|(_, other)| other == group)
    });
    let waiting = others.filter(|stored| {
        let definition = write::materialize(&found.kind, found.version(), stored);
        definition["spec"]["names"] != definition["status"]["acceptedNames"]
    });
    waiting.map(|stored| stored.key.to_string()).collect()
}

/// Serves the kind that a definition defines now. It is made anew only where the definition says
/// something new; then the table of the form that was served ends, and with it every watch.
fn serve(server: &Server, definition: &Value) {
    let name = write::meta_text(definition, "name");
    let edition = build::edition(definition);
    let known = served(server, name);
    let known = known.as_ref().and_then(|known| Some((known, known.edition()?)));
    let names = build::names(definition);
    if known.is_some_and(|(kind, known)| *known == edition && kind.names == names) {
        return;
    }
    let mut kind = match build::kind(definition, server.store()) {
        Ok(kind) => kind,
        Err(errors) => {
            // Validation let it pass, so this is a defect of ours that must be seen.
            return tracing::error!(?errors, "a validated definition could not be built");
        }
    };
    match known {
        Some((known, before)) if before.uid == edition.uid => succeed(server, known, &mut kind),
        // The definition it came from has gone, and nothing of it is left to the new one.
        Some(_) => {
            server.store().retire(name);
            kind.table = server.store().table(name);
        }
        None => {}
    }
    let mut registry = (*server.registry()).clone();
    let group = kind.group.clone();
    registry.put(Arc::new(kind));
    server.replace_registry(registry);
    api_service::follow(server, &group);
}

/// The kind that is served for the definition of this name, `plural.group`.
fn served(server: &Server, name: &str) -> Option<Arc<Kind>> {
    let (plural, group) = name.split_once('.')?;
    server.registry().resource(group, plural).filter(|kind| kind.is_custom()).cloned()
}

/// Puts `kind` in the place of another form of it. From here on until the registry knows, nothing
/// is written.
fn succeed(server: &Server, old: &Kind, kind: &mut Kind) {
    if let (Origin::Custom { lineage, .. }, Some(old)) = (&mut kind.origin, old.lineage()) {
        lineage.follow(old);
    }
    let name = kind.qualified_name();
    let table = server.store().succeed(&name, |stored| match kind.versions.first() {
        Some(version) if !kind.fields.is_empty() => {
            kind.field_values(&write::materialize(kind, version, stored))
        }
        _ => Box::default(),
    });
    kind.table = table;
    if let Origin::Custom { lineage, .. } = &mut kind.origin {
        lineage.take_effect(server.store().revision() + 1);
    }
}

fn change(server: &Server, found: &Found, name: &str, part: Part, edit: impl Fn(&mut Value)) {
    let identity = Identity::apiserver();
    let writer = Writer { identity: &identity, dry_run: false };
    let attempt = Attempt { found, namespace: None, name, part, writer };
    let result = write::update(server, &attempt, |old| {
        let mut object = old.clone();
        edit(&mut object);
        Ok(object)
    });
    if let Err(failure) = result
        && failure.reason != Reason::NotFound
    {
        tracing::error!(definition = name, %failure, "a definition could not be brought up to date");
    }
}

/// The names of a definition that can be given, and what stands against the others.
struct Verdict {
    accepted: Value,
    /// Reason and message of the last conflict found.
    conflict: Option<(&'static str, String)>,
}

/// Compares the names a definition asks for with those that other definitions of the group have.
fn judge_names(server: &Server, definition: &Value) -> Verdict {
    let wanted = &definition["spec"]["names"];
    let had = &definition["status"]["acceptedNames"];
    let (group, plural) = (&definition["spec"]["group"], &wanted["plural"]);
    let registry = server.registry();
    let others = registry.kinds().filter(|kind| {
        kind.is_custom() && *group == kind.group.as_str() && *plural != kind.names.plural.as_str()
    });
    let refused = refused_in(server, definition);
    let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for had in &refused {
        let text = |field: &str| had[field].as_str().filter(|name| !name.is_empty());
        resources.extend(["plural", "singular"].into_iter().filter_map(text));
        let short = had["shortNames"].as_array().into_iter().flatten();
        resources.extend(short.filter_map(Value::as_str));
        kinds.extend(["kind", "listKind"].into_iter().filter_map(text));
    }
    for other in others {
        let names = &other.names;
        resources.extend([names.plural.as_str(), names.singular.as_str()]);
        resources.extend(names.short.iter().map(String::as_str));
        kinds.extend([names.kind.as_str(), names.list_kind.as_str()]);
    }
    let in_use = |name: &Value, taken: &BTreeSet<&str>| {
        let name = name.as_str().filter(|name| taken.contains(name))?;
        Some(format!("{name:?} is already in use"))
    };
    let mut verdict = Verdict { accepted: had.clone(), conflict: None };
    let short = wanted["shortNames"].as_array().into_iter().flatten();
    let new_short = short
        .filter(|name| !had["shortNames"].as_array().is_some_and(|known| known.contains(name)));
    let short_in_use: BTreeSet<String> =
        new_short.filter_map(|name| in_use(name, &resources)).collect();
    let checks = [
        ("plural", "PluralConflict", &resources),
        ("singular", "SingularConflict", &resources),
        ("shortNames", "ShortNamesConflict", &resources),
        ("kind", "KindConflict", &kinds),
        ("listKind", "ListKindConflict", &kinds),
    ];
    for (field, reason, taken) in checks {
        let found = match field {
            "shortNames" => all_in_use(&short_in_use),
            _ if wanted[field] == had[field] => None,
            _ => in_use(&wanted[field], taken),
        };
        match found {
            Some(message) => verdict.conflict = Some((reason, message)),
            None => take(&mut verdict.accepted, field, wanted),
        }
    }
    take(&mut verdict.accepted, "categories", wanted);
    verdict
}

/// Gives a definition the name it wants, or none where it wants none.
fn take(accepted: &mut Value, field: &str, wanted: &Value) {
    match (wanted.get(field).filter(|name| !name.is_null()), accepted.as_object_mut()) {
        (Some(name), _) => accepted[field] = name.clone(),
        (None, Some(accepted)) => {
            accepted.remove(field);
        }
        (None, None) => {}
    }
}

/// What stands against short names, as kube-apiserver lists it.
fn all_in_use(each: &BTreeSet<String>) -> Option<String> {
    let mut each = each.iter().map(String::as_str);
    match (each.next(), each.collect::<Vec<_>>()) {
        (None, _) => None,
        (Some(first), rest) if rest.is_empty() => Some(first.to_owned()),
        (Some(first), rest) => Some(format!("[{first}, {}]", rest.join(", "))),
    }
}

/// The names that other definitions of the group hold although they are not served.
fn refused_in(server: &Server, definition: &Value) -> Vec<Value> {
    let (own, group) = (write::meta_text(definition, "name"), &definition["spec"]["group"]);
    let found = definitions(server);
    let (all, _) = found.kind.table.list("");
    let refused = all.iter().filter(|stored| {
        let (key, in_group) = (&*stored.key, stored.key.split_once('.'));
        key != own
            && in_group.is_some_and(|(_, other)| *group == other)
            && served(server, key).is_none()
    });
    let definitions =
        refused.map(|stored| write::materialize(&found.kind, found.version(), stored));
    definitions.map(|mut other| other["status"]["acceptedNames"].take()).collect()
}

fn set_conditions(server: &Server, definition: &mut Value, verdict: &Verdict) {
    let now = server.env().now();
    let approval = check::approval(definition);
    let status = &mut definition["status"];
    status["acceptedNames"] = verdict.accepted.clone();
    let mut set = |kind: &str, value: &str, reason: &str, message: &str| {
        let new = json!({"type": kind, "status": value, "reason": reason, "message": message});
        conditions::set(&mut status["conditions"], &new, now);
    };
    let (reason, message) = match &verdict.conflict {
        None => ("NoConflicts", "no conflicts found"),
        Some((reason, message)) => (*reason, message.as_str()),
    };
    let is_accepted = verdict.conflict.is_none();
    set("NamesAccepted", if is_accepted { "True" } else { "False" }, reason, message);
    if is_accepted {
        let message = "the initial names have been accepted";
        set("Established", "True", "InitialNamesAccepted", message);
    } else if !is_established(definition) {
        set_not_accepted(definition, now);
    }
    let (value, reason, message) = match approval {
        None => return,
        Some(Approval::Approved(message)) => ("True", "ApprovedAnnotation", message),
        Some(Approval::Bypassed(message)) => ("False", "UnapprovedAnnotation", message),
        Some(Approval::Missing(message)) => ("False", "MissingAnnotation", message),
        Some(Approval::Malformed(message)) => ("False", "InvalidAnnotation", message),
    };
    let new = json!({"type": "KubernetesAPIApprovalPolicyConformant", "status": value,
        "reason": reason, "message": message});
    conditions::set(&mut definition["status"]["conditions"], &new, now);
}

fn is_established(definition: &Value) -> bool {
    has_condition(definition, "Established")
}

/// Whether a condition of a definition is true.
fn has_condition(definition: &Value, kind: &str) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == "True")
}

fn set_not_accepted(definition: &mut Value, now: Timestamp) {
    let new = json!({"type": "Established", "status": "False", "reason": "NotAccepted",
        "message": "not all names are accepted"});
    conditions::set(&mut definition["status"]["conditions"], &new, now);
}

/// Marks the kind as ending and deletes its objects.
fn clean_up(server: &Server, name: &str) {
    let defining = server.defining();
    let found = definitions(server);
    let Some(stored) = found.kind.table.get(name) else { return withdraw(server, name) };
    let definition = write::materialize(&found.kind, found.version(), &stored);
    if !metadata::is_deleting(&definition) || !awaits_cleanup(&definition) {
        // Another definition has got the name already, or this one is cleaned up.
        return;
    }
    change(server, &found, name, Part::Status, |definition| {
        let message = "CustomResource deletion is in progress";
        set_terminating(server, definition, "True", "InstanceDeletionInProgress", message);
    });
    // What is being created right now is either there already or refused.
    server.store().table(name).end();
    let target = served(server, name).and_then(|kind| {
        let version = kind.versions.first()?;
        server.registry().find(&kind.group, &version.name, &kind.names.plural)
    });
    drop(defining);
    if let Some(target) = target {
        delete_all(server, &target);
    }
    finish_cleanup(server, name);
}

fn delete_all(server: &Server, found: &Found) {
    let identity = Identity::apiserver();
    let writer = Writer { identity: &identity, dry_run: false };
    for stored in found.kind.table.list("").0 {
        let (namespace, name) = stored.namespace_and_name();
        let namespace = found.kind.namespaced.then_some(namespace);
        let options = DeleteOptions::default();
        let result = write::remove(server, found, namespace, name, &options, writer);
        if let Err(failure) = result
            && failure.reason != Reason::NotFound
        {
            tracing::error!(object = %stored.key, %failure, "an object of a deleted kind stays");
        }
    }
}

/// Whether the objects of a deleted definition have to go before it does.
fn awaits_cleanup(definition: &Value) -> bool {
    let finalizers = definition["metadata"]["finalizers"].as_array();
    finalizers.into_iter().flatten().any(|finalizer| finalizer == CLEANUP)
}

fn set_terminating(
    server: &Server,
    definition: &mut Value,
    value: &str,
    reason: &str,
    message: &str,
) {
    let new = json!({"type": "Terminating", "status": value, "reason": reason, "message": message});
    conditions::set(&mut definition["status"]["conditions"], &new, server.env().now());
}

/// Lets the definition go when the last of its objects has gone. One that something else holds
/// takes objects again, as kube-apiserver has it.
fn finish_cleanup(server: &Server, name: &str) {
    let defining = server.defining();
    let table = server.store().table(name);
    if table.gate() != Gate::Ending || !table.is_empty() {
        return;
    }
    let found = definitions(server);
    change(server, &found, name, Part::Status, |definition| {
        let (reason, message) = if is_established(definition) {
            ("InstanceDeletionCompleted", "removed all instances")
        } else {
            ("NeverEstablished", "resource was never established")
        };
        if awaits_cleanup(definition) {
            set_terminating(server, definition, "False", reason, message);
        }
        if let Some(list) = definition["metadata"]["finalizers"].as_array_mut() {
            list.retain(|finalizer| finalizer != CLEANUP);
        }
    });
    match found.kind.table.get(name) {
        None => withdraw(server, name),
        Some(stored) => {
            let definition = write::materialize(&found.kind, found.version(), &stored);
            if !has_condition(&definition, "Terminating") {
                table.reopen();
            }
        }
    }
    drop(defining);
}

/// Stops serving a kind.
fn withdraw(server: &Server, name: &str) {
    let mut registry = (*server.registry()).clone();
    if let Some((plural, group)) = name.split_once('.') {
        registry.remove(group, plural);
        server.replace_registry(registry);
        server.store().retire(name);
        api_service::follow(server, group);
        reconsider(server, name);
    }
}

#[cfg(test)]
mod tests;
