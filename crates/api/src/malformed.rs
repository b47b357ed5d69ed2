//! The error that every label and annotation protocol shares.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Longest part of a bad value that a message repeats, in characters.
const SHOWN_CHARS_MAX: usize = 64;

/// A label, annotation or field whose value cannot be read.
///
/// ```
/// let error = api::qos::QosClass::parse("GOLD").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "koordinator.sh/qosClass has the value \"GOLD\": use one of LSE, LSR, LS, BE or SYSTEM"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The key of the label or annotation, or the path of the field.
    pub key: &'static str,
    /// The value as it was found, as far as it is shown: an annotation may be of 256 KiB, and what is wrong with an
    /// object is kept for as long as it is there. One character more than is shown says that it goes on.
    pub value: String,
    /// What to write instead.
    pub fix: &'static str,
}

impl Malformed {
    /// A value at a key, and what to write instead.
    #[must_use]
    pub fn new(key: &'static str, value: &str, fix: &'static str) -> Self {
        Self { key, value: value.chars().take(SHOWN_CHARS_MAX + 1).collect(), fix }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.value.chars().take(SHOWN_CHARS_MAX).collect();
        let cut = if shown.len() < self.value.len() { "…" } else { "" };
        write!(f, "{} has the value {shown:?}{cut}: {}", self.key, self.fix)
    }
}

impl std::error::Error for Malformed {}

/// Reads an annotation that holds JSON; none where it is not there.
pub(crate) fn annotation<T: DeserializeOwned>(
    annotations: &BTreeMap<String, String>,
    key: &'static str,
    fix: &'static str,
) -> Result<Option<T>, Malformed> {
    match annotations.get(key) {
        // What is a list to whoever wrote it would be read as the fields of an object, in their order.
        Some(text) if text.trim_start().starts_with('[') => Err(Malformed::new(key, text, fix)),
        _ => list_annotation(annotations, key, fix),
    }
}

/// The same of an annotation that is a list.
pub(crate) fn list_annotation<T: DeserializeOwned>(
    annotations: &BTreeMap<String, String>,
    key: &'static str,
    fix: &'static str,
) -> Result<Option<T>, Malformed> {
    let Some(text) = annotations.get(key) else { return Ok(None) };
    serde_json::from_str(text).map(Some).map_err(|_| Malformed::new(key, text, fix))
}

/// What an object says under these keys, in the case that we write them in, since upstream reads them in
/// any; and whether it says anything else.
pub(crate) fn known_keys(object: Map<String, Value>, known: &[&str]) -> (Map<String, Value>, bool) {
    let named = |key: &str| known.iter().find(|own| own.eq_ignore_ascii_case(key));
    let has_others = object.keys().any(|key| named(key).is_none());
    let own = object.into_iter();
    let own = own.filter_map(|(key, value)| Some(((*named(&key)?).to_owned(), value)));
    (own.collect(), has_others)
}

/// Reads a label that is yes or no; none where it is not there or empty.
pub(crate) fn flag(
    labels: &BTreeMap<String, String>,
    key: &'static str,
) -> Result<Option<bool>, Malformed> {
    match labels.get(key).map_or("", String::as_str) {
        "" => Ok(None),
        "true" => Ok(Some(true)),
        "false" => Ok(Some(false)),
        other => Err(Malformed::new(key, other, "use true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_in_any_case_and_others_are_not() {
        let check = |text: &str, expected: (&str, bool)| {
            let own = serde_json::from_str(text).unwrap();
            let (own, has_others) = known_keys(own, &["nodeNames", "others"]);
            assert_eq!((&*Value::Object(own).to_string(), has_others), expected, "{text}");
        };
        check("{}", ("{}", false));
        check(r#"{"NODENAMES":1,"others":2}"#, (r#"{"nodeNames":1,"others":2}"#, false));
        check(r#"{"nodeName":1,"others":2}"#, (r#"{"others":2}"#, true));
    }

    #[test]
    fn of_a_long_value_no_more_is_kept_than_is_shown() {
        let error = Malformed::new("key", &"é".repeat(1000), "write less");
        assert_eq!(
            error.to_string(),
            format!("key has the value \"{}\"…: write less", "é".repeat(SHOWN_CHARS_MAX))
        );
        assert_eq!(error.value, "é".repeat(SHOWN_CHARS_MAX + 1));
        let again = Malformed::new("other", &error.value, "write less").to_string();
        assert!(again.contains("\"…: write less"), "{again}");
        let whole = "é".repeat(SHOWN_CHARS_MAX);
        assert_eq!(
            Malformed::new("key", &whole, "x").to_string(),
            format!("key has the value {whole:?}: x")
        );
    }
}
