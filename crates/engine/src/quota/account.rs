//! What is charged to somebody, by resource, to the last unit.

use std::collections::BTreeMap;

use super::Preemptible;
use super::column::{Charge, Charges};
use crate::needs::Amounts;

/// What is asked for and used, by resource. What came and went again leaves nothing behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account(BTreeMap<Box<str>, Charges>);

/// What of an account changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub charge: Charge,
    pub preemptible: Preemptible,
    /// 1, or -1 where it is taken away.
    pub sign: i64,
}

impl Account {
    /// Whether nothing is charged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Charges so much, and says what that comes to by resource.
    pub(crate) fn enter<'a>(
        &mut self,
        amounts: &'a Amounts,
        entry: Entry,
    ) -> impl Iterator<Item = (&'a str, i128)> {
        let delta = move |name| i128::from(amounts.of(name)) * i128::from(entry.sign);
        for resource in amounts.names() {
            self.change(resource, |own| {
                own.add(entry.charge, entry.preemptible, delta(resource));
            });
        }
        amounts.names().map(move |resource| (resource, delta(resource)))
    }

    /// Charges all that is charged to another, or takes it away.
    pub(super) fn add(&mut self, other: &Self, sign: i128) {
        for (resource, charges) in &other.0 {
            self.change(resource, |own| own.add_all(charges, sign));
        }
    }

    fn change(&mut self, resource: &str, change: impl FnOnce(&mut Charges)) {
        if let Some(charges) = self.0.get_mut(resource) {
            change(charges);
            if *charges == Charges::default() {
                self.0.remove(resource);
            }
            return;
        }
        let mut charges = Charges::default();
        change(&mut charges);
        if charges != Charges::default() {
            self.0.insert(resource.into(), charges);
        }
    }

    pub(crate) fn get(&self, resource: &str) -> Option<Charges> {
        self.0.get(resource).copied()
    }
}
