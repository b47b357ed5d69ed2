//! A whole object in place of the one that is there.

use http::StatusCode;
use serde_json::Value;

use super::Ask;
use super::create::check_namespace;
use crate::answer::{Answer, Failure};
use crate::request::{OptionsKind, WriteOptions};
use crate::write::{self, Attempt, Decoded, Part, meta_text};

/// Puts the object in the body in place of the one that is there.
///
/// # Errors
/// When the body is not such an object, the object changed in the meantime, or the new one is
/// refused.
pub fn update(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let options = WriteOptions::parse(&ask.query, OptionsKind::Update)?;
    let media_type = write::media_type(&ask.headers);
    let kind = &ask.found.kind;
    let Decoded { value, mut warnings } = ask.decode(&media_type, options.field_validation)?;
    check_name(ask, &value)?;
    check_namespace(ask, &value)?;
    let part = ask.part();
    let there = kind.table.get(&ask.target.key()).is_some();
    if !there && kind.habits.create_on_update && part == Part::Object {
        let written = ask.create(&value, options.dry_run)?;
        return Ok(ask.written(StatusCode::CREATED, &written, &warnings));
    }
    let attempt = Attempt {
        found: &ask.found,
        namespace: ask.namespace(),
        name: ask.name(),
        part,
        writer: ask.writer(options.dry_run),
    };
    let mut old_form = Value::Null;
    let written = ask.update(&attempt, |old| {
        check_uid(ask, &value, old)?;
        old_form.clone_from(old);
        Ok(value.clone())
    });
    let written = match written {
        Ok(written) => written,
        Err(failure) => return super::refused(failure, &warnings),
    };
    warnings.extend(kind.strategy.warnings(&value, Some(&old_form)));
    Ok(ask.written(StatusCode::OK, &written, &warnings))
}

/// Refuses to replace an object by one that is meant for another of the same name.
fn check_uid(ask: &Ask<'_>, object: &Value, old: &Value) -> Result<(), Failure> {
    let (given, current) = (meta_text(object, "uid"), meta_text(old, "uid"));
    if given.is_empty() || given == current {
        return Ok(());
    }
    let kind = &ask.found.kind;
    let key = format!("{}/{}", kind.store_folder(), ask.target.key());
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {current}"
    );
    Err(Failure::conflict(&kind.resource(), ask.name(), why))
}

/// Refuses an object that says it has another name than the path says.
pub(super) fn check_name(ask: &Ask<'_>, object: &Value) -> Result<(), Failure> {
    let (given, expected) = (meta_text(object, "name"), ask.name());
    if given == expected {
        return Ok(());
    }
    if given.is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({expected} based on URL) was undeterminable: name must be provided"
        )));
    }
    Err(Failure::bad_request(format!(
        "the name of the object ({given}) does not match the name on the URL ({expected})"
    )))
}
