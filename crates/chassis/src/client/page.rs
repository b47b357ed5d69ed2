//! One answer of a list: what is known of it at once, and what has to be read.

use std::marker::PhantomData;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::Error;
use super::resource::Nameplate;
use super::{Asked, json};

/// How far into an answer its items may begin for [`Unread::next`] to see what stands before.
const HEAD_BYTES_MAX: usize = 4096;

/// One answer of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The objects, in the server's order.
    pub items: Vec<T>,
    /// Objects that are not a `T`, with what is wrong; nothing else of the list suffers.
    pub malformed: Vec<(Nameplate, String)>,
    /// The version of the list, from which a watch may go on.
    pub resource_version: String,
    /// Where the next answer begins; `None` at the end.
    pub next: Option<String>,
}

/// One answer of a list, as it came.
pub struct Unread<T> {
    asked: Asked,
    body: Bytes,
    reads: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Unread<T> {
    pub(super) fn new(asked: Asked, body: Bytes) -> Self {
        Self { asked, body, reads: PhantomData }
    }

    /// Where the next answer begins, where that can be seen without reading the objects: servers
    /// write it before them.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        next(&self.body)
    }

    /// Reads the objects.
    ///
    /// # Errors
    /// When the answer is not a list.
    pub fn read(self) -> Result<Page<T>, Error> {
        decode(&self.body).map_err(|source| self.asked.unreadable(source))
    }
}

fn next(body: &[u8]) -> Option<String> {
    let head = &body[..body.len().min(HEAD_BYTES_MAX)];
    let items = memchr::memmem::find(head, b"\"items\":")?;
    let head = [&head[..items], b"\"items\":null}"].concat();
    let list = serde_json::from_slice::<ListWire<Value>>(&head).ok()?;
    list.metadata.page::<Value>(Vec::new(), Vec::new()).next
}

#[derive(Deserialize)]
struct ListWire<I> {
    metadata: ListMeta,
    // Go writes an empty list as `null` in places.
    items: Option<Vec<I>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(default, rename = "continue")]
    continue_token: Option<String>,
}

impl ListMeta {
    fn page<T>(self, items: Vec<T>, malformed: Vec<(Nameplate, String)>) -> Page<T> {
        let next = self.continue_token.filter(|token| !token.is_empty());
        Page { items, malformed, resource_version: self.resource_version, next }
    }
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<Page<T>, serde_json::Error> {
    match json::parse::<ListWire<T>>(body) {
        Ok(list) => Ok(list.metadata.page(list.items.unwrap_or_default(), Vec::new())),
        Err(error) if error.is_data() => decode_slowly(body),
        Err(error) => Err(error),
    }
}

/// Some object is not a `T`: find out which, and keep the others.
fn decode_slowly<T: DeserializeOwned>(body: &[u8]) -> Result<Page<T>, serde_json::Error> {
    let list = serde_json::from_slice::<ListWire<Value>>(body)?;
    let (mut items, mut malformed) = (Vec::new(), Vec::new());
    for item in list.items.unwrap_or_default() {
        match T::deserialize(&item) {
            Ok(object) => items.push(object),
            Err(error) => {
                let nameplate = Nameplate::deserialize(&item).unwrap_or_default();
                malformed.push((nameplate, error.to_string()));
            }
        }
    }
    Ok(list.metadata.page(items, malformed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Lean {
        replicas: u32,
    }

    #[test]
    fn one_object_that_cannot_be_read_leaves_the_rest_of_the_page() {
        let body = br#"{"kind":"List","metadata":{"resourceVersion":"7","continue":""},
            "items":[{"replicas":1},{"metadata":{"name":"b","uid":"u"},"replicas":-1},{"replicas":3}]}"#;
        let page: Page<Lean> = decode(body).unwrap();
        assert_eq!(page.items, [Lean { replicas: 1 }, Lean { replicas: 3 }]);
        assert_eq!(page.malformed[0].0.metadata.name, "b");
        assert_eq!((page.resource_version.as_str(), page.next), ("7", None));
    }

    #[test]
    fn what_is_not_a_list_is_an_error() {
        for body in ["", "{}", "[]", r#"{"items":[]}"#, r#"{"metadata":{}, "items":[]}"#, "nope"] {
            assert!(decode::<Value>(body.as_bytes()).is_err(), "{body}");
        }
        let null = br#"{"metadata":{"resourceVersion":"1","continue":"abc"},"items":null}"#;
        let page = decode::<Value>(null).unwrap();
        assert_eq!((page.items.len(), page.next.as_deref()), (0, Some("abc")));
    }

    #[test]
    fn where_the_next_answer_begins_is_seen_before_the_objects_are_read() {
        let check = |body: &str, expected: Option<&str>| {
            assert_eq!(next(body.as_bytes()).as_deref(), expected, "{body}");
        };
        let meta = r#""metadata":{"resourceVersion":"7","continue":"abc"}"#;
        check(&format!(r#"{{"kind":"PodList",{meta},"items":[{{"x":1"#), Some("abc"));
        check(&format!(r#"{{{meta},"items":null}}"#), Some("abc"));
        check(r#"{"metadata":{"resourceVersion":"7","continue":""},"items":[]}"#, None);
        check(r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#, None);
        // It may stand behind them too: then it is seen when they are read.
        check(&format!(r#"{{"items":[],{meta}}}"#), None);
        check(r#"{"kind":"Status"}"#, None);
        check("", None);
    }
}
