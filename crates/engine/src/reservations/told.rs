//! What is in the way between a pod and single reservations, for people who ask.
//!
//! Everything is asked as it is decided: a pod of its node as if the reservation were not there, and a
//! reservation as if the pods had left that it takes over.

use super::Unsuited;
use super::suit::lack;
use super::takeover::Taken;
use crate::fact::Uid;
use crate::judge::Trial;
use crate::ledger::{Ask, Ledger, NodeIndex, Passing};
use crate::plugin::{Filter as _, Plugin};
use crate::reason::{Code, Reason, Refusal, ReservationReason};

/// A reservation that a pod could use, or a pod that a reservation could take over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Met {
    /// Its name; that of a pod with its namespace.
    pub(crate) name: Box<str>,
    /// Where it is; none where it has no node.
    pub(crate) node: Option<NodeIndex>,
    /// Who is against it, and why; nobody where nothing is in the way.
    pub(crate) refusals: Vec<(Plugin, Refusal)>,
}

fn refused(why: ReservationReason) -> Vec<(Plugin, Refusal)> {
    vec![(Plugin::Reservation, Refusal::new(Code::Unschedulable, Reason::Reservation(why)))]
}

impl Trial<'_> {
    /// Why a node cannot take the pod, from everybody who refuses it, each in the view in which the pod
    /// would get the node: inside reservations where it must use one, with nobody else's where it may use
    /// all, and without the pods that it takes over.
    pub(crate) fn told_refusals(&mut self, node: NodeIndex) -> Vec<(Plugin, Refusal)> {
        let ask = self.ask();
        let Some(filter) = self.reserving() else { return self.refusals(node) };
        if self.ledger().takeover(ask).is_some() {
            return self.refusals_of_takeover(node);
        }
        if self.ledger().is_ignoring(ask) {
            let away = self.ledger().passing_on(node);
            return self.refusals_within(&away, node);
        }
        if !self.ledger().must_use(ask) {
            return self.refusals(node);
        }
        let own = filter.refusal(self.ledger(), ask, node);
        let away = self.ledger().passing_meant(ask, node);
        let mut told = self.refusals_within(&away, node);
        // Of too little, the reservations know more.
        told.retain(|(plugin, _)| own.is_none() || *plugin != Plugin::NodeResourcesFit);
        told.extend(own.map(|own| (Plugin::Reservation, own)));
        told
    }

    /// The same for a reservation that takes over pods: what that comes to first, then who would be
    /// against it whichever of them it took over.
    fn refusals_of_takeover(&mut self, node: NodeIndex) -> Vec<(Plugin, Refusal)> {
        let Err(first) = self.take_over(&[], node) else { return Vec::new() };
        let away: Vec<Passing> = self.candidates(node).into_iter().map(|one| one.pod).collect();
        let mut told = self.refusals_adopting(&away, node);
        let is_short = |reason: &Reason| {
            matches!(reason, Reason::Reservation(ReservationReason::ShortOfNode { .. }))
        };
        let is_fit = |(plugin, _): &(Plugin, Refusal)| *plugin == Plugin::NodeResourcesFit;
        // What is missing even if all of them left says more than that it is too little.
        if first.1.reasons.iter().all(is_short) && told.iter().any(is_fit) {
            return told;
        }
        told.retain(|one| one.0 != first.0 && !is_fit(one));
        told.insert(0, first);
        told
    }

    /// The reservations that are for the pod or that it names, at most so many, and how many there are.
    pub(crate) fn met_reservations(&mut self, most: usize) -> (Vec<Met>, usize) {
        let ask = self.ask();
        if self.reserving().is_none() || self.ledger().is_ignoring(ask) {
            return (Vec::new(), 0);
        }
        let ledger = self.ledger();
        let mut uids: Vec<Uid> =
            ask.guests.map_or_else(Vec::new, |id| ledger.asks.guests.get(id).0.to_vec());
        let named = ledger.wanted_reservation(ask);
        let found = named.and_then(|name| ledger.reservations.named(name)).cloned();
        let gone = named.filter(|_| found.is_none());
        let stranger = found.filter(|uid| !uids.contains(uid));
        let mut met = Vec::new();
        let all = uids.len() + usize::from(stranger.is_some() || gone.is_some());
        // The one that it names is told first, whatever else is for it.
        let is_named = |uid: &Uid| ledger.reservations.rules(uid).map(|own| &*own.name) == named;
        uids.sort_by_key(|uid| named.is_some() && !is_named(uid));
        uids.truncate(most);
        met.extend(gone.map(|name| Met {
            name: name.into(),
            node: None,
            refusals: refused(ReservationReason::Gone),
        }));
        if let Some(uid) = &stranger {
            met.extend(self.met(uid, |_, _| refused(ReservationReason::NotMeant)));
        }
        for uid in &uids {
            met.extend(self.met(uid, Self::refusals_inside));
        }
        (met, all)
    }

    fn met(
        &mut self,
        uid: &Uid,
        refusals: impl FnOnce(&mut Self, &Uid) -> Vec<(Plugin, Refusal)>,
    ) -> Option<Met> {
        let name = self.ledger().reservations.rules(uid)?.name.clone();
        let node = self.ledger().reservations.find(uid).map(|own| own.node);
        Some(Met { name, node, refusals: refusals(self, uid) })
    }

    /// Why the pod cannot use a reservation that is for it; nobody is against it where it can.
    fn refusals_inside(&mut self, uid: &Uid) -> Vec<(Plugin, Refusal)> {
        let (ask, ledger) = (self.ask(), self.ledger());
        let own = ledger.reservations.find(uid).filter(|own| ledger.is_there(*own));
        let Some((own, filter)) = own.zip(self.reserving()) else {
            return refused(ReservationReason::NotThere);
        };
        let is_named = ledger.wanted_reservation(ask).is_some();
        if let Some(why) = ledger.unsuited(ask, own, filter) {
            return refused(ReservationReason::Unsuited { why, is_named });
        }
        let (node, held) = (own.node, ledger.passing_of(uid));
        let held: Vec<Passing> = held.into_iter().collect();
        self.refusals_within(&held, node)
    }

    /// The pods of a node that the reservation could take over, each for itself, or where it may take over
    /// several, each beside all that it could.
    pub(crate) fn met_takeovers(&mut self, node: NodeIndex) -> Vec<Met> {
        let (all, ask) = (self.candidates(node), self.ask());
        let own = self.ledger().takeover(ask).map(|own| (own.uid.clone(), own.may_be_many));
        let rules = own.and_then(|(uid, may_be_many)| {
            Some((self.ledger().reservations.rules(&uid)?.clone(), may_be_many))
        });
        let (Some((rules, may_be_many)), Some(filter)) = (rules, self.reserving()) else {
            return Vec::new();
        };
        let mut inside = Taken::default();
        all.iter().filter(|one| one.is_inside).for_each(|one| inside.push(one));
        let asked = self.ledger().asks.requests.get(ask.requests).charged.clone();
        let ignores = |name: &str| filter.ignored.contain(name);
        let mut tried = Vec::new();
        for one in all.iter().filter(|one| !one.is_inside) {
            let shares = one.requests.names().any(|name| asked.of(name) > 0);
            let why = match shares {
                false => Some(Unsuited::Nothing),
                true => lack(&rules, &inside.used, &one.requests, &ignores),
            };
            if may_be_many && why.is_none() {
                inside.push(one);
            }
            tried.push((one, why));
        }
        let mut met = Vec::new();
        for (one, why) in tried {
            let refusals = match why {
                Some(why) => refused(ReservationReason::Unsuited { why, is_named: false }),
                None if may_be_many => self.refusals_with(&inside, node),
                None => {
                    inside.push(one);
                    let refusals = self.refusals_with(&inside, node);
                    inside.pop(one);
                    refusals
                }
            };
            met.push(Met { name: self.ledger().told_name(&one.uid), node: Some(node), refusals });
        }
        met
    }

    fn refusals_with(&mut self, taken: &Taken, node: NodeIndex) -> Vec<(Plugin, Refusal)> {
        let refusals = self.refusals_adopting(&taken.pods, node);
        match refusals.is_empty() && !self.covers(&taken.pods, node) {
            true => refused(ReservationReason::Apart),
            false => refusals,
        }
    }
}

impl Ledger {
    /// The reservation that a pod names as the one that it must use.
    fn wanted_reservation(&self, ask: Ask) -> Option<&str> {
        let needs = self.asks.reservations.get(ask.reservation?);
        needs.affinity.as_ref()?.name.as_deref()
    }

    /// A pod as people call it.
    fn told_name(&self, uid: &Uid) -> Box<str> {
        self.pod(uid)
            .map_or_else(Box::default, |row| format!("{}/{}", row.namespace, row.name).into())
    }
}
