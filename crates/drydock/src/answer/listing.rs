//! Lists that are written while they are sent: however long one is, it takes one piece of memory
//! beyond the objects, which it shares with the store. What it shows is chosen before the first
//! byte, so it is consistent; an object that changes or goes meanwhile is kept until it is written.

use std::sync::Arc;
use std::vec;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value};

use super::body::yaml;
use super::negotiate::Encoding;
use crate::store::Stored;

/// A piece is closed once it is this large, or once so much of objects has been read for it.
pub(super) const PIECE_BYTES: usize = 128 * 1024;

/// How many objects are looked at to find out how much room a piece needs.
const OBJECTS_AHEAD: usize = 64;

/// What a list says beside its elements, in order.
pub(super) type Fields = Vec<(&'static str, Value)>;

/// Writes one object as a JSON value.
pub(super) type Element = Box<dyn Fn(&mut BytesMut, &Stored) + Send>;

/// A list on its way.
pub(crate) struct Listing {
    fields: Fields,
    /// The field of the elements, which comes last.
    name: &'static str,
    element: Element,
    encoding: Encoding,
    objects: vec::IntoIter<Arc<Stored>>,
    place: Place,
}

/// How far a list has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Beginning,
    FirstElement,
    Within,
    Over,
}

impl Listing {
    /// A list of `objects` with these `fields`, and the elements under `name`.
    pub(super) fn new(
        fields: Fields,
        name: &'static str,
        objects: Vec<Arc<Stored>>,
        encoding: Encoding,
        element: Element,
    ) -> Self {
        let (objects, place) = (objects.into_iter(), Place::Beginning);
        Self { fields, name, element, encoding, objects, place }
    }

    /// How it is written.
    pub(super) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Whether it is about as much as one piece.
    pub(super) fn is_short(&self) -> bool {
        let mut bytes = 0;
        let fits = |stored: &Arc<Stored>| {
            bytes += stored.body.len();
            bytes <= PIECE_BYTES
        };
        self.objects.as_slice().iter().all(fits)
    }

    /// Whether all is written.
    pub(super) fn is_over(&self) -> bool {
        self.place == Place::Over
    }

