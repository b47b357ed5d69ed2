//! The bytes of an answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Frame;
use serde_json::Value;

use super::Failure;
use super::listing::Listing;
use super::negotiate::Encoding;
use crate::inflight::Permit;
use crate::metrics::Measured;

/// What the server answers with.
pub type Answer = Response<Body>;

/// The body of an answer: pieces known at once, a list that is written while it is sent, or a
/// stream.
pub struct Body {
    kind: Kind,
    /// What lives as long as the answer is on its way.
    measured: Option<Measured>,
    permit: Option<Permit>,
}

enum Kind {
    Pieces(std::vec::IntoIter<Bytes>),
    List(Box<Listing>),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body {
    fn of(kind: Kind) -> Self {
        Self { kind, measured: None, permit: None }
    }

    /// Nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self::pieces(Vec::new())
    }

    /// One piece after another.
    #[must_use]
    pub fn pieces(pieces: Vec<Bytes>) -> Self {
        Self::of(Kind::Pieces(pieces.into_iter()))
    }

    /// Pieces as they come to be.
    pub fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::of(Kind::Stream(Box::pin(stream)))
    }

    /// The same body, which keeps the measurement of its request until it is sent.
    pub(crate) fn keeping(mut self, measured: Measured) -> Self {
        self.measured = Some(measured);
        self
    }

    /// The same body, which holds the room of its request until it is sent.
    pub(crate) fn holding(mut self, permit: Option<Permit>) -> Self {
        self.permit = permit;
        self
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::pieces(vec![bytes])
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.kind {
            Kind::Pieces(pieces) => pieces.next(),
            Kind::List(listing) => listing.next(),
            Kind::Stream(stream) => std::task::ready!(stream.as_mut().poll_next(context)),
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Pieces(pieces) => pieces.len() == 0,
            Kind::List(listing) => listing.is_over(),
            Kind::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match &self.kind {
            Kind::Pieces(pieces) => {
                let length: usize = pieces.as_slice().iter().map(Bytes::len).sum();
                http_body::SizeHint::with_exact(length as u64)
            }
            Kind::List(_) | Kind::Stream(_) => http_body::SizeHint::default(),
        }
    }
}

/// The media type of nearly every answer.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer of JSON pieces.
#[must_use]
pub fn pieces(code: StatusCode, pieces: Vec<Bytes>) -> Answer {
    typed(code, JSON, Body::pieces(pieces))
}

/// An answer of a given media type.
#[must_use]
pub fn typed(code: StatusCode, content_type: HeaderValue, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

/// An answer of one JSON value.
#[must_use]
pub fn value(code: StatusCode, value: &Value) -> Answer {
    pieces(code, vec![object::json::encode(value).into()])
}

/// An answer that is a list. A short one is written at once, so that its length is told.
#[must_use]
pub(super) fn list(mut listing: Listing) -> Answer {
    let content_type = listing.encoding().media_type();
    let body = if listing.is_short() {
        Body::pieces(std::iter::from_fn(|| listing.next()).collect())
    } else {
        Body::of(Kind::List(Box::new(listing)))
    };
    typed(StatusCode::OK, content_type, body)
}

/// The same answer in another encoding. What is no JSON document, such as a watch, stays as it is.
#[must_use]
pub fn encoded(answer: Answer, encoding: Encoding) -> Answer {
    if encoding == Encoding::Json || answer.headers().get(CONTENT_TYPE) != Some(&JSON) {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    let Kind::Pieces(pieces) = &body.kind else { return Response::from_parts(parts, body) };
    let whole: Vec<u8> = pieces.as_slice().concat();
    let written = serde_json::from_slice::<Value>(&whole).ok().and_then(|value| yaml(&value));
    let Some(written) = written else { return Response::from_parts(parts, body) };
    parts.headers.insert(CONTENT_TYPE, encoding.media_type());
    let kind = Body::from(Bytes::from(written)).kind;
    Response::from_parts(parts, Body { kind, ..body })
}

/// A value as YAML.
pub(super) fn yaml(value: &Value) -> Option<String> {
    // Folded texts would read alike and be hard to read.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options).ok()
}

/// Plain text.
#[must_use]
pub fn text(code: StatusCode, text: impl Into<String>) -> Answer {
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    typed(code, content_type, Bytes::from(text.into()).into())
}

/// Metrics, in the classic format of Prometheus.
#[must_use]
pub fn metrics(text: String) -> Answer {
    let content_type = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    typed(StatusCode::OK, content_type, Bytes::from(text).into())
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        let mut answer = value(failure.code, &failure.to_status());
        let seconds = failure.details.as_ref().and_then(|details| details.get("retryAfterSeconds"));
        if let Some(seconds) = seconds.and_then(Value::as_u64) {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_that_look_like_something_else_stay_texts_in_yaml() {
        let texts = [
            "y",
            "no",
            "on",
            "1",
            "1e3",
            "0x1",
            "null",
            "~",
            "",
            " a",
            "a: b",
            "- a",
            "#",
            "line\nline\n",
            "2026-01-01T00:00:00Z",
            "\u{7f}",
            "é",
        ];
        let value = json!({"texts": texts, "empty": {}, "none": [], "deep": [[1, {"a": null}]]});
        let written = yaml(&value).unwrap();
        let read: Value = serde_saphyr::from_str(&written).unwrap();
        assert_eq!(read, value, "{written}");
        for text in ["y", "no", "on"] {
            assert!(!written.contains(&format!("- {text}\n")), "{text} is a truth in YAML 1.1");
        }
    }
}
