//! `allOf`, `anyOf`, `oneOf` and `not`. Where no alternative holds, the faults of the
//! one that came closest are told.

use serde_json::Value;

use super::node::{Checks, Id};
use super::trail::Trail;
use super::validation::Walk;
use crate::field::Errors;

/// How an alternative fared.
struct Outcome {
    passed: u32,
    errors: Errors,
}

impl Walk<'_> {
    fn attempt(&mut self, id: Id, value: &Value, old: Option<&Value>, at: &Trail<'_>) -> Outcome {
        let before = std::mem::take(&mut self.errors);
        let passed = self.node(id, value, old, at);
        Outcome { passed, errors: std::mem::replace(&mut self.errors, before) }
    }

    fn take(&mut self, outcome: Outcome) -> u32 {
        self.errors.extend(outcome.errors);
        outcome.passed
    }

    pub(super) fn junctors(
        &mut self,
        checks: &Checks,
        value: &Value,
        old: Option<&Value>,
        at: &Trail<'_>,
    ) -> u32 {
        let mut passed = 0;
        if !checks.any_of.is_empty() {
            passed += self.any_of(&checks.any_of, value, old, at);
        }
        if !checks.one_of.is_empty() {
            passed += self.one_of(&checks.one_of, value, old, at);
        }
        if !checks.all_of.is_empty() {
            passed += self.all_of(&checks.all_of, value, old, at);
        }
        if let Some(not) = checks.not
            && self.attempt(not, value, old, at).errors.is_empty()
        {
            self.composite(format!("{:?} must not validate the schema (not)", at.body_path()));
        }
        passed
    }

    fn any_of(&mut self, ids: &[Id], value: &Value, old: Option<&Value>, at: &Trail<'_>) -> u32 {
        let mut closest: Option<Outcome> = None;
        for id in ids {
            let outcome = self.attempt(*id, value, old, at);
            if outcome.errors.is_empty() {
                return outcome.passed;
            }
            if closest.as_ref().is_none_or(|best| outcome.passed > best.passed) {
                closest = Some(outcome);
            }
        }
        let path = at.body_path();
        self.composite(format!("{path:?} must validate at least one schema (anyOf)"));
        closest.map_or(0, |outcome| self.take(outcome))
    }

    fn one_of(&mut self, ids: &[Id], value: &Value, old: Option<&Value>, at: &Trail<'_>) -> u32 {
        let mut closest: Option<Outcome> = None;
        let (mut valid, mut first_passed) = (0, 0);
        for id in ids {
            let outcome = self.attempt(*id, value, old, at);
            if outcome.errors.is_empty() {
                if valid == 0 {
                    first_passed = outcome.passed;
                }
                valid += 1;
                closest = None;
            } else if valid == 0 && closest.as_ref().is_none_or(|best| outcome.passed > best.passed)
            {
                closest = Some(outcome);
            }
        }
        if valid == 1 {
            return first_passed;
        }
        let found = match valid {
            0 => "Found none valid".to_owned(),
            valid => format!("Found {valid} valid alternatives"),
        };
        let path = at.body_path();
        self.composite(format!("{path:?} must validate one and only one schema (oneOf). {found}"));
        closest.map_or(0, |outcome| self.take(outcome))
    }

    fn all_of(&mut self, ids: &[Id], value: &Value, old: Option<&Value>, at: &Trail<'_>) -> u32 {
        let (mut valid, mut passed) = (0, 0);
        for id in ids {
            let outcome = self.attempt(*id, value, old, at);
            valid += usize::from(outcome.errors.is_empty());
            passed += self.take(outcome);
        }
        if valid != ids.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            let path = at.body_path();
            self.composite(format!("{path:?} must validate all the schemas (allOf){none}"));
        }
        passed
    }
}
