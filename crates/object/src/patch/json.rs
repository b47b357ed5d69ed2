//! JSON patch (RFC 6902): operations applied in order, all or none.
//!
//! The API server's library is more lenient than the RFC, and clients have come to
//! depend on it: `replace` of a missing field adds it, `add` without a value adds
//! null, `copy` of a missing field copies null, a negative index counts from the
//! end. Two of its oddities are not repeated: `test` compares values, not their
//! spelling (`1.50` equals `1.5`), and what makes it crash is refused.

use serde_json::{Map, Value};

use super::PatchError;
use crate::json::{Limits, decode, depth, depth_counted, encode, json_type};

/// How many operations one patch may have.
pub const OPERATIONS_MAX: usize = 10_000;

/// How many bytes all `copy` operations of one patch may add.
pub const COPY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How many values the operations of one patch may walk over or shift: some seconds of an
/// unoptimised build, and beyond what any patch of a real object asks for.
pub const STEPS_MAX: usize = 50_000_000;

/// How many elements of a list are shifted at the cost of walking over one value.
const SHIFTED_PER_STEP: usize = 4;

/// A patch that was read: its operations, and what a strict reader would object to.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    operations: Vec<Operation>,
    /// Unknown and duplicate fields of operations, as
    /// `json patch unknown field "[0].x"`: warnings or errors, by the request's
    /// field validation.
    pub strict_errors: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Operation {
    kind: Option<String>,
    path: Option<String>,
    from: Option<String>,
    value: Option<Value>,
}

impl Patch {
    /// Reads the body of a JSON patch request.
    ///
    /// # Errors
    /// [`PatchError::Malformed`] when the body is not a list of operations,
    /// [`PatchError::TooLarge`] when there are more than [`OPERATIONS_MAX`].
    pub fn read(body: &[u8], limits: Limits) -> Result<Self, PatchError> {
        let malformed =
            |text: String| PatchError::Malformed(format!("error decoding patch: {text}"));
        let decoded = decode(body, limits).map_err(|error| malformed(error.to_string()))?;
        let mut strict_errors: Vec<String> =
            decoded.duplicate_errors().map(|error| format!("json patch {error}")).collect();
        let items = match decoded.value {
            Value::Null => Vec::new(),
            Value::Array(items) => items,
            other => {
                return Err(malformed(format!(
                    "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                    json_type(&other)
                )));
            }
        };
        if items.len() > OPERATIONS_MAX {
            return Err(PatchError::TooLarge(format!(
                "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
                items.len()
            )));
        }
        let mut operations = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let fields = match item {
                Value::Null => Map::new(),
                Value::Object(fields) => fields,
                other => {
                    return Err(malformed(format!(
                        "json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
                        json_type(&other)
                    )));
                }
            };
            operations.push(Operation::read(fields, index, &mut strict_errors).map_err(malformed)?);
        }
        Ok(Self { operations, strict_errors })
    }

    /// The document with every operation applied, or an error and no document.
    ///
    /// # Errors
    /// When an operation does not apply, a `test` fails, copies grow beyond
    /// [`COPY_BYTES_MAX`], the document would nest deeper than `limits` allow, or there is more
    /// to do than [`STEPS_MAX`].
    pub fn apply(&self, document: Value, limits: Limits) -> Result<Value, PatchError> {
        self.apply_within(document, limits, STEPS_MAX)
    }

    fn apply_within(
        &self,
        document: Value,
        limits: Limits,
        steps_max: usize,
    ) -> Result<Value, PatchError> {
        let depth_max = depth(&document);
        let mut work = Work { document, depth_max, copied_bytes: 0, steps: 0, limits };
        for (index, operation) in self.operations.iter().enumerate() {
            work.apply(operation).map_err(PatchError::Unprocessable)?;
            if work.steps > steps_max {
                return Err(PatchError::TooLarge(format!(
                    "The operations of the JSON patch up to [{index}] move more than {steps_max} values: split the patch, or move smaller values"
                )));
            }
        }
        Ok(work.document)
    }
}

