//! What can go wrong with a request, in a form that callers can match on.

use std::time::Duration;

use serde::Deserialize;

use crate::key::Key;

/// How much of an answer that is not a Status is shown.
const EXCERPT_CHARS_MAX: usize = 200;

/// Why the API server refused a request.
///
/// It is the `reason` of the Status where the server gave one this client knows, and
/// follows from the HTTP code otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The credentials are missing or not accepted.
    Unauthorized,
    /// The user may not do this, or admission refused it.
    Forbidden,
    /// The object, or the resource itself, does not exist.
    NotFound,
    /// An object of this name exists.
    AlreadyExists,
    /// The object changed since it was read, or a precondition does not hold.
    Conflict,
    /// The resource version or the continue token is too old; list again.
    Expired,
    /// The object is not valid; the causes say where.
    Invalid,
    /// The server asks to come back later.
    TooManyRequests,
    /// The request itself is malformed.
    BadRequest,
    /// The resource does not have this verb.
    MethodNotAllowed,
    /// The server cannot answer in the asked, or read the sent, content type.
    Unsupported,
    /// The body is larger than the server reads.
    TooLarge,
    /// The server gave up waiting; the request may or may not have had an effect.
    Timeout,
    /// The server, or a webhook or store behind it, is not available.
    Unavailable,
    /// The server failed.
    Internal,
    /// Something else, as the server named it.
    Other(String),
}

impl Reason {
    fn of(reason: &str, code: u16) -> Self {
        match reason {
            "Unauthorized" => Self::Unauthorized,
            "Forbidden" => Self::Forbidden,
            "NotFound" => Self::NotFound,
            "AlreadyExists" => Self::AlreadyExists,
            "Conflict" => Self::Conflict,
            "Expired" | "Gone" => Self::Expired,
            "Invalid" => Self::Invalid,
            "TooManyRequests" => Self::TooManyRequests,
            "BadRequest" => Self::BadRequest,
            "MethodNotAllowed" => Self::MethodNotAllowed,
            "NotAcceptable" | "UnsupportedMediaType" => Self::Unsupported,
            "RequestEntityTooLarge" => Self::TooLarge,
            "Timeout" | "ServerTimeout" => Self::Timeout,
            "ServiceUnavailable" => Self::Unavailable,
            "InternalError" => Self::Internal,
            _ => Self::of_code(reason, code),
        }
    }

    fn of_code(reason: &str, code: u16) -> Self {
        match code {
            400 => Self::BadRequest,
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            405 => Self::MethodNotAllowed,
            406 | 415 => Self::Unsupported,
            409 => Self::Conflict,
            410 => Self::Expired,
            413 => Self::TooLarge,
            422 => Self::Invalid,
            429 => Self::TooManyRequests,
            500 => Self::Internal,
            502 | 503 => Self::Unavailable,
            504 => Self::Timeout,
            _ => Self::Other(reason.to_owned()),
        }
    }
}

/// One field that the server found wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// The kind of fault, such as `FieldValueInvalid`.
    pub reason: String,
    /// What is wrong.
    pub message: String,
    /// Which field.
    pub field: String,
}

/// The server's refusal of a request: its Status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The HTTP code.
    pub code: u16,
    /// The server's own words.
    pub message: String,
    /// How long the server asks to wait before another try.
    pub retry_after: Option<Duration>,
    /// The single faults of an invalid object.
    pub causes: Vec<Cause>,
    /// Whether it came as a Status, which the server writes; otherwise somebody in between may have
    /// answered in its place.
    pub is_status: bool,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

/// A Status object as the server writes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StatusWire {
    status: Option<String>,
    reason: Option<String>,
    code: Option<u16>,
    message: Option<String>,
    details: Option<DetailsWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DetailsWire {
    causes: Option<Vec<Cause>>,
    retry_after_seconds: Option<u64>,
}

impl StatusWire {
    pub(crate) fn into_refusal(self, http_code: u16, retry_after: Option<u64>) -> Refusal {
        let code = self.code.filter(|&code| code != 0).unwrap_or(http_code);
        let details = self.details.unwrap_or_default();
        let seconds = retry_after.or(details.retry_after_seconds).filter(|&seconds| seconds > 0);
        Refusal {
            reason: Reason::of(self.reason.as_deref().unwrap_or_default(), code),
            code,
            message: self.message.unwrap_or_else(|| format!("the server answered {code}")),
            retry_after: seconds.map(Duration::from_secs),
            causes: details.causes.unwrap_or_default(),
            is_status: self.status.is_some(),
        }
    }
}

impl Refusal {
    /// Reads the body of an answer whose code is not a success.
    #[must_use]
    pub fn parse(code: u16, retry_after: Option<u64>, body: &[u8]) -> Self {
        let status = serde_json::from_slice::<StatusWire>(body);
        match status {
            Ok(status) if status.status.is_some() => status.into_refusal(code, retry_after),
            // A proxy in between, or a plain-text answer of the server's own.
            _ => {
                let text = String::from_utf8_lossy(body);
                let excerpt: String = text.trim().chars().take(EXCERPT_CHARS_MAX).collect();
                let message = (!excerpt.is_empty()).then_some(excerpt);
                StatusWire { message, ..StatusWire::default() }.into_refusal(code, retry_after)
            }
        }
    }

