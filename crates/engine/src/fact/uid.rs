//! What the API server calls an object.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

/// What the API server calls an object, for as long as it exists.
///
/// A pod is looked for in dozens of tables from when it comes until it is seen with its node: the number
/// that its uid is hashed to stands beside the text.
#[derive(Clone)]
pub struct Uid(pub Arc<str>, u64);

impl Uid {
    /// The uid with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into(), FxBuildHasher.hash_one(text))
    }

    /// A number that follows from the text and differs from pod to pod.
    pub(crate) fn number(&self) -> u64 {
        self.1
    }
}

impl PartialEq for Uid {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1 && (Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0)
    }
}

impl Eq for Uid {}

impl Hash for Uid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.1.hash(state);
    }
}

impl PartialOrd for Uid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Uid {
    fn cmp(&self, other: &Self) -> Ordering {
        match Arc::ptr_eq(&self.0, &other.0) {
            true => Ordering::Equal,
            false => self.0.cmp(&other.0),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Uid").field(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_what_their_texts_are() {
        let texts = ["", "a", "a\0", "ab", "b"];
        for (at, one) in texts.into_iter().enumerate() {
            for (of, other) in texts.into_iter().enumerate() {
                let (one, other) = (Uid::new(one), Uid::new(other));
                assert_eq!(one == other, at == of, "{one:?} {other:?}");
                assert_eq!(one.cmp(&other), at.cmp(&of), "{one:?} {other:?}");
                let hashes = [&one, &other].map(|uid| FxBuildHasher.hash_one(uid));
                assert_eq!(hashes[0] == hashes[1], at == of, "{one:?} {other:?}");
            }
        }
        assert_eq!(format!("{:?}", Uid::new("a").clone()), r#"Uid("a")"#);
    }
}