impl Operation {
    fn read(
        fields: Map<String, Value>,
        index: usize,
        strict_errors: &mut Vec<String>,
    ) -> Result<Self, String> {
        let mut operation = Self { kind: None, path: None, from: None, value: None };
        for (name, field) in fields {
            let text = match name.as_str() {
                "op" => &mut operation.kind,
                "path" => &mut operation.path,
                "from" => &mut operation.from,
                "value" => {
                    operation.value = Some(field);
                    continue;
                }
                _ => {
                    let path = crate::json::quoted(&format!("[{index}].{name}"));
                    strict_errors.push(format!("json patch unknown field {path}"));
                    continue;
                }
            };
            *text = match field {
                Value::Null => None,
                Value::String(field) => Some(field),
                other => {
                    return Err(format!(
                        "json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type string",
                        json_type(&other)
                    ));
                }
            };
        }
        Ok(operation)
    }

    fn path(&self) -> Result<&str, &'static str> {
        self.path.as_deref().ok_or("operation missing path field: missing value")
    }

    fn from(&self) -> Result<&str, &'static str> {
        self.from.as_deref().ok_or("operation, missing from field: missing value")
    }
}

struct Work {
    document: Value,
    /// The document nests no deeper than this: enough to know, for most operations, that they
    /// keep to the limit without a walk over what they move.
    depth_max: usize,
    copied_bytes: usize,
    /// Values walked over and shifted so far.
    steps: usize,
    limits: Limits,
}

/// What an operation points at: a container in the document and a key in it.
struct Target<'a> {
    container: &'a mut Value,
    key: String,
    level: usize,
}

impl Work {
    fn apply(&mut self, operation: &Operation) -> Result<(), String> {
        match operation.kind.as_deref() {
            Some("add") => self.add(operation),
            Some("remove") => self.remove(operation),
            Some("replace") => self.replace(operation),
            Some("move") => self.relocate(operation),
            Some("test") => self.test(operation),
            Some("copy") => self.copy(operation),
            kind => Err(format!("Unexpected kind: {}", kind.unwrap_or("unknown"))),
        }
    }

    fn add(&mut self, operation: &Operation) -> Result<(), String> {
        let path = operation
            .path()
            .map_err(|_| "add operation failed to decode path: missing value".to_owned())?;
        let value = operation.value.clone().unwrap_or_default();
        let limits = self.limits;
        let target = self.find(path).ok_or_else(|| {
            format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
        })?;
        let reach = target.level + depth(&value);
        let shifted = target
            .add(value, reach, limits)
            .map_err(|error| format!("error in add for path: '{path}': {error}"))?;
        self.note(reach, shifted);
        Ok(())
    }

    /// Keeps account of an operation after which something is nested `reach` deep.
    fn note(&mut self, reach: usize, shifted: usize) {
        self.depth_max = self.depth_max.max(reach);
        self.steps += shifted / SHIFTED_PER_STEP;
    }

    fn remove(&mut self, operation: &Operation) -> Result<(), String> {
        let path = operation
            .path()
            .map_err(|_| "remove operation failed to decode path: missing value".to_owned())?;
        let target = self.find(path).ok_or_else(|| {
            format!(
                "remove operation does not apply: doc is missing path: \"{path}\": missing value"
            )
        })?;
        let (_, shifted) = target
            .remove()
            .map_err(|error| format!("error in remove for path: '{path}': {error}"))?;
        self.note(0, shifted);
        Ok(())
    }

