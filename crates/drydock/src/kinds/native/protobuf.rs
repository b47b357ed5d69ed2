//! Bodies in Kubernetes' protobuf, which `kubectl create` and other typed clients send.
//!
//! They are turned into JSON here and go on as if they had come so; answers are JSON always,
//! which every client takes. The numbers and types of fields are the generated table's.
//! Fields the table does not know are skipped, as protobuf has it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use object::time::{Duration, MicroTime, Time};
use serde_json::{Map, Value, json};

use super::{FIELDS, TABLES};

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";
/// How deep messages may nest.
const DEPTH_MAX: usize = 64;

/// A field of a message: its name in JSON, empty where its fields stand in its place, and type.
type Field = (&'static str, &'static str);
type Message = BTreeMap<u64, Field>;

static MESSAGES: LazyLock<BTreeMap<&'static str, Message>> = LazyLock::new(|| {
    let lines = FIELDS.lines().filter_map(|line| {
        let (name, _) = line.split_once(' ')?;
        let (_, numbers) = line.split_once('\t')?;
        let numbers: BTreeMap<String, &'static str> = serde_json::from_str(numbers).ok()?;
        let fields = numbers
            .into_iter()
            .filter_map(|(number, field)| Some((number.parse().ok()?, field.split_once(' ')?)));
        Some((name, fields.collect()))
    });
    lines.collect()
});

