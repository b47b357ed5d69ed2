//! A change to the object that is there, in one of three languages.

use http::StatusCode;
use object::json::{self, Limits};
use object::patch::{self, PatchError};
use object::schema::Node;
use serde_json::{Map, Value};

use super::Ask;
use super::create::check_namespace;
use super::update::check_name;
use crate::answer::{Answer, Failure};
use crate::request::{FieldValidation, OptionsKind, WriteOptions};
use crate::write::decode::{Another, DEPTH_MAX};
use crate::write::{self, Attempt};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const LIMITS: Limits = Limits { depth_max: DEPTH_MAX };

/// A patch, read but not applied.
pub enum Patch {
    /// Operations on paths.
    Json(patch::json::Patch),
    /// A document to merge.
    Merge(Value),
    /// A document to merge by the schema's merge keys.
    Strategic(Map<String, Value>),
}

/// How the media types of server-side apply begin.
const APPLY: &str = "application/apply-patch";

/// Refuses server-side apply in words that its sender can act on; read as another patch, its
/// options would be refused for what they are not.
///
/// # Errors
/// When the body is to be applied.
pub fn refuse_apply(ask: &Ask<'_>) -> Result<(), Failure> {
    if write::media_type(&ask.headers).starts_with(APPLY) {
        return Err(Failure::apply_is_not_served());
    }
    Ok(())
}

/// Applies the patch in the body.
///
/// # Errors
/// When the patch is malformed or does not apply, or the result is refused.
pub fn patch(ask: &Ask<'_>) -> Result<Answer, Failure> {
    let options = WriteOptions::parse(&ask.query, OptionsKind::Patch)?;
    let (kind, version) = (&ask.found.kind, ask.found.version());
    let patch = Patch::read(
        ask,
        if kind.is_custom() { &[JSON, MERGE] } else { &[JSON, MERGE, STRATEGIC] },
    )?;
    let attempt = Attempt {
        found: &ask.found,
        namespace: ask.namespace(),
        name: ask.name(),
        part: ask.part(),
        writer: ask.writer(options.dry_run),
    };
    let (mut warnings, mut advice) = (Vec::new(), Vec::new());
    let written = ask.update(&attempt, |old| {
        let patched = patch.apply(old.clone(), version.schema.root())?;
        if json::depth(&patched) > DEPTH_MAX {
            let why = format!("the patched object nests deeper than {DEPTH_MAX} levels");
            return Err(Failure::bad_request(why));
        }
        let shown = patch.shown(&patched);
        let read = read(ask, patched, options.field_validation);
        let (object, told) = read.map_err(|why| Failure::unreadable_patch(shown, why))?;
        check_name(ask, &object)?;
        check_namespace(ask, &object)?;
        warnings = told;
        advice = kind.strategy.warnings(&object, Some(old));
        Ok(object)
    });
    let written = match written {
        Ok(written) => written,
        Err(failure) => return super::refused(failure, &warnings),
    };
    warnings.extend(advice);
    Ok(ask.written(StatusCode::OK, &written, &warnings))
}

/// The patched object, and what the client should be told about it.
fn read(
    ask: &Ask<'_>,
    patched: Value,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), String> {
    let (kind, version) = (&ask.found.kind, ask.found.version());
    if !kind.is_custom()
        && let Some(another) =
            write::decode::another_type(&ask.server.registry(), kind, version, &patched)
    {
        return Err(match another {
            Another::Kind { why, .. } => why,
            Another::Version(given) => format!("the patch makes it an object of {given}"),
        });
    }
    let mut strays = Vec::new();
    let object = write::decode::conform(kind, version, patched, &mut strays)?;
    Ok((object, write::decode::told(strays, validation)?))
}

impl Patch {
    /// What a message about the patched object shows: the object, or, where kube-apiserver
    /// patches without writing it down, the patch.
    #[must_use]
    pub fn shown(&self, patched: &Value) -> String {
        match self {
            Self::Strategic(change) => json::printed(&Value::Object(change.clone())),
            _ => String::from_utf8_lossy(&json::encode(patched)).into_owned(),
        }
    }

    /// Reads the body in one of the `offered` languages.
    ///
    /// # Errors
    /// When it is in another, or malformed.
    pub fn read(ask: &Ask<'_>, offered: &[&str]) -> Result<Self, Failure> {
        let media_type = write::media_type(&ask.headers);
        if !offered.contains(&media_type.as_str()) {
            if !ask.found.kind.is_custom() {
                return Err(Failure::unsupported_patch());
            }
            return Err(Failure::unsupported_media_type(offered));
        }
        match media_type.as_str() {
            JSON => patch::json::Patch::read(&ask.body, LIMITS).map(Self::Json).map_err(refusal),
            MERGE => patch::merge::read(&ask.body, LIMITS)
                .map(|decoded| Self::Merge(decoded.value))
                .map_err(refusal),
            _ => match patch::merge::read(&ask.body, LIMITS).map_err(refusal)?.value {
                Value::Object(map) => Ok(Self::Strategic(map)),
                _ => Err(Failure::bad_request("a strategic merge patch is an object")),
            },
        }
    }

    /// The object with the patch applied.
    ///
    /// # Errors
    /// When it does not apply.
    pub fn apply(&self, object: Value, schema: Node<'_>) -> Result<Value, Failure> {
        match (self, object) {
            (Self::Json(operations), object) => operations.apply(object, LIMITS).map_err(refusal),
            (Self::Merge(change), object) => {
                patch::merge::apply(object, change.clone()).map_err(refusal)
            }
            (Self::Strategic(change), Value::Object(object)) => {
                let patched = patch::strategic::apply(object, change.clone(), &schema);
                patched.map(Value::Object).map_err(refusal)
            }
            (Self::Strategic(_), object) => Ok(object),
        }
    }
}

/// The answer to a patch that was not applied.
fn refusal(error: PatchError) -> Failure {
    Failure::unapplied_patch(error.status(), error.to_string())
}
