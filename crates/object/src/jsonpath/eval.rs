//! The evaluator: a set of values goes into each step, and a set comes out.

use std::cmp::Ordering;
use std::sync::LazyLock;

use serde_json::Value;

use super::{End, Filter, Missing, Part, Slice, Step};
use crate::json::printed;

/// Why a path does not fit a document, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A field is not there, and that matters.
    #[error("{0} is not found")]
    NotFound(String),
    /// What is indexed is not a list.
    #[error("{0} is not array or slice")]
    NotAList(&'static str),
    /// What is filtered is not a list.
    #[error("{0} is not array or slice and cannot be filtered")]
    NotFilterable(String),
    /// An index beyond the list.
    #[error("array index out of bounds: index {index}, length {length}")]
    OutOfBounds {
        /// The index.
        index: i64,
        /// How long the list is.
        length: usize,
    },
    /// A slice that ends before it begins.
    #[error("starting index {start} is greater than ending index {end}")]
    Backwards {
        /// Where it begins.
        start: i64,
        /// Where it ends.
        end: i64,
    },
    /// A slice with a step of nothing or backwards.
    #[error("step must be > 0")]
    Step,
    /// A filter compares more than one value.
    #[error("can only compare one element at a time")]
    Several,
    /// A filter compares with something that is no comparison.
    #[error("unrecognized filter operator {0}")]
    Operator(String),
    /// A filter compares a list, a map or null.
    #[error("invalid type for comparison")]
    Incomparable,
    /// A filter compares values of two types.
    #[error("incompatible types for comparison")]
    Incompatible,
    /// A word that is neither `range` nor `end`.
    #[error("unrecognized identifier {0}")]
    Identifier(String),
    /// `end` without `range`.
    #[error("not in range, nothing to end")]
    NothingToEnd,
    /// The path visits too much of the document.
    #[error(
        "the path visits more than {VISITS_MAX} values: name the fields instead of repeating wildcards"
    )]
    TooMuch,
}

/// How many values one evaluation may visit: repeated descents and unions multiply,
/// and a path comes from whoever may create a CRD.
pub const VISITS_MAX: usize = 1_000_000;

/// An error, and whether values were left when it came: upstream counts those as
/// existing in a filter that asks for existence.
struct Failure {
    error: EvalError,
    leaves_values: bool,
}

impl From<EvalError> for Failure {
    fn from(error: EvalError) -> Self {
        Self { error, leaves_values: true }
    }
}

type Values<'a> = Vec<&'a Value>;

pub(super) fn results<'a>(
    parts: &'a [Part],
    document: &'a Value,
    missing: Missing,
) -> Result<Vec<Values<'a>>, EvalError> {
    let mut walk = Walk { missing, begins: 0, inside: 0, ends: 0, last_end: 0, visits: 0 };
    walk.parts(parts, 0, document).map_err(|failure| failure.error)
}

struct Walk {
    missing: Missing,
    /// `range` words met whose loop has not begun.
    begins: usize,
    /// Loops under way.
    inside: usize,
    /// `end` words met whose loop has not ended.
    ends: usize,
    /// The part after the `end` met last.
    last_end: usize,
    /// Values visited.
    visits: usize,
}

/// What a loop without values is walked with.
static NOTHING: Value = Value::Null;

/// The bytes of a text, which a wildcard gives as numbers.
static BYTES: LazyLock<Vec<Value>> = LazyLock::new(|| (0..=255_u8).map(Value::from).collect());

