//! Nominations: nodes on which room is being made for pods.
//!
//! A nomination is a claim of another sort: it charges nobody. It is kept apart from what the API
//! server shows, by name, so that it does not matter whether the node is there yet. At the pick, a
//! pod steps back where one of equal or higher priority is awaited and both do not fit; and a pod
//! tries its own nominated node first. Who would use what his quota only borrows steps back for
//! whom it is guaranteed, whatever their priorities: he would have to go again at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::decide::{Decider, Looked, NodeScores};
use crate::fact::Uid;
use crate::judge::Trial;
use crate::ledger::{ClaimError, Ledger, NodeIndex, Passing, PodRow};
use crate::needs::Amounts;
use crate::node_set::NodeSet;
use crate::reservations::Place;

/// Whose nominations count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nominators {
    /// Whom this scheduler stands for; all are taken for its own where none is named.
    pub own: Box<[Arc<str>]>,
    /// Whether room that others make for pods is left to those of higher priority.
    pub heeds_others: bool,
}

impl Nominators {
    /// Whether a pod is another scheduler's.
    pub(crate) fn are_others(&self, scheduler: &str) -> bool {
        !self.own.is_empty() && !self.own.iter().any(|own| **own == *scheduler)
    }
}

/// The node on which room is made for a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nomination {
    /// What the API server shows.
    told: Option<Arc<str>>,
    /// What we decided since, which may be that there is none.
    own: Option<Option<Arc<str>>>,
}

impl Nomination {
    /// What stands after the API server showed a pod: what we decided, until it shows something
    /// else than it did when we decided.
    pub(crate) fn told(old: Option<&Self>, told: Option<Box<str>>) -> Self {
        let told: Option<Arc<str>> = told.map(Into::into);
        let own = old.filter(|old| old.told == told).and_then(|old| old.own.clone());
        Self { told, own }
    }

    /// The node, where there is one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.own.as_ref().unwrap_or(&self.told).as_deref()
    }
}

impl Ledger {
    /// Whose nominations count of the pods that are told from now on.
    pub fn heed(&mut self, nominators: Nominators) {
        self.nominators = nominators;
    }

    /// Tells pods of other schedulers than these from our own, and counts their nominations too.
    pub fn stand_for(&mut self, own: impl IntoIterator<Item = Arc<str>>) {
        self.heed(Nominators { own: own.into_iter().collect(), heeds_others: true });
    }

