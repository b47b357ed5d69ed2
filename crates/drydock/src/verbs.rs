//! What can be asked of a resource.

pub mod create;
pub mod delete;
pub mod get;
pub mod list;
pub mod patch;
pub mod selection;
pub mod update;
pub mod watch;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::answer::represent::Form;
use crate::answer::{Answer, Failure, represent};
use crate::kinds::Found;
use crate::request::{FieldValidation, Identity, Query, Target};
use crate::server::Server;
use crate::write::{self, Decoded, Part, Writer, Written};

/// A request for a resource, all parts read.
pub struct Ask<'a> {
    /// The server.
    pub server: &'a Arc<Server>,
    /// The kind, in the version of the request.
    pub found: Found,
    /// What the path names.
    pub target: Target,
    /// The options.
    pub query: Query,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Who asks.
    pub identity: &'a Identity,
    /// How the answer should look.
    pub form: Form,
}

impl Ask<'_> {
    /// The writer of a request with these options.
    #[must_use]
    pub fn writer(&self, dry_run: bool) -> Writer<'_> {
        Writer { identity: self.identity, dry_run }
    }

    /// The name the path gives.
    #[must_use]
    pub fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    /// The namespace the path gives.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.target.namespace.as_deref()
    }

    /// The part of the object the path means, where it is the object or its status.
    #[must_use]
    pub fn part(&self) -> Part {
        match self.target.subresource.as_deref() {
            Some("status") => Part::Status,
            Some("resize") => Part::Named("resize"),
            _ => Part::Object,
        }
    }

    /// The body as an object of the kind.
    ///
    /// # Errors
    /// When it is not such an object.
    pub fn decode(
        &self,
        media_type: &str,
        validation: FieldValidation,
    ) -> Result<Decoded, Failure> {
        let kind = (&*self.found.kind, self.found.version());
        write::decode(&self.server.registry(), kind, media_type, &self.body, validation)
    }

    /// The answer to a write.
    #[must_use]
    pub fn written(&self, code: StatusCode, written: &Written, warnings: &[String]) -> Answer {
        let mut answer = represent::written(self.server, &self.found, &self.form, code, written);
        warn(&mut answer, warnings);
        answer
    }
}

/// A refusal that tells the client what else it should know.
pub(crate) fn refused(failure: Failure, warnings: &[String]) -> Answer {
    let mut answer = Answer::from(failure);
    warn(&mut answer, warnings);
    answer
}

/// The longest text of all warnings of one answer, in bytes, as upstream has it.
const WARNING_BYTES_MAX: usize = 4 * 1024;

/// Adds `Warning` headers.
pub fn warn(answer: &mut Answer, warnings: &[String]) {
    let mut bytes = 0;
    for text in warnings {
        let quoted: String = text
            .chars()
            .filter(|character| !character.is_control())
            .flat_map(|character| {
                let escaped = matches!(character, '"' | '\\').then_some('\\');
                escaped.into_iter().chain([character])
            })
            .collect();
        bytes += quoted.len();
        let header = http::HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes());
        if let (true, Ok(header)) = (bytes <= WARNING_BYTES_MAX, header) {
            answer.headers_mut().append(http::header::WARNING, header);
        }
    }
}

/// Adds a `Warning` header before those that are there.
pub fn warn_first(answer: &mut Answer, warning: &str) {
    let later: Vec<_> = answer.headers().get_all(http::header::WARNING).iter().cloned().collect();
    answer.headers_mut().remove(http::header::WARNING);
    warn(answer, &[warning.to_owned()]);
    for value in later {
        answer.headers_mut().append(http::header::WARNING, value);
    }
}

/// Refuses a verb that discovery does not list for the resource or the part of it.
///
/// # Errors
/// When the verb is not offered.
pub fn require_offered(found: &Found, target: &Target, verb: &str) -> Result<(), Failure> {
    let (kind, version) = (&found.kind, found.version());
    let offered = match target.subresource.as_deref() {
        None => &version.verbs,
        Some(name) => match version.subresource(name) {
            Some(subresource) => &subresource.verbs,
            None if kind.is_custom() => {
                let name = target.name.as_deref().unwrap_or_default();
                return Err(Failure::not_found(&kind.resource(), name));
            }
            None => return Err(Failure::no_such_path()),
        },
    };
    if offered.iter().any(|known| known == verb) {
        return Ok(());
    }
    Err(Failure::method_not_allowed())
}
