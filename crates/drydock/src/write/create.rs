//! A new object.

use std::sync::Arc;

use object::schema;
use serde_json::Value;

use super::expiry;
use super::{Part, Writer, Written, meta_text, metadata};
use crate::admission::{self, Attributes, Operation};
use crate::answer::Failure;
use crate::answer::failure::Reason;
use crate::kinds::Found;
use crate::server::Server;
use crate::store::{Expect, Gate, Write};

/// How often another name is drawn when a generated one is taken.
const NAME_ATTEMPTS_MAX: usize = 8;

/// Stores a decoded object under a name that is not taken.
///
/// # Errors
/// When the object is refused or the name is taken, or the kind is no longer served in this form.
pub fn create(
    server: &Server,
    found: &Found,
    namespace: Option<&str>,
    writer: Writer<'_>,
    object: &Value,
) -> Result<Written, Failure> {
    let generated =
        meta_text(object, "name").is_empty() && !meta_text(object, "generateName").is_empty();
    if found.kind.table.gate() == Gate::Ending {
        return Err(terminating(found, meta_text(object, "name")));
    }
    let names = if generated { NAME_ATTEMPTS_MAX } else { 1 };
    for _ in 1..names {
        match attempt(server, found, namespace, writer, object.clone()) {
            Err(failure) if failure.reason == Reason::AlreadyExists => {}
            result => return result,
        }
    }
    let last = attempt(server, found, namespace, writer, object.clone());
    last.map_err(|failure| match failure.reason {
        Reason::AlreadyExists if generated => {
            let name = meta_text(object, "generateName");
            Failure::generated_name_taken(&found.kind.resource(), name)
        }
        _ => failure,
    })
}

fn terminating(found: &Found, name: &str) -> Failure {
    let why = "create not allowed while custom resource definition is terminating";
    Failure::forbidden(&found.kind.resource(), name, why)
}

/// One attempt, under one name.
fn attempt(
    server: &Server,
    found: &Found,
    namespace: Option<&str>,
    writer: Writer<'_>,
    mut object: Value,
) -> Result<Written, Failure> {
    let (kind, version) = (&found.kind, found.version());
    // Upstream draws a name after plugins have completed the object: until then a refusal names
    // what the name will begin with.
    let given = [meta_text(&object, "name"), meta_text(&object, "generateName")];
    let given = given.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown").to_owned();
    metadata::begin(server, kind, namespace, &mut object);
    if version.has_status() && !kind.strategy.keeps_status_at_creation() {
        object.as_object_mut().expect("metadata was set on it").remove("status");
    }
    super::update::fill_in(kind, version, &mut object)?;
    let name = meta_text(&object, "name").to_owned();
    let attributes = Attributes {
        server,
        found,
        namespace,
        name: &name,
        given_name: &given,
        part: Part::Object,
        operation: Operation::Create,
        identity: writer.identity,
        old: None,
    };
    let _held = admission::hold(server, kind);
    admission::mutate(&attributes, &mut object)?;
    kind.strategy.prepare_create(&mut object, server.env().now());
    if !kind.is_custom() {
        crate::kinds::native::as_written(&version.schema, &mut object);
    }
    validate(found, &object, &name)?;
    admission::validate(&attributes, &object)?;
    let key: Arc<str> = super::key(namespace, &name).into();
    if !writer.dry_run && meta_text(&object, "resourceVersion").parse::<u64>().unwrap_or(0) != 0 {
        let why = "resourceVersion should not be set on objects to be created";
        return Err(Failure::unclassified(why));
    }
    if writer.dry_run {
        if kind.table.get(&key).is_some() {
            return Err(Failure::already_exists(&kind.resource(), &name));
        }
        return Ok(super::rehearsed(kind, version, object));
    }
    let write = Write::Put(super::put(kind, version, object)?);
    match server.store().commit(&kind.table, &key, Expect::Absent, write, server.env().now()) {
        Ok(stored) => {
            expiry::note(server, kind, &stored);
            Ok(Written::Stored(stored))
        }
        Err(_) => match kind.table.gate() {
            Gate::Open => Err(Failure::already_exists(&kind.resource(), &name)),
            // The definition was deleted since this create was let in.
            Gate::Ending => Err(terminating(found, &name)),
            Gate::Closed => Err(Failure::outdated(&kind.resource(), &name)),
        },
    }
}

fn validate(found: &Found, object: &Value, name: &str) -> Result<(), Failure> {
    let (kind, version) = (&found.kind, found.version());
    let mut errors = super::type_errors(kind, version, object);
    if errors.is_empty() {
        errors.extend(metadata::validate(kind, object));
        if kind.is_custom() {
            errors.extend(schema::validate(&version.schema, object, None));
            errors.extend(super::scale_errors(version, object));
        }
        errors.extend(kind.strategy.validate(object));
    }
    super::refuse_invalid(kind, object, name, &errors)
}
