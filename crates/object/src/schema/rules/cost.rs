//! How much running a rule can cost at most, told before it runs.
//!
//! The interpreter cannot be stopped in the middle, so nothing is run whose bound is above
//! what is left of the budget. The bound follows the expression over the [`Extent`] of the values
//! it works on: a loop costs its body for each element of the list it goes over, joining and
//! comparing cost what is joined and compared, and what the interpreter copies, hashes or counts
//! on the way costs, too.

mod extent;

use std::collections::BTreeMap;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr,
};

use super::super::pattern::Patterns;
use super::super::typing;
pub(super) use extent::Extent;

/// What all rules of one object may cost together, as in kube-apiserver: about a second.
pub(super) const BUDGET: u64 = 10_000_000;

/// What making a regular expression costs at least.
const PATTERN_STEPS: u64 = 200;

/// What it costs at most: also one that the object brings along, of which nothing is known.
const PATTERN_STEPS_MAX: u64 = 200_000;

/// How many bytes of an expression cost one step: it is made anew for every match.
const PATTERN_BYTES_PER_STEP: usize = 20;

/// How many bytes of an expression cost one step for each step of text that it reads: all its
/// states may have to be followed at once.
const PATTERN_BYTES_PER_TEXT_STEP: u64 = 256;

/// How many scopes a name is looked for in one step.
const SCOPES_PER_STEP: u64 = 4;

/// How many bytes of names are hashed in one step.
const NAME_BYTES_PER_STEP: usize = 256;

/// What finding a function by its name and the types of its operands costs.
const FUNCTION_STEPS: u64 = 4;

/// What setting the variable of a loop costs.
const LOOP_STEPS: u64 = 2;

/// The longest text that a number, a time or a duration becomes, in bytes.
const NUMBER_BYTES_MAX: u64 = 400;

/// What is worked out about an expression once.
#[derive(Default)]
pub(super) struct Costs {
    /// What making each pattern that is written out costs.
    patterns: BTreeMap<Box<str>, u64>,
    /// What looking for the longest qualified name costs in each scope: the interpreter tries
    /// every beginning of it.
    name: u64,
}

impl Costs {
    /// Adds what `expression` makes work.
    pub(super) fn add(&mut self, expression: &IdedExpr, patterns: &mut Patterns) {
        match &expression.expr {
            Expr::Call(call) => {
                if let Some(source) = stated_pattern(call)
                    && !self.patterns.contains_key(source)
                {
                    let steps =
                        patterns.size(source).map(|bytes| (bytes / PATTERN_BYTES_PER_STEP) as u64);
                    let steps =
                        steps.unwrap_or(PATTERN_STEPS_MAX).clamp(PATTERN_STEPS, PATTERN_STEPS_MAX);
                    self.patterns.insert(source.into(), steps);
                }
            }
            Expr::Select(select) => self.name = self.name.max(name_steps(select)),
            _ => {}
        }
        for child in typing::children(expression) {
            self.add(child, patterns);
        }
    }
}

/// What trying every beginning of a qualified name costs.
fn name_steps(select: &SelectExpr) -> u64 {
    let (mut segments, mut bytes) = (1, select.field.len());
    let mut at = &select.operand;
    while let Expr::Select(inner) = &at.expr {
        (segments, bytes) = (segments + 1, bytes + 1 + inner.field.len());
        at = &inner.operand;
    }
    (segments * bytes / NAME_BYTES_PER_STEP) as u64
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

/// The most that evaluating `expression` can cost, over a `self` of extent `this` and an
/// `oldSelf` of extent `before`.
pub(super) fn bound(expression: &IdedExpr, costs: &Costs, this: &Extent, before: &Extent) -> u64 {
    let mut estimate = Estimate { steps: 0, times: 1, scopes: 0, names: BTreeMap::new(), costs };
    estimate.names.insert("self", this.clone());
    estimate.names.insert("oldSelf", before.clone());
    let result = estimate.visit(expression);
    estimate.spend(result.copied());
    estimate.steps
}

struct Estimate<'e> {
    steps: u64,
    /// How often the place we are at is evaluated. At least once, since we look at it.
    times: u64,
    /// How many loops we are in.
    scopes: u64,
    names: BTreeMap<&'e str, Extent>,
    costs: &'e Costs,
}

impl<'e> Estimate<'e> {
    fn spend(&mut self, steps: u64) {
        self.steps = self.steps.saturating_add(self.times.saturating_mul(steps));
    }

