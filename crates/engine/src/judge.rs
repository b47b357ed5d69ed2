//! What plugins say of single nodes while pods come and go in thought.
//!
//! Preemption asks of each node whether a pod would fit without some of its pods, and a node that
//! is promised to others is asked with them on it. What a plugin reads of the node itself is in
//! the ledger, where a [`Trial`] moves it and moves it back. What follows from the whole cluster is
//! gathered once into a [`Judge`], which then follows every pod that comes or goes, so that a
//! question costs the same in a cluster of any size.

use crate::ledger::{Ask, Changes, Ledger, NodeIndex, Passing, Way};
use crate::node_set::NodeSet;
use crate::plugin::{Filter, Plugin, reserving};
use crate::plugins::reservation::Reservation;
use crate::reason::Refusal;

/// What of a filter follows from pods that come and go.
pub enum Judging {
    /// The filter has nothing to say about the pod as things are. As upstream, it is not asked
    /// again when others come.
    Nothing,
    /// What it says of a node does not follow from the pods on it.
    Fixed,
    /// The same, and it has nothing against these nodes.
    Known(NodeSet),
    /// What it says of a node follows from the ledger's view of that node.
    Load,
    /// What it says of a node follows from pods elsewhere, too.
    Whole(Box<dyn Judge>),
}

/// What a plugin knows of the cluster for one ask.
///
/// Pods move on one node at a time, and only that node is asked about before they are back.
pub trait Judge: Send {
    /// A pod comes to a node or leaves it.
    fn follow(&mut self, ledger: &Ledger, pod: Passing, node: NodeIndex, way: Way);

    /// Why the node cannot take the pod that is asked about; none where it can.
    fn refusal(&self, ledger: &Ledger, node: NodeIndex) -> Option<Refusal>;
}

/// What a [`Trial`] found out before it was interrupted. It is true as long as the ledger is what it
/// was.
pub(crate) struct Judges(Vec<Judging>);

/// A ledger in which pods come to a node and leave it, in thought. All are back at the end.
pub struct Trial<'a> {
    ledger: &'a mut Ledger,
    filters: &'a [Box<dyn Filter>],
    judges: Vec<Judging>,
    ask: Ask,
    /// Whether it is asked about what reservations hold.
    is_within: bool,
    /// Pods that stay where they are, in what the pod that is asked about holds.
    adopted: Vec<Passing>,
    moved: Vec<(Passing, NodeIndex, Way)>,
    /// What is known of changes: nobody but this trial sees its own.
    changes: Changes,
}

impl<'a> Trial<'a> {
    /// Asks these filters about a pod.
    pub fn new(ledger: &'a mut Ledger, filters: &'a [Box<dyn Filter>], ask: Ask) -> Self {
        let judges = filters.iter().map(|filter| filter.judge(ledger, ask)).collect();
        Self::resumed(ledger, filters, ask, Judges(judges))
    }

    /// Goes on where it was interrupted.
    pub(crate) fn resumed(
        ledger: &'a mut Ledger,
        filters: &'a [Box<dyn Filter>],
        ask: Ask,
        judges: Judges,
    ) -> Self {
        let changes = std::mem::take(&mut ledger.nodes.load_changed);
        Self {
            ledger,
            filters,
            judges: judges.0,
            ask,
            is_within: false,
            adopted: Vec::new(),
            moved: Vec::new(),
            changes,
        }
    }

    /// Interrupts it: all pods are back.
    pub(crate) fn interrupt(mut self) -> Judges {
        self.take_back(0);
        Judges(std::mem::take(&mut self.judges))
    }

    /// Finds out for many nodes at once what does not follow from the pods on them.
    pub fn prepare(&mut self, nodes: &NodeSet) {
        for (filter, judging) in self.filters.iter().zip(&mut self.judges) {
            if matches!(judging, Judging::Fixed) {
                *judging = match filter.key(self.ledger, self.ask) {
                    None => Judging::Nothing,
                    Some(_) => {
                        let mut fine = nodes.clone();
                        filter.filter(self.ledger, self.ask, &mut fine);
                        Judging::Known(fine)
                    }
                };
            }
        }
    }

