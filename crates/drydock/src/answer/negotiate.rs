//! What a client accepts, and which of what is offered it gets.

use std::cmp::Reverse;

use http::HeaderMap;
use http::header::{ACCEPT, HeaderValue};
use object::table::Include;

use super::Failure;
use super::represent::Form;
use crate::request::{Query, Verb};

/// The media types offered.
pub const OFFERED: [&str; 2] = [JSON, YAML];
/// The media types of a watch.
pub const STREAMED: [&str; 1] = ["application/json;stream=watch"];

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// How the bytes of an answer are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As JSON.
    Json,
    /// As YAML.
    Yaml,
}

impl Encoding {
    /// The most wanted encoding that is offered; JSON where there is none, since a refusal has to
    /// be written somehow.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let accept = Accept::read(headers);
        accept.0.iter().find_map(Clause::encoding).unwrap_or(Self::Json)
    }

    /// The media type.
    #[must_use]
    pub fn media_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => JSON,
            Self::Yaml => YAML,
        })
    }
}

/// What a client accepts, the most wanted first.
struct Accept<'a>(Vec<Clause<'a>>);

struct Clause<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Accept<'a> {
    fn read(headers: &'a HeaderMap) -> Self {
        let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let texts = accept.flat_map(|value| value.split(',')).map(str::trim);
        let mut clauses: Vec<Clause<'_>> =
            texts.filter(|text| !text.is_empty()).map(Clause::read).collect();
        if clauses.is_empty() {
            clauses.push(Clause { media_type: "*/*", parameters: Vec::new() });
        }
        clauses.sort_by_key(|clause| Reverse(clause.thousandths()));
        Self(clauses)
    }
}

impl<'a> Clause<'a> {
    fn read(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters = parts.filter_map(|part| part.split_once('=')).collect();
        Self { media_type, parameters }
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// How much it is wanted.
    fn thousandths(&self) -> u32 {
        let given = self.parameter("q").and_then(|text| text.parse::<f32>().ok()).unwrap_or(1.0);
        // A quality is between zero and one, and a cast keeps within bounds anyway.
        (given * 1000.0) as u32
    }

    fn encoding(&self) -> Option<Encoding> {
        match self.media_type {
            JSON | "application/*" | "*/*" => Some(Encoding::Json),
            YAML => Some(Encoding::Yaml),
            _ => None,
        }
    }

    fn form(&self, query: &Query) -> Option<Result<Form, Failure>> {
        self.encoding()?;
        let wanted = self.parameter("as").unwrap_or_default();
        let is_other = |name, known| self.parameter(name).is_some_and(|given| given != known);
        if !wanted.is_empty() && (is_other("g", "meta.k8s.io") || is_other("v", "v1")) {
            return None;
        }
        match wanted {
            "" => Some(Ok(Form::Object)),
            "Table" => Some(include_object(query).map(Form::Table)),
            "PartialObjectMetadata" | "PartialObjectMetadataList" => Some(Ok(Form::Metadata)),
            _ => None,
        }
    }
}

impl Form {
    /// Finds the most wanted form that is offered.
    ///
    /// # Errors
    /// When none is.
    pub fn negotiate(headers: &HeaderMap, query: &Query) -> Result<Self, Failure> {
        let accept = Accept::read(headers);
        let found = accept.0.iter().find_map(|clause| clause.form(query));
        found.unwrap_or_else(|| Err(Failure::not_acceptable(&OFFERED)))
    }
}

/// Refuses a request for a native kind that accepts nothing the kind is routed for.
///
/// # Errors
/// When no clause names a media type that is offered, or any.
pub fn require_representation(headers: &HeaderMap, verb: Verb) -> Result<(), Failure> {
    let named =
        |clause: &Clause<'_>| clause.media_type == "*/*" || OFFERED.contains(&clause.media_type);
    if Accept::read(headers).0.iter().any(named) {
        return Ok(());
    }
    let mut offered = OFFERED.to_vec();
    if matches!(verb, Verb::List | Verb::Watch) {
        offered.extend(STREAMED);
    }
    Err(Failure::no_representation(&offered))
}

/// Refuses a watch by a client that accepts no stream.
///
/// # Errors
/// When the client wants YAML, which has no form for one event after another.
pub fn require_stream(headers: &HeaderMap) -> Result<(), Failure> {
    match Encoding::of(headers) {
        Encoding::Json => Ok(()),
        Encoding::Yaml => Err(Failure::not_acceptable(&STREAMED)),
    }
}

fn include_object(query: &Query) -> Result<Include, Failure> {
    let given = query.text("includeObject").unwrap_or_default();
    Include::parse(given).ok_or_else(|| {
        let why = "must be 'Metadata', 'Object', 'None', or empty";
        Failure::bad_request(format!("Invalid value: {given:?}: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str, encoding: Encoding, form: Option<&Form>) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        assert_eq!(Encoding::of(&headers), encoding, "{accept}");
        assert_eq!(Form::negotiate(&headers, &Query::default()).ok().as_ref(), form, "{accept}");
    }

    #[test]
    fn the_most_wanted_of_what_is_offered_is_taken() {
        let table = Form::Table(Include::Metadata);
        check("", Encoding::Json, Some(&Form::Object));
        check("*/*", Encoding::Json, Some(&Form::Object));
        check("text/plain, application/json;q=0.9", Encoding::Json, Some(&Form::Object));
        check(
            "application/json;q=0.1, application/yaml;q=0.9",
            Encoding::Yaml,
            Some(&Form::Object),
        );
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io, application/json",
            Encoding::Json,
            Some(&table),
        );
        check(
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json",
            Encoding::Json,
            Some(&Form::Object),
        );
        check("application/json;as=Nothing;g=x;v=v1", Encoding::Json, None);
        check("application/vnd.kubernetes.protobuf", Encoding::Json, None);
        check("application/json;q=weird", Encoding::Json, Some(&Form::Object));
    }
}
