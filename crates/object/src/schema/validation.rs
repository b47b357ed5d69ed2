//! Whether a value keeps to its schema, in the words of kube-openapi's validator.
//!
//! A value that was already there before an update and has not changed is not
//! refused for a rule that was made stricter since.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::node::{Arena, Checks, Data, Id, Kind, Schema, Values};
use super::trail::Trail;
use super::{lists, meta, rules};
use crate::field::{ERRORS_MAX, Error, Errors, Fault, Path, bounded, go_float};
use crate::json::ByValue;

/// All that is wrong with `value`; `old` is what it replaces, if anything.
///
/// Rules are not run where the object has a fault that could mislead them, and the
/// answer then says so. No more is told than [`field::bounded`](crate::field::bounded) tells.
#[must_use]
pub fn validate(schema: &Schema, value: &Value, old: Option<&Value>) -> Errors {
    let base = Path::root();
    let mut errors = values(schema, value, old, &base);
    errors.extend(meta::errors(schema, value, &base, false));
    complete(schema, value, old, errors)
}

/// What visiting values and making errors may cost together: a document of any size against a
/// schema of a few alternatives is far below it, thousands of both are not.
const STEPS_MAX: usize = 10_000_000;

/// What an error costs beside its text, in values visited.
const ERROR_STEPS: usize = 10;

/// All that is wrong with the status of `object`, which replaces that of `old`. As upstream has
/// it, the schema judges the status alone, whose fields the texts name as if it were the whole;
/// unique lists and rules are those of the whole object.
#[must_use]
pub fn validate_status(schema: &Schema, object: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    if let (Some(part), Some(status)) = (schema.part("status"), object.get("status")) {
        errors = values(&part, status, old.get("status"), &Path::root());
        for error in &mut errors {
            error.path = Path::new("status").join(&error.path);
        }
    }
    complete(schema, object, Some(old), errors)
}

/// Adds to the faults of values those of lists and rules.
fn complete(schema: &Schema, value: &Value, old: Option<&Value>, mut errors: Errors) -> Errors {
    let base = Path::root();
    if old.is_none_or(|old| lists::errors(schema, old, &base).is_empty()) {
        errors.extend(lists::errors(schema, value, &base));
    }
    if schema.data().below.rules {
        if errors.iter().any(|error| blocks_rules(error.fault)) {
            let why = "some validation rules were not checked because the object was invalid; \
                       correct the existing errors to complete validation";
            errors.push(Error::invalid(&base, Value::Null, why));
        } else {
            errors.extend(rules::run(schema, value, old, &base, true));
        }
    }
    bounded(&errors).into_owned()
}

fn blocks_rules(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::NotSupported
            | Fault::Required
            | Fault::TooLong
            | Fault::TooMany
            | Fault::TypeInvalid
    )
}

/// The faults that the schema alone finds, at paths below `base`.
pub(super) fn values(schema: &Schema, value: &Value, old: Option<&Value>, base: &Path) -> Errors {
    let mut walk = Walk { arena: &schema.arena, base, errors: Errors::new(), steps: 0 };
    walk.child(schema.root, value, old, &Trail::ROOT);
    if walk.steps > STEPS_MAX {
        let why = "validation costs more than is allowed: the schema has too many alternatives, \
                   choices or required fields for this many values";
        walk.errors.push(Error::invalid(base, "", why));
    }
    let mut errors = walk.errors;
    let mut unique = Errors::new();
    for error in errors.drain(..) {
        if !unique.contains(&error) {
            unique.push(error);
        }
    }
    unique
}

/// A walk over a value. Each visit returns how many checks passed: a choice between
/// alternatives reports the one that came closest.
pub(super) struct Walk<'a> {
    arena: &'a Arena,
    base: &'a Path,
    pub(super) errors: Errors,
    /// What the walk has cost so far.
    steps: usize,
}

