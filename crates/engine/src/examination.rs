//! What every node says of a pod: who refuses it there, and why.
//!
//! The text is that of kube-scheduler's event and condition, because people and programs search for
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use crate::decide::Decider;
use crate::fact::Uid;
use crate::judge::Trial;
use crate::ledger::{Ask, ClaimError, Ledger, NodeIndex};
use crate::node_set::NodeSet;
use crate::plugin::{Plugin, Plugins, reserving};
use crate::reason::{Code, Reason, Refusal};
use crate::reservations::Tally;
use crate::search::{Promised, Work};

/// Why a node cannot take a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The node.
    pub node: NodeIndex,
    /// Who refuses; none where the node was not asked, because a plugin named those to ask.
    pub plugin: Option<Plugin>,
    /// Why.
    pub refusal: Refusal,
}

/// What every node says of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examination {
    /// How many nodes there are.
    pub nodes: usize,
    /// Who refuses the pod whatever the nodes are, and why. Then no node is asked.
    pub everywhere: Option<(Plugin, Refusal)>,
    /// Who named the only nodes to ask, and who is blamed with them.
    pub naming: BTreeSet<Plugin>,
    /// Who refuses nodes where the pod would use what reservations hold there.
    pub within: Plugins,
    /// The nodes that were refused, in the order of the ledger.
    pub refused: Vec<Refused>,
    /// What reservations say that are for the pod, where any are or one must be.
    pub reservations: Option<Tally>,
}

/// Counts what is said of one more node. `text` is there to be used again.
pub(crate) fn count(reason: &Reason, text: &mut String, counts: &mut BTreeMap<String, usize>) {
    text.clear();
    let _ = write!(text, "{reason}");
    match counts.get_mut(text) {
        Some(count) => *count += 1,
        None => {
            counts.insert(text.clone(), 1);
        }
    }
}

/// Tells how often each text is said, in the order of counts and texts as words.
pub(crate) fn counted(
    f: &mut fmt::Formatter<'_>,
    nodes: usize,
    texts: BTreeMap<String, usize>,
) -> fmt::Result {
    write!(f, "0/{nodes} nodes are available:")?;
    let mut told: Vec<String> =
        texts.into_iter().map(|(text, count)| format!("{count} {text}")).collect();
    told.sort_unstable();
    if !told.is_empty() {
        write!(f, " {}.", told.join(", "))?;
    }
    Ok(())
}

impl fmt::Display for Examination {
    /// Without what was tried after all nodes had refused.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        if let Some((_, refusal)) = &self.everywhere {
            let reasons: Vec<String> = refusal.reasons.iter().map(ToString::to_string).collect();
            return write!(f, "0/{} nodes are available: {}.", self.nodes, reasons.join(", "));
        }
        counted(f, self.nodes, self.counts())
    }
}

impl Examination {
    /// How many nodes are refused for each reason, by its text.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut text = String::new();
        for reason in self.refused.iter().flat_map(|one| &one.refusal.reasons) {
            count(reason, &mut text, &mut counts);
        }
        counts
    }

    /// The plugins that refused the pod, or a node for it.
    #[must_use]
    pub fn plugins(&self) -> Plugins {
        let everywhere = self.everywhere.iter().map(|(plugin, _)| *plugin);
        let there = self.refused.iter().filter_map(|one| one.plugin);
        let all: Plugins = self.naming.iter().copied().chain(everywhere).chain(there).collect();
        all.and(self.within)
    }

    /// Whether evicting pods of a node could help; none where the node takes the pod.
    #[must_use]
    pub fn code_of(&self, node: NodeIndex) -> Option<Code> {
        if let Some((_, refusal)) = &self.everywhere {
            return Some(refusal.code);
        }
        self.refused.iter().find(|one| one.node == node).map(|one| one.refusal.code)
    }

    /// Nodes that evicting pods could help.
    pub fn curable(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.refused.iter().filter(|one| one.refusal.is_curable()).map(|one| one.node)
    }
}

/// An examination under way: nodes are asked one after the other, as many at a time as there is work
/// to be spent.
pub(crate) struct Examining {
    /// The node on which room is made for the pod.
    own: Option<NodeIndex>,
    nodes: NodeSet,
    /// The nodes in their order, and how many of them were asked.
    order: Vec<NodeIndex>,
    asked: usize,
    named: Option<NodeSet>,
    naming: BTreeSet<Plugin>,
    examined: Examination,
}

