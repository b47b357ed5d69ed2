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
    Ok(ask.listed(objects, &page))
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::header::{ACCEPT, CONTENT_LENGTH};
    use http::{Method, Request};
    use http_body::Body as _;
    use http_body_util::{BodyExt, Full};
    use serde_json::Value;

    use super::*;
    use crate::env::ManualEnv;
    use crate::request::Identity;
    use crate::{Config, Drydock};

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    async fn ask(server: &Drydock, method: Method, accept: &str, body: String) -> Answer {
        let mut request = Request::new(Full::from(Bytes::from(body)));
        (*request.method_mut(), *request.uri_mut()) = (method, MAPS.parse().unwrap());
        request.headers_mut().insert(ACCEPT, accept.parse().unwrap());
        let identity = Identity { user: "test".to_owned(), groups: Vec::new() };
        request.extensions_mut().insert(identity);
        server.answer(request).await
    }

    /// A server with so many config maps of some 4 KB.
    async fn server(maps: usize) -> Drydock {
        let env = ManualEnv::new(jiff::Timestamp::UNIX_EPOCH, 1);
        let server = Drydock::new(Config::default(), env);
        for at in 0..maps {
            let name = format!("m-{at:04}");
            let map = json!({"metadata": {"name": name}, "data": {"text": "x".repeat(4000)}});
            let made = ask(&server, Method::POST, "application/json", map.to_string()).await;
            assert_eq!(made.status(), 201);
        }
        server
    }

    fn names(list: &Value, field: &str) -> Vec<String> {
        let name = |item: &Value| {
            let object = if field == "rows" { &item["object"] } else { item };
            object["metadata"]["name"].as_str().unwrap().to_owned()
        };
        list[field].as_array().unwrap().iter().map(name).collect()
    }

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

    #[tokio::test]
    async fn a_long_list_is_written_as_it_is_read_and_shows_one_moment() {
        const COUNT: usize = 100;
        for (accept, field) in [
            ("application/json", "items"),
            ("application/yaml", "items"),
            (TABLE, "rows"),
            (METADATA, "items"),
        ] {
            let server = server(COUNT).await;
            let mut body = ask(&server, Method::GET, accept, String::new()).await.into_body();
            assert_eq!(body.size_hint().exact(), None, "{accept}: it is not written yet");
            let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
            // What happens from here on is none of this list's business.
            let gone = ask(&server, Method::DELETE, accept, String::new()).await;
            assert_eq!(gone.status(), 200);
            let mut whole = first.to_vec();
            let mut longest = first.len();
            while let Some(frame) = body.frame().await {
                let piece = frame.unwrap().into_data().unwrap();
                longest = longest.max(piece.len());
                whole.extend_from_slice(&piece);
            }
            assert!(longest < 256 * 1024, "{accept}: {longest}");
            let list: Value = match accept {
                "application/yaml" => serde_saphyr::from_slice(&whole).unwrap(),
                _ => serde_json::from_slice(&whole).unwrap(),
            };
            let expected: Vec<String> = (0..COUNT).map(|at| format!("m-{at:04}")).collect();
            assert_eq!(names(&list, field), expected, "{accept}");
            assert!(list["metadata"]["resourceVersion"].is_string(), "{accept}");
        }
    }

    #[tokio::test]
    async fn the_length_of_a_short_list_is_told() {
        let server = server(3).await;
        for accept in ["application/json", "application/yaml", TABLE, METADATA] {
            let answer = ask(&server, Method::GET, accept, String::new()).await;
            assert_eq!(answer.headers().get(CONTENT_LENGTH), None, "that is told by who sends it");
            let length = answer.body().size_hint().exact();
            let bytes = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(length, Some(bytes.len() as u64), "{accept}");
        }
    }
}
