//! Running rules over a value.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use cel::{Context, ExecutionError, Program, Value as Cel};
use serde_json::{Map, Value};

use super::super::format::{self, TextFormat};
use super::super::lists::Elements;
use super::super::node::{Arena, Data, Id, Kind, Schema};
use super::super::trail::Trail;
use super::super::typing::escape;
use super::cost::{self, Extent};
use super::{ENV, Rule};
use crate::field::{Error, Errors, Fault, Gathered, Path};

/// A message longer than this, made by an expression, is not used.
const MESSAGE_MAX: usize = 5 * 1024;

/// What kube-apiserver says when rules cost too much.
const OUT_OF_BUDGET: &str = "validation failed due to running out of cost budget, no further \
                             validation rules will be run";

/// The stack on which rules run that nest deeply.
const EVALUATION_STACK_BYTES: usize = 64 << 20;

/// The faults that the rules of `schema` find in `value`. Rules that compare with
/// the past run only where there is an `old` value; where `ratchet` is set, other
/// rules do not refuse what has not changed.
pub(in super::super) fn run(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    base: &Path,
    ratchet: bool,
) -> Errors {
    let walk = || {
        let mut walk = Walk {
            arena: &schema.arena,
            base,
            errors: Gathered::default(),
            budget: Some(cost::BUDGET),
            compared: BTreeMap::new(),
        };
        let past = Past { current: old.filter(|_| ratchet), parent: None };
        walk.node(schema.root, value, old, past, &Trail::ROOT);
        walk.errors.into_list()
    };
    if !schema.data().below.deep_rules {
        return walk();
    }
    on_a_deep_stack(walk).unwrap_or_else(|| {
        let why = "rules that nest deeply could not be run on a stack of their own";
        vec![Error::invalid(base, type_name(schema.data().kind), why)]
    })
}

/// Runs all rules of a value on one thread that has room for them.
fn on_a_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    #[cfg(test)]
    tests::STACKS.with(|stacks| stacks.set(stacks.get() + 1));
    std::thread::scope(|scope| {
        let apart = std::thread::Builder::new().stack_size(EVALUATION_STACK_BYTES);
        apart.spawn_scoped(scope, work).ok()?.join().ok()
    })
}

/// What a value is compared with to see whether it changed.
#[derive(Clone, Copy, Default)]
struct Past<'v> {
    current: Option<&'v Value>,
    /// The nearest value above that has a counterpart, with it.
    parent: Option<(&'v Value, &'v Value)>,
}

impl<'v> Past<'v> {
    /// The two values that are equal where `value` has not changed.
    fn pair(self, value: &'v Value) -> Option<(&'v Value, &'v Value)> {
        self.current.map(|old| (value, old)).or(self.parent)
    }

    fn below(self, value: &'v Value, child: impl FnOnce(&'v Value) -> Option<&'v Value>) -> Self {
        match self.current {
            None => self,
            Some(old) => Self { current: child(old), parent: Some((value, old)) },
        }
    }
}

struct Walk<'a> {
    arena: &'a Arena,
    base: &'a Path,
    errors: Gathered,
    /// What rules may still cost; none once a rule could not be afforded.
    budget: Option<u64>,
    /// Which values were found equal, by where both are: each element of a list may ask for
    /// the whole list.
    compared: BTreeMap<(usize, usize), bool>,
}

