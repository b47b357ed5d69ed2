//! Which objects belong to a controller: those that name it, and orphans it may take.
//!
//! An object belongs to the controller whose uid it names. An object that nobody manages
//! and that the selector matches is adopted; one that is managed and no longer matches is
//! released. A controller that is going adopts and releases nothing.

use api::OwnerReference;
use object::selector::label::Selector;

/// What is asked of an object that may belong to a controller.
pub struct Candidate<'a> {
    /// Its managing owner.
    pub controller: Option<&'a OwnerReference>,
    /// Whether its labels match the selector.
    pub matches: bool,
    /// Whether its deletion has begun.
    pub going: bool,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    /// The uid of the controller.
    pub uid: &'a str,
    /// Whether its deletion has begun.
    pub going: bool,
}

/// What becomes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// It belongs to the controller.
    Ours,
    /// It is nobody's and becomes the controller's.
    Adopt,
    /// It is the controller's and must not be.
    Release,
    /// It is no business of the controller.
    Foreign,
}

/// Decides for one object.
#[must_use]
pub fn decide(claimant: Claimant<'_>, candidate: &Candidate<'_>) -> Ownership {
    match candidate.controller {
        Some(owner) if owner.uid != claimant.uid => Ownership::Foreign,
        Some(_) if candidate.matches => Ownership::Ours,
        Some(_) if claimant.going => Ownership::Foreign,
        Some(_) => Ownership::Release,
        None if claimant.going || !candidate.matches || candidate.going => Ownership::Foreign,
        None => Ownership::Adopt,
    }
}

/// Whether the labels of a map match a selector.
#[must_use]
pub fn matches(selector: &Selector, labels: &std::collections::BTreeMap<String, String>) -> bool {
    selector.matches(|key| labels.get(key).map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::testing::controller;

    #[test]
    fn only_orphans_that_match_are_adopted_and_only_own_ones_released() {
        let check = |owner: Option<&str>, matches, going, claimant_going, want| {
            let owner = owner.map(|uid| controller("ReplicaSet", "web", uid));
            let candidate = Candidate { controller: owner.as_ref(), matches, going };
            let claimant = Claimant { uid: "me", going: claimant_going };
            assert_eq!(decide(claimant, &candidate), want);
        };
        check(Some("me"), true, false, false, Ownership::Ours);
        check(Some("me"), true, true, true, Ownership::Ours);
        check(Some("me"), false, false, false, Ownership::Release);
        check(Some("me"), false, false, true, Ownership::Foreign);
        check(Some("other"), true, false, false, Ownership::Foreign);
        check(None, true, false, false, Ownership::Adopt);
        check(None, true, true, false, Ownership::Foreign);
        check(None, true, false, true, Ownership::Foreign);
        check(None, false, false, false, Ownership::Foreign);
    }
}
