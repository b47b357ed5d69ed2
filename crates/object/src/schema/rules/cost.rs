//! How much running a rule can cost at most, told before it runs.
//!
//! The interpreter cannot be stopped in the middle, so nothing is run whose bound is above
//! what is left of the budget. The bound follows the expression over the extent of the values
//! it works on: a loop costs its body for each element of the longest list there is, joining
//! and comparing cost what is joined and compared.

use std::collections::BTreeMap;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use serde_json::Value;

use super::super::node::{Arena, Id};
use super::super::pattern::Patterns;
use super::super::typing;

/// What all rules of one object may cost together, as in kube-apiserver: about a second.
pub(super) const BUDGET: u64 = 10_000_000;

/// Bytes of text that cost as much as one value.
const TEXT_BYTES_PER_STEP: usize = 10;

/// What a regular expression costs before it has read anything.
const PATTERN_STEPS: u64 = 200;

/// What it costs at most: also one that the object brings along, of which nothing is known.
const PATTERN_STEPS_MAX: u64 = 200_000;

/// How many bytes of an expression cost one step: it is made anew for every match.
const PATTERN_BYTES_PER_STEP: usize = 20;

/// What the patterns that an expression states cost.
pub(super) type PatternCosts = BTreeMap<Box<str>, u64>;

/// Looks through `expression` for patterns and works out what each costs.
pub(super) fn pattern_costs(
    expression: &IdedExpr,
    patterns: &mut Patterns,
    costs: &mut PatternCosts,
) {
    if let Expr::Call(call) = &expression.expr
        && let Some(source) = stated_pattern(call)
        && !costs.contains_key(source)
    {
        let steps = patterns.size(source).map(|bytes| (bytes / PATTERN_BYTES_PER_STEP) as u64);
        let steps = steps.unwrap_or(PATTERN_STEPS_MAX).clamp(PATTERN_STEPS, PATTERN_STEPS_MAX);
        costs.insert(source.into(), steps);
    }
    for child in typing::children(expression) {
        pattern_costs(child, patterns, costs);
    }
}

/// The pattern of a match, where it is written out.
fn stated_pattern(call: &CallExpr) -> Option<&str> {
    match &call.args.last()?.expr {
        Expr::Literal(LiteralValue::String(text)) if call.func_name == "matches" => {
            Some(text.inner())
        }
        _ => None,
    }
}

/// How large a value is, at most.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// All values in it, and its texts.
    size: u64,
    /// Elements of the longest list or map in it, itself included.
    longest: u64,
    /// The size of the largest element of a list or map in it.
    element: u64,
}

impl Extent {
    pub(super) const ONE: Self = Self { size: 1, longest: 1, element: 1 };

    fn text(text: &str) -> Self {
        let size = 1 + (text.len() / TEXT_BYTES_PER_STEP) as u64;
        Self { size, ..Self::ONE }
    }

    /// The extent of a value that the schema `id` describes.
    pub(super) fn of(arena: &Arena, id: Id, value: &Value) -> Self {
        let data = arena.at(id);
        let mut whole = Self::ONE;
        match value {
            Value::String(text) => return Self::text(text),
            Value::Array(list) => {
                let Some(items) = data.items else { return whole };
                for child in list {
                    whole.hold(Self::of(arena, items, child), true);
                }
                whole.longest = whole.longest.max(list.len() as u64);
            }
            Value::Object(map) => {
                for (key, child) in map {
                    let id = data.field(key).or_else(|| data.value_id());
                    let Some(id) = id else { continue };
                    whole.size = whole.size.saturating_add(Self::text(key).size);
                    whole.hold(Self::of(arena, id, child), data.field(key).is_none());
                }
                if data.value_id().is_some() {
                    whole.longest = whole.longest.max(map.len() as u64);
                }
            }
            _ => {}
        }
        whole
    }

    /// What it costs to make a value of this extent into one that rules read. Rules at every
    /// level of a document would else convert it once for each.
    pub(super) fn converted(self) -> u64 {
        self.size
    }

    fn hold(&mut self, child: Self, is_element: bool) {
        self.size = self.size.saturating_add(child.size);
        self.longest = self.longest.max(child.longest);
        let element = if is_element { child.size.max(child.element) } else { child.element };
        self.element = self.element.max(element);
    }

    fn or(self, other: Self) -> Self {
        Self {
            size: self.size.max(other.size),
            longest: self.longest.max(other.longest),
            element: self.element.max(other.element),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            size: self.size.saturating_add(other.size),
            longest: self.longest.saturating_add(other.longest),
            element: self.element.max(other.element),
        }
    }

    /// One element of it.
    fn inner(self) -> Self {
        Self { size: self.element, longest: self.longest.min(self.element), ..self }
    }
}

