//! Answers of plugins, kept by key and repaired where nodes changed.
//!
//! Three kinds of answers are kept. What a plugin says that reads only nodes is kept for the plugin,
//! and shared by all pods with that part of an ask. What follows for all nodes from every plugin
//! that looks at one node at a time is kept as a [`Shape`]: which nodes are left, and what their
//! scores add up to. The next pod of a shape costs a look at the nodes that changed. And where a
//! look at a node is dear, what came of it is kept for all nodes in the same state (`alike`).
//!
//! **Invariant:** an answer taken from here equals one computed afresh. A property test holds it
//! after any sequence of facts.

/// The answer of a place that is known to hold one of this kind.
macro_rules! answer {
    ($kept:expr, $kind:ident) => {
        match $kept {
            Kept::$kind(_, answer) => answer,
            _ => unreachable!("a place holds what its map says"),
        }
    };
}

mod alike;
mod recency;
mod shape;

use rustc_hash::FxHashMap;

use crate::ledger::{Ask, Changes, Ledger, Position};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Reads, Score};
use alike::{Known, Who};
use recency::{Place, Recency};
pub use shape::{INFEASIBLE, Plan, Question, Shape, TOTAL_MAX};

/// What a kept answer is known by: which plugin gave it, and for which part of an ask.
type Name = (u16, Key);

/// The keys of all plugins that a shape follows from.
type ShapeKey = Box<[Option<Key>]>;

/// Answers of one profile's plugins.
pub struct Cache {
    filters: FxHashMap<Name, Place>,
    scores: FxHashMap<Name, Place>,
    shapes: FxHashMap<ShapeKey, Place>,
    known: FxHashMap<(Who, Key), Place>,
    kept: Recency<Kept>,
    bytes: usize,
    bytes_max: usize,
    lent: shape::Lent,
}

/// Something that is kept, with what it is known by.
enum Kept {
    Filter(Name, Answer<NodeSet>),
    Score(Name, Answer<Raw>),
    Shape(ShapeKey, Answer<Shape>),
    Known((Who, Key), Known),
}

impl Kept {
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Filter(_, answer) => answer.value.bytes(),
                Self::Score(_, answer) => answer.value.scores.capacity() * size_of::<i32>(),
                Self::Shape(key, answer) => size_of_val::<[_]>(key) + answer.value.bytes(),
                Self::Known(_, known) => known.bytes(),
            }
    }
}

struct Answer<T> {
    value: T,
    /// Up to where changes of nodes are in it.
    seen: Position,
    epoch: u64,
}

impl<T: Default> Default for Answer<T> {
    /// An answer that has seen nothing.
    fn default() -> Self {
        Self { value: T::default(), seen: Position::MAX, epoch: 0 }
    }
}

/// Raw scores of a plugin, by node.
#[derive(Default)]
pub struct Raw {
    /// By node.
    pub scores: Vec<i32>,
    /// No present node has more; possibly all have less.
    pub most: i32,
}

/// Bytes of answers that are kept by default.
pub const BYTES_MAX: usize = 64 << 20;

impl Default for Cache {
    fn default() -> Self {
        Self::with_bytes_max(BYTES_MAX)
    }
}

impl Cache {
    /// A cache that keeps about so many bytes, and always what was used last.
    #[must_use]
    pub fn with_bytes_max(bytes_max: usize) -> Self {
        Self {
            filters: FxHashMap::default(),
            scores: FxHashMap::default(),
            shapes: FxHashMap::default(),
            known: FxHashMap::default(),
            kept: Recency::default(),
            bytes: 0,
            bytes_max,
            lent: shape::Lent::default(),
        }
    }

