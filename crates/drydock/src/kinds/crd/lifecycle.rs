//! What happens after a definition, or an object of a defined kind, was written.

use std::sync::Arc;

use serde_json::{Value, json};

use super::definition::CLEANUP;
use super::{build, defines_kinds};
use crate::conditions;
use crate::kinds::{Found, Kind, Origin};
use crate::request::Identity;
use crate::request::options::DeleteOptions;
use crate::server::Server;
use crate::write::{self, Attempt, Part, Removed, Writer, Written};

/// Accepts the names of a new or changed definition and serves its kind.
pub fn after_write(server: &Server, kind: &Kind, written: &Written) {
    let (Written::Stored(stored) | Written::Ended { stored, .. }) = written else { return };
    if defines_kinds(kind) {
        refresh(server, &stored.key);
    } else if kind.origin == (Origin::Custom { terminating: true }) {
        finish_cleanup(server, &kind.qualified_name());
    }
}

/// Cleans up after a definition that is to go, or notices that the last of its objects went.
pub fn after_removal(server: &Server, kind: &Kind, removed: &Removed) {
    let Written::Stored(stored) = &removed.object else { return };
    if defines_kinds(kind) {
        clean_up(server, &stored.key);
    } else if removed.gone && kind.origin == (Origin::Custom { terminating: true }) {
        finish_cleanup(server, &kind.qualified_name());
    }
}

fn internal_identity() -> Identity {
    Identity { user: "system:apiserver".to_owned(), groups: vec!["system:masters".to_owned()] }
}

fn definitions(server: &Server) -> Found {
    server
        .registry()
        .find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        .expect("definitions are always served")
}

/// Brings conditions, accepted names and the registry in line with the definition.
fn refresh(server: &Server, name: &str) {
    let defining = server.defining.lock().expect("no holder of this lock panics");
    let found = definitions(server);
    let Some(stored) = found.kind.table.get(name) else { return };
    let definition = write::materialize(&found.kind, found.version(), &stored);
    let conflict = conflict(server, &definition);
    let accepted = conflict.is_none();
    change(server, &found, name, Part::Status, |status| {
        set_conditions(server, status, conflict.as_ref())
    });
    change(server, &found, name, Part::Object, add_cleanup);
    if accepted && let Some(stored) = found.kind.table.get(name) {
        let definition = write::materialize(&found.kind, found.version(), &stored);
        serve(server, &definition);
    }
    drop(defining);
}

fn serve(server: &Server, definition: &Value) {
    match build::kind(definition, server.store()) {
        Ok(kind) => {
            let mut registry = (*server.registry()).clone();
            registry.put(Arc::new(kind));
            server.replace_registry(registry);
        }
        // Validation let it pass, so this is a defect of ours that must be seen.
        Err(errors) => tracing::error!(?errors, "a validated definition could not be built"),
    }
}

fn change(server: &Server, found: &Found, name: &str, part: Part, edit: impl Fn(&mut Value)) {
    let identity = internal_identity();
    let writer = Writer { identity: &identity, dry_run: false };
    let attempt = Attempt { found, namespace: None, name, part, writer };
    let result = write::update(server, &attempt, |old| {
        let mut object = old.clone();
        edit(&mut object);
        Ok(object)
    });
    if let Err(failure) = result
        && failure.reason != "NotFound"
    {
        tracing::error!(definition = name, %failure, "a definition could not be brought up to date");
    }
}

struct Conflict {
    reason: &'static str,
    message: String,
}

/// A name of the definition that another kind of the same group has.
fn conflict(server: &Server, definition: &Value) -> Option<Conflict> {
    let names = build::names(&definition["spec"]);
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let registry = server.registry();
    let others =
        registry.kinds().filter(|kind| kind.group == group && kind.names.plural != names.plural);
    for other in others {
        let taken = |name: &String| {
            *name == other.names.plural
                || *name == other.names.singular
                || other.names.short.contains(name)
        };
        if names.kind == other.names.kind || names.kind == other.names.list_kind {
            return Some(Conflict {
                reason: "KindConflict",
                message: format!("{:?} is already in use", names.kind),
            });
        }
        if taken(&names.singular) {
            return Some(Conflict {
                reason: "SingularConflict",
                message: format!("{:?} is already in use", names.singular),
            });
        }
        if let Some(short) = names.short.iter().find(|name| taken(name)) {
            return Some(Conflict {
                reason: "ShortNamesConflict",
                message: format!("{short:?} is already in use"),
            });
        }
    }
    None
}

