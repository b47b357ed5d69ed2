//! JSON as the API server reads and writes it: one pass that sees duplicate keys,
//! a bound on nesting, Go's numbers and Go's error texts.
//!
//! `serde_json` alone would not do: it drops duplicate keys silently, reads large
//! integers as `u64`, and words its errors in its own way, while clients of the
//! API server read Go's. Nothing here knows a schema or an object's fields.
//!
//! ```
//! use object::json::{Limits, decode, encode};
//! let body = br#"{"spec": {"x": 1, "x": 2}}"#;
//! let decoded = decode(body, Limits::default()).unwrap();
//! assert_eq!(decoded.duplicates, ["spec.x"]);
//! assert_eq!(encode(&decoded.value), br#"{"spec":{"x":2}}"#);
//! ```

use serde_json::Value;

mod decode;
mod document;
mod encode;
mod order;
mod printed;

pub use decode::decode;
pub use document::{Document, document};
pub use encode::{encode, encode_into};
pub(crate) use order::ByValue;
pub use printed::{go_type, json_type, printed, quoted};

/// How deep a document may nest where nothing else is said.
///
/// kube-apiserver stops at 10,000. Everything after the decoder walks values by
/// recursion on threads with small stacks, and no real object nests a tenth of
/// this, so the bound here is where recursion is safe.
pub const DEPTH_MAX: usize = 256;

/// How many duplicate keys are reported at most, as upstream's strict decoder does.
pub const DUPLICATES_MAX: usize = 100;

/// What a document may not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most lists and maps that may be open at once.
    pub depth_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth_max: DEPTH_MAX }
    }
}

/// A document that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The document; of a key that is there twice, the last value.
    pub value: Value,
    /// The path of each key that is there twice, such as `spec.x` or
    /// `spec.containers[0].name`, each once, in the order found.
    pub duplicates: Vec<String>,
}

impl Decoded {
    /// The duplicates in the words of upstream's strict decoder.
    pub fn duplicate_errors(&self) -> impl Iterator<Item = String> + '_ {
        self.duplicates.iter().map(|path| format!("duplicate field {}", quoted(path)))
    }
}

/// Why a document could not be read. The text is Go's, which has no offset in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct DecodeError {
    /// How many bytes had been read, the offending one included.
    pub offset: usize,
    /// What was wrong.
    pub problem: Problem,
}

/// What can be wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The document is cut short.
    #[error("unexpected end of JSON input")]
    Ended,
    /// A byte that cannot stand where it stands.
    #[error("invalid character {found} {expected}")]
    Unexpected {
        /// The byte as a quoted character.
        found: String,
        /// Where it stood, and so what was expected.
        expected: &'static str,
    },
    /// Too many lists and maps are open at once.
    #[error("exceeded max depth: lists and maps may nest at most {max} deep, flatten the document")]
    TooDeep {
        /// The bound.
        max: usize,
    },
    /// A number that neither an integer of 64 bits nor a float can hold.
    #[error("json: cannot unmarshal number {literal} into Go value of type float64")]
    NumberRange {
        /// The number as written.
        literal: String,
    },
}

/// The most lists and maps that are open at once in `value`; 0 for a scalar.
/// Walks with its own stack, so it can judge what must not be recursed into.
#[must_use]
pub fn depth(value: &Value) -> usize {
    depth_counted(value, &mut 0)
}

/// The depth of `value`; how many values had to be looked at is added to `walked`.
pub(crate) fn depth_counted(value: &Value, walked: &mut usize) -> usize {
    let mut deepest = 0;
    let mut open = vec![(value, 1)];
    while let Some((value, level)) = open.pop() {
        *walked += 1;
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|field| (field, level + 1))),
            _ => continue,
        }
        deepest = deepest.max(level);
    }
    deepest
}

/// About how many bytes `value` has as text.
pub(crate) fn text_bytes(value: &Value) -> usize {
    let mut bytes = 0;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        bytes += 2;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => bytes += 4,
            Value::String(text) => bytes += text.len(),
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => {
                for (key, field) in fields {
                    bytes += key.len() + 4;
                    open.push(field);
                }
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests;
