//! Where quotas are in their tree, and why some are nowhere.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

pub(super) use api::elastic_quota::NAMESPACES_MAX;
use api::elastic_quota::{DEFAULT_QUOTA, ROOT_QUOTA, SYSTEM_QUOTA};

use super::{QuotaFact, Register};

/// The place of the root.
pub(super) const ROOT: usize = 0;
/// The place of the quota of pods that belong to no other.
pub(super) const DEFAULT: usize = 1;
/// The place of the quota of pods that the cluster itself needs.
pub(super) const SYSTEM: usize = 2;
/// Those that are always there. The last two take what they need before anything is divided.
const ALWAYS: [&str; 3] = [ROOT_QUOTA, DEFAULT_QUOTA, SYSTEM_QUOTA];

/// How many resources a quota may name: each is reckoned for all quotas of its tree.
pub const RESOURCES_MAX: usize = 64;
/// How long the name of a resource may be: a prefix, a slash and a name, as the API server takes them.
pub(super) const RESOURCE_NAME_MAX: usize = 253 + 1 + 63;
/// How many quotas there may be from one up to the root: each is asked about each pod.
pub(super) const LEVELS_MAX: usize = 32;

/// How many quotas of a circle are named.
const NAMED_MAX: usize = 8;

/// Why a quota is nowhere in the tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misplaced {
    /// There is no quota of the name that it gives as its parent.
    UnknownParent(Box<str>),
    /// What it gives as its parent is the default or the system quota, which have none below.
    ChildlessParent(Box<str>),
    /// Its parents lead back to itself.
    Cycle {
        /// Itself, its parent and so on, but for those that are too many to name.
        circle: Vec<Box<str>>,
        /// How many are not named.
        more: usize,
    },
    /// Its parent is nowhere either.
    MisplacedParent(Box<str>),
    /// It names so many resources, which is too many.
    TooManyResources(usize),
    /// It names a resource by so many characters, which no resource has.
    ImpossibleResource(usize),
    /// Its parent is of another tree.
    OtherTree {
        /// The one that it gives as its parent.
        parent: Box<str>,
        /// Its own tree.
        tree: Box<str>,
        /// The tree of its parent.
        of: Box<str>,
    },
    /// It lists so many namespaces, which is too many.
    TooManyNamespaces(usize),
    /// There are too many quotas above it.
    TooDeep,
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownParent(name) => {
                write!(f, "its parent {name} does not exist: create it or name another")
            }
            Self::ChildlessParent(name) => {
                write!(f, "its parent {name} can have no quotas below it: name another")
            }
            Self::Cycle { circle, .. } if circle.len() == 1 => {
                write!(f, "it names itself as its parent: name another")
            }
            Self::Cycle { circle, more } => {
                write!(f, "its parents lead back to it, over {}", circle.join(", "))?;
                if *more > 0 {
                    write!(f, " and {more} more")?;
                }
                write!(f, ": give one of them another parent")
            }
            Self::MisplacedParent(name) => write!(f, "its parent {name} has no place itself"),
            Self::TooManyResources(named) => {
                write!(f, "it names {named} resources: name at most {RESOURCES_MAX}")
            }
            Self::ImpossibleResource(length) => write!(
                f,
                "it names a resource by {length} characters: names have at most {RESOURCE_NAME_MAX}"
            ),
            Self::OtherTree { parent, tree, of } => write!(
                f,
                "it is of tree {tree:?} and its parent {parent} of tree {of:?}: name a parent of its own \
                 tree"
            ),
            Self::TooManyNamespaces(listed) => {
                write!(f, "it lists {listed} namespaces: list at most {NAMESPACES_MAX}")
            }
            Self::TooDeep => {
                write!(f, "it is more than {LEVELS_MAX} levels deep: give it a parent further up")
            }
        }
    }
}

/// Quotas by place: a parent comes before its children, and those of one parent are side by side, by name.
#[derive(Debug, Clone)]
pub(super) struct Placement {
    /// By place, the name.
    pub names: Vec<Box<str>>,
    /// By place, that of the parent. The root is its own.
    pub parents: Vec<usize>,
    /// By place, those of the children.
    pub children: Vec<Range<usize>>,
    /// Places by name.
    places: BTreeMap<Box<str>, usize>,
    /// Quotas that are nowhere, and those that are always there and of which nothing counts that they say.
    pub misplaced: BTreeMap<Box<str>, Misplaced>,
}