impl Walk {
    /// The results of the parts from `at` on, up to an `end` or the last.
    fn parts<'a>(
        &mut self,
        parts: &'a [Part],
        mut at: usize,
        document: &'a Value,
    ) -> Result<Vec<Values<'a>>, Failure> {
        let mut all = Vec::new();
        while at < parts.len() {
            let results = match &parts[at] {
                Part::Text(text) => vec![text],
                Part::Action(steps) => self.steps(vec![document], steps)?,
            };
            at += 1;
            if self.ends > 0 && self.ends <= self.inside {
                self.ends -= 1;
                self.last_end = at;
                return Ok(all);
            }
            if self.begins == 0 {
                all.push(results);
                continue;
            }
            self.begins -= 1;
            self.inside += 1;
            if results.is_empty() {
                // The parts of the loop are walked once all the same, to find its end.
                self.parts(parts, at, &NOTHING)?;
            }
            for value in results {
                all.extend(self.parts(parts, at, value)?);
            }
            self.inside -= 1;
            // Without an end of its own, a loop ends where the last one within it did.
            at = at.max(self.last_end);
        }
        Ok(all)
    }

    fn steps<'a>(&mut self, input: Values<'a>, steps: &'a [Step]) -> Result<Values<'a>, Failure> {
        steps.iter().try_fold(input, |values, step| {
            let found = self.step(values, step)?;
            self.visits += found.len() + 1;
            if self.visits > VISITS_MAX { Err(EvalError::TooMuch.into()) } else { Ok(found) }
        })
    }

    fn step<'a>(&mut self, input: Values<'a>, step: &'a Step) -> Result<Values<'a>, Failure> {
        match step {
            Step::Literal(value) => Ok(vec![value; input.len()]),
            Step::Text(text) => Ok(vec![text]),
            Step::Identifier(name) => self.identifier(input, name),
            Step::Field(name) => self.field(&input, name),
            Step::Slice(slice) => Ok(sliced(&input, *slice)?),
            Step::Wildcard => {
                let all = input.iter().flat_map(|value| children(value));
                Ok(all.take(VISITS_MAX).collect())
            }
            Step::Recursive => Ok(descend(&input)),
            Step::Union(members) => {
                let mut all = Vec::new();
                for member in members {
                    let found = self.steps(input.clone(), member);
                    all.extend(found.map_err(|failure| Failure::from(failure.error))?);
                }
                Ok(all)
            }
            Step::Filter(filter) => self.filter(&input, filter),
        }
    }

    fn identifier<'a>(&mut self, input: Values<'a>, name: &str) -> Result<Values<'a>, Failure> {
        match name {
            "range" => {
                self.begins += 1;
                Ok(input)
            }
            "end" if self.inside > 0 => {
                self.ends += 1;
                Ok(Vec::new())
            }
            "end" => Err(Failure { error: EvalError::NothingToEnd, leaves_values: false }),
            other => Err(EvalError::Identifier(other.to_owned()).into()),
        }
    }

    fn field<'a>(&self, input: &[&'a Value], name: &str) -> Result<Values<'a>, Failure> {
        let found: Values<'a> =
            input.iter().filter_map(|value| value.as_object()?.get(name)).collect();
        if found.is_empty() && !input.is_empty() && self.missing == Missing::Refuse {
            let error = EvalError::NotFound(name.to_owned());
            return Err(Failure { error, leaves_values: false });
        }
        Ok(found)
    }

    fn filter<'a>(
        &mut self,
        input: &[&'a Value],
        filter: &'a Filter,
    ) -> Result<Values<'a>, Failure> {
        let mut passed = Vec::new();
        for value in input {
            let Value::Array(items) = value else {
                let nothing = std::ptr::eq(*value, &NOTHING);
                let shown = if nothing { "<invalid reflect.Value>".into() } else { printed(value) };
                return Err(EvalError::NotFilterable(shown).into());
            };
            for item in items {
                let left = self.steps(vec![item], &filter.left);
                if filter.operator == "exists" {
                    let exists = match &left {
                        Ok(values) => !values.is_empty(),
                        Err(failure) => failure.leaves_values,
                    };
                    if exists {
                        passed.push(item);
                    }
                    continue;
                }
                let Some(left) = only(left?)? else { continue };
                let Some(right) = only(self.steps(vec![item], &filter.right)?)? else { continue };
                if holds(left, &filter.operator, right)? {
                    passed.push(item);
                }
            }
        }
        Ok(passed)
    }
}

