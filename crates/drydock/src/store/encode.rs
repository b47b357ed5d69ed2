//! From a JSON value to the bytes that are kept.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value};

use super::{Revision, Stored};

/// An object ready to be stored but for its resource version, which only the
/// commit knows. Everything slow about encoding happens here, outside the lock.
#[derive(Debug)]
pub struct Draft {
    before: Vec<u8>,
    after: Vec<u8>,
    labels: Box<[(Box<str>, Box<str>)]>,
    fields: Box<[Box<str>]>,
}

impl Stored {
    /// The same object, shown as if it had been written at another revision.
    ///
    /// # Panics
    /// Never: what is stored was encoded by us.
    #[must_use]
    pub fn restamped(&self, revision: Revision) -> Self {
        let value = serde_json::from_slice(&self.body).expect("what is stored is valid JSON");
        let shown = Draft::new(&value, self.fields.clone()).at(&self.key, revision);
        Self { revision: self.revision, ..shown }
    }
}

impl Draft {
    /// Encodes `object`. `apiVersion`, `kind` and the old resource version are left out.
    #[must_use]
    pub fn new(object: &Value, fields: Box<[Box<str>]>) -> Self {
        let empty = Map::new();
        let object = object.as_object().unwrap_or(&empty);
        let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let mut before = Vec::with_capacity(1024);
        before.push(b'{');
        entries(&mut before, object, |key| {
            key < "metadata" && key != "apiVersion" && key != "kind"
        });
        separate(&mut before);
        before.extend_from_slice(b"\"metadata\":{");
        entries(&mut before, metadata, |key| key < "resourceVersion");
        separate(&mut before);
        before.extend_from_slice(b"\"resourceVersion\":\"");
        let mut after = Vec::with_capacity(1024);
        after.push(b'"');
        entries(&mut after, metadata, |key| key > "resourceVersion");
        after.push(b'}');
        entries(&mut after, object, |key| key > "metadata");
        after.push(b'}');
        Self { before, after, labels: labels(metadata), fields }
    }

    pub(super) fn at(self, key: &Arc<str>, revision: Revision) -> Stored {
        let digits = revision.to_string();
        let mut body = BytesMut::with_capacity(self.before.len() + digits.len() + self.after.len());
        body.put_slice(&self.before);
        body.put_slice(digits.as_bytes());
        body.put_slice(&self.after);
        Stored {
            key: Arc::clone(key),
            revision,
            body: body.freeze(),
            labels: self.labels,
            fields: self.fields,
        }
    }

    /// How many bytes the object takes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Whether storing this in place of `stored` would change nothing but the revision.
    #[must_use]
    pub fn same_as(&self, stored: &Stored) -> bool {
        let digits = decimal_len(stored.revision);
        let body: &Bytes = &stored.body;
        body.len() == self.before.len() + digits + self.after.len()
            && body.starts_with(&self.before)
            && body.ends_with(&self.after)
    }
}

fn decimal_len(mut number: u64) -> usize {
    let mut digits = 1;
    while number >= 10 {
        number /= 10;
        digits += 1;
    }
    digits
}

fn labels(metadata: &Map<String, Value>) -> Box<[(Box<str>, Box<str>)]> {
    let Some(labels) = metadata.get("labels").and_then(Value::as_object) else {
        return Box::default();
    };
    labels
        .iter()
        .filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())))
        .collect()
}

fn entries(out: &mut Vec<u8>, map: &Map<String, Value>, wanted: impl Fn(&str) -> bool) {
    for (key, value) in map.iter().filter(|(key, _)| wanted(key)) {
        separate(out);
        write(out, key);
        out.push(b':');
        write(out, value);
    }
}

fn separate(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}

fn write(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("a JSON value always encodes into memory");
}
