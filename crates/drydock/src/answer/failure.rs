//! Refusals, as the `Status` objects that kube-apiserver answers with.

use std::fmt;

use http::StatusCode;
use object::field;
use serde_json::{Map, Value, json};

/// A group and a resource, as error messages name them: `deployments.apps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupResource<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The plural resource name, or the kind where upstream's message says the kind.
    pub resource: &'a str,
}

impl fmt::Display for GroupResource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            return f.write_str(self.resource);
        }
        write!(f, "{}.{}", self.resource, self.group)
    }
}

/// Why a request was not carried out, in the one word that clients decide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// kube-apiserver has no word for it.
    Unclassified,
    /// The name is taken.
    AlreadyExists,
    /// The request makes no sense.
    BadRequest,
    /// The object changed in the meantime, or a precondition is not met.
    Conflict,
    /// The revision wanted is no longer known.
    Expired,
    /// Not allowed.
    Forbidden,
    /// The server could not do what it should.
    InternalError,
    /// The object is wrong.
    Invalid,
    /// The verb is not offered.
    MethodNotAllowed,
    /// No media type that the client takes is offered.
    NotAcceptable,
    /// There is no such thing.
    NotFound,
    /// The body is too long.
    RequestEntityTooLarge,
    /// It did not happen in time.
    Timeout,
    /// Try again later.
    TooManyRequests,
    /// No valid credentials.
    Unauthorized,
    /// The media type of the body is not understood.
    UnsupportedMediaType,
}

impl Reason {
    /// The word; empty where there is none.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unclassified => "",
            Self::AlreadyExists => "AlreadyExists",
            Self::BadRequest => "BadRequest",
            Self::Conflict => "Conflict",
            Self::Expired => "Expired",
            Self::Forbidden => "Forbidden",
            Self::InternalError => "InternalError",
            Self::Invalid => "Invalid",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::NotFound => "NotFound",
            Self::RequestEntityTooLarge => "RequestEntityTooLarge",
            Self::Timeout => "Timeout",
            Self::TooManyRequests => "TooManyRequests",
            Self::Unauthorized => "Unauthorized",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
        }
    }
}

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The HTTP status.
    pub code: StatusCode,
    /// `Status.reason`.
    pub reason: Reason,
    /// `Status.message`.
    pub message: String,
    /// `Status.details`, where there are any.
    pub details: Option<Value>,
    /// `Status.metadata.continue`: how a list can go on all the same.
    pub continue_token: Option<String>,
    /// The resource whose next change may cure this, where a short wait is worth it.
    pub awaits: Option<&'static str>,
    /// Whether the kind was replaced by another form of it meanwhile, so that the request is to be
    /// carried out anew from the beginning.
    pub is_outdated: bool,
}

