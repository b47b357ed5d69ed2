//! The grammar of label selectors. Upstream's lexer works on bytes, and its messages
//! quote tokens; both are followed so that the messages agree.

use std::collections::BTreeSet;

use super::{Operator, Requirement, SelectorError, key_fault};
use crate::field::Path;

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Error,
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

#[derive(Debug)]
struct Item {
    token: Token,
    text: String,
}

impl Item {
    /// Where a value may stand, `in` and `notin` are values.
    fn as_value(&self) -> Token {
        match self.token {
            Token::In | Token::NotIn => Token::Identifier,
            ref other => other.clone(),
        }
    }
}

fn special(text: &str) -> Option<Token> {
    Some(match text {
        ")" => Token::Close,
        "," => Token::Comma,
        "!" => Token::Not,
        "==" => Token::DoubleEquals,
        "=" => Token::Equals,
        ">" => Token::Greater,
        "<" => Token::Less,
        "!=" => Token::NotEquals,
        "(" => Token::Open,
        _ => return None,
    })
}

fn is_special(c: char) -> bool {
    "=!(),><".contains(c)
}

fn is_space(c: char) -> bool {
    " \t\r\n".contains(c)
}

/// Takes the text apart; the last item is the end. A NUL ends a token, and the text
/// where a token should start.
fn scan(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(is_space);
        let Some(first) = rest.chars().next().filter(|c| *c != '\0') else {
            items.push(Item { token: Token::End, text: String::new() });
            return items;
        };
        if is_special(first) {
            // Every symbol of one character is a token, and so one is always found.
            let two = rest.get(..2).and_then(|two| Some((special(two)?, two)));
            let one = rest.get(..1).and_then(|one| Some((special(one)?, one)));
            let (token, text) = two.or(one).unwrap_or((Token::Error, rest));
            items.push(Item { token, text: text.to_owned() });
            rest = &rest[text.len()..];
            continue;
        }
        let end = rest.find(|c| is_special(c) || is_space(c) || c == '\0').unwrap_or(rest.len());
        let word = &rest[..end];
        let token = match word {
            "in" => Token::In,
            "notin" => Token::NotIn,
            _ => Token::Identifier,
        };
        items.push(Item { token, text: word.to_owned() });
        rest = rest[end..].strip_prefix('\0').unwrap_or(&rest[end..]);
    }
}

struct Parser<'a> {
    items: Vec<Item>,
    position: usize,
    path: &'a Path,
}

pub(super) fn parse(text: &str, path: &Path) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser { items: scan(text), position: 0, path };
    let mut requirements = Vec::new();
    loop {
        let item = parser.peek();
        match item.as_value() {
            Token::Identifier | Token::Not => {}
            Token::End => return Ok(requirements),
            _ => {
                let expected = "expected: !, identifier, or 'end of string'";
                return Err(found(&item.text, &format!(", {expected}")));
            }
        }
        let requirement = parser
            .requirement()
            .map_err(|error| SelectorError(format!("unable to parse requirement: {error}")))?;
        requirements.push(requirement);
        let item = parser.take();
        match item.token {
            Token::End => return Ok(requirements),
            Token::Comma => {}
            _ => return Err(found(&item.text, ", expected: ',' or 'end of string'")),
        }
        let next = parser.peek();
        if !matches!(next.as_value(), Token::Identifier | Token::Not) {
            return Err(found(&next.text, ", expected: identifier after ','"));
        }
    }
}

fn found(text: &str, expected: &str) -> SelectorError {
    SelectorError(format!("found '{text}'{expected}"))
}

impl Parser<'_> {
    /// The item at the position. The end is never passed: what takes it returns.
    fn peek(&self) -> &Item {
        let last = self.items.len() - 1;
        &self.items[self.position.min(last)]
    }

    fn take(&mut self) -> &Item {
        let at = self.position.min(self.items.len() - 1);
        self.position += 1;
        &self.items[at]
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let (key, unary) = self.key()?;
        if let Some(operator) = unary {
            return Requirement::new(&key, operator, Vec::new(), self.path);
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => BTreeSet::from([self.exact_value()?]),
        };
        Requirement::new(&key, operator, values.into_iter().collect(), self.path)
    }

    /// The key, and the operator where none follows. `!a` takes none: in `!a=b` the
    /// equals sign is then what is not expected.
    fn key(&mut self) -> Result<(String, Option<Operator>), SelectorError> {
        let mut operator = None;
        let mut item = self.take();
        if item.token == Token::Not {
            operator = Some(Operator::DoesNotExist);
            item = self.take();
        }
        if item.as_value() != Token::Identifier {
            return Err(found(&item.text, ", expected: identifier"));
        }
        let key = item.text.clone();
        if let Some(error) = key_fault(&key, self.path) {
            return Err(SelectorError(error.to_string()));
        }
        if operator.is_none() && matches!(self.peek().token, Token::End | Token::Comma) {
            operator = Some(Operator::Exists);
        }
        Ok((key, operator))
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        let item = self.take();
        Ok(match item.token {
            Token::In => Operator::In,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            Token::NotIn => Operator::NotIn,
            Token::NotEquals => Operator::NotEquals,
            _ => return Err(found(&item.text, &format!(", expected: {OPERATORS}"))),
        })
    }

    /// `(x,y)`; nothing between commas is the empty value.
    fn values(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        let item = self.take();
        if item.token != Token::Open {
            return Err(found(&item.text, " expected: '('"));
        }
        let item = self.peek();
        match item.as_value() {
            // The list ends where it sees the closing parenthesis.
            Token::Identifier | Token::Comma => {
                let values = self.value_list()?;
                self.take();
                Ok(values)
            }
            Token::Close => {
                self.take();
                Ok(BTreeSet::from([String::new()]))
            }
            _ => Err(found(&item.text, ", expected: ',', ')' or identifier")),
        }
    }

    fn value_list(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        let mut values = BTreeSet::new();
        loop {
            let item = self.take();
            let (token, text) = (item.as_value(), item.text.clone());
            let next = self.peek();
            match (token, next.as_value()) {
                (Token::Identifier, Token::Comma) => {
                    values.insert(text);
                }
                (Token::Identifier, Token::Close) => {
                    values.insert(text);
                    return Ok(values);
                }
                (Token::Identifier, _) => {
                    return Err(found(&next.text, ", expected: ',' or ')'"));
                }
                (Token::Comma, after) => {
                    if values.is_empty() || matches!(after, Token::Close | Token::Comma) {
                        values.insert(String::new());
                    }
                    if after == Token::Close {
                        return Ok(values);
                    }
                }
                _ => return Err(found(&text, ", expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, SelectorError> {
        if matches!(self.peek().token, Token::End | Token::Comma) {
            return Ok(String::new());
        }
        let item = self.take();
        if item.as_value() == Token::Identifier {
            return Ok(item.text.clone());
        }
        Err(found(&item.text, ", expected: identifier"))
    }
}