impl Placement {
    /// Where the quotas of a register are, and by place what they say.
    pub fn of(register: &Register) -> (Self, Vec<Option<&QuotaFact>>) {
        let mut by_parent: BTreeMap<&str, Vec<&QuotaFact>> = BTreeMap::new();
        let mut refused: BTreeMap<Box<str>, Misplaced> = BTreeMap::new();
        for fact in register.iter().filter(|fact| !ALWAYS.contains(&&*fact.name)) {
            match fact.excess() {
                Some(why) => drop(refused.insert(fact.name.clone(), why)),
                None => by_parent.entry(&fact.parent).or_default().push(fact),
            }
        }
        let is_moderate = |fact: &&QuotaFact| fact.excess().is_none();
        let mut facts: Vec<Option<&QuotaFact>> =
            ALWAYS.iter().map(|name| register.get(name).filter(is_moderate)).collect();
        let mut parents = vec![ROOT; ALWAYS.len()];
        let mut levels = vec![0; ALWAYS.len()];
        let mut children = Vec::new();
        while let Some(fact) = facts.get(children.len()) {
            let place = children.len();
            let below = match place {
                ROOT => by_parent.remove(ROOT_QUOTA),
                DEFAULT | SYSTEM => None,
                _ => fact.and_then(|fact| by_parent.remove(&*fact.name)),
            };
            let (first, level) = (facts.len(), levels[place] + 1);
            match below {
                Some(below) if level > LEVELS_MAX => {
                    let deep =
                        below.into_iter().map(|fact| (fact.name.clone(), Misplaced::TooDeep));
                    refused.extend(deep);
                }
                below => facts.extend(below.into_iter().flatten().map(Some)),
            }
            parents.resize(facts.len(), place);
            levels.resize(facts.len(), level);
            children.push(first..facts.len());
        }
        let placed = facts[ALWAYS.len()..].iter().flatten().map(|fact| fact.name.clone());
        let names: Vec<Box<str>> = ALWAYS.map(Box::from).into_iter().chain(placed).collect();
        let places = names.iter().cloned().zip(0..).collect();
        let mut misplaced = misplaced(by_parent.into_values().flatten(), refused);
        let always = ALWAYS.iter().filter_map(|name| register.get(name));
        misplaced.extend(always.filter_map(|fact| Some((fact.name.clone(), fact.excess()?))));
        (Self { names, parents, children, places, misplaced }, facts)
    }

    /// The place of a quota.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The places from a quota up to the last one below the root.
    pub fn chain(&self, place: usize) -> impl Iterator<Item = usize> {
        let up = |place: &usize| Some(self.parents[*place]);
        std::iter::successors(Some(place), up).take_while(|place| *place != ROOT)
    }

    /// Whether a quota takes what it needs before anything is divided.
    pub fn is_apart(place: usize) -> bool {
        matches!(place, DEFAULT | SYSTEM)
    }
}

