//! Where in an object something is wrong, and what: the errors that every
//! validation of the API server is made of.
//!
//! The text of an error and of each kind follows kube-apiserver, because users and
//! programs read them.

mod bounds;

use std::fmt;

use serde_json::Value;

use crate::json::text_bytes;

pub use bounds::{ERRORS_BYTES_MAX, ERRORS_MAX, bounded};
pub(crate) use bounds::{Gathered, Texts};

/// A path to a field, such as `spec.containers[0].name`.
///
/// ```
/// use object::field::Path;
/// let path = Path::new("spec").child("containers").index(0).child("name");
/// assert_eq!(path.to_string(), "spec.containers[0].name");
/// assert_eq!(Path::new("metadata").child("labels").key("a/b").to_string(), "metadata.labels[a/b]");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    /// The empty path: the object itself.
    #[must_use]
    pub fn root() -> Self {
        Self(String::new())
    }

    /// A path of one field.
    #[must_use]
    pub fn new(field: &str) -> Self {
        Self(field.to_owned())
    }

    /// The field `name` of what this path points to.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() {
            return Self::new(name);
        }
        Self(format!("{}.{name}", self.0))
    }

    /// Element `index` of the list this path points to.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The entry `key` of the map this path points to.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The same place, seen from further out: `self` is where `inner` begins.
    #[must_use]
    pub fn join(&self, inner: &Self) -> Self {
        match (self.0.is_empty(), inner.0.is_empty()) {
            (true, _) => inner.clone(),
            (_, true) => self.clone(),
            _ if inner.0.starts_with('[') => Self(format!("{}{}", self.0, inner.0)),
            _ => self.child(&inner.0),
        }
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // kube-apiserver prints the empty path as `<nil>`.
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// What kind of fault a field has; the wire name is the `reason` of a `StatusCause`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A value that another object should have is not there.
    NotFound,
    /// A value is missing.
    Required,
    /// A value that must be unique is there twice.
    Duplicate,
    /// A value is malformed or out of range.
    Invalid,
    /// A value is not one of a closed set.
    NotSupported,
    /// A value is not allowed under the present circumstances.
    Forbidden,
    /// A text is too long.
    TooLong,
    /// A list or map has too many entries.
    TooMany,
    /// A value has the wrong type.
    TypeInvalid,
}

impl Fault {
    /// The `reason` of the cause, as in `FieldValueInvalid`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

/// One field that is wrong. Its `Display` is `path: fault: value: detail`, as
/// kube-apiserver writes it in `Status.message`; [`Error::body`] is the same
/// without the path, as in `Status.details.causes[].message`.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    /// Where.
    pub path: Path,
    /// What kind.
    pub fault: Fault,
    /// The offending value, where the kind of fault shows one; none where the message
    /// leaves it out.
    pub value: Option<Value>,
    /// What is wrong, in words.
    pub detail: String,
}

impl Error {
    /// A value that is malformed or out of range.
    pub fn invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::with(path, Fault::Invalid, Some(value.into()), detail)
    }

    /// A value of the wrong type.
    pub fn type_invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::with(path, Fault::TypeInvalid, Some(value.into()), detail)
    }

    /// A value that is missing.
    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        Self::with(path, Fault::Required, None, detail)
    }

    /// A value that is not allowed here.
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Self::with(path, Fault::Forbidden, None, detail)
    }

    /// A value that is there twice.
    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Self {
        Self::with(path, Fault::Duplicate, Some(value.into()), "")
    }

    /// A value that another object should have is not there.
    pub fn not_found(path: &Path, value: impl Into<Value>) -> Self {
        Self::with(path, Fault::NotFound, Some(value.into()), "")
    }

    /// A value outside a closed set, which is listed in the order given.
    pub fn not_supported(path: &Path, value: impl Into<Value>, supported: &[&str]) -> Self {
        let names: Vec<String> = supported.iter().map(|name| format!("{name:?}")).collect();
        let detail = if names.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", names.join(", "))
        };
        Self::with(path, Fault::NotSupported, Some(value.into()), detail)
    }

    /// A text longer than `max` bytes. kube-apiserver does not repeat the text.
    pub fn too_long(path: &Path, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::with(path, Fault::TooLong, None, format!("may not be more than {max} {unit}"))
    }

    /// A list or map with `actual` entries where `max` are allowed.
    pub fn too_many(path: &Path, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::with(
            path,
            Fault::TooMany,
            Some(actual.into()),
            format!("must have at most {max} {unit}"),
        )
    }

    fn with(path: &Path, fault: Fault, value: Option<Value>, detail: impl Into<String>) -> Self {
        Self { path: path.clone(), fault, value, detail: detail.into() }
    }

    /// About how much text this is.
    pub(crate) fn bytes(&self) -> usize {
        let value = self.value.as_ref().map_or(0, text_bytes);
        self.path.as_str().len() + value + self.detail.len()
    }

    /// The message without the path.
    #[must_use]
    pub fn body(&self) -> String {
        let mut text = self.fault.title().to_owned();
        match self.fault {
            Fault::Required | Fault::Forbidden | Fault::TooLong => {}
            _ => {
                if let Some(value) = &self.value {
                    text.push_str(": ");
                    text.push_str(&shown(value));
                }
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

/// A value as an error message shows it: text quoted, the rest as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => go_float(float),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// A float as Go's `%v` prints it: the shortest digits, an exponent of two digits
/// where it is below -4 or at least 6.
pub(crate) fn go_float(number: f64) -> String {
    let text = format!("{number:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    if exponent.parse::<i32>().is_ok_and(|exponent| (-4..6).contains(&exponent)) {
        return number.to_string();
    }
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

impl std::error::Error for Error {}

/// All that is wrong with an object, in the order it was found.
pub type Errors = Vec<Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_kube_apiserver_writes_it() {
        let path = Path::new("spec").child("replicas");
        let check = |error: Error, text: &str| assert_eq!(error.to_string(), text);
        check(
            Error::invalid(&path, -1, "must be greater than or equal to 0"),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        );
        check(Error::required(&path, ""), "spec.replicas: Required value");
        check(Error::forbidden(&path, "no"), "spec.replicas: Forbidden: no");
        check(Error::duplicate(&path, "a"), "spec.replicas: Duplicate value: \"a\"");
        check(
            Error::not_supported(&path, "x", &["b", "a"]),
            "spec.replicas: Unsupported value: \"x\": supported values: \"b\", \"a\"",
        );
        check(Error::too_long(&path, 63), "spec.replicas: Too long: may not be more than 63 bytes");
        check(
            Error::too_many(&path, 3, 2),
            "spec.replicas: Too many: 3: must have at most 2 items",
        );
        check(Error::required(&Path::root(), ""), "<nil>: Required value");
        let mut omitted = Error::invalid(&path, 1, "no");
        omitted.value = None;
        check(omitted, "spec.replicas: Invalid value: no");
        for (float, shown) in [(2.5, "2.5"), (3.0, "3"), (1e20, "1e+20"), (1e-7, "1e-07")] {
            check(
                Error::invalid(&path, float, "no"),
                &format!("spec.replicas: Invalid value: {shown}: no"),
            );
        }
    }
}
