//! Config maps, secrets and service accounts.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use object::field::{Error, Errors, Path};
use object::names;
use serde_json::Value;

use super::cells::{AGE, Cell, NAME, cell, text_or};
use super::fields::{flag, map, set_empty, text};
use super::rules::{immutable, said};
use super::strategy::{Selectable, Strategy};

/// The most bytes a config map or secret may hold.
const DATA_BYTES_MAX: usize = 1024 * 1024;

const FROZEN: &str = "field is immutable when `immutable` is set";

/// Settings as text or bytes.
pub(super) struct ConfigMap;

const CONFIG_MAP: &[Cell] = &[
    NAME,
    cell("Data", "string", |map, _| (entries(map, "data") + entries(map, "binaryData")).into()),
    AGE,
];

fn entries(object: &Value, key: &str) -> usize {
    map(object, key).map_or(0, serde_json::Map::len)
}

impl Strategy for ConfigMap {
    fn validate(&self, object: &Value) -> Errors {
        let mut errors = Errors::new();
        let mut bytes = 0;
        for (key, value) in map(object, "data").into_iter().flatten() {
            let at = Path::new("data").key(key);
            errors.extend(said(names::config_map_key(key), key, &at));
            if map(object, "binaryData").is_some_and(|binary| binary.contains_key(key)) {
                errors.push(Error::invalid(
                    &at,
                    key.as_str(),
                    "duplicate of key present in binaryData",
                ));
            }
            bytes += value.as_str().map_or(0, str::len);
        }
        for (key, value) in map(object, "binaryData").into_iter().flatten() {
            let at = Path::new("binaryData").key(key);
            errors.extend(said(names::config_map_key(key), key, &at));
            bytes += decoded_len(value);
        }
        if bytes > DATA_BYTES_MAX {
            errors.push(Error::too_long(&Path::new("[]"), DATA_BYTES_MAX));
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = frozen(object, old, &["data", "binaryData"]);
        errors.extend(self.validate(object));
        errors
    }

    fn cells(&self) -> &'static [Cell] {
        CONFIG_MAP
    }
}

/// What changed in an object that its owner has frozen.
fn frozen(object: &Value, old: &Value, keys: &[&str]) -> Errors {
    let mut errors = Errors::new();
    if !flag(old, "immutable") {
        return errors;
    }
    if !flag(object, "immutable") {
        errors.push(Error::forbidden(&Path::new("immutable"), FROZEN));
    }
    for key in keys {
        if object.get(*key) != old.get(*key) {
            errors.push(Error::forbidden(&Path::new(key), FROZEN));
        }
    }
    errors
}

/// The length of base64 text once decoded.
fn decoded_len(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default().trim_end_matches('=');
    text.len() * 3 / 4
}

/// Settings that are not shown to everyone.
pub(super) struct Secret;

const SECRET: &[Cell] = &[
    NAME,
    cell("Type", "string", |secret, _| text_or(&secret["type"], "")),
    cell("Data", "string", |secret, _| entries(secret, "data").into()),
    AGE,
];

const ACCOUNT: &str = "kubernetes.io/service-account.name";

impl Strategy for Secret {
    fn default(&self, object: &mut Value) {
        take_string_data(object);
        set_empty(object, "type", "Opaque");
    }

    fn validate(&self, object: &Value) -> Errors {
        let mut errors = Errors::new();
        let mut bytes = 0;
        for (key, value) in map(object, "data").into_iter().flatten() {
            errors.extend(said(names::config_map_key(key), key, &Path::new("data").key(key)));
            bytes += decoded_len(value);
        }
        if bytes > DATA_BYTES_MAX {
            errors.push(Error::too_long(&Path::new("data"), DATA_BYTES_MAX));
        }
        errors.extend(content(object));
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> Errors {
        let mut errors = immutable(object, old, "type", &Path::root());
        errors.extend(frozen(object, old, &["data"]));
        errors.extend(self.validate(object));
        errors
    }

    fn selectable(&self) -> &'static [Selectable] {
        &[Selectable { name: "type", value: |secret| text(secret, "type").to_owned() }]
    }

    fn cells(&self) -> &'static [Cell] {
        SECRET
    }
}

/// Text that a user wrote plainly is kept like the rest.
fn take_string_data(object: &mut Value) {
    let Some(secret) = object.as_object_mut() else { return };
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    let data = secret.entry("data").or_insert_with(|| Value::Object(serde_json::Map::new()));
    if data.is_null() {
        *data = Value::Object(serde_json::Map::new());
    }
    let Some(data) = data.as_object_mut() else { return };
    for (key, value) in plain {
        let encoded = BASE64_STANDARD.encode(value.as_str().unwrap_or_default());
        data.insert(key, encoded.into());
    }
}

/// What secrets of the known types must hold.
fn content(object: &Value) -> Errors {
    let at = Path::new("data");
    let data = map(object, "data");
    let has = |key: &str| data.is_some_and(|data| data.contains_key(key));
    let missing = |key: &str| Error::required(&at.key(key), "");
    match text(object, "type") {
        "kubernetes.io/service-account-token" => {
            let annotations = &object["metadata"]["annotations"];
            if text(annotations, ACCOUNT).is_empty() {
                let at = Path::new("metadata").child("annotations").key(ACCOUNT);
                return vec![Error::required(&at, "")];
            }
            Errors::new()
        }
        "kubernetes.io/dockercfg" => docker_config(object, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => docker_config(object, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            vec![missing("username"), missing("password")]
        }
        "kubernetes.io/ssh-auth"
            if data.is_none_or(|data| {
                data.get("ssh-privatekey").and_then(Value::as_str).unwrap_or_default().is_empty()
            }) =>
        {
            vec![missing("ssh-privatekey")]
        }
        "kubernetes.io/tls" => {
            ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)).map(missing).collect()
        }
        _ => Errors::new(),
    }
}

fn docker_config(object: &Value, key: &str) -> Errors {
    let at = Path::new("data").key(key);
    let Some(encoded) = object["data"][key].as_str() else {
        return vec![Error::required(&at, "")];
    };
    let bytes = BASE64_STANDARD.decode(encoded).unwrap_or_default();
    match serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes) {
        Ok(_) => Errors::new(),
        Err(_) => vec![Error::invalid(&at, "<secret contents redacted>", go_fault(&bytes))],
    }
}

/// Why Go cannot read a JSON object here, in its words where they are short.
fn go_fault(bytes: &[u8]) -> String {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    match first {
        None => "unexpected end of JSON input".to_owned(),
        Some(b'{') => "unexpected end of JSON input".to_owned(),
        Some(byte @ (b'[' | b'"' | b't' | b'f' | b'0'..=b'9' | b'-')) => {
            let found = match byte {
                b'[' => "array",
                b'"' => "string",
                b't' | b'f' => "bool",
                _ => "number",
            };
            format!(
                "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )
        }
        Some(byte) => {
            format!("invalid character '{}' looking for beginning of value", char::from(*byte))
        }
    }
}