    /// Whether only a new list can help: the version or token asked for is gone, or is
    /// one that this server has never reached.
    #[must_use]
    pub fn asks_for_relist(&self) -> bool {
        self.reason == Reason::Expired
            || self.causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
    }
}

/// Why a request has no good answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered, and the answer is no.
    #[error("{verb} {path}: {refusal}")]
    Refused {
        /// The HTTP method.
        verb: http::Method,
        /// The path and query.
        path: String,
        /// What the server said.
        refusal: Box<Refusal>,
    },
    /// No answer came: refused connection, broken TLS, a connection that ended early.
    #[error("{verb} {path}: no answer from {server}: {}", innermost_cause(.source.as_ref()))]
    Unreachable {
        /// The HTTP method.
        verb: http::Method,
        /// The path and query.
        path: String,
        /// The server's address.
        server: String,
        /// What the transport said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No answer came in time; the request may or may not have had an effect.
    #[error("{verb} {path}: no answer within {limit:?}")]
    TimedOut {
        /// The HTTP method.
        verb: http::Method,
        /// The path and query.
        path: String,
        /// How long was waited.
        limit: Duration,
    },
    /// The answer is not what the caller's type reads.
    #[error("{verb} {path}: cannot read the answer")]
    Unreadable {
        /// The HTTP method.
        verb: http::Method,
        /// The path and query.
        path: String,
        /// Where and how it differs.
        source: serde_json::Error,
    },
    /// One object of the answer is not what the caller's type reads.
    #[error("{resource} {name} cannot be read: {reason}")]
    Malformed {
        /// The resource.
        resource: String,
        /// Which object.
        name: Key,
        /// Where and how it differs.
        reason: String,
    },
    /// The body of the request cannot be written as JSON.
    #[error("cannot write the body as JSON")]
    Unwritable(#[source] serde_json::Error),
    /// The request is a write, and when all waiting was over this process might not write; see
    /// [`Client::guarded`](super::Client::guarded).
    #[error("{verb} {path}: not sent, since this process may not write now")]
    NotAllowed {
        /// The HTTP method.
        verb: http::Method,
        /// The path and query.
        path: String,
    },
    /// The request makes no sense, and was not sent.
    #[error("invalid request: {what}")]
    Request {
        /// What is wrong with it.
        what: String,
    },
}

/// The innermost cause: the layers between say only "error" and "connect".
pub(crate) fn innermost_cause<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> &'a (dyn std::error::Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}

impl Error {
    /// What the server said, where it did.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            _ => None,
        }
    }

    /// Why the server refused, where it did.
    #[must_use]
    pub fn reason(&self) -> Option<&Reason> {
        self.refusal().map(|refusal| &refusal.reason)
    }

    /// The object does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.reason() == Some(&Reason::NotFound)
    }

    /// An object of that name exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.reason() == Some(&Reason::AlreadyExists)
    }

    /// The object changed since it was read.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.reason() == Some(&Reason::Conflict)
    }

    /// The request has certainly not been sent, so that it cannot have had an effect.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::NotAllowed { .. } | Self::Request { .. } | Self::Unwritable(_))
    }

    /// How long the server asks to wait before another try.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal().and_then(|refusal| refusal.retry_after)
    }

    /// The server's own words where there are any, for what users read; else the error.
    #[must_use]
    pub fn told(&self) -> String {
        self.refusal().map_or_else(|| self.to_string(), |refusal| refusal.message.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_servers_or_follows_from_the_code() {
        let check = |code, body: &str, want: Reason| {
            assert_eq!(Refusal::parse(code, None, body.as_bytes()).reason, want, "{body}");
        };
        let exists = r#"{"kind":"Status","status":"Failure","reason":"AlreadyExists","code":409}"#;
        check(409, exists, Reason::AlreadyExists);
        check(409, r#"{"status":"Failure","reason":"Conflict","code":409}"#, Reason::Conflict);
        check(410, r#"{"status":"Failure","reason":"Gone","code":410}"#, Reason::Expired);
        check(410, r#"{"status":"Failure","reason":"Expired","code":410}"#, Reason::Expired);
        check(404, "404 page not found\n", Reason::NotFound);
        check(503, "", Reason::Unavailable);
        check(418, r#"{"status":"Failure","reason":"Teapot"}"#, Reason::Other("Teapot".into()));
        check(403, r#"{"status":"Failure","reason":"Teapot"}"#, Reason::Forbidden);
    }

    #[test]
    fn retry_after_and_causes_are_read() {
        let body = r#"{"status":"Failure","reason":"TooManyRequests","code":429,"message":"wait",
            "details":{"retryAfterSeconds":3,"causes":[{"reason":"DisruptionBudget","message":"m"}]}}"#;
        let refusal = Refusal::parse(429, None, body.as_bytes());
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(3)));
        assert_eq!(refusal.causes[0].reason, "DisruptionBudget");
        assert_eq!(refusal.to_string(), "wait (429)");
        let header = Refusal::parse(429, Some(7), b"Too many requests, please try again later.");
        assert_eq!(header.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(header.message, "Too many requests, please try again later.");
    }

    #[test]
    fn a_version_from_the_future_asks_for_a_relist() {
        let body = r#"{"status":"Failure","reason":"Timeout","code":504,"message":"Too large resource version",
            "details":{"causes":[{"reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1}}"#;
        assert!(Refusal::parse(504, None, body.as_bytes()).asks_for_relist());
        assert!(!Refusal::parse(504, None, b"").asks_for_relist());
    }
}
