//! A namespace loses the finalizers of its spec, and with the last one, itself.

use http::StatusCode;

use crate::answer::{Answer, Failure};
use crate::request::{OptionsKind, WriteOptions};
use crate::verbs::Ask;
use crate::write::{self, Attempt, Part};

/// Replaces `spec.finalizers`, the one field this part may change.
///
/// # Errors
/// When the namespace is not there or changed in the meantime.
pub(super) fn finalize(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let options = WriteOptions::parse(&ask.query, OptionsKind::Update)?;
    let media_type = write::media_type(&ask.headers);
    let decoded = ask.decode(&media_type, options.field_validation)?;
    let attempt = Attempt {
        found: &ask.found,
        namespace: None,
        name: ask.name(),
        part: Part::Named("finalize"),
        writer: ask.writer(options.dry_run),
    };
    let written = ask.update(&attempt, |old| {
        let mut object = old.clone();
        object["spec"]["finalizers"] = decoded.value["spec"]["finalizers"].clone();
        let given = &decoded.value["metadata"];
        for field in ["uid", "resourceVersion"] {
            if !given[field].is_null() {
                object["metadata"][field] = given[field].clone();
            }
        }
        Ok(object)
    })?;
    Ok(ask.written(StatusCode::OK, &written, &decoded.warnings))
}
