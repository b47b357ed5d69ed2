//! JSON from bytes: whether all of it is text is found out once, which costs much less than string by
//! string.

use serde::de::DeserializeOwned;

/// Reads a value.
///
/// # Errors
/// When the bytes are not JSON, or not a `T`.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        // Where nobody reads what is no text, it does no harm, and otherwise the error says where it is.
        Err(_) => serde_json::from_slice(bytes),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Named {
        name: String,
    }

    #[test]
    fn what_is_no_text_matters_only_where_it_is_read() {
        let check = |bytes: &[u8], expected: Option<&str>| {
            let read = parse::<Named>(bytes).ok().map(|named| named.name);
            assert_eq!(read.as_deref(), expected, "{bytes:?}");
        };
        check(br#"{"name":"a"}"#, Some("a"));
        check("{\"name\":\"\u{e4}\"}".as_bytes(), Some("\u{e4}"));
        check(b"{\"other\":\"\xff\",\"name\":\"a\"}", Some("a"));
        check(b"{\"name\":\"\xff\"}", None);
        check(b"{\"name\":\"a\"} \xff", None);
        check(b"", None);
    }
}
