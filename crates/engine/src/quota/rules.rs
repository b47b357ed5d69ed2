//! Which changes of quotas are let through, what is filled in where somebody says nothing, which pods may be
//! made that are charged to one, and to which nodes those are tied.
//!
//! A tree survives whatever is written. These rules keep nonsense out where it can still be refused, and
//! say to whom it concerns what to write instead. The quotas that a change is held against are those of all
//! trees.
//!
//! Of a quota that is there [`faults`] are told as its condition. Nothing in the product calls the rest yet: a webhook is
//! to, which comes with the manager.

mod complete;
mod creation;
mod nodes;
mod refusal;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::ElasticQuota;
use api::elastic_quota::{DEFAULT_QUOTA, QuotaTerms, ROOT_QUOTA, SHARED_WEIGHT, SYSTEM_QUOTA};
use api::pod::ResourceList;

pub use complete::{Completion, complete};
pub use creation::{Allowance, Batch, CreationRefusal};
pub use nodes::tied_to_tree;
pub use refusal::{Rule, RuleRefusal};

use super::fact::value;
use super::{ByResource, QuotaFact, Register, View, amount};

/// A change of a quota that somebody proposes.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// It is to be there.
    Create(&'a ElasticQuota),
    /// It is to be another.
    Update {
        /// What it is.
        old: &'a ElasticQuota,
        /// What it is to be.
        new: &'a ElasticQuota,
    },
    /// It is to go.
    Delete(&'a ElasticQuota),
}

/// Pods that are charged to the quota that is to be changed, by name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pods<'a> {
    /// Those that name it.
    pub naming: &'a [&'a str],
    /// Those that belong to it by their namespace.
    pub of_namespaces: &'a [&'a str],
}

/// Which resources the ceiling of a quota names, given those of the one above.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Keys {
    /// The same.
    #[default]
    Same,
    /// The same or fewer.
    Fewer,
}

/// Whether a change is let through.
///
/// # Errors
/// The first rule that it breaks.
pub fn judge(
    view: View<'_>,
    change: Change<'_>,
    pods: Pods<'_>,
    keys: Keys,
) -> Result<(), RuleRefusal> {
    let (Change::Create(quota) | Change::Update { new: quota, .. } | Change::Delete(quota)) =
        change;
    let terms = QuotaTerms::of(quota);
    let fact = QuotaFact::said_by(quota, &terms);
    let judge = Judge::of(view, quota, (&terms, &fact), (pods, keys));
    let judged = match change {
        Change::Create(_) => judge.create(),
        Change::Update { old, .. } => judge.update(old),
        Change::Delete(_) => judge.delete(),
    };
    judged.map_err(|rule| RuleRefusal { quota: quota.metadata.name.as_str().into(), rule })
}

/// What of the rules a quota that is there breaks, of which this was read, the worst first, beside where it is in its
/// tree. Where two do not go together of which one is above the other, the one below says so, but for guarantees that
/// add up to too much. That one does not count what the other does is no fault: a quota hands on what it does not count.
#[must_use]
pub fn faults(
    view: View<'_>,
    quota: &ElasticQuota,
    (terms, fact): (&QuotaTerms, &QuotaFact),
) -> Vec<Rule> {
    let judge = Judge::of(view, quota, (terms, fact), (Pods::default(), Keys::default()));
    let (name, register) = (&judge.fact.name, judge.register);
    let mut faults: Vec<Rule> = judge.sense().err().into_iter().collect();
    // What has no place says why already.
    if !is_reserved(name) && view.chain(name).next().is_some() {
        let parent = register.get(&judge.terms.parent).filter(|own| !is_reserved(&own.name));
        faults.extend(parent.into_iter().flat_map(|parent| judge.beside_parent(parent)));
        if !judge.terms.allows_force_update && !judge.terms.is_root {
            let beyond = beyond(view.guaranteed_below(name), &judge.fact.min);
            faults.extend(beyond.map(|(resource, sum, min)| Rule::MinBelowChildren {
                resource,
                sum,
                min,
            }));
        }
    }
    faults.extend(judge.namespaces().err());
    faults
        .extend(view.uncounted(name).map(|resource| Rule::Uncounted { resource: resource.into() }));
    faults
}

/// Who holds a quota against the others.
struct Judge<'a> {
    view: View<'a>,
    register: &'a Register,
    pods: Pods<'a>,
    keys: Keys,
    wire: &'a ElasticQuota,
    terms: &'a QuotaTerms,
    fact: &'a QuotaFact,
}

