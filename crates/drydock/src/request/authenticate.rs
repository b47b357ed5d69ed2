//! Who asks.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::answer::Failure;

/// A client whose credentials were good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user name.
    pub user: String,
    /// The groups it belongs to.
    pub groups: Vec<String>,
}

impl Identity {
    /// The server itself.
    #[must_use]
    pub fn server() -> Self {
        Self { user: "system:apiserver".to_owned(), groups: vec!["system:masters".to_owned()] }
    }
}

/// A bearer token and whom it stands for.
#[derive(Debug, Clone)]
pub struct Credential {
    /// The secret.
    pub token: String,
    /// Whom it stands for.
    pub identity: Identity,
}

/// Finds out who sent these headers.
///
/// # Errors
/// Without a token, or with one that is not known: nobody is let in anonymously.
pub fn authenticate<'a>(
    credentials: &'a [Credential],
    headers: &HeaderMap,
) -> Result<&'a Identity, Failure> {
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = given
        .and_then(|value| value.split_once(' '))
        .and_then(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer").then_some(token.trim()));
    let token = token.ok_or_else(Failure::unauthorized)?;
    let known = credentials.iter().find(|known| same_secret(&known.token, token));
    known.map(|known| &known.identity).ok_or_else(Failure::unauthorized)
}

/// Compares in time that depends on the length alone, so that a guess learns nothing.
fn same_secret(known: &str, given: &str) -> bool {
    let difference =
        known.bytes().zip(given.bytes()).fold(0, |seen, (left, right)| seen | (left ^ right));
    known.len() == given.len() && difference == 0
}
