//! A whole object in place of the one that is there.

use http::StatusCode;
use serde_json::Value;

use super::Ask;
use super::create::check_namespace;
use crate::answer::{Answer, Failure};
use crate::request::WriteOptions;
use crate::write::{self, Attempt, Decoded, Part, meta_text};

/// Puts the object in the body in place of the one that is there.
///
/// # Errors
/// When the body is not such an object, the object changed in the meantime, or the new one is
/// refused.
pub fn update(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let options = WriteOptions::parse(&ask.query, "UpdateOptions")?;
    let media_type = write::media_type(&ask.headers);
    let (kind, version) = (&ask.found.kind, ask.found.version());
    let Decoded { value, mut warnings } =
        write::decode(kind, version, &media_type, &ask.body, options.field_validation)?;
    check_name(ask, &value)?;
    check_namespace(ask, &value)?;
    let part = ask.part();
    let there = kind.table.get(&ask.target.key()).is_some();
    if !there && kind.habits.create_on_update && part == Part::Object {
        let writer = ask.writer(options.dry_run);
        let written = write::create(ask.server, &ask.found, ask.namespace(), writer, &value)?;
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
    let written = write::update(ask.server, &attempt, |old| {
        old_form.clone_from(old);
        Ok(value.clone())
    });
    let written = match written {
        Ok(written) => written,
        Err(failure) => return Ok(super::refused(failure, &warnings)),
    };
    warnings.extend(kind.strategy.warnings(&value, Some(&old_form)));
    if !options.dry_run {
        crate::kinds::crd::after_write(ask.server, kind, &written);
    }
    Ok(ask.written(StatusCode::OK, &written, &warnings))
}

fn check_name(ask: &Ask<'_>, object: &Value) -> Result<(), Failure> {
    let (given, expected) = (meta_text(object, "name"), ask.name());
    if given == expected {
        return Ok(());
    }
    if given.is_empty() {
        return Err(Failure::bad_request("name must be provided"));
    }
    Err(Failure::bad_request(format!(
        "the name of the object ({given}) does not match the name on the URL ({expected})"
    )))
}
