//! Why no room is made, as data.

use std::fmt;

use super::{Rule, Uncleared};

/// Why nobody goes, for each rule that was tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fruitless(Vec<(Uncleared, Option<Box<str>>)>);

impl Fruitless {
    /// Nobody goes by a rule.
    pub(crate) fn note(&mut self, rule: &Rule, why: Uncleared) {
        let quota = match rule {
            Rule::Lower { .. } => None,
            Rule::Quota { quota, .. } => Some(quota.name.clone()),
        };
        self.0.push((why, quota));
    }

    /// Whether no rule was tried yet.
    pub(crate) fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether anybody could have gone, and it would not have helped.
    pub(crate) fn had_victims(&self) -> bool {
        self.0.iter().any(|(why, _)| *why != Uncleared::NoVictims)
    }
}

impl fmt::Display for Fruitless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (why, quota)) in self.0.iter().enumerate() {
            let separator = if number > 0 { ", " } else { "" };
            write!(f, "{separator}{}", why.as_str())?;
            if let Some(quota) = quota {
                write!(f, " in quota {quota}")?;
            }
        }
        Ok(())
    }
}
