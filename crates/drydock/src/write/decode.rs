//! From the bytes of a body to an object of the kind that is expected.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use object::json;
use object::schema;
use serde_json::Value;

use crate::answer::Failure;
use crate::kinds::{Kind, Version};
use crate::request::FieldValidation;

/// How deep a body may nest: deeper than any object anyone writes, and shallow
/// enough for every walk over it.
pub const DEPTH_MAX: usize = 256;

/// Media types of bodies that hold an object.
const BODY_TYPES: [&str; 2] = ["application/json", "application/yaml"];

/// An object from a client, and what it should be told about it.
pub struct Decoded {
    /// The object: known fields only, of the right types.
    pub value: Value,
    /// What was dropped or repeated.
    pub warnings: Vec<String>,
}

/// The media type of a body without its parameters; JSON where none is given.
#[must_use]
pub fn media_type(headers: &HeaderMap) -> String {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let bare = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if bare.is_empty() { BODY_TYPES[0].to_owned() } else { bare }
}

/// Refuses a body that is neither JSON nor YAML.
///
/// # Errors
/// For any other media type.
pub fn require_media_type(media_type: &str) -> Result<(), Failure> {
    if BODY_TYPES.contains(&media_type) {
        return Ok(());
    }
    Err(Failure::unsupported_media_type(&BODY_TYPES))
}

/// Reads a body as any JSON or YAML value.
///
/// # Errors
/// When the body is malformed or nests too deep.
pub fn decode_value(media_type: &str, body: &Bytes) -> Result<json::Decoded, Failure> {
    require_media_type(media_type)?;
    let limits = json::Limits { depth_max: DEPTH_MAX };
    if media_type == BODY_TYPES[0] {
        return json::decode(body, limits).map_err(|error| {
            Failure::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        });
    }
    let text = std::str::from_utf8(body)
        .map_err(|_| Failure::bad_request("the body is not valid UTF-8"))?;
    let value: Value = serde_saphyr::from_str(text)
        .map_err(|error| Failure::bad_request(format!("error converting YAML to JSON: {error}")))?;
    if json::depth(&value) > DEPTH_MAX {
        let why = format!("the body nests deeper than {DEPTH_MAX} levels");
        return Err(Failure::bad_request(why));
    }
    Ok(json::Decoded { value, duplicates: Vec::new() })
}

/// Reads a body as an object of `kind` in `version`.
///
/// # Errors
/// When the body is malformed, is of another kind, has a field of the wrong type, or,
/// where that is asked for, has an unknown or repeated field.
pub fn decode(
    kind: &Kind,
    version: &Version,
    media_type: &str,
    body: &Bytes,
    validation: FieldValidation,
) -> Result<Decoded, Failure> {
    let json::Decoded { value, duplicates } = decode_value(media_type, body)?;
    let mut strays: Vec<String> =
        duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
    check_type(kind, version, &value)?;
    let mut value = conform(kind, version, value, &mut strays)?;
    // A native object need not say what it is; from here on it does.
    value["apiVersion"] = version.api_version(kind).into();
    value["kind"] = kind.names.kind.clone().into();
    let warnings = report(kind, version, strays, validation)?;
    Ok(Decoded { value, warnings })
}

/// Drops fields the kind does not have from `value` and adds each to `strays`.
///
/// # Errors
/// When a field of a native kind has the wrong type.
pub fn conform(
    kind: &Kind,
    version: &Version,
    mut value: Value,
    strays: &mut Vec<String>,
) -> Result<Value, Failure> {
    if !value.is_object() {
        return Err(Failure::bad_request(
            "the object provided is unrecognized (must be of type object)",
        ));
    }
    let (api_version, name) = (value["apiVersion"].take(), value["kind"].take());
    if kind.is_custom() {
        metadata_types(kind, version, &value)?;
        strays.extend(schema::prune(&version.schema, &mut value).into_iter().map(unknown));
    } else {
        let found = schema::decode_check(&version.schema, &value)
            .map_err(|error| Failure::bad_request(unreadable(kind, version, &error.to_string())))?;
        strays.extend(found.into_iter().map(unknown));
        schema::prune(&version.schema, &mut value);
        crate::kinds::native::as_written(&version.schema, &mut value);
    }
    value["apiVersion"] = api_version;
    value["kind"] = name;
    Ok(value)
}

fn unknown(path: String) -> String {
    format!("unknown field {path:?}")
}

fn metadata_types(kind: &Kind, version: &Version, value: &Value) -> Result<(), Failure> {
    let Some(metadata) = value.get("metadata").filter(|metadata| !metadata.is_null()) else {
        return Ok(());
    };
    let checked = schema::decode_check(crate::kinds::native::object_meta(), metadata);
    checked
        .map(|_| ())
        .map_err(|error| Failure::bad_request(unreadable(kind, version, &error.to_string())))
}

/// Turns strays into warnings or a refusal.
///
/// # Errors
/// When validation is strict and there is one.
pub fn report(
    kind: &Kind,
    version: &Version,
    strays: Vec<String>,
    validation: FieldValidation,
) -> Result<Vec<String>, Failure> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(strays),
        FieldValidation::Strict if strays.is_empty() => Ok(Vec::new()),
        FieldValidation::Strict => {
            let why = format!("strict decoding error: {}", strays.join(", "));
            let message = if kind.is_custom() { why } else { unreadable(kind, version, &why) };
            Err(Failure::bad_request(message))
        }
    }
}

fn unreadable(kind: &Kind, version: &Version, why: &str) -> String {
    let name = &kind.names.kind;
    format!("{name} in version {:?} cannot be handled as a {name}: {why}", version.name)
}

fn check_type(kind: &Kind, version: &Version, value: &Value) -> Result<(), Failure> {
    let expected = version.api_version(kind);
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let (given_version, given_kind) = (text("apiVersion"), text("kind"));
    if kind.is_custom() && (given_kind.is_empty() || given_version.is_empty()) {
        let missing = if given_kind.is_empty() { "Kind" } else { "apiVersion" };
        let shown = object::json::encode(value);
        let shown = String::from_utf8_lossy(&shown).into_owned();
        return Err(Failure::bad_request(format!("Object '{missing}' is missing in '{shown}'")));
    }
    if !given_kind.is_empty() && given_kind != kind.names.kind {
        let (_, given_short) = given_version.rsplit_once('/').unwrap_or(("", given_version));
        return Err(Failure::bad_request(format!(
            "{given_kind} in version {given_short:?} cannot be handled as a {}: no kind {given_kind:?} is registered for version {expected:?}",
            kind.names.kind
        )));
    }
    if !given_version.is_empty() && given_version != expected {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({given_version}) does not match the expected API version ({expected})"
        )));
    }
    Ok(())
}
