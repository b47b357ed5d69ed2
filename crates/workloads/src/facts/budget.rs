//! Disruption budgets, with their selectors parsed.

use std::ops::Deref;

use api::{OwnerReference, PodDisruptionBudget};
use chassis::client::{Identity, Object};
use object::selector::label::Selector;
use serde::Deserialize;

use super::meta::Owned;

/// A budget, and whom it protects. Every change of a pod asks that of every budget in its
/// namespace, so the selector is parsed once, when the budget is read.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "PodDisruptionBudget")]
pub struct Budget {
    budget: PodDisruptionBudget,
    /// Whom it protects. A selector that is absent, or makes no sense, selects nothing.
    pub selector: Selector,
}

impl From<PodDisruptionBudget> for Budget {
    fn from(budget: PodDisruptionBudget) -> Self {
        let selector = budget.spec.selector.as_ref();
        let selector = selector.and_then(|own| own.to_selector().ok());
        Self { selector: selector.unwrap_or_else(Selector::nothing), budget }
    }
}

impl Deref for Budget {
    type Target = PodDisruptionBudget;

    fn deref(&self) -> &PodDisruptionBudget {
        &self.budget
    }
}

impl Object for Budget {
    fn identity(&self) -> Identity<'_> {
        (&self.budget.metadata).into()
    }
}

impl Owned for Budget {
    fn owners(&self) -> &[OwnerReference] {
        self.budget.owners()
    }

    fn has_finalizer(&self, name: &str) -> bool {
        self.budget.has_finalizer(name)
    }

    fn is_going(&self) -> bool {
        self.budget.is_going()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::meta::Labels;
    use super::*;

    #[test]
    fn the_selector_is_parsed_with_the_budget() {
        let check = |selector: Value, want: bool| {
            let wire = json!({ "metadata": { "name": "b" }, "spec": { "selector": &selector } });
            let budget: Budget = serde_json::from_value(wire).unwrap();
            let labels: Labels = [("app".to_owned(), "web".to_owned())].into_iter().collect();
            assert_eq!(labels.match_selector(&budget.selector), want, "{selector}");
        };
        check(json!({ "matchLabels": { "app": "web" } }), true);
        check(json!({ "matchLabels": { "app": "db" } }), false);
        check(json!({}), true);
        check(Value::Null, false);
        check(json!({ "matchExpressions": [{ "key": "app", "operator": "In" }] }), false);
    }
}