    /// Decides on which node room is made for a pod, or that no longer any is.
    ///
    /// # Errors
    /// When the pod is gone.
    pub fn nominate(&mut self, uid: &Uid, node: Option<&str>) -> Result<(), ClaimError> {
        let row = self.pods.get_mut(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
        let mut new = row.nomination.clone();
        new.own = Some(node.map(Into::into));
        self.nominations.follow(uid, row.nomination.node(), new.node());
        row.nomination = new;
        Ok(())
    }

    /// The node on which room is made for a pod.
    #[must_use]
    pub fn nominated(&self, uid: &Uid) -> Option<&str> {
        self.pod(uid).and_then(|row| row.nomination.node())
    }

    /// Pods that wait for room on a node. Those that may not be tried do not count, nor do those
    /// that have a node by now, nor those of other schedulers where these are not heeded.
    pub fn awaited(&self, node: &str) -> impl Iterator<Item = &Uid> {
        let counts = |row: &PodRow| {
            !row.is_placed() && !row.gated && (self.nominators.heeds_others || !row.is_anothers)
        };
        self.nominations.with(node).filter(move |uid| self.pod(uid).is_some_and(counts))
    }

    /// Those of them to whom a pod has to leave the room, as they would come.
    pub(crate) fn awaited_before(&self, node: &str, uid: &Uid, priority: i32) -> Vec<Passing> {
        let mut others = self.awaited(node).filter(|other| *other != uid).peekable();
        if others.peek().is_none() {
            return Vec::new();
        }
        let rows = others.filter_map(|other| self.pod(other));
        let borrower = self.pod(uid).and_then(|row| self.borrower_of(row));
        let is_owed = |row: &PodRow| borrower.as_ref().is_some_and(|own| self.owes(own, row));
        // Who schedules beside us leaves room to our pods as little as to his own.
        let goes_first = |row: &&PodRow| match row.is_anothers {
            true => row.priority > priority,
            false => row.priority >= priority || is_owed(row),
        };
        let rows = rows.filter(goes_first);
        // Whoever is awaited is counted, even while it is being deleted.
        rows.map(|row| Passing { deleting: false, ..row.passing() }).collect()
    }

    /// What pods ask for to whom one of this priority has to leave the room on a node.
    #[must_use]
    pub fn awaited_amounts(&self, node: NodeIndex, uid: &Uid, priority: i32) -> Amounts {
        let mut all = Amounts::default();
        for other in self.awaited_before(self.nodes.name(node), uid, priority) {
            all.add(&self.asks.requests.get(other.ask.taken).charged, 1);
        }
        all
    }

    /// Nodes with pods to whom a pod has to leave the room.
    pub(crate) fn promised(&self, uid: &Uid, priority: i32) -> Vec<(NodeIndex, Vec<Passing>)> {
        let nodes = self.nominations.names().filter_map(|name| {
            let node = self.nodes.find(name).filter(|node| self.nodes.present().contains(*node));
            Some((node?, self.awaited_before(name, uid, priority)))
        });
        nodes.filter(|(_, others)| !others.is_empty()).collect()
    }
}

impl Decider {
    /// The place for a pod, or none where no node can take it: on the node on which room was made for it
    /// where that can take it now, or else in a reservation that is for it, or else on the best node.
    /// `tie` differs from pod to pod.
    ///
    /// # Errors
    /// When the pod is gone or has a node.
    pub fn choose(
        &mut self,
        ledger: &mut Ledger,
        uid: &Uid,
        tie: u64,
    ) -> Result<Option<Place>, ClaimError> {
        let row = ledger.pod(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
        if row.is_placed() {
            return Err(ClaimError::Placed(uid.clone()));
        }
        let ask = row.ask;
        self.looked = Looked::ONE;
        if let Some(place) = self.own_place(ledger, uid) {
            return Ok(Some(place));
        }
        if ledger.takeover(ask).is_some() {
            return Ok(self.taking_over(ledger, uid, tie));
        }
        self.step_back(ledger, uid);
        let picked = self.pick(ledger, ask, tie);
        self.except = NodeSet::new();
        match picked {
            Some(node) => Ok(Some(Place::on(node))),
            None => Ok(self.amid(ledger, uid, tie)),
        }
    }

    /// The place that is a pod's own already: on the node on which room was made for it, or in a
    /// reservation that is for it.
    pub(crate) fn own_place(&mut self, ledger: &mut Ledger, uid: &Uid) -> Option<Place> {
        self.made_room(ledger, uid).or_else(|| self.inside(ledger, uid))
    }

    /// The place on the node on which room was made for a pod, where that can take it now.
    pub fn made_room(&self, ledger: &mut Ledger, uid: &Uid) -> Option<Place> {
        let row = ledger.pod(uid)?;
        let (ask, priority) = (row.ask, row.priority);
        let node = row.nomination.node().and_then(|name| ledger.nodes.find(name))?;
        if !ledger.nodes.present().contains(node) || self.refused_everywhere(ledger, ask).is_some()
        {
            return None;
        }
        let others = ledger.awaited_before(ledger.nodes.name(node), uid, priority);
        let mut trial = Trial::new(ledger, &self.profile.filters, ask);
        trial.place_on(&others, node).ok().map(|within| Place { node, within })
    }

    /// All nodes that a pod that waits could get; none where it is gone.
    pub fn able(&mut self, ledger: &mut Ledger, uid: &Uid) -> NodeSet {
        let Some(ask) = ledger.pod(uid).map(|row| row.ask) else { return NodeSet::new() };
        self.step_back(ledger, uid);
        let able = self.feasible(ledger, ask).clone();
        self.except = NodeSet::new();
        able
    }

    /// The best of some nodes for a pod that waits, when this is added to what each is worth; none
    /// where none of them can take it. `tie` differs from pod to pod.
    pub fn choose_among(
        &mut self,
        ledger: &mut Ledger,
        uid: &Uid,
        added: &BTreeMap<NodeIndex, i64>,
        tie: u64,
    ) -> Option<NodeIndex> {
        let ask = ledger.pod(uid)?.ask;
        self.step_back(ledger, uid);
        for node in ledger.nodes.present().iter().filter(|node| !added.contains_key(node)) {
            self.except.insert(node);
        }
        let picked = self.pick_with(ledger, ask, added, tie);
        self.except = NodeSet::new();
        picked
    }

    /// What each plugin gives each node that can take a pod that waits.
    ///
    /// # Errors
    /// When the pod is gone.
    pub fn scores_for(
        &mut self,
        ledger: &mut Ledger,
        uid: &Uid,
    ) -> Result<Vec<NodeScores>, ClaimError> {
        let row = ledger.pod(uid).ok_or_else(|| ClaimError::NoPod(uid.clone()))?;
        let ask = row.ask;
        self.step_back(ledger, uid);
        let scores = self.scores(ledger, ask);
        self.except = NodeSet::new();
        Ok(scores)
    }

    /// Leaves nodes out that pods of equal or higher priority are awaited on and that cannot take
    /// both, until the next pick.
    fn step_back(&mut self, ledger: &mut Ledger, uid: &Uid) {
        self.except = NodeSet::new();
        if ledger.nominations.is_empty() {
            return;
        }
        let Some(row) = ledger.pod(uid) else { return };
        let (ask, promised) = (row.ask, ledger.promised(uid, row.priority));
        if promised.is_empty() {
            return;
        }
        let mut trial = Trial::new(ledger, &self.profile.filters, ask);
        let refusing =
            promised.iter().filter(|(node, others)| trial.refusal_with(others, *node).is_some());
        self.except = refusing.map(|(node, _)| *node).collect();
    }
}
