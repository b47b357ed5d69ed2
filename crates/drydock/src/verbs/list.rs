//! Many objects, at once or page by page.

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
    let cut = Cut::asked(ask, options)?;
    let limit = usize::try_from(options.limit).ok().filter(|limit| *limit > 0);
    let matches = |stored: &Stored| selection.matches(stored);
    let wanted: Option<&dyn Fn(&Stored) -> bool> =
        if selection.is_everything() { None } else { Some(&matches) };
    let table = &ask.found.kind.table;
    let prefix = ask.target.prefix();
    let all = limit.unwrap_or(usize::MAX);
    let (objects, revision, more) = match cut.revision {
        None if limit.is_none() && cut.after.is_empty() => {
            let (mut objects, revision) = table.list(&prefix);
            objects.retain(|stored| wanted.is_none_or(|wanted| wanted(stored)));
            (objects, revision, 0)
        }
        at => {
            let page =
                table.page(&prefix, &cut.after, at, all, wanted).map_err(|_| cut.expired())?;
            (page.objects, page.revision, page.more)
        }
    };
    let next = match objects.last() {
        Some(last) if more > 0 => {
            Some(Token { revision: Some(revision), after: last.key.to_string() }.encode())
        }
        _ => None,
    };
    // kube-apiserver does not count what it has not filtered.
    let remaining = (more > 0 && selection.is_everything()).then_some(more);
    let page = represent::Page { revision, next, remaining };
    Ok(represent::list(ask.server, &ask.found, &ask.form, &objects, &page))
}

/// Which part of a list is asked for.
struct Cut {
    /// The keys after this one.
    after: String,
    /// As they were then; as they are now where nothing is said.
    revision: Option<Revision>,
    /// Whether an earlier page was the first.
    continues: bool,
}

impl Cut {
    fn asked(ask: &Ask<'_>, options: &ListOptions) -> Result<Self, Failure> {
        if let Some(token) = &options.continue_token {
            if !matches!(options.resource_version.as_str(), "" | "0") {
                let why = "specifying resource version is not allowed when using continue";
                return Err(Failure::bad_request(why));
            }
            let token = Token::decode(token)?;
            return Ok(Self { after: token.after, revision: token.revision, continues: true });
        }
        let wanted = revision(&options.resource_version)
            .map_err(|why| Failure::bad_request(format!("invalid resource version: {why}")))?;
        check_reached(ask, wanted)?;
        let exact = options.revision_match == Some(RevisionMatch::Exact);
        Ok(Self { after: String::new(), revision: exact.then_some(wanted), continues: false })
    }

    /// The refusal of a revision that is gone. Whoever was in the middle of a list can go on
    /// with how things are now.
    fn expired(&self) -> Failure {
        if !self.continues {
            return Failure::expired("The resourceVersion for the provided list is too old.");
        }
        let mut failure = Failure::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        failure.continue_token = Some(Token { revision: None, after: self.after.clone() }.encode());
        failure
    }
}

/// Refuses a revision that has not happened yet, as far as the kind in hand can tell: one that
/// was replaced sees nothing more, and who asks again finds the other.
///
/// # Errors
/// When it has not.
pub fn check_reached(ask: &Ask<'_>, wanted: Revision) -> Result<(), Failure> {
    let current = ask.found.kind.table.revision();
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
    /// None where the list goes on with how things are now.
    revision: Option<Revision>,
    after: String,
}

/// The version of the form of a token.
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl Token {
    fn encode(&self) -> String {
        // The next page starts at the first key that can follow.
        let start = format!("{}\0", self.after);
        let revision = self.revision.map_or(json!(-1), Into::into);
        let token = json!({"v": TOKEN_VERSION, "rv": revision, "start": start});
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
        let revision = match token["rv"].as_i64() {
            Some(number) if number < 0 => None,
            Some(number) if number > 0 => Some(number.unsigned_abs()),
            _ => {
                let why =
                    format!("incorrect encoded start resourceVersion (version {TOKEN_VERSION})");
                return Err(malformed(&why));
            }
        };
        let start = token["start"].as_str().unwrap_or_default();
        if start.is_empty() {
            let why = format!("encoded start key empty (version {TOKEN_VERSION})");
            return Err(malformed(&why));
        }
        Ok(Self { revision, after: start.trim_end_matches('\0').to_owned() })
    }
}