    /// The ledger as it is in thought.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        self.ledger
    }

    /// What the pod asks for.
    pub(crate) fn ask(&self) -> Ask {
        self.ask
    }

    /// Who is asked.
    pub(crate) fn filters(&self) -> &'a [Box<dyn Filter>] {
        self.filters
    }

    /// Who holds capacity for pods that are still to come, where anybody does.
    pub(crate) fn reserving(&self) -> Option<&'a Reservation> {
        reserving(self.filters)
    }

    /// A pod comes to a node or leaves it.
    pub fn shift(&mut self, pod: Passing, node: NodeIndex, way: Way) {
        self.turn(pod, node, way);
        self.moved.push((pod, node, way));
    }

    fn turn(&mut self, pod: Passing, node: NodeIndex, way: Way) {
        self.ledger.shift_load(node, pod, way);
        for judge in &mut self.judges {
            if let Judging::Whole(judge) = judge {
                judge.follow(self.ledger, pod, node, way);
            }
        }
    }

    /// How many moves there were: the point to come back to.
    #[must_use]
    pub fn mark(&self) -> usize {
        self.moved.len()
    }

    /// Takes back every move after a point.
    pub fn take_back(&mut self, mark: usize) {
        while self.moved.len() > mark {
            if let Some((pod, node, way)) = self.moved.pop() {
                self.turn(pod, node, way.back());
            }
        }
    }

    /// Pods that have left a node in thought.
    pub(crate) fn left(&self, node: NodeIndex) -> Vec<Passing> {
        let mut left = Vec::new();
        for (pod, _, way) in self.moved.iter().filter(|(_, own, _)| *own == node) {
            match way {
                Way::Out => left.push(*pod),
                Way::In => {
                    take_one(&mut left, *pod);
                }
            }
        }
        left
    }

    /// Forgets every move after a point, where they cancel each other out.
    pub(crate) fn forget(&mut self, mark: usize) {
        self.moved.truncate(mark);
    }

    /// Why a node cannot take the pod, and who says so; none where it can.
    #[must_use]
    pub fn refusal(&self, node: NodeIndex) -> Option<(Plugin, Refusal)> {
        self.first(node, |_| true)
    }

    /// The same where pods moved since a node was last asked, and where it was not refused for
    /// what they do not change.
    #[must_use]
    pub fn refusal_by_load(&self, node: NodeIndex) -> Option<(Plugin, Refusal)> {
        self.first(node, |judging| !matches!(judging, Judging::Fixed | Judging::Known(_)))
    }

    fn first(
        &self,
        node: NodeIndex,
        asked: impl Fn(&Judging) -> bool,
    ) -> Option<(Plugin, Refusal)> {
        self.said(node, asked).next()
    }

    /// What those say who refuse a node, in their order, and who they are.
    fn said(
        &self,
        node: NodeIndex,
        asked: impl Fn(&Judging) -> bool,
    ) -> impl Iterator<Item = (Plugin, Refusal)> {
        let is_asked =
            |filter: &dyn Filter| !self.is_within || filter.plugin() != Plugin::Reservation;
        let all = self.filters.iter().zip(&self.judges);
        let all = all.filter(move |(filter, judging)| asked(judging) && is_asked(&***filter));
        all.filter_map(move |(filter, judging)| {
            let refusal = match judging {
                Judging::Nothing => None,
                Judging::Known(fine) if fine.contains(node) => None,
                _ if !self.adopted.is_empty() && !matches!(judging, Judging::Whole(_)) => {
                    filter.refusal_adopting(self.ledger, self.ask, node, &self.adopted)
                }
                Judging::Fixed | Judging::Known(_) | Judging::Load => {
                    filter.refusal(self.ledger, self.ask, node)
                }
                Judging::Whole(judge) => judge.refusal(self.ledger, node),
            };
            Some((filter.plugin(), refusal?))
        })
    }

    /// Why a node cannot take the pod, from everybody who refuses it.
    #[must_use]
    pub fn refusals(&self, node: NodeIndex) -> Vec<(Plugin, Refusal)> {
        self.said(node, |_| true).collect()
    }

    /// The same where some are not there, whose room the pod is to get, as in
    /// [`Trial::refusal_within`].
    #[must_use]
    pub(crate) fn refusals_within(
        &mut self,
        away: &[Passing],
        node: NodeIndex,
    ) -> Vec<(Plugin, Refusal)> {
        self.within(away, node, |own| own.refusals(node))
    }

    /// Why a node cannot take a reservation that takes over these, from everybody who refuses it: their
    /// room is its own, and they stay.
    #[must_use]
    pub(crate) fn refusals_adopting(
        &mut self,
        pods: &[Passing],
        node: NodeIndex,
    ) -> Vec<(Plugin, Refusal)> {
        self.adopting(pods, |own| own.refusals_within(pods, node))
    }

    /// The same from the first who refuses it, now or once others are there.
    #[must_use]
    pub(crate) fn refusal_adopting(
        &mut self,
        pods: &[Passing],
        others: &[Passing],
        node: NodeIndex,
    ) -> Option<(Plugin, Refusal)> {
        self.adopting(pods, |own| own.refusal_within(pods, others, node))
    }

    fn adopting<T>(&mut self, pods: &[Passing], ask: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.adopted, pods.to_vec());
        let found = ask(self);
        self.adopted = before;
        found
    }

    /// What is so of a node while some are not there, whose room the pod is to get.
    fn within<T>(
        &mut self,
        away: &[Passing],
        node: NodeIndex,
        ask: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let mark = self.mark();
        for held in away {
            self.shift(*held, node, Way::Out);
        }
        let before = std::mem::replace(&mut self.is_within, true);
        let found = ask(self);
        self.is_within = before;
        self.take_back(mark);
        found
    }

    /// Why a node cannot take the pod now, or will not be able to once others are there.
    #[must_use]
    pub fn refusal_with(
        &mut self,
        others: &[Passing],
        node: NodeIndex,
    ) -> Option<(Plugin, Refusal)> {
        let with = self.among(others, node, Self::refusal);
        with.or_else(|| self.refusal(node))
    }

    /// The same where some are not there, whose room the pod is to get: who says what it must use is not
    /// asked.
    #[must_use]
    pub(crate) fn refusal_within(
        &mut self,
        away: &[Passing],
        others: &[Passing],
        node: NodeIndex,
    ) -> Option<(Plugin, Refusal)> {
        self.within(away, node, |own| own.refusal_with(others, node))
    }

    /// Why a node cannot take the pod, as it is told: what is free there is not for a pod that must use a
    /// reservation, so that others are asked as if those that are for it were not there.
    #[must_use]
    pub(crate) fn told_refusal(
        &mut self,
        others: &[Passing],
        node: NodeIndex,
    ) -> Option<(Plugin, Refusal)> {
        if self.ledger.takeover(self.ask).is_some() {
            return self.place_on(others, node).err();
        }
        let own = match self.reserving().filter(|_| self.ledger.must_use(self.ask)) {
            Some(filter) => filter.refusal(self.ledger, self.ask, node),
            None => return self.refusal_with(others, node),
        };
        let away = self.ledger.passing_meant(self.ask, node);
        let told = self.refusal_within(&away, others, node);
        // Of too little, the reservations know more.
        let told = told.filter(|(plugin, _)| own.is_none() || *plugin != Plugin::NodeResourcesFit);
        told.or_else(|| Some((Plugin::Reservation, own?)))
    }

    /// Who refuses a node where the pod would use what reservations hold there; none where none is for it.
    #[must_use]
    pub(crate) fn refused_within(&mut self, others: &[Passing], node: NodeIndex) -> Option<Plugin> {
        let away = match self.ledger.is_ignoring(self.ask) {
            true => self.ledger.passing_on(node),
            false => self.ledger.passing_meant(self.ask, node),
        };
        if away.is_empty() {
            return None;
        }
        self.refusal_within(&away, others, node).map(|(plugin, _)| plugin)
    }

    /// The same as [`Trial::refusal_by_load`] for [`Trial::refusal_with`].
    #[must_use]
    pub fn refusal_by_load_with(
        &mut self,
        others: &[Passing],
        node: NodeIndex,
    ) -> Option<(Plugin, Refusal)> {
        let with = self.among(others, node, Self::refusal_by_load);
        with.or_else(|| self.refusal_by_load(node))
    }

    fn among<T>(
        &mut self,
        others: &[Passing],
        node: NodeIndex,
        ask: impl FnOnce(&Self, NodeIndex) -> Option<T>,
    ) -> Option<T> {
        if others.is_empty() {
            return None;
        }
        let mark = self.mark();
        for other in others {
            self.shift(*other, node, Way::In);
        }
        let found = ask(self, node);
        self.take_back(mark);
        found
    }
}

/// Takes one that is like this out of some pods, and says whether there was one.
pub(crate) fn take_one(pods: &mut Vec<Passing>, pod: Passing) -> bool {
    let place = pods.iter().position(|own| *own == pod);
    place.map(|place| pods.swap_remove(place)).is_some()
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.take_back(0);
        self.ledger.nodes.load_changed = std::mem::take(&mut self.changes);
    }
}
