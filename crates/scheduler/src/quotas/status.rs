//! What is written of a quota: without I/O, and at a given time.

use std::fmt;
use std::sync::Arc;

use api::condition::{self, Condition};
use api::elastic_quota::{
    ALLOCATED, CHILD_REQUEST, DEFAULT_QUOTA, GUARANTEED, IS_ROOT_LABEL, NON_PREEMPTIBLE_REQUEST,
    NON_PREEMPTIBLE_USED, REQUEST, ROOT_QUOTA, RUNTIME, SYSTEM_QUOTA,
};
use api::{ElasticQuota, Malformed};
use chassis::words::cut;
use engine::Engine;
use engine::moment::Moment;
use engine::quota::rules::{Rule, faults};
use engine::quota::{
    ByResource, Forest, Misplaced, QuotaFact, Standing, Trees, quantities, quantity,
};
use serde_json::{Map, Value, json};

use super::reading::Read;
use crate::reservations::{replaced, time};

/// The condition that says whether a quota counts as it is written.
const READY: &str = "Ready";
/// The condition that says whether more is used than may be.
const OVER_USED: &str = "OverUsed";
/// How long the words of a condition may be.
const MESSAGE_MAX: usize = 8 << 10;

/// What is wrong with a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// An older one has its name.
    NameTaken { namespace: Box<str> },
    /// Its name is one of those that count in this namespace alone.
    Reserved { namespace: Box<str> },
    /// It is nowhere in its tree.
    Misplaced(Misplaced),
    /// It is always there, and what it says counts for nothing.
    Disregarded(Misplaced),
    /// Something of it cannot be read.
    Malformed(Malformed),
    /// What it says makes no sense.
    Senseless(Rule),
    /// Its tree has this root too.
    SeveralRoots {
        tree: Box<str>,
        /// The one that says what the tree has.
        first: Box<str>,
        /// One that does not.
        other: Box<str>,
    },
}

impl Fault {
    /// Whether it is that the quota, or what it says, has no place in any tree.
    pub(super) fn is_misplaced(&self) -> bool {
        matches!(self, Self::NameTaken { .. } | Self::Misplaced(_) | Self::Disregarded(_))
    }

    /// As one word.
    fn reason(&self) -> &'static str {
        match self {
            Self::NameTaken { .. } => "NameTaken",
            Self::Reserved { .. } => "Reserved",
            Self::Misplaced(_) | Self::Disregarded(_) => "Misplaced",
            Self::Malformed(_) => "Malformed",
            Self::SeveralRoots { .. } => "SeveralRoots",
            Self::Senseless(rule) => match rule {
                Rule::MinAboveParent { .. } => "MinAboveParent",
                Rule::MinBelowChildren { .. } => "MinBelowChildren",
                Rule::MinWithoutParent { .. } => "MinWithoutParent",
                Rule::ParentIsLeaf { .. } => "ParentIsLeaf",
                Rule::TreeDiffers { .. } => "TreeDiffers",
                Rule::NamespaceTaken { .. } => "NamespaceTaken",
                Rule::Uncounted { .. } => "Uncounted",
                _ => "Malformed",
            },
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken { namespace } => write!(
                f,
                "it counts for nothing: the quota of this name in namespace {namespace} is older, and pods \
                 name quotas without their namespace; give it another name"
            ),
            Self::Reserved { namespace } => write!(
                f,
                "it counts for nothing: a quota of this name counts in namespace {namespace} alone; give it \
                 another name"
            ),
            Self::Misplaced(why) => write!(f, "it admits nothing: {why}"),
            Self::Disregarded(why) => write!(f, "what it says counts for nothing: {why}"),
            Self::Malformed(what) => {
                write!(f, "{what}; until then it counts as if it were not there")
            }
            Self::Senseless(rule) => write!(f, "it {rule}"),
            Self::SeveralRoots { tree, first, other } => write!(
                f,
                "tree {tree} has two roots: {first}, which alone says what the tree has, as the first by name, \
                 and {other}; delete the one that no profile names any longer, or set {IS_ROOT_LABEL} of it to \
                 false"
            ),
        }
    }
}

/// Whether a quota of this name is always there.
fn is_always(name: &str) -> bool {
    matches!(name, ROOT_QUOTA | SYSTEM_QUOTA | DEFAULT_QUOTA)
}

/// Where a quota would count of whose name that is known, and that is not there.
pub(super) fn reserved<'a>(namespace: Option<&'a str>, own: &ElasticQuota) -> Option<&'a str> {
    let is_reserved = is_always(&own.metadata.name);
    namespace.filter(|namespace| is_reserved && own.metadata.namespace != *namespace)
}