    fn replace(&mut self, operation: &Operation) -> Result<(), String> {
        let path = operation
            .path()
            .map_err(|error| format!("replace operation failed to decode path: {error}"))?;
        let value = operation.value.clone().unwrap_or_default();
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                return Err("replace operation value must be object or array".to_owned());
            }
            self.depth_max = depth(&value);
            self.document = value;
            return Ok(());
        }
        let limits = self.limits;
        let target = self.find(path).ok_or_else(|| {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        })?;
        let reach = target.level + depth(&value);
        check_depth(reach, limits)?;
        match target.container {
            Value::Object(fields) => {
                fields.insert(target.key, value);
            }
            Value::Array(items) => {
                let index = index_of(&target.key, items.len()).map_err(|_| {
                    format!("replace operation does not apply: doc is missing key: {path}: missing value")
                })?;
                items[index] = value;
            }
            _ => {}
        }
        self.note(reach, 0);
        Ok(())
    }

    fn relocate(&mut self, operation: &Operation) -> Result<(), String> {
        let from = operation
            .from()
            .map_err(|error| format!("move operation failed to decode from: {error}"))?;
        let source = self.find(from).ok_or_else(|| {
            format!(
                "move operation does not apply: doc is missing from path: {from}: missing value"
            )
        })?;
        let (key, level) = (source.key.clone(), source.level);
        let (value, shifted) =
            source.remove().map_err(|error| format!("error in move for path: '{key}': {error}"))?;
        self.note(0, shifted);
        let path = operation
            .path()
            .map_err(|error| format!("move operation failed to decode path: {error}"))?;
        // What was held at this level nests at most as deep as the document went below it.
        let most = self.depth_max.saturating_sub(level);
        let limits = self.limits;
        let target = self.find(path).ok_or_else(|| {
            format!(
                "move operation does not apply: doc is missing destination path: {path}: missing value"
            )
        })?;
        let doubtful = target.level + most > limits.depth_max;
        let mut walked = 0;
        let depth = if doubtful { depth_counted(&value, &mut walked) } else { most };
        let reach = target.level + depth;
        let shifted = target
            .add(value, reach, limits)
            .map_err(|error| format!("error in move for path: '{path}': {error}"))?;
        self.note(reach, shifted);
        if doubtful {
            self.depth_max = depth_counted(&self.document, &mut walked);
        }
        self.steps += walked;
        Ok(())
    }

    fn test(&mut self, operation: &Operation) -> Result<(), String> {
        let path = operation
            .path()
            .map_err(|error| format!("test operation failed to decode path: {error}"))?;
        let failed = || format!("testing value {path} failed: test failed");
        let wanted = operation.value.as_ref().unwrap_or(&Value::Null);
        if path.is_empty() {
            return if &self.document == wanted { Ok(()) } else { Err(failed()) };
        }
        let target = self.find(path).ok_or_else(|| {
            format!("test operation does not apply: is missing path: {path}: missing value")
        })?;
        let found =
            target.get().map_err(|error| format!("error in test for path: '{path}': {error}"))?;
        // A missing field equals null; a missing `value` equals nothing but that.
        if found == wanted { Ok(()) } else { Err(failed()) }
    }

    fn copy(&mut self, operation: &Operation) -> Result<(), String> {
        let from = operation
            .from()
            .map_err(|error| format!("copy operation failed to decode from: {error}"))?;
        let source = self.find(from).ok_or_else(|| {
            format!(
                "copy operation does not apply: doc is missing from path: {from}: missing value"
            )
        })?;
        let value = source
            .get()
            .map_err(|error| format!("error in copy for from: '{from}': {error}"))?
            .clone();
        let path = operation
            .path()
            .map_err(|_| "copy operation failed to decode path: missing value".to_owned())?;
        let (limits, copied_bytes) = (self.limits, self.copied_bytes + encode(&value).len());
        let target = self.find(path).ok_or_else(|| {
            format!(
                "copy operation does not apply: doc is missing destination path: {path}: missing value"
            )
        })?;
        if copied_bytes > COPY_BYTES_MAX {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied_bytes}, exceeding the limit {COPY_BYTES_MAX}"
            ));
        }
        let reach = target.level + depth(&value);
        let shifted = target
            .add(value, reach, limits)
            .map_err(|error| format!("error while adding value during copy: {error}"))?;
        self.note(reach, shifted);
        self.copied_bytes = copied_bytes;
        Ok(())
    }

    /// The container that holds the last part of `path`. As upstream has it, what
    /// stands before the first slash is not looked at.
    fn find(&mut self, path: &str) -> Option<Target<'_>> {
        let mut parts = path.split('/');
        parts.next()?;
        let mut key = unescape(parts.next()?);
        let mut container = &mut self.document;
        let mut level = 1;
        for part in parts {
            container = match container {
                Value::Object(fields) => fields.get_mut(&key)?,
                Value::Array(items) => {
                    let index = index_of(&key, items.len()).ok()?;
                    &mut items[index]
                }
                _ => return None,
            };
            key = unescape(part);
            level += 1;
        }
        (container.is_object() || container.is_array()).then_some(Target { container, key, level })
    }
}

