//! What decoding into Go structs does to an object of a native kind: wrong types are
//! refused in the words of Go's decoder, unknown fields are seen, nulls vanish.
//!
//! The names of Go types are derived from the names of definitions; where a field has
//! a named text type (`v1.RestartPolicy`) the documents do not tell, and the message
//! says `string`.

use std::fmt::Write as _;

use serde_json::{Number, Value};

use super::node::{Arena, Data, Id, Kind, Schema, Values};
use super::trail::Trail;
use crate::field::Texts;
use crate::json::json_type;

/// A value that cannot be decoded into the type of its field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecodeError {
    message: String,
}

/// Checks that `value` decodes into the native type `schema` describes, and returns
/// the paths of its unknown fields, such as `spec.containers[0].bar`, up to a
/// quarter of a megabyte of text.
///
/// # Errors
///
/// The first value of the wrong type, as Go's decoder says it.
pub fn decode_check(schema: &Schema, value: &Value) -> Result<Vec<String>, DecodeError> {
    let mut walk = Walk { arena: &schema.arena, unknown: Texts::at_most(usize::MAX) };
    walk.node(schema.root, value, &Owner { arena: &schema.arena, data: None }, &Trail::ROOT)?;
    Ok(walk.unknown.into_list())
}

/// The struct whose field is being decoded.
struct Owner<'a> {
    arena: &'a Arena,
    data: Option<&'a Data>,
}

struct Walk<'a> {
    arena: &'a Arena,
    unknown: Texts,
}

impl<'a> Walk<'a> {
    fn node(
        &mut self,
        id: Id,
        value: &Value,
        owner: &Owner<'a>,
        trail: &Trail<'_>,
    ) -> Result<(), DecodeError> {
        let data = self.arena.at(id);
        if value.is_null() {
            return Ok(());
        }
        if trail.too_deep() {
            return Err(plain(format!("json: exceeded max depth of {}", super::DEPTH_MAX)));
        }
        let refused = |go_type: &str| Err(owner.mismatch(value, go_type, trail));
        match (data.kind, value) {
            (Kind::Any | Kind::RawExtension | Kind::FieldsV1 | Kind::Json, _)
            | (Kind::String, Value::String(_))
            | (Kind::Boolean, Value::Bool(_))
            | (Kind::Number, Value::Number(_))
            | (Kind::IntOrString, Value::String(_)) => {
                if data.kind == Kind::String && data.format.as_deref() == Some("byte") {
                    return base64(value);
                }
                Ok(())
            }
            (Kind::Object, Value::Object(_)) => self.object(data, value, owner, trail),
            (Kind::Array, Value::Array(list)) => {
                let Some(items) = data.items else { return Ok(()) };
                for (index, value) in list.iter().enumerate() {
                    self.node(items, value, owner, &trail.index(index))?;
                }
                Ok(())
            }
            (Kind::Integer, Value::Number(number)) => {
                let narrow = data.format.as_deref() == Some("int32");
                if fits(number, narrow) {
                    return Ok(());
                }
                let go_type = if narrow { "int32" } else { "int64" };
                Err(owner.error(&format!("number {number}"), go_type, trail))
            }
            (Kind::IntOrString, Value::Number(number)) if fits(number, true) => Ok(()),
            (Kind::IntOrString, Value::Number(number)) => {
                Err(owner.error(&format!("number {number}"), "int32", trail))
            }
            (Kind::IntOrString, _) => refused("int32"),
            (Kind::Quantity, value) => quantity(value),
            (Kind::Time | Kind::MicroTime, Value::String(text)) => time(text, data.kind),
            (Kind::Time | Kind::MicroTime, _) => refused("string"),
            _ => refused(&go_type(self.arena, data, 0)),
        }
    }

    fn object(
        &mut self,
        data: &'a Data,
        value: &Value,
        owner: &Owner<'a>,
        trail: &Trail<'_>,
    ) -> Result<(), DecodeError> {
        let inside = Owner { arena: self.arena, data: Some(data) };
        for (key, value) in value.as_object().into_iter().flatten() {
            if let Some(id) = data.field(key) {
                self.node(id, value, &inside, &trail.field(key))?;
            } else if let Some(id) = data.value_id() {
                self.node(id, value, owner, &trail.key(key))?;
            } else if data.values == Values::Unstated && !data.preserve {
                self.unknown.add(|| trail.field(key).strict_path());
            }
        }
        Ok(())
    }
}

