//! From the bytes of a body to an object of the kind that is expected.

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use object::json;
use object::schema;
use serde_json::{Map, Value};

use crate::answer::Failure;
use crate::kinds::{Kind, Registry, Version, group_version, native};
use crate::request::FieldValidation;

/// How deep a body may nest: deeper than any object anyone writes, and shallow enough for every
/// walk over it, and for clients that read no list or event with more than 128 levels.
pub const DEPTH_MAX: usize = 100;

pub(super) const LIMITS: json::Limits = json::Limits { depth_max: DEPTH_MAX };

/// How many values and marks the aliases of a YAML body may stand for together.
const ALIASED_MAX: usize = 100_000;

/// Media types of bodies that hold an object.
const BODY_TYPES: [&str; 3] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// An object from a client, and what it should be told about it.
#[derive(Clone)]
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

/// Refuses a body that is neither JSON nor YAML nor protobuf.
///
/// # Errors
/// For any other media type.
pub fn require_media_type(media_type: &str) -> Result<(), Failure> {
    if BODY_TYPES.contains(&media_type) {
        return Ok(());
    }
    Err(Failure::unsupported_media_type(&BODY_TYPES))
}

/// Reads a body as any JSON, YAML or protobuf value.
///
/// # Errors
/// When the body is malformed or nests too deep.
pub fn decode_value(media_type: &str, body: &Bytes) -> Result<json::Decoded, Failure> {
    require_media_type(media_type)?;
    parse(media_type, body).map_err(Failure::bad_request)
}

/// Reads a body whose media type is known to be right.
fn parse(media_type: &str, body: &Bytes) -> Result<json::Decoded, String> {
    if media_type == BODY_TYPES[0] {
        let decoded = json::decode(body, LIMITS).map_err(|error| error.to_string());
        let decoded =
            decoded.and_then(|decoded| type_fault(&decoded.value).map_or(Ok(decoded), Err));
        return decoded
            .map_err(|why| format!("couldn't get version/kind; json parse error: {why}"));
    }
    if media_type == BODY_TYPES[2] {
        let value = native::protobuf::decode(body)
            .map_err(|why| format!("the body is not Kubernetes protobuf: {why}"))?;
        return Ok(json::Decoded { value, duplicates: Vec::new() });
    }
    let text = std::str::from_utf8(body).map_err(|_| "the body is not valid UTF-8".to_owned())?;
    let limits = serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_MAX };
    let options = serde_saphyr::options! { alias_limits: limits };
    let value: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| format!("error converting YAML to JSON: {error}"))?;
    if json::depth(&value) > DEPTH_MAX {
        return Err(format!("the body nests deeper than {DEPTH_MAX} levels"));
    }
    let decoded = json::Decoded { value, duplicates: Vec::new() };
    type_fault(&decoded.value).map_or(Ok(decoded), Err)
}

/// Why the type of a document cannot be told, in the words of Go's decoder.
fn type_fault(value: &Value) -> Option<String> {
    let Value::Object(fields) = value else {
        let into = r#"Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        let given = json::json_type(value);
        return (!value.is_null()).then(|| format!("json: cannot unmarshal {given} into {into}"));
    };
    ["apiVersion", "kind"].into_iter().find_map(|field| {
        let given = fields.get(field).filter(|given| !given.is_string() && !given.is_null())?;
        let given = json::json_type(given);
        Some(format!("json: cannot unmarshal {given} into Go struct field .{field} of type string"))
    })
}

