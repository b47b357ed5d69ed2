//! Objects that go.

use http::StatusCode;
use serde_json::{Value, json};

use super::Ask;
use super::selection::Selection;
use crate::answer::failure::Reason;
use crate::answer::{Answer, Failure, body, represent};
use crate::kinds::native;
use crate::request::ListOptions;
use crate::request::options::DeleteOptions;
use crate::write::{self, Removed, Written, meta_text};

/// Deletes the object the path names.
///
/// # Errors
/// When it is not there, a precondition is not met, or deletion is not allowed.
pub fn delete(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let options = options(ask)?;
    let kind = &ask.found.kind;
    let removed = ask.remove(ask.namespace(), ask.name(), &options)?;
    let warnings = warnings(ask, &options);
    if removed.gone && !kind.habits.returns_deleted {
        let mut answer = body::value(StatusCode::OK, &success(ask, &removed));
        super::warn(&mut answer, &warnings);
        return Ok(answer);
    }
    // Only those who ask in the old way are told that it takes a while.
    let waits = !removed.gone && options.orphan_dependents == Some(false);
    let code = if waits { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok(ask.written(code, &removed.object, &warnings))
}

/// What a client should know that said nothing about dependents.
fn warnings(ask: &Ask<'_>, options: &DeleteOptions) -> Vec<String> {
    let silent = options.propagation.is_none();
    let warning = ask.found.kind.strategy.deletion_warning().filter(|_| silent);
    warning.map(str::to_owned).into_iter().collect()
}

fn options(ask: &Ask<'_>) -> Result<DeleteOptions, Failure> {
    if ask.body.is_empty() {
        return DeleteOptions::from_query(&ask.query);
    }
    let media_type = write::media_type(&ask.headers);
    let body = write::decode_value(&media_type, &ask.body)?.value;
    let text = |key: &str| body.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(kind) = text("kind").filter(|kind| *kind != "DeleteOptions") {
        let version = text("apiVersion").unwrap_or("v1");
        return Err(Failure::bad_request(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    object::schema::decode_check(native::delete_options(), &body)
        .map_err(|error| Failure::bad_request(error.to_string()))?;
    DeleteOptions::from_body(&body)
}

fn success(ask: &Ask<'_>, removed: &Removed) -> Value {
    let uid = match &removed.object {
        Written::Stored(stored) => {
            let value: Value = serde_json::from_slice(&stored.body).unwrap_or_default();
            meta_text(&value, "uid").to_owned()
        }
        Written::Rehearsed(value) | Written::Ended(value) => meta_text(value, "uid").to_owned(),
    };
    let kind = &ask.found.kind;
    let mut details = json!({"name": ask.name(), "kind": kind.names.plural, "uid": uid});
    if !kind.group.is_empty() {
        details["group"] = kind.group.clone().into();
    }
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    })
}

/// Deletes every object the selectors name, and answers with the list of them.
///
/// # Errors
/// When an option is malformed, or one deletion fails; earlier ones stay done.
pub fn delete_collection(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let options = options(ask)?;
    let list = ListOptions::parse(&ask.query)?;
    let selection = Selection::parse(&ask.found, &list)?;
    let kind = &ask.found.kind;
    let (objects, revision) = kind.table.list(&ask.target.prefix());
    let mut deleted = Vec::new();
    for stored in objects.into_iter().filter(|stored| selection.matches(stored)) {
        let (namespace, name) = stored.namespace_and_name();
        let namespace = kind.namespaced.then_some(namespace);
        match ask.remove(namespace, name, &options) {
            Ok(_) => deleted.push(stored),
            // Somebody else was faster: what was wanted is so.
            Err(failure) if failure.reason == Reason::NotFound => {}
            Err(failure) => return Err(failure),
        }
    }
    let page = represent::Page { revision, next: None, remaining: None };
    let mut answer = ask.listed(deleted, &page);
    super::warn(&mut answer, &warnings(ask, &options));
    Ok(answer)
}