/// The one value there is to compare, if any.
fn only<'a>(values: Values<'a>) -> Result<Option<&'a Value>, EvalError> {
    match values[..] {
        [] => Ok(None),
        [value] => Ok(Some(value)),
        _ => Err(EvalError::Several),
    }
}

fn holds(left: &Value, operator: &str, right: &Value) -> Result<bool, EvalError> {
    let wanted: fn(Ordering) -> bool = match operator {
        "==" => Ordering::is_eq,
        "!=" => Ordering::is_ne,
        "<" => Ordering::is_lt,
        ">" => Ordering::is_gt,
        "<=" => Ordering::is_le,
        ">=" => Ordering::is_ge,
        other => return Err(EvalError::Operator(other.to_owned())),
    };
    let order = match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => {
            if !matches!(operator, "==" | "!=") {
                return Err(EvalError::Incomparable);
            }
            left.cmp(right)
        }
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => {
            match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => left.as_f64().partial_cmp(&right.as_f64()).ok_or(EvalError::Incomparable)?,
            }
        }
        _ if [left, right]
            .iter()
            .any(|value| matches!(value, Value::Null | Value::Array(_) | Value::Object(_))) =>
        {
            return Err(EvalError::Incomparable);
        }
        _ => return Err(EvalError::Incompatible),
    };
    Ok(wanted(order))
}

fn sliced<'a>(input: &[&'a Value], slice: Slice) -> Result<Values<'a>, EvalError> {
    let mut found = Vec::new();
    for value in input {
        let items = match value {
            Value::Null => continue,
            Value::Array(items) => items,
            other => return Err(EvalError::NotAList(crate::patch::go_type(other))),
        };
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let from_end = |index: i64| if index < 0 { index + length } else { index };
        let start = from_end(slice.start.unwrap_or(0));
        let end = match slice.end {
            End::Open => length,
            End::At(end) => from_end(end),
            // `[-1]` ends at zero from the end.
            End::AfterStart(end) => {
                if end <= 0 {
                    end + length
                } else {
                    end
                }
            }
        };
        if start == end {
            return Ok(found);
        }
        let bound = |index, is_inside: bool| match is_inside {
            true => Ok(()),
            false => Err(EvalError::OutOfBounds { index, length: items.len() }),
        };
        bound(start, (0..length).contains(&start))?;
        bound(end.wrapping_sub(1), (0..=length).contains(&end))?;
        if start > end {
            return Err(EvalError::Backwards { start, end });
        }
        let step = match slice.step {
            None => 1,
            Some(step) => {
                usize::try_from(step).ok().filter(|&step| step > 0).ok_or(EvalError::Step)?
            }
        };
        let range = usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
        found.extend(items[range].iter().step_by(step));
        if found.len() > VISITS_MAX {
            return Err(EvalError::TooMuch);
        }
    }
    Ok(found)
}

fn children(value: &Value) -> Values<'_> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        Value::String(text) => text.bytes().map(|byte| &BYTES[usize::from(byte)]).collect(),
        _ => Vec::new(),
    }
}

/// Every value that has something in it, parents before children.
fn descend<'a>(input: &[&'a Value]) -> Values<'a> {
    let mut found = Vec::new();
    let mut open: Vec<&Value> = input.iter().rev().copied().collect();
    while let Some(value) = open.pop() {
        if found.len() > VISITS_MAX {
            break;
        }
        match value {
            Value::String(text) if !text.is_empty() => found.push(value),
            Value::Array(_) | Value::Object(_) => {
                let children = children(value);
                if !children.is_empty() {
                    found.push(value);
                    open.extend(children.into_iter().rev());
                }
            }
            _ => {}
        }
    }
    found
}
