//! Field selectors: `metadata.name=x,spec.nodeName!=y`.
//!
//! Which fields a resource can be selected by is not known here: see
//! [`Selector::requirements`].
//!
//! ```
//! use object::selector::field::Selector;
//! let selector: Selector = "metadata.name=a,spec.nodeName!=".parse()?;
//! assert!(selector.matches(|field| if field == "metadata.name" { "a" } else { "n1" }));
//! # Ok::<(), object::selector::field::SelectorError>(())
//! ```

use std::fmt;
use std::str::FromStr;

#[cfg(test)]
mod tests;

/// Why a field selector is refused, in the words of kube-apiserver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// A term has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    NoOperator {
        /// The whole selector.
        selector: String,
        /// The term.
        term: String,
    },
    /// A backslash precedes what needs none.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A comma or equals sign in a value lacks its backslash. The message has the
    /// character's number, as upstream's has.
    #[error("invalid field selector: unescaped character in value: {}", *.0 as u32)]
    Unescaped(char),
}

/// Whether a field must have a value or must not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `=` or `==`.
    Equals,
    /// `!=`.
    NotEquals,
}

/// A field, and the value it must or must not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The field, such as `metadata.name`.
    pub field: String,
    /// How the value relates to it.
    pub operator: Operator,
    /// The value, without escapes.
    pub value: String,
}

/// Requirements that must all be met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

impl Selector {
    /// Selects everything.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects what meets all of these.
    #[must_use]
    pub fn all(requirements: Vec<Requirement>) -> Self {
        Self(requirements)
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// The requirements, for the reader who knows which fields there are.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }

    /// Whether an object is selected, whose fields `lookup` gives; a field without a
    /// value is the empty text.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> &'a str) -> bool {
        self.0.iter().all(|requirement| {
            let equal = lookup(&requirement.field) == requirement.value;
            equal == (requirement.operator == Operator::Equals)
        })
    }

    /// The value that a field must have to be selected, where there is one.
    #[must_use]
    pub fn exact_match(&self, field: &str) -> Option<&str> {
        let exact = |requirement: &&Requirement| {
            requirement.field == field && requirement.operator == Operator::Equals
        };
        self.0.iter().find(exact).map(|requirement| requirement.value.as_str())
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, operator, value)) = split_term(term) else {
                let (selector, term) = (text.to_owned(), term.to_owned());
                return Err(SelectorError::NoOperator { selector, term });
            };
            let (field, value) = (field.to_owned(), unescape_value(value)?);
            // Upstream drops a requirement of nothing on nothing.
            if !field.is_empty() || !value.is_empty() {
                requirements.push(Requirement { field, operator, value });
            }
        }
        Ok(Self(requirements))
    }
}

/// The terms between the commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Field, operator and value with its escapes. The first operator divides.
fn split_term(term: &str) -> Option<(&str, Operator, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let (field, rest) = term.split_at(at);
        if let Some(value) = rest.strip_prefix("!=") {
            return Some((field, Operator::NotEquals, value));
        }
        let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
        Some((field, Operator::Equals, value))
    })
}

/// A value with the backslashes that a selector needs.
#[must_use]
pub fn escape_value(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// A value without its backslashes.
///
/// # Errors
/// When a backslash precedes another character than itself, a comma or an equals sign,
/// or when one of those stands alone.
pub fn unescape_value(value: &str) -> Result<String, SelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(c) = letters.next() {
        match c {
            '\\' => match letters.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                Some(other) => return Err(SelectorError::Escape(format!("\\{other}"))),
                None => return Err(SelectorError::Escape("\\".to_owned())),
            },
            ',' | '=' => return Err(SelectorError::Unescaped(c)),
            _ => plain.push(c),
        }
    }
    Ok(plain)
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let operator = match requirement.operator {
                Operator::Equals => "=",
                Operator::NotEquals => "!=",
            };
            let value = escape_value(&requirement.value);
            write!(f, "{comma}{}{operator}{value}", requirement.field)?;
        }
        Ok(())
    }
}