/// Reads a body as an object of `kind` in `version`.
///
/// # Errors
/// When the body is malformed, is of another kind, has a field of the wrong type, or,
/// where that is asked for, has an unknown or repeated field.
pub fn decode(
    registry: &Registry,
    (kind, version): (&Kind, &Version),
    media_type: &str,
    body: &Bytes,
    validation: FieldValidation,
) -> Result<Decoded, Failure> {
    require_media_type(media_type)?;
    let json::Decoded { value, duplicates } =
        parse(media_type, body).map_err(|why| unrecognized(kind, &why, body))?;
    let value = if value.is_null() { Value::Object(Map::new()) } else { value };
    if kind.is_custom() {
        check_custom_type(kind, version, &value, body)?;
    } else {
        check_native_type(registry, kind, version, &value, body)?;
    }
    let refused =
        |why: String| Failure::bad_request(unreadable(kind, &version.name, &kind.names.kind, &why));
    let mut strays: Vec<String> =
        duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
    let mut value = conform(kind, version, value, &mut strays).map_err(refused)?;
    if !strays.is_empty()
        && !kind.is_custom()
        && let Ok(document) = json::document(body, LIMITS)
    {
        // What is repeated is merged, and what is told is told in the order of the document.
        let strictly = schema::read_strictly(&version.schema, &document);
        value = conform(kind, version, strictly.value, &mut Vec::new()).map_err(refused)?;
        strays = strictly.strays;
    }
    if !kind.is_custom() {
        // A native object need not say what it is; from here on it does.
        value["apiVersion"] = version.api_version(kind).into();
        value["kind"] = kind.names.kind.clone().into();
    }
    let warnings = told(strays, validation).map_err(refused)?;
    Ok(Decoded { value, warnings })
}

/// Drops fields the kind does not have from `value` and adds each to `strays`.
///
/// # Errors
/// When a field of a native kind, or of the metadata, has the wrong type.
pub fn conform(
    kind: &Kind,
    version: &Version,
    mut value: Value,
    strays: &mut Vec<String>,
) -> Result<Value, String> {
    if !value.is_object() {
        return Err("the result is no object".to_owned());
    }
    let (api_version, name) = (value["apiVersion"].take(), value["kind"].take());
    if kind.is_custom() {
        check_metadata_types(&value)?;
        let pruned = schema::prune(&version.schema, &mut value);
        // The metadata is read first.
        let (first, rest): (Vec<_>, Vec<_>) =
            pruned.into_iter().partition(|path| path.starts_with("metadata."));
        strays.extend(first.into_iter().chain(rest).map(unknown));
        if let Some(metadata) = value.get_mut("metadata") {
            native::as_written(native::object_meta(), metadata);
        }
    } else {
        let found = schema::decode_check(&version.schema, &value);
        strays.extend(found.map_err(|error| error.to_string())?.into_iter().map(unknown));
        schema::prune(&version.schema, &mut value);
        native::as_written(&version.schema, &mut value);
    }
    value["apiVersion"] = api_version;
    value["kind"] = name;
    Ok(value)
}

pub(super) fn unknown(path: String) -> String {
    format!("unknown field {path:?}")
}

fn check_metadata_types(value: &Value) -> Result<(), String> {
    let Some(metadata) = value.get("metadata").filter(|metadata| !metadata.is_null()) else {
        return Ok(());
    };
    let checked = schema::decode_check(native::object_meta(), metadata);
    checked.map(|_| ()).map_err(|error| error.to_string())
}

/// Turns strays into warnings or a refusal.
///
/// # Errors
/// When validation is strict and there is one.
pub fn told(strays: Vec<String>, validation: FieldValidation) -> Result<Vec<String>, String> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(strays),
        FieldValidation::Strict if strays.is_empty() => Ok(Vec::new()),
        FieldValidation::Strict => Err(format!("strict decoding error: {}", strays.join(", "))),
    }
}

fn unreadable(kind: &Kind, given_version: &str, given_kind: &str, why: &str) -> String {
    let name = &kind.names.kind;
    format!("{given_kind} in version {given_version:?} cannot be handled as a {name}: {why}")
}

/// How much of a body a message shows, in bytes.
const SHOWN_BYTES_MAX: usize = 30;

fn unrecognized(kind: &Kind, why: &str, body: &Bytes) -> Failure {
    let name = &kind.names.kind;
    let more = if body.len() > SHOWN_BYTES_MAX { " ..." } else { "" };
    let head = &body[..body.len().min(SHOWN_BYTES_MAX)];
    let shown = match head.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(head).into_owned(),
        Some(_) => head.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    Failure::bad_request(format!(
        "the object provided is unrecognized (must be of type {name}): {why} ({shown}{more})"
    ))
}

fn given_type(value: &Value) -> (&str, &str) {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    (text("apiVersion"), text("kind"))
}

fn another_version(given: &str, expected: &str) -> Failure {
    Failure::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    ))
}

