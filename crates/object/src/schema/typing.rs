//! The types of rules: which fields an expression reads, which functions it calls,
//! and what comes out, checked when a schema is read.
//!
//! This is not a full checker: it refuses what is certainly wrong. What it cannot
//! tell is left to the run.

use std::collections::BTreeMap;

use cel::Program;
use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::structural::Raw;

/// How deep an expression may nest: it is checked and run by recursion.
pub(super) const DEPTH_MAX: usize = 200;

/// The type of an expression, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(super) enum Type<'a> {
    /// What a schema describes; a resource also has its type and metadata.
    Schema { schema: Raw<'a>, resource: bool },
    /// The metadata of a resource, as far as rules may see it.
    Metadata,
    /// A type by its name in CEL.
    Plain(&'static str),
    /// Not known.
    Unknown,
}

impl<'a> Type<'a> {
    fn of(schema: Raw<'a>) -> Self {
        Self::Schema { schema, resource: schema.embeds() }
    }

    /// Whether the type is known to be another than `name`.
    pub(super) fn is_other_than(self, name: &str) -> bool {
        self.name().is_some_and(|own| own != name)
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Self::Plain(name) => Some(name),
            Self::Metadata => Some("object"),
            Self::Unknown => None,
            Self::Schema { schema, .. } if schema.int_or_string() => None,
            Self::Schema { schema, .. } => Some(match (schema.kind(), schema.text("format")) {
                ("object", _) if schema.child("additionalProperties").is_some() => "map",
                ("object", _) => "object",
                ("array", _) => "list",
                ("integer", _) => "int",
                ("number", _) => "double",
                ("boolean", _) => "bool",
                ("string", "byte") => "bytes",
                ("string", "date" | "date-time") => "timestamp",
                ("string", "duration") => "duration",
                ("string", _) => "string",
                _ => return None,
            }),
        }
    }

    /// The type of a field, or why there is none.
    fn field(self, name: &str) -> Result<Self, String> {
        let undefined = || Err(format!("undefined field '{name}'"));
        match self {
            Self::Schema { schema, resource } => match self.name() {
                None => Ok(Self::Unknown),
                Some("map") => {
                    Ok(schema.child("additionalProperties").map_or(Self::Unknown, Self::of))
                }
                Some("object") => {
                    let found = unescape(name).and_then(|own| schema.property(&own));
                    match (found, name) {
                        (_, "apiVersion" | "kind") if resource => Ok(Self::Plain("string")),
                        (_, "metadata") if resource => Ok(Self::Metadata),
                        (Some(property), _) if is_exposed(property) => Ok(Self::of(property)),
                        _ => undefined(),
                    }
                }
                Some(other) => Err(format!("type '{other}' does not support field selection")),
            },
            Self::Metadata if matches!(name, "name" | "generateName") => Ok(Self::Plain("string")),
            Self::Metadata => undefined(),
            Self::Plain(kind @ ("bool" | "int" | "string" | "double" | "uint" | "bytes")) => {
                Err(format!("type '{kind}' does not support field selection"))
            }
            Self::Plain(_) | Self::Unknown => Ok(Self::Unknown),
        }
    }

    /// The type of an element that a macro goes over: items of a list, keys of a map.
    fn element(self) -> Self {
        match self {
            Self::Schema { schema, .. } => match self.name() {
                Some("list") => schema.child("items").map_or(Self::Unknown, Self::of),
                Some("map") => Self::Plain("string"),
                _ => Self::Unknown,
            },
            Self::Metadata | Self::Plain(_) | Self::Unknown => Self::Unknown,
        }
    }

    /// The type of what an index yields.
    fn indexed(self) -> Self {
        match self {
            Self::Schema { schema, .. } => match self.name() {
                Some("list") => schema.child("items").map_or(Self::Unknown, Self::of),
                Some("map") => schema.child("additionalProperties").map_or(Self::Unknown, Self::of),
                _ => Self::Unknown,
            },
            Self::Metadata | Self::Plain(_) | Self::Unknown => Self::Unknown,
        }
    }
}

