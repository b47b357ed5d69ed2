//! Why a reconciliation has to be tried again.

use std::time::Duration;

use chassis::client::Error;
use chassis::controller;

/// What could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A request failed.
    #[error("cannot {doing}")]
    Api {
        /// What it was for.
        doing: String,
        /// How it failed.
        source: Box<Error>,
    },
    /// What is needed cannot be found out.
    #[error("{0}")]
    Unknown(String),
}

impl Failure {
    /// For `map_err`: the request was for `doing`.
    pub fn of(doing: impl Into<String>) -> impl FnOnce(Error) -> Self {
        |source| Self::Api { doing: doing.into(), source: Box::new(source) }
    }

    /// Whether an object changed since it was read.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { source, .. } if source.is_conflict())
    }
}

impl controller::Failure for Failure {
    fn told(&self) -> String {
        match self {
            Self::Api { doing, source } => format!("cannot {doing}: {source}"),
            Self::Unknown(what) => what.clone(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Api { source, .. } => source.retry_after(),
            Self::Unknown(_) => None,
        }
    }

    fn is_conflict(&self) -> bool {
        self.is_conflict()
    }
}

/// What became of a write to an object that may be gone by now.
///
/// # Errors
/// The failure, unless the object is gone.
pub fn unless_gone<T>(
    result: Result<T, Error>,
    doing: impl Into<String>,
) -> Result<Option<T>, Failure> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(Failure::of(doing)(error)),
    }
}
