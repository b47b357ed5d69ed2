//! The encoder: compact, keys sorted, and byte for byte what Go writes.

use serde_json::{Number, Value};

/// The document as Go's encoder writes it: compact, keys in order, `<`, `>` and `&`
/// escaped, floats without a needless `.0`.
#[must_use]
pub fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    encode_into(value, &mut bytes);
    bytes
}

/// Appends what [`encode`] gives to `out`.
pub fn encode_into(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => out.extend_from_slice(number_text(number).as_bytes()),
        Value::String(text) => string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                encode_into(item, out);
            }
            out.push(b']');
        }
        Value::Object(fields) => {
            out.push(b'{');
            for (index, (key, field)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                string(key, out);
                out.push(b':');
                encode_into(field, out);
            }
            out.push(b'}');
        }
    }
}

/// Go writes very large and very small floats with an exponent, others without.
fn number_text(number: &Number) -> String {
    if !number.is_f64() {
        return number.to_string();
    }
    let float = number.as_f64().unwrap_or_default();
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{float:e}");
        return if text.contains("e-") { text } else { text.replace('e', "e+") };
    }
    format!("{float}")
}

fn string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut copied = 0;
    for (index, &byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            0..=0x1f | b'<' | b'>' | b'&' => 0,
            // U+2028 and U+2029 end a line in JavaScript, so Go escapes them.
            0xe2 if matches!(bytes[index..], [_, 0x80, 0xa8 | 0xa9, ..]) => 1,
            _ => continue,
        };
        // After an escaped U+2028 the copied part begins beyond its three bytes.
        out.extend_from_slice(&bytes[copied..index]);
        copied = index + 1;
        match short {
            0 => {
                out.extend_from_slice(b"\\u00");
                out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            1 => {
                out.extend_from_slice(b"\\u202");
                out.push(HEX[usize::from(bytes[index + 2] & 15)]);
                copied = index + 3;
            }
            _ => out.extend([b'\\', short]),
        }
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}