impl Walk<'_> {
    /// Visits a value that has an identity of its own: where it has not changed, its
    /// faults are forgiven.
    fn child(&mut self, id: Id, value: &Value, old: Option<&Value>, trail: &Trail<'_>) -> u32 {
        let before = self.errors.len();
        let passed = self.node(id, value, old, trail);
        if self.errors.len() > before && old == Some(value) {
            self.errors.truncate(before);
        }
        passed
    }

    /// Visits a value as the validator of one schema does.
    pub(super) fn node(
        &mut self,
        id: Id,
        value: &Value,
        old: Option<&Value>,
        trail: &Trail<'_>,
    ) -> u32 {
        self.steps += 1;
        if self.is_done() {
            return 0;
        }
        if trail.too_deep() {
            let why = format!("documents may nest at most {} deep", super::DEPTH_MAX);
            self.composite(why);
            return 0;
        }
        let data = self.arena.at(id);
        let checks = data.checks.as_deref();
        if value.is_null() {
            return self.null(data, checks, trail);
        }
        let mut passed = 1;
        if !types(data.kind).is_empty() || data.text_format.is_some() {
            passed += 1 + self.type_of(data, value, trail);
        }
        if let Some(checks) = checks.filter(|checks| checks.has_junctors()) {
            passed += self.junctors(checks, value, old, trail);
        }
        // The junctors and the choice of values count as checks even where unstated.
        passed += 3;
        match value {
            Value::String(text) => passed += self.text(data, checks, text, trail),
            Value::Number(_) => passed += self.number(checks, value, trail),
            Value::Array(list) => passed += self.array(data, checks, list, old, trail),
            Value::Null | Value::Bool(_) | Value::Object(_) => {}
        }
        if let Some(checks) = checks {
            self.choice(checks, value, trail);
        }
        if let Value::Object(map) = value {
            passed += 1 + self.object(data, checks, map, old, trail);
        }
        passed
    }

    /// Whether there is enough to tell, or no more to spend.
    fn is_done(&self) -> bool {
        self.errors.len() > ERRORS_MAX || self.steps > STEPS_MAX
    }

    fn null(&mut self, data: &Data, checks: Option<&Checks>, trail: &Trail<'_>) -> u32 {
        let types = types(data.kind);
        let passed = types.is_empty() || data.nullable;
        if !passed {
            self.wrong_type(types, "null", trail);
        }
        if let Some(checks) = checks {
            self.choice(checks, &Value::Null, trail);
        }
        u32::from(passed)
    }

    /// The type, with the validator's quirk that a text or list where a text format
    /// is stated is left to the format.
    fn type_of(&mut self, data: &Data, value: &Value, trail: &Trail<'_>) -> u32 {
        let wanted = types(data.kind);
        let actual = type_name(value);
        let numeric = wanted.contains("number") || wanted.contains("integer");
        let fits = wanted.split(',').any(|kind| kind == actual)
            || actual == "number" && wanted.contains("integer") && is_whole(value)
            || actual == "integer" && wanted.contains("number");
        if data.text_format.is_some() {
            let textual = matches!(value, Value::String(_) | Value::Array(_));
            if !textual && !fits {
                let width = match actual {
                    "integer" => "int64",
                    "number" => "float64",
                    _ => "",
                };
                let format = data.format.as_deref().unwrap_or_default();
                self.wrong_type(format, width, trail);
                return 0;
            }
            if textual && !numeric {
                return 1;
            }
        }
        if !fits {
            self.wrong_type(wanted, actual, trail);
        }
        u32::from(fits)
    }

    fn text(&mut self, data: &Data, checks: Option<&Checks>, text: &str, trail: &Trail<'_>) -> u32 {
        if let Some(checks) = checks {
            self.text_limits(checks, text, trail);
        }
        let Some(format) = data.text_format else { return 1 };
        if !format.accepts(text) {
            let path = trail.body_path();
            let name = data.format.as_deref().unwrap_or_default();
            let why = format!("{path} in body must be of type {name}: {text:?}");
            self.push(Error::type_invalid(&self.at(&path), text, why));
        }
        2
    }

    /// The first limit that a text breaks; the others are not looked at.
    fn text_limits(&mut self, checks: &Checks, text: &str, trail: &Trail<'_>) {
        let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(most) = checks.max_length
            && length() > most
        {
            let most = usize::try_from(most).unwrap_or_default();
            self.push(Error::too_long(&self.at(&trail.body_path()), most));
        } else if let Some(least) = checks.min_length
            && length() < least
        {
            self.refuse(trail, text.into(), &format!("should be at least {least} chars long"));
        } else if let Some(pattern) = &checks.pattern
            && !pattern.regex.is_match(text)
        {
            self.refuse(trail, text.into(), &format!("should match '{}'", pattern.source));
        }
    }

    fn number(&mut self, checks: Option<&Checks>, value: &Value, trail: &Trail<'_>) -> u32 {
        let Some(checks) = checks else { return 2 };
        if let Some(factor) = nonpositive_factor(checks, value) {
            let path = trail.body_path();
            let shown = shown(&factor);
            let why = format!("factor MultipleOf declared for {path} must be positive: {shown}");
            self.push(Error::invalid(&self.at(&path), shown, why));
        }
        for fault in number_faults(checks, value) {
            self.refuse(trail, shown(value), &fault);
        }
        2
    }

    fn array(
        &mut self,
        data: &Data,
        checks: Option<&Checks>,
        list: &[Value],
        old: Option<&Value>,
        trail: &Trail<'_>,
    ) -> u32 {
        let mut passed = 2;
        if let Some(items) = data.items {
            let before = old.and_then(|old| lists::Elements::of(data, old));
            for (index, value) in list.iter().enumerate() {
                let old = before.as_ref().and_then(|before| before.counterpart(value));
                passed += self.child(items, value, old, &trail.index(index));
            }
        }
        let Some(checks) = checks else { return passed };
        let size = i64::try_from(list.len()).unwrap_or(i64::MAX);
        if let Some(least) = checks.min_items
            && size < least
        {
            self.refuse(trail, size.into(), &format!("should have at least {least} items"));
        }
        if let Some(most) = checks.max_items
            && size > most
        {
            self.too_many(trail, list.len(), most);
        }
        if checks.unique_items && has_duplicates(list) {
            self.refuse(trail, "".into(), "shouldn't contain duplicates");
        }
        passed
    }

    fn object(
        &mut self,
        data: &Data,
        checks: Option<&Checks>,
        map: &Map<String, Value>,
        old: Option<&Value>,
        trail: &Trail<'_>,
    ) -> u32 {
        let mut passed = 0;
        if let Some(checks) = checks {
            self.property_counts(checks, map.len(), trail);
        }
        let old = old.and_then(Value::as_object);
        for (key, value) in map {
            if self.is_done() {
                return passed;
            }
            let old = old.and_then(|old| old.get(key));
            if let Some(id) = data.field(key) {
                let type_meta = trail.is_root() && matches!(key.as_str(), "kind" | "apiVersion");
                let old = if type_meta { None } else { old };
                passed += self.child(id, value, old, &trail.field(key));
            } else {
                match data.values {
                    Values::Of(id) => passed += self.child(id, value, old, &trail.key(key)),
                    Values::Nothing => {
                        let path = trail.body_path();
                        let why = format!("{path}.{key} in body is a forbidden property");
                        self.push(Error::invalid(&self.at(&path), key.as_str(), why));
                    }
                    Values::Unstated | Values::Anything => {}
                }
            }
        }
        for name in checks.iter().flat_map(|checks| checks.required.iter()) {
            self.steps += 1;
            if !map.contains_key(&**name) && !self.is_done() {
                let path = format!("{}.{name}", trail.body_path());
                self.push(Error::required(&self.at(&path), ""));
            }
        }
        passed
    }

    fn property_counts(&mut self, checks: &Checks, count: usize, trail: &Trail<'_>) {
        let size = i64::try_from(count).unwrap_or(i64::MAX);
        if let Some(least) = checks.min_properties
            && size < least
        {
            self.refuse(trail, size.into(), &format!("should have at least {least} properties"));
        }
        if let Some(most) = checks.max_properties
            && size > most
        {
            self.too_many(trail, count, most);
        }
    }

    fn choice(&mut self, checks: &Checks, value: &Value, trail: &Trail<'_>) {
        self.steps += checks.choices.len();
        if checks.choices.is_empty() || checks.choices.iter().any(|choice| chosen(choice, value)) {
            return;
        }
        let names = checks.choices.iter().map(|choice| match choice {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let at = self.at(&trail.body_path());
        self.push(unsupported(&at, shown(value), names));
    }

    fn too_many(&mut self, trail: &Trail<'_>, actual: usize, most: i64) {
        let most = usize::try_from(most).unwrap_or_default();
        self.push(Error::too_many(&self.at(&trail.body_path()), actual, most));
    }

    fn wrong_type(&mut self, wanted: &str, actual: &str, trail: &Trail<'_>) {
        let path = trail.body_path();
        let why = format!("{path} in body must be of type {wanted}: {actual:?}");
        self.push(Error::type_invalid(&self.at(&path), actual, why));
    }

    fn refuse(&mut self, trail: &Trail<'_>, value: Value, why: &str) {
        let path = trail.body_path();
        self.push(Error::invalid(&self.at(&path), value, format!("{path} in body {why}")));
    }

    /// A fault of a whole alternative; it carries no path of its own.
    pub(super) fn composite(&mut self, why: String) {
        self.push(Error::invalid(self.base, "", why));
    }

    fn at(&self, path: &str) -> Path {
        let path = path.strip_prefix('.').unwrap_or(path);
        if path.is_empty() { self.base.clone() } else { self.base.child(path) }
    }

    fn push(&mut self, error: Error) {
        self.steps += ERROR_STEPS + error.bytes();
        self.errors.push(error);
    }
}

/// The types a kind stands for, as the validator names them.
fn types(kind: Kind) -> &'static str {
    match kind {
        Kind::Any | Kind::RawExtension | Kind::Json => "",
        Kind::Object | Kind::FieldsV1 => "object",
        Kind::Array => "array",
        Kind::String | Kind::Time | Kind::MicroTime => "string",
        Kind::Integer => "integer",
        Kind::Number => "number",
        Kind::Boolean => "boolean",
        Kind::IntOrString => "integer,string",
        Kind::Quantity => "number,string",
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        // A number beyond 64 bits is read as a float.
        Value::Number(number) => {
            if number.is_i64() {
                "integer"
            } else {
                "number"
            }
        }
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether a float counts as an integer: nearly whole, and within what a double
/// holds exactly.
fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(nearly_whole)
}

fn nearly_whole(number: f64) -> bool {
    const EXACT_MAX: f64 = 9_007_199_254_740_991.0;
    if !number.is_finite() || number.abs() > EXACT_MAX {
        return false;
    }
    if number == number.trunc() {
        return true;
    }
    // The validator truncates to an unsigned number before it compares.
    let truncated = if number < 0.0 { 0.0 } else { number.trunc() };
    if truncated == 0.0 {
        return false;
    }
    (number - truncated).abs() / (number.abs() + truncated) < 1e-9
}

fn has_duplicates(list: &[Value]) -> bool {
    let mut seen = BTreeSet::new();
    !list.iter().all(|value| seen.insert(ByValue(value)))
}

/// Whether `value` is `choice`, after the conversion between numbers that the
/// validator makes: a float is cut to an integer choice.
fn chosen(choice: &Value, value: &Value) -> bool {
    if value.is_null() {
        return false;
    }
    match (choice, value) {
        (Value::Number(choice), Value::Number(number)) => {
            match (choice.as_i64(), number.as_i64()) {
                (Some(choice), Some(number)) => choice == number,
                (Some(choice), None) => {
                    number.as_f64().is_some_and(|number| go_i64(number) == choice)
                }
                (None, _) => choice.as_f64() == number.as_f64(),
            }
        }
        _ => choice == value,
    }
}

/// A value outside a closed set, whose members are named in the order of the schema.
pub(super) fn unsupported(
    path: &Path,
    value: Value,
    choices: impl Iterator<Item = String>,
) -> Error {
    let quoted: Vec<String> = choices.map(|choice| format!("{choice:?}")).collect();
    let mut error = Error::not_supported(path, value, &[]);
    error.detail = format!("supported values: {}", quoted.join(", "));
    error
}

/// A value as Go holds it: what is beyond 64 bits is a float.
fn shown(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_u64() && !number.is_i64() => number.as_f64().into(),
        _ => value.clone(),
    }
}

