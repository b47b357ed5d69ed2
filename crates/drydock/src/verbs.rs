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
use serde_json::Value;

use crate::answer::negotiate::Encoding;
use crate::answer::represent::Form;
use crate::answer::{Answer, Failure, represent};
use crate::apart::apart;
use crate::kinds::{Found, crd};
use crate::request::options::DeleteOptions;
use crate::request::{FieldValidation, Identity, Query, Target, Verb};
use crate::server::Server;
use crate::store::Stored;
use crate::write::{self, Attempt, Decoded, Part, Removed, Writer, Written};

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

/// A request may take long that brings, or is about, more bytes than this.
const LIGHT_BYTES: usize = 32 * 1024;
/// So may one about all of more objects than this.
const LIGHT_TABLE_OBJECTS: usize = 500;
/// In these few bytes may stand for many values.
const DENSE_MEDIA_TYPES: [&str; 2] = ["application/yaml", "application/json-patch+json"];

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

    /// Stores a new object. This, [`Ask::update`] and [`Ask::remove`] are how requests write: what
    /// a write of a definition leads to is done here, so that no verb can forget it.
    ///
    /// # Errors
    /// When the object is refused or the name is taken.
    pub fn create(&self, object: &Value, dry_run: bool) -> Result<Written, Failure> {
        let writer = self.writer(dry_run);
        let written = write::create(self.server, &self.found, self.namespace(), writer, object)?;
        crd::after_write(self.server, &self.found.kind, &written);
        Ok(written)
    }

    /// Applies `change` to the object that `attempt` names.
    ///
    /// # Errors
    /// When the object is not there, `change` refuses, or the result is refused.
    pub fn update(
        &self,
        attempt: &Attempt<'_>,
        change: impl FnMut(&Value) -> Result<Value, Failure>,
    ) -> Result<Written, Failure> {
        let written = write::update(self.server, attempt, change)?;
        crd::after_write(self.server, &attempt.found.kind, &written);
        Ok(written)
    }

    /// Deletes an object of the kind, or marks it where something has to happen first.
    ///
    /// # Errors
    /// When the object is not there, a precondition is not met, or deletion is not allowed.
    pub fn remove(
        &self,
        namespace: Option<&str>,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Removed, Failure> {
        let writer = self.writer(options.dry_run);
        let removed = write::remove(self.server, &self.found, namespace, name, options, writer)?;
        crd::after_removal(self.server, &self.found.kind, &removed);
        Ok(removed)
    }

    /// Does work on one object without holding up the other requests of this thread, where it
    /// may take long.
    pub fn apart<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.may_take_long() { apart(work) } else { work() }
    }

    /// Whether what the request brings, what it is about, or what is checked on the way can be
    /// much. Rules may take a second however small the object is.
    fn may_take_long(&self) -> bool {
        let kind = &self.found.kind;
        let stored = || kind.table.get(&self.target.key()).map_or(0, |stored| stored.body.len());
        self.body.len() > LIGHT_BYTES
            || self.found.version().schema.has_rules()
            || crd::defines_kinds(kind)
            || DENSE_MEDIA_TYPES.contains(&write::media_type(&self.headers).as_str())
            || self.target.name.is_some() && stored() > LIGHT_BYTES
    }

    /// The same for work on all objects there are.
    pub fn apart_with_all<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.found.kind.table.len() > LIGHT_TABLE_OBJECTS { apart(work) } else { work() }
    }

    /// The answer that shows many objects.
    #[must_use]
    pub fn listed(&self, objects: Vec<Arc<Stored>>, page: &represent::Page) -> Answer {
        let shape = (&self.form, Encoding::of(&self.headers));
        represent::list(self.server, &self.found, shape, objects, page)
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
///
/// # Errors
/// With the failure, where the client is not to hear of it: the request is carried out anew.
pub(crate) fn refused(failure: Failure, warnings: &[String]) -> Result<Answer, Failure> {
    if failure.is_outdated {
        return Err(failure);
    }
    let mut answer = Answer::from(failure);
    warn(&mut answer, warnings);
    Ok(answer)
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
pub fn require_offered(found: &Found, target: &Target, verb: Verb) -> Result<(), Failure> {
    let (kind, version) = (&found.kind, found.version());
    let offered = match target.subresource.as_deref() {
        None => &version.verbs,
        Some(name) => match version.subresource(name) {
            Some(subresource) => &subresource.verbs,
            None if kind.is_custom() => {
                let name = target.name.as_deref().unwrap_or_default();
                return Err(Failure::not_found(&kind.resource(), name));
            }
            None if version.unserved.iter().any(|known| known == name) => {
                return Err(crate::subresources::unserved(kind.resource().resource, name));
            }
            None => return Err(Failure::no_such_path()),
        },
    };
    if offered.iter().any(|known| known == verb.as_str()) {
        return Ok(());
    }
    Err(Failure::method_not_allowed())
}