impl Walk<'_> {
    fn node<'v>(
        &mut self,
        id: Id,
        value: &'v Value,
        old: Option<&'v Value>,
        past: Past<'v>,
        trail: &Trail<'_>,
    ) {
        let data = self.arena.at(id);
        if self.budget.is_none()
            || self.errors.is_full()
            || !data.below.rules
            || value.is_null()
            || trail.too_deep()
        {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        if !data.rules.is_empty() {
            self.rules(id, data, value, old, past, trail);
        }
        match value {
            Value::Object(map) => {
                for (key, child) in map {
                    let child_old = old.and_then(|old| old.get(key));
                    let type_meta = trail.is_root() && matches!(&**key, "apiVersion" | "kind");
                    let past = if type_meta {
                        Past::default()
                    } else {
                        past.below(value, |old| old.get(key))
                    };
                    if let Some(id) = data.field(key) {
                        self.node(id, child, child_old, past, &trail.field(key));
                    } else if let Some(id) = data.value_id() {
                        self.node(id, child, child_old, past, &trail.key(key));
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = data.items else { return };
                let before = old.and_then(|old| Elements::of(data, old));
                let compared = past.current.and_then(|old| Elements::of(data, old));
                let same = |before: &Option<Elements<'_, 'v>>, child: &Value| {
                    before.as_ref().and_then(|before| before.counterpart(child))
                };
                for (index, child) in list.iter().enumerate() {
                    let child_old = same(&before, child);
                    let past = past.below(value, |_| same(&compared, child));
                    self.node(items, child, child_old, past, &trail.index(index));
                }
            }
            _ => {}
        }
    }

    fn rules<'v>(
        &mut self,
        id: Id,
        data: &Data,
        value: &'v Value,
        old: Option<&'v Value>,
        past: Past<'v>,
        trail: &Trail<'_>,
    ) {
        let extent = |value: &Value| Extent::of(self.arena, id, value);
        let (now, then) = (extent(value), old.map_or(Extent::ONE, extent));
        if !self.spend(now.converted().saturating_add(then.converted())) {
            self.out_of_budget(data, trail);
            return;
        }
        let convert = Convert { arena: self.arena };
        let Some(this) = convert.node(id, value, None, 0) else { return };
        let uses_old = data.rules.iter().any(|rule| rule.uses_old);
        let before = old.filter(|_| uses_old).and_then(|old| convert.node(id, old, Some(value), 0));
        let mut context = Context::with_env(Arc::clone(&ENV));
        context.add_variable_from_value("self", this);
        let has_old = before.is_some();
        if let Some(before) = before {
            context.add_variable_from_value("oldSelf", before);
        }
        for rule in data.rules.iter().filter(|rule| has_old || !rule.uses_old) {
            if self.errors.is_full() {
                return;
            }
            if !self.afford(rule, &now, &then) {
                self.out_of_budget(data, trail);
                return;
            }
            let failed = match rule.program.execute(&context) {
                Ok(Cel::Bool(true)) => continue,
                Ok(_) => Ok(message(rule, &context)),
                Err(error) => Err(error),
            };
            match failed {
                Err(error) => {
                    let (path, kind) = (trail.path(self.base), type_name(data.kind));
                    self.errors.push(Error::invalid(&path, kind, evaluation_fault(rule, &error)));
                }
                Ok(_) if !rule.uses_old && self.unchanged(past.pair(value)) => {}
                Ok(message) => {
                    let path = trail.path(self.base);
                    self.errors.push(failure(rule, data, value, path, message));
                }
            }
        }
    }
}

impl Walk<'_> {
    /// Takes what the rule can cost from the budget, or ends all rules.
    fn afford(&mut self, rule: &Rule, now: &Extent, then: &Extent) -> bool {
        let programs = [Some(&rule.program), rule.message_program.as_ref()];
        let costs = programs.into_iter().flatten();
        let cost = costs.map(|program| cost::bound(program.expression(), &rule.costs, now, then));
        self.spend(cost.fold(0, u64::saturating_add))
    }

    fn spend(&mut self, cost: u64) -> bool {
        self.budget = self.budget.and_then(|left| left.checked_sub(cost));
        self.budget.is_some()
    }

    fn out_of_budget(&mut self, data: &Data, trail: &Trail<'_>) {
        let path = trail.path(self.base);
        self.errors.push(Error::invalid(&path, type_name(data.kind), OUT_OF_BUDGET));
    }

    fn unchanged(&mut self, pair: Option<(&Value, &Value)>) -> bool {
        let Some((value, old)) = pair else { return false };
        let places = (std::ptr::from_ref(value).addr(), std::ptr::from_ref(old).addr());
        *self.compared.entry(places).or_insert_with(|| {
            #[cfg(test)]
            crate::work::note();
            value == old
        })
    }
}

