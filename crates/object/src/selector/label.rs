//! Label selectors: `a=b,c!=d,e in (x,y),!f,g>1`, and their form in objects.
//!
//! ```
//! use object::selector::label::Selector;
//! let selector: Selector = "tier in (db, cache), !canary".parse()?;
//! assert_eq!(selector.to_string(), "!canary,tier in (cache,db)");
//! assert!(selector.matches(|key| (key == "tier").then_some("db")));
//! # Ok::<(), object::selector::label::SelectorError>(())
//! ```

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::field::{Error, Errors, Path, bounded};
use crate::names::{label_value, qualified_name, validate_label_name};

mod parse;

#[cfg(test)]
mod tests;

/// Why a selector is refused, in the words of kube-apiserver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

/// How a requirement relates a key to its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The key is absent: `!a`.
    DoesNotExist,
    /// The value is the one given: `a=b`.
    Equals,
    /// The same, as written with two signs: `a==b`.
    DoubleEquals,
    /// The value is one of those given: `a in (b,c)`.
    In,
    /// The key is absent or has another value: `a!=b`.
    NotEquals,
    /// The key is absent or its value is none of those given: `a notin (b,c)`.
    NotIn,
    /// The key is there: `a`.
    Exists,
    /// The value is an integer above the one given: `a>1`.
    GreaterThan,
    /// The value is an integer below the one given: `a<1`.
    LessThan,
}

/// A key, an operator and the values that go with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

impl Requirement {
    /// A requirement that is valid: key and values are, and the values are as many as
    /// the operator takes.
    ///
    /// # Errors
    /// When it is not; the message is the one that kube-apiserver puts together.
    pub fn new(
        key: &str,
        operator: Operator,
        values: Vec<String>,
        path: &Path,
    ) -> Result<Self, SelectorError> {
        let mut errors = Errors::new();
        errors.extend(key_fault(key, &path.child("key")));
        let at = path.child("values");
        let detail = match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                Some("for 'in', 'notin' operators, values set can't be empty")
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals
                if values.len() != 1 =>
            {
                Some("exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                Some("values set must be empty for exists and does not exist")
            }
            Operator::GreaterThan | Operator::LessThan if values.len() != 1 => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => None,
        };
        errors.extend(detail.map(|detail| Error::invalid(&at, values.clone(), detail)));
        for (index, value) in values.iter().enumerate() {
            if matches!(operator, Operator::GreaterThan | Operator::LessThan)
                && value.parse::<i64>().is_err()
            {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(Error::invalid(&at.index(index), value.as_str(), detail));
            }
        }
        for (index, value) in values.iter().enumerate() {
            let faults = label_value(value);
            if !faults.is_empty() {
                let at = at.index(index).key(key);
                errors.push(Error::invalid(&at, value.as_str(), faults.join("; ")));
            }
        }
        match aggregate(&errors) {
            None => Ok(Self { key: key.to_owned(), operator, values }),
            Some(text) => Err(SelectorError(text)),
        }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operator.
    #[must_use]
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values, in the order given.
    #[must_use]
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether labels meet the requirement.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        let value = lookup(&self.key);
        let has = |value: &str| self.values.iter().any(|own| own == value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(has),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(has),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compared(value).is_some_and(|(it, own)| it > own),
            Operator::LessThan => self.compared(value).is_some_and(|(it, own)| it < own),
        }
    }