/// Whether rules may see a value of this schema: only what has a type.
fn is_exposed(schema: Raw<'_>) -> bool {
    schema.int_or_string()
        || match schema.kind() {
            "array" => schema.child("items").is_some_and(is_exposed),
            "object" => schema.child("additionalProperties").is_none_or(is_exposed),
            kind => !kind.is_empty(),
        }
}

/// The name under which rules know a property: CEL's reserved words and characters
/// that no identifier has are written out.
pub(super) fn escape(name: &str) -> Option<String> {
    #[cfg(test)]
    crate::work::note();
    const RESERVED: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    if name.chars().any(|c| !c.is_ascii_alphanumeric() && !"_-./".contains(c)) {
        return None;
    }
    let escaped = name
        .replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__");
    Some(escaped)
}

/// The property that rules know as `name`.
fn unescape(name: &str) -> Option<String> {
    const ESCAPES: [(&str, &str); 4] =
        [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];
    let reserved = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    let mut own = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let escape = ESCAPES.iter().find(|(escaped, _)| rest.starts_with(escaped));
        let (text, width) = escape.map_or((&rest[..first.len_utf8()], first.len_utf8()), |found| {
            (found.1, found.0.len())
        });
        own.push_str(text);
        rest = &rest[width..];
    }
    let candidates = [Some(own), reserved.map(str::to_owned)];
    candidates.into_iter().flatten().find(|own| escape(own).as_deref() == Some(name))
}

/// How deep an expression nests, found without recursion.
pub(super) fn depth(expression: &IdedExpr) -> usize {
    let mut deepest = 0;
    let mut open = vec![(expression, 1)];
    while let Some((at, depth)) = open.pop() {
        deepest = deepest.max(depth);
        open.extend(children(at).into_iter().map(|child| (child, depth + 1)));
    }
    deepest
}

/// The expressions that one is directly made of.
pub(super) fn children(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(all) => {
            vec![&all.iter_range, &all.accu_init, &all.loop_cond, &all.loop_step, &all.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entries(&entry.expr)).collect(),
        Expr::Struct(whole) => {
            whole.entries.iter().flat_map(|entry| entries(&entry.expr)).collect()
        }
    }
}

fn entries(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

/// The type of what `program` yields for a `self` of type `this`.
pub(super) fn check<'a>(
    program: &Program,
    this: Type<'a>,
    source: &str,
    functions: &[&str],
) -> Result<Type<'a>, String> {
    let mut scope = Scope { names: BTreeMap::new(), functions };
    scope.names.insert("self".to_owned(), this);
    scope.names.insert("oldSelf".to_owned(), this);
    scope.visit(program.expression()).map_err(|fault| {
        let start = program.source_info().offset_for(fault.at).map_or(0, |(start, _)| start);
        located(source, usize::try_from(start).unwrap_or_default(), &fault.why)
    })
}

/// A fault with its place in the source, as cel-go prints it.
fn located(source: &str, offset: usize, why: &str) -> String {
    let before: String = source.chars().take(offset).collect();
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let text = source.lines().nth(line).unwrap_or_default();
    let dots = ".".repeat(column);
    format!("ERROR: <input>:{}:{}: {why}\n | {text}\n | {dots}^", line + 1, column + 1)
}

struct Misuse {
    at: u64,
    why: String,
}

struct Scope<'a, 'f> {
    names: BTreeMap<String, Type<'a>>,
    functions: &'f [&'f str],
}

