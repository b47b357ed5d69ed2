//! What is asked of a server. A text in braces, such as `{ns}`, stands for a value known only
//! when the scenario is played.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Method;
use serde_json::Value;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// May do everything.
    Admin,
    /// Is known and may do nothing.
    Outsider,
    /// Shows a token the server does not know.
    Stranger,
    /// Shows nothing.
    Anonymous,
}

/// The dialect of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own.
    Strategic,
}

impl PatchType {
    /// The media type that names the dialect.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

/// What is sent as the body.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Nothing.
    Empty,
    /// JSON, in whose texts placeholders are replaced.
    Json(Value),
    /// Bytes as they are.
    Raw(Bytes),
}

/// What the answer to a request must be, on every server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expectation {
    /// The status code.
    pub code: Option<u16>,
    /// The `reason` of the `Status` in the body.
    pub reason: Option<String>,
    /// Values at JSON pointers of the body.
    pub values: Vec<(String, Value)>,
    /// How many warnings there are.
    pub warnings: Option<usize>,
}

/// One request, what is expected of its answer and what is remembered from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The verb of HTTP.
    pub method: Method,
    /// The path, without the query.
    pub path: String,
    /// The query, in order.
    pub query: Vec<(String, String)>,
    /// Headers beside those of authentication.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
    /// Who asks.
    pub user: User,
    /// How many events to read, where this is a watch.
    pub events: Option<usize>,
    /// What the answer must be.
    pub expectation: Expectation,
    /// Names for values of the answer, by JSON pointer into its body.
    pub captures: Vec<(String, String)>,
    /// Whether the answer is left out of the comparison.
    pub is_preparation: bool,
    /// Lists that are compared as maps: the member that holds one, and the member of its elements
    /// that tells them apart.
    pub keys: Vec<(String, String)>,
    /// Whether the request is repeated until its answer is as expected.
    pub is_awaited: bool,
}

/// A GET.
#[must_use]
pub fn get(path: &str) -> Request {
    Request::new(Method::GET, path, Body::Empty)
}

/// A watch that ends after `events` events.
#[must_use]
pub fn watch(path: &str, events: usize) -> Request {
    let mut request = get(path).query("watch", "true");
    request.events = Some(events);
    request
}

/// A POST of JSON.
#[must_use]
pub fn post(path: &str, body: Value) -> Request {
    Request::new(Method::POST, path, Body::Json(body)).header("Content-Type", "application/json")
}

/// A PUT of JSON.
#[must_use]
pub fn put(path: &str, body: Value) -> Request {
    Request::new(Method::PUT, path, Body::Json(body)).header("Content-Type", "application/json")
}

/// A PATCH of JSON.
#[must_use]
pub fn patch(path: &str, dialect: PatchType, body: Value) -> Request {
    let request = Request::new(Method::PATCH, path, Body::Json(body));
    request.header("Content-Type", dialect.media_type())
}

/// A DELETE without options.
#[must_use]
pub fn delete(path: &str) -> Request {
    Request::new(Method::DELETE, path, Body::Empty)
}

impl Request {
    /// A request without query, by the administrator.
    #[must_use]
    pub fn new(method: Method, path: &str, body: Body) -> Self {
        Self {
            method,
            path: path.to_owned(),
            query: Vec::new(),
            headers: Vec::new(),
            body,
            user: User::Admin,
            events: None,
            expectation: Expectation::default(),
            captures: Vec::new(),
            is_preparation: false,
            keys: Vec::new(),
            is_awaited: false,
        }
    }

