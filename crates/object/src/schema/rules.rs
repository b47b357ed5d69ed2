//! Validation rules: CEL expressions over a value (`self`) and the value it replaces
//! (`oldSelf`), compiled once with the schema.
//!
//! The standard macros and [`SUPPORTED_FUNCTIONS`] are there; a rule that calls
//! anything else is refused when the schema is read, so no rule fails later for want
//! of a function.

mod cost;
mod evaluate;
mod field_path;

use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::{Env, Program};
use serde_json::Value;

use super::pattern::Patterns;
use super::structural::Raw;
use super::typing::{self, Type};
use super::validation::unsupported;
use crate::field::{Error, Fault, Gathered, Path};

pub(super) use evaluate::run;

/// The functions a rule may call, beside operators and the macros `has`, `all`,
/// `exists`, `exists_one`, `filter` and `map`.
pub const SUPPORTED_FUNCTIONS: [&str; 25] = [
    "bool",
    "bytes",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "int",
    "matches",
    "size",
    "startsWith",
    "string",
    "timestamp",
    "type",
    "uint",
];

/// Longer rules are refused: an expression is a tree that is walked by recursion.
const SOURCE_MAX: usize = 8 * 1024;

/// Deeper brackets are refused for the same reason.
const BRACKETS_MAX: usize = 48;

/// The parser needs some 150 KiB of stack for each bracket it is in, so it runs on a
/// stack of its own.
const PARSER_STACK_BYTES: usize = 64 << 20;

/// Rules that nest deeper run on a stack of their own.
const INLINE_DEPTH_MAX: usize = 20;

/// How much text the rules of a schema may have together. Each is parsed and checked by itself,
/// which takes the longer the more there are.
const SOURCES_MAX: usize = 256 * 1024;

/// What a rule counts at least.
const SOURCE_MIN: usize = 64;

/// The reasons a rule may give, as a CRD writes them.
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// One compiled rule.
pub(super) struct Rule {
    source: Box<str>,
    program: Program,
    message: Box<str>,
    message_program: Option<Program>,
    fault: Fault,
    /// Where in the value the fault is, relative to it.
    field_path: Option<Box<str>>,
    uses_old: bool,
    /// How deep the deeper of the expressions nests.
    depth: usize,
    costs: cost::Costs,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rule").field(&self.source).finish()
    }
}

impl Rule {
    /// Whether it has to run on a stack of its own: a level can take 40 KiB in an unoptimised
    /// build, and the caller's stack may be small.
    pub(super) fn is_deep(&self) -> bool {
        self.depth > INLINE_DEPTH_MAX
    }

    /// The rule in an error: its message, or else its source.
    fn title(&self) -> &str {
        if self.message.is_empty() { self.source.trim() } else { self.message.trim() }
    }
}

/// The rules of a schema. Those that do not compile are left out: [`check_source`]
/// reports them.
pub(super) fn compile(schema: Raw<'_>, patterns: &mut Patterns) -> Vec<Rule> {
    let rules = schema.list("x-kubernetes-validations").iter().filter_map(Raw::of);
    rules.filter_map(|rule| compile_one(schema, rule, patterns)).collect()
}

fn compile_one(schema: Raw<'_>, rule: Raw<'_>, patterns: &mut Patterns) -> Option<Rule> {
    let source = rule.text("rule");
    let program = parse(source).ok()?;
    let message_source = rule.text("messageExpression");
    let message_program =
        if message_source.is_empty() { None } else { Some(parse(message_source).ok()?) };
    let fault = match rule.text("reason") {
        "FieldValueForbidden" => Fault::Forbidden,
        "FieldValueRequired" => Fault::Required,
        "FieldValueDuplicate" => Fault::Duplicate,
        _ => Fault::Invalid,
    };
    let programs = [Some(&program), message_program.as_ref()].into_iter().flatten();
    let mut costs = cost::Costs::default();
    for program in programs.clone() {
        costs.add(program.expression(), patterns);
    }
    let depths = programs.map(|program| typing::depth(program.expression()));
    Some(Rule {
        depth: depths.max().unwrap_or_default(),
        uses_old: program.references().has_variable("oldSelf"),
        source: source.into(),
        costs,
        program,
        message: rule.text("message").into(),
        message_program,
        fault,
        field_path: field_path::normalise(rule.text("fieldPath"), schema).map(Into::into),
    })
}

