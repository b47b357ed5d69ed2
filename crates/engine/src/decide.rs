//! Which node is best for a pod, and why the others are not.

use crate::cache::Cache;
use crate::ledger::{Ask, Ledger, NodeIndex};
use crate::node_set::NodeSet;
use crate::plugin::{Normalise, Reads, SCORE_MAX, Score};
use crate::profile::Profile;
use crate::reason::{Code, Refusal};

/// Decides for one profile.
pub struct Decider {
    pub(crate) profile: Profile,
    cache: Cache,
    /// Nodes that are left to others.
    pub(crate) except: NodeSet,
    feasible: NodeSet,
    totals: Vec<i64>,
    /// Scores that are never kept.
    whole: Vec<i32>,
    pub(crate) seed: u64,
}

/// What each plugin gives a node, weighted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeScores {
    /// The node.
    pub node: NodeIndex,
    /// By the order of plugins in the profile.
    pub by_plugin: Vec<i64>,
    /// The sum.
    pub total: i64,
}

impl Decider {
    /// Decides by this profile on this ledger; the seed spreads pods over nodes that are equally
    /// good.
    #[must_use]
    pub fn new(profile: Profile, ledger: &mut Ledger, seed: u64) -> Self {
        for key in profile.scores.iter().flat_map(|(score, _)| score.topology_keys()) {
            ledger.terms.topologies.hold(key, &ledger.nodes, &ledger.symbols);
        }
        let (cache, feasible, except) = (Cache::default(), NodeSet::new(), NodeSet::new());
        Self { profile, cache, except, feasible, totals: Vec::new(), whole: Vec::new(), seed }
    }

    /// The profile.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Why no node can take the pod, whatever the nodes are, and which plugin says so; none where
    /// they are asked.
    ///
    /// What evicting pods cannot help is said at once; what it could help is said only if nobody
    /// after it refuses.
    #[must_use]
    pub fn refused_everywhere(&self, ledger: &Ledger, ask: Ask) -> Option<(&'static str, Refusal)> {
        let mut last = None;
        for filter in &self.profile.filters {
            let Err(refusal) = filter.admit(ledger, ask) else { continue };
            let ends = refusal.code == Code::Unresolvable;
            last = Some((filter.name(), refusal));
            if ends {
                break;
            }
        }
        last
    }

    /// The nodes that can take the pod.
    pub fn feasible(&mut self, ledger: &Ledger, ask: Ask) -> &NodeSet {
        if self.refused_everywhere(ledger, ask).is_some() {
            self.feasible = NodeSet::new();
            return &self.feasible;
        }
        self.feasible.clone_from(ledger.nodes.present());
        // Those that look at the whole cluster look at few nodes when they come last.
        let (whole, single): (Vec<_>, Vec<_>) = (self.profile.filters.iter().enumerate())
            .partition(|(_, filter)| filter.reads() == Reads::Cluster);
        for (index, filter) in single {
            if let Some(nodes) = self.cache.filter(index, &**filter, ledger, ask) {
                self.feasible.keep(nodes);
            }
        }
        for (_, filter) in whole {
            if filter.key(ledger, ask).is_some() {
                filter.filter(ledger, ask, &mut self.feasible);
            }
        }
        self.feasible.take_out(&self.except);
        &self.feasible
    }

    /// The best node for a pod; none where no node can take it. `spread` differs from pod to pod,
    /// so that equally good nodes take turns.
    pub fn pick(&mut self, ledger: &Ledger, ask: Ask, spread: u64) -> Option<NodeIndex> {
        self.feasible(ledger, ask);
        if self.feasible.is_empty() {
            return None;
        }
        self.totals.clear();
        self.totals.resize(ledger.nodes.places(), 0);
        for (index, (score, weight)) in self.profile.scores.iter().enumerate() {
            let raw = match score.reads() {
                Reads::Cluster => {
                    if score.key(ledger, ask).is_none() {
                        continue;
                    }
                    self.whole.clear();
                    self.whole.resize(ledger.nodes.places(), 0);
                    score.score(ledger, ask, &self.feasible, &mut self.whole);
                    &self.whole[..]
                }
                _ => match self.cache.score(index, &**score, ledger, ask) {
                    Some(raw) => raw,
                    None => continue,
                },
            };
            add(&mut self.totals, raw, weight.0, &**score, &self.feasible);
        }
        self.cache.shrink();
        Some(self.best(spread))
    }