    /// Adds a parameter to the query.
    #[must_use]
    pub fn query(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a header, or replaces the one of that name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends JSON, for a verb that by itself has no body.
    #[must_use]
    pub fn json(mut self, body: Value) -> Self {
        self.body = Body::Json(body);
        self.header("Content-Type", "application/json")
    }

    /// Sends bytes as they are.
    #[must_use]
    pub fn raw(mut self, media_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = Body::Raw(body.into());
        self.header("Content-Type", media_type)
    }

    /// Asks as `user`.
    #[must_use]
    pub fn by(mut self, user: User) -> Self {
        self.user = user;
        self
    }

    /// The status code the answer must have.
    #[must_use]
    pub fn expect(mut self, code: u16) -> Self {
        self.expectation.code = Some(code);
        self
    }

    /// The status code and the reason of the refusal that must come.
    #[must_use]
    pub fn refused(mut self, code: u16, reason: &str) -> Self {
        self.expectation.reason = Some(reason.to_owned());
        self.expect(code)
    }

    /// A value the body must have at a JSON pointer. For a watch the body is the list of events.
    #[must_use]
    pub fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        self.expectation.values.push((pointer.to_owned(), value.into()));
        self
    }

    /// How many `Warning` headers the answer must have.
    #[must_use]
    pub fn warned(mut self, warnings: usize) -> Self {
        self.expectation.warnings = Some(warnings);
        self
    }

    /// Remembers the text at a JSON pointer of the body as `{name}`.
    #[must_use]
    pub fn capture(mut self, name: &str, pointer: &str) -> Self {
        self.captures.push((name.to_owned(), pointer.to_owned()));
        self
    }

    /// Marks a request that only prepares: its answer must be a success and is not compared.
    #[must_use]
    pub fn preparation(mut self) -> Self {
        self.is_preparation = true;
        self
    }

    /// Repeats the request until its answer is as expected: what a server does on its own after
    /// a change of a definition cannot be watched in a way that all servers share.
    #[must_use]
    pub fn awaited(mut self) -> Self {
        self.is_awaited = true;
        self
    }

    /// Compares each list `member` of the answer element by element with the one of the same
    /// `key`, which is a JSON pointer into the element, rather than of the same place.
    #[must_use]
    pub fn keyed(mut self, member: &str, key: &str) -> Self {
        self.keys.push((member.to_owned(), key.to_owned()));
        self
    }

    /// The request with every `{name}` of `values` replaced.
    #[must_use]
    pub fn filled(&self, values: &BTreeMap<String, String>) -> Self {
        let mut filled = self.clone();
        filled.path = fill(&self.path, values);
        for (_, value) in filled.query.iter_mut().chain(&mut filled.headers) {
            *value = fill(value, values);
        }
        if let Body::Json(body) = &mut filled.body {
            fill_json(body, values);
        }
        for (_, value) in &mut filled.expectation.values {
            fill_json(value, values);
        }
        filled
    }
}

fn fill(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut text = text.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    text
}

fn fill_json(value: &mut Value, values: &BTreeMap<String, String>) {
    match value {
        Value::String(text) => *text = fill(text, values),
        Value::Array(items) => items.iter_mut().for_each(|item| fill_json(item, values)),
        Value::Object(members) => members.values_mut().for_each(|member| fill_json(member, values)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn placeholders_are_replaced_in_path_query_body_and_expectation() {
        let values = BTreeMap::from([("ns".to_owned(), "n1".to_owned())]);
        let request = post("/{ns}/{other}", json!({"a": ["{ns}"], "b": 1}))
            .query("q", "{ns}-{ns}")
            .with("/a", "{ns}")
            .filled(&values);
        assert_eq!(request.path, "/n1/{other}");
        assert_eq!(request.query, [("q".to_owned(), "n1-n1".to_owned())]);
        assert_eq!(request.body, Body::Json(json!({"a": ["n1"], "b": 1})));
        assert_eq!(request.expectation.values, [("/a".to_owned(), json!("n1"))]);
    }

    #[test]
    fn a_header_set_again_replaces_the_first() {
        let request = post("/", json!({})).header("content-type", "text/plain");
        assert_eq!(request.headers, [("content-type".to_owned(), "text/plain".to_owned())]);
    }
}