    fn compared(&self, value: Option<&str>) -> Option<(i64, i64)> {
        let [own] = self.values.as_slice() else { return None };
        Some((value?.parse().ok()?, own.parse().ok()?))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        match self.operator {
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Exists => f.write_str(key),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// Requirements that must all be met, or nothing at all.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selector(Option<Vec<Requirement>>);

impl Selector {
    /// Selects everything.
    #[must_use]
    pub fn everything() -> Self {
        Self(Some(Vec::new()))
    }

    /// Selects nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self(None)
    }

    /// Selects what meets all of these.
    #[must_use]
    pub fn all(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self(Some(requirements))
    }

    /// Parses a selector; the path names the parameter in the errors.
    ///
    /// # Errors
    /// When the text is no selector.
    pub fn parse(text: &str, path: &Path) -> Result<Self, SelectorError> {
        parse::parse(text, path).map(Self::all)
    }

    /// Selects what has exactly these values, which are taken to be valid.
    #[must_use]
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let equals = |(key, value): (&str, &str)| Requirement {
            key: key.to_owned(),
            operator: Operator::Equals,
            values: vec![value.to_owned()],
        };
        Self::all(pairs.into_iter().map(equals).collect())
    }

    /// Whether labels, looked up by key, are selected.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        match &self.0 {
            None => false,
            Some(all) => all.iter().all(|requirement| requirement.matches(&lookup)),
        }
    }

    /// Whether the `labels` of an object are selected. An object without labels is
    /// given as `None`.
    #[must_use]
    pub fn matches_labels(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.matches(|key| labels?.get(key)?.as_str())
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.0.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether nothing can be selected.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.0.is_none()
    }

    /// The requirements sorted by key; `None` for the selector of nothing.
    #[must_use]
    pub fn requirements(&self) -> Option<&[Requirement]> {
        self.0.as_deref()
    }

    /// The one value that a label must have to be selected, where there is one: the
    /// key of an index.
    #[must_use]
    pub fn exact_match(&self, key: &str) -> Option<&str> {
        let requirement = self.0.as_ref()?.iter().find(|requirement| requirement.key == key)?;
        match (requirement.operator, requirement.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl std::str::FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Self::parse(text, &Path::root())
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.0.iter().flatten().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

/// A selector as objects carry it: `metav1.LabelSelector`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Values that labels must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Requirements that labels must meet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<Expression>>,
}

/// A requirement as objects carry it: `metav1.LabelSelectorRequirement`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Expression {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// The values for `In` and `NotIn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

impl Expression {
    fn values(&self) -> &[String] {
        self.values.as_deref().unwrap_or_default()
    }
}

impl LabelSelector {
    fn labels(&self) -> impl Iterator<Item = (&String, &String)> {
        self.match_labels.iter().flatten()
    }

    fn expressions(&self) -> &[Expression] {
        self.match_expressions.as_deref().unwrap_or_default()
    }

    /// The selector that this describes: everything when empty. For a selector that is
    /// not there at all, upstream selects nothing: [`Selector::nothing`].
    ///
    /// # Errors
    /// When a key, value or operator is not valid.
    pub fn to_selector(&self) -> Result<Selector, SelectorError> {
        let root = Path::root();
        let mut requirements = Vec::new();
        for (key, value) in self.labels() {
            let values = vec![value.clone()];
            requirements.push(Requirement::new(key, Operator::Equals, values, &root)?);
        }
        for expression in self.expressions() {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let text = format!("{other:?} is not a valid label selector operator");
                    return Err(SelectorError(text));
                }
            };
            let values = expression.values().to_vec();
            requirements.push(Requirement::new(&expression.key, operator, values, &root)?);
        }
        Ok(Selector::all(requirements))
    }

    /// What kube-apiserver would say of this selector in an object.
    #[must_use]
    pub fn validate(&self, path: &Path) -> Errors {
        let mut errors = Errors::new();
        let at = path.child("matchLabels");
        for (key, value) in self.labels() {
            errors.extend(validate_label_name(key, &at));
            let faults = label_value(value).into_iter();
            errors.extend(faults.map(|fault| Error::invalid(&at, value.as_str(), fault)));
        }
        for (index, expression) in self.expressions().iter().enumerate() {
            let at = path.child("matchExpressions").index(index);
            errors.extend(expression.validate(&at));
        }
        errors
    }
}

impl Expression {
    /// What kube-apiserver would say of this requirement in an object.
    #[must_use]
    pub fn validate(&self, path: &Path) -> Errors {
        let mut errors = Errors::new();
        let at = path.child("values");
        match self.operator.as_str() {
            "In" | "NotIn" if self.values().is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(Error::required(&at, detail));
            }
            "Exists" | "DoesNotExist" if !self.values().is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(Error::forbidden(&at, detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let detail = "not a valid selector operator";
                errors.push(Error::invalid(&path.child("operator"), other, detail));
            }
        }
        errors.extend(validate_label_name(&self.key, &path.child("key")));
        for (index, value) in self.values().iter().enumerate() {
            let at = at.index(index);
            let faults = label_value(value).into_iter();
            errors.extend(faults.map(|fault| Error::invalid(&at, value.as_str(), fault)));
        }
        errors
    }
}

fn key_fault(key: &str, path: &Path) -> Option<Error> {
    let faults = qualified_name(key);
    (!faults.is_empty()).then(|| Error::invalid(path, key, faults.join("; ")))
}

/// Errors in one line: alone as it is, several in brackets, each once.
fn aggregate(errors: &[Error]) -> Option<String> {
    let mut texts: Vec<String> = Vec::new();
    for error in bounded(errors).iter() {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        _ => Some(format!("[{}]", texts.join(", "))),
    }
}