impl Examining {
    /// The nodes to be asked, for whoever finds out about many at once.
    pub(crate) fn nodes(&self) -> &NodeSet {
        &self.nodes
    }

    /// Asks more nodes; whether all have been asked.
    pub(crate) fn advance(
        &mut self,
        trial: &mut Trial<'_>,
        promised: &Promised,
        work: &mut Work,
    ) -> bool {
        if self.examined.everywhere.is_some() {
            return true;
        }
        while let Some(node) = self.order.get(self.asked).copied() {
            if !work.is_left() {
                return false;
            }
            work.spend(1);
            self.asked += 1;
            let is_own = self.own == Some(node);
            if !is_own && self.named.as_ref().is_some_and(|all| !all.contains(node)) {
                continue;
            }
            let others = promised.get(&node).map_or(&[][..], Vec::as_slice);
            if let Some(plugin) = trial.refused_within(others, node) {
                self.examined.within = self.examined.within.and(Plugins::from_iter([plugin]));
            }
            if let Some((plugin, refusal)) = trial.told_refusal(others, node) {
                // Upstream blames who refuses the node that is tried first for those it leaves out.
                if is_own {
                    self.naming.insert(plugin);
                }
                self.examined.refused.push(Refused { node, plugin: Some(plugin), refusal });
            }
        }
        true
    }

    /// What all nodes said.
    pub(crate) fn end(self) -> Examination {
        let Self { own, order, named, naming, mut examined, .. } = self;
        if let Some(named) = named.filter(|_| examined.everywhere.is_none()) {
            let left_out =
                order.into_iter().filter(|node| own != Some(*node) && !named.contains(*node));
            let mut plugins: Vec<Plugin> = naming.iter().copied().collect();
            plugins.sort_unstable_by_key(|plugin| plugin.name());
            examined.naming = naming;
            examined.refused.extend(left_out.map(|node| {
                let reason = Reason::LeftOut { plugins: plugins.clone() };
                let refusal = Refusal::new(Code::Unresolvable, reason);
                Refused { node, plugin: None, refusal }
            }));
            examined.refused.sort_by_key(|one| one.node);
        }
        if let Some(tally) = &mut examined.reservations {
            tally.heed(examined.refused.iter().map(|one| (one.node, &one.refusal)));
        }
        examined
    }
}

impl Decider {
    /// Why nodes cannot take a pod that waits.
    ///
    /// # Errors
    /// When the pod is gone.
    pub fn examine(&self, ledger: &mut Ledger, uid: &Uid) -> Result<Examination, ClaimError> {
        let mut examining = self.begin_examination(ledger, uid)?;
        if examining.examined.everywhere.is_none() {
            let row = ledger.pod(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
            let (ask, priority) = (row.ask, row.priority);
            let promised = ledger.promised(uid, priority).into_iter().collect();
            let mut trial = Trial::new(ledger, &self.profile.filters, ask);
            trial.prepare(examining.nodes());
            examining.advance(&mut trial, &promised, &mut Work::without_end());
        }
        Ok(examining.end())
    }

    /// Begins to find out why nodes cannot take a pod that waits.
    pub(crate) fn begin_examination(
        &self,
        ledger: &Ledger,
        uid: &Uid,
    ) -> Result<Examining, ClaimError> {
        let row = ledger.pod(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
        let nodes = ledger.nodes.present().clone();
        let everywhere = self.refused_everywhere(ledger, row.ask);
        let (named, naming) = self.named(ledger, row.ask);
        Ok(Examining {
            own: row.nomination.node().and_then(|name| ledger.nodes.find(name)),
            order: nodes.iter().collect(),
            asked: 0,
            named,
            naming,
            examined: Examination {
                nodes: nodes.len(),
                everywhere,
                reservations: reserving(&self.profile.filters)
                    .and_then(|filter| Tally::of(ledger, row.ask, filter)),
                ..Examination::default()
            },
            nodes,
        })
    }

    /// The only nodes that plugins want asked, where they name some, and who does.
    pub(crate) fn named(&self, ledger: &Ledger, ask: Ask) -> (Option<NodeSet>, BTreeSet<Plugin>) {
        let (mut all, mut naming) = (None, BTreeSet::new());
        for filter in &self.profile.filters {
            let Some(nodes) = filter.names(ledger, ask) else { continue };
            naming.insert(filter.plugin());
            match &mut all {
                None => all = Some(nodes),
                Some(all) => all.keep(&nodes),
            }
        }
        (all, naming)
    }
}
