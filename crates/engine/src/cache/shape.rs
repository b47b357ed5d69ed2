//! Shapes: what all plugins that look at one node at a time say together.

use super::alike::Alike;
use super::{Answer, Cache, Kept, ShapeKey, Who, changes_of};
use crate::ledger::{Ask, Ledger, NodeIndex, Position};
use crate::node_set::NodeSet;
use crate::plugin::{Key, Normalise, Reads};
use crate::profile::Profile;

/// The total of a node that cannot take the pod. Whatever is added to it, it stays below that of
/// every node that can.
pub const INFEASIBLE: i32 = i32::MIN / 2;

/// The most that totals may add up to, and the most that may be taken from them.
pub const TOTAL_MAX: i64 = (i32::MAX / 4) as i64;

/// What is kept for all pods that are alike to the plugins that look at one node at a time.
#[derive(Default)]
pub struct Shape {
    /// The nodes that no such filter refuses.
    pub feasible: NodeSet,
    /// By node, what its scores that need not be normalised add up to, weighted; [`INFEASIBLE`]
    /// where it is not feasible.
    pub totals: Vec<i32>,
}

impl Shape {
    pub(super) fn bytes(&self) -> usize {
        self.feasible.bytes() + self.totals.capacity() * size_of::<i32>()
    }
}

/// Which plugins of a profile are asked when, by their places in it.
#[derive(Debug, Default)]
pub struct Plan {
    /// Filters that look at one node at a time: part of a shape.
    pub single_filters: Vec<usize>,
    /// Filters that look at the whole cluster. They see few nodes when they come last.
    pub whole_filters: Vec<usize>,
    /// Scores that look at one node at a time and are what they are: part of a shape.
    pub plain_scores: Vec<usize>,
    /// Scores that look at one node at a time and count in proportion to the feasible ones.
    pub scaled_scores: Vec<usize>,
    /// Scores that look at the whole cluster.
    pub whole_scores: Vec<usize>,
    /// By score, what it counts.
    pub weights: Vec<i32>,
}

impl Plan {
    /// The plan of a profile.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        let mut plan = Self::default();
        for (place, filter) in profile.filters.iter().enumerate() {
            match filter.reads() {
                Reads::Cluster => plan.whole_filters.push(place),
                Reads::Node | Reads::Load => plan.single_filters.push(place),
            }
        }
        for (place, (score, weight)) in profile.scores.iter().enumerate() {
            match (score.reads(), score.normalise()) {
                (Reads::Cluster, _) => plan.whole_scores.push(place),
                (_, Normalise::No) => plan.plain_scores.push(place),
                _ => plan.scaled_scores.push(place),
            }
            plan.weights.push(i32::try_from(weight.0).unwrap_or(i32::MAX));
        }
        plan
    }
}

/// What is used for each pod and means nothing between them.
#[derive(Default)]
pub(super) struct Lent {
    key: Vec<Option<Key>>,
    stale: NodeSet,
    fit: NodeSet,
    raw: Vec<i32>,
    pub(super) asked: NodeSet,
    pub(super) alike: Vec<Alike>,
}

/// A repair of one node costs about as much as a fresh answer for so many nodes in a row.
const REPAIR_SHARE: usize = 8;
/// So few are always repaired.
const REPAIR_MIN: usize = 16;

/// Who is asked, on what, and for which pod.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The plugins.
    pub profile: &'a Profile,
    /// Which of them are asked when.
    pub plan: &'a Plan,
    /// What they look at.
    pub ledger: &'a Ledger,
    /// What the pod asks for.
    pub ask: Ask,
}

impl Cache {
    /// What the plugins that look at one node at a time say together.
    pub fn shape(&mut self, question: Question<'_>) -> &Shape {
        let Question { profile, plan, ledger, ask } = question;
        let mut key = std::mem::take(&mut self.lent.key);
        key.clear();
        let filters = plan.single_filters.iter();
        key.extend(filters.map(|place| profile.filters[*place].key(ledger, ask)));
        let scores = plan.plain_scores.iter();
        key.extend(scores.map(|place| profile.scores[*place].0.key(ledger, ask)));
        let place = match self.shapes.get(&key[..]) {
            Some(place) => *place,
            None => {
                let key: ShapeKey = key[..].into();
                let place = self.kept.insert(Kept::Shape(key.clone(), Answer::default()));
                self.bytes += self.kept.get(place).bytes();
                self.shapes.insert(key, place);
                place
            }
        };
        let entry = self.kept.use_mut(place);
        let before = entry.bytes();
        let mut answer = std::mem::take(answer!(entry, Shape));
        self.settle(&mut answer, &key, question);
        *answer!(self.kept.use_mut(place), Shape) = answer;
        self.lent.key = key;
        self.weigh(place, before);
        &answer!(self.kept.get(place), Shape).value
    }