fn failure(rule: &Rule, data: &Data, value: &Value, path: Path, detail: String) -> Error {
    let path = match &rule.field_path {
        Some(below) => path.child(below),
        None => path,
    };
    let whole = matches!(data.kind, Kind::Object | Kind::Array);
    let value = match rule.fault {
        Fault::Forbidden | Fault::Required => None,
        _ if whole => None,
        _ => Some(value.clone()),
    };
    let detail = if rule.fault == Fault::Duplicate { String::new() } else { detail };
    Error { path, fault: rule.fault, value, detail }
}

/// The message of a broken rule: its expression's, if that yields one line of text,
/// or the one that is written, or the rule itself.
fn message(rule: &Rule, context: &Context<'_, '_>) -> String {
    let made = rule.message_program.as_ref().and_then(|program| match program.execute(context) {
        Ok(Cel::String(text)) => Some(text.trim().to_owned()),
        _ => None,
    });
    let usable =
        |text: &String| !text.is_empty() && text.len() <= MESSAGE_MAX && !text.contains('\n');
    made.filter(usable).unwrap_or_else(|| {
        if rule.message.is_empty() {
            format!("failed rule: {}", rule.title())
        } else {
            rule.title().to_owned()
        }
    })
}

fn evaluation_fault(rule: &Rule, error: &ExecutionError) -> String {
    let title = rule.title();
    let why = match error {
        ExecutionError::NoSuchOverload(_)
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedBinaryOperator(..) => {
            return format!(
                "'no such overload': call arguments did not match a supported operator, function \
                 or macro signature for rule: {title}"
            );
        }
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Cel::Int(index)) => {
            format!("index out of bounds: {index}")
        }
        other => other.to_string(),
    };
    format!("{why} evaluating rule: {title}")
}

fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Integer => "integer",
        Kind::Number => "number",
        Kind::Boolean => "boolean",
        _ => "",
    }
}

/// JSON becomes CEL by the type that the schema states, because the rules were
/// written against those: an integer is an `int`, a number a `double`, an absent field
/// is absent, and what no schema describes is not there.
struct Convert<'a> {
    arena: &'a Arena,
}

