//! Pods that have to go for others, from when that is decided: they are asked one after the other, and are seen to go
//! later still. Meanwhile nobody else is asked for the same room. And a controller may have made new members of a gang
//! before the last is asked: a gang that goes whole starts whole again, so that those who come wait for each other.

use std::collections::BTreeSet;

use api::pod_group::GangId;

use super::Engine;
use super::going_for::GoingFor;
use crate::fact::Uid;
use crate::ledger::Leaves;
use crate::moment::Moment;
use crate::preemption::Victim;

/// Who is being asked to go.
#[derive(Debug, Default)]
pub(super) struct Leavers(GoingFor);

impl Leavers {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Engine {
    /// These have to go for pods, for each of them some.
    pub(super) fn see_off<'a>(
        &mut self,
        all: impl IntoIterator<Item = (&'a Uid, &'a [Victim])>,
        now: Moment,
    ) {
        let mut gangs = BTreeSet::new();
        for (uid, victims) in all {
            // Nobody may have been asked of those who had to go for it before.
            self.stay(uid, &mut gangs);
            let victims: BTreeSet<Uid> = victims.iter().map(|own| own.pod.uid.clone()).collect();
            gangs.extend(victims.iter().filter_map(|uid| self.ledger.see_off(uid, Leaves::Soon)));
            self.leavers.0.put(uid, victims);
        }
        self.settle_left(gangs, now);
    }

    /// Those who have to go for a pod were asked to.
    pub(super) fn leavers_are_asked(&mut self, uid: &Uid) {
        self.leavers.0.remove(uid);
    }

    /// Nobody has to go for a pod any longer: who was not asked yet stays, unless he has to go for another.
    pub(super) fn keep_leavers(&mut self, uid: &Uid, now: Moment) {
        let mut gangs = BTreeSet::new();
        self.stay(uid, &mut gangs);
        self.settle_left(gangs, now);
    }

    /// Of those who have to go for a pod these are not asked to: they may be gone, or have no node.
    pub fn spare(&mut self, uid: &Uid, spared: &[Uid], now: Moment) {
        let Some(mut left) = self.leavers.0.remove(uid) else { return };
        let spared: BTreeSet<Uid> = left.extract_if(.., |own| spared.contains(own)).collect();
        self.leavers.0.put(uid, left);
        let gangs = self.stay_unless_asked(spared).collect();
        self.settle_left(gangs, now);
    }

    /// The same of all; gangs that go on with some of them again are added to others.
    fn stay(&mut self, uid: &Uid, gangs: &mut BTreeSet<GangId>) {
        if let Some(own) = self.leavers.0.remove(uid) {
            gangs.extend(self.stay_unless_asked(own));
        }
    }

    fn stay_unless_asked(&mut self, pods: BTreeSet<Uid>) -> impl Iterator<Item = GangId> {
        let Self { leavers, ledger, .. } = self;
        let stays = pods.into_iter().filter(move |uid| leavers.0.askers(uid).next().is_none());
        stays.filter_map(move |uid| ledger.see_off(&uid, Leaves::Not))
    }

    fn settle_left(&mut self, gangs: BTreeSet<GangId>, now: Moment) {
        if !gangs.is_empty() {
            self.settle_gangs(&gangs.into_iter().collect::<Vec<_>>(), now);
        }
    }
}