    /// Brings a shape up to date.
    fn settle(&mut self, answer: &mut Answer<Shape>, key: &[Option<Key>], question: Question<'_>) {
        let Question { profile, plan, ledger, .. } = question;
        let changes = changes_of(ledger, Reads::Load);
        let scores = plan.plain_scores.iter().map(|place| &profile.scores[*place].0);
        let keyed = scores.zip(&key[plan.single_filters.len()..]).filter(|(_, key)| key.is_some());
        let epoch = keyed.fold(0, |all: u64, (score, _)| all.wrapping_add(score.epoch(ledger)));
        if answer.seen == changes.end() && answer.epoch == epoch {
            return;
        }
        let known = answer.seen != Position::MAX && answer.epoch == epoch;
        let since = known.then(|| changes.since(answer.seen)).flatten();
        let repaired_max = (ledger.nodes.places() / REPAIR_SHARE).max(REPAIR_MIN);
        let few = since.filter(|nodes| nodes.len() <= repaired_max);
        match few {
            Some(nodes) => self.repair(&mut answer.value, nodes, key, question),
            None => self.compute(&mut answer.value, key, question),
        }
        (answer.seen, answer.epoch) = (changes.end(), epoch);
    }

    fn compute(&mut self, shape: &mut Shape, key: &[Option<Key>], question: Question<'_>) {
        let places = question.ledger.nodes.places();
        let Shape { feasible, totals } = shape;
        feasible.clone_from(question.ledger.nodes.present());
        self.sift(feasible, key, question);
        totals.clear();
        totals.resize(places, 0);
        self.each_plain(feasible, key, question, |weight, raw| {
            // Places of nodes that are not feasible may hold anything.
            let pairs = totals.iter_mut().zip(raw);
            if weight == 1 {
                pairs.for_each(|(total, raw)| *total = total.wrapping_add(*raw));
            } else {
                pairs.for_each(|(total, raw)| {
                    *total = total.wrapping_add(weight.wrapping_mul(*raw));
                });
            }
        });
        feasible.each_other(places, |node| totals[node] = INFEASIBLE);
    }

    fn repair(
        &mut self,
        shape: &mut Shape,
        nodes: impl Iterator<Item = NodeIndex>,
        key: &[Option<Key>],
        question: Question<'_>,
    ) {
        let mut stale = std::mem::take(&mut self.lent.stale);
        let mut fit = std::mem::take(&mut self.lent.fit);
        stale.clear();
        nodes.for_each(|node| stale.insert(node));
        fit.clone_from(&stale);
        fit.keep(question.ledger.nodes.present());
        self.sift(&mut fit, key, question);
        let Shape { feasible, totals } = shape;
        totals.resize(question.ledger.nodes.places(), INFEASIBLE);
        stale.each(|node| totals[node] = INFEASIBLE);
        fit.each(|node| totals[node] = 0);
        self.each_plain(&fit, key, question, |weight, raw| {
            fit.each(|node| {
                totals[node] = totals[node].wrapping_add(weight.wrapping_mul(raw[node]));
            });
        });
        for node in stale.iter() {
            feasible.set(node, fit.contains(node));
        }
        (self.lent.stale, self.lent.fit) = (stale, fit);
    }

    /// Takes out the nodes that a filter refuses. The parts of the shape's key are those that the
    /// plugins would give again.
    fn sift(&mut self, nodes: &mut NodeSet, key: &[Option<Key>], question: Question<'_>) {
        let Question { profile, plan, ledger, ask } = question;
        for (place, key) in plan.single_filters.iter().zip(key) {
            let filter = &*profile.filters[*place];
            if filter.reads() == Reads::Node {
                if let Some(answer) = self.filter(*place, filter, ledger, ask) {
                    nodes.keep(answer);
                }
            } else if let Some(key) = key {
                self.sift_alike((Who::Filter(*place), *key), filter, question, nodes);
            }
        }
    }

    /// Calls with the weight and the raw scores of each plugin that has some. Scores of nodes that
    /// are not asked for mean nothing.
    fn each_plain(
        &mut self,
        nodes: &NodeSet,
        key: &[Option<Key>],
        question: Question<'_>,
        mut call: impl FnMut(i32, &[i32]),
    ) {
        let Question { profile, plan, ledger, ask } = question;
        let mut lent = std::mem::take(&mut self.lent.raw);
        lent.resize(ledger.nodes.places(), 0);
        let keys = &key[plan.single_filters.len()..];
        for (place, key) in plan.plain_scores.iter().zip(keys) {
            let (score, weight) = (&*profile.scores[*place].0, plan.weights[*place]);
            if score.reads() == Reads::Node {
                if let Some(raw) = self.score(*place, score, ledger, ask) {
                    call(weight, &raw.scores);
                }
            } else if let Some(key) = key {
                self.score_alike((Who::Score(*place), *key), score, question, (nodes, &mut lent));
                call(weight, &lent);
            }
        }
        self.lent.raw = lent;
    }
}
