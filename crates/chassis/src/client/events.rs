//! The events of a watch, decoded as their bytes arrive.
//!
//! The server writes one JSON object a line. Each line is decoded once, straight into the
//! caller's type, and nothing but the line at hand is kept.

use std::marker::PhantomData;

use bytes::{Buf as _, BytesMut};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::{Refusal, StatusWire};
use super::json;
use super::resource::Nameplate;
use super::transport::AnswerBody;

/// The longest line that is read. No server keeps an object of a tenth of this.
const EVENT_BYTES_MAX: usize = 64 << 20;

/// One event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<T> {
    /// The object appeared, or changed: the server's ADDED and MODIFIED are one to a
    /// reader who may have missed either.
    Applied(T),
    /// The object is gone; this is its last state.
    Deleted(T),
    /// Nothing changed up to this version.
    Bookmark {
        /// The version to resume from.
        resource_version: String,
    },
    /// The server ends the watch, and says why.
    Refused(Refusal),
    /// The object appeared or changed, and is not a `T`.
    Malformed {
        /// Whose event it is.
        nameplate: Nameplate,
        /// What is wrong with it.
        error: String,
    },
    /// The object is gone; its last state is not a `T`.
    MalformedDeleted {
        /// Whose event it is.
        nameplate: Nameplate,
    },
    /// An event that not even a name could be read from.
    Nameless {
        /// What is wrong with it.
        error: String,
    },
}

/// Why a watch ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The connection broke.
    #[error("the connection broke")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A line is not JSON.
    #[error("the server sent a line that is not JSON")]
    NotJson(#[source] serde_json::Error),
    /// A line has no end.
    #[error("the server sent an event of more than {EVENT_BYTES_MAX} bytes")]
    TooLong,
}

#[derive(Deserialize)]
#[serde(tag = "type", content = "object")]
enum Wire<T> {
    #[serde(rename = "ADDED", alias = "MODIFIED")]
    Applied(T),
    #[serde(rename = "DELETED")]
    Deleted(T),
    #[serde(rename = "BOOKMARK")]
    Bookmark(Nameplate),
    #[serde(rename = "ERROR")]
    Error(StatusWire),
}

/// An open watch.
pub struct EventStream<T> {
    body: AnswerBody,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    searched: usize,
    reads: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> EventStream<T> {
    pub(crate) fn new(body: AnswerBody) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0, reads: PhantomData }
    }

    /// The next event, or `None` when the server has closed the watch. Cancel safe: an
    /// event is either returned or still there.
    ///
    /// # Errors
    /// When the connection breaks or carries something else than events.
    pub async fn next(&mut self) -> Result<Option<Event<T>>, StreamError> {
        loop {
            while let Some(end) = self.line_end() {
                let event = decode(&self.buffer[..end]);
                self.buffer.advance(end + 1);
                self.searched = 0;
                if let Some(event) = event? {
                    return Ok(Some(event));
                }
            }
            if self.buffer.len() > EVENT_BYTES_MAX {
                return Err(StreamError::TooLong);
            }
            match self.body.frame().await {
                // A last line without an end was cut short: its event comes again.
                None => return Ok(None),
                Some(Err(error)) => return Err(StreamError::Broken(error)),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
            }
        }
    }

    fn line_end(&mut self) -> Option<usize> {
        let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        let end = found.map(|offset| self.searched + offset);
        self.searched = end.unwrap_or(self.buffer.len());
        end
    }
}

fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<Option<Event<T>>, StreamError> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    Ok(Some(match json::parse::<Wire<T>>(line) {
        Ok(Wire::Applied(object)) => Event::Applied(object),
        Ok(Wire::Deleted(object)) => Event::Deleted(object),
        Ok(Wire::Bookmark(nameplate)) => {
            Event::Bookmark { resource_version: nameplate.metadata.resource_version }
        }
        Ok(Wire::Error(status)) => Event::Refused(status.into_refusal(500, None)),
        Err(error) if error.is_data() => decode_malformed(line, &error),
        Err(error) => return Err(StreamError::NotJson(error)),
    }))
}

fn decode_malformed<T>(line: &[u8], error: &serde_json::Error) -> Event<T> {
    match serde_json::from_slice::<Wire<Nameplate>>(line) {
        Ok(Wire::Applied(nameplate)) if !nameplate.metadata.name.is_empty() => {
            Event::Malformed { nameplate, error: error.to_string() }
        }
        Ok(Wire::Deleted(nameplate)) if !nameplate.metadata.name.is_empty() => {
            Event::MalformedDeleted { nameplate }
        }
        _ => Event::Nameless { error: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{NameplateMeta, Reason};

    #[derive(Debug, Clone, PartialEq, Deserialize)]
    struct Lean {
        replicas: u32,
    }

    fn decoded(line: &str) -> Option<Event<Lean>> {
        decode(line.as_bytes()).unwrap()
    }

    #[test]
    fn each_kind_of_line_has_its_event() {
        let lean = Event::Applied(Lean { replicas: 2 });
        let added = r#"{"type":"ADDED","object":{"replicas":2,"other":[{"deep":1}]}}"#;
        assert_eq!(decoded(added), Some(lean.clone()));
        assert_eq!(decoded(r#"{"type":"MODIFIED","object":{"replicas":2}}"#), Some(lean.clone()));
        // No server does, but the order of keys means nothing in JSON.
        assert_eq!(decoded(r#"{"object":{"replicas":2},"type":"ADDED"}"#), Some(lean));
        let gone = r#"{"type":"DELETED","object":{"replicas":2}}"#;
        assert_eq!(decoded(gone), Some(Event::Deleted(Lean { replicas: 2 })));
        let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"12746","creationTimestamp":null},"spec":{"containers":null}}}"#;
        let resource_version = "12746".to_owned();
        assert_eq!(decoded(bookmark), Some(Event::Bookmark { resource_version }));
        assert_eq!(decoded(" "), None);
    }

    #[test]
    fn an_error_event_carries_the_refusal() {
        let line = r#"{"type":"ERROR","object":{"kind":"Status","metadata":{},"status":"Failure","message":"too old resource version: 1 (5)","reason":"Expired","code":410}}"#;
        let Some(Event::Refused(refusal)) = decoded(line) else { panic!("not an error") };
        assert_eq!((refusal.reason, refusal.code), (Reason::Expired, 410));
    }

    #[test]
    fn an_object_of_another_shape_is_malformed_not_the_end() {
        let bad = r#"{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u","resourceVersion":"3",
            "ownerReferences":[{"uid":"1"},{"uid":"2","controller":true}]},"replicas":"x"}}"#;
        let Some(Event::Malformed { nameplate, error }) = decoded(bad) else { panic!("{bad}") };
        let NameplateMeta { name, controller, .. } = nameplate.metadata;
        assert_eq!((name.as_str(), controller.as_deref()), ("a", Some("2")));
        assert!(error.contains("replicas") || error.contains("expected u32"), "{error}");
        let gone = r#"{"type":"DELETED","object":{"metadata":{"name":"a"},"replicas":"x"}}"#;
        assert!(matches!(decoded(gone), Some(Event::MalformedDeleted { .. })));
        assert!(matches!(
            decoded(r#"{"type":"ADDED","object":{"metadata":{"name":7}}}"#),
            Some(Event::Nameless { .. })
        ));
        assert!(matches!(decoded(r#"{"type":"NEW","object":{}}"#), Some(Event::Nameless { .. })));
        assert!(decode::<Lean>(b"<html>").is_err());
    }
}