    /// What either value is at most. Telling that costs us, once, what it costs.
    fn either(&mut self, one: Extent, other: &Extent) -> Extent {
        self.steps = self.steps.saturating_add(one.parts_in_common(other));
        one.or(other)
    }

    fn visit(&mut self, at: &'e IdedExpr) -> Extent {
        self.spend(1);
        match &at.expr {
            Expr::Unspecified => Extent::ONE,
            Expr::Literal(literal) => match literal {
                LiteralValue::String(text) => Extent::text(text.inner().len() as u64),
                LiteralValue::Bytes(bytes) => Extent::text(bytes.inner().len() as u64),
                LiteralValue::Double(_) => Extent::FRACTION,
                _ => Extent::ONE,
            },
            Expr::Ident(name) => {
                self.spend(self.scopes / SCOPES_PER_STEP);
                self.names.get(name.as_str()).cloned().unwrap_or(Extent::ONE)
            }
            Expr::Select(select) => {
                // A qualified name is looked for once, as a whole.
                if !matches!(select.operand.expr, Expr::Select(_)) {
                    self.spend(self.costs.name.saturating_mul(self.scopes + 1));
                }
                let operand = self.visit(&select.operand);
                if select.test { Extent::ONE } else { operand.field(&select.field) }
            }
            Expr::List(list) => {
                let mut whole = Extent::ONE.list();
                for element in &list.elements {
                    let element = self.visit(element);
                    self.keep(&mut whole, None, element);
                }
                whole
            }
            Expr::Map(map) => self.entries(map.entries.iter().map(|entry| &entry.expr)),
            Expr::Struct(whole) => self.entries(whole.entries.iter().map(|entry| &entry.expr)),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(every) => self.comprehension(every),
        }
    }

    /// Copies a part into a list or map that is written out.
    fn keep(&mut self, whole: &mut Extent, key: Option<&Extent>, part: Extent) {
        // A key is looked for before it is put in its place.
        let key_steps = key.map_or(0, |key| key.hashed().saturating_mul(2));
        self.spend(part.copied().saturating_add(key_steps));
        let common = whole.element().parts_in_common(&part);
        self.steps = self.steps.saturating_add(common);
        whole.hold(key, part);
    }

    fn entries(&mut self, entries: impl Iterator<Item = &'e EntryExpr>) -> Extent {
        let mut whole = Extent::ONE.map();
        for entry in entries {
            let (key, value) = match entry {
                EntryExpr::StructField(field) => (Extent::ONE, &field.value),
                EntryExpr::MapEntry(entry) => (self.visit(&entry.key), &entry.value),
            };
            let value = self.visit(value);
            self.keep(&mut whole, Some(&key), value);
        }
        whole
    }

    fn call(&mut self, call: &'e CallExpr) -> Extent {
        let operands = call.target.as_deref().into_iter().chain(&call.args);
        let operands: Vec<Extent> = operands.map(|operand| self.visit(operand)).collect();
        let sum = |of: fn(&Extent) -> u64| operands.iter().map(of).fold(0, u64::saturating_add);
        let first = operands.first().unwrap_or(&Extent::ONE);
        let last = operands.last().unwrap_or(&Extent::ONE);
        let fraction = operands.iter().any(|operand| operand.fraction);
        if !call.func_name.starts_with(['_', '!', '-', '@']) {
            self.spend(FUNCTION_STEPS);
        }
        let number = if fraction { Extent::FRACTION } else { Extent::ONE };
        match call.func_name.as_str() {
            "_&&_" | "_||_" | "!_" | "@not_strictly_false" | "type" => Extent::ONE,
            "dyn" => first.clone(),
            "_?_:_" => match operands.as_slice() {
                [_, one, other] => self.either(one.clone(), other),
                _ => Extent::ONE,
            },
            "_+_" => {
                self.spend(sum(Extent::read));
                self.steps = self.steps.saturating_add(first.parts_in_common(last));
                first.clone().and(last)
            }
            // Equal values have equal sizes, so no more than the smaller is looked at, but for a
            // key that the other has not.
            "_==_" | "_!=_" => {
                self.spend(first.read().min(last.read()).saturating_add(first.longest_key()));
                Extent::ONE
            }
            // Values that have no order are copied into the error, which `||` and `all` may hide.
            "_<_" | "_<=_" | "_>_" | "_>=_" => {
                let compared = first.read().min(last.read());
                self.spend(compared.saturating_add(sum(Extent::copied)));
                Extent::ONE
            }
            // So is the list for which a number with a fraction is no index.
            "_[_]" => {
                let list = if last.fraction { first.copied() } else { 0 };
                self.spend(last.hashed().saturating_add(list));
                first.element()
            }
            "@in" => {
                let among = if last.is_map() { first.hashed() } else { sum(Extent::read) };
                self.spend(among);
                Extent::ONE
            }
            "size" => {
                self.spend(first.counted());
                Extent::ONE
            }
            "matches" => {
                self.matches(call, &operands);
                Extent::ONE
            }
            // What else there is reads its operands once, and what is made of a text is no longer.
            "string" | "bytes" => {
                self.spend(sum(Extent::read));
                Extent::text(first.bytes.max(NUMBER_BYTES_MAX))
            }
            "double" => {
                self.spend(sum(Extent::read));
                Extent::FRACTION
            }
            _ => {
                self.spend(sum(Extent::read));
                number
            }
        }
    }