impl Convert<'_> {
    /// The value; `like` is the newer one, by which the elements of sets and maps are
    /// put in order, since those compare equal in any order.
    fn node(&self, id: Id, value: &Value, like: Option<&Value>, depth: usize) -> Option<Cel> {
        if depth >= super::super::DEPTH_MAX {
            return None;
        }
        let data = self.arena.at(id);
        Some(match (data.kind, value) {
            (_, Value::Null) => return data.nullable.then_some(Cel::Null),
            (Kind::IntOrString | Kind::Integer, Value::Number(number)) => {
                Cel::Int(number.as_i64().or_else(|| whole(number.as_f64()?))?)
            }
            (Kind::Number, Value::Number(number)) => Cel::Float(number.as_f64()?),
            (Kind::Boolean, Value::Bool(flag)) => Cel::Bool(*flag),
            (Kind::IntOrString, Value::String(text)) => Cel::from(text.as_str()),
            (Kind::String, Value::String(text)) => scalar(data.text_format, text),
            (Kind::Array, Value::Array(list)) => self.list(data, list, like, depth)?,
            (Kind::Object, Value::Object(map)) => self.object(data, map, like, depth),
            _ => return None,
        })
    }

    fn list(&self, data: &Data, list: &[Value], like: Option<&Value>, depth: usize) -> Option<Cel> {
        let items = data.items?;
        let mut order: Vec<&Value> = list.iter().collect();
        let like = like.and_then(|like| Elements::of(data, like));
        if let Some(like) = &like {
            order.sort_by_cached_key(|value| like.place(value).unwrap_or(usize::MAX));
        }
        let convert = |value: &Value| {
            let like = like.as_ref().and_then(|like| like.counterpart(value));
            self.node(items, value, like, depth + 1)
        };
        Some(Cel::List(Arc::new(order.into_iter().filter_map(convert).collect())))
    }

    fn object(
        &self,
        data: &Data,
        map: &Map<String, Value>,
        like: Option<&Value>,
        depth: usize,
    ) -> Cel {
        let text = |name: &str| map.get(name).and_then(Value::as_str).map(Cel::from);
        let mut entries: Vec<(String, Cel)> = Vec::new();
        for (key, value) in map {
            let like = like.and_then(|like| like.get(key));
            let (id, name) = match (data.field(key), data.value_id()) {
                (Some(id), _) => (id, escape(key)),
                (None, Some(id)) => (id, Some(key.clone())),
                (None, None) => continue,
            };
            if let Some(name) = name
                && let Some(value) = self.node(id, value, like, depth + 1)
            {
                entries.push((name, value));
            }
        }
        if data.embedded {
            for name in ["apiVersion", "kind"] {
                entries.extend(text(name).map(|text| (name.to_owned(), text)));
            }
            let metadata = map.get("metadata");
            let part = |name: &str| metadata?.get(name)?.as_str().map(Cel::from);
            let parts = ["name", "generateName"]
                .into_iter()
                .filter_map(|name| Some((name.into(), part(name)?)));
            let whole = cel::objects::Map { map: Arc::new(parts.collect()) };
            if metadata.is_some() {
                entries.push(("metadata".to_owned(), Cel::Map(whole)));
            }
        }
        let map = entries.into_iter().map(|(key, value)| (key.into(), value)).collect();
        Cel::Map(cel::objects::Map { map: Arc::new(map) })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

/// A text by its format: times and durations are values of their own in CEL.
fn scalar(format: Option<TextFormat>, text: &str) -> Cel {
    static TIMESTAMP: LazyLock<Option<Program>> =
        LazyLock::new(|| ENV.compile("timestamp(text)").ok());
    static DURATION: LazyLock<Option<Program>> =
        LazyLock::new(|| ENV.compile("duration(text)").ok());
    let read = |program: &Option<Program>, text: &str| {
        let mut context = Context::with_env(Arc::clone(&ENV));
        context.add_variable_from_value("text", text);
        program.as_ref()?.execute(&context).ok()
    };
    let value = match format {
        Some(TextFormat::DateTime) => read(&TIMESTAMP, text),
        Some(TextFormat::Date) => read(&TIMESTAMP, &format!("{text}T00:00:00Z")),
        Some(TextFormat::Duration) => {
            format::nanoseconds(text).and_then(|nanos| read(&DURATION, &format!("{nanos}ns")))
        }
        Some(TextFormat::Byte) => base64(text).map(Cel::from),
        _ => None,
    };
    value.unwrap_or_else(|| Cel::from(text))
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut buffer, mut bits) = (0u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        buffer = buffer << 6 | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(buffer >> bits & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    thread_local! {
        /// How many stacks this thread asked for.
        pub(super) static STACKS: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn however_many_values_have_deep_rules_one_stack_is_made_for_all() {
        let check = |levels: usize, stacks: usize| {
            let rule = format!("{}1{}.size() > 0", "[".repeat(levels), "]".repeat(levels));
            let items = json!({"type": "integer", "x-kubernetes-validations": [{"rule": rule}]});
            let schema = json!({"type": "object", "properties": {"l":
                {"type": "array", "items": items}}});
            let schema = Schema::from_crd(&schema, &Path::root()).unwrap();
            STACKS.set(0);
            let errors = run(&schema, &json!({"l": vec![1; 1_000]}), None, &Path::root(), false);
            assert_eq!(errors, [], "{levels}");
            assert_eq!(STACKS.get(), stacks, "{levels}");
        };
        check(10, 0);
        check(22, 1);
    }
}