impl Failure {
    fn new(code: StatusCode, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
            awaits: None,
            is_outdated: false,
        }
    }

    fn about(mut self, what: &GroupResource<'_>, name: &str) -> Self {
        let mut details = Map::new();
        for (key, value) in [("name", name), ("group", what.group), ("kind", what.resource)] {
            if !value.is_empty() {
                details.insert(key.to_owned(), value.into());
            }
        }
        self.details = Some(Value::Object(details));
        self
    }

    fn detail(mut self, key: &str, value: Value) -> Self {
        let details = self.details.get_or_insert_with(|| Value::Object(Map::new()));
        details[key] = value;
        self
    }

    /// A request that makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Reason::BadRequest, message)
    }

    /// No valid credentials.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, Reason::Unauthorized, "Unauthorized")
    }

    /// The path leads nowhere.
    #[must_use]
    pub fn no_such_path() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            Reason::NotFound,
            "the server could not find the requested resource",
        )
        .with_empty_details()
    }

    fn with_empty_details(mut self) -> Self {
        self.details = Some(Value::Object(Map::new()));
        self
    }

    /// No such object.
    #[must_use]
    pub fn not_found(what: &GroupResource<'_>, name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, Reason::NotFound, format!("{what} {name:?} not found"))
            .about(what, name)
    }

    /// The name is taken.
    #[must_use]
    pub fn already_exists(what: &GroupResource<'_>, name: &str) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            Reason::AlreadyExists,
            format!("{what} {name:?} already exists"),
        )
        .about(what, name)
    }

    /// A generated name that was taken, so that the client should try again.
    #[must_use]
    pub fn generated_name_taken(what: &GroupResource<'_>, name: &str) -> Self {
        let mut failure = Self::already_exists(what, name);
        failure.message = format!(
            "{what} {name:?} already exists, the server was not able to generate a unique name for the object"
        );
        failure
    }

    /// The object changed in the meantime, or a precondition is not met.
    pub fn conflict(what: &GroupResource<'_>, name: &str, why: impl fmt::Display) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            Reason::Conflict,
            format!("Operation cannot be fulfilled on {what} {name:?}: {why}"),
        )
        .about(what, name)
    }

    /// The conflict of two writers.
    #[must_use]
    pub fn modified(what: &GroupResource<'_>, name: &str) -> Self {
        Self::conflict(
            what,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// A write that went by a form of the kind that is no longer served.
    #[must_use]
    pub fn outdated(what: &GroupResource<'_>, name: &str) -> Self {
        Self { is_outdated: true, ..Self::modified(what, name) }
    }

    /// Not allowed to this client, or not allowed at all.
    pub fn forbidden(what: &GroupResource<'_>, name: &str, why: impl fmt::Display) -> Self {
        let message = match (what.resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (_, true) => format!("{what} is forbidden: {why}"),
            _ => format!("{what} {name:?} is forbidden: {why}"),
        };
        Self::new(StatusCode::FORBIDDEN, Reason::Forbidden, message).about(what, name)
    }

    /// The object is wrong, field by field. `kind` is the group and the kind.
    #[must_use]
    pub fn invalid(kind: &GroupResource<'_>, name: &str, errors: &[field::Error]) -> Self {
        let errors = &*field::bounded(errors);
        let mut texts: Vec<String> = Vec::new();
        for error in errors {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let listed = match texts.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes: Vec<Value> = errors
            .iter()
            .map(|error| {
                json!({
                    "reason": error.fault.reason(),
                    "message": error.body(),
                    "field": error.path.to_string(),
                })
            })
            .collect();
        let message = if listed.is_empty() {
            format!("{kind} {name:?} is invalid")
        } else {
            format!("{kind} {name:?} is invalid: {listed}")
        };
        let failure =
            Self::new(StatusCode::UNPROCESSABLE_ENTITY, Reason::Invalid, message).about(kind, name);
        if causes.is_empty() { failure } else { failure.detail("causes", causes.into()) }
    }

    /// A patch that could not be read or applied, with the HTTP status kube-apiserver gives it.
    pub fn unapplied_patch(code: u16, message: impl Into<String>) -> Self {
        match code {
            400 => Self::bad_request(message),
            413 => Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                Reason::RequestEntityTooLarge,
                format!("Request entity too large: {}", message.into()),
            ),
            422 => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                Reason::Invalid,
                "the server rejected our request due to an error in our request",
            )
            .with_empty_details(),
            _ => Self::unclassified(message),
        }
    }

    /// A patch whose result, shown whole, cannot be read as an object of the kind.
    pub fn unreadable_patch(patched: impl Into<String>, why: impl Into<String>) -> Self {
        let nothing = GroupResource { group: "", resource: "" };
        let at = field::Path::new("patch");
        let error = field::Error::invalid(&at, patched.into(), why.into());
        Self::invalid(&nothing, "", &[error])
    }

    /// A misuse for which kube-apiserver has no reason.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Reason::Unclassified, message)
    }

    /// The HTTP method means nothing on this path.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            Reason::MethodNotAllowed,
            "the server does not allow this method on the requested resource",
        )
        .with_empty_details()
    }

    /// None of the media types the client accepts is offered.
    #[must_use]
    pub fn not_acceptable(offered: &[&str]) -> Self {
        Self::new(
            StatusCode::NOT_ACCEPTABLE,
            Reason::NotAcceptable,
            format!("only the following media types are accepted: {}", offered.join(", ")),
        )
    }

    /// The same, in the words in which the routes of native kinds refuse.
    #[must_use]
    pub fn no_representation(offered: &[&str]) -> Self {
        let offered = offered.join(", ");
        Self::new(
            StatusCode::NOT_ACCEPTABLE,
            Reason::NotAcceptable,
            format!("406: Not Acceptable\n\nAvailable representations: {offered}"),
        )
        .with_empty_details()
    }

    /// A patch in no known language, in the words in which the routes of native kinds refuse.
    #[must_use]
    pub fn unsupported_patch() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Reason::UnsupportedMediaType,
            "415: Unsupported Media Type",
        )
        .with_empty_details()
    }

    /// What kube-apiserver does, and this server does not.
    pub fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, Reason::Unclassified, message)
    }

    /// The body is one for server-side apply.
    #[must_use]
    pub fn apply_is_not_served() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Reason::UnsupportedMediaType,
            "server-side apply is not served: apply without --server-side, or send a merge patch",
        )
    }

    /// The body's media type is not understood.
    #[must_use]
    pub fn unsupported_media_type(offered: &[&str]) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Reason::UnsupportedMediaType,
            format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                offered.join(", ")
            ),
        )
    }

    /// The object has grown larger than what is kept.
    #[must_use]
    pub fn too_large_to_store(bytes: usize, limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Reason::RequestEntityTooLarge,
            format!(
                "the object takes {bytes} bytes, and at most {limit} are stored: make it smaller"
            ),
        )
    }

    /// The body is longer than the server reads.
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Reason::RequestEntityTooLarge,
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// The object would become larger than the server keeps.
    pub fn too_large_by(why: impl fmt::Display) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Reason::RequestEntityTooLarge,
            format!("Request entity too large: {why}"),
        )
    }

    /// The revision a client wants is no longer known.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, Reason::Expired, message)
    }

    /// The revision a client wants has not happened yet.
    #[must_use]
    pub fn revision_too_large(wanted: u64, current: u64) -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            Reason::Timeout,
            format!("Timeout: Too large resource version: {wanted}, current: {current}"),
        )
        .detail(
            "causes",
            json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]),
        )
        .detail("retryAfterSeconds", 1.into())
    }

    /// Try again later.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let failure = Self::new(StatusCode::TOO_MANY_REQUESTS, Reason::TooManyRequests, message);
        if retry_after_seconds == 0 {
            return failure.with_empty_details();
        }
        failure.detail("retryAfterSeconds", retry_after_seconds.into())
    }

    /// The server could not do what it should.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            Reason::InternalError,
            format!("Internal error occurred: {message}"),
        )
    }

    /// Puts causes into the details, in the place of those that are there.
    #[must_use]
    pub fn with_causes(self, causes: Value) -> Self {
        self.detail("causes", causes)
    }

    /// Says that a change of `resource` may cure this in a moment.
    #[must_use]
    pub fn awaiting(mut self, resource: &'static str) -> Self {
        self.awaits = Some(resource);
        self
    }

    /// The `Status` object.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code.as_u16(),
        });
        if self.reason != Reason::Unclassified {
            status["reason"] = self.reason.as_str().into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = token.as_str().into();
        }
        status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use object::field::{ERRORS_MAX, Error, Path};
    use object::schema::DefaultsTooLarge;

    use super::*;

    #[test]
    fn of_many_faults_the_first_are_told() {
        let fault = |at: usize| Error::required(&Path::new("a").index(at), "");
        let errors: Vec<Error> = (0..60_000).map(fault).collect();
        let kind = GroupResource { group: "", resource: "Pod" };
        let status = Failure::invalid(&kind, "x", &errors).to_status();
        assert_eq!(status["details"]["causes"].as_array().unwrap().len(), ERRORS_MAX + 1);
        let message = status["message"].as_str().unwrap();
        assert!(message.ends_with("correct them to see the others]"), "{}", message.len());
    }

    #[test]
    fn an_object_that_its_defaults_would_make_too_large_is_refused_by_413() {
        let status = Failure::too_large_by(DefaultsTooLarge).to_status();
        assert_eq!(
            (&status["code"], &status["reason"]),
            (&413.into(), &"RequestEntityTooLarge".into())
        );
    }
}