static NULL: Value = Value::Null;

impl Target<'_> {
    /// What the key holds; null where an object has no such field.
    fn get(&self) -> Result<&Value, String> {
        match &*self.container {
            Value::Array(items) => Ok(&items[index_of(&self.key, items.len())?]),
            other => Ok(other.get(&self.key).unwrap_or(&NULL)),
        }
    }

    /// Puts a value here that makes the document `reach` deep, and says how many elements had
    /// to be shifted for it.
    fn add(self, value: Value, reach: usize, limits: Limits) -> Result<usize, String> {
        check_depth(reach, limits)?;
        match self.container {
            Value::Array(items) if self.key == "-" => items.push(value),
            Value::Array(items) => {
                let index = add_index(&self.key, items.len())?;
                items.insert(index, value);
                return Ok(items.len() - index);
            }
            Value::Object(fields) => {
                fields.insert(self.key, value);
            }
            _ => {}
        }
        Ok(0)
    }

    /// Takes the value away, and says how many elements had to be shifted for it.
    fn remove(self) -> Result<(Value, usize), String> {
        match self.container {
            Value::Array(items) => {
                let index = index_of(&self.key, items.len())?;
                Ok((items.remove(index), items.len() - index))
            }
            Value::Object(fields) => {
                let removed = fields.remove(&self.key).ok_or_else(|| {
                    format!("Unable to remove nonexistent key: {}: missing value", self.key)
                })?;
                Ok((removed, 0))
            }
            _ => Ok((Value::Null, 0)),
        }
    }
}

/// Operations can build what no body could carry: each may nest the last's result.
fn check_depth(reach: usize, limits: Limits) -> Result<(), String> {
    if reach > limits.depth_max {
        return Err(format!(
            "exceeded max depth: lists and maps may nest at most {} deep, flatten the document",
            limits.depth_max
        ));
    }
    Ok(())
}

/// `~1` is a slash and `~0` a tilde, read from left to right once.
fn unescape(part: &str) -> String {
    let mut parts = part.split('~');
    let mut key = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if let Some(rest) = part.strip_prefix('1') {
            key.push('/');
            key.push_str(rest);
        } else if let Some(rest) = part.strip_prefix('0') {
            key.push('~');
            key.push_str(rest);
        } else {
            key.push('~');
            key.push_str(part);
        }
    }
    key
}

/// The element of a list of `len` that `key` names; negative counts from the end.
fn index_of(key: &str, len: usize) -> Result<usize, String> {
    in_range(atoi(key)?, len, len)
}

/// Where in a list of `len` an element is inserted: one past the end is allowed.
fn add_index(key: &str, len: usize) -> Result<usize, String> {
    let index = atoi(key)
        .map_err(|error| format!("value was not a proper array index: '{key}': {error}"))?;
    in_range(index, len + 1, len + 1)
}

fn in_range(index: i64, end: usize, len: usize) -> Result<usize, String> {
    let from_start = if index < 0 { index + i64::try_from(len).unwrap_or(i64::MAX) } else { index };
    usize::try_from(from_start)
        .ok()
        .filter(|&index| index < end)
        .ok_or_else(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}

fn atoi(text: &str) -> Result<i64, String> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    text.parse::<i64>().map_err(|error| {
        let problem = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.Atoi: parsing {}: {problem}", crate::json::quoted(text))
    })
}

#[cfg(test)]
mod tests;
