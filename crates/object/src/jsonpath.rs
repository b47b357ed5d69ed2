//! JSONPath as kubectl templates and CRD columns use it.
//!
//! It is Kubernetes' own dialect: fields, indices and slices, wildcards, recursive
//! descent, unions, filters, quoted keys, and templates with text and `{range}`.
//! A path is compiled once and evaluated many times; nothing is copied out of the
//! document. What a value is used for is not known here.
//!
//! ```
//! use object::jsonpath::{JsonPath, Missing};
//! let ready = JsonPath::column(r#".status.conditions[?(@.type=="Ready")].status"#).unwrap();
//! let object = serde_json::json!({"status": {"conditions": [
//!     {"type": "Initialized", "status": "True"},
//!     {"type": "Ready", "status": "False"},
//! ]}});
//! assert_eq!(ready.find(&object, Missing::Skip).unwrap(), ["False"]);
//! ```

use serde_json::Value;

mod eval;
mod parse;
mod simple;

pub use eval::{EvalError, VISITS_MAX};
pub use parse::ParseError;
pub use simple::{SimplePath, SimplePathError, check_simple};

/// A compiled path or template.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    parts: Vec<Part>,
}

/// What a field that is not there means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// No result.
    Skip,
    /// An error.
    Refuse,
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// Text between actions.
    Text(Value),
    /// An action in braces.
    Action(Vec<Step>),
}

/// One step of an action, from a set of values to the next.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// A quoted text or a number or `true` or `false`.
    Literal(Value),
    /// A quoted text stands for one value however many came in.
    Text(Value),
    /// `range` or `end`.
    Identifier(String),
    Field(String),
    Slice(Slice),
    Wildcard,
    Recursive,
    Union(Vec<Vec<Step>>),
    Filter(Filter),
}

/// `[start:end:step]` or `[index]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slice {
    start: Option<i64>,
    end: End,
    step: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Not given after a colon: the end of the list.
    Open,
    /// Given.
    At(i64),
    /// There was no colon: one past the start.
    AfterStart(i64),
}

/// `[?(left operator right)]`.
#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Vec<Step>,
    right: Vec<Step>,
    operator: String,
}

impl JsonPath {
    /// Compiles a template such as `{range .items[*]}{.metadata.name}{"\n"}{end}`.
    ///
    /// # Errors
    /// When it cannot be understood; the text is upstream's.
    pub fn template(text: &str) -> Result<Self, ParseError> {
        parse::template(text).map(|parts| Self { parts })
    }

    /// Compiles the path of a CRD column or selectable field, such as `.spec.replicas`.
    ///
    /// # Errors
    /// When it cannot be understood; the text is upstream's.
    pub fn column(path: &str) -> Result<Self, ParseError> {
        Self::template(&format!("{{{path}}}"))
    }

    /// The values of the first part of the template that gives results: for a plain
    /// path, all it finds.
    ///
    /// # Errors
    /// When the path does not fit the document, such as an index beyond a list.
    pub fn find<'a>(
        &'a self,
        document: &'a Value,
        missing: Missing,
    ) -> Result<Vec<&'a Value>, EvalError> {
        Ok(self.find_all(document, missing)?.into_iter().next().unwrap_or_default())
    }

    /// The values of each part of the template, in order.
    ///
    /// # Errors
    /// When the path does not fit the document, such as an index beyond a list.
    pub fn find_all<'a>(
        &'a self,
        document: &'a Value,
        missing: Missing,
    ) -> Result<Vec<Vec<&'a Value>>, EvalError> {
        eval::results(&self.parts, document, missing)
    }

    /// The template with its values filled in: values of one action are separated
    /// by spaces, lists and maps are JSON.
    ///
    /// # Errors
    /// When the path does not fit the document.
    pub fn render(&self, document: &Value, missing: Missing) -> Result<String, EvalError> {
        let results = self.find_all(document, missing)?;
        let parts = results
            .iter()
            .map(|values| values.iter().map(|value| text_of(value)).collect::<Vec<_>>().join(" "));
        Ok(parts.collect())
    }
}

/// One value as a template prints it.
#[must_use]
pub fn text_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Array(_) | Value::Object(_) => {
            String::from_utf8_lossy(&crate::json::encode(value)).into_owned()
        }
        scalar => crate::json::printed(scalar),
    }
}

#[cfg(test)]
mod tests;
