//! Answers of plugins, kept by key and repaired where nodes changed.
//!
//! **Invariant:** an answer taken from here equals one computed afresh. A property test holds it
//! after any sequence of facts.

use rustc_hash::FxHashMap;

use crate::ledger::{Ask, Changes, Ledger, Position};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Reads, Score};

/// What a kept answer is known by: which plugin gave it, and for which part of an ask.
type Name = (u16, Key);

/// Answers of one profile's plugins.
pub struct Cache {
    filters: FxHashMap<Name, Answer<NodeSet>>,
    scores: FxHashMap<Name, Answer<Vec<i32>>>,
    /// Counts uses, to know which answer was used least recently.
    uses: u64,
    bytes: usize,
    bytes_max: usize,
}

struct Answer<T> {
    value: T,
    /// Up to where changes of nodes are in it.
    seen: Position,
    epoch: u64,
    used: u64,
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
        let (filters, scores) = (FxHashMap::default(), FxHashMap::default());
        Self { filters, scores, uses: 0, bytes: 0, bytes_max }
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
        self.uses += 1;
        let changes = changes_of(ledger, filter.reads());
        let answer = self.filters.entry(name).or_insert_with(|| Answer {
            value: NodeSet::new(),
            seen: Position::MAX,
            epoch: 0,
            used: 0,
        });
        answer.used = self.uses;
        let before = answer.value.bytes();
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
        self.bytes = self.bytes + answer.value.bytes() - before;
        Some(&self.filters[&name].value)
    }

    /// The raw scores of a plugin, by node; none where they are all 0.
    pub fn score(
        &mut self,
        plugin: usize,
        score: &dyn Score,
        ledger: &Ledger,
        ask: Ask,
    ) -> Option<&[i32]> {
        let name = (plugin_number(plugin), score.key(ledger, ask)?);
        self.uses += 1;
        let (changes, epoch) = (changes_of(ledger, score.reads()), score.epoch(ledger));
        let answer = self.scores.entry(name).or_insert_with(|| Answer {
            value: Vec::new(),
            seen: Position::MAX,
            epoch,
            used: 0,
        });
        answer.used = self.uses;
        let before = answer.value.capacity();
        let places = ledger.nodes.places();
        let stale = if answer.epoch == epoch { stale(answer.seen, changes) } else { Stale::All };
        match stale {
            Stale::Not => {}
            Stale::Nodes(mut nodes) => {
                answer.value.resize(places, 0);
                nodes.keep(ledger.nodes.present());
                score.score(ledger, ask, &nodes, &mut answer.value);
            }
            Stale::All => {
                answer.value.clear();
                answer.value.resize(places, 0);
                score.score(ledger, ask, ledger.nodes.present(), &mut answer.value);
            }
        }
        (answer.seen, answer.epoch) = (changes.end(), epoch);
        self.bytes += (answer.value.capacity() - before) * size_of::<i32>();
        Some(&self.scores[&name].value)
    }

    /// Forgets what was used least recently, until what is left fits.
    pub fn shrink(&mut self) {
        while self.bytes > self.bytes_max {
            let filter =
                self.filters.iter().map(|(name, answer)| (answer.used, false, *name)).min();
            let score = self.scores.iter().map(|(name, answer)| (answer.used, true, *name)).min();
            let Some((_, is_score, name)) = filter.into_iter().chain(score).min() else { return };
            let freed = if is_score {
                self.scores.remove(&name).map(|answer| answer.value.capacity() * size_of::<i32>())
            } else {
                self.filters.remove(&name).map(|answer| answer.value.bytes())
            };
            self.bytes -= freed.unwrap_or(0);
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
