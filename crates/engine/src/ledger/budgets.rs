//! Disruption budgets: whose going would be one too many.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::fact::Budget;

/// Disruption budgets, by namespace and name.
#[derive(Debug, Clone, Default)]
pub struct Budgets(FxHashMap<Box<str>, BTreeMap<Box<str>, Budget>>);

impl Budgets {
    /// A budget is there, or is now this; nothing when it is gone.
    pub(super) fn put(&mut self, namespace: Box<str>, name: Box<str>, budget: Option<Budget>) {
        match budget {
            Some(budget) => {
                self.0.entry(namespace).or_default().insert(name, budget);
            }
            None => {
                let Some(own) = self.0.get_mut(&namespace) else { return };
                own.remove(&name);
                if own.is_empty() {
                    self.0.remove(&namespace);
                }
            }
        }
    }

    /// The budgets of a namespace, by name.
    pub fn within(&self, namespace: &str) -> impl Iterator<Item = (&str, &Budget)> {
        let own = self.0.get(namespace).into_iter().flatten();
        own.map(|(name, budget)| (&**name, budget))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
