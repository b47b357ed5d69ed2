//! The `fieldPath` of a rule: fields as `.name`, keys of maps as `['key']`.

use super::super::structural::Raw;
use crate::field::Path;

/// The path relative to the value of `schema`, or nothing where it leads nowhere.
pub(super) fn normalise(text: &str, schema: Raw<'_>) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let mut at = Path::root();
    let mut schema = Some(schema);
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            (after[..end].to_owned(), &after[end..])
        } else {
            quoted(rest.strip_prefix("['")?)?
        };
        if name.is_empty() {
            return None;
        }
        let here = schema?;
        if here.has_properties() {
            schema = Some(here.property(&name)?);
            at = at.child(&name);
        } else {
            here.stated("additionalProperties")?;
            schema = here.child("additionalProperties");
            at = at.key(&name);
        }
        rest = after;
    }
    Some(at.as_str().to_owned())
}

/// The key before `']`, with its escapes undone, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Some((key, text[at + 1..].strip_prefix(']')?)),
            '\\' => key.push(match chars.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                quote @ ('\'' | '\\') => quote,
                _ => return None,
            }),
            other => key.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_path_leads_to_a_declared_field() {
        let schema = json!({"properties": {
            "a": {"properties": {"b.c": {}}},
            "m": {"additionalProperties": {"properties": {"x": {}}}},
        }});
        let check = |path: &str, expected: Option<&str>| {
            let raw = Raw::of(&schema).unwrap();
            assert_eq!(normalise(path, raw).as_deref(), expected, "{path}");
        };
        check(".a", Some("a"));
        check(".a['b.c']", Some("a.b.c"));
        check(".m.k.x", Some("m[k].x"));
        check(".m['it\\'s'].x", Some("m[it's].x"));
        for wrong in ["", "a", ".", ".b", ".a.b", ".a['b.c", ".a[b]", "[']", ".a]"] {
            check(wrong, None);
        }
    }
}