/// Reads a body as the object it holds.
///
/// # Errors
/// When it is cut short, malformed, or of a kind nobody knows.
pub fn decode(body: &[u8]) -> Result<Value, String> {
    let envelope = body.strip_prefix(MAGIC).ok_or("it does not begin with the bytes k8s\\0")?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for entry in Entries(envelope) {
        match entry? {
            (1, Wire::Bytes(type_meta)) => {
                for entry in Entries(type_meta) {
                    match entry? {
                        (1, Wire::Bytes(bytes)) => api_version = text(bytes)?,
                        (2, Wire::Bytes(bytes)) => kind = text(bytes)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let name = message_name(&api_version, &kind)
        .ok_or_else(|| format!("nobody knows the kind {kind:?} of version {api_version:?}"))?;
    let mut object = message(&name, raw, 0)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

fn message_name(api_version: &str, kind: &str) -> Option<String> {
    if kind == "DeleteOptions" {
        // It belongs to every group.
        return Some("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions".to_owned());
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let schema = TABLES.definitions.of_kind(group, version, kind)?;
    schema.root().name().map(str::to_owned)
}

fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, String> {
    if depth > DEPTH_MAX {
        return Err(format!("it nests deeper than {DEPTH_MAX} messages"));
    }
    let mut object = Map::new();
    let Some(fields) = MESSAGES.get(name) else { return Ok(object) };
    for entry in Entries(bytes) {
        let (number, wire) = entry?;
        let Some((name, kind)) = fields.get(&number) else { continue };
        if let Some(element) = kind.strip_prefix('[') {
            let list = object.entry(*name).or_insert_with(|| json!([]));
            let items = elements(element, wire, depth)?;
            list.as_array_mut().into_iter().for_each(|list| list.extend(items.clone()));
        } else if let (Some(element), Wire::Bytes(bytes)) = (kind.strip_prefix('{'), wire) {
            let (key, value) = map_entry(element, bytes, depth)?;
            object.entry(*name).or_insert_with(|| json!({}))[key] = value;
        } else if name.is_empty() {
            if let Value::Object(inline) = value(kind, wire, depth)? {
                object.extend(inline);
            }
        } else {
            object.insert((*name).to_owned(), value(kind, wire, depth)?);
        }
    }
    Ok(object)
}

/// The elements of a list that one entry brings: one, or several packed numbers.
fn elements(kind: &str, wire: Wire<'_>, depth: usize) -> Result<Vec<Value>, String> {
    if let ("i", Wire::Bytes(mut bytes)) = (kind, wire) {
        let mut numbers = Vec::new();
        while !bytes.is_empty() {
            numbers.push(value(kind, Wire::Number(varint(&mut bytes)?), depth)?);
        }
        return Ok(numbers);
    }
    Ok(vec![value(kind, wire, depth)?])
}

fn map_entry(kind: &str, bytes: &[u8], depth: usize) -> Result<(String, Value), String> {
    // What is absent is empty.
    let empty = match kind {
        "b" | "i" => Wire::Number(0),
        "d" => Wire::Fixed(0),
        _ => Wire::Bytes(&[]),
    };
    let (mut key, mut held) = (String::new(), empty);
    for entry in Entries(bytes) {
        match entry? {
            (1, Wire::Bytes(bytes)) => key = text(bytes)?,
            (2, wire) => held = wire,
            _ => {}
        }
    }
    Ok((key, value(kind, held, depth)?))
}

fn value(kind: &str, wire: Wire<'_>, depth: usize) -> Result<Value, String> {
    match (kind, wire) {
        ("b", Wire::Number(number)) => Ok((number != 0).into()),
        // Negative numbers come as the ten bytes of their two's complement.
        ("i", Wire::Number(number)) => Ok(number.cast_signed().into()),
        ("d", Wire::Fixed(bits)) => Ok(f64::from_bits(bits).into()),
        ("s", Wire::Bytes(bytes)) => Ok(text(bytes)?.into()),
        ("y", Wire::Bytes(bytes)) => Ok(BASE64_STANDARD.encode(bytes).into()),
        ("q", Wire::Bytes(bytes)) => Ok(text(only(bytes)?)?.into()),
        ("t" | "u", Wire::Bytes(bytes)) => time(kind, bytes),
        ("n", Wire::Bytes(bytes)) => Ok(Duration::from_nanos(number(bytes, 1)?).to_string().into()),
        ("x", Wire::Bytes(bytes)) => int_or_string(bytes),
        ("r", Wire::Bytes(bytes)) => {
            serde_json::from_slice(only(bytes)?).map_err(|error| format!("raw JSON: {error}"))
        }
        (kind, Wire::Bytes(bytes)) => match kind.strip_prefix("m:") {
            Some(name) => message(name, bytes, depth + 1).map(Value::Object),
            None => Err("a field has another type than its kind says".to_owned()),
        },
        _ => Err("a field has another type than its kind says".to_owned()),
    }
}

/// The bytes of field 1, the only one.
fn only(bytes: &[u8]) -> Result<&[u8], String> {
    for entry in Entries(bytes) {
        if let (1, Wire::Bytes(inner)) = entry? {
            return Ok(inner);
        }
    }
    Ok(&[])
}

fn number(bytes: &[u8], wanted: u64) -> Result<i64, String> {
    for entry in Entries(bytes) {
        if let (found, Wire::Number(number)) = entry?
            && found == wanted
        {
            return Ok(number.cast_signed());
        }
    }
    Ok(0)
}

fn time(kind: &str, bytes: &[u8]) -> Result<Value, String> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(number(bytes, 2)?).map_err(|_| "a time has too many nanoseconds")?;
    let time = Timestamp::new(number(bytes, 1)?, nanos).map_err(|error| error.to_string())?;
    let written =
        if kind == "t" { Time::from(time).to_string() } else { MicroTime::from(time).to_string() };
    Ok(written.into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    if number(bytes, 1)? == 0 {
        return Ok(number(bytes, 2)?.into());
    }
    for entry in Entries(bytes) {
        if let (3, Wire::Bytes(inner)) = entry? {
            return Ok(text(inner)?.into());
        }
    }
    Ok("".into())
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a text is not valid UTF-8".to_owned())
}

/// A value as it stands on the wire.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

/// The entries of a message.
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(u64, Wire<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.0 = &[];
        }
        Some(entry)
    }
}

impl<'a> Entries<'a> {
    fn entry(&mut self) -> Result<(u64, Wire<'a>), String> {
        let tag = varint(&mut self.0)?;
        let wire = match tag & 7 {
            0 => Wire::Number(varint(&mut self.0)?),
            1 => Wire::Fixed(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = varint(&mut self.0)?;
                let length = usize::try_from(length).map_err(|_| CUT_SHORT.to_owned())?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed(u64::from(u32::from_le_bytes(self.array()?))),
            other => return Err(format!("there is no wire type {other}")),
        };
        Ok((tag >> 3, wire))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (head, tail) = self.0.split_at_checked(length).ok_or(CUT_SHORT)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (head, tail) = self.0.split_first_chunk().ok_or(CUT_SHORT)?;
        self.0 = tail;
        Ok(*head)
    }
}

const CUT_SHORT: &str = "it is cut short";

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(CUT_SHORT)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("a number is longer than ten bytes".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(number: u8, inner: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(inner.len()).unwrap()];
        out.extend_from_slice(inner);
        out
    }

    fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
        let types = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), bytes(1, &types), bytes(2, object)].concat()
    }

    #[test]
    fn a_message_becomes_the_json_it_stands_for() {
        let labels = bytes(11, &[bytes(1, b"a"), bytes(2, b"b")].concat());
        let metadata = bytes(1, &[bytes(1, b"web"), labels].concat());
        let object = decode(&body("v1", "Namespace", &metadata)).unwrap();
        let expected = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "web", "labels": {"a": "b"}},
        });
        assert_eq!(object, expected);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let check = |given: &[u8], text: &str| assert_eq!(decode(given).unwrap_err(), text);
        check(b"{}", "it does not begin with the bytes k8s\\0");
        check(b"k8s\0\x0a\xff", "it is cut short");
        check(&body("v1", "Nothing", b""), "nobody knows the kind \"Nothing\" of version \"v1\"");
        check(&body("v1", "Namespace", b"\x0f"), "there is no wire type 7");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(given in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&given);
            let _ = decode(&[MAGIC, given.as_slice()].concat());
            let _ = decode(&body("v1", "Pod", &given[..given.len().min(100)]));
        }
    }
}
