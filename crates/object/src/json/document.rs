//! A document with its keys as they are written: in order, and as often as they come.

use serde_json::Value;

use super::decode::Reader;
use super::{DecodeError, Limits, Problem};

/// A document whose maps keep the order and the repetition of their keys.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// A text, a number, a truth value or null.
    Scalar(Value),
    /// A list.
    List(Vec<Document>),
    /// A map, key by key.
    Map(Vec<(String, Document)>),
}

/// Reads one document, keeping what a decoder drops. For the few documents of which something
/// has to be told; [`super::decode`] is the way to read the others.
///
/// # Errors
/// When the bytes are not one JSON value or nest too deep.
pub fn document(bytes: &[u8], limits: Limits) -> Result<Document, DecodeError> {
    let mut reader = Reader::new(bytes);
    let document = value(&mut reader, limits, 0)?;
    reader.end()?;
    Ok(document)
}

fn value(reader: &mut Reader<'_>, limits: Limits, depth: usize) -> Result<Document, DecodeError> {
    reader.skip_space();
    match reader.peek() {
        Some(b'{' | b'[') if depth >= limits.depth_max => {
            let problem = Problem::TooDeep { max: limits.depth_max };
            Err(DecodeError { offset: reader.offset(), problem })
        }
        Some(b'{') => map(reader, limits, depth + 1),
        Some(b'[') => list(reader, limits, depth + 1),
        _ => reader.scalar().map(Document::Scalar),
    }
}

fn list(reader: &mut Reader<'_>, limits: Limits, depth: usize) -> Result<Document, DecodeError> {
    let mut items = Vec::new();
    reader.step();
    reader.skip_space();
    if reader.peek() == Some(b']') {
        reader.step();
        return Ok(Document::List(items));
    }
    loop {
        items.push(value(reader, limits, depth)?);
        reader.skip_space();
        match reader.peek() {
            Some(b',') => reader.step(),
            Some(b']') => {
                reader.step();
                return Ok(Document::List(items));
            }
            None => return Err(reader.ended()),
            Some(_) => return Err(reader.unexpected("after array element")),
        }
    }
}

fn map(reader: &mut Reader<'_>, limits: Limits, depth: usize) -> Result<Document, DecodeError> {
    let mut fields = Vec::new();
    reader.step();
    reader.skip_space();
    if reader.peek() == Some(b'}') {
        reader.step();
        return Ok(Document::Map(fields));
    }
    loop {
        reader.skip_space();
        let key = reader.bare_key()?;
        fields.push((key, value(reader, limits, depth)?));
        reader.skip_space();
        match reader.peek() {
            Some(b',') => reader.step(),
            Some(b'}') => {
                reader.step();
                return Ok(Document::Map(fields));
            }
            None => return Err(reader.ended()),
            Some(_) => return Err(reader.unexpected("after object key:value pair")),
        }
    }
}
