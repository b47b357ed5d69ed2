//! Which node is best for a pod, and why the others are not.
//!
//! A pick starts from the pod's [`Shape`](crate::cache::Shape), which is kept: the nodes that no
//! filter refuses that looks at one node at a time, and what their scores add up to. On top of that
//! come those that look at the whole cluster, and scores that count in proportion to the feasible
//! nodes. Totals are one column of small integers, so that the best of thousands of nodes is found
//! by plain loops over it.

use std::collections::BTreeMap;

use crate::cache::{Cache, INFEASIBLE, Plan, Question, Raw};
use crate::fact::{Allotment, Uid};
use crate::ledger::{Ask, Holding, Ledger, NodeIndex};
use crate::node_set::NodeSet;
use crate::plugin::{
    Filter, Lent, Normalise, Plugin, Plugins, Reads, SCORE_MAX, Wanted, reserving,
};
use crate::profile::Profile;
use crate::reason::{Code, Refusal};
use crate::reservations::Ranks;

/// Decides for one profile.
pub struct Decider {
    pub(crate) profile: Profile,
    plan: Plan,
    cache: Cache,
    pub(crate) ranks: Ranks,
    /// Nodes that are left to others.
    pub(crate) except: NodeSet,
    feasible: NodeSet,
    totals: Vec<i32>,
    lent: Lent,
    pub(crate) seed: u64,
    /// Of the last pod.
    pub(crate) looked: Looked,
}

/// How many nodes were looked at for a pod, and how many of them could take it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Looked {
    /// Those that were looked at.
    pub nodes: usize,
    /// Those that could take it.
    pub feasible: usize,
}

impl Looked {
    /// One node that went before all others.
    pub(crate) const ONE: Self = Self { nodes: 1, feasible: 1 };
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
    /// good. Of a profile whose weights are too large (see [`Profile::check`]) the totals mean
    /// nothing.
    #[must_use]
    pub fn new(profile: Profile, ledger: &mut Ledger, seed: u64) -> Self {
        profile.keep(ledger);
        Self {
            plan: Plan::new(&profile),
            profile,
            cache: Cache::default(),
            ranks: Ranks::default(),
            except: NodeSet::new(),
            feasible: NodeSet::new(),
            totals: Vec::new(),
            lent: Lent::default(),
            seed,
            looked: Looked::default(),
        }
    }