/// Why each of some quotas that the root does not lead to is nowhere, beside those that are refused.
fn misplaced<'a>(
    stray: impl Iterator<Item = &'a QuotaFact>,
    refused: BTreeMap<Box<str>, Misplaced>,
) -> BTreeMap<Box<str>, Misplaced> {
    let stray: BTreeMap<&str, &QuotaFact> = stray.map(|fact| (&*fact.name, fact)).collect();
    let mut known = refused;
    for start in stray.keys() {
        // Each quota is walked over once: a walk ends where another one has been.
        let mut walked: Vec<&QuotaFact> = Vec::new();
        let mut at: BTreeMap<&str, usize> = BTreeMap::new();
        let mut next = stray.get(start).copied();
        let mut first_of_cycle = usize::MAX;
        while let Some(fact) = next.filter(|fact| !known.contains_key(&fact.name)) {
            if let Some(first) = at.get(&*fact.name) {
                first_of_cycle = *first;
                break;
            }
            at.insert(&fact.name, walked.len());
            walked.push(fact);
            next = stray.get(&*fact.parent).copied();
        }
        for (place, fact) in walked.iter().enumerate() {
            let parent = fact.parent.clone();
            let why = if place >= first_of_cycle {
                let (before, after) = walked[first_of_cycle..].split_at(place - first_of_cycle);
                let circle = after.iter().chain(before).take(NAMED_MAX);
                let circle: Vec<Box<str>> = circle.map(|fact| fact.name.clone()).collect();
                let more = before.len() + after.len() - circle.len();
                Misplaced::Cycle { circle, more }
            } else if stray.contains_key(&*parent) || known.contains_key(&parent) {
                Misplaced::MisplacedParent(parent)
            } else if ALWAYS.contains(&&*parent) {
                Misplaced::ChildlessParent(parent)
            } else {
                Misplaced::UnknownParent(parent)
            };
            known.insert(fact.name.clone(), why);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::ByResource;

    /// Where quotas are, given as `name<parent`, and why some are not.
    fn check(quotas: &[&str], expected: &[&str]) {
        let mut register = Register::default();
        for quota in quotas {
            let (name, parent) = quota.split_once('<').unwrap();
            let parent = parent.into();
            register.put(QuotaFact { parent, ..QuotaFact::new(name, ByResource::new()) });
        }
        let (own, facts) = Placement::of(&register);
        assert_eq!(facts.len(), own.names.len());
        let placed = own.names[ALWAYS.len()..].iter().map(|name| {
            let chain: Vec<_> = own.chain(own.find(name).unwrap()).collect();
            let chain: Vec<&str> = chain.into_iter().map(|place| &*own.names[place]).collect();
            chain.join("<")
        });
        let misplaced = own.misplaced.iter().map(|(name, why)| format!("{name}: {why}"));
        assert_eq!(placed.chain(misplaced).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn children_are_side_by_side_whatever_came_first() {
        let root = ROOT_QUOTA;
        let quotas = [&*format!("z<{root}"), &format!("a<{root}"), "y<a", "x<z", "b<a", "c<x"];
        check(&quotas, &["a", "z", "b<a", "y<a", "x<z", "c<x<z"]);
    }

    #[test]
    fn who_says_too_much_is_nowhere_and_so_are_those_below() {
        let amounts = |count: usize| -> ByResource {
            (0..count).map(|number| (format!("example.com/r{number}").into(), 1)).collect()
        };
        let fact = |name: &str, parent: &str, count: usize| QuotaFact {
            parent: parent.into(),
            ..QuotaFact::new(name, amounts(count))
        };
        let lists = |count: usize| vec!["ns".into(); count];
        let named = |length: usize| ByResource::from([("r".repeat(length).into(), 1)]);
        let all = [
            fact("most", ROOT_QUOTA, RESOURCES_MAX),
            fact("more", ROOT_QUOTA, RESOURCES_MAX + 1),
            fact("below", "more", 1),
            QuotaFact { total: Some(amounts(99)), ..fact("total", ROOT_QUOTA, 1) },
            QuotaFact { namespaces: lists(NAMESPACES_MAX), ..fact("wide", ROOT_QUOTA, 1) },
            QuotaFact { namespaces: lists(NAMESPACES_MAX + 1), ..fact("wider", ROOT_QUOTA, 1) },
            fact(DEFAULT_QUOTA, ROOT_QUOTA, RESOURCES_MAX + 1),
            QuotaFact::new("as-long-as-may-be", named(RESOURCE_NAME_MAX)),
            QuotaFact::new("long", named(RESOURCE_NAME_MAX + 1)),
        ];
        let mut register = Register::default();
        for fact in all {
            assert!(register.put(fact), "it is new");
        }
        let (own, facts) = Placement::of(&register);
        assert_eq!(own.names[ALWAYS.len()..], ["as-long-as-may-be", "most", "wide"].map(Box::from));
        assert!(facts[DEFAULT].is_none(), "what it says counts for nothing");
        let told: Vec<String> =
            own.misplaced.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        assert_eq!(
            told,
            [
                "below: its parent more has no place itself",
                "koordinator-default-quota: it names 65 resources: name at most 64",
                "long: it names a resource by 318 characters: names have at most 317",
                "more: it names 65 resources: name at most 64",
                "total: it names 99 resources: name at most 64",
                "wider: it lists 1001 namespaces: list at most 1000",
            ]
        );
    }

    #[test]
    fn a_chain_of_quotas_ends_somewhere() {
        let mut register = Register::default();
        for level in 1..=LEVELS_MAX + 2 {
            let parent = if level == 1 { ROOT_QUOTA.into() } else { format!("q{}", level - 1) };
            let fact = QuotaFact::new(&format!("q{level}"), ByResource::new());
            register.put(QuotaFact { parent: parent.into(), ..fact });
        }
        let (own, _) = Placement::of(&register);
        assert_eq!(own.names.len(), ALWAYS.len() + LEVELS_MAX);
        let why = |name: &str| own.misplaced[name].clone();
        assert_eq!(why("q33"), Misplaced::TooDeep);
        assert_eq!(why("q34"), Misplaced::MisplacedParent("q33".into()));
    }

    #[test]
    fn who_has_no_way_to_the_root_is_nowhere_and_says_why() {
        let (default, root) = (DEFAULT_QUOTA, ROOT_QUOTA);
        let quotas = [
            "a<gone",
            "b<a",
            "x<y",
            "y<x",
            "z<x",
            "me<me",
            &format!("d<{default}"),
            &format!("ok<{root}"),
            &format!("{root}<ok"),
            &format!("{default}<ok"),
        ];
        check(
            &quotas,
            &[
                "ok",
                "a: its parent gone does not exist: create it or name another",
                "b: its parent a has no place itself",
                "d: its parent koordinator-default-quota can have no quotas below it: name another",
                "me: it names itself as its parent: name another",
                "x: its parents lead back to it, over x, y: give one of them another parent",
                "y: its parents lead back to it, over y, x: give one of them another parent",
                "z: its parent x has no place itself",
            ],
        );
    }
}
