//! A new object.

use http::StatusCode;
use serde_json::Value;

use super::Ask;
use crate::answer::{Answer, Failure};
use crate::kinds::reviews::Asker;
use crate::request::{OptionsKind, WriteOptions};
use crate::write::{self, Decoded, Written, meta_text};

/// Stores the object in the body.
///
/// # Errors
/// When the body is not such an object, or it is refused, or its name is taken.
pub async fn create(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let options = WriteOptions::parse(&ask.query, OptionsKind::Create)?;
    let media_type = write::media_type(&ask.headers);
    let kind = &ask.found.kind;
    let decoded = ask.apart(|| ask.decode(&media_type, options.field_validation));
    let Decoded { value, mut warnings } = decoded?;
    check_namespace(ask, &value)?;
    let asker = Asker { identity: ask.identity, credentials: &ask.server.config().credentials };
    if let Some(status) = kind.strategy.answer(&asker, &value) {
        let mut answered = value;
        answered["status"] = status?;
        return Ok(ask.written(StatusCode::CREATED, &Written::Rehearsed(answered), &warnings));
    }
    if ask.found.version().verbs.len() == 1 {
        // All that is left of what is created and not stored is a binding.
        return crate::subresources::create_unstored(ask);
    }
    let store = ask.server.store();
    let written =
        write::patiently(store, || ask.apart(|| ask.create(&value, options.dry_run))).await;
    let written = match written {
        Ok(written) => written,
        Err(failure) => return super::refused(failure, &warnings),
    };
    warnings.extend(kind.strategy.warnings(&value, None));
    Ok(ask.written(StatusCode::CREATED, &written, &warnings))
}

/// Refuses an object that says it is elsewhere than the path says.
pub(crate) fn check_namespace(ask: &Ask<'_>, object: &Value) -> Result<(), Failure> {
    let given = meta_text(object, "namespace");
    let expected = ask.namespace().unwrap_or_default();
    // What lives in no namespace loses the one it names.
    if given.is_empty() || given == expected || !ask.found.kind.namespaced {
        return Ok(());
    }
    let why =
        "the namespace of the provided object does not match the namespace sent on the request";
    Err(Failure::bad_request(why))
}
