//! Why a change of a quota is not let through.

use api::elastic_quota::{ALLOW_FORCE_UPDATE_LABEL, IS_PARENT_LABEL};

use crate::quota::quantity;

/// Pods that a message names; the others are only hinted at.
const PODS_NAMED_MAX: usize = 2;

/// Why a change of a quota is not let through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("quota {quota} {rule}")]
pub struct RuleRefusal {
    /// The quota that is to be changed.
    pub quota: Box<str>,
    /// The rule that the change breaks.
    pub rule: Rule,
}

/// A rule that a change of a quota breaks, with what it is about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rule {
    /// There is another of its name.
    #[error("exists already, in namespace {namespace}: choose another name")]
    NameTaken {
        /// Where that lives.
        namespace: Box<str>,
    },
    /// A namespace that it lists is another's.
    #[error("lists namespace {namespace}, which is bound to quota {other}: list it once")]
    NamespaceTaken {
        /// The namespace.
        namespace: Box<str>,
        /// Whose it is.
        other: Box<str>,
    },
    /// The scheduler makes and keeps it.
    #[error("belongs to the scheduler: leave it as it is")]
    Reserved,
    /// An amount is below zero.
    #[error("has {list} {} of {resource}: write 0 or more", quantity(resource, *amount))]
    Negative {
        /// `min`, `max` or the key of the weights.
        list: &'static str,
        /// Of what.
        resource: Box<str>,
        /// How much.
        amount: i64,
    },
    /// It is guaranteed something that it does not count.
    #[error("has {resource} in min and not in max: add it to max or take it out of min")]
    MinWithoutMax {
        /// What.
        resource: Box<str>,
    },
    /// Its guarantee is beyond its ceiling.
    #[error(
        "has min {} > max {} of {resource}: lower min or raise max",
        quantity(resource, *min),
        quantity(resource, *max)
    )]
    MinAboveMax {
        /// Of what.
        resource: Box<str>,
        /// The guarantee.
        min: i64,
        /// The ceiling.
        max: i64,
    },
    /// Its ceiling is below what is used, and it wants that looked at.
    #[error(
        "has max {} < used {} of {resource}: raise max or wait until less is used",
        max.map_or("none".to_owned(), |max| quantity(resource, max).to_string()),
        quantity(resource, *used)
    )]
    MaxBelowUsed {
        /// Of what.
        resource: Box<str>,
        /// The ceiling; none where it does not name the resource.
        max: Option<i64>,
        /// What is used.
        used: i64,
    },
    /// Quotas would be below one that is to have pods.
    #[error("has the quota {child} below it: leave {IS_PARENT_LABEL} true or move that first")]
    LeafWithChild {
        /// One of them.
        child: Box<str>,
    },
    /// Pods would be in one that is to have quotas below it.
    #[error("has pods ({}): leave {IS_PARENT_LABEL} false or move them first", some(pods))]
    ParentWithPods {
        /// All of them.
        pods: Vec<Box<str>>,
    },
    /// It would go from one tree to another.
    #[error("is of tree {from:?} and cannot go to tree {to:?}: create another quota there")]
    TreeChanged {
        /// The tree that it is of.
        from: Box<str>,
        /// The tree that it is to be of.
        to: Box<str>,
    },
    /// The one above or one below is of another tree.
    #[error("is of tree {tree:?}, and quota {other} of tree {of:?}: name a parent of its own tree")]
    TreeDiffers {
        /// Its tree.
        tree: Box<str>,
        /// The other quota.
        other: Box<str>,
        /// The tree of that.
        of: Box<str>,
    },
    /// The one above is not there.
    #[error("names the parent {parent}, which does not exist: create it or name another")]
    UnknownParent {
        /// The one above.
        parent: Box<str>,
    },
    /// The one above is to have pods.
    #[error(
        "names the parent {parent}, which is not marked as one: set its label {IS_PARENT_LABEL} to \"true\", \
         or name another"
    )]
    ParentIsLeaf {
        /// The one above.
        parent: Box<str>,
    },
    /// The one above is itself.
    #[error("names itself as its parent: name another")]
    OwnParent,
    /// The one above is below it.
    #[error("names the parent {parent}, which is below it: name one that is not")]
    Cycle {
        /// The one above.
        parent: Box<str>,
    },
    /// The ceilings of two, of which one is above the other, name other resources.
    #[error("and quota {other} do not both have {resource} in max: name it in both or in neither")]
    KeysDiffer {
        /// The other one.
        other: Box<str>,
        /// What only one of them names.
        resource: Box<str>,
    },
    /// It is guaranteed something that the one above is not.
    #[error("has {resource} in min, and its parent {parent} has not: add it there or take it out")]
    MinWithoutParent {
        /// The one above.
        parent: Box<str>,
        /// What.
        resource: Box<str>,
    },
    /// It alone is guaranteed more than the one above.
    #[error(
        "has min {} of {resource}, and its parent {parent} has {}: lower it or raise the parent's",
        quantity(resource, *own),
        quantity(resource, *min)
    )]
    MinAboveParent {
        /// The one above.
        parent: Box<str>,
        /// Of what.
        resource: Box<str>,
        /// Its guarantee.
        own: i64,
        /// The guarantee of the one above.
        min: i64,
    },
    /// With it, guarantees add up to more than that of the one above.
    #[error(
        "and those beside it have min {} of {resource}, and their parent {parent} has {}: lower one or \
         raise the parent's, or let it pass with {ALLOW_FORCE_UPDATE_LABEL}",
        quantity(resource, *sum),
        quantity(resource, *min)
    )]
    MinsAboveParent {
        /// The one above.
        parent: Box<str>,
        /// Of what.
        resource: Box<str>,
        /// What guarantees add up to.
        sum: i64,
        /// The guarantee of the one above.
        min: i64,
    },
    /// It counts something that is not reckoned.
    #[error(
        "has {resource} in max, which no node has, and quotas name too many such resources: it is not \
         held to that; take it out"
    )]
    Uncounted {
        /// What.
        resource: Box<str>,
    },
    /// Guarantees below it add up to more than its own.
    #[error(
        "has min {} of {resource}, and those below it have {}: raise it or lower one of theirs, or let it \
         pass with {ALLOW_FORCE_UPDATE_LABEL}",
        quantity(resource, *min),
        quantity(resource, *sum)
    )]
    MinBelowChildren {
        /// Of what.
        resource: Box<str>,
        /// What guarantees below it add up to.
        sum: i64,
        /// Its own.
        min: i64,
    },
    /// What it is to be guaranteed is in use by others.
    #[error(
        "would bring what the tree root {root} has to guarantee of {resource} to {}, and it can {}: lower \
         min or wait until others use less",
        quantity(resource, *needed),
        quantity(resource, *guaranteed)
    )]
    Unguaranteed {
        /// The root of its tree.
        root: Box<str>,
        /// Of what.
        resource: Box<str>,
        /// What that would have to guarantee.
        needed: i64,
        /// What it guarantees.
        guaranteed: i64,
    },
    /// Quotas would be left without the one above.
    #[error("has the quota {child} below it: delete or move that first")]
    DeletedParent {
        /// One of them.
        child: Box<str>,
    },
    /// Pods would be left without the quota that they name.
    #[error("has pods ({}): delete them or let them name another first", some(pods))]
    DeletedWithPods {
        /// All of them.
        pods: Vec<Box<str>>,
    },
}

/// The first of some pods, and whether there are more.
fn some(pods: &[Box<str>]) -> String {
    let named: Vec<&str> = pods.iter().take(PODS_NAMED_MAX).map(|name| &**name).collect();
    let more = if pods.len() > PODS_NAMED_MAX { ", ..." } else { "" };
    named.join(", ") + more
}