impl Owner<'_> {
    fn mismatch(&self, value: &Value, go_type: &str, trail: &Trail<'_>) -> DecodeError {
        self.error(json_type(value), go_type, trail)
    }

    fn error(&self, actual: &str, go_type: &str, trail: &Trail<'_>) -> DecodeError {
        let mut message = format!("json: cannot unmarshal {actual} into Go ");
        match self.data {
            None => message.push_str("value"),
            Some(data) => {
                let full = go_type_of(self.arena, data);
                let name = full.rsplit('.').next().unwrap_or_default();
                let _ = write!(message, "struct field {name}.{}", trail.go_fields());
            }
        }
        let _ = write!(message, " of type {go_type}");
        plain(message)
    }
}

fn plain(message: String) -> DecodeError {
    DecodeError { message }
}

fn fits(number: &Number, narrow: bool) -> bool {
    number.as_i64().is_some_and(|number| !narrow || i32::try_from(number).is_ok())
}

fn go_type_of(arena: &Arena, data: &Data) -> String {
    go_type(arena, data, 0)
}

/// The Go type of a field, as far as the documents tell.
fn go_type(arena: &Arena, data: &Data, depth: usize) -> String {
    if let Some(name) = &data.name {
        let mut parts = name.rsplit('.');
        let (last, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        return if package.is_empty() { last.to_owned() } else { format!("{package}.{last}") };
    }
    let inner = |id: Option<Id>| match id {
        Some(id) if depth < super::DEPTH_MAX / 4 => go_type(arena, arena.at(id), depth + 1),
        _ => "interface {}".to_owned(),
    };
    match data.kind {
        Kind::String if data.format.as_deref() == Some("byte") => "[]uint8".to_owned(),
        Kind::String => "string".to_owned(),
        Kind::Integer if data.format.as_deref() == Some("int32") => "int32".to_owned(),
        Kind::Integer => "int64".to_owned(),
        Kind::Number => "float64".to_owned(),
        Kind::Boolean => "bool".to_owned(),
        Kind::Array => format!("[]{}", inner(data.items)),
        Kind::Object if data.fields.is_empty() => match inner(data.value_id()) {
            // The one map type that has a name wherever it is used.
            quantities if quantities == "resource.Quantity" => "v1.ResourceList".to_owned(),
            values => format!("map[string]{values}"),
        },
        Kind::Object => "struct".to_owned(),
        Kind::IntOrString => "intstr.IntOrString".to_owned(),
        Kind::Quantity => "resource.Quantity".to_owned(),
        Kind::Time => "v1.Time".to_owned(),
        Kind::MicroTime => "v1.MicroTime".to_owned(),
        Kind::Any | Kind::RawExtension | Kind::FieldsV1 | Kind::Json => "interface {}".to_owned(),
    }
}

/// The place where Go's decoder gives up on a text that is not base64.
fn base64(value: &Value) -> Result<(), DecodeError> {
    let text = value.as_str().unwrap_or_default();
    // Line breaks are skipped, but counted.
    let bytes: Vec<(usize, u8)> =
        text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\n' | b'\r')).collect();
    let illegal = |at: usize| Err(plain(format!("illegal base64 data at input byte {at}")));
    let alphabet = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    for group in bytes.chunks(4) {
        let good = group.iter().take_while(|(_, byte)| alphabet(*byte)).count();
        let rest = &group[good..];
        match (good, rest) {
            (4, _) => {}
            (2, [(_, b'='), (_, b'=')]) | (3, [(_, b'=')]) => {
                let last = group.last().map_or(0, |(at, _)| *at);
                if let Some((at, _)) = bytes.iter().find(|(at, _)| *at > last) {
                    return illegal(*at);
                }
            }
            (_, []) => return illegal(text.len() - good),
            (2, [(_, b'=')]) => return illegal(text.len()),
            (2, [(_, b'='), (at, _)]) | (_, [(at, _), ..]) => return illegal(*at),
        }
    }
    Ok(())
}

fn quantity(value: &Value) -> Result<(), DecodeError> {
    const FORM: &str = "quantities must match the regular expression \
                        '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let whole = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let suffix = match whole.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => whole,
    };
    let digits = unsigned[..unsigned.len() - suffix.len()].bytes().any(|b| b.is_ascii_digit());
    let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let exponent = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    if text.is_empty() || !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(plain(FORM.to_owned()));
    }
    let known = match suffix {
        "" | "n" | "u" | "m" | "k" | "M" | "G" | "T" | "P" | "E" => true,
        "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => true,
        other => other.strip_prefix(['e', 'E']).is_some_and(|power| {
            let power = power.strip_prefix(['+', '-']).unwrap_or(power);
            power.bytes().all(|byte| byte.is_ascii_digit()) && power.parse::<i64>().is_ok()
        }),
    };
    if !known {
        return Err(plain("unable to parse quantity's suffix".to_owned()));
    }
    if digits { Ok(()) } else { Err(plain(FORM.to_owned())) }
}

