//! Native types that are bodies of subresources and no resources of their own.

use bytes::Bytes;
use http::HeaderMap;
use object::{json, schema};
use serde_json::Value;

use super::decode::{Decoded, LIMITS, decode_value, media_type, told, unknown};
use crate::answer::Failure;
use crate::kinds::{group_version, native};
use crate::request::FieldValidation;

/// A native type by its name.
#[derive(Clone, Copy)]
pub struct BodyType {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    /// What kube-apiserver calls the type without its version.
    internal: &'static str,
}

/// What gives a pod its node.
pub const BINDING: BodyType =
    BodyType { group: "", version: "v1", kind: "Binding", internal: "core.Binding" };
/// What asks a pod to go.
pub const EVICTION: BodyType =
    BodyType { group: "policy", version: "v1", kind: "Eviction", internal: "policy.Eviction" };
/// How many replicas are wanted.
pub const SCALE: BodyType =
    BodyType { group: "autoscaling", version: "v1", kind: "Scale", internal: "autoscaling.Scale" };

impl BodyType {
    /// Reads a body, with what its sender should be told.
    ///
    /// # Errors
    /// When the body is malformed, says it is something else, has a field of the wrong type or,
    /// where that is asked for, an unknown one.
    pub fn decode(
        self,
        headers: &HeaderMap,
        body: &Bytes,
        validation: FieldValidation,
    ) -> Result<Decoded, Failure> {
        let json::Decoded { value, duplicates } = decode_value(&media_type(headers), body)?;
        let repeats = !duplicates.is_empty();
        let document = || json::document(body, LIMITS).ok();
        self.typed(value, repeats, document, validation).map_err(|(given, why)| {
            let (version, kind) = given;
            let wanted = self.kind;
            Failure::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {wanted}: {why}"
            ))
        })
    }

    /// Refuses a value that is not of this type, and drops the fields that the type does not
    /// have.
    ///
    /// # Errors
    /// Why the value is refused, with the version and the kind it says it has.
    pub fn conform(
        self,
        value: Value,
        validation: FieldValidation,
    ) -> Result<Decoded, ((String, String), String)> {
        self.typed(value, false, || None, validation)
    }

    /// The same for a value that a `document` was read into, of which it says whether fields
    /// repeat.
    fn typed(
        self,
        mut value: Value,
        repeats: bool,
        document: impl FnOnce() -> Option<json::Document>,
        validation: FieldValidation,
    ) -> Result<Decoded, ((String, String), String)> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
        let short = api_version.rsplit('/').next().filter(|short| !short.is_empty());
        let given = (
            short.unwrap_or(self.version).to_owned(),
            if kind.is_empty() { self.kind.to_owned() } else { kind.clone() },
        );
        let expected = group_version(self.group, self.version);
        let is_this = |text: &str, expected: &str| text.is_empty() || text == expected;
        if !is_this(&api_version, &expected) || !is_this(&kind, self.kind) {
            let (version, kind) = &given;
            let internal = self.internal;
            let why = format!("converting ({version}.{kind}) to ({internal}): unknown conversion");
            return Err((given, why));
        }
        let schema = native::of_kind(self.group, self.version, self.kind);
        let mut strays: Vec<String> = match schema::decode_check(&schema, &value) {
            Ok(strays) => strays.into_iter().map(unknown).collect(),
            Err(error) => return Err((given, error.to_string())),
        };
        if (repeats || !strays.is_empty())
            && let Some(document) = document()
        {
            // What is repeated is merged, and what is told is told in the order of the document.
            let strictly = schema::read_strictly(&schema, &document);
            (value, strays) = (strictly.value, strictly.strays);
        }
        if let Some(map) = value.as_object_mut() {
            map.remove("apiVersion");
            map.remove("kind");
        }
        schema::prune(&schema, &mut value);
        let warnings = told(strays, validation).map_err(|why| (given, why))?;
        Ok(Decoded { value, warnings })
    }
}
