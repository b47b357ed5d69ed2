//! What is known of nodes by the state that they are in.
//!
//! To try a pod on the NUMA nodes of a node is dear, and it is done for each pod on each node that
//! changed. But machines of one sort that are used alike answer alike: one of them is asked, and its
//! answer is that of all the others, also of those that come into that state later.

use rustc_hash::FxHashMap;

use super::{Cache, Kept, Question};
use crate::ledger::NodeIndex;
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Key, Score, State, States};

/// Which plugin of the profile it is, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Who {
    /// A filter.
    Filter(usize),
    /// A score.
    Score(usize),
}

/// What a plugin says to a key, by state. Of states that nobody is in any longer there may be some.
#[derive(Default)]
pub(super) struct Known(FxHashMap<State, i32>);

/// More states than twice the nodes of the cluster are in no [`Known`], and some more: then it begins
/// anew, so that states that nobody comes into again do not stay.
const STATES_MORE: usize = 1_024;

/// A node, the state that it is in, and the answer.
pub(super) type Alike = (NodeIndex, State, i32);

/// The one who was asked has not answered yet.
const ASKED: i32 = i32::MIN;

impl Known {
    pub(super) fn bytes(&self) -> usize {
        // The table has a byte of its own for each place.
        self.0.capacity() * (size_of::<(State, i32)>() + 1)
    }

    /// Sorts out who has to be asked: one of each state that nothing is known of, and all that are in
    /// none. All that are in one are told, with their answers.
    fn sort(
        &mut self,
        nodes: &NodeSet,
        state_of: &States<'_>,
        asked: &mut NodeSet,
        alike: &mut Vec<Alike>,
    ) {
        asked.clear();
        alike.clear();
        for node in nodes.iter() {
            let Some(state) = state_of(node) else {
                asked.insert(node);
                continue;
            };
            let answer = *self.0.entry(state).or_insert_with(|| {
                asked.insert(node);
                ASKED
            });
            alike.push((node, state, answer));
        }
    }

    /// The answer about a node. Who was asked for its state gives it, and comes before the others.
    fn answer(&mut self, (_, state, known): Alike, of_asked: impl FnOnce() -> i32) -> i32 {
        if known != ASKED {
            return known;
        }
        let answer = self.0.entry(state).or_insert(ASKED);
        if *answer == ASKED {
            *answer = of_asked();
        }
        *answer
    }
}

impl Cache {
    /// Takes out the nodes that a filter refuses; of those in one state it is asked about one.
    pub(super) fn sift_alike(
        &mut self,
        name: (Who, Key),
        filter: &dyn Filter,
        question: Question<'_>,
        nodes: &mut NodeSet,
    ) {
        let Question { ledger, ask, .. } = question;
        let Some(state_of) = filter.states(ledger, ask) else {
            return filter.filter(ledger, ask, nodes);
        };
        self.with_known(name, ledger.nodes.places(), |known, asked, alike| {
            known.sort(nodes, &state_of, asked, alike);
            filter.filter(ledger, ask, asked);
            nodes.clone_from(asked);
            for own in alike {
                if known.answer(*own, || i32::from(asked.contains(own.0))) != 0 {
                    nodes.insert(own.0);
                }
            }
        });
    }

    /// Writes the raw score of each node to its place; of those in one state the plugin is asked
    /// about one.
    pub(super) fn score_alike(
        &mut self,
        name: (Who, Key),
        score: &dyn Score,
        question: Question<'_>,
        (nodes, raw): (&NodeSet, &mut [i32]),
    ) {
        let Question { ledger, ask, .. } = question;
        let Some(state_of) = score.states(ledger, ask) else {
            return score.score(ledger, ask, nodes, raw);
        };
        self.with_known(name, ledger.nodes.places(), |known, asked, alike| {
            known.sort(nodes, &state_of, asked, alike);
            score.score(ledger, ask, asked, raw);
            for own in alike {
                let place = own.0.get();
                raw[place] = known.answer(*own, || raw[place]);
            }
        });
    }

