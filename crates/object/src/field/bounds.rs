//! How much is told of what is wrong. A small request can have any number of faults, each with a
//! path as long as the request; what would not be told is not made.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{Error, Errors, Fault, Path};

/// How many errors are told at most. kube-apiserver tells all, and answers a small request with
/// many megabytes.
pub const ERRORS_MAX: usize = 1_000;

/// How many bytes of text the errors that are told may have together, the first apart.
pub const ERRORS_BYTES_MAX: usize = 1024 * 1024;

/// The errors as they are told: the first of them, and where there are more than the bounds
/// allow, a last one that says so.
///
/// ```
/// use object::field::{ERRORS_MAX, Error, Path, bounded};
/// let errors = vec![Error::required(&Path::new("a"), ""); 60_000];
/// let told = bounded(&errors);
/// assert_eq!(told.len(), ERRORS_MAX + 1);
/// assert!(told[ERRORS_MAX].detail.contains("only the first 1000 faults are told"));
/// assert_eq!(bounded(&errors[..2]).len(), 2);
/// ```
#[must_use]
pub fn bounded(errors: &[Error]) -> Cow<'_, [Error]> {
    let mut bytes = 0;
    let fits = |error: &&Error| {
        bytes += error.bytes();
        bytes <= ERRORS_BYTES_MAX
    };
    let count = errors.iter().take(ERRORS_MAX).take_while(fits).count().max(1);
    if count >= errors.len() {
        return Cow::Borrowed(errors);
    }
    let mut told = errors[..count].to_vec();
    let detail = format!("only the first {count} faults are told: correct them to see the others");
    told.push(Error::with(&Path::root(), Fault::Invalid, None, detail));
    Cow::Owned(told)
}

/// Errors on their way to be told: just as many as [`bounded`] needs to see that there are more.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    list: Errors,
    bytes: usize,
}

impl Gathered {
    /// Whether more would not be told. What makes errors asks this first, because the path of
    /// one can be as long as the object.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() > ERRORS_MAX || self.bytes > ERRORS_BYTES_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds an error, unless it would not be told.
    pub(crate) fn push(&mut self, error: Error) {
        if !self.is_full() {
            self.bytes += error.bytes();
            self.list.push(error);
        }
    }

    pub(crate) fn extend(&mut self, errors: impl IntoIterator<Item = Error>) {
        errors.into_iter().for_each(|error| self.push(error));
    }

    /// What was gathered, in the order in which it was found.
    pub(crate) fn into_list(self) -> Errors {
        self.list
    }
}

/// How many bytes of text such as the paths of unknown fields are made. Those that come after are
/// not told, and nothing says so: upstream cuts its lists without a word, too.
const TEXTS_BYTES_MAX: usize = 256 * 1024;

/// Texts on their way to be told, each once.
#[derive(Debug)]
pub(crate) struct Texts {
    list: Vec<String>,
    known: BTreeSet<String>,
    count_max: usize,
    /// How much text was made, repetitions included.
    bytes: usize,
}

impl Texts {
    /// At most so many.
    pub(crate) fn at_most(count_max: usize) -> Self {
        Self { list: Vec::new(), known: BTreeSet::new(), count_max, bytes: 0 }
    }

    /// Adds the text that `make` makes, unless it would not be told.
    pub(crate) fn add(&mut self, make: impl FnOnce() -> String) {
        if self.list.len() >= self.count_max || self.bytes > TEXTS_BYTES_MAX {
            return;
        }
        let text = make();
        self.bytes += text.len();
        if self.known.insert(text.clone()) {
            self.list.push(text);
        }
    }

    /// What was gathered, in the order in which it was found.
    pub(crate) fn into_list(self) -> Vec<String> {
        self.list
    }
}