/// Parses a rule. What the bounds on length and depth let through is safe to walk.
fn parse(source: &str) -> Result<Program, String> {
    if source.len() > SOURCE_MAX {
        return Err(format!("rules may have at most {SOURCE_MAX} bytes"));
    }
    if bracket_depth(source) > BRACKETS_MAX {
        return Err(format!("brackets may nest at most {BRACKETS_MAX} deep"));
    }
    let owned = source.to_owned();
    let parser = std::thread::Builder::new().stack_size(PARSER_STACK_BYTES);
    let parsed = parser.spawn(move || parse_here(&owned)).map(std::thread::JoinHandle::join);
    match parsed {
        Ok(Ok(parsed)) => parsed,
        Ok(Err(_)) => Err("the parser failed on this rule".to_owned()),
        Err(error) => Err(format!("no thread to parse the rule on: {error}")),
    }
}

fn parse_here(source: &str) -> Result<Program, String> {
    let program = ENV.compile(source).map_err(|errors| {
        // The parser of the reference implementation indents the excerpt.
        errors.to_string().replace("\n| ", "\n | ")
    })?;
    if typing::depth(program.expression()) > typing::DEPTH_MAX {
        return Err(format!("expressions may nest at most {} deep", typing::DEPTH_MAX));
    }
    Ok(program)
}

fn bracket_depth(source: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Whether there is no more of rules in the whole schema than is worth compiling.
pub(super) fn check_amount(schema: &Value, path: &Path, errors: &mut Gathered) {
    let amount = sources(schema);
    if amount > SOURCES_MAX {
        let why = format!(
            "the validation rules of a schema may have {SOURCES_MAX} bytes of text together, a \
             rule counting for at least {SOURCE_MIN}, and these have {amount}: use fewer rules"
        );
        errors.push(Error::forbidden(path, why));
    }
}

fn sources(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(sources).sum(),
        Value::Object(map) => {
            let rules = map.get("x-kubernetes-validations").and_then(Value::as_array);
            let texts = rules.into_iter().flatten().map(|rule| {
                let bytes = |key: &str| rule.get(key).and_then(Value::as_str).map_or(0, str::len);
                (bytes("rule") + bytes("messageExpression")).max(SOURCE_MIN)
            });
            texts.sum::<usize>() + map.values().map(sources).sum::<usize>()
        }
        _ => 0,
    }
}

