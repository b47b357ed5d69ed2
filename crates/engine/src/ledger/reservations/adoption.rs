//! Pods that run and that a reservation takes over. That they use it is decided before they say so: until
//! they do it is kept apart from what they say, as a claim is.

use super::{ReservationIndex, Used};
use crate::fact::Allotment;
use crate::fact::{PodFact, PodRef, ReservationRef, Uid, Version};
use crate::ledger::{Ledger, NodeIndex, PodRow, Way};

/// That a pod uses a reservation, before it says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    /// The reservation.
    pub by: ReservationRef,
    /// The version of the pod in which it is written, once it is: what the pod says from then on is how
    /// it is, and what it said before is not.
    pub written: Option<Version>,
}

impl Ledger {
    /// A reservation that was given a node takes over pods there.
    pub fn adopt(&mut self, by: &Uid, pods: &[Uid]) {
        let Some(rules) = self.reservations.rules(by) else { return };
        let own = ReservationRef { name: rules.name.clone(), uid: by.clone() };
        let index = self.reservations.place(by);
        for uid in pods {
            let Some(row) = self.pods.get_mut(uid) else { continue };
            let used = row.allotment.map(|id| self.asks.allotments.get(id));
            let used = used.and_then(|allotment| allotment.reservation.as_ref());
            if used.is_some_and(|used| used.uid == *by) {
                continue;
            }
            row.adoption = Some(Box::new(Adoption { by: own.clone(), written: None }));
            self.reservations.rows[index.get()].adopts.insert(uid.clone());
            self.put_use(uid, Some(own.clone()));
        }
    }

    /// That a reservation takes over a pod is written on it, and made this version of it.
    pub(crate) fn adoption_is_written(&mut self, by: &Uid, pod: &Uid, version: Version) {
        let adoption = self.pods.get_mut(pod).and_then(|row| row.adoption.as_mut());
        if let Some(adoption) = adoption.filter(|adoption| adoption.by.uid == *by) {
            adoption.written = Some(version);
        }
    }

    /// The same of all that it takes over, in versions that cannot be told.
    #[cfg(test)]
    pub(crate) fn adoptions_are_written(&mut self, by: &Uid) {
        let Some(index) = self.reservations.by_uid.get(by) else { return };
        for pod in self.reservations.rows[index.get()].adopts.clone() {
            self.adoption_is_written(by, &pod, Version::default());
        }
    }

    /// A reservation takes nobody over after all. Whoever says already that it uses it will say that it
    /// does not.
    pub(in crate::ledger) fn end_adoptions(&mut self, index: ReservationIndex) {
        let adopts = std::mem::take(&mut self.reservations.rows[index.get()].adopts);
        for uid in adopts {
            if let Some(row) = self.pods.get_mut(&uid) {
                row.adoption = None;
                self.put_use(&uid, None);
            }
        }
    }

    /// What a pod got that says this now, and whether it is taken over before it says so.
    pub(in crate::ledger) fn heed_adoption(
        &mut self,
        fact: &PodFact,
    ) -> (Option<Allotment>, Option<Box<Adoption>>) {
        let told = fact.allotment.clone().filter(|_| fact.node.is_some());
        let adoption = self.pods.get(&fact.uid).and_then(|old| old.adoption.clone());
        let Some(adoption) = adoption else { return (told, None) };
        let says_so =
            told.as_ref().is_some_and(|told| told.reservation.as_ref() == Some(&adoption.by));
        let is_later = |written: Version| fact.version.0 >= written.0;
        if says_so || adoption.written.is_some_and(is_later) || fact.node.is_none() {
            self.forget_adoption(&adoption, &fact.uid);
            return (told, None);
        }
        let reservation = Some(adoption.by.clone());
        (Some(Allotment { reservation, ..told.unwrap_or_default() }), Some(adoption))
    }

    /// A pod is gone, or says itself whom it uses.
    pub(in crate::ledger) fn forget_adoption(&mut self, adoption: &Adoption, pod: &Uid) {
        if let Some(index) = self.reservations.by_uid.get(&adoption.by.uid).copied() {
            self.reservations.rows[index.get()].adopts.remove(pod);
            self.reservations.free_if_unknown(index);
        }
    }

    /// A pod that is on a node uses this reservation now, or none.
    fn put_use(&mut self, uid: &Uid, reservation: Option<ReservationRef>) {
        let Some(row) = self.pods.get_mut(uid) else { return };
        let (Some(node), old) = (row.node(), row.passing()) else { return };
        let own = row.allotment.map(|id| self.asks.allotments.get(id).clone());
        let own = Allotment { reservation, ..own.unwrap_or_default() };
        let is_any = !own.is_shared() || own.reservation.is_some();
        row.allotment = is_any.then(|| self.asks.allotments.hold(own).0);
        let new = row.passing();
        // The place of the node is not given up in between.
        self.nodes.pin(node);
        self.touch(old);
        self.shift_load(node, old, Way::Out);
        self.shift_load(node, new, Way::In);
        self.touch(new);
        self.nodes.unpin(node);
        self.release_allotment(old.allotment);
    }

    /// Pods that use a reservation on a node: that of its claim, or where it is.
    fn users_on(&self, uid: &Uid, node: NodeIndex) -> Vec<PodRef> {
        let user = |(_, pod): &(i32, Uid)| {
            let row: &PodRow = self.pods.get(pod).filter(|row| !row.is_reservation())?;
            let used = self.asks.allotments.get(row.allotment?).reservation.as_ref()?;
            (used.uid == *uid).then(|| PodRef {
                uid: pod.clone(),
                namespace: row.namespace.clone(),
                name: row.name.clone(),
                is_reservation: false,
            })
        };
        self.residents.on(node).iter().filter_map(user).collect()
    }

    /// Pods that a reservation takes over on the node that it gets, and those elsewhere that say that they
    /// use it: it went to that node once, and did not come there.
    #[must_use]
    pub fn adopted(&self, uid: &Uid) -> (Vec<PodRef>, Vec<PodRef>) {
        let own = self.pods.get(uid).and_then(|row| row.node());
        let used: &std::collections::BTreeMap<NodeIndex, Used> =
            match self.reservations.by_uid.get(uid) {
                Some(index) => &self.reservations.rows[index.get()].used,
                None => return (Vec::new(), Vec::new()),
            };
        let here = own.map(|node| self.users_on(uid, node)).unwrap_or_default();
        let present = self.nodes.present();
        let others = used.keys().filter(|node| Some(**node) != own && present.contains(**node));
        (here, others.flat_map(|node| self.users_on(uid, *node)).collect())
    }
}