/// The most that evaluating `expression` can cost, over a `self` of extent `this` and an
/// `oldSelf` of extent `before`.
pub(super) fn bound(
    expression: &IdedExpr,
    patterns: &PatternCosts,
    this: Extent,
    before: Extent,
) -> u64 {
    let mut estimate = Estimate { steps: 0, times: 1, names: BTreeMap::new(), patterns };
    estimate.names.insert("self", this);
    estimate.names.insert("oldSelf", before);
    estimate.visit(expression);
    estimate.steps
}

struct Estimate<'e> {
    steps: u64,
    /// How often the place we are at is evaluated.
    times: u64,
    names: BTreeMap<&'e str, Extent>,
    patterns: &'e PatternCosts,
}

impl<'e> Estimate<'e> {
    fn spend(&mut self, steps: u64) {
        self.steps = self.steps.saturating_add(self.times.saturating_mul(steps));
    }

    fn visit(&mut self, at: &'e IdedExpr) -> Extent {
        self.spend(1);
        match &at.expr {
            Expr::Unspecified => Extent::ONE,
            Expr::Literal(LiteralValue::String(text)) => Extent::text(text.inner()),
            Expr::Literal(_) => Extent::ONE,
            Expr::Ident(name) => self.names.get(name.as_str()).copied().unwrap_or(Extent::ONE),
            Expr::Select(select) => self.visit(&select.operand),
            Expr::List(list) => {
                let mut whole = Extent::ONE;
                for element in &list.elements {
                    whole.hold(self.visit(element), true);
                }
                whole.longest = whole.longest.max(list.elements.len() as u64);
                whole
            }
            Expr::Map(map) => self.entries(map.entries.iter().map(|entry| &entry.expr)),
            Expr::Struct(whole) => self.entries(whole.entries.iter().map(|entry| &entry.expr)),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(every) => self.comprehension(every),
        }
    }

    fn entries(&mut self, entries: impl Iterator<Item = &'e EntryExpr>) -> Extent {
        let (mut whole, mut count) = (Extent::ONE, 0);
        for entry in entries {
            count += 1;
            let value = match entry {
                EntryExpr::StructField(field) => &field.value,
                EntryExpr::MapEntry(entry) => {
                    whole.hold(self.visit(&entry.key), true);
                    &entry.value
                }
            };
            whole.hold(self.visit(value), true);
        }
        whole.longest = whole.longest.max(count);
        whole
    }

    fn call(&mut self, call: &'e CallExpr) -> Extent {
        let operands = call.target.as_deref().into_iter().chain(&call.args);
        let operands: Vec<Extent> = operands.map(|operand| self.visit(operand)).collect();
        let sizes = || operands.iter().map(|operand| operand.size);
        let whole = operands.iter().copied().reduce(Extent::or).unwrap_or(Extent::ONE);
        match call.func_name.as_str() {
            "_+_" => {
                self.spend(sizes().fold(0, u64::saturating_add));
                operands.iter().copied().reduce(Extent::and).unwrap_or(Extent::ONE)
            }
            // Equal values have equal sizes, so no more than the smaller is looked at.
            "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => {
                self.spend(sizes().min().unwrap_or_default());
                Extent::ONE
            }
            "_[_]" => operands.first().copied().unwrap_or(Extent::ONE).inner(),
            "_?_:_" => whole,
            "_&&_" | "_||_" | "!_" | "size" => Extent::ONE,
            "matches" => {
                let stated = stated_pattern(call).and_then(|source| self.patterns.get(source));
                let steps = stated.copied().unwrap_or(PATTERN_STEPS_MAX);
                self.spend(sizes().fold(steps, u64::saturating_add));
                Extent::ONE
            }
            // What else there is reads its operands once.
            _ => {
                self.spend(sizes().fold(0, u64::saturating_add));
                whole
            }
        }
    }

    fn comprehension(&mut self, every: &'e ComprehensionExpr) -> Extent {
        let range = self.visit(&every.iter_range);
        let first = self.visit(&every.accu_init);
        let outside = (self.times, self.names.clone());
        self.times = self.times.saturating_mul(range.longest);
        self.names.insert(&every.iter_var, range.inner());
        if let Some(second) = &every.iter_var2 {
            self.names.insert(second, range.inner());
        }
        // The interpreter appends to what is gathered without copying it.
        self.names.insert(&every.accu_var, Extent::ONE);
        self.visit(&every.loop_cond);
        let step = self.visit(&every.loop_step);
        (self.times, self.names) = outside;
        let gathered = Extent {
            size: step.size.saturating_mul(range.longest),
            longest: range.longest.max(step.longest),
            element: step.size.max(step.element),
        };
        let kept = self.names.insert(&every.accu_var, first.or(gathered));
        let result = self.visit(&every.result);
        match kept {
            Some(kept) => self.names.insert(&every.accu_var, kept),
            None => self.names.remove(every.accu_var.as_str()),
        };
        result
    }
}