impl<'a> Judge<'a> {
    fn of(
        view: View<'a>,
        wire: &'a ElasticQuota,
        (terms, fact): (&'a QuotaTerms, &'a QuotaFact),
        (pods, keys): (Pods<'a>, Keys),
    ) -> Self {
        Self { view, register: view.all, pods, keys, wire, terms, fact }
    }

    /// What of a quota that is there does not go together with the one above it.
    fn beside_parent(&self, parent: &QuotaFact) -> Vec<Rule> {
        let mut rules = Vec::new();
        let (tree, of) = (&self.terms.tree_id, self.register.tree_of(parent));
        if !tree.is_empty() && **tree != *of {
            let (tree, other, of) = (tree.clone(), parent.name.clone(), of.into());
            rules.push(Rule::TreeDiffers { tree, other, of });
        }
        if !parent.is_parent {
            rules.push(Rule::ParentIsLeaf { parent: parent.name.clone() });
        }
        // What the parent does not count it hands on, and whoever counts that above it says what is wrong.
        let counts = |resource: &str| parent.max.contains_key(resource);
        let min_without_parent = self.min_without(parent, counts);
        let is_beyond =
            min_without_parent.is_none() && !self.terms.allows_force_update && !self.terms.is_root;
        rules.extend(min_without_parent);
        rules.extend(is_beyond.then(|| self.min_above(parent, counts)).flatten());
        rules
    }

    fn create(&self) -> Result<(), Rule> {
        if let Some(known) = self.register.get(&self.fact.name) {
            let namespace = known.namespace.clone();
            return Err(Rule::NameTaken { namespace });
        }
        self.namespaces()?;
        self.amounts()?;
        self.tree()?;
        self.surroundings()
    }

    fn update(&self, old: &ElasticQuota) -> Result<(), Rule> {
        let before = &QuotaTerms::of(old);
        let said = |own: &QuotaTerms| {
            let names = (own.parent.clone(), own.tree_id.clone(), own.namespaces.clone());
            (names, own.is_parent, own.shared_weight.clone())
        };
        // What the scheduler writes of a quota is never in the way of a mistake that is older.
        if old.spec == self.wire.spec && said(before) == said(self.terms) {
            return Ok(());
        }
        self.namespaces()?;
        if matches!(&*self.fact.name, ROOT_QUOTA | SYSTEM_QUOTA) {
            return Err(Rule::Reserved);
        }
        self.amounts()?;
        self.role(before)?;
        if before.tree_id != self.terms.tree_id {
            let (from, to) = (before.tree_id.clone(), self.terms.tree_id.clone());
            return Err(Rule::TreeChanged { from, to });
        }
        self.tree()?;
        self.surroundings()
    }

    fn delete(&self) -> Result<(), Rule> {
        let quota = &self.fact.name;
        if is_reserved(quota) {
            return Err(Rule::Reserved);
        }
        if let Some(child) = self.register.children(quota).next() {
            let child = child.name.clone();
            return Err(Rule::DeletedParent { child });
        }
        match self.pods.naming {
            [] => Ok(()),
            pods => Err(Rule::DeletedWithPods { pods: owned(pods) }),
        }
    }

    /// No namespace is listed by two.
    fn namespaces(&self) -> Result<(), Rule> {
        for namespace in &self.terms.namespaces {
            let other = self.register.of_namespace(namespace);
            if let Some(other) = other.filter(|other| **other != *self.fact.name) {
                let (namespace, other) = (namespace.clone(), other.into());
                return Err(Rule::NamespaceTaken { namespace, other });
            }
        }
        Ok(())
    }

    /// What it says of itself makes sense, and its ceiling is where it wants it.
    fn amounts(&self) -> Result<(), Rule> {
        self.sense()?;
        self.used()
    }

    /// What it says of itself makes sense.
    fn sense(&self) -> Result<(), Rule> {
        let spec = &self.wire.spec;
        let weight = self.terms.shared_weight.iter();
        let lists = [("max", &spec.max), ("min", &spec.min)].into_iter();
        for (list, amounts) in lists.chain(weight.map(|own| (SHARED_WEIGHT, own))) {
            if let Some((resource, own)) = amounts.iter().find(|(_, own)| own.sign() < 0) {
                let (resource, amount) = (resource.as_str().into(), value(resource, own));
                return Err(Rule::Negative { list, resource, amount });
            }
        }
        for (resource, min) in &spec.min {
            let resource = Box::from(resource.as_str());
            let Some(max) = spec.max.get(&*resource) else {
                return Err(Rule::MinWithoutMax { resource });
            };
            if min > max {
                let (min, max) = (value(&resource, min), value(&resource, max));
                return Err(Rule::MinAboveMax { resource, min, max });
            }
        }
        Ok(())
    }

    /// It alone is guaranteed more than the one above, of such resources.
    fn min_above(&self, parent: &QuotaFact, of: impl Fn(&str) -> bool) -> Option<Rule> {
        let own = self.fact.min.iter().filter(|(resource, _)| of(resource));
        let own = own.map(|(resource, min)| (&**resource, *min));
        let (resource, own, min) = beyond(own, &parent.min)?;
        Some(Rule::MinAboveParent { parent: parent.name.clone(), resource, own, min })
    }

    /// Where it wants that looked at, its ceiling is not below what is used.
    fn used(&self) -> Result<(), Rule> {
        for resource in &self.terms.max_strict_check_resource_keys {
            let of = |list: &ResourceList| list.get(&**resource).map(|own| value(resource, own));
            let (max, used) = (of(&self.wire.spec.max), of(&self.wire.status.used));
            if let Some(used) = used.filter(|used| max.is_none_or(|max| max < *used)) {
                let resource = resource.clone();
                return Err(Rule::MaxBelowUsed { resource, max, used });
            }
        }
        Ok(())
    }

    /// It has quotas below it or pods in it, as before.
    fn role(&self, before: &QuotaTerms) -> Result<(), Rule> {
        let quota = &self.fact.name;
        match (before.is_parent, self.terms.is_parent) {
            (true, false) => match self.register.children(quota).next() {
                Some(child) => Err(Rule::LeafWithChild { child: child.name.clone() }),
                None => Ok(()),
            },
            (false, true) => {
                let pods = [self.pods.naming, self.pods.of_namespaces].concat();
                if pods.is_empty() {
                    Ok(())
                } else {
                    Err(Rule::ParentWithPods { pods: owned(&pods) })
                }
            }
            _ => Ok(()),
        }
    }

    /// It is of the tree of the one above and of those below.
    fn tree(&self) -> Result<(), Rule> {
        let parent = self.register.get(&self.terms.parent).filter(|own| &*own.name != ROOT_QUOTA);
        let children = self.register.children(&self.fact.name);
        let differs = |other: &&QuotaFact| other.tree_id != self.terms.tree_id;
        match parent.into_iter().chain(children).find(differs) {
            Some(other) => Err(Rule::TreeDiffers {
                tree: self.terms.tree_id.clone(),
                other: other.name.clone(),
                of: other.tree_id.clone(),
            }),
            None => Ok(()),
        }
    }

    /// It goes together with the one above and those below.
    fn surroundings(&self) -> Result<(), Rule> {
        let is_on_top = &*self.terms.parent == ROOT_QUOTA;
        if is_reserved(&self.fact.name) || is_on_top && !self.terms.is_parent {
            return Ok(());
        }
        let parent = if is_on_top { None } else { Some(self.parent()?) };
        self.resources(parent)?;
        if self.terms.allows_force_update || self.terms.is_root {
            return Ok(());
        }
        self.min_sums(parent)?;
        self.guarantee()
    }

    /// The one above, which may have quotas below it and is not below this one.
    fn parent(&self) -> Result<&'a QuotaFact, Rule> {
        let parent = self.terms.parent.clone();
        if parent == self.fact.name {
            return Err(Rule::OwnParent);
        }
        let Some(above) = self.register.get(&parent) else {
            return Err(Rule::UnknownParent { parent });
        };
        if !above.is_parent {
            return Err(Rule::ParentIsLeaf { parent });
        }
        if self.above().any(|fact| fact.name == self.fact.name) {
            return Err(Rule::Cycle { parent });
        }
        Ok(above)
    }