/// What is used beyond what may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Overuse {
    /// Whether that is beyond the ceiling, and not only beyond what may be used now.
    is_beyond_max: bool,
    /// What, how much of it is used, and how much may be.
    excesses: Vec<(Box<str>, i64, i64)>,
}

impl Overuse {
    /// What a quota uses beyond what it may.
    pub(super) fn of(used: &ByResource, runtime: &ByResource, max: &ByResource) -> Option<Self> {
        let beyond = |most: &ByResource| -> Vec<(Box<str>, i64, i64)> {
            let both = used.iter().filter_map(|(name, own)| Some((name, *own, *most.get(name)?)));
            let beyond = both.filter(|(_, own, most)| own > most);
            beyond.map(|(name, own, most)| (name.clone(), own, most)).collect()
        };
        let excesses = beyond(max);
        let is_beyond_max = !excesses.is_empty();
        let excesses = if is_beyond_max { excesses } else { beyond(runtime) };
        (!excesses.is_empty()).then_some(Self { is_beyond_max, excesses })
    }

    fn reason(&self) -> &'static str {
        if self.is_beyond_max { "BeyondMax" } else { "BeyondRuntime" }
    }
}

impl fmt::Display for Overuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = if self.is_beyond_max { "max" } else { "runtime" };
        for (place, (name, used, most)) in self.excesses.iter().enumerate() {
            let sign = if place == 0 { "" } else { "; " };
            let beyond = quantity(name, used.saturating_sub(*most));
            let (used, most) = (quantity(name, *used), quantity(name, *most));
            write!(f, "{sign}{name}: {used} used, {beyond} beyond {bound} {most}")?;
        }
        Ok(())
    }
}

/// What the roots of a tree say of it beside each other, where this quota is one of them; nothing where it is the only
/// one.
fn several_roots(forest: &Forest, own: &QuotaFact) -> Option<Fault> {
    let says = |fact: &&QuotaFact| {
        fact.is_root
            && fact.tree_id == own.tree_id
            && fact.total.is_some()
            && fact.excess().is_none()
    };
    let are_heeded = forest.settings().trees == Trees::Many && !own.tree_id.is_empty();
    if !are_heeded || !says(&own) {
        return None;
    }
    let mut roots = forest.register().iter().filter(says).map(|fact| &fact.name);
    let first = roots.next()?;
    let other = if *first == own.name { roots.next()? } else { &own.name };
    let (tree, first, other) = (own.tree_id.clone(), first.clone(), other.clone());
    Some(Fault::SeveralRoots { tree, first, other })
}

/// What is wrong with a quota, the worst first, where its tree is as it was last looked at. Quotas of every cluster count
/// in this namespace alone, if in one.
pub(super) fn faults_of(forest: &Forest, own: &Read, namespace: Option<&str>) -> Vec<Fault> {
    if let Some(namespace) = reserved(namespace, &own.object) {
        return vec![Fault::Reserved { namespace: namespace.into() }];
    }
    let name = own.object.metadata.name.as_str();
    let Some(in_force) = forest.register().get(name) else { return Vec::new() };
    if in_force.namespace != own.fact.namespace {
        return vec![Fault::NameTaken { namespace: in_force.namespace.clone() }];
    }
    let Some(view) = forest.last_view(&forest.find(name).tree) else { return Vec::new() };
    let misplaced = view.why_misplaced(name).map(|why| match is_always(name) {
        true => Fault::Disregarded(why),
        false => Fault::Misplaced(why),
    });
    let malformed = own.terms.malformed.iter().cloned().map(Fault::Malformed);
    let senseless = faults(view, &own.object, (&own.terms, &own.fact));
    let senseless = senseless.into_iter().map(Fault::Senseless);
    let roots = several_roots(forest, &own.fact);
    misplaced.into_iter().chain(malformed).chain(senseless).chain(roots).collect()
}

/// What is to be seen of a quota, besides what is written on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// How it stands; nothing where it is nowhere, or another is in its place.
    pub standing: Standing,
    /// What it says, where it counts.
    pub fact: Option<Arc<QuotaFact>>,
    /// The tree that it is in.
    pub tree: Box<str>,
    /// What is wrong with it, the worst first.
    pub faults: Vec<Fault>,
    /// What is used beyond what may be.
    pub overuse: Option<Overuse>,
}

impl Seen {
    /// What is to be seen of a quota, where those of every cluster count in this namespace alone, if in one.
    pub(super) fn of(engine: &mut Engine, own: &Read, namespace: Option<&str>) -> Self {
        let name = own.object.metadata.name.as_str();
        let tree = engine.ledger().quotas.forest().find(name).tree;
        let standing = engine.quota_view(&tree).and_then(|view| view.standing(name));
        let forest = engine.ledger().quotas.forest();
        let faults = faults_of(forest, own, namespace);
        let in_force = forest.register().get(name);
        if in_force.is_none_or(|fact| fact.namespace != own.fact.namespace) {
            return Self { faults, ..Self::default() };
        }
        let standing = standing.unwrap_or_default();
        let overuse = Overuse::of(&standing.used, &standing.runtime, &own.fact.max);
        Self { standing, fact: Some(own.fact.clone()), tree, faults, overuse }
    }
}

