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
    /// What is wrong with what is written there.
    pub what: What,
}

/// What is wrong with what is written somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// It is this value.
    Value {
        /// The value as it was found, as far as it is shown: an annotation may be of 256 KiB, and what is wrong with an
        /// object is kept for as long as it is there. One character more than is shown says that it goes on.
        value: String,
        /// What to write instead.
        fix: &'static str,
    },
    /// It names something that cannot be.
    Names {
        /// What, in words.
        what: String,
        /// What to write instead.
        fix: &'static str,
    },
    /// It is a list that is longer than it may be, and was not read.
    TooLong {
        /// How many bytes it has.
        bytes: usize,
        /// What it may say.
        most: ListBounds,
    },
    /// It is a list of more entries than it may have, and was not read to its end.
    TooManyEntries {
        /// What it may say.
        most: ListBounds,
    },
    /// It is a list that names more than it may.
    TooManyNames {
        /// How many it names.
        names: usize,
        /// What it may say.
        most: ListBounds,
    },
}

impl Malformed {
    /// A value at a key, and what to write instead.
    #[must_use]
    pub fn new(key: &'static str, value: &str, fix: &'static str) -> Self {
        let value = value.chars().take(SHOWN_CHARS_MAX + 1).collect();
        Self { key, what: What::Value { value, fix } }
    }

    /// Something that is named at a key and cannot be, and what to write instead.
    #[must_use]
    pub fn naming(key: &'static str, what: String, fix: &'static str) -> Self {
        Self { key, what: What::Names { what, fix } }
    }

    /// The same at another key, which this is a part of.
    #[must_use]
    pub fn at(self, key: &'static str) -> Self {
        Self { key, ..self }
    }

    /// The value that cannot be read, as far as it is kept; nothing where it is something else that is wrong.
    #[must_use]
    pub fn value(&self) -> &str {
        match &self.what {
            What::Value { value, .. } => value,
            _ => "",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key;
        match &self.what {
            What::Value { value, fix } => {
                let shown: String = value.chars().take(SHOWN_CHARS_MAX).collect();
                let cut = if shown.len() < value.len() { "…" } else { "" };
                write!(f, "{key} has the value {shown:?}{cut}: {fix}")
            }
            What::Names { what, fix } => write!(f, "{key} names {what}: {fix}"),
            What::TooLong { bytes, most } => write!(f, "{key} has {bytes} bytes: {most}"),
            What::TooManyEntries { most } => {
                write!(f, "{key} has more than {} entries: {most}", most.entries)
            }
            What::TooManyNames { names, most } => {
                write!(f, "{key} names {names} {}: {most}", most.of)
            }
        }
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListBounds {
    /// What it names.
    pub of: &'static str,
    /// How many of them it may name.
    pub names: usize,
    /// How many entries are read: some may be named more than once.
    pub entries: usize,
    /// How many bytes of text are looked at.
    pub bytes: usize,
}

impl fmt::Display for ListBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, names, bytes, .. } = self;
        write!(f, "name at most {names} {of}, in at most {bytes} bytes of JSON")
    }
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
    let too_much = |what: What| UnreadList::TooMuch(Malformed { key, what });
    if text.len() > bounds.bytes {
        return Err(too_much(What::TooLong { bytes: text.len(), most: bounds }));
    }
    let (mut wire, mut has_more) = (serde_json::Deserializer::from_str(text), false);
    let reader = Names { entries_max: bounds.entries, has_more: &mut has_more };
    let read = wire.deserialize_seq(reader).and_then(|names| wire.end().map(|()| names));
    match read {
        _ if has_more => Err(too_much(What::TooManyEntries { most: bounds })),
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
        let bounds = ListBounds { of: "words", names: 1, entries: 2, bytes: 20 };
        let fix = "name at most 1 words, in at most 20 bytes of JSON";
        let check = |text: &str, expected: Result<&[&str], &str>| {
            let annotations = BTreeMap::from([("key".to_owned(), text.to_owned())]);
            let read = names_annotation(&annotations, "key", bounds, "write a list");
            let read = read.map(Option::unwrap_or_default);
            let expected: Result<Vec<Box<str>>, String> = expected
                .map(|names| names.iter().copied().map(Box::from).collect())
                .map_err(str::to_owned);
            let read = read.map_err(|error| error.malformed().to_string().replace(fix, "name one"));
            assert_eq!(read, expected, "{text}");
        };
        check("[]", Ok(&[]));
        check(r#" ["a", "b"] "#, Ok(&["a", "b"]));
        check(r#"["a","b","c"]"#, Err("key has more than 2 entries: name one"));
        // What comes after them is not looked at.
        check(r#"["a","b","c",7"#, Err("key has more than 2 entries: name one"));
        check(r#"["a","b",7]"#, Err(r#"key has the value "[\"a\",\"b\",7]": write a list"#));
        check(r#"["a"]]"#, Err(r#"key has the value "[\"a\"]]": write a list"#));
        check("null", Err(r#"key has the value "null": write a list"#));
        let long = format!("[{}]", " ".repeat(19));
        check(&long, Err("key has 21 bytes: name one"));
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
        assert_eq!(error.value(), "é".repeat(SHOWN_CHARS_MAX + 1));
        let again = error.at("other").to_string();
        assert!(again.starts_with("other ") && again.contains("\"…: write less"), "{again}");
        let whole = "é".repeat(SHOWN_CHARS_MAX);
        assert_eq!(
            Malformed::new("key", &whole, "x").to_string(),
            format!("key has the value {whole:?}: x")
        );
    }
}