    /// The quotas above it, up to the last one below the root.
    fn above(&self) -> impl Iterator<Item = &'a QuotaFact> {
        let register = self.register;
        let up = move |name: &str| register.get(name).filter(|own| &*own.name != ROOT_QUOTA);
        let chain = std::iter::successors(up(&self.terms.parent), move |own| up(&own.parent));
        // Others may form a circle: that was there before, and nobody is in it twice.
        chain.take(register.iter().count())
    }

    /// Its ceiling names the resources that the one above names, and its guarantee none that it does not.
    fn resources(&self, parent: Option<&QuotaFact>) -> Result<(), Rule> {
        let quota = self.fact;
        let children = self.register.children(&quota.name);
        let pairs = parent.map(|parent| (parent, quota)).into_iter();
        let mut pairs = pairs.chain(children.map(|child| (quota, child)));
        if let Some(rule) = pairs.find_map(|(above, below)| self.keys_differ(above, below)) {
            return Err(rule);
        }
        match parent.and_then(|parent| self.min_without(parent, |_| true)) {
            Some(rule) => Err(rule),
            None => Ok(()),
        }
    }

    /// The ceilings of two, of which one is above the other, name other resources.
    fn keys_differ(&self, above: &QuotaFact, below: &QuotaFact) -> Option<Rule> {
        let other = if above.name == self.fact.name { below } else { above };
        let only_below = below.max.keys().find(|key| !above.max.contains_key(*key));
        let only_above = above.max.keys().find(|key| !below.max.contains_key(*key));
        let only_above = only_above.filter(|_| self.keys == Keys::Same);
        let resource = only_below.or(only_above)?.clone();
        Some(Rule::KeysDiffer { other: other.name.clone(), resource })
    }

    /// It is guaranteed such a resource, and the one above is not.
    fn min_without(&self, parent: &QuotaFact, of: impl Fn(&str) -> bool) -> Option<Rule> {
        let mut named = self.fact.min.keys();
        let resource = named.find(|key| of(key) && !parent.min.contains_key(*key))?.clone();
        Some(Rule::MinWithoutParent { parent: parent.name.clone(), resource })
    }

    /// Guarantees add up to no more than that of the one above.
    fn min_sums(&self, parent: Option<&QuotaFact>) -> Result<(), Rule> {
        let quota = &self.fact.name;
        if let Some(parent) = parent {
            let beside = self.register.children(&parent.name).filter(|own| own.name != *quota);
            if let Some((resource, sum, min)) = beyond(mins(beside.chain([self.fact])), &parent.min)
            {
                let parent = parent.name.clone();
                return Err(Rule::MinsAboveParent { parent, resource, sum, min });
            }
        }
        match beyond(mins(self.register.children(quota)), &self.fact.min) {
            Some((resource, sum, min)) => Err(Rule::MinBelowChildren { resource, sum, min }),
            None => Ok(()),
        }
    }

    /// Where what is in use is not taken back, what it is guaranteed in addition is there: some quota above
    /// has as much that is its own, or the root of the tree has.
    fn guarantee(&self) -> Result<(), Rule> {
        if !self.view.options.guarantees_usage || self.terms.tree_id.is_empty() {
            return Ok(());
        }
        for (resource, min) in &self.fact.min {
            let own = self.view.standing(&self.fact.name).unwrap_or_default();
            let allocated = own.allocated.get(resource).copied().unwrap_or(0);
            self.covered(resource, i128::from(allocated.max(*min)))?;
        }
        Ok(())
    }

    fn covered(&self, resource: &str, mut needed: i128) -> Result<(), Rule> {
        let guaranteed = |name: &str| {
            let standing = self.view.standing(name).unwrap_or_default();
            i128::from(standing.guaranteed.get(resource).copied().unwrap_or(0))
        };
        let mut below = &self.fact.name;
        for above in self.above() {
            let beside = self.register.children(&above.name).filter(|own| own.name != *below);
            let sum = beside.map(|own| guaranteed(&own.name)).sum::<i128>() + needed;
            needed = sum.max(i128::from(above.min.get(resource).copied().unwrap_or(0)));
            let has = guaranteed(&above.name);
            if has >= needed {
                return Ok(());
            }
            if above.is_root {
                return Err(Rule::Unguaranteed {
                    root: above.name.clone(),
                    resource: resource.into(),
                    needed: amount(needed),
                    guaranteed: amount(has),
                });
            }
            below = &above.name;
        }
        Ok(())
    }
}

/// All that quotas are guaranteed.
fn mins<'a>(facts: impl Iterator<Item = &'a QuotaFact>) -> impl Iterator<Item = (&'a str, i64)> {
    facts.flat_map(|fact| fact.min.iter().map(|(resource, min)| (&**resource, *min)))
}

/// The first resource of which guarantees add up to more than one: its name, the sum and the one.
fn beyond<'a>(
    mins: impl Iterator<Item = (&'a str, i64)>,
    most: &ByResource,
) -> Option<(Box<str>, i64, i64)> {
    let mut sums: BTreeMap<&str, i128> = BTreeMap::new();
    for (resource, min) in mins {
        *sums.entry(resource).or_default() += i128::from(min);
    }
    sums.into_iter().find_map(|(resource, sum)| {
        let most = most.get(resource).copied().unwrap_or(0);
        (sum > i128::from(most)).then(|| (resource.into(), amount(sum), most))
    })
}

/// Whether the scheduler makes and keeps a quota.
fn is_reserved(name: &str) -> bool {
    matches!(name, ROOT_QUOTA | DEFAULT_QUOTA | SYSTEM_QUOTA)
}

fn owned(names: &[&str]) -> Vec<Box<str>> {
    names.iter().copied().map(Box::from).collect()
}
