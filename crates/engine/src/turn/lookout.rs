//! Attempts that are looked at more closely: what every node is worth to a pod, and who refuses which.
//!
//! That is worked out once more, beside what is decided: where nobody wants to see it, nothing is.

use std::collections::BTreeMap;

use super::{Engine, Question};
use crate::examination::Refused;
use crate::fact::PodRef;
use crate::plugin::Plugin;
use crate::reason::Refusal;

/// Of how many nodes is told who refuses them.
const REFUSALS_MAX: usize = 1000;

/// What is wanted of all pods, and of single ones, by namespace and name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted<T> {
    /// Of all of which nothing else is said; nothing where none is wanted.
    pub all: Option<T>,
    /// Of single ones.
    pub pods: BTreeMap<(Box<str>, Box<str>), T>,
}

impl<T: Copy> Wanted<T> {
    /// What is wanted of a pod.
    #[must_use]
    pub fn of(&self, pod: &PodRef) -> Option<T> {
        if self.pods.is_empty() {
            return self.all;
        }
        self.pods.get(&(pod.namespace.clone(), pod.name.clone())).copied().or(self.all)
    }
}

/// What is looked at more closely.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lookout {
    /// How many of the best nodes, with what each plugin gives them.
    pub scores: Wanted<usize>,
    /// Who refuses which nodes.
    pub refusals: Wanted<()>,
}

/// What was seen of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// The pod.
    pub pod: PodRef,
    /// What nodes are worth, where that is looked at.
    pub scores: Option<Scores>,
    /// Which nodes are refused, by whom and why; none where a pod is refused whatever the nodes are.
    pub refusals: Vec<(Option<Box<str>>, Plugin, String)>,
}

/// What nodes are worth to a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scores {
    /// How many nodes can take it.
    pub feasible: usize,
    /// Who gives scores.
    pub plugins: Vec<Plugin>,
    /// The best nodes, their totals and what each plugin gives them, best first.
    pub best: Vec<(Box<str>, i64, Vec<i64>)>,
}

/// What is looked at, and what was seen and not yet told.
#[derive(Debug, Default)]
pub(super) struct Watch {
    lookout: Lookout,
    sights: Vec<Sight>,
}

impl Engine {
    /// Looks at this from now on.
    pub fn look_out(&mut self, lookout: Lookout) {
        self.watch.lookout = lookout;
    }

    /// What was seen since this was last asked.
    pub fn take_sights(&mut self) -> Vec<Sight> {
        std::mem::take(&mut self.watch.sights)
    }

    /// Looks at a pod before it is decided, where anybody wants to see it.
    pub(super) fn glance(&mut self, pod: &PodRef, question: Question) {
        let Lookout { scores, refusals } = &self.watch.lookout;
        let (scores, refusals) = (scores.of(pod), refusals.of(pod).is_some());
        if scores.is_none() && !refusals {
            return;
        }
        let sight = Sight {
            pod: pod.clone(),
            refusals: if refusals { self.refusals_of(pod, question) } else { Vec::new() },
            scores: scores.map(|count| self.best_for(pod, question, count)),
        };
        self.watch.sights.push(sight);
    }

    fn best_for(&mut self, pod: &PodRef, question: Question, count: usize) -> Scores {
        let decider = &mut self.profiles[question.profile].1;
        let mut all = decider.scores_for(&mut self.ledger, &pod.uid).unwrap_or_default();
        let feasible = all.len();
        all.sort_by_key(|own| (std::cmp::Reverse(own.total), own.node));
        let scores = decider.profile().scores.iter();
        let name = |node| Box::from(self.ledger.nodes.name(node));
        Scores {
            feasible,
            plugins: scores.map(|(score, _)| score.plugin()).collect(),
            best: (all.into_iter().take(count))
                .map(|own| (name(own.node), own.total, own.by_plugin))
                .collect(),
        }
    }

    /// By what it is decided, reservations included.
    fn refusals_of(
        &mut self,
        pod: &PodRef,
        question: Question,
    ) -> Vec<(Option<Box<str>>, Plugin, String)> {
        let decider = &mut self.profiles[question.profile].1;
        let Ok(examined) = decider.examine(&mut self.ledger, &pod.uid) else { return Vec::new() };
        let told = |refusal: &Refusal| {
            let words: Vec<String> = refusal.reasons.iter().map(ToString::to_string).collect();
            words.join(", ")
        };
        if let Some((plugin, refusal)) = &examined.everywhere {
            return vec![(None, *plugin, told(refusal))];
        }
        let refused = examined.refused.iter().filter_map(|Refused { node, plugin, refusal }| {
            Some((Some(self.ledger.nodes.name(*node).into()), (*plugin)?, told(refusal)))
        });
        refused.take(REFUSALS_MAX).collect()
    }
}