/// Refuses an object of another version. One of another kind is refused by validation.
fn check_custom_type(
    kind: &Kind,
    version: &Version,
    value: &Value,
    body: &Bytes,
) -> Result<(), Failure> {
    let (given_version, given_kind) = given_type(value);
    if given_kind.is_empty() {
        let shown = String::from_utf8_lossy(body);
        let why = format!("Object 'Kind' is missing in '{shown}'");
        return Err(unrecognized(kind, &why, body));
    }
    let expected = version.api_version(kind);
    if given_version != expected {
        return Err(another_version(given_version, &expected));
    }
    Ok(())
}

/// Refuses an object that says it is of another kind or version.
fn check_native_type(
    registry: &Registry,
    kind: &Kind,
    version: &Version,
    value: &Value,
    body: &Bytes,
) -> Result<(), Failure> {
    let (given_version, _) = given_type(value);
    if given_version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {given_version}");
        return Err(unrecognized(kind, &why, body));
    }
    match another_type(registry, kind, version, value) {
        None => Ok(()),
        Some(Another::Version(given)) => Err(another_version(&given, &version.api_version(kind))),
        Some(Another::Kind { version, kind: given, why }) => {
            Err(Failure::bad_request(unreadable(kind, &version, &given, &why)))
        }
    }
}

/// What an object is instead of what it should be.
pub enum Another {
    /// The right kind in this version.
    Version(String),
    /// Another kind.
    Kind {
        /// Its version, without the group.
        version: String,
        /// Its name.
        kind: String,
        /// Why it cannot stand for the kind that is expected.
        why: String,
    },
}

/// What a native object is, where it is not what is expected. What it leaves out is as expected.
#[must_use]
pub fn another_type(
    registry: &Registry,
    kind: &Kind,
    version: &Version,
    value: &Value,
) -> Option<Another> {
    let (given_version, given_kind) = given_type(value);
    let (group, short) = match given_version.split_once('/') {
        _ if given_version.is_empty() => (kind.group.as_str(), version.name.as_str()),
        Some((group, short)) => (group, short),
        None => ("", given_version),
    };
    let name = if given_kind.is_empty() { kind.names.kind.as_str() } else { given_kind };
    if (group, short, name) == (&kind.group, &version.name, &kind.names.kind) {
        return None;
    }
    let known = registry.by_kind(group, name).filter(|known| !known.is_custom());
    let known = known.and_then(|known| {
        let offered = known.versions.iter().find(|offered| offered.name == short)?;
        Some((known, offered))
    });
    let why = match known {
        Some((known, _)) if (&known.group, &known.names) == (&kind.group, &kind.names) => {
            return Some(Another::Version(group_version(group, short)));
        }
        Some((_, offered)) => match schema::decode_check(&offered.schema, value) {
            Err(error) => error.to_string(),
            Ok(_) => format!(
                "converting ({short}.{name}) to ({}.{}): unknown conversion",
                internal_package(&kind.group),
                kind.names.kind
            ),
        },
        None => format!(
            "no kind {name:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
            group_version(group, short)
        ),
    };
    Some(Another::Kind { version: short.to_owned(), kind: name.to_owned(), why })
}

/// The package in which kube-apiserver keeps the version-less types of a group.
fn internal_package(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next().unwrap_or(group),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_aliases_of_a_yaml_body_stand_for_so_much_and_no_more() {
        let check = |times: usize, told: Option<&str>| {
            let list = vec!["x"; 120].join(", ");
            let anchors = (0..100).map(|at| format!("a{at}: &a{at} [{list}]\n"));
            let aliases = (0..100 * times).map(|at| format!("*a{}, ", at % 100));
            let body: String = anchors.chain(["b: [".to_owned()]).chain(aliases).collect();
            let parsed = parse(BODY_TYPES[1], &Bytes::from(body + "]\n"));
            let refused = parsed.err().unwrap_or_default();
            assert_eq!(told.is_none(), refused.is_empty(), "{times}: {refused}");
            assert!(refused.contains(told.unwrap_or_default()), "{times}: {refused}");
        };
        check(8, None);
        check(9, Some("alias replay limit exceeded"));
    }
}
