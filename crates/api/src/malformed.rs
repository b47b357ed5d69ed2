//! The error that every label and annotation protocol shares.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeOwned, Deserializer as _, SeqAccess, Visitor};
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

/// How much a list of names in an annotation may say. Whoever writes one has 256 KiB for it, and all of it would be
/// read by the thread that decides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListBounds {
    /// How many entries are read.
    pub(crate) entries: usize,
    /// How many bytes of text are looked at.
    pub(crate) bytes: usize,
    /// What to write where there are more.
    pub(crate) fix: &'static str,
}

/// Why a list of names is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnreadList {
    /// It says more than it may, and was not read to its end.
    TooMuch(Malformed),
    /// It is no list of names.
    Otherwise(Malformed),
}

impl UnreadList {
    /// What is wrong with it.
    pub(crate) fn malformed(self) -> Malformed {
        match self {
            Self::TooMuch(error) | Self::Otherwise(error) => error,
        }
    }
}

/// Reads an annotation that is a list of names; none where it is not there. No more of it is read than it may say.
pub(crate) fn names_annotation(
    annotations: &BTreeMap<String, String>,
    key: &'static str,
    bounds: ListBounds,
    fix: &'static str,
) -> Result<Option<Vec<Box<str>>>, UnreadList> {
    let Some(text) = annotations.get(key) else { return Ok(None) };
    let too_much = |what: &str| UnreadList::TooMuch(Malformed::new(key, what, bounds.fix));
    if text.len() > bounds.bytes {
        return Err(too_much(&format!("{} bytes", text.len())));
    }
    let (mut wire, mut has_more) = (serde_json::Deserializer::from_str(text), false);
    let reader = Names { entries_max: bounds.entries, has_more: &mut has_more };
    let read = wire.deserialize_seq(reader).and_then(|names| wire.end().map(|()| names));
    match read {
        _ if has_more => Err(too_much(&format!("more than {} entries", bounds.entries))),
        Ok(names) => Ok(Some(names)),
        Err(_) => Err(UnreadList::Otherwise(Malformed::new(key, text, fix))),
    }
}

/// Who reads a list of names, and leaves it alone where there are more than so many.
struct Names<'a> {
    entries_max: usize,
    has_more: &'a mut bool,
}

impl<'de> Visitor<'de> for Names<'_> {
    type Value = Vec<Box<str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = list.next_element()? {
            if names.len() == self.entries_max {
                *self.has_more = true;
                break;
            }
            names.push(name);
        }
        Ok(names)
    }
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
    fn of_a_list_of_names_no_more_is_read_than_it_may_say() {
        let bounds = ListBounds { entries: 2, bytes: 20, fix: "name two" };
        let check = |text: &str, expected: Result<&[&str], &str>| {
            let annotations = BTreeMap::from([("key".to_owned(), text.to_owned())]);
            let read = names_annotation(&annotations, "key", bounds, "write a list");
            let read = read.map(Option::unwrap_or_default);
            let expected: Result<Vec<Box<str>>, String> = expected
                .map(|names| names.iter().copied().map(Box::from).collect())
                .map_err(str::to_owned);
            assert_eq!(read.map_err(|error| error.malformed().to_string()), expected, "{text}");
        };
        check("[]", Ok(&[]));
        check(r#" ["a", "b"] "#, Ok(&["a", "b"]));
        check(r#"["a","b","c"]"#, Err("key has the value \"more than 2 entries\": name two"));
        // What comes after them is not looked at.
        check(r#"["a","b","c",7"#, Err("key has the value \"more than 2 entries\": name two"));
        check(r#"["a","b",7]"#, Err(r#"key has the value "[\"a\",\"b\",7]": write a list"#));
        check(r#"["a"]]"#, Err(r#"key has the value "[\"a\"]]": write a list"#));
        check("null", Err(r#"key has the value "null": write a list"#));
        let long = format!("[{}]", " ".repeat(19));
        check(&long, Err("key has the value \"21 bytes\": name two"));
        check(&long[1..], Err(r#"key has the value "                   ]": write a list"#));
        let none = names_annotation(&BTreeMap::new(), "key", bounds, "write a list");
        assert_eq!(none, Ok(None));
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