    /// Writes the next piece.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        if self.is_over() {
            return None;
        }
        let ahead = self.objects.as_slice().iter().take(OBJECTS_AHEAD);
        let expected: usize = ahead.map(|stored| stored.body.len() + 1).sum();
        let mut piece = BytesMut::with_capacity(expected.min(PIECE_BYTES) + 4096);
        if self.place == Place::Beginning {
            self.begin(&mut piece);
            self.place = Place::FirstElement;
        }
        let mut read = 0;
        while piece.len() < PIECE_BYTES && read < PIECE_BYTES {
            let Some(stored) = self.objects.next() else {
                if self.encoding == Encoding::Json {
                    piece.put_slice(b"]}\n");
                }
                self.place = Place::Over;
                break;
            };
            read += stored.body.len();
            match self.encoding {
                Encoding::Json => {
                    if self.place == Place::Within {
                        piece.put_u8(b',');
                    }
                    (self.element)(&mut piece, &stored);
                }
                Encoding::Yaml => self.yaml_element(&mut piece, &stored),
            }
            self.place = Place::Within;
        }
        Some(piece.freeze())
    }

    /// Writes everything before the first element.
    fn begin(&self, piece: &mut BytesMut) {
        let head = match self.encoding {
            Encoding::Json => {
                let field = |(name, value): &(&str, Value)| format!("\"{name}\":{value},");
                let fields: String = self.fields.iter().map(field).collect();
                format!("{{{fields}\"{}\":[", self.name)
            }
            Encoding::Yaml => {
                let none = if self.objects.as_slice().is_empty() { " []" } else { "" };
                let field = |(name, value): &(&str, Value)| {
                    let map = Map::from_iter([((*name).to_owned(), value.clone())]);
                    yaml(&Value::Object(map)).unwrap_or_else(|| format!("{name}: {value}\n"))
                };
                let fields: String = self.fields.iter().map(field).collect();
                format!("{fields}{}:{none}\n", self.name)
            }
        };
        piece.put_slice(head.as_bytes());
    }

    /// In YAML the elements of a list may follow each other as lists of one. JSON is YAML, too,
    /// where there is no other form.
    fn yaml_element(&self, piece: &mut BytesMut, stored: &Stored) {
        let mut json = BytesMut::new();
        (self.element)(&mut json, stored);
        let value = serde_json::from_slice::<Value>(&json).ok();
        match value.and_then(|value| yaml(&Value::Array(vec![value]))) {
            Some(written) => piece.put_slice(written.as_bytes()),
            None => {
                piece.put_slice(b"- ");
                piece.put_slice(&json);
                piece.put_u8(b'\n');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BODY_BYTES: usize = 3_000;

    fn listing(count: usize, encoding: Encoding) -> Listing {
        let stored = |at: usize| {
            let name = format!("o-{at:06}");
            let text = "x".repeat(BODY_BYTES);
            let body =
                json!({"metadata": {"name": name}, "data": {"text": text, "- a": ["", "y"]}});
            Arc::new(Stored {
                key: name.into(),
                revision: 1,
                body: Bytes::from(body.to_string()),
                labels: Box::default(),
                fields: Box::default(),
            })
        };
        let fields = vec![("kind", json!("List")), ("metadata", json!({"resourceVersion": "7"}))];
        let element: Element = Box::new(|out, stored| out.put_slice(&stored.body));
        Listing::new(fields, "items", (0..count).map(stored).collect(), encoding, element)
    }

    #[test]
    fn no_piece_is_much_larger_than_it_should_be_and_none_is_made_before_it_is_asked_for() {
        const COUNT: usize = 200;
        for encoding in [Encoding::Json, Encoding::Yaml] {
            let mut listing = listing(COUNT, encoding);
            let mut left = COUNT;
            assert_eq!(listing.objects.len(), left, "nothing is written ahead");
            while let Some(piece) = listing.next() {
                assert!(piece.len() < PIECE_BYTES + 2 * BODY_BYTES, "{}", piece.len());
                let read = (left - listing.objects.len()) * BODY_BYTES;
                assert!(read < PIECE_BYTES + 2 * BODY_BYTES, "{read}");
                left = listing.objects.len();
            }
            assert_eq!(left, 0);
        }
    }

    #[test]
    fn what_shows_little_of_large_objects_reads_no_more_for_a_piece() {
        let mut listing = listing(200, Encoding::Json);
        listing.element = Box::new(|out, _| out.put_slice(b"1"));
        let mut pieces = 0;
        while listing.next().is_some() {
            pieces += 1;
        }
        assert!(pieces > 200 * BODY_BYTES / PIECE_BYTES, "{pieces}");
    }

    #[test]
    fn an_object_is_let_go_once_it_is_written() {
        let mut listing = listing(200, Encoding::Json);
        let first = Arc::downgrade(&listing.objects.as_slice()[0]);
        let last = Arc::downgrade(&listing.objects.as_slice()[199]);
        listing.next();
        assert!(first.upgrade().is_none() && last.upgrade().is_some());
    }

    #[test]
    fn the_pieces_make_up_one_document() {
        let written = |count: usize, encoding: Encoding| {
            let mut listing = listing(count, encoding);
            let mut whole = Vec::new();
            while let Some(piece) = listing.next() {
                whole.extend_from_slice(&piece);
            }
            assert!(listing.is_over());
            String::from_utf8(whole).unwrap()
        };
        for count in [0, 1, 2, 43, 44, 100] {
            let json: Value = serde_json::from_str(&written(count, Encoding::Json)).unwrap();
            let items = json["items"].as_array().unwrap();
            assert_eq!(items.len(), count);
            let names = items.iter().map(|item| item["metadata"]["name"].as_str().unwrap());
            assert!(names.eq((0..count).map(|at| format!("o-{at:06}"))), "{count}");
            assert_eq!(json["metadata"]["resourceVersion"], "7");
            let yaml: Value = serde_saphyr::from_str(&written(count, Encoding::Yaml)).unwrap();
            assert_eq!(yaml, json, "{count}");
        }
    }
}
