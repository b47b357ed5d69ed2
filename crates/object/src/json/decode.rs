//! The decoder: an explicit stack instead of recursion, so that a hostile document
//! costs memory in proportion to its bytes and no stack.

use serde_json::{Map, Number, Value};

use super::{DUPLICATES_MAX, DecodeError, Decoded, Limits, Problem};
use crate::field::Texts;

/// Reads one document.
///
/// Text that is not UTF-8 is read as Go reads it, with U+FFFD for each bad byte.
/// An integer that fits 64 bits with a sign stays an integer, any other number is a float.
///
/// # Errors
/// When the bytes are not one JSON value, nest too deep, or hold a number beyond
/// what a float can hold.
pub fn decode(bytes: &[u8], limits: Limits) -> Result<Decoded, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut open: Vec<Open> = Vec::new();
    let mut duplicates = Texts::at_most(DUPLICATES_MAX);
    let value = 'value: loop {
        let Some(mut done) = reader.begin(&mut open, limits, &mut duplicates)? else { continue };
        // The value may be the last of its container, which then is a value itself.
        while let Some(mut container) = open.pop() {
            container.push(done);
            if reader.next_element(&mut container, &open, &mut duplicates)? {
                open.push(container);
                continue 'value;
            }
            done = container.close();
        }
        break done;
    };
    reader.end()?;
    match reader.too_large {
        Some(error) => Err(error),
        None => Ok(Decoded { value, duplicates: duplicates.into_list() }),
    }
}

/// A list or map whose end has not been read.
enum Open {
    List(Vec<Value>),
    Map { fields: Map<String, Value>, key: String },
}

impl Open {
    fn push(&mut self, value: Value) {
        match self {
            Self::List(items) => items.push(value),
            Self::Map { fields, key } => {
                fields.insert(std::mem::take(key), value);
            }
        }
    }

    fn close(self) -> Value {
        match self {
            Self::List(items) => Value::Array(items),
            Self::Map { fields, .. } => Value::Object(fields),
        }
    }
}

/// Records that `key` is in `fields` already, with the path upstream prints.
fn note_duplicate(fields: &Map<String, Value>, key: &str, open: &[Open], into: &mut Texts) {
    if fields.contains_key(key) {
        into.add(|| path_of(key, open));
    }
}

fn path_of(key: &str, open: &[Open]) -> String {
    let mut path = String::new();
    for container in open {
        match container {
            Open::List(items) => path.push_str(&format!("[{}]", items.len())),
            Open::Map { key, .. } => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
        }
    }
    if !open.is_empty() {
        path.push('.');
    }
    path.push_str(key);
    path
}

pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// A number out of range; syntax errors that come later take precedence, as in Go.
    too_large: Option<DecodeError>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, too_large: None }
    }

    /// How many bytes have been read, the present one included.
    pub(super) fn offset(&self) -> usize {
        self.at + 1
    }

    /// Goes on by one byte.
    pub(super) fn step(&mut self) {
        self.at += 1;
    }

    /// Reads a scalar whole, or opens a list or map and reads up to its first element.
    fn begin(
        &mut self,
        open: &mut Vec<Open>,
        limits: Limits,
        duplicates: &mut Texts,
    ) -> Result<Option<Value>, DecodeError> {
        self.skip_space();
        let Some(first) = self.peek() else { return Err(self.ended()) };
        match first {
            b'{' | b'[' => {
                self.at += 1;
                if open.len() >= limits.depth_max {
                    let problem = Problem::TooDeep { max: limits.depth_max };
                    return Err(DecodeError { offset: self.at, problem });
                }
                self.skip_space();
                match (first, self.peek()) {
                    (_, None) => Err(self.ended()),
                    (b'[', Some(b']')) => {
                        self.at += 1;
                        Ok(Some(Value::Array(Vec::new())))
                    }
                    (b'[', Some(_)) => {
                        open.push(Open::List(Vec::new()));
                        Ok(None)
                    }
                    (_, Some(b'}')) => {
                        self.at += 1;
                        Ok(Some(Value::Object(Map::new())))
                    }
                    (_, Some(_)) => {
                        let fields = Map::new();
                        let key = self.key(&fields, open, duplicates)?;
                        open.push(Open::Map { fields, key });
                        Ok(None)
                    }
                }
            }
            _ => self.scalar().map(Some),
        }
    }

    /// Reads what is no list or map.
    pub(super) fn scalar(&mut self) -> Result<Value, DecodeError> {
        match self.peek() {
            None => Err(self.ended()),
            Some(b'"') => self.text().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true", TRUE, Value::Bool(true)),
            Some(b'f') => self.word(b"false", FALSE, Value::Bool(false)),
            Some(b'n') => self.word(b"null", NULL, Value::Null),
            Some(_) => Err(self.unexpected("looking for beginning of value")),
        }
    }

    /// After a value: true when `container` has another element, which is next.
    fn next_element(
        &mut self,
        container: &mut Open,
        open: &[Open],
        duplicates: &mut Texts,
    ) -> Result<bool, DecodeError> {
        self.skip_space();
        let next = self.peek();
        match (container, next) {
            (_, None) => Err(self.ended()),
            (Open::List(_), Some(b']')) | (Open::Map { .. }, Some(b'}')) => {
                self.at += 1;
                Ok(false)
            }
            (Open::List(_), Some(b',')) => {
                self.at += 1;
                Ok(true)
            }
            (Open::Map { fields, key }, Some(b',')) => {
                self.at += 1;
                self.skip_space();
                *key = self.key(fields, open, duplicates)?;
                Ok(true)
            }
            (Open::List(_), Some(_)) => Err(self.unexpected("after array element")),
            (Open::Map { .. }, Some(_)) => Err(self.unexpected("after object key:value pair")),
        }
    }

    /// Reads a key and its colon.
    fn key(
        &mut self,
        fields: &Map<String, Value>,
        open: &[Open],
        duplicates: &mut Texts,
    ) -> Result<String, DecodeError> {
        let key = self.bare_key()?;
        note_duplicate(fields, &key, open, duplicates);
        Ok(key)
    }

    /// Reads a key and its colon, whatever keys there were before.
    pub(super) fn bare_key(&mut self) -> Result<String, DecodeError> {
        match self.peek() {
            None => return Err(self.ended()),
            Some(b'"') => {}
            Some(_) => return Err(self.unexpected("looking for beginning of object key string")),
        }
        let key = self.text()?;
        self.skip_space();
        match self.peek() {
            None => return Err(self.ended()),
            Some(b':') => self.at += 1,
            Some(_) => return Err(self.unexpected("after object key")),
        }
        Ok(key)
    }

    fn text(&mut self) -> Result<String, DecodeError> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                None => return Err(self.ended()),
                Some(b'"') => {
                    let text = lossy(&self.bytes[start..self.at]);
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => return self.escaped_text(start),
                Some(0..=0x1f) => return Err(self.unexpected("in string literal")),
                Some(_) => self.at += 1,
            }
        }
    }

    /// The rest of a text that has at least one escape.
    fn escaped_text(&mut self, start: usize) -> Result<String, DecodeError> {
        let mut text = self.bytes[start..self.at].to_vec();
        loop {
            match self.peek() {
                None => return Err(self.ended()),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(lossy(&text));
                }
                Some(b'\\') => self.escape(&mut text)?,
                Some(0..=0x1f) => return Err(self.unexpected("in string literal")),
                Some(byte) => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, into: &mut Vec<u8>) -> Result<(), DecodeError> {
        self.at += 1;
        let plain = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                let character = self.unicode_escape()?;
                into.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        into.push(plain);
        self.at += 1;
        Ok(())
    }

    /// The character of `\uXXXX`, joined with a second escape where the two are a
    /// surrogate pair; half a pair is U+FFFD.
    fn unicode_escape(&mut self) -> Result<char, DecodeError> {
        let first = self.four_hex_digits()?;
        if let Some(character) = char::from_u32(first) {
            return Ok(character);
        }
        let after = self.at;
        if first < 0xdc00 && self.bytes[after..].starts_with(b"\\u") {
            self.at += 2;
            let second = self.four_hex_digits()?;
            if (0xdc00..0xe000).contains(&second) {
                let joined = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = after;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn four_hex_digits(&mut self) -> Result<u32, DecodeError> {
        let mut number = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.unexpected("in \\u hexadecimal character escape"));
            };
            number = number * 16 + digit;
            self.at += 1;
        }
        Ok(number)
    }

    fn number(&mut self) -> Result<Value, DecodeError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        let mut whole = true;
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.unexpected("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.unexpected("in exponent of numeric literal"));
            }
            self.digits();
        }
        let literal = str::from_utf8(&self.bytes[start..self.at])
            .expect("a number was read as ASCII digits and signs");
        if whole && let Ok(integer) = literal.parse::<i64>() {
            return Ok(Value::from(integer));
        }
        let number = literal.parse::<f64>().ok().and_then(Number::from_f64);
        if number.is_none() {
            let problem = Problem::NumberRange { literal: literal.to_owned() };
            self.too_large.get_or_insert(DecodeError { offset: self.at, problem });
        }
        Ok(number.map_or(Value::Null, Value::Number))
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn word(
        &mut self,
        word: &[u8],
        expected: &[&'static str],
        value: Value,
    ) -> Result<Value, DecodeError> {
        self.at += 1;
        for (&letter, expected) in word[1..].iter().zip(expected) {
            if self.peek() != Some(letter) {
                return Err(self.unexpected(expected));
            }
            self.at += 1;
        }
        Ok(value)
    }

    pub(super) fn end(&mut self) -> Result<(), DecodeError> {
        self.skip_space();
        if self.peek().is_some() {
            return Err(self.unexpected("after top-level value"));
        }
        Ok(())
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    pub(super) fn ended(&self) -> DecodeError {
        DecodeError { offset: self.bytes.len(), problem: Problem::Ended }
    }

    /// The error at the present byte. Go feeds its scanner a space at the end of
    /// input, so a literal that is cut short is told as a space in it.
    pub(super) fn unexpected(&self, expected: &'static str) -> DecodeError {
        let byte = self.peek().unwrap_or(b' ');
        let found = match byte {
            b'\'' => "'\\''".to_owned(),
            b'"' => "'\"'".to_owned(),
            _ => {
                let quoted = super::quoted(char::from(byte).encode_utf8(&mut [0; 4]));
                format!("'{}'", &quoted[1..quoted.len() - 1])
            }
        };
        let offset = self.bytes.len().min(self.at + 1);
        DecodeError { offset, problem: Problem::Unexpected { found, expected } }
    }
}

const TRUE: &[&str] = &[
    "in literal true (expecting 'r')",
    "in literal true (expecting 'u')",
    "in literal true (expecting 'e')",
];
const FALSE: &[&str] = &[
    "in literal false (expecting 'a')",
    "in literal false (expecting 'l')",
    "in literal false (expecting 's')",
    "in literal false (expecting 'e')",
];
const NULL: &[&str] = &[
    "in literal null (expecting 'u')",
    "in literal null (expecting 'l')",
    "in literal null (expecting 'l')",
];

/// Bytes as text, with one U+FFFD for each byte that is not UTF-8, as Go has it.
fn lossy(bytes: &[u8]) -> String {
    if let Ok(text) = str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}
