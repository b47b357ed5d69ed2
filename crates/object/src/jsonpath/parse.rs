//! The parser. A template is text with actions in braces; an action is a row of
//! steps. The grammar is upstream's, oddities included: what stands between brackets
//! ends at the first `]`, even within quotes.

use serde_json::Value;

use super::{End, Filter, Part, Slice, Step};

/// Why a path cannot be understood, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// An action has no closing brace.
    #[error("unclosed action")]
    UnclosedAction,
    /// A character that begins nothing.
    #[error("unrecognized character in action: {0}")]
    Unrecognized(String),
    /// `....`
    #[error("invalid multiple recursive descent")]
    MultipleRecursive,
    /// A number that is none.
    #[error("cannot parse number {0}")]
    Number(String),
    /// A bracket is not closed.
    #[error("unterminated array")]
    UnterminatedArray,
    /// What stands in brackets is neither index, slice, key nor union.
    #[error("invalid array index {0}")]
    Index(String),
    /// An index beyond what a number can be.
    #[error("array index {0} is not a number")]
    IndexNumber(String),
    /// A filter is not closed.
    #[error("unterminated filter")]
    UnterminatedFilter,
    /// A filter ends without its bracket.
    #[error("unclosed array expect ]")]
    UnclosedFilter,
    /// A quote is not closed.
    #[error("unterminated quoted string")]
    UnterminatedQuote,
    /// A quoted text has a bad escape.
    #[error("unquote string {0} error invalid syntax")]
    Unquote(String),
}

pub(super) fn template(text: &str) -> Result<Vec<Part>, ParseError> {
    let mut parser = Parser { input: text, at: 0 };
    let mut parts = Vec::new();
    loop {
        let rest = parser.rest();
        let brace = rest.find('{');
        let before = &rest[..brace.unwrap_or(rest.len())];
        if !before.is_empty() {
            parts.push(Part::Text(Value::from(before)));
        }
        let Some(brace) = brace else { return Ok(parts) };
        parser.at += brace + 1;
        parts.push(Part::Action(parser.action()?));
    }
}

/// The steps of `text` as if it stood in braces.
fn action(text: &str) -> Result<Vec<Step>, ParseError> {
    Parser { input: &format!("{text}}}"), at: 0 }.action()
}