    /// The same, with a cache of about so many bytes.
    #[must_use]
    pub fn with_cache_of(self, bytes_max: usize) -> Self {
        Self { cache: Cache::with_bytes_max(bytes_max), ..self }
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
    pub fn refused_everywhere(&self, ledger: &Ledger, ask: Ask) -> Option<(Plugin, Refusal)> {
        let mut last = None;
        for place in &self.profile.admission {
            let filter = &self.profile.filters[*place];
            let Err(refusal) = filter.admit(ledger, ask) else { continue };
            let ends = refusal.code == Code::Unresolvable;
            last = Some((filter.plugin(), refusal));
            if ends {
                break;
            }
        }
        last
    }

    /// The nodes that can take the pod.
    pub fn feasible(&mut self, ledger: &Ledger, ask: Ask) -> &NodeSet {
        self.feasible.clear();
        if self.refused_everywhere(ledger, ask).is_none() {
            let Self { profile, plan, cache, .. } = self;
            let shape = cache.shape(Question { profile, plan, ledger, ask });
            self.feasible.clone_from(&shape.feasible);
            sift(Question { profile, plan, ledger, ask }, &mut self.feasible);
            self.cache.shrink();
        }
        self.feasible.take_out(&self.except);
        &self.feasible
    }

    /// The best node for a pod; none where no node can take it. `tie` differs from pod to pod,
    /// so that equally good nodes take turns.
    pub fn pick(&mut self, ledger: &Ledger, ask: Ask, tie: u64) -> Option<NodeIndex> {
        if self.refused_everywhere(ledger, ask).is_some() {
            return None;
        }
        if let Some(node) = self.preferred(ledger, ask) {
            self.looked = Looked::ONE;
            return Some(node);
        }
        let draw = mixed(self.seed ^ tie);
        let nodes = ledger.nodes.present().len();
        let (picked, feasible) = if self.is_settled(ledger, ask) {
            let Self { profile, plan, cache, .. } = self;
            let shape = cache.shape(Question { profile, plan, ledger, ask });
            (best(&shape.totals, draw), shape.feasible.len())
        } else {
            self.total(ledger, ask);
            (best(&self.totals, draw), self.feasible.len())
        };
        self.looked = Looked { nodes, feasible };
        self.cache.shrink();
        picked
    }

    /// The first of those nodes that go before all others which can take the pod.
    fn preferred(&mut self, ledger: &Ledger, ask: Ask) -> Option<NodeIndex> {
        // Hardly any pod names some.
        ask.hint?;
        let preferred: Vec<NodeIndex> =
            self.profile.filters.iter().flat_map(|filter| filter.prefers(ledger, ask)).collect();
        if preferred.is_empty() {
            return None;
        }
        let able = self.feasible(ledger, ask);
        preferred.into_iter().find(|node| able.contains(*node))
    }

    /// The best node for a pod when this is added to what some nodes are worth.
    pub(crate) fn pick_with(
        &mut self,
        ledger: &Ledger,
        ask: Ask,
        added: &BTreeMap<NodeIndex, i64>,
        tie: u64,
    ) -> Option<NodeIndex> {
        if self.refused_everywhere(ledger, ask).is_some() {
            return None;
        }
        self.total(ledger, ask);
        self.cache.shrink();
        let total = |node: NodeIndex| {
            let added = added.get(&node).copied().unwrap_or_default();
            i64::from(self.totals[node.get()]).saturating_add(added)
        };
        let most = self.feasible.iter().map(total).max()?;
        let equal: Vec<NodeIndex> =
            self.feasible.iter().filter(|node| total(*node) == most).collect();
        self.looked = Looked { nodes: added.len(), feasible: self.feasible.len() };
        let draw = mixed(self.seed ^ tie) % equal.len() as u64;
        equal.get(usize::try_from(draw).unwrap_or(0)).copied()
    }

    /// Whether the pod's shape says it all: nobody has anything to say on the whole cluster.
    fn is_settled(&mut self, ledger: &Ledger, ask: Ask) -> bool {
        if !self.except.is_empty() {
            return false;
        }
        let Self { profile, plan, cache, .. } = self;
        let plain = |place: &usize| profile.filters[*place].key(ledger, ask).is_none();
        let flat = |place: &usize| profile.scores[*place].0.key(ledger, ask).is_none();
        plan.whole_filters.iter().all(plain)
            && plan.whole_scores.iter().all(flat)
            && plan.scaled_scores.iter().all(|place| {
                let raw = cache.score(*place, &*profile.scores[*place].0, ledger, ask);
                raw.is_none_or(|raw| raw.most == 0)
            })
    }

    /// Adds up what all plugins say.
    fn total(&mut self, ledger: &Ledger, ask: Ask) {
        let Self { profile, plan, cache, except, feasible, totals, lent, .. } = self;
        let question = Question { profile, plan, ledger, ask };
        let shape = cache.shape(question);
        feasible.clone_from(&shape.feasible);
        feasible.take_out(except);
        sift(question, feasible);
        totals.clone_from(&shape.totals);
        shape.feasible.each_beyond(feasible, |node| totals[node] = INFEASIBLE);
        for place in &plan.scaled_scores {
            let score = &*profile.scores[*place].0;
            if let Some(raw) = cache.score(*place, score, ledger, ask) {
                add(totals, raw, plan.weights[*place], score.normalise(), feasible);
            }
        }
        lent.counts.resize(totals.len(), 0);
        for place in &plan.whole_scores {
            let (score, weight) = (&*profile.scores[*place].0, plan.weights[*place]);
            if score.key(ledger, ask).is_some() {
                score.add(Wanted { ledger, ask, weight }, feasible, totals, lent);
            }
        }
    }

    /// What the nodes that can take the pod are worth by what is kept, but for what is added to all.
    #[cfg(test)]
    pub(crate) fn totals(&mut self, ledger: &Ledger, ask: Ask) -> Vec<(NodeIndex, i64)> {
        if self.refused_everywhere(ledger, ask).is_some() {
            return Vec::new();
        }
        self.total(ledger, ask);
        self.feasible.iter().map(|node| (node, i64::from(self.totals[node.get()]))).collect()
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
                _ => self.cache.score(index, &**score, ledger, ask).map(|raw| &raw.scores[..]),
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
        self.cache.shrink();
        let of = |node: NodeIndex| {
            let by_plugin: Vec<i64> = columns.iter().map(|column| column[node.get()]).collect();
            NodeScores { node, total: by_plugin.iter().sum(), by_plugin }
        };
        feasible.iter().map(of).collect()
    }

    /// Who refuses a node as the first, where any is refused.
    pub(crate) fn refusing(&mut self, ledger: &Ledger, ask: Ask) -> Plugins {
        if let Some((plugin, _)) = self.refused_everywhere(ledger, ask) {
            return Plugins::from_iter([plugin]);
        }
        let Self { profile, cache, .. } = self;
        let mut left = ledger.nodes.present().clone();
        let filters = profile.filters.iter().enumerate();
        let refusing = filters.filter_map(|(place, filter)| {
            let before = left.len();
            match filter.reads() {
                Reads::Cluster if filter.key(ledger, ask).is_some() => {
                    filter.filter(ledger, ask, &mut left);
                }
                Reads::Cluster => {}
                _ => {
                    if let Some(able) = cache.filter(place, &**filter, ledger, ask) {
                        left.keep(able);
                    }
                }
            }
            (left.len() < before).then(|| filter.plugin())
        });
        let refusing = refusing.collect();
        self.cache.shrink();
        refusing
    }

    /// Why a node cannot take the pod, and which plugin says so; none where it can.
    #[must_use]
    pub fn refusal(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> Option<(Plugin, Refusal)> {
        self.refused_everywhere(ledger, ask).or_else(|| {
            let mut filters = self.profile.filters.iter();
            filters.find_map(|filter| Some((filter.plugin(), filter.refusal(ledger, ask, node)?)))
        })
    }

    /// Whether no node would take a pod whoever left it.
    #[must_use]
    pub fn is_hopeless(&self, ledger: &Ledger, uid: &Uid) -> bool {
        let can_be_helped = |ask: Ask| {
            ledger.nodes.present().iter().any(|node| self.can_be_helped(ledger, ask, node))
        };
        ledger.pod(uid).is_none_or(|row| !can_be_helped(row.ask))
    }

    /// Whether a node takes a pod, or would if others left it.
    pub(crate) fn can_be_helped(&self, ledger: &Ledger, ask: Ask, node: NodeIndex) -> bool {
        self.refusal(ledger, ask, node).is_none_or(|(_, refusal)| refusal.is_curable())
    }

    /// What of a node is the pod's own from now on, besides amounts; of CPUs some of these first.
    pub(crate) fn allot_on(
        &self,
        ledger: &Ledger,
        ask: Ask,
        node: NodeIndex,
        first: Option<&Holding>,
    ) -> Result<Option<Allotment>, (Plugin, Refusal)> {
        allot_by(&self.profile.filters, ledger, ask, node, first)
    }

    /// Whether pods use reservations.
    pub(crate) fn uses_reservations(&self) -> bool {
        reserving(&self.profile.filters).is_some()
    }

    /// What some nodes are worth to a pod, as if there were no others.
    pub(crate) fn worth(
        &mut self,
        ledger: &Ledger,
        ask: Ask,
        nodes: &NodeSet,
    ) -> BTreeMap<NodeIndex, i64> {
        let mut worth: BTreeMap<NodeIndex, i64> = nodes.iter().map(|node| (node, 0)).collect();
        let Self { profile, cache, lent, .. } = self;
        for (place, (score, weight)) in profile.scores.iter().enumerate() {
            let raw = match score.reads() {
                Reads::Cluster => score.key(ledger, ask).map(|_| {
                    lent.scores.clear();
                    lent.scores.resize(ledger.nodes.places(), 0);
                    score.score(ledger, ask, nodes, &mut lent.scores);
                    &lent.scores[..]
                }),
                _ => cache.score(place, &**score, ledger, ask).map(|raw| &raw.scores[..]),
            };
            let Some(raw) = raw else { continue };
            let most = most(raw, nodes);
            for (node, sum) in &mut worth {
                let own = normalised(score.normalise(), raw[node.get()].into(), most);
                *sum = sum.saturating_add(weight.0.saturating_mul(own));
            }
        }
        cache.shrink();
        worth
    }

    /// Why a node cannot take the pod, from every plugin that refuses it.
    #[cfg(test)]
    pub(crate) fn refusals(
        &self,
        ledger: &Ledger,
        ask: Ask,
        node: NodeIndex,
    ) -> Vec<(Plugin, Refusal)> {
        let filters = self.profile.filters.iter();
        filters
            .filter_map(|filter| Some((filter.plugin(), filter.refusal(ledger, ask, node)?)))
            .collect()
    }
}

/// What of a node is a pod's own from now on, besides amounts; some of these CPUs and NUMA nodes first.
pub(crate) fn allot_by(
    filters: &[Box<dyn Filter>],
    ledger: &Ledger,
    ask: Ask,
    node: NodeIndex,
    first: Option<&Holding>,
) -> Result<Option<Allotment>, (Plugin, Refusal)> {
    let Some(filter) = filters.iter().find(|filter| filter.allots()) else { return Ok(None) };
    filter.allot(ledger, ask, node, first).map_err(|why| (filter.plugin(), why))
}

/// Takes out the nodes that a filter refuses that looks at the whole cluster.
fn sift(question: Question<'_>, nodes: &mut NodeSet) {
    let Question { profile, plan, ledger, ask } = question;
    for place in &plan.whole_filters {
        let filter = &profile.filters[*place];
        if filter.key(ledger, ask).is_some() {
            filter.filter(ledger, ask, nodes);
        }
    }
}

/// Nodes whose totals are looked at together.
const BLOCK: usize = 512;

/// One of the nodes with the highest total, by a number that differs from pod to pod; none where
/// no node can take the pod.
fn best(totals: &[i32], draw: u64) -> Option<NodeIndex> {
    let highest = |totals: &[i32]| totals.iter().copied().fold(i32::MIN, i32::max);
    let of_blocks: Vec<i32> = totals.chunks(BLOCK).map(highest).collect();
    let most = highest(&of_blocks);
    if most <= INFEASIBLE / 2 {
        return None;
    }
    let count = |totals: &[i32]| totals.iter().map(|total| u32::from(*total == most)).sum::<u32>();
    let blocks = totals.chunks(BLOCK).zip(of_blocks);
    let counts: Vec<u32> =
        blocks.map(|(block, highest)| if highest == most { count(block) } else { 0 }).collect();
    let mut left = (draw % u64::from(counts.iter().sum::<u32>())) as u32;
    for (number, (block, own)) in totals.chunks(BLOCK).zip(counts).enumerate() {
        if left < own {
            let mut equal = block.iter().enumerate().filter(|(_, total)| **total == most);
            return equal.nth(left as usize).map(|(at, _)| NodeIndex::at(number * BLOCK + at));
        }
        left -= own;
    }
    None
}

/// The highest raw score of feasible nodes.
fn most(raw: &[i32], feasible: &NodeSet) -> i64 {
    let mut most = i32::MIN;
    feasible.each(|node| most = most.max(raw[node]));
    most.into()
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

/// Adds scores that count in proportion to those of the feasible nodes. What would be added to all
/// nodes alike is left out.
fn add(totals: &mut [i32], raw: &Raw, weight: i32, how: Normalise, feasible: &NodeSet) {
    if raw.most == 0 {
        return;
    }
    let most = most(&raw.scores, feasible);
    if most == 0 {
        return;
    }
    let weighted = |raw: i32| {
        let score = normalised(how, raw.into(), most);
        weight.wrapping_mul(i32::try_from(score).unwrap_or(i32::MAX))
    };
    feasible.each(|node| totals[node] = totals[node].wrapping_add(weighted(raw.scores[node])));
}

/// A number in which every bit of another one plays a part.
pub(crate) fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