    fn matches(&mut self, call: &CallExpr, operands: &[Extent]) {
        let stated = stated_pattern(call).and_then(|source| self.costs.patterns.get(source));
        let made = stated.copied().unwrap_or(PATTERN_STEPS_MAX);
        let bytes = made.saturating_mul(PATTERN_BYTES_PER_STEP as u64);
        let each = 1 + bytes / PATTERN_BYTES_PER_TEXT_STEP;
        let read = operands.first().map_or(0, Extent::read).saturating_mul(each);
        let pattern = operands.last().map_or(0, Extent::read);
        self.spend(made.saturating_add(read).saturating_add(pattern));
    }

    fn comprehension(&mut self, every: &'e ComprehensionExpr) -> Extent {
        let range = self.visit(&every.iter_range);
        let first = self.visit(&every.accu_init);
        let outside = (self.times, self.scopes, self.names.clone());
        self.times = self.times.saturating_mul(range.length.max(1));
        self.scopes += 1;
        let item = range.item();
        self.spend(item.copied().saturating_add(LOOP_STEPS));
        if let Some(second) = &every.iter_var2 {
            self.names.insert(second, range.element());
        }
        self.names.insert(&every.iter_var, item);
        // The interpreter appends to what is gathered without copying it.
        self.names.insert(&every.accu_var, Extent::ONE);
        self.visit(&every.loop_cond);
        let step = self.visit(&every.loop_step);
        (self.times, self.scopes, self.names) = outside;
        let gathered = if first.is_list() { step.times(range.length) } else { Extent::ONE };
        let kept = self.names.insert(&every.accu_var, gathered);
        let result = self.visit(&every.result);
        match kept {
            Some(kept) => self.names.insert(&every.accu_var, kept),
            None => self.names.remove(every.accu_var.as_str()),
        };
        result
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::parse;
    use super::*;
    use crate::field::Path;
    use crate::schema::Schema;

    /// What `rule` costs over an object in which everything but `self.few` is large: texts of
    /// 25,600 bytes and lists of 1,000 numbers.
    fn cost(rule: &str) -> u64 {
        let (text, list) =
            (json!({"type": "string"}), |items: &Value| json!({"type": "array", "items": items}));
        let numbers = list(&json!({"type": "integer"}));
        let map = |values: &Value| json!({"type": "object", "additionalProperties": values});
        let schema = Schema::from_crd(
            &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "s": text, "t": text, "half": {"type": "number"},
                "few": numbers, "numbers": numbers, "lists": list(&numbers), "texts": list(&text),
                "map": map(&json!({"type": "integer"})), "maps": map(&text),
                "objects": list(&json!({"type": "object",
                    "properties": {"name": text, "tags": numbers}})),
            }}}}),
            &Path::root(),
        )
        .unwrap();
        let (long, many) = ("é".repeat(12_800), vec![1; 1_000]);
        let object = json!({"spec": {
            "s": long, "t": long, "half": 1.5, "few": [1, 2, 3], "numbers": many,
            "lists": [many], "texts": [long], "map": {long.as_str(): 1}, "maps": {"a": long},
            "objects": [{"name": "a", "tags": many}, {"name": "b"}],
        }});
        let extent = Extent::of(&schema.arena, schema.root, &object).field("spec");
        let program = parse(rule).unwrap();
        let mut costs = Costs::default();
        costs.add(program.expression(), &mut Patterns::default());
        bound(program.expression(), &costs, &extent, &Extent::ONE)
    }

    /// Each rule costs its steps, and little more for its own parts.
    fn check(rules: &[(&str, u64)]) {
        let told = rules.iter().filter_map(|(rule, steps)| {
            let cost = cost(rule);
            let fits = (*steps..=steps + steps / 4 + 60).contains(&cost);
            (!fits).then(|| format!("{rule}: {cost}, not {steps}"))
        });
        let wrong: Vec<String> = told.collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn each_operator_costs_what_it_looks_at_or_copies() {
        check(&[
            ("size(self.s) > 0", 100),
            ("self.s.size() > 0", 100),
            ("size(self.numbers) > 0", 0),
            ("size(self.maps) > 0", 0),
            ("size(self.map) > 0", 0),
            ("self.map[self.s] > 0", 400),
            ("self.numbers[0] > 0", 0),
            ("self.numbers[self.half] > 0", 1_000),
            ("self.numbers[dyn(1.5)] > 0", 1_000),
            ("[self.s] == []", 100),
            ("[self.numbers, self.lists] == []", 3_000),
            ("{self.s: 1} == {}", 1_200),
            ("{1: self.s} == {}", 100),
            ("self.s == self.t", 2_560),
            ("self.s == 'a'", 0),
            ("self.numbers == self.few", 0),
            ("self.map == {'a': 1}", 400),
            ("self.s < self.t", 2_760),
            ("self.few < self.numbers", 1_000),
            ("self.s + self.t == ''", 5_120),
            ("self.numbers + self.few == []", 1_000),
            ("self.s in self.texts", 5_120),
            ("1 in self.numbers", 1_000),
            ("'a' in self.maps", 0),
            ("self.s in self.map", 400),
            ("self.s.contains('a')", 2_560),
            ("self.s.startsWith(self.t)", 5_120),
            ("string(self.s) == ''", 2_560),
            ("bytes(self.s) == b''", 2_560),
            ("int(self.s) == 1", 2_560),
            ("timestamp(self.s) == timestamp('')", 2_560),
            ("self.numbers - self.lists == 1", 2_000),
            ("type(self.s) == string", 0),
            ("dyn(self.s) == 1", 0),
            ("(true ? self.s : self.t) == ''", 0),
            ("has(self.s) && !has(self.few) || true", 0),
            ("self.s.matches('a')", 409 + 2_561 * 32),
            ("'a'.matches(self.s)", 200_000 + 15_625 + 2_560),
        ]);
    }

    #[test]
    fn a_loop_costs_its_body_and_the_copy_of_each_element() {
        check(&[
            ("self.few.all(x, true)", 3 * 8),
            ("self.numbers.all(x, true)", 1_000 * 8),
            ("self.texts.all(x, true)", 100),
            ("self.lists.all(x, true)", 1_000),
            ("self.map.all(x, true)", 100),
            ("self.maps.all(x, true)", 0),
            ("self.few.all(x, size(self.s) > x)", 3 * 115),
            ("self.few.all(x, self.numbers.all(y, x == y))", 3 * 1_000 * 11),
            ("self.few.all(x, self.few.exists_one(y, x == y))", 3 * 3 * 14),
            ("self.few.map(x, self.s).all(x, true)", 3 * (100 + 2_560 + 100)),
            ("self.few.filter(x, x > 0).all(x, true)", 3 * 30),
            ("[].all(x, self.numbers == self.numbers)", 1_000),
        ]);
    }

    #[test]
    fn what_is_selected_is_charged_and_not_what_stands_beside_it() {
        check(&[
            ("self.objects.all(o, o.name != '')", 2 * 1_000),
            ("self.objects[0].name == self.s", 0),
            ("self.objects[0].tags.all(x, true)", 1_000 * 8),
            ("self.objects.all(o, self.few.all(x, o.name != ''))", 2 * (1_000 + 3 * 12)),
            ("(self.few + self.few).all(x, true)", 6 * 9),
            ("(has(self.s) ? self.few : self.few).all(x, true)", 3 * 10),
            ("self['few'] == self.numbers", 3_000),
        ]);
    }

    #[test]
    fn a_name_costs_the_scopes_it_is_looked_for_in() {
        let long = format!("self.{}", ["a234567890"; 100].join("."));
        let steps = 100 * 1_099 / 256;
        let nested = format!("{}{long}{}", "[1].all(x, ".repeat(9), ")".repeat(9));
        check(&[(long.as_str(), steps), (nested.as_str(), 10 * steps)]);
    }
}
