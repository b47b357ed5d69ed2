//! Volumes that nobody has, by size and by the nodes that may reach them.
//!
//! A class may have a volume on each of thousands of nodes. A volume is filed under labels of which
//! a node must have one to reach it, so that a node is held against few volumes that are not there.

use std::collections::{BTreeMap, BTreeSet};

use object::quantity::Quantity;

use super::ByName;
use crate::fact::PersistentVolume;
use crate::needs::Operator;

/// Names of volumes, the smallest first.
type BySize = BTreeSet<(Quantity, Box<str>)>;

/// Volumes of a class that nobody has.
#[derive(Debug, Clone, Default)]
pub(super) struct Free {
    /// No label tells who reaches them.
    anywhere: BySize,
    /// By key and value of a label.
    by_label: BTreeMap<Box<str>, ByName<BySize>>,
}

/// The labels, as key and value, of which a node must have one to reach a volume; none where that
/// cannot be told by labels.
fn labels(volume: &PersistentVolume) -> Option<BTreeSet<(&str, &str)>> {
    let mut labels = BTreeSet::new();
    for term in volume.reach.as_deref()? {
        let certain = term.labels.iter().find(|one| one.operator == Operator::In)?;
        labels.extend(certain.values.iter().map(|value| (&*certain.key, &**value)));
    }
    Some(labels)
}

impl Free {
    pub(super) fn is_empty(&self) -> bool {
        self.anywhere.is_empty() && self.by_label.is_empty()
    }

    pub(super) fn add(&mut self, name: &str, volume: &PersistentVolume) {
        let entry = || (volume.capacity.clone(), name.into());
        let Some(labels) = labels(volume) else {
            self.anywhere.insert(entry());
            return;
        };
        for (key, value) in labels {
            let values = self.by_label.entry(key.into()).or_default();
            values.or_default(value.into()).insert(entry());
        }
    }

    pub(super) fn remove(&mut self, name: &str, volume: &PersistentVolume) {
        let entry = (volume.capacity.clone(), name.into());
        let Some(labels) = labels(volume) else {
            self.anywhere.remove(&entry);
            return;
        };
        for (key, value) in labels {
            let Some(values) = self.by_label.get_mut(key) else { continue };
            if let Some(own) = values.get_mut(value) {
                own.remove(&entry);
                if own.is_empty() {
                    values.remove(value);
                }
            }
            if values.is_empty() {
                self.by_label.remove(key);
            }
        }
    }

    /// The smallest volume that holds so much and is fine, out of those that a node with these
    /// labels may reach.
    pub(super) fn smallest<'a>(
        &self,
        size: &Quantity,
        label: impl Fn(&str) -> Option<&'a str>,
        is_fine: impl Fn(&str) -> bool,
    ) -> Option<&str> {
        let labelled = self.by_label.iter().filter_map(|(key, own)| own.get(label(key)?));
        let mut found: Option<&(Quantity, Box<str>)> = None;
        for volumes in [&self.anywhere].into_iter().chain(labelled) {
            let large_enough = volumes.range((size.clone(), Box::default())..);
            let smaller = large_enough.take_while(|own| found.is_none_or(|found| *own < found));
            found = smaller.into_iter().find(|(_, name)| is_fine(name)).or(found);
        }
        found.map(|(_, name)| &**name)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::fact::Source;
    use crate::needs::{NodeTerm, Requirement};

    fn on(host: &str) -> PersistentVolume {
        let (key, values) = ("host".into(), [host.into()].into());
        let labels = [Requirement { key, operator: Operator::In, values }].into();
        PersistentVolume {
            version: crate::fact::Version::default(),
            class: Box::default(),
            capacity: Quantity::ZERO,
            access_modes: Box::default(),
            is_block: false,
            attributes_class: Box::default(),
            claim: None,
            is_available: true,
            is_going: false,
            labels: BTreeMap::new(),
            reach: Some([NodeTerm { labels, fields: Box::default() }].into()),
            reach_taken_over: None,
            zones: Box::default(),
            source: Source::Other,
        }
    }

    #[test]
    fn a_node_is_held_against_its_own_volumes_and_not_against_those_of_others() {
        let mut free = Free::default();
        let name = |number: usize| format!("disk-{number}");
        (0..1000).for_each(|number| free.add(&name(number), &on(&number.to_string())));
        let asked = Cell::new(0);
        let found = |free: &Free, host: &str| {
            asked.set(0);
            let is_fine = |_: &str| {
                asked.set(asked.get() + 1);
                true
            };
            free.smallest(&Quantity::ZERO, |_| Some("7").filter(|own| *own == host), is_fine)
                .map(str::to_owned)
        };
        assert_eq!(found(&free, "7"), Some("disk-7".to_owned()));
        assert_eq!(asked.get(), 1);
        assert_eq!(found(&free, "nowhere"), None);
        assert_eq!(asked.get(), 0);
        (0..1000).for_each(|number| free.remove(&name(number), &on(&number.to_string())));
        assert!(free.is_empty());
    }
}
