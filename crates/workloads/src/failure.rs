//! Why a reconciliation has to be tried again.

use std::future::Future;
use std::time::Duration;

use chassis::client::Error;
use chassis::controller;
use futures::stream::{self, StreamExt as _};

/// How many writes of one look go side by side.
const SIDE_BY_SIDE: usize = 16;

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

/// Carries out many writes, some side by side. One that fails keeps none of the others.
///
/// # Errors
/// The first failure, when all have been tried.
pub async fn all_of<F: Future<Output = Result<(), Failure>>>(
    writes: Vec<F>,
) -> Result<(), Failure> {
    let mut outcome = Ok(());
    let mut answers = stream::iter(writes).buffer_unordered(SIDE_BY_SIDE);
    while let Some(answer) = answers.next().await {
        outcome = outcome.and(answer);
    }
    outcome
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn one_write_that_fails_keeps_none_of_the_others() {
        let (begun, done, most) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let write = |number: usize| {
            let (begun, done, most) = (&begun, &done, &most);
            async move {
                begun.set(begun.get() + 1);
                most.set(most.get().max(begun.get() - done.get()));
                tokio::task::yield_now().await;
                done.set(done.get() + 1);
                let failed = [3, 70].contains(&number);
                if failed { Err(Failure::Unknown(number.to_string())) } else { Ok(()) }
            }
        };
        let failure = all_of((0..100).map(write).collect()).await.unwrap_err();
        assert_eq!((failure.to_string().as_str(), done.get(), most.get()), ("3", 100, 16));
        assert!(all_of((4..7).map(write).collect()).await.is_ok());
    }
}