/// A time in RFC 3339, refused as Go's `time.Parse` refuses it.
fn time(text: &str, kind: Kind) -> Result<(), DecodeError> {
    let layout = match kind {
        Kind::MicroTime => "2006-01-02T15:04:05.000000Z07:00",
        _ => "2006-01-02T15:04:05Z07:00",
    };
    let fail = |rest: &str, element: &str| {
        let why =
            format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}");
        Err(plain(why))
    };
    let out_of_range =
        |what: &str| Err(plain(format!("parsing time {text:?}: {what} out of range")));
    let mut rest = text;
    let mut numbers = [0u32; 6];
    let elements = [
        ("2006", 4, "-"),
        ("01", 2, "-"),
        ("02", 2, "T"),
        ("15", 2, ":"),
        ("04", 2, ":"),
        ("05", 2, ""),
    ];
    for (slot, (element, width, separator)) in numbers.iter_mut().zip(elements) {
        match rest.get(..width).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit())) {
            Some(part) => *slot = part.parse().unwrap_or_default(),
            None => return fail(rest, element),
        }
        rest = &rest[width..];
        match rest.strip_prefix(separator) {
            Some(after) => rest = after,
            None => return fail(rest, separator),
        }
    }
    let fraction =
        rest.strip_prefix('.').map(|after| after.trim_start_matches(|c: char| c.is_ascii_digit()));
    match (kind, fraction) {
        (Kind::MicroTime, None) => return fail(rest, ".000000"),
        (_, Some(after)) if after.len() + 1 < rest.len() => rest = after,
        _ => {}
    }
    if !zone(rest) {
        return fail(rest, "Z07:00");
    }
    let [year, month, day, hour, minute, second] = numbers;
    let date = |day: u32| {
        let (year, month) = (i16::try_from(year).ok()?, i8::try_from(month).ok()?);
        jiff::civil::Date::new(year, month, i8::try_from(day).ok()?).ok()
    };
    match () {
        () if !(1..=12).contains(&month) => out_of_range("month"),
        () if hour > 23 => out_of_range("hour"),
        () if minute > 59 => out_of_range("minute"),
        () if second > 59 => out_of_range("second"),
        () if date(day).is_none() => out_of_range("day"),
        () => Ok(()),
    }
}

fn zone(text: &str) -> bool {
    if text == "Z" {
        return true;
    }
    let Some(offset) = text.strip_prefix(['+', '-']) else { return false };
    let bytes = offset.as_bytes();
    bytes.len() == 5
        && bytes[2] == b':'
        && bytes.iter().enumerate().all(|(at, byte)| at == 2 || byte.is_ascii_digit())
}

/// Drops what null stands for: a field that is null is absent, a null in a list or
/// map is the zero value of its type. What is kept whole keeps its nulls.
pub fn drop_nulls(schema: &Schema, value: &mut Value) {
    nulls(&schema.arena, schema.root, value, 0);
}

fn nulls(arena: &Arena, id: Id, value: &mut Value, depth: usize) {
    let data = arena.at(id);
    if depth >= super::DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(map) if data.kind == Kind::Object => {
            map.retain(|key, value| !value.is_null() || data.field(key).is_none());
            for (key, value) in map.iter_mut() {
                let Some(id) = data.child(key) else { continue };
                zero(arena.at(id), value);
                nulls(arena, id, value, depth + 1);
            }
        }
        Value::Array(list) if data.kind == Kind::Array => {
            let Some(items) = data.items else { return };
            for value in list {
                zero(arena.at(items), value);
                nulls(arena, items, value, depth + 1);
            }
        }
        _ => {}
    }
}

fn zero(data: &Data, value: &mut Value) {
    if !value.is_null() {
        return;
    }
    *value = match data.kind {
        Kind::String if data.format.as_deref() != Some("byte") => "".into(),
        Kind::Integer | Kind::Number | Kind::IntOrString => 0.into(),
        Kind::Boolean => false.into(),
        Kind::Quantity => "0".into(),
        Kind::Object if !data.fields.is_empty() => Value::Object(serde_json::Map::new()),
        _ => return,
    };
}