    fn best(&self, spread: u64) -> NodeIndex {
        let best = self.feasible.iter().map(|node| self.totals[node.get()]).max();
        let equal = || self.feasible.iter().filter(|node| Some(self.totals[node.get()]) == best);
        let turn = mixed(self.seed ^ spread) % equal().count() as u64;
        equal().nth(usize::try_from(turn).unwrap_or(0)).expect("the best node is one of them")
    }

    /// What each plugin gives each node that can take the pod.
    pub fn scores(&mut self, ledger: &Ledger, ask: Ask) -> Vec<NodeScores> {
        let feasible = self.feasible(ledger, ask).clone();
        let mut columns = Vec::new();
        for (index, (score, weight)) in self.profile.scores.iter().enumerate() {
            let mut column = vec![0; ledger.nodes.places()];
            let mut whole = Vec::new();
            let raw = match score.reads() {
                Reads::Cluster => score.key(ledger, ask).map(|_| {
                    whole.resize(ledger.nodes.places(), 0);
                    score.score(ledger, ask, &feasible, &mut whole);
                    &whole[..]
                }),
                _ => self.cache.score(index, &**score, ledger, ask),
            };
            match raw {
                Some(raw) => {
                    let most = most(raw, &feasible);
                    for node in feasible.iter() {
                        let own = normalised(score.normalise(), raw[node.get()].into(), most);
                        column[node.get()] = weight.0 * own;
                    }
                }
                None => column.fill(weight.0 * score.without_key()),
            }
            columns.push(column);
        }
        let of = |node: NodeIndex| {
            let by_plugin: Vec<i64> = columns.iter().map(|column| column[node.get()]).collect();
            NodeScores { node, total: by_plugin.iter().sum(), by_plugin }
        };
        feasible.iter().map(of).collect()
    }

    /// Why a node cannot take the pod, and which plugin says so; none where it can.
    #[must_use]
    pub fn refusal(
        &self,
        ledger: &Ledger,
        ask: Ask,
        node: NodeIndex,
    ) -> Option<(&'static str, Refusal)> {
        self.refused_everywhere(ledger, ask).or_else(|| {
            let mut filters = self.profile.filters.iter();
            filters.find_map(|filter| Some((filter.name(), filter.refusal(ledger, ask, node)?)))
        })
    }
}

impl Decider {
    /// Why a node cannot take the pod, from every plugin that refuses it.
    #[must_use]
    pub fn refusals(
        &self,
        ledger: &Ledger,
        ask: Ask,
        node: NodeIndex,
    ) -> Vec<(&'static str, Refusal)> {
        let filters = self.profile.filters.iter();
        filters
            .filter_map(|filter| Some((filter.name(), filter.refusal(ledger, ask, node)?)))
            .collect()
    }
}

/// The highest raw score of feasible nodes.
fn most(raw: &[i32], feasible: &NodeSet) -> i64 {
    feasible.iter().map(|node| raw[node.get()]).max().unwrap_or(0).into()
}

fn normalised(how: Normalise, raw: i64, most: i64) -> i64 {
    match how {
        Normalise::No => raw,
        Normalise::ToMax if most == 0 => raw,
        Normalise::ToMax => SCORE_MAX * raw / most,
        Normalise::ToMaxReversed if most == 0 => SCORE_MAX,
        Normalise::ToMaxReversed => SCORE_MAX - SCORE_MAX * raw / most,
    }
}

/// Adds a plugin's scores to the totals. What it would add to all nodes alike is left out.
fn add(totals: &mut [i64], raw: &[i32], weight: i64, score: &dyn Score, feasible: &NodeSet) {
    let how = score.normalise();
    if how == Normalise::No {
        for (total, raw) in totals.iter_mut().zip(raw) {
            *total += weight * i64::from(*raw);
        }
        return;
    }
    let most = most(raw, feasible);
    if most == 0 {
        return;
    }
    for node in feasible.iter().map(NodeIndex::get) {
        totals[node] += weight * normalised(how, raw[node].into(), most);
    }
}

/// A number in which every bit of another one plays a part.
pub(crate) fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
