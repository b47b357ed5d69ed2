//! Scenarios of quotas, and what holds of a tree whatever happens.
//!
//! Amounts are written as `cpu/memory`, in thousandths and in units; a quota whose ceiling has one amount
//! counts CPU alone.

mod admission;
mod freed;
mod laws;
mod lending;
mod reference;
mod runtime;

use api::elastic_quota::ROOT_QUOTA;

use super::*;
use crate::needs::Amounts;

/// Amounts of CPU and memory.
fn list(text: &str) -> ByResource {
    let names = ["cpu", "memory"].map(Box::from);
    names.into_iter().zip(text.split('/').map(|amount| amount.parse().unwrap())).collect()
}

/// The same as what somebody asks for.
fn amounts(text: &str) -> Amounts {
    let mut amounts = Amounts::default();
    list(text).iter().for_each(|(name, amount)| amounts.put(name, *amount));
    amounts
}

/// A quota as in `a<parent min=1/2 max=3/4 weight=5/6 keeps`: one that keeps lends nothing.
fn quota(text: &str) -> QuotaFact {
    let mut words = text.split(' ');
    let (name, parent) = words.next().unwrap().split_once('<').unwrap();
    let mut fact = QuotaFact::new(name, ByResource::new());
    fact.parent = if parent.is_empty() { ROOT_QUOTA.into() } else { parent.into() };
    let mut weight = None;
    for word in words {
        match word.split_once('=') {
            Some(("min", text)) => fact.min = list(text),
            Some(("max", text)) => fact.max = list(text),
            Some(("weight", text)) => weight = Some(list(text)),
            None if word == "keeps" => fact.is_lendable = false,
            _ => panic!("{word} says nothing of a quota"),
        }
    }
    fact.weight = weight.unwrap_or_else(|| fact.max.clone());
    fact
}

/// A tree of so much, with these quotas.
fn tree(options: Options, capacity: &str, quotas: &[&str]) -> QuotaTree {
    let mut tree = QuotaTree::new(options);
    tree.set_capacity(list(capacity));
    quotas.iter().for_each(|text| tree.put(quota(text)));
    tree
}

/// Asks for more, or less with a sign, as in `a 5/6`.
fn ask(tree: &mut QuotaTree, text: &str) {
    let (name, text) = text.split_once(' ').unwrap();
    tree.add_request(name, &amounts(text), 1, Preemptible::Yes);
}

/// Something of a standing.
type Part = fn(&Standing) -> &ByResource;

/// What a part of standings is, given as `a 5/6`.
fn check(tree: &mut QuotaTree, part: Part, expected: &[&str]) {
    let view = tree.view();
    for text in expected {
        let (name, text) = text.split_once(' ').unwrap();
        let standing = view.standing(name).expect("a quota that has a place");
        assert_eq!(*part(&standing), list(text), "{name}");
    }
}
