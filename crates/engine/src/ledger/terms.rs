//! Terms of pods about other pods, as crowds and topologies.

use super::crowds::{CrowdId, Crowds, Want};
use super::nodes::{NodeIndex, Nodes};
use super::symbols::Symbols;
use super::topology::{Topologies, TopologyKey};
use crate::needs::{Constraint, PodAffinity, PodSelector, PodTerm, Spread};
use crate::pool::{Id, Pool};
use crate::shared::Chunked;

/// A term: pods, and how near is near.
pub type Term = (CrowdId, TopologyKey);

/// What a pod wants of other pods.
#[derive(Debug, Clone, Default)]
pub struct Affinity {
    /// Pods of which one must be near, each by itself.
    pub near: Vec<Term>,
    /// The pods that all of these mean: only they count.
    pub near_all: Option<CrowdId>,
    /// Pods of which none may be near.
    pub away: Vec<Term>,
    /// What being near to others is worth.
    pub preferred: Vec<(i32, Term)>,
}

impl Affinity {
    /// What is wanted of each crowd.
    fn wants(&self) -> impl Iterator<Item = (Term, Want)> + '_ {
        let near = self.near.iter().map(|term| (*term, Want::Near));
        let away = self.away.iter().map(|term| (*term, Want::Away));
        let rather = self.preferred.iter().map(|(weight, term)| (*term, Want::Rather(*weight)));
        near.chain(away).chain(rather)
    }
}

/// One rule of how pods are spread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpreadRule {
    /// The pods that are counted.
    pub crowd: CrowdId,
    /// Whether they are counted at all, or only the pod that is placed.
    pub counts: bool,
    /// The domains.
    pub topology: TopologyKey,
    /// The label whose values they are.
    pub topology_key: Box<str>,
    /// Whether the rule binds.
    pub binds: bool,
    /// How many pods one domain may have more than the least filled one.
    pub max_skew: i32,
    /// With fewer domains than this, the least filled one counts as empty.
    pub min_domains: i32,
    /// Whether nodes count only where the pod's node affinity admits them.
    pub honours_affinity: bool,
    /// Whether nodes count only where the pod puts up with their taints.
    pub honours_taints: bool,
}

/// The terms of all pods, each kept once.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    affinities: Pool<PodAffinity>,
    resolved_affinities: Chunked<Affinity>,
    spreads: Pool<Spread>,
    resolved_spreads: Chunked<Vec<SpreadRule>>,
    /// What terms are about.
    pub crowds: Crowds,
    /// How near is near.
    pub topologies: Topologies,
}

impl Terms {
    /// The number of what a pod wants of others, held once more.
    pub fn hold_affinity(
        &mut self,
        affinity: &PodAffinity,
        nodes: &Nodes,
        symbols: &mut Symbols,
    ) -> Id<PodAffinity> {
        if let Some(id) = self.affinities.find(affinity) {
            self.affinities.hold_again(id);
            return id;
        }
        let (id, _) = self.affinities.hold(affinity.clone());
        let mut term = |one: &PodTerm| self.term(one, nodes, symbols);
        let near: Vec<Term> = affinity.near.iter().map(&mut term).collect();
        let away = affinity.away.iter().map(&mut term).collect();
        let preferred =
            affinity.preferred.iter().map(|(weight, one)| (*weight, term(one))).collect();
        let clauses = affinity.near.iter().map(|term| term.pods.clone());
        let all = (!near.is_empty()).then(|| PodSelector(clauses.collect()));
        let near_all = all.map(|all| self.crowds.hold(&all, symbols));
        self.resolved_affinities.grow(id.get() + 1);
        self.resolved_affinities[id.get()] = Affinity { near, near_all, away, preferred };
        id
    }

    fn term(&mut self, term: &PodTerm, nodes: &Nodes, symbols: &mut Symbols) -> Term {
        let crowd = self.crowds.hold(&PodSelector::one(term.pods.clone()), symbols);
        (crowd, self.topologies.hold(&term.topology_key, nodes, symbols))
    }

    /// Ends one hold.
    pub fn release_affinity(&mut self, id: Id<PodAffinity>, symbols: &mut Symbols) {
        if self.affinities.release(id).is_none() {
            return;
        }
        let resolved = std::mem::take(&mut self.resolved_affinities[id.get()]);
        for ((crowd, topology), _) in resolved.wants() {
            self.crowds.release(crowd, symbols);
            self.topologies.release(topology);
        }
        if let Some(crowd) = resolved.near_all {
            self.crowds.release(crowd, symbols);
        }
    }

    /// The number of how a pod is spread, held once more.
    pub fn hold_spread(
        &mut self,
        spread: &Spread,
        nodes: &Nodes,
        symbols: &mut Symbols,
    ) -> Id<Spread> {
        if let Some(id) = self.spreads.find(spread) {
            self.spreads.hold_again(id);
            return id;
        }
        let (id, _) = self.spreads.hold(spread.clone());
        let rule = |rule: &Constraint| {
            let crowd = self.crowds.hold(&PodSelector::one(rule.pods.clone()), symbols);
            SpreadRule {
                crowd,
                // Upstream counts no pod where every pod is meant, but the one that is placed.
                counts: !rule.pods.labels.is_everything(),
                topology: self.topologies.hold(&rule.topology_key, nodes, symbols),
                topology_key: rule.topology_key.clone(),
                binds: rule.binds,
                max_skew: rule.max_skew,
                min_domains: rule.min_domains,
                honours_affinity: rule.honours_affinity,
                honours_taints: rule.honours_taints,
            }
        };
        let rules = spread.0.iter().map(rule).collect();
        self.resolved_spreads.grow(id.get() + 1);
        self.resolved_spreads[id.get()] = rules;
        id
    }

    /// Ends one hold.
    pub fn release_spread(&mut self, id: Id<Spread>, symbols: &mut Symbols) {
        if self.spreads.release(id).is_none() {
            return;
        }
        for rule in std::mem::take(&mut self.resolved_spreads[id.get()]) {
            self.crowds.release(rule.crowd, symbols);
            self.topologies.release(rule.topology);
        }
    }

    /// What a pod wants of others.
    #[must_use]
    pub fn affinity(&self, id: Id<PodAffinity>) -> &Affinity {
        &self.resolved_affinities[id.get()]
    }

    /// How a pod is spread.
    #[must_use]
    pub fn spread(&self, id: Id<Spread>) -> &[SpreadRule] {
        &self.resolved_spreads[id.get()]
    }

    /// What a pod wants of others, in its own words.
    #[must_use]
    pub fn told_affinity(&self, id: Id<PodAffinity>) -> &PodAffinity {
        self.affinities.get(id)
    }

    /// How a pod is spread, in its own words.
    #[must_use]
    pub fn told_spread(&self, id: Id<Spread>) -> &Spread {
        self.spreads.get(id)
    }

    /// A pod with these wants is on a node.
    pub fn arrive(&mut self, id: Id<PodAffinity>, node: NodeIndex) {
        for ((crowd, topology), want) in self.resolved_affinities[id.get()].wants() {
            self.crowds.want(crowd, topology, want, node);
        }
    }

    /// It is there no longer.
    pub fn leave(&mut self, id: Id<PodAffinity>, node: NodeIndex) {
        for ((crowd, topology), want) in self.resolved_affinities[id.get()].wants() {
            self.crowds.unwant(crowd, topology, want, node);
        }
    }

    /// Whether no pod holds anything. Profiles may still hold topologies.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.affinities.is_empty() && self.spreads.is_empty() && self.crowds.is_empty()
    }
}