impl<'a> Scope<'a, '_> {
    fn visit(&mut self, expression: &IdedExpr) -> Result<Type<'a>, Misuse> {
        let at = expression.id;
        match &expression.expr {
            Expr::Unspecified => Ok(Type::Unknown),
            Expr::Ident(name) => self.name(at, name),
            Expr::Literal(literal) => Ok(Type::Plain(match literal {
                LiteralValue::Boolean(_) => "bool",
                LiteralValue::Bytes(_) => "bytes",
                LiteralValue::Double(_) => "double",
                LiteralValue::Int(_) => "int",
                LiteralValue::Null => "null_type",
                LiteralValue::String(_) => "string",
                LiteralValue::UInt(_) => "uint",
            })),
            Expr::Select(select) => self.select(at, select),
            Expr::Call(call) => self.call(at, call),
            Expr::Comprehension(all) => {
                let range = self.visit(&all.iter_range)?;
                let first = self.visit(&all.accu_init)?;
                let outer = self.names.clone();
                self.names.insert(all.iter_var.clone(), range.element());
                if let Some(second) = &all.iter_var2 {
                    self.names.insert(second.clone(), Type::Unknown);
                }
                let counts = matches!(first, Type::Plain("bool"));
                let accumulated = if counts { first } else { Type::Unknown };
                self.names.insert(all.accu_var.clone(), accumulated);
                self.visit(&all.loop_cond)?;
                self.visit(&all.loop_step)?;
                let result = self.visit(&all.result);
                self.names = outer;
                result
            }
            Expr::List(_) | Expr::Map(_) => {
                for child in children(expression) {
                    self.visit(child)?;
                }
                let list = matches!(expression.expr, Expr::List(_));
                Ok(Type::Plain(if list { "list" } else { "map" }))
            }
            Expr::Struct(whole) => {
                let why = format!("messages such as '{}' are not supported", whole.type_name);
                Err(Misuse { at, why })
            }
        }
    }

    fn name(&self, at: u64, name: &str) -> Result<Type<'a>, Misuse> {
        const TYPES: [&str; 10] = [
            "bool",
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "list",
            "map",
            "null_type",
            "type",
        ];
        match self.names.get(name) {
            Some(kind) => Ok(*kind),
            None if TYPES.contains(&name) => Ok(Type::Unknown),
            None => {
                let why = format!("undeclared reference to '{name}' (in container '')");
                Err(Misuse { at, why })
            }
        }
    }

    fn select(&mut self, at: u64, select: &SelectExpr) -> Result<Type<'a>, Misuse> {
        // The names of well-known types are written like fields.
        if let Expr::Select(inner) = &select.operand.expr
            && let Expr::Ident(root) = &inner.operand.expr
            && root == "google"
            && inner.field == "protobuf"
        {
            return Ok(Type::Unknown);
        }
        let operand = self.visit(&select.operand)?;
        let field = operand.field(&select.field).map_err(|why| Misuse { at, why })?;
        Ok(if select.test { Type::Plain("bool") } else { field })
    }

    fn call(&mut self, at: u64, call: &CallExpr) -> Result<Type<'a>, Misuse> {
        let name = call.func_name.as_str();
        let operator = name.starts_with(['_', '!', '-', '@']);
        if !operator && !self.functions.contains(&name) || matches!(name, "_?._" | "_[?_]") {
            let known = self.functions.join(", ");
            let why = format!(
                "the rule calls '{name}', which is not supported; the functions are: {known}"
            );
            return Err(Misuse { at, why });
        }
        let mut kinds = Vec::new();
        for argument in call.target.as_deref().into_iter().chain(&call.args) {
            kinds.push(self.visit(argument)?);
        }
        Ok(match name {
            "_==_"
            | "_!=_"
            | "_<_"
            | "_<=_"
            | "_>_"
            | "_>=_"
            | "_&&_"
            | "_||_"
            | "!_"
            | "@in"
            | "@not_strictly_false"
            | "matches"
            | "startsWith"
            | "endsWith"
            | "contains"
            | "bool" => Type::Plain("bool"),
            "string" => Type::Plain("string"),
            "size" | "int" => Type::Plain("int"),
            "double" => Type::Plain("double"),
            "uint" => Type::Plain("uint"),
            "_[_]" => kinds.first().copied().unwrap_or(Type::Unknown).indexed(),
            "_?_:_" => kinds.get(1).copied().unwrap_or(Type::Unknown),
            _ => Type::Unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_found_by_the_name_that_rules_know_it_by() {
        for name in [
            "a",
            "true",
            "namespace",
            "a.b",
            "a-b/c",
            "__",
            "___",
            "____",
            "_.",
            "._",
            "a__b",
            "__true__",
            "__dot__",
            "-__-",
            "_-_",
            "x__dot",
            "é",
            "a b",
            "9a",
            "",
        ] {
            let escaped = escape(name);
            let back = escaped.as_deref().and_then(unescape);
            assert_eq!(back, escaped.is_some().then(|| name.to_owned()), "{name} {escaped:?}");
        }
    }
}