struct Parser<'a> {
    input: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.input[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Takes what stands before the first character that ends it.
    fn take_until(&mut self, ends: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// The steps up to the closing brace, which is taken too.
    fn action(&mut self) -> Result<Vec<Step>, ParseError> {
        let mut steps = Vec::new();
        loop {
            let rest = self.rest();
            if rest.starts_with('}') {
                self.at += 1;
                return Ok(steps);
            }
            if rest.starts_with("[?(") {
                steps.push(self.filter()?);
                continue;
            }
            if rest.starts_with("..") {
                if steps.last() == Some(&Step::Recursive) {
                    return Err(ParseError::MultipleRecursive);
                }
                self.at += 2;
                steps.push(Step::Recursive);
                if self.peek().is_some_and(is_alphanumeric) {
                    steps.push(self.field());
                }
                continue;
            }
            match self.next() {
                None | Some('\r' | '\n') => return Err(ParseError::UnclosedAction),
                Some(' ' | '@' | '$') => {}
                Some('[') => self.bracket(&mut steps)?,
                Some(quote @ ('"' | '\'')) => steps.push(self.quote(quote)?),
                Some('.') => steps.push(self.field()),
                Some(first) if first == '+' || first == '-' || first.is_ascii_digit() => {
                    self.at -= 1;
                    steps.push(self.number()?);
                }
                Some(first) if is_alphanumeric(first) => {
                    self.at -= first.len_utf8();
                    steps.push(self.identifier());
                }
                Some(other) => return Err(ParseError::Unrecognized(shown(other))),
            }
        }
    }

    fn identifier(&mut self) -> Step {
        match self.take_until(is_terminator) {
            "true" => Step::Literal(Value::Bool(true)),
            "false" => Step::Literal(Value::Bool(false)),
            name => Step::Identifier(name.to_owned()),
        }
    }

    fn number(&mut self) -> Result<Step, ParseError> {
        let start = self.at;
        self.at += 1;
        self.take_until(|next| next != '.' && !next.is_ascii_digit());
        let text = &self.input[start..self.at];
        if let Ok(integer) = text.parse::<i64>() {
            return Ok(Step::Literal(Value::from(integer)));
        }
        match text.parse::<f64>() {
            Ok(float) if float.is_finite() => Ok(Step::Literal(Value::from(float))),
            _ => Err(ParseError::Number(text.to_owned())),
        }
    }

    /// A field up to the next character that ends one; a backslash takes its meaning away.
    fn field(&mut self) -> Step {
        let start = self.at;
        while let Some(next) = self.peek() {
            if next == '\\' {
                self.next();
            } else if is_terminator(next) {
                break;
            }
            self.next();
        }
        match &self.input[start..self.at] {
            "*" => Step::Wildcard,
            name => Step::Field(name.replace('\\', "")),
        }
    }

    fn bracket(&mut self, steps: &mut Vec<Step>) -> Result<(), ParseError> {
        let text = self.take_until(|next| next == ']' || next == '\n');
        if self.next() != Some(']') {
            return Err(ParseError::UnterminatedArray);
        }
        if text.contains(',') {
            let members =
                text.split(',').map(|member| action(&format!("[{}]", member.trim_matches(' '))));
            steps.push(Step::Union(members.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let key = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        if let Some(key) = key.filter(|key| !key.contains('\'')) {
            steps.extend(action(&format!(".{key}"))?);
            return Ok(());
        }
        steps.push(Step::Slice(slice(if text == "*" { ":" } else { text })?));
        Ok(())
    }

    fn filter(&mut self) -> Result<Step, ParseError> {
        self.at += "[?(".len();
        let start = self.at;
        let mut quote = None;
        let mut is_closed = true;
        loop {
            match self.next() {
                None | Some('\n') => return Err(ParseError::UnterminatedFilter),
                Some(next @ ('"' | '\'')) => match quote {
                    None => {
                        quote = Some(next);
                        is_closed = false;
                    }
                    // Only the first pair is looked at.
                    Some(open) if open == next && !self.is_escaped() => is_closed = true,
                    Some(_) => {}
                },
                Some(')') if is_closed => break,
                Some(_) => {}
            }
        }
        let text = &self.input[start..self.at - 1];
        if self.next() != Some(']') {
            return Err(ParseError::UnclosedFilter);
        }
        let Some((left, operator, right)) = comparison(text) else {
            let left = action(text)?;
            return Ok(Step::Filter(Filter { left, right: Vec::new(), operator: "exists".into() }));
        };
        let (left, right) = (action(left)?, action(right)?);
        Ok(Step::Filter(Filter { left, right, operator: operator.to_owned() }))
    }

    /// Whether the character just read has a backslash before it.
    fn is_escaped(&self) -> bool {
        self.at >= 2 && self.input.as_bytes()[self.at - 2] == b'\\'
    }

    fn quote(&mut self, quote: char) -> Result<Step, ParseError> {
        let start = self.at;
        loop {
            match self.next() {
                None | Some('\n') => return Err(ParseError::UnterminatedQuote),
                Some(next) if next == quote && !self.is_escaped() => break,
                Some(_) => {}
            }
        }
        let inner = &self.input[start..self.at - 1];
        let text = unquote(inner, quote)
            .ok_or_else(|| ParseError::Unquote(self.input[start - 1..self.at].to_owned()))?;
        Ok(Step::Text(Value::String(text)))
    }
}

/// Splits `left operator right` at the first run of operator characters; the right
/// side has at least one character, which the run gives up if it must.
fn comparison(text: &str) -> Option<(&str, &str, &str)> {
    let is_operator = |character| matches!(character, '!' | '<' | '>' | '=');
    let start = text.find(is_operator).filter(|&start| start > 0)?;
    let run = &text[start..];
    let mut length = run.find(|character| !is_operator(character)).unwrap_or(run.len());
    if start + length == text.len() {
        length -= 1;
    }
    (length > 0).then(|| (&text[..start], &run[..length], &run[length..]))
}

fn slice(text: &str) -> Result<Slice, ParseError> {
    let parts: Vec<&str> = text.split(':').collect();
    let is_number = |part: &&str| {
        part.strip_prefix('-').unwrap_or(part).bytes().all(|byte| byte.is_ascii_digit())
    };
    if parts.len() > 3 || !parts.iter().all(is_number) {
        return Err(ParseError::Index(text.to_owned()));
    }
    let number = |part: Option<&&str>| match part {
        None | Some(&"") => Ok(None),
        Some(part) => {
            part.parse::<i64>().map(Some).map_err(|_| ParseError::IndexNumber((*part).to_owned()))
        }
    };
    let start = number(parts.first())?;
    let end = match (parts.get(1), number(parts.get(1))?) {
        (None, _) => End::AfterStart(start.unwrap_or(0).wrapping_add(1)),
        (Some(_), None) => End::Open,
        (Some(_), Some(end)) => End::At(end),
    };
    Ok(Slice { start, end, step: number(parts.get(2))? })
}

/// A text without its quotes and escapes, as Go's `strconv.UnquoteChar` reads them.
fn unquote(text: &str, quote: char) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        if next == quote {
            return None;
        }
        if next != '\\' {
            bytes.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let plain = match rest.next()? {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' => b'\\',
            other if other == quote => u8::try_from(quote).ok()?,
            'x' => u8::try_from(digits(&mut rest, 2, 16)?).ok()?,
            first @ '0'..='7' => {
                let value = first.to_digit(8)? * 64 + digits(&mut rest, 2, 8)?;
                u8::try_from(value).ok()?
            }
            wide @ ('u' | 'U') => {
                let code = digits(&mut rest, if wide == 'u' { 4 } else { 8 }, 16)?;
                let character = char::from_u32(code)?;
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        };
        bytes.push(plain);
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn digits(rest: &mut std::str::Chars<'_>, count: usize, radix: u32) -> Option<u32> {
    (0..count).try_fold(0u32, |value, _| {
        value.checked_mul(radix)?.checked_add(rest.next()?.to_digit(radix)?)
    })
}

fn is_terminator(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn is_alphanumeric(character: char) -> bool {
    character == '_' || character.is_alphabetic() || character.is_numeric()
}

/// A character as Go's `%#U` prints it.
fn shown(character: char) -> String {
    let code = u32::from(character);
    if character.is_control() {
        return format!("U+{code:04X}");
    }
    format!("U+{code:04X} '{character}'")
}
