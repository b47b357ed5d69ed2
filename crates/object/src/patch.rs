//! Patches: how a client says what to change in an object without sending it whole.
//!
//! | module | format | asked for by |
//! |---|---|---|
//! | [`json`] | RFC 6902, a list of operations | `application/json-patch+json` |
//! | [`merge`] | RFC 7386, a partial document | `application/merge-patch+json` |
//! | [`strategic`] | a partial document that knows list keys from the schema | `application/strategic-merge-patch+json` |
//! | [`three_way`] | a patch computed from last-applied, wanted and current | clients that apply |
//!
//! Results and error texts are those of kube-apiserver. The patches work on JSON
//! values: whether the result is a valid object is for others to say. Every function
//! recurses as deep as its arguments, which [`crate::json::decode`] has bounded.

pub mod json;
pub mod merge;
pub mod strategic;
pub mod three_way;

/// Why a patch was refused, by the answer kube-apiserver gives for it. The text is
/// what the client reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is not a patch: 400, `BadRequest`.
    #[error("{0}")]
    Malformed(String),
    /// The patch asks for more work than is allowed: 413, `RequestEntityTooLarge`.
    #[error("{0}")]
    TooLarge(String),
    /// The patch is well-formed, but not for this object: 422.
    #[error("{0}")]
    Unprocessable(String),
    /// A misuse for which kube-apiserver has no class of its own: 500.
    #[error("{0}")]
    Unclassified(String),
}

impl PatchError {
    /// The HTTP status of the answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::TooLarge(_) => 413,
            Self::Unprocessable(_) => 422,
            Self::Unclassified(_) => 500,
        }
    }
}

/// The name Go gives the type of a decoded value where it is printed as a text (`%s`), which a
/// value that is nothing is not.
pub(crate) fn go_type(value: &serde_json::Value) -> &'static str {
    if value.is_null() { "%!s(<nil>)" } else { crate::json::go_type(value) }
}

#[cfg(test)]
mod cases;
#[cfg(test)]
mod laws;
