//! Which nodes a pod must and would rather run on.

use std::collections::{BTreeMap, BTreeSet};

/// Which nodes a pod must and would rather run on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeAffinity {
    /// Labels that the node must have.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// One of these must hold. None at all admits every node; an empty list admits none.
    pub required: Option<Box<[NodeTerm]>>,
    /// What the pod would rather have.
    pub preferred: Box<[Preference]>,
}

impl NodeAffinity {
    /// Whether every node is admitted.
    #[must_use]
    pub fn admits_all(&self) -> bool {
        self.labels.is_empty() && self.required.is_none()
    }
}

impl NodeAffinity {
    /// The names of the only nodes that are admitted, where every term names some.
    #[must_use]
    pub fn names(&self) -> Option<BTreeSet<&str>> {
        let terms = self.required.as_deref().filter(|terms| !terms.is_empty())?;
        let mut all = BTreeSet::new();
        for term in terms {
            let mut names = term.fields.iter().filter(|field| field.is).map(|field| &*field.name);
            let first = names.next()?;
            if names.all(|name| name == first) {
                all.insert(first);
            }
        }
        Some(all)
    }
}

/// A term: all of its requirements hold. A term without any holds for no node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeTerm {
    /// On the labels of the node.
    pub labels: Box<[Requirement]>,
    /// On its fields.
    pub fields: Box<[Field]>,
}

/// What a pod would rather have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Preference {
    /// What it is worth, from 1 to 100.
    pub weight: i32,
    /// What should hold.
    pub term: NodeTerm,
}

/// A requirement on a label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// Key of the label.
    pub key: Box<str>,
    /// What is required of it.
    pub operator: Operator,
    /// What it is compared with.
    pub values: Box<[Box<str>]>,
}

/// What is required of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// It has one of the values.
    In,
    /// It is missing or has another value.
    NotIn,
    /// It is there.
    Exists,
    /// It is missing.
    DoesNotExist,
    /// It is a number above the value.
    Gt,
    /// It is a number below the value.
    Lt,
}

impl Requirement {
    /// Whether a label, where the node has it, is as required.
    #[must_use]
    pub fn holds(&self, label: Option<&str>) -> bool {
        let listed = |label: &str| self.values.iter().any(|value| **value == *label);
        match self.operator {
            Operator::In => label.is_some_and(listed),
            Operator::NotIn => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::Gt => self.compared(label).is_some_and(|(label, value)| label > value),
            Operator::Lt => self.compared(label).is_some_and(|(label, value)| label < value),
        }
    }

    fn compared(&self, label: Option<&str>) -> Option<(i64, i64)> {
        Some((label?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

/// A requirement on the name of the node, the only field there is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    /// Whether the name must, or must not, be this one.
    pub is: bool,
    /// The name.
    pub name: Box<str>,
}

impl NodeTerm {
    /// Whether a node with this name and these labels is as required.
    pub fn holds<'a>(&self, name: &str, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let empty = self.labels.is_empty() && self.fields.is_empty();
        !empty
            && self.labels.iter().all(|one| one.holds(label(&one.key)))
            && self.fields.iter().all(|field| (*field.name == *name) == field.is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_judged_by_its_operator() {
        let check = |operator, values: &[&str], label: Option<&str>, holds: bool| {
            let values = values.iter().map(|value| (*value).into()).collect();
            let requirement = Requirement { key: "k".into(), operator, values };
            assert_eq!(requirement.holds(label), holds, "{requirement:?} {label:?}");
        };
        check(Operator::In, &["a", "b"], Some("b"), true);
        check(Operator::In, &["a"], Some("b"), false);
        check(Operator::In, &["a"], None, false);
        check(Operator::NotIn, &["a"], None, true);
        check(Operator::NotIn, &["a"], Some("a"), false);
        check(Operator::Exists, &[], Some(""), true);
        check(Operator::Exists, &[], None, false);
        check(Operator::DoesNotExist, &[], None, true);
        check(Operator::Gt, &["5"], Some("6"), true);
        check(Operator::Gt, &["5"], Some("5"), false);
        check(Operator::Gt, &["5"], Some("x"), false);
        check(Operator::Lt, &["5"], Some("-1"), true);
        check(Operator::Lt, &["5"], None, false);
    }

    #[test]
    fn a_term_without_requirements_holds_for_no_node() {
        assert!(!NodeTerm::default().holds("n", |_| None));
        let fields = Box::new([Field { is: true, name: "n".into() }]);
        let named = NodeTerm { labels: Box::default(), fields };
        assert!(named.holds("n", |_| None));
        assert!(!named.holds("m", |_| None));
    }
}
