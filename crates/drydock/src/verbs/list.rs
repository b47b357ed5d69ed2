//! Many objects, at once or page by page.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use object::field::{Error, Path};
use serde_json::json;

use super::Ask;
use super::selection::Selection;
use crate::answer::{Answer, Failure, represent};
use crate::request::ListOptions;
use crate::request::options::RevisionMatch;
use crate::store::{Revision, Stored};

/// Answers with the objects that are meant.
///
/// # Errors
/// When an option is malformed, or the revision asked for is gone or has not happened.
pub fn list(ask: &Ask<'_>, options: &ListOptions) -> Result<Answer, Failure> {
    let selection = Selection::parse(&ask.found, options)?;
    let (objects, revision, after) = objects(ask, options)?;
    let limit = usize::try_from(options.limit).unwrap_or(0);
    let mut meant = Vec::new();
    let mut left = 0;
    let later = objects
        .into_iter()
        .filter(|stored| after.as_deref().is_none_or(|after| *stored.key > *after));
    for stored in later {
        if !selection.matches(&stored) {
            continue;
        }
        if limit > 0 && meant.len() == limit {
            left += 1;
        } else {
            meant.push(stored);
        }
    }
    let next = match meant.last() {
        Some(last) if left > 0 => Some(Token { revision, after: last.key.to_string() }.encode()),
        _ => None,
    };
    // kube-apiserver does not count what it has not filtered.
    let remaining = (left > 0 && selection.is_everything()).then_some(left);
    let page = represent::Page { revision, next, remaining };
    Ok(represent::list(ask.server, &ask.found, &ask.form, &meant, &page))
}

type Objects = (Vec<Arc<Stored>>, Revision, Option<String>);

fn objects(ask: &Ask<'_>, options: &ListOptions) -> Result<Objects, Failure> {
    let table = &ask.found.kind.table;
    let prefix = ask.target.prefix();
    if let Some(token) = &options.continue_token {
        if !matches!(options.resource_version.as_str(), "" | "0") {
            let why = "specifying resource version is not allowed when using continue";
            return Err(Failure::bad_request(why));
        }
        let token = Token::decode(token)?;
        let objects = table.list_at(&prefix, token.revision).map_err(|_| continue_expired())?;
        return Ok((objects, token.revision, Some(token.after)));
    }
    let wanted = revision(&options.resource_version)
        .map_err(|why| Failure::bad_request(format!("invalid resource version: {why}")))?;
    if options.revision_match == Some(RevisionMatch::Exact) {
        check_reached(ask, wanted)?;
        let objects = table.list_at(&prefix, wanted).map_err(|_| {
            Failure::expired("The resourceVersion for the provided list is too old.")
        })?;
        return Ok((objects, wanted, None));
    }
    check_reached(ask, wanted)?;
    let (objects, revision) = table.list(&prefix);
    Ok((objects, revision, None))
}

fn continue_expired() -> Failure {
    Failure::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
    )
}

/// Refuses a revision that has not happened yet.
///
/// # Errors
/// When it has not.
pub fn check_reached(ask: &Ask<'_>, wanted: Revision) -> Result<(), Failure> {
    let current = ask.server.store().revision();
    if wanted > current {
        return Err(Failure::revision_too_large(wanted, current));
    }
    Ok(())
}

/// Reads a resource version as a client gives it; empty is zero.
///
/// # Errors
/// When it is not a number, in kube-apiserver's words; verbs differ in what they make of them.
pub fn revision(text: &str) -> Result<Revision, String> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let at = Path::new("resourceVersion");
        let why = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
        Error::invalid(&at, text, why).to_string()
    })
}

/// Where a page ended. Clients hand it back as they got it; its form is kube-apiserver's, so that
/// a broken one is refused in the same words.
struct Token {
    revision: Revision,
    after: String,
}

/// The version of the form of a token.
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl Token {
    fn encode(&self) -> String {
        // The next page starts at the first key that can follow.
        let start = format!("{}\0", self.after);
        let token = json!({"v": TOKEN_VERSION, "rv": self.revision, "start": start});
        BASE64_URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn decode(text: &str) -> Result<Self, Failure> {
        let malformed = |why: &dyn std::fmt::Display| {
            let why = format!("invalid continue token: continue key is not valid: {why}");
            Failure::bad_request(why)
        };
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|error| malformed(&error))?;
        let token = object::json::decode(&bytes, object::json::Limits::default())
            .map_err(|error| malformed(&error))?
            .value;
        let version = token["v"].as_str().unwrap_or_default();
        if version != TOKEN_VERSION {
            let why = format!("server does not recognize this encoded version {version:?}");
            return Err(malformed(&why));
        }
        let revision = token["rv"].as_u64().filter(|revision| *revision > 0);
        let revision = revision.ok_or_else(|| {
            malformed(&format!("incorrect encoded start resourceVersion (version {TOKEN_VERSION})"))
        })?;
        let start = token["start"].as_str().unwrap_or_default();
        if start.is_empty() {
            let why = format!("encoded start key empty (version {TOKEN_VERSION})");
            return Err(malformed(&why));
        }
        Ok(Self { revision, after: start.trim_end_matches('\0').to_owned() })
    }
}