    /// The nodes that a filter does not refuse, out of those that are present; none where it
    /// refuses no node.
    pub fn filter(
        &mut self,
        plugin: usize,
        filter: &dyn Filter,
        ledger: &Ledger,
        ask: Ask,
    ) -> Option<&NodeSet> {
        let name = (plugin_number(plugin), filter.key(ledger, ask)?);
        let Self { kept, bytes, .. } = self;
        let new = || {
            *bytes += size_of::<Kept>();
            kept.insert(Kept::Filter(name, Answer::default()))
        };
        let place = *self.filters.entry(name).or_insert_with(new);
        let entry = self.kept.use_mut(place);
        let before = entry.bytes();
        let answer = answer!(entry, Filter);
        let changes = changes_of(ledger, filter.reads());
        match stale(answer.seen, changes) {
            Stale::Not => {}
            Stale::Nodes(nodes) => {
                let mut now = nodes.clone();
                now.keep(ledger.nodes.present());
                filter.filter(ledger, ask, &mut now);
                for node in nodes.iter() {
                    answer.value.set(node, now.contains(node));
                }
            }
            Stale::All => {
                answer.value.clone_from(ledger.nodes.present());
                filter.filter(ledger, ask, &mut answer.value);
            }
        }
        answer.seen = changes.end();
        self.weigh(place, before);
        Some(&answer!(self.kept.get(place), Filter).value)
    }

    /// The raw scores of a plugin; none where they are all 0.
    pub fn score(
        &mut self,
        plugin: usize,
        score: &dyn Score,
        ledger: &Ledger,
        ask: Ask,
    ) -> Option<&Raw> {
        let name = (plugin_number(plugin), score.key(ledger, ask)?);
        let Self { kept, bytes, .. } = self;
        let new = || {
            *bytes += size_of::<Kept>();
            kept.insert(Kept::Score(name, Answer::default()))
        };
        let place = *self.scores.entry(name).or_insert_with(new);
        let entry = self.kept.use_mut(place);
        let before = entry.bytes();
        let answer = answer!(entry, Score);
        let (changes, epoch) = (changes_of(ledger, score.reads()), score.epoch(ledger));
        let places = ledger.nodes.places();
        let stale = if answer.epoch == epoch { stale(answer.seen, changes) } else { Stale::All };
        let Raw { scores, most } = &mut answer.value;
        match stale {
            Stale::Not => {}
            Stale::Nodes(mut nodes) => {
                scores.resize(places, 0);
                nodes.keep(ledger.nodes.present());
                score.score(ledger, ask, &nodes, scores);
                nodes.each(|node| *most = scores[node].max(*most));
            }
            Stale::All => {
                scores.clear();
                scores.resize(places, 0);
                score.score(ledger, ask, ledger.nodes.present(), scores);
                *most = scores.iter().copied().max().unwrap_or(0);
            }
        }
        (answer.seen, answer.epoch) = (changes.end(), epoch);
        self.weigh(place, before);
        Some(&answer!(self.kept.get(place), Score).value)
    }

    /// Takes in that an entry had so many bytes before.
    fn weigh(&mut self, place: Place, before: usize) {
        self.bytes = self.bytes + self.kept.get(place).bytes() - before;
    }

    /// Forgets what was used least recently, until what is left fits.
    pub fn shrink(&mut self) {
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.kept.take_oldest() else { return };
            self.bytes -= oldest.bytes();
            match &oldest {
                Kept::Filter(name, _) => self.filters.remove(name),
                Kept::Score(name, _) => self.scores.remove(name),
                Kept::Shape(key, _) => self.shapes.remove(key),
                Kept::Known(name, _) => self.known.remove(name),
            };
        }
    }
}

fn plugin_number(plugin: usize) -> u16 {
    u16::try_from(plugin).expect("a profile has fewer than 65,536 plugins")
}

fn changes_of(ledger: &Ledger, reads: Reads) -> &Changes {
    match reads {
        Reads::Node => &ledger.nodes.changed,
        Reads::Load | Reads::Cluster => &ledger.nodes.load_changed,
    }
}

enum Stale {
    Not,
    Nodes(NodeSet),
    All,
}

fn stale(seen: Position, changes: &Changes) -> Stale {
    if seen == changes.end() {
        return Stale::Not;
    }
    if seen == Position::MAX {
        return Stale::All;
    }
    changes.since(seen).map_or(Stale::All, |nodes| Stale::Nodes(nodes.collect()))
}