/// Go's conversion on amd64: what does not fit becomes the smallest integer.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn go_i64(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// A factor that nothing is a multiple of: for an integer, the factor is cut to one.
fn nonpositive_factor(checks: &Checks, value: &Value) -> Option<Value> {
    let factor = checks.multiple_of?;
    match value.as_i64() {
        Some(_) => (go_i64(factor) <= 0).then(|| go_i64(factor).into()),
        None => (factor <= 0.0).then(|| factor.into()),
    }
}

/// The limits that a number breaks. An integer is compared as an integer.
fn number_faults(checks: &Checks, value: &Value) -> Vec<String> {
    let integer = value.as_i64();
    let float = value.as_f64().unwrap_or_default();
    let limit = |bound: f64| match integer {
        Some(_) => go_i64(bound).to_string(),
        None => go_float(bound),
    };
    let order = |bound: f64| match integer {
        Some(integer) => Some(integer.cmp(&go_i64(bound))),
        None => float.partial_cmp(&bound),
    };
    let mut faults = Vec::new();
    if let Some(factor) = checks.multiple_of
        && nonpositive_factor(checks, value).is_none()
    {
        let multiple = match integer {
            Some(integer) => integer % go_i64(factor) == 0,
            None if factor < 1.0 => nearly_whole(1.0 / factor * float),
            None => nearly_whole(float / factor),
        };
        if !multiple {
            faults.push(format!("should be a multiple of {}", limit(factor)));
        }
    }
    if let Some(least) = checks.minimum {
        let exclusive = checks.exclusive_minimum;
        if order(least).is_some_and(|order| order.is_lt() || exclusive && order.is_eq()) {
            let than = if exclusive { "greater than" } else { "greater than or equal to" };
            faults.push(format!("should be {than} {}", limit(least)));
        }
    }
    if let Some(most) = checks.maximum {
        let exclusive = checks.exclusive_maximum;
        if order(most).is_some_and(|order| order.is_gt() || exclusive && order.is_eq()) {
            let than = if exclusive { "less than" } else { "less than or equal to" };
            faults.push(format!("should be {than} {}", limit(most)));
        }
    }
    faults
}