fn set_conditions(server: &Server, definition: &mut Value, conflict: Option<&Conflict>) {
    let now = server.env().now();
    let names = definition["spec"]["names"].clone();
    let status = &mut definition["status"];
    let mut set = |kind: &str, value: &str, reason: &str, message: &str| {
        let new = json!({"type": kind, "status": value, "reason": reason, "message": message});
        conditions::set(&mut status["conditions"], &new, now);
    };
    match conflict {
        None => {
            set("NamesAccepted", "True", "NoConflicts", "no conflicts found");
            set(
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted",
            );
            status["acceptedNames"] = names;
        }
        Some(conflict) => {
            set("NamesAccepted", "False", conflict.reason, &conflict.message);
            let established = "not all names are accepted";
            set("Established", "False", "NotAccepted", established);
        }
    }
}

fn add_cleanup(definition: &mut Value) {
    let finalizers = &mut definition["metadata"]["finalizers"];
    let there = finalizers.as_array().is_some_and(|list| list.iter().any(|name| name == CLEANUP));
    let deleting = !definition["metadata"]["deletionTimestamp"].is_null();
    if there || deleting {
        return;
    }
    match definition["metadata"]["finalizers"].as_array_mut() {
        Some(list) => list.push(CLEANUP.into()),
        None => definition["metadata"]["finalizers"] = json!([CLEANUP]),
    }
}

/// Marks the kind as ending and deletes its objects.
fn clean_up(server: &Server, name: &str) {
    let defining = server.defining.lock().expect("no holder of this lock panics");
    let found = definitions(server);
    let Some(stored) = found.kind.table.get(name) else {
        withdraw(server, name);
        return;
    };
    let definition = write::materialize(&found.kind, found.version(), &stored);
    let now = server.env().now();
    change(server, &found, name, Part::Status, |definition| {
        let conditions = &mut definition["status"]["conditions"];
        let message = "CustomResource deletion is in progress";
        let new = json!({
            "type": "Terminating",
            "status": "True",
            "reason": "InstanceDeletionInProgress",
            "message": message,
        });
        conditions::set(conditions, &new, now);
    });
    serve(server, &definition);
    let registry = server.registry();
    let Some(kind) =
        registry.kinds().find(|kind| kind.is_custom() && kind.qualified_name() == name)
    else {
        drop(defining);
        return finish_cleanup(server, name);
    };
    let target = kind
        .versions
        .first()
        .and_then(|version| registry.find(&kind.group, &version.name, &kind.names.plural));
    drop(defining);
    if let Some(target) = target {
        delete_all(server, &target);
    }
    finish_cleanup(server, name);
}

fn delete_all(server: &Server, found: &Found) {
    let identity = internal_identity();
    let writer = Writer { identity: &identity, dry_run: false };
    for stored in found.kind.table.list("").0 {
        let (namespace, name) = stored.namespace_and_name();
        let namespace = found.kind.namespaced.then_some(namespace);
        let options = DeleteOptions::default();
        let result = write::remove(server, found, namespace, name, &options, writer);
        if let Err(failure) = result
            && failure.reason != "NotFound"
        {
            tracing::error!(object = %stored.key, %failure, "an object of a deleted kind stays");
        }
    }
}

/// Lets the definition go when the last of its objects has gone.
fn finish_cleanup(server: &Server, name: &str) {
    if !server.store().table(name).is_empty() {
        return;
    }
    let found = definitions(server);
    change(server, &found, name, Part::Object, |definition| {
        if let Some(list) = definition["metadata"]["finalizers"].as_array_mut() {
            list.retain(|finalizer| finalizer != CLEANUP);
        }
    });
    if found.kind.table.get(name).is_none() {
        let defining = server.defining.lock().expect("no holder of this lock panics");
        withdraw(server, name);
        drop(defining);
    }
}

/// Stops serving a kind.
fn withdraw(server: &Server, name: &str) {
    let mut registry = (*server.registry()).clone();
    if let Some((plural, group)) = name.split_once('.') {
        registry.remove(group, plural);
        server.replace_registry(registry);
    }
}
