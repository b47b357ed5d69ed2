//! Which quotas there are: objects by name, whatever they add up to.

use std::collections::{BTreeMap, BTreeSet};

use api::elastic_quota::ROOT_QUOTA;

use super::QuotaFact;
use super::placement::LEVELS_MAX;
use crate::moment::Moment;

/// Which of several objects of one name is older; of equally old ones, which namespace comes first.
type Age = (Moment, Box<str>);

/// All quotas. Pods refer to a quota by its name alone, so that of several objects of one name only the
/// oldest is in force, whatever came first here; the others are conflicts until it is gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Register {
    /// Objects by name; the first of a name is in force.
    named: BTreeMap<Box<str>, BTreeMap<Age, QuotaFact>>,
    /// Quotas in force that a namespace is listed by, by name.
    by_namespace: BTreeMap<Box<str>, BTreeSet<Box<str>>>,
}

impl Register {
    /// Takes in an object, in place of the one of its namespace and name. Whether that changes anything.
    pub fn put(&mut self, fact: QuotaFact) -> bool {
        let objects = self.named.get(&fact.name);
        let known =
            objects.and_then(|objects| objects.get(&(fact.created, fact.namespace.clone())));
        if known == Some(&fact) {
            return false;
        }
        let name = fact.name.clone();
        self.change(&name, |objects| {
            objects.retain(|(_, namespace), _| *namespace != fact.namespace);
            objects.insert((fact.created, fact.namespace.clone()), fact);
        });
        true
    }

    /// Forgets an object. Whether there was one.
    pub fn remove(&mut self, namespace: &str, name: &str) -> bool {
        let is_it = |(_, own): &Age| **own == *namespace;
        let is_there = self.named.get(name).is_some_and(|objects| objects.keys().any(is_it));
        if is_there {
            self.change(name, |objects| objects.retain(|age, _| !is_it(age)));
        }
        is_there
    }

    /// Changes the objects of a name, and what follows from which of them is in force.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut BTreeMap<Age, QuotaFact>)) {
        let mut objects = self.named.remove(name).unwrap_or_default();
        for namespace in objects.values().next().into_iter().flat_map(listed) {
            if let Some(quotas) = self.by_namespace.get_mut(namespace) {
                quotas.remove(name);
                if quotas.is_empty() {
                    self.by_namespace.remove(namespace);
                }
            }
        }
        change(&mut objects);
        let Some(fact) = objects.values().next() else { return };
        for namespace in listed(fact) {
            self.by_namespace.entry(namespace.clone()).or_default().insert(name.into());
        }
        self.named.insert(name.into(), objects);
    }

    /// The quota of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&QuotaFact> {
        self.named.get(name)?.values().next()
    }

    /// All quotas, by name.
    pub fn iter(&self) -> impl Iterator<Item = &QuotaFact> {
        self.named.values().filter_map(|objects| objects.values().next())
    }

    /// Objects that count for nothing, since an older one has their name.
    pub fn conflicts(&self) -> impl Iterator<Item = &QuotaFact> {
        self.named.values().flat_map(|objects| objects.values().skip(1))
    }

    /// Quotas that name this one as the one above, by name.
    pub fn children<'a>(&'a self, parent: &'a str) -> impl Iterator<Item = &'a QuotaFact> {
        self.iter().filter(move |fact| &*fact.parent == parent)
    }

    /// The tree that a quota is of: the one that it names, or else that of the one above it.
    #[must_use]
    pub fn tree_of<'a>(&'a self, fact: &'a QuotaFact) -> &'a str {
        let above = |own: &&QuotaFact| self.get(&own.parent).filter(|own| &*own.name != ROOT_QUOTA);
        let chain = std::iter::successors(Some(fact), above).take(LEVELS_MAX + 1);
        chain.map(|own| &*own.tree_id).find(|id| !id.is_empty()).unwrap_or_default()
    }

    /// The quota that lists a namespace; of several, the first by name.
    #[must_use]
    pub fn of_namespace(&self, namespace: &str) -> Option<&str> {
        self.by_namespace.get(namespace)?.first().map(|name| &**name)
    }
}

/// The namespaces that a quota lists; none where it says too much.
fn listed(fact: &QuotaFact) -> &[Box<str>] {
    if fact.excess().is_some() { &[] } else { &fact.namespaces }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::quota::ByResource;

    fn fact(namespace: &str, name: &str, created: u64, lists: &[&str]) -> QuotaFact {
        QuotaFact {
            namespace: namespace.into(),
            created: Moment(created),
            namespaces: lists.iter().map(|name| Box::from(*name)).collect(),
            ..QuotaFact::new(name, ByResource::new())
        }
    }

    #[test]
    fn of_one_name_the_oldest_is_in_force_and_the_others_wait() {
        let mut register = Register::default();
        let in_force = |register: &Register| register.get("q").map(|fact| fact.namespace.clone());
        register.put(fact("b", "q", 2, &["shop"]));
        register.put(fact("a", "q", 3, &["other"]));
        assert_eq!(in_force(&register).as_deref(), Some("b"));
        register.put(fact("c", "q", 2, &[]));
        assert_eq!(in_force(&register).as_deref(), Some("b"), "b comes before c");
        let waiting: Vec<_> = register.conflicts().map(|fact| &*fact.namespace).collect();
        assert_eq!(waiting, ["c", "a"]);
        assert_eq!(
            (register.of_namespace("shop"), register.of_namespace("other")),
            (Some("q"), None)
        );
        register.remove("b", "q");
        register.remove("c", "q");
        assert_eq!(in_force(&register).as_deref(), Some("a"));
        assert_eq!(
            (register.of_namespace("shop"), register.of_namespace("other")),
            (None, Some("q"))
        );
        register.remove("a", "q");
        assert_eq!(register, Register::default(), "nothing is left behind");
    }

    #[test]
    fn an_object_that_is_told_again_replaces_itself() {
        let mut register = Register::default();
        register.put(fact("a", "q", 1, &["shop"]));
        register.put(fact("a", "q", 9, &["kitchen"]));
        assert_eq!(register.conflicts().count(), 0);
        assert_eq!(
            (register.of_namespace("shop"), register.of_namespace("kitchen")),
            (None, Some("q"))
        );
    }

    proptest! {
        #[test]
        fn the_order_in_which_objects_come_does_not_matter(
            objects in vec((0..3_u8, 0..3_u8, 0..3_u64), 0..9),
            keys in vec(any::<u32>(), 9),
        ) {
            let object = |(at, (namespace, name, created)): (usize, &(u8, u8, u64))| {
                (at, fact(&format!("n{namespace}"), &format!("q{name}"), *created, &["shop"]))
            };
            let mut all: Vec<_> = objects.iter().enumerate().map(object).collect();
            // One object is told once.
            let mut told = BTreeSet::new();
            all.retain(|(_, fact)| told.insert((fact.namespace.clone(), fact.name.clone())));
            let register = |all: &[(usize, QuotaFact)]| {
                let mut register = Register::default();
                for (_, fact) in all {
                    assert!(register.put(fact.clone()), "it is new");
                    assert!(!register.put(fact.clone()), "it is known");
                }
                register
            };
            let expected = register(&all);
            all.sort_by_key(|(at, _)| keys[*at]);
            prop_assert_eq!(register(&all), expected);
        }
    }
}