    /// Does something with what is known in a cluster of so many places, which counts as used now.
    fn with_known(
        &mut self,
        name: (Who, Key),
        places: usize,
        act: impl FnOnce(&mut Known, &mut NodeSet, &mut Vec<Alike>),
    ) {
        let Self { kept, bytes, .. } = self;
        let new = || {
            *bytes += size_of::<Kept>();
            kept.insert(Kept::Known(name, Known::default()))
        };
        let place = *self.known.entry(name).or_insert_with(new);
        let entry = self.kept.use_mut(place);
        let before = entry.bytes();
        let known = answer!(entry, Known);
        if known.0.len() > 2 * places + STATES_MORE {
            known.0.clear();
        }
        act(known, &mut self.lent.asked, &mut self.lent.alike);
        self.weigh(place, before);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::fact::{Fact, NodeFact};
    use crate::ledger::{Ask, Ledger};
    use crate::needs::Needs;
    use crate::plugin::{Normalise, Plugin, Reads};
    use crate::profile::{Profile, Weight};
    use crate::reason::{Code, Reason, Refusal};

    const NODES: usize = 12;
    const SORTS: usize = 3;

    /// Nodes are of three sorts, of which it refuses the first, but for one node that is of none.
    struct BySort(&'static AtomicUsize);

    impl BySort {
        fn sorts(&self) -> States<'_> {
            Box::new(|node| (node.get() > 0).then(|| (node.get() % SORTS) as State))
        }

        fn asked(&self, nodes: &NodeSet) {
            self.0.fetch_add(nodes.len(), Ordering::Relaxed);
        }
    }

    impl Filter for BySort {
        fn plugin(&self) -> Plugin {
            Plugin::NodeNUMAResource
        }

        fn reads(&self) -> Reads {
            Reads::Load
        }

        fn key(&self, _: &Ledger, _: Ask) -> Option<Key> {
            Some(0)
        }

        fn filter(&self, ledger: &Ledger, ask: Ask, nodes: &mut NodeSet) {
            self.asked(nodes);
            nodes.keep_where(|node| self.refusal(ledger, ask, node).is_none());
        }

        fn states<'a>(&'a self, _: &'a Ledger, _: Ask) -> Option<States<'a>> {
            Some(self.sorts())
        }

        fn refusal(&self, _: &Ledger, _: Ask, node: NodeIndex) -> Option<Refusal> {
            let refusal = Refusal::new(Code::Unschedulable, Reason::LoadUnknown);
            node.get().is_multiple_of(SORTS).then_some(refusal)
        }
    }

    impl Score for BySort {
        fn plugin(&self) -> Plugin {
            Plugin::NodeNUMAResource
        }

        fn reads(&self) -> Reads {
            Reads::Load
        }

        fn key(&self, _: &Ledger, _: Ask) -> Option<Key> {
            Some(0)
        }

        fn normalise(&self) -> Normalise {
            Normalise::No
        }

        fn states<'a>(&'a self, _: &'a Ledger, _: Ask) -> Option<States<'a>> {
            Some(self.sorts())
        }

        fn score(&self, _: &Ledger, _: Ask, nodes: &NodeSet, raw: &mut [i32]) {
            self.asked(nodes);
            nodes.each(|node| raw[node] = (node % SORTS * 10) as i32);
        }
    }

    fn node(number: usize, pods_allowed: i64) -> Fact {
        let name = format!("node-{number:02}").into();
        Fact::Node(NodeFact { name, pods_allowed, ..NodeFact::default() })
    }

    #[test]
    fn of_nodes_in_one_state_one_is_asked_and_never_again() {
        static FILTER: AtomicUsize = AtomicUsize::new(0);
        static SCORE: AtomicUsize = AtomicUsize::new(0);
        let profile = Profile::default().filter(BySort(&FILTER));
        let profile = profile.score(BySort(&SCORE), Weight(2));
        let (plan, mut cache) = (super::super::Plan::new(&profile), Cache::default());
        let mut ledger = Ledger::default();
        (0..NODES).for_each(|number| ledger.apply(node(number, 10)));
        let ask = ledger.hold("default", &Default::default(), &Needs::default());
        let mut check = |ledger: &Ledger, asked: [usize; 2]| {
            let question = Question { profile: &profile, plan: &plan, ledger, ask };
            let shape = cache.shape(question);
            for number in 0..NODES {
                let expected = [super::super::INFEASIBLE, 20, 40][number % SORTS];
                assert_eq!(shape.totals[number], expected, "{number}");
                assert_eq!(shape.feasible.contains(NodeIndex::at(number)), number % SORTS > 0);
            }
            let counts = [&FILTER, &SCORE].map(|count| count.swap(0, Ordering::Relaxed));
            assert_eq!(counts, asked);
        };
        // One of each sort, and the one of none, which is refused.
        check(&ledger, [SORTS + 1, SORTS - 1]);
        check(&ledger, [0, 0]);
        // Those that change are of sorts that are known, but for the one of none.
        for number in [0, 1, 2, 3] {
            ledger.apply(node(number, 9));
        }
        check(&ledger, [1, 0]);
    }
}