/// Whether each rule is written as it must be, apart from its expression.
pub(super) fn check_form(schema: Raw<'_>, path: &Path, errors: &mut Gathered) {
    let rules = schema.list("x-kubernetes-validations").iter().filter_map(Raw::of);
    for (index, rule) in rules.enumerate() {
        let at = path.child("x-kubernetes-validations").index(index);
        let (source, message) = (rule.text("rule").trim(), rule.text("message"));
        let broken = |text: &str| text.contains(['\n', '\r']);
        if source.is_empty() {
            errors.push(Error::required(&at.child("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            let why = "must be non-empty if specified";
            errors.push(Error::invalid(&at.child("message"), message, why));
        } else if broken(message.trim()) {
            let why = "must not contain line breaks";
            errors.push(Error::invalid(&at.child("message"), message, why));
        } else if broken(source) && message.is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errors.push(Error::required(&at.child("message"), why));
        }
        let expression = rule.text("messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errors.push(Error::required(&at.child("messageExpression"), why));
        }
        if let Some(Value::String(reason)) = rule.stated("reason")
            && !REASONS.contains(&reason.as_str())
        {
            let known = REASONS.map(str::to_owned).into_iter();
            errors.push(unsupported(&at.child("reason"), reason.as_str().into(), known));
        }
        check_field_path(schema, rule.text("fieldPath"), &at.child("fieldPath"), errors);
    }
}

fn check_field_path(schema: Raw<'_>, path: &str, at: &Path, errors: &mut Gathered) {
    if path.is_empty() {
        return;
    }
    if path.trim().is_empty() {
        errors.push(Error::invalid(at, path, "must be non-empty if specified"));
    }
    if path.contains(['\n', '\r']) {
        errors.push(Error::invalid(at, path, "must not contain line breaks"));
    }
    if field_path::normalise(path, schema).is_none() {
        errors.push(Error::invalid(at, path, "must be a valid path"));
    }
}

/// Whether the expressions of each rule compile against the schema they stand in.
pub(super) fn check_source(
    schema: Raw<'_>,
    path: &Path,
    root: bool,
    uncorrelated: Option<&Path>,
    errors: &mut Gathered,
) {
    let rules = schema.list("x-kubernetes-validations").iter().filter_map(Raw::of);
    for (index, rule) in rules.enumerate() {
        let at = path.child("x-kubernetes-validations").index(index);
        let this = Type::Schema { schema, resource: root || schema.embeds() };
        let uses_old = match checked(rule.text("rule"), this) {
            Err(why) => {
                let why = format!("compilation failed: {why}");
                errors.push(rule_error(&at.child("rule"), rule, &why));
                continue;
            }
            Ok((_, kind)) if kind.is_other_than("bool") => {
                let why = "cel expression must evaluate to a bool";
                errors.push(rule_error(&at.child("rule"), rule, why));
                continue;
            }
            Ok((program, _)) => program.references().has_variable("oldSelf"),
        };
        check_message(rule, this, &at.child("messageExpression"), errors);
        check_old(rule, uses_old, &at, uncorrelated, errors);
    }
}

fn check_message(rule: Raw<'_>, this: Type<'_>, at: &Path, errors: &mut Gathered) {
    let source = rule.text("messageExpression");
    if source.is_empty() {
        return;
    }
    match checked(source, this) {
        Err(why) => {
            let why = format!("messageExpression compilation failed: {why}");
            errors.push(rule_error(at, rule, &why));
        }
        Ok((_, kind)) if kind.is_other_than("string") => {
            errors.push(rule_error(at, rule, "messageExpression must evaluate to a string"));
        }
        Ok(_) => {}
    }
}

fn check_old(
    rule: Raw<'_>,
    uses_old: bool,
    at: &Path,
    uncorrelated: Option<&Path>,
    errors: &mut Gathered,
) {
    let source = rule.text("rule");
    let optional = rule.stated("optionalOldSelf");
    if uses_old {
        if let Some(within) = uncorrelated {
            let why = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
            );
            errors.push(Error::invalid(&at.child("rule"), source, why));
        }
        if optional == Some(&Value::Bool(true)) {
            let why = "optionalOldSelf is not supported: write the rule for updates only, without \
                       optionalOldSelf, or for every write, without oldSelf";
            errors.push(Error::invalid(&at.child("optionalOldSelf"), true, why));
        }
    } else if let Some(optional) = optional {
        let why = "may not be set if oldSelf is not used in rule";
        errors.push(Error::invalid(&at.child("optionalOldSelf"), optional.clone(), why));
    }
}

fn checked<'a>(source: &str, this: Type<'a>) -> Result<(Program, Type<'a>), String> {
    let program = parse(source)?;
    let kind = typing::check(&program, this, source, &SUPPORTED_FUNCTIONS)?;
    Ok((program, kind))
}

/// An error that shows the whole rule, the way kube-apiserver prints its own struct.
fn rule_error(path: &Path, rule: Raw<'_>, why: &str) -> Error {
    // Go's JSON escapes these for HTML.
    let quoted = |text: &str| {
        let text = Value::from(text).to_string();
        text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    };
    let stated = |key: &str| {
        rule.stated(key).map_or("null".to_owned(), |value| match value {
            Value::String(text) => quoted(text),
            other => other.to_string(),
        })
    };
    let shown = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\
         \"OptionalOldSelf\":{}}}",
        quoted(rule.text("rule")),
        quoted(rule.text("message")),
        quoted(rule.text("messageExpression")),
        stated("reason"),
        quoted(rule.text("fieldPath")),
        stated("optionalOldSelf"),
    );
    Error {
        path: path.clone(),
        fault: Fault::Invalid,
        value: None,
        detail: format!("{shown}: {why}"),
    }
}
