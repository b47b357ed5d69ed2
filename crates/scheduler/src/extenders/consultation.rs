//! What extenders are asked about one pod, in which order, and what their answers come to.
//!
//! Without I/O: whoever drives it carries out the effect that is asked for and feeds the answers
//! back. Extenders that filter are asked one after the other, each about what the ones before left;
//! those that score are then asked all at once, unless one node is left. An answer that cannot be
//! true (a node that nobody asked about, or more nodes than anybody did) counts as no answer. What
//! an answer costs grows with the nodes that were asked about, and hardly with what it says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::reason::{Code, Reason, Refusal};
use engine::turn::{Advice, Counsel};

use super::wire::{Filtered, Scored};
use crate::config::Extender;

/// What the score of an extender counts beside those of plugins, which go ten times as high.
const SCALE: i64 = 10;
/// The highest score that an extender should give.
const SCORE_MAX: i64 = 10;

/// What is to be done next. Extenders are named by their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Ask this one which of the nodes can take the pod.
    Filter(usize),
    /// Ask each of these how good the nodes are.
    Score(Vec<usize>),
    /// Nothing: this is what came of it.
    End(Advice),
}

/// What extenders are asked about one pod.
pub struct Consultation<'a> {
    extenders: &'a [Extender],
    /// Those that filter and have not been asked, the last one first.
    filters: Vec<usize>,
    /// Those that score; none when they have been asked.
    scorers: Vec<usize>,
    nodes: Vec<Box<str>>,
    refused: BTreeMap<Box<str>, Refusal>,
    scores: BTreeMap<Box<str>, i64>,
    failed: Option<Box<str>>,
}

/// Whether an extender cares for a pod that names these resources.
#[must_use]
pub fn is_interested(extender: &Extender, extended: &[Box<str>]) -> bool {
    let managed = &extender.managed_resources;
    managed.is_empty() || extended.iter().any(|name| managed.contains(&**name))
}

impl<'a> Consultation<'a> {
    /// A consultation about a pod that names these resources, and about these nodes.
    #[must_use]
    pub fn new(extenders: &'a [Extender], extended: &[Box<str>], nodes: Vec<Box<str>>) -> Self {
        let those = |asked: fn(&Extender) -> bool| {
            let all = extenders.iter().enumerate();
            let those = all.filter(move |(_, one)| asked(one) && is_interested(one, extended));
            those.map(|(place, _)| place).collect::<Vec<usize>>()
        };
        let mut filters = those(|one| one.filter_verb.is_some());
        filters.reverse();
        Self {
            extenders,
            filters,
            scorers: those(|one| one.prioritize.is_some()),
            nodes,
            refused: BTreeMap::new(),
            scores: BTreeMap::new(),
            failed: None,
        }
    }

    /// The nodes that are left.
    #[must_use]
    pub fn nodes(&self) -> &[Box<str>] {
        &self.nodes
    }

    /// What is to be done next.
    pub fn step(&mut self) -> Effect {
        if let Some(why) = self.failed.take() {
            return Effect::End(Advice::Failed(why));
        }
        if let Some(next) = self.filters.pop_if(|_| !self.nodes.is_empty()) {
            return Effect::Filter(next);
        }
        let scorers = std::mem::take(&mut self.scorers);
        if self.nodes.len() > 1 && !scorers.is_empty() {
            return Effect::Score(scorers);
        }
        let score = |node: &str| self.scores.get(node).copied().unwrap_or_default();
        let allowed = self.nodes.iter().map(|node| (node.clone(), score(node))).collect();
        let refused = std::mem::take(&mut self.refused);
        Effect::End(Advice::Counsel(Counsel { allowed, refused }))
    }

    /// Takes in which nodes an extender leaves, or why it does not say.
    pub fn filtered(&mut self, extender: usize, answer: Result<Filtered, String>) {
        let Some(own) = self.extenders.get(extender) else { return };
        let kept = answer.and_then(|answer| {
            let kept = self.kept(own, &answer)?;
            Ok((kept, answer))
        });
        match kept {
            Ok((kept, answer)) => self.narrow(own, &kept, &answer),
            Err(error) if own.ignorable => {
                tracing::info!(
                    extender = own.url_prefix,
                    error,
                    "an extender failed; it is skipped"
                );
            }
            Err(error) => self.failed = Some(error.into()),
        }
    }

    /// The nodes that an extender leaves, none of which it may have made up.
    fn kept(&self, own: &Extender, answer: &Filtered) -> Result<BTreeSet<Box<str>>, String> {
        if !answer.error.is_empty() {
            return Err(answer.error.clone());
        }
        let names = answer.node_names.as_ref().filter(|_| own.knows_nodes);
        let names = names.or(answer.nodes.as_ref()).map_or(&[][..], Vec::as_slice);
        let url = &own.url_prefix;
        let asked = self.nodes.len();
        if names.len() > asked {
            let named = names.len();
            return Err(format!(
                "extender {url:?} names {named} nodes, and was asked about {asked}"
            ));
        }
        let known: BTreeSet<&str> = self.nodes.iter().map(|node| &**node).collect();
        let kept = names.iter().map(|name| match known.get(name.as_str()) {
            Some(node) => Ok(Box::from(*node)),
            None => Err(format!(
                "extender {url:?} claims a filtered node {name:?} which is not found in the input \
                 node list"
            )),
        });
        kept.collect()
    }

    fn narrow(&mut self, own: &Extender, kept: &BTreeSet<Box<str>>, answer: &Filtered) {
        let url: Arc<str> = own.url_prefix.as_str().into();
        for node in self.nodes.iter().filter(|node| !kept.contains(*node)) {
            let said = |those: &BTreeMap<String, String>, code| {
                those.get(&**node).map(|words| (code, words.as_str().into()))
            };
            let said = said(&answer.unresolvable, Code::Unresolvable)
                .or_else(|| said(&answer.failed, Code::Unschedulable));
            if let Some((code, words)) = said {
                let reason = Reason::Extender { url: url.clone(), words };
                self.refused.insert(node.clone(), Refusal::new(code, reason));
            }
        }
        self.nodes.retain(|node| kept.contains(node));
    }

    /// Takes in how good an extender finds the nodes. One that does not say has no say, and what it
    /// says of other nodes is not heard.
    pub fn scored(&mut self, extender: usize, answer: Result<Vec<Scored>, String>) {
        let Some(own) = self.extenders.get(extender) else { return };
        let url = &own.url_prefix;
        let weight = own.prioritize.as_ref().map_or(0, |prioritize| prioritize.weight);
        let scores = match answer {
            Ok(scores) => scores,
            Err(error) => {
                tracing::info!(
                    extender = url,
                    error,
                    "an extender failed; its scores do not count"
                );
                return;
            }
        };
        if let Some(Scored { host, score }) =
            scores.iter().find(|one| !(0..=SCORE_MAX).contains(&one.score))
        {
            tracing::warn!(extender = url, host, score, "an extender gives a score beyond 0 to 10");
        }
        let known: BTreeSet<&str> = self.nodes.iter().map(|node| &**node).collect();
        for Scored { host, score } in scores.iter().filter(|one| known.contains(&*one.host)) {
            let counts = score.saturating_mul(weight).saturating_mul(SCALE);
            let sum = self.scores.entry(host.as_str().into()).or_default();
            *sum = sum.saturating_add(counts);
        }
    }
}

#[cfg(test)]
mod tests;