/// One of the amounts of how a quota stands that an annotation says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stand {
    /// The annotation.
    pub(super) key: &'static str,
    /// What it is called where it is counted.
    pub(super) field: &'static str,
    /// What it says of a quota that stands like this.
    pub(super) of: fn(&Standing) -> &ByResource,
}

impl Stand {
    const fn new(key: &'static str, field: &'static str, of: fn(&Standing) -> &ByResource) -> Self {
        Self { key, field, of }
    }
}

/// All that annotations say of how a quota stands.
pub(super) const STANDS: [Stand; 7] = [
    Stand::new(RUNTIME, "runtime", |own| &own.runtime),
    Stand::new(REQUEST, "request", |own| &own.request),
    Stand::new(CHILD_REQUEST, "child-request", |own| &own.child_request),
    Stand::new(GUARANTEED, "guaranteed", |own| &own.guaranteed),
    Stand::new(ALLOCATED, "allocated", |own| &own.allocated),
    Stand::new(NON_PREEMPTIBLE_REQUEST, "non-preemptible-request", |own| {
        &own.non_preemptible_request
    }),
    Stand::new(NON_PREEMPTIBLE_USED, "non-preemptible-used", |own| &own.non_preemptible_used),
];

/// Whether two lists say the same: what there is nothing of need not be said.
fn is_same(one: &ByResource, other: &ByResource) -> bool {
    let something = |list: &'_ ByResource| -> Vec<(Box<str>, i64)> {
        let some = list.iter().filter(|(_, own)| **own != 0);
        some.map(|(name, own)| (name.clone(), *own)).collect()
    };
    something(one) == something(other)
}

/// What the server does with conditions of quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conditions {
    /// It keeps them.
    Kept,
    /// Its definition has none.
    Dropped,
}

/// What is to be written on a quota, as a merge patch; none where all of it is written.
pub(super) fn patch(read: &Read, seen: &Seen, kept: Conditions, now: Moment) -> Option<Value> {
    let own = &read.object;
    let told = STANDS.iter().zip(&read.stands);
    let differ = told.filter_map(|(Stand { key, of, .. }, told)| {
        let list = of(&seen.standing);
        let is_told = told.as_ref().is_some_and(|told| is_same(told, list));
        (!is_told).then(|| ((*key).to_owned(), json!(quantities(list)).to_string().into()))
    });
    let annotations: Map<String, Value> = differ.collect();
    let mut status = Map::new();
    if !is_same(&read.used, &seen.standing.used) {
        let used = replaced(&own.status.used, &quantities(&seen.standing.used));
        status.insert("used".to_owned(), used);
    }
    let mut conditions = own.status.conditions.clone();
    if kept == Conditions::Kept && settle(&mut conditions, seen, now) {
        status.insert("conditions".to_owned(), json!(conditions));
    }
    if annotations.is_empty() && status.is_empty() {
        return None;
    }
    let mut patch = json!({ "metadata": { "uid": own.metadata.uid } });
    if !annotations.is_empty() {
        patch["metadata"]["annotations"] = annotations.into();
    }
    if !status.is_empty() {
        patch["status"] = status.into();
    }
    Some(patch)
}

/// Brings the conditions of a quota up to date, and says whether they were not.
fn settle(conditions: &mut Vec<Condition>, seen: &Seen, now: Moment) -> bool {
    let words = |faults: &[Fault]| {
        let all: Vec<String> = faults.iter().map(ToString::to_string).collect();
        cut(all.join("; "), MESSAGE_MAX)
    };
    let ready = match seen.faults.first() {
        None => (READY, "True", "InForce", String::new()),
        Some(worst) => (READY, "False", worst.reason(), words(&seen.faults)),
    };
    let was_over = condition::find(conditions, OVER_USED).is_some();
    let over = match &seen.overuse {
        Some(over) => Some((OVER_USED, "True", over.reason(), cut(over.to_string(), MESSAGE_MAX))),
        None => was_over.then(|| (OVER_USED, "False", "WithinRuntime", String::new())),
    };
    let mut is_new = false;
    for (r#type, status, reason, message) in [Some(ready), over].into_iter().flatten() {
        let new = Condition {
            r#type: r#type.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            ..Condition::default()
        };
        is_new |= condition::set(conditions, new, time(now));
    }
    is_new
}
